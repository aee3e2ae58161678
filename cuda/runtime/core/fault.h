// The one exception of the native module: an XLA error code and a text for the user.
#pragma once

#include <stdexcept>
#include <string>

#include "xla/ffi/api/c_api.h"

namespace jwarp {

class Fault : public std::runtime_error {
 public:
  Fault(XLA_FFI_Error_Code code, const std::string& text)
      : std::runtime_error("jwarp: " + text), code_(code) {}

  XLA_FFI_Error_Code code() const { return code_; }

 private:
  XLA_FFI_Error_Code code_;
};

[[noreturn]] inline void invalid(const std::string& text) {
  throw Fault(XLA_FFI_Error_Code_INVALID_ARGUMENT, text);
}

}  // namespace jwarp
