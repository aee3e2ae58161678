// The exceptions of the native module: an XLA error code and a text for the user.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

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

// Of a device or its driver: what went wrong, what to do about it, and where that concerns a kernel, which and where.
class DeviceFault : public Fault {
 public:
  struct Parts {
    std::string who = {};  // "kernel 'name'", or what else the device was asked for
    std::string text = {};
    std::string hint = {};
    std::string place = {};  // "file:line"
    bool is_of_code = false;  // whether the driver refuses the code of the kernel
  };

  DeviceFault(XLA_FFI_Error_Code code, Parts parts) : Fault(code, shown(parts)), parts_(std::move(parts)) {}

  // The same for somebody at a place, unless it says for whom already.
  DeviceFault of(const std::string& who, const std::string& place) const {
    Parts parts = parts_;
    if (parts.who.empty()) parts.who = who;
    parts.place = place;
    return {code(), std::move(parts)};
  }
  const Parts& parts() const { return parts_; }

 private:
  static std::string shown(const Parts& parts) {
    std::string all = parts.who.empty() ? parts.text : parts.who + ": " + parts.text;
    if (!parts.place.empty()) all += "\n  --> " + parts.place;
    if (!parts.hint.empty()) all += "\n  help: " + parts.hint;
    return all;
  }

  Parts parts_;
};

[[noreturn]] inline void invalid(const std::string& text) {
  throw Fault(XLA_FFI_Error_Code_INVALID_ARGUMENT, text);
}

}  // namespace jwarp
