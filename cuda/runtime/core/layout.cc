// Checking buffers against plan and launch.
#include "core/layout.h"

#include <algorithm>
#include <string>

#include "core/dtype.h"
#include "core/fault.h"

namespace jwarp {
namespace {

// Kernels see extents as int32, and the conditions of a plan rely on that.
constexpr int64_t kMaxExtent = INT32_MAX;

// The bytes of the parameters that are all memory, which 64-bit indices alone name elements of: types/all_memory.py.
constexpr int64_t kAllMemory = (int64_t{1} << 47) - (int64_t{1} << 16);

std::string text(const int64_t* numbers, int64_t count) {
  std::string out = "(";
  for (int64_t i = 0; i < count; ++i) out += (i ? ", " : "") + std::to_string(numbers[i]);
  return out + ")";
}

bool same_shape(const XLA_FFI_Buffer& buffer, int64_t dtype, const std::vector<int64_t>& dims) {
  return buffer.dtype == dtype && buffer.rank == static_cast<int64_t>(dims.size()) &&
         std::equal(dims.begin(), dims.end(), buffer.dims);
}

void check_buffer(const XLA_FFI_Buffer& buffer, const Parameter& parameter,
                  const std::vector<int64_t>& batch, const std::string& name) {
  if (buffer.dtype != parameter.dtype) {
    invalid(name + " has a buffer of dtype code " + std::to_string(buffer.dtype) +
            ", the kernel was compiled for " + std::to_string(parameter.dtype));
  }
  const int64_t batch_rank = static_cast<int64_t>(batch.size());
  if (buffer.rank != batch_rank + parameter.rank) {
    invalid(name + " has a buffer of rank " + std::to_string(buffer.rank) + ", expected " +
            std::to_string(batch_rank) + " batch axes and " + std::to_string(parameter.rank) + " of its own");
  }
  if (!std::equal(batch.begin(), batch.end(), buffer.dims)) {
    invalid(name + " has a buffer of shape " + text(buffer.dims, buffer.rank) +
            ", expected batch extents " + text(batch.data(), batch_rank));
  }
  const bool negative = std::any_of(buffer.dims, buffer.dims + buffer.rank, [](int64_t d) { return d < 0; });
  if (negative) invalid(name + " has a buffer of negative extent");
}

}  // namespace

int64_t product(const int64_t* extents, int64_t count, int64_t start) {
  if (start == 0 || std::find(extents, extents + count, 0) != extents + count) return 0;
  int64_t total = start;
  for (int64_t i = 0; i < count; ++i) {
    if (__builtin_mul_overflow(total, extents[i], &total)) {
      invalid("the sizes " + text(extents, count) + " are too large");
    }
  }
  return total;
}

Layout::Layout(const Plan& plan, const Launch& launch, const Buffers& buffers) : batch(launch.batch) {
  if (plan.parameters.size() != launch.bindings.size()) {
    invalid("the launch has " + std::to_string(launch.bindings.size()) + " parameters, its kernel has " +
            std::to_string(plan.parameters.size()));
  }
  if (launch.operand_count > buffers.operand_count || launch.result_count != buffers.result_count) {
    invalid("the launch needs " + std::to_string(launch.operand_count) + " operands and " +
            std::to_string(launch.result_count) + " results, but got " +
            std::to_string(buffers.operand_count) + " and " + std::to_string(buffers.result_count));
  }
  fit_operands(plan, launch, buffers);
  count_threads(plan, launch);
  leave_stored(plan, launch);
}

void Layout::fit_operands(const Plan& plan, const Launch& launch, const Buffers& buffers) {
  const size_t parameter_count = plan.parameters.size();
  strides.assign(batch.size() * parameter_count, 0);
  symbols.assign(plan.symbol_count, 0);
  std::copy(launch.dims, launch.dims + kMaxDims, symbols.begin());

  for (size_t p = 0; p < parameter_count; ++p) {
    const Parameter& parameter = plan.parameters[p];
    const Binding& binding = launch.bindings[p];
    const std::string name = "parameter " + std::to_string(p);
    if (!parameter.is_array && binding.result >= 0) invalid(name + " is a scalar and cannot be an output");

    std::vector<int64_t> axes;
    for (size_t k = 0; k < batch.size(); ++k) {
      if (binding.has_axis(k)) axes.push_back(batch[k]);
    }
    const XLA_FFI_Buffer& buffer = buffers.of(binding);
    check_buffer(buffer, parameter, axes, name);

    Operand operand;
    operand.binding = binding;
    operand.dtype = parameter.dtype;
    operand.dims.assign(buffer.dims, buffer.dims + buffer.rank);
    operand.bytes = product(buffer.dims, buffer.rank, item_size(parameter.dtype));
    operand.needs_zeros = binding.role == Role::kZeros;
    if (binding.role == Role::kInOut &&
        !same_shape(buffers.operand(binding.operand), operand.dtype, operand.dims)) {
      invalid(name + " starts as an operand of another shape or dtype than its result");
    }

    const int64_t* core = buffer.dims + axes.size();
    if (parameter.is_array) std::copy(core, core + parameter.rank, symbols.begin() + parameter.first_symbol);
    const bool is_all = parameter.rank == 1 && operand.bytes == kAllMemory;
    if (!is_all && std::any_of(core, core + parameter.rank, [](int64_t extent) { return extent > kMaxExtent; })) {
      invalid(name + " has a buffer of shape " + text(core, parameter.rank) +
              ", with an extent beyond 2^31 - 1");
    }
    int64_t stride = product(core, parameter.rank, item_size(parameter.dtype));
    for (size_t k = batch.size(); k-- > 0;) {
      if (!binding.has_axis(k)) continue;
      strides[k * parameter_count + p] = stride;
      stride = product(&batch[k], 1, stride);
    }
    operands.push_back(std::move(operand));
  }
}

void Layout::count_threads(const Plan& plan, const Launch& launch) {
  for (int64_t d = plan.tid_dims; d < kMaxDims; ++d) {
    if (launch.dims[d] != 1) {
      invalid("the launch has dimensions " + text(launch.dims, kMaxDims) + ", its kernel has only " +
              std::to_string(plan.tid_dims));
    }
  }
  columns = launch.dims[plan.tid_dims - 1];
  rows = product(launch.dims, plan.tid_dims - 1);
  batch_items = product(batch.data(), static_cast<int64_t>(batch.size()));
  const int64_t factors[] = {launch.repeat, batch_items, rows, columns};
  threads = product(factors, 4);
}

// What every thread stores to, no matter what happens, needs no zeros before.
void Layout::leave_stored(const Plan& plan, const Launch& launch) {
  if (threads == 0) return;  // no thread will store anything
  for (size_t p = 0; p < operands.size(); ++p) {
    if (plan.parameters[p].cover == Cover::kStored && has_extents(plan, launch, p)) operands[p].needs_zeros = false;
  }
}

bool Layout::has_extents(const Plan& plan, const Launch& launch, size_t p) const {
  const Parameter& parameter = plan.parameters[p];
  const auto core = symbols.begin() + parameter.first_symbol;
  // The axes of components come last.
  return parameter.is_array && parameter.rank >= plan.tid_dims && std::equal(core, core + plan.tid_dims, launch.dims);
}

bool Layout::fits(const Buffers& buffers) const {
  if (variables_operand >= buffers.operand_count) return false;
  if (variables_operand >= 0) {
    const XLA_FFI_Buffer& buffer = buffers.operand(variables_operand);
    if (!same_shape(buffer, buffer.dtype, variables)) return false;
  }
  for (const Operand& operand : operands) {
    const Binding& binding = operand.binding;
    if (binding.operand >= buffers.operand_count || binding.result >= buffers.result_count) return false;
    if (binding.operand >= 0 && !same_shape(buffers.operand(binding.operand), operand.dtype, operand.dims)) {
      return false;
    }
    if (binding.result >= 0 && !same_shape(buffers.result(binding.result), operand.dtype, operand.dims)) {
      return false;
    }
  }
  return true;
}

std::vector<int64_t> variables_of(const Launch& launch, const Buffers& buffers) {
  const int64_t number = launch.operand_count;
  if (number >= buffers.operand_count) {
    invalid("the launch lacks operand " + std::to_string(number) + ", which has its sizes");
  }
  const XLA_FFI_Buffer& buffer = buffers.operand(number);
  if (buffer.rank != 1 + launch.variable_count() || buffer.dims[0] != 0) {
    invalid("the launch has its sizes from an operand of shape " + text(buffer.dims, buffer.rank) +
            ", expected 0 and " + std::to_string(launch.variable_count()) + " extents");
  }
  return {buffer.dims, buffer.dims + buffer.rank};
}

}  // namespace jwarp
