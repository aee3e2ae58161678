// The failed check of a launch that its threads come to first.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "cpu/entry.h"
#include "cpu/layout.h"
#include "cpu/table.h"

namespace jwarp::cpu {

class FirstFailure {
 public:
  // True if work from this granule on no longer matters.
  bool precedes(int64_t granule) const { return granule_.load(std::memory_order_relaxed) < granule; }

  // Notes what an entry left in its frame; the failure in the earliest work is kept.
  void note(const Frame& frame, int64_t granule, int64_t item);

  // Throws Fault if there was one.
  void raise(const Kernel& kernel, const CpuLayout& layout) const;

 private:
  std::atomic<int64_t> granule_{INT64_MAX};
  std::mutex mutex_;
  int64_t site_ = 0;
  int64_t item_ = 0;
  int64_t row_ = 0;
  int64_t column_ = 0;
};

}  // namespace jwarp::cpu
