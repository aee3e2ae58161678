// The handlers of XLA's custom call on the CPU.
#pragma once

#include "xla/ffi/api/c_api.h"

namespace jwarp {

// Decodes the attributes of one call site and makes sure that its kernel is compiled.
XLA_FFI_Error* instantiate_launch(XLA_FFI_CallFrame* frame);

// Runs one call.
XLA_FFI_Error* execute_launch(XLA_FFI_CallFrame* frame);

}  // namespace jwarp
