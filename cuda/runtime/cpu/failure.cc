// Keeping the earliest failure, and naming its thread and batch element.
#include "failure.h"

#include <string>
#include <vector>

#include "fault.h"

namespace jwarp {
namespace {

// The coordinates of element `number` of a box, row-major.
std::vector<int64_t> unravel(int64_t number, const int64_t* extents, size_t rank) {
  std::vector<int64_t> result(rank);
  for (size_t k = rank; k-- > 0;) {
    result[k] = number % extents[k];
    number /= extents[k];
  }
  return result;
}

std::string text(const std::vector<int64_t>& numbers) {
  std::string out = "(";
  for (size_t k = 0; k < numbers.size(); ++k) out += (k ? ", " : "") + std::to_string(numbers[k]);
  return out + ")";
}

}  // namespace

void raise_failure(const std::string& what, const Layout& layout, int64_t tid_dims, int64_t thread, int64_t item) {
  std::string message = what + ", thread " + text(unravel(thread, layout.symbols.data(), tid_dims));
  if (!layout.batch.empty()) {
    message += ", batch " + text(unravel(item, layout.batch.data(), layout.batch.size()));
  }
  throw Fault(XLA_FFI_Error_Code_FAILED_PRECONDITION, message);
}

void Failure::note(const Frame& frame, int64_t granule, int64_t item) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (granule >= granule_.load(std::memory_order_relaxed)) return;
  site_ = frame.failed_site;
  item_ = item;
  row_ = frame.failed_row;
  column_ = frame.failed_column;
  granule_.store(granule, std::memory_order_relaxed);
}

void Failure::raise(const Kernel& kernel, const Geometry& geometry) const {
  if (site_ == 0) return;
  const size_t site = static_cast<size_t>(site_ - 1);
  const std::string what = site < kernel.failures.size() ? kernel.failures[site] : "a check failed";
  raise_failure(what, geometry, kernel.plan.tid_dims, row_ * geometry.columns + column_, item_);
}

}  // namespace jwarp
