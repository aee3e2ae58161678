// Checking images, and loading them once.
#include "gpu/images.h"

#include <cstring>
#include <unordered_map>

#include "core/fault.h"
#include "gpu/places.h"

namespace jwarp::gpu {

struct Image {
  const std::string* content = nullptr;
  Library library = nullptr;
  std::map<std::string, std::unique_ptr<LoadedKernel>, std::less<>> kernels;
};

namespace {

// Dynamic shared memory beyond this, together with the static one, has to be asked for.
constexpr int64_t kGrantedShared = 48 << 10;

// Never destroyed: other threads may still launch while the process exits.
std::unordered_map<std::string, Image>& images() {
  static auto* const instance = new std::unordered_map<std::string, Image>;
  return *instance;
}

template <typename T>
T read_at(std::string_view bytes, uint64_t offset) {
  T value = 0;
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof(T)) {
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
  }
  return value;
}

bool lies_within(std::string_view bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

// The tables of a 64-bit ELF file, and the sections, lie within it.
bool is_whole_cubin(std::string_view bytes) {
  constexpr uint64_t kHeader = 64, kSection = 64, kSegment = 56;
  constexpr uint32_t kNoBits = 8;
  if (bytes.size() < kHeader || bytes.substr(0, 5) != std::string_view("\x7f" "ELF\x02", 5)) return false;
  const auto segments = read_at<uint64_t>(bytes, 32), sections = read_at<uint64_t>(bytes, 40);
  const uint64_t segment_count = read_at<uint16_t>(bytes, 56), section_count = read_at<uint16_t>(bytes, 60);
  if (segment_count > 0 && read_at<uint16_t>(bytes, 54) != kSegment) return false;
  if (section_count > 0 && read_at<uint16_t>(bytes, 58) != kSection) return false;
  if (!lies_within(bytes, segments, segment_count * kSegment)) return false;
  if (!lies_within(bytes, sections, section_count * kSection)) return false;
  for (uint64_t k = 0; k < section_count; ++k) {
    const uint64_t section = sections + k * kSection;
    if (read_at<uint32_t>(bytes, section + 4) == kNoBits) continue;
    if (!lies_within(bytes, read_at<uint64_t>(bytes, section + 24), read_at<uint64_t>(bytes, section + 32))) {
      return false;
    }
  }
  return true;
}

// A container of several cubins says how long it is.
bool is_whole_fatbin(std::string_view bytes) {
  constexpr uint32_t kMagic = 0xba55ed50;
  if (bytes.size() < 16 || read_at<uint32_t>(bytes, 0) != kMagic) return false;
  const uint64_t header = read_at<uint16_t>(bytes, 6);
  return header >= 16 && lies_within(bytes, 0, header) && lies_within(bytes, header, read_at<uint64_t>(bytes, 8));
}

}  // namespace

void damaged(const std::string& who, const std::string& text) {
  throw DeviceFault(XLA_FFI_Error_Code_INVALID_ARGUMENT,
                    {.who = who,
                     .text = text,
                     .hint = "the file that the program was read from has changed: export the program again, or delete "
                             "JAX's compilation cache and jwarp's (python -m jwarp says where that is)"});
}

// The driver is given no length: it would read on behind an image that was cut off.
LoadedKernel& find_kernel(std::string_view content, std::string_view symbol, const std::string& who) {
  if (!is_whole_cubin(content) && !is_whole_fatbin(content)) {
    damaged(who, "its image is damaged, it is neither a whole cubin nor a whole fatbin");
  }
  if (symbol.empty() || symbol.find('\0') != std::string_view::npos) {
    damaged(who, "the name of its entry is damaged");
  }
  const std::lock_guard<std::mutex> lock(process_mutex());
  const auto found = images().try_emplace(std::string(content)).first;
  Image& image = found->second;
  image.content = &found->first;
  const auto known = image.kernels.find(symbol);
  if (known != image.kernels.end()) return *known->second;
  auto made = std::make_unique<LoadedKernel>(image, std::string(symbol));
  return *image.kernels.emplace(symbol, std::move(made)).first->second;
}

std::string LoadedKernel::place() const { return place_of(*image_.content, symbol_); }

void LoadedKernel::load(const std::string& who) {
  if (handle() != nullptr) return;
  const Driver& cuda = driver();
  const std::lock_guard<std::mutex> lock(process_mutex());
  if (handle() != nullptr) return;
  if (image_.library == nullptr) {
    Library library = nullptr;
    cuda.check(cuda.library_load_data(&library, image_.content->data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
               "cuLibraryLoadData", who);
    image_.library = library;
  }
  DriverKernel kernel = nullptr;
  cuda.check(cuda.library_get_kernel(&kernel, image_.library, symbol_.c_str()), "cuLibraryGetKernel", who);
  handle_.store(kernel, std::memory_order_release);
}

void LoadedKernel::set_up(Device device, int64_t shared, const std::string& who) {
  load(who);
  const Driver& cuda = driver();
  const std::lock_guard<std::mutex> lock(process_mutex());
  const auto known = shared_.find(device);
  if (known != shared_.end() && known->second >= shared) return;
  // Where the driver loads code when it is first used, that is now and not during a capture.
  Function function = nullptr;
  const Result result = cuda.kernel_get_function(&function, handle());
  if (result == kNoBinaryForGpu) {
    int major = 0, minor = 0;
    cuda.device_get_attribute(&major, kMajor, device);
    cuda.device_get_attribute(&minor, kMinor, device);
    throw DeviceFault(XLA_FFI_Error_Code_FAILED_PRECONDITION,
                      {.who = who,
                       .text = "it was not compiled for this GPU, whose compute capability is " +
                               std::to_string(major) + "." + std::to_string(minor) + " (" +
                               cuda.describe(result, "cuKernelGetFunction") + ")",
                       .hint = "lower the program again with wp.config.cuda_arch = \"sm_" + std::to_string(major) +
                               std::to_string(minor) + "\""});
  }
  cuda.check(result, "cuKernelGetFunction", who);
  cuda.check(cuda.function_load(function), "cuFuncLoad", who);
  if (shared > 0) allow_shared(cuda, device, shared, who);
  shared_[device] = shared;
}

void LoadedKernel::allow_shared(const Driver& cuda, Device device, int64_t shared, const std::string& who) const {
  int fixed = 0;
  cuda.check(cuda.kernel_get_attribute(&fixed, kStaticShared, handle(), device), "cuKernelGetAttribute", who);
  if (fixed + shared <= kGrantedShared) return;
  int most = 0;
  cuda.check(cuda.device_get_attribute(&most, kMaxSharedPerBlock, device), "cuDeviceGetAttribute", who);
  if (fixed + shared > most) {
    throw DeviceFault(XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
                      {.who = who,
                       .text = "a block needs " + std::to_string(fixed + shared) +
                               " bytes of shared memory, and this GPU has " + std::to_string(most),
                       .hint = "make its tiles, or its own arrays in shared memory, smaller"});
  }
  cuda.check(cuda.kernel_set_attribute(kMaxDynamicShared, static_cast<int>(shared), handle(), device),
             "cuKernelSetAttribute", who);
}

}  // namespace jwarp::gpu
