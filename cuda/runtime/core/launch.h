// One launch as its custom call describes it: dimensions, batch, and where each parameter lives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/formula.h"
#include "core/plan.h"

namespace jwarp {

// The role of a parameter in a launch.
enum class Role : int64_t {
  kRead = 0,   // an operand, only read
  kZeros = 1,  // a result that starts as zeros
  kInOut = 2,  // a result that starts as its operand's content
};

struct Binding {
  int64_t operand;  // index of the XLA operand, -1 if none
  int64_t result;   // index of the XLA result, -1 if none
  Role role;
  int64_t mask;  // bit k: the buffer has batch axis k

  bool has_axis(int64_t axis) const { return (mask >> axis) & 1; }
};

class Launch {
 public:
  static constexpr int64_t kFormat = 2;

  // Throws Fault when the numbers are no launch.
  Launch(const int64_t* numbers, int64_t size);

  bool same_numbers(const Launch& other) const { return numbers_ == other.numbers_; }

  // True if some of its dims, its repeat count or its batch extents depend on dimension variables: these are
  // negative here, -1 minus the number of a formula. The values of the variables are the extents of one more
  // operand, after a first extent of 0: an array without content.
  bool is_symbolic() const { return !formulas_.empty(); }
  int64_t variable_count() const { return variable_count_; }
  // The same launch with numbers for all of them. Throws Fault where one is no possible size.
  Launch with_variables(const int64_t* variables) const;

  std::string kernel;  // its name, for errors; may be empty
  int64_t dims[kMaxDims];
  int64_t repeat;
  std::vector<int64_t> batch;
  std::vector<Binding> bindings;
  int64_t operand_count = 0;  // 1 + the largest operand index; the variables come after them
  int64_t result_count = 0;   // results 0 .. result_count-1 are each bound exactly once

 private:
  int64_t variable_count_ = 0;
  std::vector<Formula> formulas_;
  std::vector<int64_t> numbers_;
};

}  // namespace jwarp
