// Decoding a formula, and its value.
#include "core/formula.h"

#include <algorithm>

namespace jwarp {

Formula::Formula(Reader& reader, int64_t variables) {
  steps_.resize(reader.count("the number of steps of a formula"));
  int64_t depth = 0;
  for (Step& step : steps_) {
    step.operation = static_cast<Operation>(reader.next("a step of a formula", 0, 7));
    step.number = 0;
    if (step.operation == Operation::kConstant) step.number = reader.next("a constant");
    if (step.operation == Operation::kVariable) step.number = reader.next("a variable", 0, variables - 1);
    const bool is_value = step.operation <= Operation::kVariable;
    if (!is_value && depth < 2) invalid("the launch is damaged: a formula lacks an operand");
    depth += is_value ? 1 : -1;
  }
  if (depth != 1) invalid("the launch is damaged: a formula has " + std::to_string(depth) + " values");
}

int64_t Formula::value(const int64_t* variables, const std::string& where) const {
  std::vector<int64_t> stack;
  for (const Step& step : steps_) {
    if (step.operation == Operation::kConstant) {
      stack.push_back(step.number);
    } else if (step.operation == Operation::kVariable) {
      stack.push_back(variables[step.number]);
    } else {
      const int64_t b = stack.back();
      stack.pop_back();
      stack.back() = combine(step.operation, stack.back(), b, where);
    }
  }
  return stack.back();
}

int64_t Formula::combine(Operation operation, int64_t a, int64_t b, const std::string& where) {
  int64_t result = 0;
  bool overflows = false;
  switch (operation) {
    case Operation::kAdd:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case Operation::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case Operation::kFloorDivide:
    case Operation::kModulo: {
      if (b == 0) invalid(where + ": a size is divided by 0");
      overflows = b == -1 && a == INT64_MIN;
      if (overflows) break;
      const int64_t rest = a % b;
      const bool rounds = rest != 0 && (rest < 0) != (b < 0);
      result = operation == Operation::kModulo ? rest + (rounds ? b : 0) : a / b - (rounds ? 1 : 0);
      break;
    }
    case Operation::kMax:
      return std::max(a, b);
    default:
      return std::min(a, b);
  }
  if (overflows) invalid(where + ": a size is beyond 2^63 - 1");
  return result;
}

}  // namespace jwarp
