// Laying out the work of a launch.
#include "cpu/layout.h"

#include <algorithm>

namespace jwarp::cpu {
namespace {

// With this many rows there is enough to share without splitting rows that are not long.
constexpr int64_t kManyRows = 256;
constexpr int64_t kLongRow = 64;  // groups of columns
constexpr size_t kFillBits = 64;
// More chunks than this are of use to no processor of today.
constexpr int64_t kMaxChunks = 64;
// The cost of a chunk, and of each byte that it needs a copy of; in tenths of a nanosecond, like weights.
constexpr double kChunkWeight = 1000;
constexpr double kByteWeight = 6;
// The part of a launch's work that a few copies may cost; more of them may cost a part of that. Work is a rough estimate.
constexpr double kCopyShare = 0.5;
constexpr double kFewCopies = 3;
constexpr double kShareOfMany = 1.0 / 16;
// Copies take no more memory than this, or than the launch's own arrays do.
constexpr double kMaxCopyBytes = 1 << 28;
// Indices of threads do not wrap up to this.
constexpr int64_t kMaxIndex = (int64_t{1} << 31) - (int64_t{1} << 17);

}  // namespace

CpuLayout::CpuLayout(const Plan& plan, const Launch& launch, const Buffers& buffers) : Layout(plan, launch, buffers) {
  count_work(plan, launch);
  choose_zero_fill(plan, launch);
  choose_chunks(plan, launch);
  clauses_hold = plan.clauses_use_scalars || plan.clauses_hold(symbols.data());
}

void CpuLayout::count_work(const Plan& plan, const Launch& launch) {
  if (threads == 0) return;
  // The split depends on sizes alone, never on the number of workers.
  const int64_t all_rows = launch.repeat * batch_items * rows;
  const int64_t group = plan.column_group;
  granule_columns = all_rows >= kManyRows ? std::clamp(columns, group, kLongRow * group) : group;
  row_granules = columns / granule_columns + (columns % granule_columns != 0);
  granules = all_rows * row_granules;
}

// Arrays with private elements for each thread are zeroed by the kernel before it runs.
void CpuLayout::choose_zero_fill(const Plan& plan, const Launch& launch) {
  if (granules == 0) return;
  for (size_t p = 0; p < operands.size() && p < kFillBits; ++p) {
    if (!operands[p].needs_zeros || !each_own_element(plan, launch, p)) continue;
    operands[p].needs_zeros = false;
    fill |= uint64_t{1} << p;
  }
}

// True if no two threads touch one element; several batch elements or repeats may share one.
bool CpuLayout::each_own_element(const Plan& plan, const Launch& launch, size_t p) const {
  const Parameter& parameter = plan.parameters[p];
  return parameter.cover == Cover::kOwn && launch.repeat == 1 && has_all_axes(p) &&
         has_extents(plan, launch, p);
}

bool CpuLayout::has_all_axes(size_t p) const {
  for (size_t k = 0; k < batch.size(); ++k) {
    if (batch[k] > 1 && !operands[p].binding.has_axis(k)) return false;
  }
  return true;
}

// True if no two threads whose first coordinates differ add to one element; several batch elements may.
bool CpuLayout::told_apart(const Plan& plan, const Launch& launch, size_t p) const {
  const int64_t apart = plan.parameters[p].apart;
  const int64_t last = launch.dims[plan.tid_dims - 1];
  // Indices that wrap would come to elements again.
  return apart > 0 && (apart == 1 || last <= apart) && launch.dims[0] <= kMaxIndex / apart;
}

// True if threads that the kernel assumes to have private elements share them with those of other repeats.
bool CpuLayout::must_run_in_turn(const Plan& plan, const Launch& launch) const {
  for (size_t p = 0; p < operands.size(); ++p) {
    const Parameter& parameter = plan.parameters[p];
    if (parameter.cover != Cover::kOwn || parameter.is_sum || operands[p].binding.result < 0) continue;
    if (launch.repeat > 1 || !has_all_axes(p)) return true;
  }
  return false;
}

void CpuLayout::choose_chunks(const Plan& plan, const Launch& launch) {
  chunks = granules;
  bool apart = launch.repeat == 1;  // batch elements add to different elements
  bool by_slice = true;             // and so do threads that differ in their first coordinates
  double bytes = 0, all_bytes = 0;
  for (size_t p = 0; p < operands.size(); ++p) {
    all_bytes += static_cast<double>(operands[p].bytes);
    if (!plan.parameters[p].is_sum || each_own_element(plan, launch, p)) continue;
    copied.push_back(static_cast<int64_t>(p));
    apart = apart && has_all_axes(p);
    by_slice = by_slice && told_apart(plan, launch, p);
    bytes += static_cast<double>(operands[p].bytes);
  }
  if (granules == 0) return;
  if (must_run_in_turn(plan, launch)) {
    chunks = 1;
    return copied.clear();
  }
  if (plan.ordered) chunks = launch.repeat == 1 ? batch_items : 1;  // one after the other in each
  if (copied.empty()) return;

  const double all_rows = static_cast<double>(launch.repeat) * static_cast<double>(batch_items * rows);
  const double weight = all_rows * static_cast<double>(columns) * static_cast<double>(plan.weight);
  const double few = weight * kCopyShare / (kChunkWeight + kByteWeight * bytes);
  const double worth = std::max(std::min(few, kFewCopies), few * kShareOfMany);
  const double fitting = std::max(kMaxCopyBytes, all_bytes) / std::max(bytes, 1.0);
  const double copies = std::min({worth, fitting, static_cast<double>(std::min(kMaxChunks, granules) - 1)});
  if (plan.ordered) {
    // As many as there are whole batch elements in each; those that add to different elements need no copies.
    if (apart) return copied.clear();
    while (chunks > 1 && (static_cast<double>(chunks - 1) > copies || batch_items % chunks != 0)) --chunks;
    if (chunks == 1) copied.clear();
    return;
  }
  chunks = 1;
  while (static_cast<double>(2 * chunks - 1) <= copies) chunks *= 2;
  // Parts of the launch that add to different elements; with one dimension, each column is one.
  const int64_t slices = !by_slice ? 1 : plan.tid_dims == 1 ? row_granules : launch.dims[0];
  const bool by_part = apart && batch_items * slices >= chunks;
  if (by_part) chunks = batch_items * slices;
  if (by_part || chunks == 1) copied.clear();
}

int64_t CpuLayout::chunk_begin(int64_t chunk) const {
  return static_cast<int64_t>(static_cast<__int128>(granules) * chunk / chunks);
}

int64_t CpuLayout::chunk_of(int64_t granule) const {
  return static_cast<int64_t>(((static_cast<__int128>(granule) + 1) * chunks - 1) / granules);
}

Cursor::Cursor(const CpuLayout& layout, void* const* base, int64_t item)
    : layout_(layout), operands_(layout.operands.size()), index_(layout.batch.size()) {
  std::copy(base, base + layout.operands.size(), operands_.data());
  for (size_t k = layout.batch.size(); k-- > 0;) {
    index_[k] = item % layout.batch[k];
    item /= layout.batch[k];
    move(static_cast<int64_t>(k), index_[k]);
  }
}

void Cursor::next() {
  for (size_t k = layout_.batch.size(); k-- > 0;) {
    if (index_[k] + 1 < layout_.batch[k]) {
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
  const size_t count = layout_.operands.size();
  const int64_t* stride = layout_.strides.data() + axis * count;
  for (size_t p = 0; p < count; ++p) {
    operands_[p] = static_cast<char*>(operands_[p]) + steps * stride[p];
  }
}

}  // namespace jwarp::cpu
