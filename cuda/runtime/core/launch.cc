// Decoding a launch.
#include "core/launch.h"

#include <algorithm>
#include <string>

#include "core/reader.h"

namespace jwarp {
namespace {

constexpr int64_t kMaxBatchAxes = 32;
constexpr int64_t kMaxBuffers = 4096;
constexpr int64_t kMaxVariables = 64;
// Kernels see coordinates as int32, and the conditions of a plan rely on that.
constexpr int64_t kMaxDim = INT32_MAX;

Binding read_binding(Reader& reader, int64_t batch_axes) {
  Binding binding;
  binding.operand = reader.next("an operand index", -1, kMaxBuffers);
  binding.result = reader.next("a result index", -1, kMaxBuffers);
  binding.role = static_cast<Role>(reader.next("a role", 0, 2));
  binding.mask = reader.next("a batch mask", 0, (int64_t{1} << batch_axes) - 1);
  const bool needs_operand = binding.role != Role::kZeros;
  const bool needs_result = binding.role != Role::kRead;
  if (needs_operand != (binding.operand >= 0) || needs_result != (binding.result >= 0)) {
    invalid("the launch is damaged: a parameter has role " +
            std::to_string(static_cast<int64_t>(binding.role)) + ", operand " +
            std::to_string(binding.operand) + " and result " + std::to_string(binding.result));
  }
  return binding;
}

}  // namespace

Launch::Launch(const int64_t* numbers, int64_t size) : numbers_(numbers, numbers + size) {
  Reader reader("launch", numbers, size);
  reader.format(kFormat);
  variable_count_ = reader.next("the number of variables", 0, kMaxVariables);
  const int64_t formula_count = reader.count("the number of formulas");
  for (int64_t f = 0; f < formula_count; ++f) formulas_.emplace_back(reader, variable_count_);
  if (variable_count_ > 0 && formula_count == 0) invalid("the launch is damaged: it has variables and no formulas");
  for (int64_t& dim : dims) dim = reader.next("a launch dimension", -formula_count, kMaxDim);
  repeat = reader.next("the repeat count", -formula_count, INT64_MAX);
  batch.resize(reader.next("the number of batch axes", 0, kMaxBatchAxes));
  for (int64_t& extent : batch) extent = reader.next("a batch extent", -formula_count, INT64_MAX);

  const int64_t parameter_count = reader.next("the number of parameters", 0, kMaxBuffers);
  std::vector<int64_t> results;
  for (int64_t p = 0; p < parameter_count; ++p) {
    const Binding binding = read_binding(reader, static_cast<int64_t>(batch.size()));
    operand_count = std::max(operand_count, binding.operand + 1);
    if (binding.result >= 0) results.push_back(binding.result);
    bindings.push_back(binding);
  }
  reader.end();

  // Every result has one owner: one without would be returned unset, one with two would be shared memory.
  std::sort(results.begin(), results.end());
  result_count = static_cast<int64_t>(results.size());
  for (int64_t r = 0; r < result_count; ++r) {
    if (results[r] != r) invalid("the launch is damaged: result " + std::to_string(r) +
                                 " is not bound to exactly one parameter");
  }
}

Launch Launch::with_variables(const int64_t* variables) const {
  const std::string where = kernel.empty() ? "a launch" : "kernel '" + kernel + "'";
  const auto resolve = [&](int64_t& number, const char* name, int64_t high) {
    if (number >= 0) return;
    number = formulas_[-1 - number].value(variables, where);
    if (number < 0 || number > high) {
      invalid(where + ": the sizes of this call make " + name + " " + std::to_string(number) +
              ", not between 0 and " + std::to_string(high));
    }
  };
  Launch known = *this;
  known.formulas_.clear();
  for (int64_t& dim : known.dims) resolve(dim, "a launch dimension", kMaxDim);
  resolve(known.repeat, "the repeat count", INT64_MAX);
  for (int64_t& extent : known.batch) resolve(extent, "a batch extent", INT64_MAX);
  return known;
}

}  // namespace jwarp
