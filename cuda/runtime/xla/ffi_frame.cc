// Reading call frames of XLA through the C interface.
#include "xla/ffi_frame.h"

#include <mutex>

namespace jwarp {
namespace {

// Null when the call has no such attribute.
const void* look_up(const XLA_FFI_CallFrame* frame, std::string_view name, XLA_FFI_AttrType type) {
  for (int64_t i = 0; i < frame->attrs.size; ++i) {
    const XLA_FFI_ByteSpan& span = *frame->attrs.names[i];
    if (std::string_view(span.ptr, span.len) == name && frame->attrs.types[i] == type) {
      return frame->attrs.attrs[i];
    }
  }
  return nullptr;
}

const void* find_attribute(const XLA_FFI_CallFrame* frame, std::string_view name, XLA_FFI_AttrType type) {
  if (const void* found = look_up(frame, name, type)) return found;
  invalid("the custom call lacks the attribute '" + std::string(name) + "', or it has a wrong type");
}

}  // namespace

XLA_FFI_Error* make_error(const XLA_FFI_Api* api, XLA_FFI_Error_Code code, const char* message) {
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, message, code};
  return api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Metadata* metadata_query(const XLA_FFI_CallFrame* frame) {
  const auto* extension = frame->extension_start;
  if (extension == nullptr || extension->type != XLA_FFI_Extension_Metadata) return nullptr;
  return reinterpret_cast<const XLA_FFI_Metadata_Extension*>(extension)->metadata;
}

void answer(XLA_FFI_Metadata* metadata, XLA_FFI_TypeId type_id, XLA_FFI_Handler_Traits traits) {
  metadata->api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
  metadata->traits = traits;
  metadata->state_type_id = type_id;
}

bool has_string(const XLA_FFI_CallFrame* frame, std::string_view name) {
  return look_up(frame, name, XLA_FFI_AttrType_STRING) != nullptr;
}

std::string_view string_attribute(const XLA_FFI_CallFrame* frame, std::string_view name) {
  const void* found = find_attribute(frame, name, XLA_FFI_AttrType_STRING);
  const auto* span = static_cast<const XLA_FFI_ByteSpan*>(found);
  return {span->ptr, span->len};
}

int64_t int_attribute(const XLA_FFI_CallFrame* frame, std::string_view name) {
  const void* found = find_attribute(frame, name, XLA_FFI_AttrType_SCALAR);
  const auto* scalar = static_cast<const XLA_FFI_Scalar*>(found);
  if (scalar->dtype != XLA_FFI_DataType_S64) invalid("the attribute '" + std::string(name) + "' is not an int64");
  return *static_cast<const int64_t*>(scalar->value);
}

int64_t optional_int_attribute(const XLA_FFI_CallFrame* frame, std::string_view name) {
  return look_up(frame, name, XLA_FFI_AttrType_SCALAR) != nullptr ? int_attribute(frame, name) : 0;
}

Int64Span ints_attribute(const XLA_FFI_CallFrame* frame, std::string_view name) {
  const void* found = find_attribute(frame, name, XLA_FFI_AttrType_ARRAY);
  const auto* array = static_cast<const XLA_FFI_Array*>(found);
  if (array->dtype != XLA_FFI_DataType_S64) {
    invalid("the attribute '" + std::string(name) + "' is not an array of int64");
  }
  return {static_cast<const int64_t*>(array->data), static_cast<int64_t>(array->size)};
}

XLA_FFI_Error* StateType::register_once(const XLA_FFI_Api* api) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (id_.type_id != 0) return nullptr;
  XLA_FFI_Type_Register_Args args = {XLA_FFI_Type_Register_Args_STRUCT_SIZE,
                                     nullptr,
                                     {name_.data(), name_.size()},
                                     &id_,
                                     &info_};
  return api->XLA_FFI_Type_Register(&args);
}

XLA_FFI_Error* StateType::set(const XLA_FFI_CallFrame* frame, void* state) {
  XLA_FFI_State_Set_Args args = {XLA_FFI_State_Set_Args_STRUCT_SIZE,
                                 nullptr,
                                 frame->ctx,
                                 XLA_FFI_ExecutionStage_INSTANTIATE,
                                 &id_,
                                 state};
  return frame->api->XLA_FFI_State_Set(&args);
}

XLA_FFI_Error* StateType::get(const XLA_FFI_CallFrame* frame, void** state) {
  XLA_FFI_State_Get_Args args = {XLA_FFI_State_Get_Args_STRUCT_SIZE,
                                 nullptr,
                                 frame->ctx,
                                 XLA_FFI_ExecutionStage_INSTANTIATE,
                                 &id_,
                                 nullptr};
  XLA_FFI_Error* error = frame->api->XLA_FFI_State_Get(&args);
  *state = args.state;
  return error;
}

}  // namespace jwarp
