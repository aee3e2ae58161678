// Keeping the earliest failure of a launch.
#include "cpu/first_failure.h"

#include <string>

#include "core/failed_check.h"

namespace jwarp::cpu {

void FirstFailure::note(const Frame& frame, int64_t granule, int64_t item) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (granule >= granule_.load(std::memory_order_relaxed)) return;
  site_ = frame.failed_site;
  item_ = item;
  row_ = frame.failed_row;
  column_ = frame.failed_column;
  granule_.store(granule, std::memory_order_relaxed);
}

void FirstFailure::raise(const Kernel& kernel, const CpuLayout& layout) const {
  if (site_ == 0) return;
  const size_t site = static_cast<size_t>(site_ - 1);
  const std::string what = site < kernel.failures.size() ? kernel.failures[site] : "a check failed";
  raise_failed_check(what, layout, kernel.plan.tid_dims, row_ * layout.columns + column_, item_);
}

}  // namespace jwarp::cpu
