// A number of a launch as a formula over dimension variables, whose values are known when it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/reader.h"

namespace jwarp {

// A program for a stack of integers.
class Formula {
 public:
  enum class Operation : int64_t {
    kConstant = 0,
    kVariable = 1,
    kAdd = 2,
    kMultiply = 3,
    kFloorDivide = 4,
    kModulo = 5,  // with the sign of the divisor, as in Python
    kMax = 6,
    kMin = 7,
  };

  // Throws Fault when the numbers are no formula over so many variables.
  Formula(Reader& reader, int64_t variables);

  // Throws Fault, beginning with `where`, when a number on the way does not fit into int64 or a divisor is 0.
  int64_t value(const int64_t* variables, const std::string& where) const;

 private:
  struct Step {
    Operation operation;
    int64_t number;  // the constant, or which variable; else 0
  };

  static int64_t combine(Operation operation, int64_t a, int64_t b, const std::string& where);

  std::vector<Step> steps_;
};

}  // namespace jwarp
