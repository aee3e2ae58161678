// The table of contexts.
#include "gpu/contexts.h"

#include <memory>
#include <unordered_map>

namespace jwarp::gpu {
namespace {

// Never destroyed: other threads may still launch while the process exits.
std::unordered_map<Context, std::unique_ptr<DeviceContext>>& contexts() {
  static auto* const instance = new std::unordered_map<Context, std::unique_ptr<DeviceContext>>;
  return *instance;
}

}  // namespace

DeviceContext& device_context(Context context, const std::string& who) {
  const Driver& cuda = driver();
  const std::lock_guard<std::mutex> lock(process_mutex());
  const auto known = contexts().find(context);
  if (known != contexts().end()) return *known->second;
  Device device = 0;
  int multiprocessors = 0;
  cuda.check(cuda.context_get_device(&device), "cuCtxGetDevice", who);
  cuda.check(cuda.device_get_attribute(&multiprocessors, kMultiprocessors, device), "cuDeviceGetAttribute", who);
  auto made = std::make_unique<DeviceContext>(context, device, multiprocessors);
  return *contexts().emplace(context, std::move(made)).first->second;
}

Address DeviceContext::take_word(const Driver& driver, const std::string& who) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!words_.empty()) {
      const Address word = words_.back();
      words_.pop_back();
      return word;
    }
  }
  Address word = 0;
  driver.check(driver.memory_alloc(&word, sizeof(uint64_t)), "cuMemAlloc", who);
  return word;
}

void DeviceContext::enlarge_heap(const Driver& driver, int64_t bytes) {
  constexpr int64_t kGranted = 8 << 20;  // without asking
  const std::lock_guard<std::mutex> lock(mutex_);
  if (heap_ >= bytes) return;
  heap_ = bytes;
  for (int64_t size = bytes; size > kGranted; size /= 2) {
    if (driver.context_set_limit(kHeapLimit, static_cast<size_t>(size)) == 0) return;
  }
}

void DeviceContext::give_word(Address word) {
  const std::lock_guard<std::mutex> lock(mutex_);
  words_.push_back(word);
}

}  // namespace jwarp::gpu
