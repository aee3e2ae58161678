// Checking buffers against plan and launch, and laying out the work.
#include "geometry.h"

#include <algorithm>
#include <string>

#include "dtype.h"
#include "fault.h"

namespace jwarp {
namespace {

// Vector code works on columns, so a row is only split at multiples of this.
constexpr int64_t kColumnUnit = 64;
// With this many rows there is enough to share without splitting rows that are not long.
constexpr int64_t kManyRows = 256;
constexpr int64_t kLongRow = 64 * kColumnUnit;
constexpr int64_t kFillBits = 64;
// More chunks than this are of use to no processor of today.
constexpr int64_t kMaxChunks = 64;
// What a chunk costs, and each byte that it needs a copy of; in tenths of a nanosecond, as weights are.
constexpr double kChunkWeight = 1000;
constexpr double kByteWeight = 6;
// The part of a launch's work that copies may cost.
constexpr double kCopyShare = 0.5;
// Copies take no more memory than this, or than the launch's own arrays do.
constexpr double kMaxCopyBytes = 1 << 28;
// Kernels see extents as int32, and the conditions of a plan rely on that.
constexpr int64_t kMaxExtent = INT32_MAX;

std::string text(const int64_t* numbers, int64_t count) {
  std::string out = "(";
  for (int64_t i = 0; i < count; ++i) out += (i ? ", " : "") + std::to_string(numbers[i]);
  return out + ")";
}

// The product of extents, in which a zero wins over an overflow.
int64_t product(const int64_t* extents, int64_t count, int64_t start = 1) {
  if (start == 0 || std::find(extents, extents + count, 0) != extents + count) return 0;
  int64_t total = start;
  for (int64_t i = 0; i < count; ++i) {
    if (__builtin_mul_overflow(total, extents[i], &total)) {
      invalid("the sizes " + text(extents, count) + " are too large");
    }
  }
  return total;
}

int64_t product(const std::vector<int64_t>& extents, int64_t start = 1) {
  return product(extents.data(), static_cast<int64_t>(extents.size()), start);
}

bool has_axis(int64_t mask, size_t axis) { return (mask >> axis) & 1; }

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

// Whether an array has the extents of the launch.
bool has_extents(const Parameter& parameter, const std::vector<int64_t>& symbols, const Launch& launch,
                 int64_t tid_dims) {
  const auto core = symbols.begin() + parameter.first_symbol;
  return parameter.is_array && parameter.rank == tid_dims &&
         std::equal(core, core + parameter.rank, launch.dims);
}

}  // namespace

Geometry::Geometry(const Plan& plan, const Launch& launch, const Buffers& buffers) : batch(launch.batch) {
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
  count_work(plan, launch);
  choose_zero_fill(plan, launch);
  choose_chunks(plan, launch);
  clauses_hold = plan.clauses_use_scalars || plan.clauses_hold(symbols.data());
}

void Geometry::fit_operands(const Plan& plan, const Launch& launch, const Buffers& buffers) {
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
      if (has_axis(binding.mask, k)) axes.push_back(batch[k]);
    }
    const bool is_result = binding.result >= 0;
    const XLA_FFI_Buffer& buffer =
        is_result ? buffers.result(binding.result) : buffers.operand(binding.operand);
    check_buffer(buffer, parameter, axes, name);

    Operand operand;
    operand.binding = binding;
    operand.dtype = parameter.dtype;
    operand.dims.assign(buffer.dims, buffer.dims + buffer.rank);
    operand.bytes = product(operand.dims, item_size(parameter.dtype));
    operand.needs_zeros = binding.init == Init::kZeros;
    if (binding.init == Init::kInOut &&
        !same_shape(buffers.operand(binding.operand), operand.dtype, operand.dims)) {
      invalid(name + " starts as an operand of another shape or dtype than its result");
    }

    const int64_t* core = buffer.dims + axes.size();
    if (parameter.is_array) std::copy(core, core + parameter.rank, symbols.begin() + parameter.first_symbol);
    if (std::any_of(core, core + parameter.rank, [](int64_t extent) { return extent > kMaxExtent; })) {
      invalid(name + " has a buffer of shape " + text(core, parameter.rank) +
              ", with an extent beyond 2^31 - 1");
    }
    int64_t stride = product(core, parameter.rank, item_size(parameter.dtype));
    for (size_t k = batch.size(); k-- > 0;) {
      if (!has_axis(binding.mask, k)) continue;
      strides[k * parameter_count + p] = stride;
      stride = product(&batch[k], 1, stride);
    }
    operands.push_back(std::move(operand));
  }
}

void Geometry::count_work(const Plan& plan, const Launch& launch) {
  for (int64_t d = plan.tid_dims; d < kMaxDims; ++d) {
    if (launch.dims[d] != 1) {
      invalid("the launch has dimensions " + text(launch.dims, kMaxDims) + ", its kernel has only " +
              std::to_string(plan.tid_dims));
    }
  }
  columns = launch.dims[plan.tid_dims - 1];
  rows = product(launch.dims, plan.tid_dims - 1);
  batch_items = product(batch);
  const int64_t factors[] = {launch.repeat, batch_items, rows, columns};
  const int64_t threads = product(factors, 4);
  if (threads == 0) return;

  // The split depends on sizes alone, never on the number of workers.
  const int64_t all_rows = launch.repeat * batch_items * rows;
  granule_columns = all_rows >= kManyRows ? std::clamp(columns, kColumnUnit, kLongRow) : kColumnUnit;
  row_granules = columns / granule_columns + (columns % granule_columns != 0);
  granules = all_rows * row_granules;
}

void Geometry::choose_zero_fill(const Plan& plan, const Launch& launch) {
  if (granules == 0) return;  // no thread will store anything
  for (size_t p = 0; p < operands.size(); ++p) {
    const Parameter& parameter = plan.parameters[p];
    Operand& operand = operands[p];
    if (!operand.needs_zeros || !has_extents(parameter, symbols, launch, plan.tid_dims)) continue;
    if (parameter.cover == Cover::kStored) operand.needs_zeros = false;
    if (p < kFillBits && each_own_element(plan, launch, p)) {
      operand.needs_zeros = false;
      fill |= uint64_t{1} << p;
    }
  }
}

// Whether no two threads touch one element; several batch elements or repeats may share one.
bool Geometry::each_own_element(const Plan& plan, const Launch& launch, size_t p) const {
  const Parameter& parameter = plan.parameters[p];
  return parameter.cover == Cover::kOwn && launch.repeat == 1 && has_all_axes(p) &&
         has_extents(parameter, symbols, launch, plan.tid_dims);
}

bool Geometry::has_all_axes(size_t p) const {
  for (size_t k = 0; k < batch.size(); ++k) {
    if (batch[k] > 1 && !has_axis(operands[p].binding.mask, k)) return false;
  }
  return true;
}

void Geometry::choose_chunks(const Plan& plan, const Launch& launch) {
  chunks = granules;
  bool apart = launch.repeat == 1;  // batch elements add to different elements
  double bytes = 0, all_bytes = 0;
  for (size_t p = 0; p < operands.size(); ++p) {
    all_bytes += static_cast<double>(operands[p].bytes);
    if (!plan.parameters[p].is_sum || each_own_element(plan, launch, p)) continue;
    copied.push_back(static_cast<int64_t>(p));
    apart = apart && has_all_axes(p);
    bytes += static_cast<double>(operands[p].bytes);
  }
  if (copied.empty() || granules == 0) return;

  const double all_rows = static_cast<double>(launch.repeat) * static_cast<double>(batch_items * rows);
  const double weight = all_rows * static_cast<double>(columns) * static_cast<double>(plan.weight);
  const double worth = weight * kCopyShare / (kChunkWeight + kByteWeight * bytes);
  const double fitting = std::max(kMaxCopyBytes, all_bytes) / std::max(bytes, 1.0);
  const double copies = std::min({worth, fitting, static_cast<double>(std::min(kMaxChunks, granules) - 1)});
  chunks = 1;
  while (static_cast<double>(2 * chunks - 1) <= copies) chunks *= 2;
  const bool by_item = apart && batch_items >= chunks;
  if (by_item) chunks = batch_items;
  if (by_item || chunks == 1) copied.clear();
}

int64_t Geometry::chunk_begin(int64_t chunk) const {
  return static_cast<int64_t>(static_cast<__int128>(granules) * chunk / chunks);
}

int64_t Geometry::chunk_of(int64_t granule) const {
  return static_cast<int64_t>(((static_cast<__int128>(granule) + 1) * chunks - 1) / granules);
}

bool Geometry::fits(const Buffers& buffers) const {
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

Cursor::Cursor(const Geometry& geometry, void* const* base, int64_t item)
    : geometry_(geometry), operands_(geometry.operands.size()), index_(geometry.batch.size()) {
  std::copy(base, base + geometry.operands.size(), operands_.data());
  for (size_t k = geometry.batch.size(); k-- > 0;) {
    index_[k] = item % geometry.batch[k];
    item /= geometry.batch[k];
    move(static_cast<int64_t>(k), index_[k]);
  }
}

void Cursor::next() {
  for (size_t k = geometry_.batch.size(); k-- > 0;) {
    if (index_[k] + 1 < geometry_.batch[k]) {
      ++index_[k];
      move(static_cast<int64_t>(k), 1);
      return;
    }
    move(static_cast<int64_t>(k), -index_[k]);
    index_[k] = 0;
  }
}

void Cursor::move(int64_t axis, int64_t steps) {
  if (steps == 0) return;
  const size_t count = geometry_.operands.size();
  const int64_t* stride = geometry_.strides.data() + axis * count;
  for (size_t p = 0; p < count; ++p) {
    operands_[p] = static_cast<char*>(operands_[p]) + steps * stride[p];
  }
}

}  // namespace jwarp
