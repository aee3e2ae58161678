// XLA's side of a launch: attributes, state, thread pool and errors, through the C interface.
//
// The C++ templates of XLA decode every argument of every call; written against the C interface, a call
// costs less than half of that.
#include "handler.h"

#include <mutex>
#include <string>
#include <string_view>

#include "compiler.h"
#include "fault.h"
#include "run.h"

namespace jwarp {
namespace {

constexpr char kStateName[] = "jwarp_launch_v1_state";

XLA_FFI_TypeId state_type_id = XLA_FFI_UNKNOWN_TYPE_ID;

void delete_state(void* state) { delete static_cast<CallSite*>(state); }

const XLA_FFI_TypeInfo state_type_info = {XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, delete_state};

XLA_FFI_Error* make_error(const XLA_FFI_Api* api, XLA_FFI_Error_Code code, const char* message) {
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, message, code};
  return api->XLA_FFI_Error_Create(&args);
}

// Runs `body`, which returns an XLA error or throws; nothing is thrown into XLA.
template <typename F>
XLA_FFI_Error* guarded(const XLA_FFI_Api* api, F body) noexcept {
  try {
    return body();
  } catch (const Fault& fault) {
    return make_error(api, fault.code(), fault.what());
  } catch (const std::bad_alloc&) {
    return make_error(api, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "jwarp: out of memory");
  } catch (const std::exception& error) {
    return make_error(api, XLA_FFI_Error_Code_INTERNAL, (std::string("jwarp: ") + error.what()).c_str());
  } catch (...) {
    return make_error(api, XLA_FFI_Error_Code_INTERNAL, "jwarp: unknown error");
  }
}

XLA_FFI_Metadata* metadata_query(const XLA_FFI_CallFrame* frame) {
  const auto* extension = frame->extension_start;
  if (extension == nullptr || extension->type != XLA_FFI_Extension_Metadata) return nullptr;
  return reinterpret_cast<const XLA_FFI_Metadata_Extension*>(extension)->metadata;
}

void answer(XLA_FFI_Metadata* metadata, XLA_FFI_TypeId type_id) {
  metadata->api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
  metadata->traits = 0;
  metadata->state_type_id = type_id;
}

// XLA asks for metadata when it registers the handler. The state's type must be known by then, but jaxlib
// registers queued handlers before queued types; so the type is registered here, not from Python.
XLA_FFI_Error* register_state_type(const XLA_FFI_Api* api) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (state_type_id.type_id != 0) return nullptr;
  XLA_FFI_Type_Register_Args args = {XLA_FFI_Type_Register_Args_STRUCT_SIZE,
                                     nullptr,
                                     {kStateName, sizeof(kStateName) - 1},
                                     &state_type_id,
                                     &state_type_info};
  return api->XLA_FFI_Type_Register(&args);
}

const void* find_attribute(const XLA_FFI_CallFrame* frame, std::string_view name, XLA_FFI_AttrType type) {
  for (int64_t i = 0; i < frame->attrs.size; ++i) {
    const XLA_FFI_ByteSpan& span = *frame->attrs.names[i];
    if (std::string_view(span.ptr, span.len) == name && frame->attrs.types[i] == type) {
      return frame->attrs.attrs[i];
    }
  }
  invalid("the custom call lacks the attribute '" + std::string(name) + "', or it has a wrong type");
}

std::string_view string_attribute(const XLA_FFI_CallFrame* frame, std::string_view name) {
  const void* found = find_attribute(frame, name, XLA_FFI_AttrType_STRING);
  const auto* span = static_cast<const XLA_FFI_ByteSpan*>(found);
  return {span->ptr, span->len};
}

Launch launch_attribute(const XLA_FFI_CallFrame* frame) {
  const void* found = find_attribute(frame, "launch", XLA_FFI_AttrType_ARRAY);
  const auto* array = static_cast<const XLA_FFI_Array*>(found);
  if (array->dtype != XLA_FFI_DataType_S64) invalid("the attribute 'launch' is not an array of int64");
  return Launch(static_cast<const int64_t*>(array->data), static_cast<int64_t>(array->size));
}

class XlaPool final : public Pool {
 public:
  explicit XlaPool(const XLA_FFI_CallFrame* frame) : api_(frame->api), context_(frame->ctx) {}

  int64_t threads() override {
    int64_t count = 1;
    XLA_FFI_ThreadPool_NumThreads_Args args = {XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, nullptr,
                                               context_, &count};
    return succeeded(api_->XLA_FFI_ThreadPool_NumThreads(&args)) ? count : 1;
  }

  bool schedule(Task task, void* data) override {
    XLA_FFI_ThreadPool_Schedule_Args args = {XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, nullptr, context_,
                                             task, data};
    return succeeded(api_->XLA_FFI_ThreadPool_Schedule(&args));
  }

 private:
  bool succeeded(XLA_FFI_Error* error) {
    if (error == nullptr) return true;
    XLA_FFI_Error_Destroy_Args args = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
    api_->XLA_FFI_Error_Destroy(&args);
    return false;
  }

  const XLA_FFI_Api* api_;
  XLA_FFI_ExecutionContext* context_;
};

XLA_FFI_Error* create_state(const XLA_FFI_CallFrame* frame) {
  Kernel& kernel = require_kernel(std::string(string_attribute(frame, "fingerprint")),
                                  string_attribute(frame, "program"));
  auto site = std::make_unique<CallSite>(kernel, launch_attribute(frame));
  XLA_FFI_State_Set_Args args = {XLA_FFI_State_Set_Args_STRUCT_SIZE,
                                 nullptr,
                                 frame->ctx,
                                 XLA_FFI_ExecutionStage_INSTANTIATE,
                                 &state_type_id,
                                 site.get()};
  if (XLA_FFI_Error* error = frame->api->XLA_FFI_State_Set(&args)) return error;
  site.release();
  return nullptr;
}

XLA_FFI_Error* run_state(const XLA_FFI_CallFrame* frame) {
  XLA_FFI_State_Get_Args args = {XLA_FFI_State_Get_Args_STRUCT_SIZE,
                                 nullptr,
                                 frame->ctx,
                                 XLA_FFI_ExecutionStage_INSTANTIATE,
                                 &state_type_id,
                                 nullptr};
  if (XLA_FFI_Error* error = frame->api->XLA_FFI_State_Get(&args)) return error;
  const Buffers buffers = {frame->args.args, frame->args.size, frame->rets.rets, frame->rets.size};
  XlaPool pool(frame);
  run_compiling(*static_cast<CallSite*>(args.state), buffers, pool,
                [frame] { return string_attribute(frame, "program"); });
  return nullptr;
}

}  // namespace

XLA_FFI_Error* instantiate_launch(XLA_FFI_CallFrame* frame) {
  if (XLA_FFI_Metadata* metadata = metadata_query(frame)) {
    if (XLA_FFI_Error* error = register_state_type(frame->api)) return error;
    answer(metadata, state_type_id);
    return nullptr;
  }
  return guarded(frame->api, [frame] { return create_state(frame); });
}

XLA_FFI_Error* execute_launch(XLA_FFI_CallFrame* frame) {
  if (XLA_FFI_Metadata* metadata = metadata_query(frame)) {
    answer(metadata, XLA_FFI_UNKNOWN_TYPE_ID);
    return nullptr;
  }
  return guarded(frame->api, [frame] { return run_state(frame); });
}

}  // namespace jwarp
