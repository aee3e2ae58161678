// XLA's side of a launch on the CPU: attributes, state and thread pool, through the C interface.
//
// The C++ templates of XLA decode every argument of every call; written against the C interface, a call
// costs less than half of that.
#include "xla/cpu_handler.h"

#include <memory>
#include <string>
#include <utility>

#include "cpu/compile.h"
#include "cpu/run.h"
#include "xla/ffi_frame.h"

namespace jwarp {
namespace {

StateType state_type("jwarp_launch_v1_state", [](void* state) { delete static_cast<cpu::CallSite*>(state); });

class XlaPool final : public cpu::Pool {
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
  cpu::Kernel& kernel = cpu::require_kernel(std::string(string_attribute(frame, "fingerprint")),
                                  string_attribute(frame, "program"));
  const Int64Span launch = ints_attribute(frame, "launch");
  Launch decoded(launch.data, launch.size);
  if (has_string(frame, "kernel")) decoded.kernel = string_attribute(frame, "kernel");
  auto site = std::make_unique<cpu::CallSite>(kernel, std::move(decoded));
  if (XLA_FFI_Error* error = state_type.set(frame, site.get())) return error;
  site.release();
  return nullptr;
}

XLA_FFI_Error* run_state(const XLA_FFI_CallFrame* frame) {
  void* state;
  if (XLA_FFI_Error* error = state_type.get(frame, &state)) return error;
  const Buffers buffers = {frame->args.args, frame->args.size, frame->rets.rets, frame->rets.size};
  XlaPool pool(frame);
  cpu::run_compiling(*static_cast<cpu::CallSite*>(state), buffers, pool,
                [frame] { return string_attribute(frame, "program"); });
  return nullptr;
}

}  // namespace

XLA_FFI_Error* instantiate_launch(XLA_FFI_CallFrame* frame) {
  if (XLA_FFI_Metadata* metadata = metadata_query(frame)) {
    if (XLA_FFI_Error* error = state_type.register_once(frame->api)) return error;
    answer(metadata, state_type.id());
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
