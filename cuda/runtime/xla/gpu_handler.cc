// XLA's side of a launch on a GPU: attributes, state and streams, through the C interface.
#include "xla/gpu_handler.h"

#include <memory>
#include <string>
#include <utility>

#include "gpu/run.h"
#include "xla/ffi_frame.h"

namespace jwarp::gpu {
namespace {

// Of its own: XLA's part for CUDA is another library, which numbers its types itself.
StateType state_type("jwarp_cuda_v1_state", [](void* state) { delete static_cast<CallSite*>(state); });

XLA_FFI_Error* create_state(const XLA_FFI_CallFrame* frame, bool checks) {
  const Int64Span plan = ints_attribute(frame, "plan"), launch = ints_attribute(frame, "launch");
  const Int64Span grid = ints_attribute(frame, "grid");
  const Code code = {
      .kernel = std::string(string_attribute(frame, "kernel")),
      .entry = string_attribute(frame, "entry"),
      .image = string_attribute(frame, "image"),
      .block = int_attribute(frame, "block"),
      .shared = int_attribute(frame, "shared"),
      .per_sm = int_attribute(frame, "per_sm"),
      .grid = {grid.data, grid.data + grid.size},
      .failures = string_attribute(frame, "failures"),
      .heap = optional_int_attribute(frame, "heap"),
  };
  Launch decoded(launch.data, launch.size);
  decoded.kernel = code.kernel;
  auto site = std::make_unique<CallSite>(code, Plan(plan.data, plan.size), std::move(decoded), checks);
  if (XLA_FFI_Error* error = state_type.set(frame, site.get())) return error;
  site.release();
  return nullptr;
}

XLA_FFI_Error* get_stream(const XLA_FFI_CallFrame* frame, Stream* stream) {
  XLA_FFI_Stream_Get_Args args = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, nullptr};
  XLA_FFI_Error* error = frame->api->XLA_FFI_Stream_Get(&args);
  *stream = static_cast<Stream>(args.stream);
  return error;
}

// Calls action(site, stream) with the state of the call site.
template <typename F>
XLA_FFI_Error* with_stream(const XLA_FFI_CallFrame* frame, F action) {
  void* state;
  Stream stream;
  if (XLA_FFI_Error* error = state_type.get(frame, &state)) return error;
  if (XLA_FFI_Error* error = get_stream(frame, &stream)) return error;
  action(*static_cast<CallSite*>(state), stream);
  return nullptr;
}

XLA_FFI_Error* create(XLA_FFI_CallFrame* frame, bool checks) {
  if (XLA_FFI_Metadata* metadata = metadata_query(frame)) {
    if (XLA_FFI_Error* error = state_type.register_once(frame->api)) return error;
    answer(metadata, state_type.id());
    return nullptr;
  }
  return guarded(frame->api, [=] { return create_state(frame, checks); });
}

XLA_FFI_Error* run(XLA_FFI_CallFrame* frame, XLA_FFI_Handler_Traits traits) {
  if (XLA_FFI_Metadata* metadata = metadata_query(frame)) {
    answer(metadata, XLA_FFI_UNKNOWN_TYPE_ID, traits);
    return nullptr;
  }
  return guarded(frame->api, [frame] {
    const Buffers buffers = {frame->args.args, frame->args.size, frame->rets.rets, frame->rets.size};
    return with_stream(frame, [&](CallSite& site, Stream stream) { site.run(buffers, stream); });
  });
}

}  // namespace

XLA_FFI_Error* instantiate(XLA_FFI_CallFrame* frame) { return create(frame, false); }

XLA_FFI_Error* instantiate_checked(XLA_FFI_CallFrame* frame) { return create(frame, true); }

// Here and not later: loading waits for all GPUs, and one of them may wait for another to start its kernel.
XLA_FFI_Error* prepare(XLA_FFI_CallFrame* frame) {
  if (XLA_FFI_Metadata* metadata = metadata_query(frame)) {
    answer(metadata, XLA_FFI_UNKNOWN_TYPE_ID);
    return nullptr;
  }
  return guarded(frame->api, [frame]() -> XLA_FFI_Error* {
    void* state;
    if (XLA_FFI_Error* error = state_type.get(frame, &state)) return error;
    static_cast<CallSite*>(state)->load();
    return nullptr;
  });
}

XLA_FFI_Error* initialize(XLA_FFI_CallFrame* frame) {
  if (XLA_FFI_Metadata* metadata = metadata_query(frame)) {
    answer(metadata, XLA_FFI_UNKNOWN_TYPE_ID);
    return nullptr;
  }
  return guarded(frame->api, [frame] {
    return with_stream(frame, [](CallSite& site, Stream stream) { site.set_up(stream); });
  });
}

XLA_FFI_Error* execute(XLA_FFI_CallFrame* frame) {
  return run(frame, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
}

XLA_FFI_Error* execute_checked(XLA_FFI_CallFrame* frame) { return run(frame, 0); }

}  // namespace jwarp::gpu
