// One launch as its custom call describes it: dimensions, batch, and where each parameter lives.
#pragma once

#include <cstdint>
#include <vector>

#include "plan.h"

namespace jwarp {

// What a parameter holds before the first thread runs.
enum class Init : int64_t {
  kInput = 0,   // an operand, only read
  kZeros = 1,   // a result that starts as zeros
  kInOut = 2,   // a result that starts as its operand's content
};

struct Binding {
  int64_t operand;  // index of the XLA operand, -1 if none
  int64_t result;   // index of the XLA result, -1 if none
  Init init;
  int64_t mask;  // bit k: the buffer has batch axis k

  bool has_axis(int64_t axis) const { return (mask >> axis) & 1; }
};

class Launch {
 public:
  // Throws Fault when the numbers are no launch.
  Launch(const int64_t* numbers, int64_t size);

  bool same_numbers(const Launch& other) const { return numbers_ == other.numbers_; }

  int64_t dims[kMaxDims];
  int64_t repeat;
  std::vector<int64_t> batch;
  std::vector<Binding> bindings;
  int64_t operand_count = 0;  // 1 + the largest operand index
  int64_t result_count = 0;   // results 0 .. result_count-1 are each bound exactly once

 private:
  std::vector<int64_t> numbers_;
};

}  // namespace jwarp
