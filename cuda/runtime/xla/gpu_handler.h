// The handlers of XLA's custom calls on NVIDIA GPUs.
#pragma once

#include "xla/ffi/api/c_api.h"

namespace jwarp::gpu {

// By stage. Two targets have the same handlers but for the last: one puts the launch on the stream, which may be
// captured for a CUDA graph; the other waits for its end, because the kernel has checks that may fail.
XLA_FFI_Error* instantiate(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* instantiate_checked(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* prepare(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* initialize(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* execute(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* execute_checked(XLA_FFI_CallFrame* frame);

}  // namespace jwarp::gpu
