// Buffers of known shapes checked against a launch and its kernel: sizes, strides and symbols.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/launch.h"
#include "core/plan.h"
#include "xla/ffi/api/c_api.h"

namespace jwarp {

// The operands and results of one call; each pointer is to an XLA_FFI_Buffer.
struct Buffers {
  void* const* operands;
  int64_t operand_count;
  void* const* results;
  int64_t result_count;

  const XLA_FFI_Buffer& operand(int64_t i) const { return *static_cast<const XLA_FFI_Buffer*>(operands[i]); }
  const XLA_FFI_Buffer& result(int64_t i) const { return *static_cast<const XLA_FFI_Buffer*>(results[i]); }

  // Where the kernel finds a parameter.
  const XLA_FFI_Buffer& of(const Binding& binding) const {
    return binding.result >= 0 ? result(binding.result) : operand(binding.operand);
  }
};

// The product of extents, in which a zero wins over an overflow. Throws Fault when it is too large.
int64_t product(const int64_t* extents, int64_t count, int64_t start = 1);

class Layout {
 public:
  // Throws Fault when the buffers, the launch and the plan do not belong together.
  Layout(const Plan& plan, const Launch& launch, const Buffers& buffers);

  // True if this layout is also right for these buffers.
  bool fits(const Buffers& buffers) const;

  struct Operand {
    Binding binding;
    int64_t dtype;
    std::vector<int64_t> dims;  // batch extents, then core extents
    int64_t bytes;
    bool needs_zeros;  // the launcher zeroes the whole result before the first thread runs
  };

  std::vector<Operand> operands;  // of the parameters
  std::vector<int64_t> batch;
  std::vector<int64_t> strides;  // bytes, strides[k * operands.size() + p]; 0 where p lacks axis k
  std::vector<int64_t> symbols;  // integer scalars still 0

  int64_t batch_items;
  int64_t rows;
  int64_t columns;
  int64_t threads;  // of all repeats and batch elements

  // Where a launch is symbolic: the operand whose extents are its variables, and those extents.
  int64_t variables_operand = -1;
  std::vector<int64_t> variables;

 protected:
  // True if an array has an element for each thread of the launch, by the extents of its first axes.
  bool has_extents(const Plan& plan, const Launch& launch, size_t p) const;

 private:
  void fit_operands(const Plan& plan, const Launch& launch, const Buffers& buffers);
  void count_threads(const Plan& plan, const Launch& launch);
  void leave_stored(const Plan& plan, const Launch& launch);
};

// The extents of the operand that has the variables of a symbolic launch. Throws Fault when it is none.
std::vector<int64_t> variables_of(const Launch& launch, const Buffers& buffers);

// A layout, or what derives from it, with numbers for all sizes of the launch.
template <typename L, typename... Others>
std::unique_ptr<L> lay_out(const Plan& plan, const Launch& launch, const Buffers& buffers, const Others&... others) {
  if (!launch.is_symbolic()) return std::make_unique<L>(plan, launch, buffers, others...);
  std::vector<int64_t> variables = variables_of(launch, buffers);
  auto layout = std::make_unique<L>(plan, launch.with_variables(variables.data() + 1), buffers, others...);
  layout->variables_operand = launch.operand_count;
  layout->variables = std::move(variables);
  return layout;
}

}  // namespace jwarp
