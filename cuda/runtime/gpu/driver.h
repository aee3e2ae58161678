// The part of the CUDA driver that launches need, found in the driver's library when it is first used.
//
// Nothing of the CUDA toolkit is needed to build this: the few types are declared here, as in cuda.h.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

namespace jwarp::gpu {

using Result = int;  // CUresult, 0 for success
using Device = int;
using Address = unsigned long long;  // CUdeviceptr
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Graph = struct GraphHandle*;
using GraphExec = struct GraphExecHandle*;
using Library = struct LibraryHandle*;
using DriverKernel = struct KernelHandle*;
using Function = struct FunctionHandle*;

constexpr Result kOutOfMemory = 2;
constexpr Result kNoBinaryForGpu = 209;
constexpr Result kNotReady = 600;
constexpr int kNotCapturing = 0;  // CUstreamCaptureStatus
constexpr int kRelaxed = 2;             // CUstreamCaptureMode: calls that are no part of the capture go on
constexpr unsigned kNonBlocking = 1;    // CUstream_flags: nothing waits for CUDA's default stream
constexpr unsigned kWithoutTiming = 2;  // CUevent_flags
constexpr int kMultiprocessors = 16;  // CUdevice_attribute
constexpr int kMajor = 75;
constexpr int kMinor = 76;
constexpr int kMaxSharedPerBlock = 97;
constexpr int kHeapLimit = 2;     // CUlimit
constexpr int kStaticShared = 1;  // CUfunction_attribute
constexpr int kMaxDynamicShared = 8;

// CUlaunchConfig
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream stream;
  void* attributes;
  unsigned attribute_count;
};

// Member, name in the library, parameters. Names with a version are those that cuda.h gives to programs.
#define JWARP_CUDA_FUNCTIONS(X)                                                                      \
  X(init, "cuInit", (unsigned flags))                                                                \
  X(get_error_name, "cuGetErrorName", (Result, const char**))                                        \
  X(get_error_string, "cuGetErrorString", (Result, const char**))                                    \
  X(device_get_count, "cuDeviceGetCount", (int*))                                                    \
  X(device_get_attribute, "cuDeviceGetAttribute", (int*, int attribute, Device))                     \
  X(device_get_name, "cuDeviceGetName", (char*, int length, Device))                                 \
  X(primary_context_retain, "cuDevicePrimaryCtxRetain", (Context*, Device))                          \
  X(context_get_current, "cuCtxGetCurrent", (Context*))                                              \
  X(context_get_device, "cuCtxGetDevice", (Device*))                                                 \
  X(context_set_limit, "cuCtxSetLimit", (int limit, size_t))                                         \
  X(context_push, "cuCtxPushCurrent_v2", (Context))                                                  \
  X(context_pop, "cuCtxPopCurrent_v2", (Context*))                                                   \
  X(stream_get_context, "cuStreamGetCtx", (Stream, Context*))                                        \
  X(stream_is_capturing, "cuStreamIsCapturing", (Stream, int*))                                      \
  X(stream_synchronize, "cuStreamSynchronize", (Stream))                                             \
  X(stream_create, "cuStreamCreate", (Stream*, unsigned flags))                                      \
  X(stream_destroy, "cuStreamDestroy_v2", (Stream))                                                  \
  X(stream_begin_capture, "cuStreamBeginCapture_v2", (Stream, int mode))                             \
  X(stream_end_capture, "cuStreamEndCapture", (Stream, Graph*))                                      \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (GraphExec*, Graph, unsigned long long flags)) \
  X(graph_launch, "cuGraphLaunch", (GraphExec, Stream))                                              \
  X(graph_exec_destroy, "cuGraphExecDestroy", (GraphExec))                                           \
  X(graph_destroy, "cuGraphDestroy", (Graph))                                                        \
  X(library_load_data, "cuLibraryLoadData",                                                          \
    (Library*, const void* image, void*, void**, unsigned, void*, void**, unsigned))                 \
  X(library_get_kernel, "cuLibraryGetKernel", (DriverKernel*, Library, const char*))                 \
  X(kernel_get_attribute, "cuKernelGetAttribute", (int*, int attribute, DriverKernel, Device))       \
  X(kernel_set_attribute, "cuKernelSetAttribute", (int attribute, int value, DriverKernel, Device))  \
  X(kernel_get_function, "cuKernelGetFunction", (Function*, DriverKernel))                           \
  X(function_load, "cuFuncLoad", (Function))                                                         \
  X(launch, "cuLaunchKernelEx", (const LaunchConfig*, Function, void** parameters, void** extra))    \
  X(memory_alloc, "cuMemAlloc_v2", (Address*, size_t))                                               \
  X(memory_get_info, "cuMemGetInfo_v2", (size_t* free, size_t* total))                               \
  X(memory_alloc_on, "cuMemAllocAsync", (Address*, size_t, Stream))                                  \
  X(memory_free_on, "cuMemFreeAsync", (Address, Stream))                                             \
  X(fill_bytes, "cuMemsetD8Async", (Address, unsigned char, size_t, Stream))                         \
  X(fill_halves, "cuMemsetD16Async", (Address, unsigned short, size_t, Stream))                      \
  X(fill_words, "cuMemsetD32Async", (Address, unsigned, size_t, Stream))                             \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2", (Address to, Address from, size_t, Stream))              \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void* to, Address from, size_t, Stream))                  \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2", (Address to, const void* from, size_t, Stream))          \
  X(event_create, "cuEventCreate", (Event*, unsigned flags))                                         \
  X(event_record, "cuEventRecord", (Event, Stream))                                                  \
  X(event_query, "cuEventQuery", (Event))                                                            \
  X(event_destroy, "cuEventDestroy_v2", (Event))

struct Driver {
#define JWARP_CUDA_MEMBER(member, name, parameters) Result(*member) parameters;
  JWARP_CUDA_FUNCTIONS(JWARP_CUDA_MEMBER)
#undef JWARP_CUDA_MEMBER

  // "cuInit failed with CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
  std::string describe(Result result, const char* function) const;

  // Throws DeviceFault, which says for what the function was called, unless the result is success.
  void check(Result result, const char* function, const std::string& who) const {
    if (result != 0) fail(result, function, who);
  }
  [[noreturn]] void fail(Result result, const char* function, const std::string& who) const;
};

// The driver, started. Throws DeviceFault when there is none, it is too old, or there is no GPU.
const Driver& driver();

// Guards what the process knows of CUDA; free in the child of a fork, whatever other threads did.
std::mutex& process_mutex();

// The context that programs share on a device, as the CUDA runtime, XLA and PyTorch use it. Never given back.
Context primary_context(Device device, const std::string& who);

// The context of a stream, made current on this thread for a scope.
class CurrentContext {
 public:
  CurrentContext(const Driver& driver, Stream stream, const std::string& who);
  // That context; the streams without one of their own are then streams of it.
  CurrentContext(const Driver& driver, Context context, const std::string& who);
  ~CurrentContext() {
    if (pushed_) driver_.context_pop(&context_);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  Context get() const { return context_; }
  bool is_capturing() const { return capturing_; }

 private:
  void push(Context needed, const std::string& who);

  const Driver& driver_;
  Context context_ = nullptr;
  bool capturing_ = false;
  bool pushed_ = false;
};

}  // namespace jwarp::gpu
