// A launch laid out for the CPU: everything that does not depend on the contents of buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/layout.h"
#include "core/small_array.h"

namespace jwarp::cpu {

class CpuLayout : public Layout {
 public:
  // Throws Fault when the buffers, the launch and the plan do not belong together.
  CpuLayout(const Plan& plan, const Launch& launch, const Buffers& buffers);

  int64_t granule_columns = 0;  // the unit of work is one row of at most so many columns
  int64_t row_granules = 0;
  int64_t granules = 0;  // in all; 0 when nothing runs

  // Threads share the granules chunk by chunk. A chunk of a launch that adds to arrays is run by one
  // thread, and what it adds is kept apart until the end: so chunks depend on sizes alone, and no sum
  // depends on the number of threads.
  int64_t chunks = 0;
  std::vector<int64_t> copied;  // the parameters of which each chunk but the first needs a copy
  int64_t chunk_begin(int64_t chunk) const;
  int64_t chunk_of(int64_t granule) const;

  bool clauses_hold;  // only meaningful when the clauses use no scalar
  uint64_t fill = 0;

 private:
  void count_work(const Plan& plan, const Launch& launch);
  void choose_zero_fill(const Plan& plan, const Launch& launch);
  void choose_chunks(const Plan& plan, const Launch& launch);
  bool each_own_element(const Plan& plan, const Launch& launch, size_t p) const;
  bool must_run_in_turn(const Plan& plan, const Launch& launch) const;
  bool told_apart(const Plan& plan, const Launch& launch, size_t p) const;
  bool has_all_axes(size_t p) const;
};

// The operand pointers of one batch element, and how to get to the next one.
class Cursor {
 public:
  Cursor(const CpuLayout& layout, void* const* base, int64_t item);
  void next();
  void* const* operands() const { return operands_.data(); }

 private:
  void move(int64_t axis, int64_t steps);

  const CpuLayout& layout_;
  SmallArray<void*, 16> operands_;
  SmallArray<int64_t, 4> index_;
};

}  // namespace jwarp::cpu
