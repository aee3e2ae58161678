// The failed check of a launch that its threads come to first, and the error that it becomes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "entry.h"
#include "geometry.h"
#include "table.h"

namespace jwarp {

// Throws the Fault that `what` went wrong in a thread, counted through the launch dimensions, of a batch element.
[[noreturn]] void raise_failure(const std::string& what, const Layout& layout, int64_t tid_dims, int64_t thread,
                                int64_t item);

class Failure {
 public:
  // Whether work from this granule on no longer matters.
  bool precedes(int64_t granule) const { return granule_.load(std::memory_order_relaxed) < granule; }

  // Notes what an entry left in its frame; the failure in the earliest work is kept.
  void note(const Frame& frame, int64_t granule, int64_t item);

  // Throws Fault if there was one.
  void raise(const Kernel& kernel, const Geometry& geometry) const;

 private:
  std::atomic<int64_t> granule_{INT64_MAX};
  std::mutex mutex_;
  int64_t site_ = 0;
  int64_t item_ = 0;
  int64_t row_ = 0;
  int64_t column_ = 0;
};

}  // namespace jwarp
