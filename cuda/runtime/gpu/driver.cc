// Loading the driver's library, and what its errors mean.
#include "gpu/driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>

#include "core/fault.h"

namespace jwarp::gpu {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";
// The version that kernels are compiled with; an older driver refuses their images.
constexpr int kNeededVersion = 13000;
constexpr char kNeededRelease[] = "580";
constexpr Result kNoDevice = 100;
constexpr Result kInvalidImage = 200;
constexpr Result kInvalidPtx = 218;

// Ways out for errors.
struct Advice {
  Result result;
  const char* text;
};
constexpr char kWentWrong[] =
    "this or an earlier kernel on the GPU went wrong, and the process has to be started again; "
    "wp.config.debug = True names the line and the thread of an access outside of its array";
constexpr char kOtherCode[] = "it was not compiled for this GPU: see wp.config.cuda_arch";
constexpr char kNewerCode[] =
    "the code is newer than the driver: install a newer driver, or an NVRTC as old as this one (nvidia-cuda-nvrtc)";
constexpr char kDamagedCode[] =
    "the driver cannot read the code, which is newer than it or damaged: install a newer driver, and delete jwarp's cache "
    "(python -m jwarp says where it is)";
constexpr char kNoPtx[] =
    "the driver compiles no PTX here: set wp.config.cuda_arch to the GPU's own architecture, as sm_90";
constexpr char kOtherDriver[] =
    "the library and the kernel module of the NVIDIA driver do not fit: after an update, start the computer again";
constexpr char kUnknown[] =
    "wp.config.debug = True checks what the kernels do; if it finds nothing wrong, jwarp or the driver is: please "
    "report it";
constexpr Advice kAdvice[] = {
    {kOutOfMemory, "the memory of the GPU is used up; JAX takes three quarters of it when it starts, unless "
                   "XLA_PYTHON_CLIENT_PREALLOCATE=false or XLA_PYTHON_CLIENT_MEM_FRACTION says otherwise"},
    {4, "the process is ending, and the driver has ended: wait for launches before"},
    {34, "libcuda.so.1 is the stub that programs are linked with: put the driver's own before it in LD_LIBRARY_PATH"},
    {46, "another process has the GPU for itself, or its compute mode is prohibited: see nvidia-smi"},
    {kNoDevice, "no GPU is found in this process: is it hidden by CUDA_VISIBLE_DEVICES?"},
    {101, "there is no GPU of that number in this process: see CUDA_VISIBLE_DEVICES"},
    {kInvalidImage, kDamagedCode},
    {kNoBinaryForGpu, kOtherCode},
    {214, "the GPU found an error in its memory that it cannot correct: see nvidia-smi -q"},
    {kInvalidPtx, kDamagedCode},
    {221, kNoPtx},
    {222, kNewerCode},
    {223, kNoPtx},
    {700, "this or an earlier kernel used memory that is not its own, and the process has to be started again; "
          "wp.config.debug = True names the line and the thread"},
    {701, "a block of so many threads has too few registers or too little shared memory on this GPU: give a smaller "
          "block_dim"},
    {702, "a kernel ran for longer than this GPU, which draws a screen, allows; the process has to be started again"},
    {710, "an assertion of a kernel failed; the process has to be started again"},
    {802, "the GPUs are not ready: is nvidia-fabricmanager running?"},
    {803, kOtherDriver},
    {804, "the forward-compatibility libraries of CUDA do not support this GPU: install driver release 580 or newer"},
};
// Other errors from here to the next are of kernels that ran before.
constexpr Result kFirstOfKernels = 700;
constexpr Result kLastOfKernels = 719;
// And from here to the next of captures.
constexpr Result kFirstOfCaptures = 900;
constexpr Result kLastOfCaptures = 909;

const char* advice_on(Result result) {
  for (const Advice& known : kAdvice) {
    if (known.result == result) return known.text;
  }
  if (result >= kFirstOfCaptures && result <= kLastOfCaptures) {
    return "this is not possible while a CUDA graph is captured: launch once before the capture";
  }
  return result >= kFirstOfKernels && result <= kLastOfKernels ? kWentWrong : kUnknown;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

[[noreturn]] void unavailable(const std::string& text, const std::string& hint) {
  throw DeviceFault(XLA_FFI_Error_Code_UNAVAILABLE, {.text = text, .hint = hint});
}

std::string newer_driver() { return std::string("install driver release ") + kNeededRelease + " or newer"; }

void* open_library() {
  const char* chosen = std::getenv("JWARP_LIBCUDA");
  const bool is_chosen = chosen != nullptr && *chosen != '\0';
  const char* path = is_chosen ? chosen : kLibrary;
  if (void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return library;
  const char* reason = dlerror();
  unavailable(std::string("kernels for CUDA need the NVIDIA driver, whose library ") + path +
                  (is_chosen ? " (JWARP_LIBCUDA is the path of libcuda.so.1)" : "") +
                  " cannot be loaded: " + (reason ? reason : "no reason given"),
              newer_driver());
}

void* find_symbol(void* library, const char* name) {
  if (void* symbol = dlsym(library, name)) return symbol;
  unavailable(std::string("the library of the NVIDIA driver has no function ") + name + "; jwarp needs CUDA " +
                  version_text(kNeededVersion),
              newer_driver());
}

// Before anything else is asked of it: an old driver lacks functions, and its other errors say less.
void require_version(void* library) {
  int version = 0;
  const auto get_version = reinterpret_cast<Result (*)(int*)>(find_symbol(library, "cuDriverGetVersion"));
  if (get_version(&version) != 0) version = 0;
  if (version >= kNeededVersion) return;
  unavailable("the NVIDIA driver is too old: it supports CUDA " + version_text(version) + ", jwarp needs CUDA " +
                  version_text(kNeededVersion),
              newer_driver());
}

std::unique_ptr<Driver> start() {
  void* const library = open_library();
  require_version(library);
  auto found = std::make_unique<Driver>();
#define JWARP_CUDA_FIND(member, name, parameters) \
  found->member = reinterpret_cast<Result(*) parameters>(find_symbol(library, name));
  JWARP_CUDA_FUNCTIONS(JWARP_CUDA_FIND)
#undef JWARP_CUDA_FIND
  const Result result = found->init(0);
  if (result != 0 && result != kNoDevice) {
    unavailable("CUDA does not start: " + found->describe(result, "cuInit"), advice_on(result));
  }
  int count = 0;
  if (result == 0 && found->device_get_count(&count) == 0 && count > 0) return found;
  unavailable("the NVIDIA driver finds no GPU in this process", "is one hidden by CUDA_VISIBLE_DEVICES?");
}

}  // namespace

std::mutex& process_mutex() {
  static std::mutex* const instance = [] {
    auto* created = new std::mutex;
    pthread_atfork([] { process_mutex().lock(); }, [] { process_mutex().unlock(); },
                   [] { process_mutex().unlock(); });
    return created;
  }();
  return *instance;
}

// Made while the module is loaded: a fork would leave what another thread is making half made in the child.
[[maybe_unused]] static const std::mutex& kMade = process_mutex();

// Kept once it has started; until then every call tries again, as a cause may go away.
const Driver& driver() {
  static std::atomic<const Driver*> started{nullptr};
  if (const Driver* known = started.load(std::memory_order_acquire)) return *known;
  const std::lock_guard<std::mutex> lock(process_mutex());
  if (started.load() == nullptr) started.store(start().release(), std::memory_order_release);
  return *started.load();
}

Context primary_context(Device device, const std::string& who) {
  const Driver& cuda = driver();
  const std::lock_guard<std::mutex> lock(process_mutex());
  static auto* const known = new std::map<Device, Context>;
  const auto found = known->find(device);
  if (found != known->end()) return found->second;
  Context context = nullptr;
  cuda.check(cuda.primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain", who);
  return known->emplace(device, context).first->second;
}

std::string Driver::describe(Result result, const char* function) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (get_error_name(result, &name) != 0 || name == nullptr) name = "an unknown error";
  if (get_error_string(result, &text) != 0 || text == nullptr) text = "no description";
  return std::string(function) + " failed with " + name + ", error " + std::to_string(result) + " (" + text + ")";
}

void Driver::fail(Result result, const char* function, const std::string& who) const {
  throw DeviceFault(result == kOutOfMemory ? XLA_FFI_Error_Code_RESOURCE_EXHAUSTED : XLA_FFI_Error_Code_INTERNAL,
                    {.who = who,
                     .text = describe(result, function),
                     .hint = advice_on(result),
                     .is_of_code = result == kInvalidImage || result == kInvalidPtx});
}

CurrentContext::CurrentContext(const Driver& driver, Stream stream, const std::string& who) : driver_(driver) {
  int capturing = kNotCapturing;
  driver.check(driver.stream_is_capturing(stream, &capturing), "cuStreamIsCapturing", who);
  capturing_ = capturing != kNotCapturing;
  driver.check(driver.context_get_current(&context_), "cuCtxGetCurrent", who);
  // To ask for the context of a stream ends its capture. Who captures has made the context current.
  if (capturing_) return;
  Context needed = nullptr;
  driver.check(driver.stream_get_context(stream, &needed), "cuStreamGetCtx", who);
  push(needed, who);
}

CurrentContext::CurrentContext(const Driver& driver, Context context, const std::string& who) : driver_(driver) {
  driver.check(driver.context_get_current(&context_), "cuCtxGetCurrent", who);
  push(context, who);
}

void CurrentContext::push(Context needed, const std::string& who) {
  if (needed == context_) return;
  driver_.check(driver_.context_push(needed), "cuCtxPushCurrent", who);
  context_ = needed;
  pushed_ = true;
}

}  // namespace jwarp::gpu
