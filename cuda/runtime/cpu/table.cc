// The table of compiled kernels and its lock.
#include "cpu/table.h"

#include <pthread.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/fault.h"

namespace jwarp::cpu {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
};

// Never destroyed: pool threads may still run while the process exits.
Table& table() {
  static Table* const instance = [] {
    auto* created = new Table;
    // A fork while another thread holds the lock would leave it locked in the child for ever.
    pthread_atfork([] { table().mutex.lock(); }, [] { table().mutex.unlock(); },
                   [] { table().mutex.unlock(); });
    return created;
  }();
  return *instance;
}

// Made while the module is loaded: a fork would leave what another thread is making half made in the child.
[[maybe_unused]] const Table& kMade = table();

Kernel* find_locked(Table& table, const std::string& fingerprint) {
  const auto found = table.kernels.find(fingerprint);
  return found == table.kernels.end() ? nullptr : found->second.get();
}

}  // namespace

Kernel* find_kernel(const std::string& fingerprint) {
  Table& kernels = table();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  return find_locked(kernels, fingerprint);
}

void register_kernel(const std::string& fingerprint, Plan plan, std::vector<std::string> failures, Entry fast,
                     Entry checked) {
  if (fingerprint.empty()) invalid("a kernel needs a fingerprint");
  Table& kernels = table();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  Kernel* kernel = find_locked(kernels, fingerprint);
  if (kernel == nullptr) {
    auto created = std::make_unique<Kernel>(fingerprint, std::move(plan), std::move(failures));
    kernel = created.get();
    kernels.kernels.emplace(fingerprint, std::move(created));
  } else if (!kernel->plan.same_numbers(plan)) {
    invalid("kernel " + fingerprint + " is already registered with another plan");
  }
  if (fast != nullptr) kernel->fast.store(fast, std::memory_order_release);
  if (checked != nullptr) kernel->checked.store(checked, std::memory_order_release);
}

}  // namespace jwarp::cpu
