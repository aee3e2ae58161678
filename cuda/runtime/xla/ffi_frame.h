// Common parts of the handlers of custom calls: errors, answers to queries, attributes and state.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault.h"
#include "xla/ffi/api/c_api.h"

namespace jwarp {

XLA_FFI_Error* make_error(const XLA_FFI_Api* api, XLA_FFI_Error_Code code, const char* message);

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

// The struct that XLA wants filled in when it only asks about a handler; null for an ordinary call.
XLA_FFI_Metadata* metadata_query(const XLA_FFI_CallFrame* frame);
void answer(XLA_FFI_Metadata* metadata, XLA_FFI_TypeId type_id, XLA_FFI_Handler_Traits traits = 0);

// Attributes by name; each throws Fault when there is none of that type.
std::string_view string_attribute(const XLA_FFI_CallFrame* frame, std::string_view name);
bool has_string(const XLA_FFI_CallFrame* frame, std::string_view name);
int64_t int_attribute(const XLA_FFI_CallFrame* frame, std::string_view name);
// The same, or 0 where the call has none of that name.
int64_t optional_int_attribute(const XLA_FFI_CallFrame* frame, std::string_view name);

struct Int64Span {
  const int64_t* data;
  int64_t size;
};
Int64Span ints_attribute(const XLA_FFI_CallFrame* frame, std::string_view name);

// The type of what a handler keeps for each call site, as XLA knows it.
class StateType {
 public:
  StateType(std::string_view name, void (*deleter)(void*))
      : name_(name), info_{XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, deleter} {}

  // XLA asks for metadata when it registers the handler. The type must be known by then, but jaxlib registers
  // queued handlers before queued types; so it is registered at that query, not from Python.
  XLA_FFI_Error* register_once(const XLA_FFI_Api* api);
  XLA_FFI_TypeId id() const { return id_; }

  // Both return an XLA error or null; `state` belongs to XLA if it is null.
  XLA_FFI_Error* set(const XLA_FFI_CallFrame* frame, void* state);
  XLA_FFI_Error* get(const XLA_FFI_CallFrame* frame, void** state);

 private:
  const std::string_view name_;
  const XLA_FFI_TypeInfo info_;
  XLA_FFI_TypeId id_ = XLA_FFI_UNKNOWN_TYPE_ID;
};

}  // namespace jwarp
