// A stand-in for the library of the NVIDIA driver: logs every call, fails where a test asks for it, and keeps the
// memory of its GPUs in ordinary memory. What the driver refuses, it refuses: launches of shapes that no GPU runs, more
// shared memory than was asked for, streams of another context than the current one, and what may not be captured.
//
// Handles are numbers that tell what they are: the context of device d is 0x1000 + d, its streams are
// 0x100 * (d + 1) + any number below 0x100. A kernel is run by the function that a test registers for its entry.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

using Result = int;
using Address = unsigned long long;
using Handle = unsigned long;

constexpr Result kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400, kNotInCaptures = 900;
constexpr unsigned kGrantedShared = 48 << 10;

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Handle stream;
  void* attributes;
  unsigned attribute_count;
};
// words: what the kernel is given; shape: grid, block, shared bytes.
using Run = void (*)(const long long* words, const unsigned* shape);

struct State {
  std::mutex mutex;
  std::string log;
  std::map<std::string, Result> failures;
  std::map<std::string, int> settings = {{"version", 13000},      {"devices", 2},        {"capturing", 0},
                                         {"multiprocessors", 132}, {"max_shared", 232448}, {"static_shared", 0},
                                         {"major", 9},             {"minor", 0},          {"busy", 0},
                                         {"most_heap", 4096},      {"pools", 1}};
  std::map<Handle, std::string> entries;
  std::map<std::pair<Handle, int>, int> granted;  // dynamic shared memory of kernels on devices
  std::map<Address, size_t> allocated;
  std::map<std::string, Run> kernels;
  // What a capture has taken, and on which stream; graphs, and those that are ready to run.
  Handle captured = 0;
  std::vector<std::function<void()>> taken;
  std::map<Handle, std::vector<std::function<void()>>> graphs;
  Handle handles = 0;
  bool started = false;
};

State& state() {
  static State* const instance = new State;
  return *instance;
}

thread_local Handle current = 0;

// Logs a call and says how it ends.
template <typename... Arguments>
Result call(const char* function, const char* format, Arguments... arguments) {
  State& mock = state();
  const std::lock_guard<std::mutex> lock(mock.mutex);
  char text[200];
  const int length = std::snprintf(text, sizeof text, format, arguments...);
  mock.log += std::string(function) + (length > 0 ? " " : "") + text + "\n";
  if (!mock.started && std::strcmp(function, "cuInit") != 0 && std::strcmp(function, "cuDriverGetVersion") != 0) {
    return 3;  // CUDA_ERROR_NOT_INITIALIZED
  }
  const auto failure = mock.failures.find(function);
  return failure == mock.failures.end() ? 0 : failure->second;
}

int setting(const char* name) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().settings[name];
}

// Its content is not a number until something is written.
Address allocate(size_t bytes) {
  void* memory = std::malloc(bytes);
  std::memset(memory, 0xff, bytes);
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().allocated[reinterpret_cast<Address>(memory)] = bytes;
  return reinterpret_cast<Address>(memory);
}

Result release(Address address) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (state().allocated.erase(address) == 0) return kInvalidValue;
  std::free(reinterpret_cast<void*>(address));
  return 0;
}

bool is_taken(Handle stream) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return stream != 0 && stream == state().captured;
}
bool is_captured(Handle stream) { return setting("capturing") || is_taken(stream); }

// Does what is put on a stream: now, or whenever its graph runs.
Result put(Handle stream, std::function<void()> action) {
  if (!is_taken(stream)) {
    action();
    return 0;
  }
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().taken.push_back(std::move(action));
  return 0;
}

// Whether what is put on the stream has the current context.
Result check_stream(Handle stream) {
  if (current == 0) return kInvalidContext;
  return stream == 0 || current == 0x1000 + stream / 0x100 - 1 ? 0 : kInvalidHandle;
}

Result check_launch(const LaunchConfig& config, Handle kernel) {
  const unsigned *grid = config.grid, *block = config.block;
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (state().entries.count(kernel) == 0) return kInvalidHandle;
  for (int axis = 0; axis < 3; ++axis) {
    if (grid[axis] == 0 || block[axis] == 0) return kInvalidValue;
  }
  if (grid[0] > 0x7fffffffu || grid[1] > 65535 || grid[2] > 65535) return kInvalidValue;
  if (1ull * block[0] * block[1] * block[2] > 1024 || block[2] > 64) return kInvalidValue;
  const auto granted = state().granted.find({kernel, static_cast<int>(current - 0x1000)});
  const unsigned fixed = static_cast<unsigned>(state().settings["static_shared"]);
  const unsigned most = granted != state().granted.end() ? static_cast<unsigned>(granted->second) : 0;
  return config.shared_bytes <= most || config.shared_bytes + fixed <= kGrantedShared ? 0 : kInvalidValue;
}

}  // namespace

#define CHECK(...)                           \
  if (const Result result = (__VA_ARGS__)) { \
    return result;                           \
  }
#define CALL(...) CHECK(call(__func__, __VA_ARGS__))
#define NOT_IN_CAPTURES() CHECK(setting("capturing") ? kNotInCaptures : 0)

extern "C" {

// What tests use

const char* mock_log() {
  static thread_local std::string copy;
  const std::lock_guard<std::mutex> lock(state().mutex);
  copy = state().log;
  return copy.c_str();
}
void mock_clear() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().log.clear();
}
// A result of 0 lets the function succeed again.
void mock_fail(const char* function, Result result) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (result == 0) {
    state().failures.erase(function);
  } else {
    state().failures[function] = result;
  }
}
void mock_set(const char* name, int value) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().settings[name] = value;
}
void mock_register(const char* entry, Run run) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().kernels[entry] = run;
}
void mock_make_current(Handle context) { current = context; }
Handle mock_current() { return current; }
// How many pieces of memory have not been given back.
int mock_allocated() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return static_cast<int>(state().allocated.size());
}
// Where piece number k of these is, and how large; 0 where there are no more.
Address mock_piece(int k, unsigned long long* bytes) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  for (const auto& piece : state().allocated) {
    if (k-- == 0) {
      *bytes = piece.second;
      return piece.first;
    }
  }
  return 0;
}

// The driver

Result cuInit(unsigned) {
  CALL("%s", "");
  if (setting("devices") == 0) return 100;
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().started = true;
  return 0;
}
Result cuDriverGetVersion(int* version) {
  CALL("%s", "");
  *version = setting("version");
  return 0;
}
Result cuGetErrorName(Result result, const char** name) {
  static const std::map<Result, const char*> names = {
      {1, "CUDA_ERROR_INVALID_VALUE"},    {2, "CUDA_ERROR_OUT_OF_MEMORY"},        {3, "CUDA_ERROR_NOT_INITIALIZED"},
      {100, "CUDA_ERROR_NO_DEVICE"},      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},  {500, "CUDA_ERROR_NOT_FOUND"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},    {400, "CUDA_ERROR_INVALID_HANDLE"},
      {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}};
  const auto found = names.find(result);
  if (found == names.end()) return 1;
  *name = found->second;
  return 0;
}
Result cuGetErrorString(Result result, const char** text) {
  if (result == 999) return 1;
  *text = "the mock was told to fail";
  return 0;
}
Result cuDeviceGetCount(int* count) {
  CALL("%s", "");
  *count = setting("devices");
  return 0;
}
Result cuDeviceGetAttribute(int* value, int attribute, int device) {
  CALL("%d device=%d", attribute, device);
  const std::map<int, const char*> names = {{16, "multiprocessors"}, {97, "max_shared"}, {75, "major"}, {76, "minor"},
                                            {115, "pools"}};
  const auto found = names.find(attribute);
  if (found == names.end()) return 1;
  *value = setting(found->second);
  return 0;
}
Result cuDeviceGetName(char* name, int length, int device) {
  CALL("device=%d", device);
  std::snprintf(name, static_cast<size_t>(length), "Mock %d", device);
  return 0;
}
Result cuDevicePrimaryCtxRetain(Handle* context, int device) {
  CALL("device=%d", device);
  *context = 0x1000 + device;
  return 0;
}
Result cuCtxGetCurrent(Handle* context) {
  CALL("%s", "");
  *context = current;
  return 0;
}
Result cuCtxGetDevice(int* device) {
  CALL("%s", "");
  if (current == 0) return kInvalidContext;
  *device = static_cast<int>(current - 0x1000);
  return 0;
}
Result cuCtxSetLimit(int limit, size_t bytes) {
  CALL("limit=%d,bytes=%zu", limit, bytes);
  return limit == 2 && bytes <= static_cast<size_t>(setting("most_heap")) << 20 ? 0 : kInvalidValue;
}
// One place is enough: nothing under test pushes twice.
thread_local Handle below = 0;
Result cuCtxPushCurrent_v2(Handle context) {
  CALL("%#lx", context);
  below = current;
  current = context;
  return 0;
}
Result cuCtxPopCurrent_v2(Handle* context) {
  CALL("%s", "");
  *context = current;
  current = below;
  return 0;
}
Result cuStreamGetCtx(Handle stream, Handle* context) {
  CALL("%#lx", stream);
  if (is_captured(stream)) return 906;
  *context = stream == 0 ? current : 0x1000 + stream / 0x100 - 1;
  return *context == 0 ? kInvalidContext : 0;
}
Result cuStreamIsCapturing(Handle stream, int* status) {
  CALL("%#lx", stream);
  *status = is_captured(stream);
  return 0;
}
Result cuStreamSynchronize(Handle stream) {
  CALL("%#lx", stream);
  if (is_captured(stream)) return kNotInCaptures;
  return 0;
}
// One more stream for each device at a time, which is 0xfe of its.
Result cuStreamCreate(Handle* stream, unsigned flags) {
  CALL("flags=%u", flags);
  if (current == 0) return kInvalidContext;
  *stream = 0x100 * (current - 0x1000 + 1) + 0xfe;
  return 0;
}
Result cuStreamDestroy_v2(Handle stream) {
  CALL("%#lx", stream);
  return 0;
}
Result cuStreamBeginCapture_v2(Handle stream, int mode) {
  CALL("%#lx mode=%d", stream, mode);
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (stream == 0 || state().captured != 0) return kInvalidValue;
  state().captured = stream;
  state().taken.clear();
  return 0;
}
Result cuStreamEndCapture(Handle stream, Handle* graph) {
  CALL("%#lx", stream);
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (state().captured != stream) return kInvalidValue;
  state().captured = 0;
  *graph = 0x40000 + ++state().handles;
  state().graphs[*graph] = std::move(state().taken);
  return 0;
}
Result cuGraphInstantiateWithFlags(Handle* made, Handle graph, unsigned long long flags) {
  CALL("flags=%llu", flags);
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (state().graphs.count(graph) == 0) return kInvalidHandle;
  *made = 0x50000 + ++state().handles;
  state().graphs[*made] = state().graphs[graph];
  return 0;
}
Result cuGraphLaunch(Handle made, Handle stream) {
  std::vector<std::function<void()>> actions;
  {
    const std::lock_guard<std::mutex> lock(state().mutex);
    const auto known = state().graphs.find(made);
    if (known == state().graphs.end()) return kInvalidHandle;
    actions = known->second;
  }
  CALL("nodes=%zu stream=%#lx", actions.size(), stream);
  CHECK(check_stream(stream));
  for (const auto& action : actions) action();
  return 0;
}
Result cuGraphDestroy(Handle graph) {
  CALL("%s", "");
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().graphs.erase(graph) == 1 ? 0 : kInvalidHandle;
}
Result cuGraphExecDestroy(Handle made) { return cuGraphDestroy(made); }
Result cuLibraryLoadData(Handle* library, const void* image, void*, void**, unsigned, void*, void**, unsigned) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  CALL("%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2], bytes[3]);
  NOT_IN_CAPTURES();
  const std::lock_guard<std::mutex> lock(state().mutex);
  *library = 0x10000 + ++state().handles;
  return 0;
}
Result cuLibraryGetKernel(Handle* kernel, Handle, const char* entry) {
  CALL("%s", entry);
  const std::lock_guard<std::mutex> lock(state().mutex);
  *kernel = 0x20000 + ++state().handles;
  state().entries[*kernel] = entry;
  return 0;
}
Result cuKernelGetAttribute(int* value, int attribute, Handle, int device) {
  CALL("%d device=%d", attribute, device);
  *value = setting("static_shared");
  return 0;
}
Result cuKernelSetAttribute(int attribute, int value, Handle kernel, int device) {
  CALL("%d=%d device=%d", attribute, value, device);
  if (attribute != 8 || value + setting("static_shared") > setting("max_shared")) return kInvalidValue;
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().granted[{kernel, device}] = value;
  return 0;
}
Result cuKernelGetFunction(Handle* function, Handle kernel) {
  CALL("context=%#lx", current);
  if (current == 0) return kInvalidContext;
  *function = kernel;
  return 0;
}
Result cuFuncLoad(Handle kernel) {
  CALL("kernel=%#lx", kernel);
  return current == 0 ? kInvalidContext : 0;
}
#ifndef MOCK_WITHOUT_LAUNCH
Result cuLaunchKernelEx(const LaunchConfig* config, Handle kernel, void** parameters, void**) {
  std::string entry;
  Run run = nullptr;
  {
    const std::lock_guard<std::mutex> lock(state().mutex);
    const auto known = state().entries.find(kernel);
    if (known != state().entries.end()) entry = known->second;
    const auto registered = state().kernels.find(entry);
    if (registered != state().kernels.end()) run = registered->second;
  }
  CALL("%s grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%#lx context=%#lx", entry.c_str(), config->grid[0],
       config->grid[1], config->grid[2], config->block[0], config->block[1], config->block[2], config->shared_bytes,
       config->stream, current);
  CHECK(check_stream(config->stream));
  CHECK(check_launch(*config, kernel));
  const unsigned shape[] = {config->grid[0],  config->grid[1],  config->grid[2],     config->block[0],
                            config->block[1], config->block[2], config->shared_bytes};
  if (run == nullptr) return 0;
  if (!is_captured(config->stream)) {
    run(static_cast<const long long*>(parameters[0]), shape);
    return 0;
  }
  // The driver takes parameters when a launch is captured. The runtime has room for so many words, of which it uses some.
  constexpr size_t kRoom = 512;
  const auto* words = static_cast<const long long*>(parameters[0]);
  const std::vector<long long> kept(words, words + kRoom);
  const std::vector<unsigned> form(shape, shape + 7);
  return put(config->stream, [=] { run(kept.data(), form.data()); });
}
#endif
Result cuMemAlloc_v2(Address* address, size_t bytes) {
  CALL("%zu", bytes);
  NOT_IN_CAPTURES();
  if (current == 0) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  *address = allocate(bytes);
  return 0;
}
Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  CALL("%s", "");
  if (current == 0) return kInvalidContext;
  *free = 3ull << 30;
  *total = 4ull << 30;
  return 0;
}
Result cuMemAllocAsync(Address* address, size_t bytes, Handle stream) {
  CALL("%zu stream=%#lx", bytes, stream);
  CHECK(check_stream(stream));
  if (bytes == 0) return kInvalidValue;
  *address = allocate(bytes);
  return 0;
}
Result cuMemFreeAsync(Address address, Handle stream) {
  CALL("stream=%#lx", stream);
  CHECK(check_stream(stream));
  if (is_taken(stream)) return 0;  // the graph has the memory
  return release(address);
}
Result cuMemsetD16Async(Address address, unsigned short value, size_t count, Handle stream) {
  CALL("%#x count=%zu stream=%#lx", value, count, stream);
  CHECK(check_stream(stream));
  return put(stream, [=] {
    for (size_t k = 0; k < count; ++k) reinterpret_cast<unsigned short*>(address)[k] = value;
  });
}
Result cuMemsetD32Async(Address address, unsigned value, size_t count, Handle stream) {
  CALL("%#x count=%zu stream=%#lx", value, count, stream);
  CHECK(check_stream(stream));
  return put(stream, [=] {
    for (size_t k = 0; k < count; ++k) reinterpret_cast<unsigned*>(address)[k] = value;
  });
}
Result cuEventCreate(Handle* event, unsigned) {
  CALL("%s", "");
  const std::lock_guard<std::mutex> lock(state().mutex);
  *event = 0x30000 + ++state().handles;
  return 0;
}
Result cuEventRecord(Handle, Handle stream) {
  CALL("stream=%#lx", stream);
  CHECK(check_stream(stream));
  return 0;
}
Result cuEventQuery(Handle) {
  CALL("%s", "");
  NOT_IN_CAPTURES();
  return setting("busy") ? 600 : 0;
}
Result cuEventDestroy_v2(Handle) {
  CALL("%s", "");
  return 0;
}
Result cuMemsetD8Async(Address address, unsigned char value, size_t bytes, Handle stream) {
  CALL("%#x bytes=%zu stream=%#lx", value, bytes, stream);
  CHECK(check_stream(stream));
  return put(stream, [=] { std::memset(reinterpret_cast<void*>(address), value, bytes); });
}
Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Handle stream) {
  CALL("bytes=%zu stream=%#lx", bytes, stream);
  CHECK(check_stream(stream));
  return put(stream, [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
}
Result cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Handle stream) {
  CALL("bytes=%zu stream=%#lx", bytes, stream);
  if (is_taken(stream)) return kNotInCaptures;  // of memory that is not pinned
  CHECK(check_stream(stream));
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
Result cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Handle stream) {
  CALL("bytes=%zu stream=%#lx", bytes, stream);
  if (is_taken(stream)) return kNotInCaptures;  // of memory that is not pinned
  CHECK(check_stream(stream));
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
}
