// Merging batch axes, and writing the words of a launch.
#include "gpu/layout.h"

#include <algorithm>

namespace jwarp::gpu {
namespace {

constexpr int64_t kMaxGridX = INT32_MAX;
constexpr int64_t kMaxGridZ = 65535;

// True if one step along `outer` is for every parameter as far as all steps along `inner`.
bool continues(const GpuLayout::Axis& outer, const GpuLayout::Axis& inner) {
  const auto as_far = [&](int64_t out, int64_t in) { return out == in * inner.extent; };
  return std::equal(outer.strides.begin(), outer.strides.end(), inner.strides.begin(), as_far);
}

}  // namespace

size_t count_words(const Plan& plan) {
  return kSymbols + static_cast<size_t>(plan.symbol_count) + (1 + kBatchAxes) * plan.parameters.size();
}

GpuLayout::GpuLayout(const Plan& plan, const Launch& launch, const Buffers& buffers, int64_t block,
                     const std::vector<int64_t>& own_grid)
    : Layout(plan, launch, buffers) {
  if (std::find(own_grid.begin(), own_grid.end(), 0) != own_grid.end()) threads = 0;
  if (own_grid.size() == kOwnAxes) {
    // A grid of the user's need not have all the threads of the launch; its kernel may store all elements even so.
    for (size_t p = 0; p < operands.size(); ++p) {
      const bool stored = threads > 0 && plan.parameters[p].cover == Cover::kStored;
      operands[p].needs_zeros = operands[p].binding.role == Role::kZeros && !stored;
    }
  }
  std::vector<Axis> axes;
  if (threads > 0) axes = merged_axes();
  if (axes.size() > kBatchAxes) {
    outer.assign(axes.begin(), axes.end() - kBatchAxes);
    axes.erase(axes.begin(), axes.end() - kBatchAxes);
    for (const Axis& axis : outer) launches *= axis.extent;
  }
  write_words(plan, launch, axes);
  choose_grid(block, own_grid);
}

// Neighbouring axes that are like one axis to every parameter become one; the order of the elements stays.
std::vector<GpuLayout::Axis> GpuLayout::merged_axes() const {
  const size_t count = operands.size();
  std::vector<Axis> axes;
  for (size_t k = 0; k < batch.size(); ++k) {
    if (batch[k] == 1) continue;
    const auto begin = strides.begin() + static_cast<std::ptrdiff_t>(k * count);
    Axis axis = {batch[k], {begin, begin + static_cast<std::ptrdiff_t>(count)}};
    if (!axes.empty() && continues(axes.back(), axis)) {
      axis.extent *= axes.back().extent;
      axes.back() = std::move(axis);
    } else {
      axes.push_back(std::move(axis));
    }
  }
  return axes;
}

void GpuLayout::write_words(const Plan& plan, const Launch& launch, const std::vector<Axis>& axes) {
  const size_t count = operands.size();
  words.assign(count_words(plan), 0);
  first_pointer = kSymbols + symbols.size();
  std::copy(symbols.begin(), symbols.end(), words.begin() + kSymbols);
  plan.limit_scalars(words.data() + kSymbols);
  std::fill_n(words.begin() + kBatch, kBatchAxes, 1);
  words[kThreads] = rows * columns;
  if (threads == 0) return;  // no elements and no threads, whatever the grid is

  words[kItems] = 1;
  const size_t padding = kBatchAxes - axes.size();
  for (size_t k = 0; k < axes.size(); ++k) {
    words[kItems] *= axes[k].extent;
    words[kBatch + padding + k] = axes[k].extent;
    const size_t first = first_pointer + (1 + padding + k) * count;
    std::copy(axes[k].strides.begin(), axes[k].strides.end(), words.begin() + static_cast<std::ptrdiff_t>(first));
  }
  words[kTotal] = launch.repeat * words[kItems] * words[kThreads];
}

void GpuLayout::advance(int64_t number, int64_t* pointers) const {
  for (size_t k = outer.size(); k-- > 0;) {
    const bool ends = number % outer[k].extent == outer[k].extent - 1;
    const int64_t steps = ends ? 1 - outer[k].extent : 1;
    for (size_t p = 0; p < operands.size(); ++p) pointers[p] += steps * outer[k].strides[p];
    if (!ends) return;
    number /= outer[k].extent;
  }
}

// Kernels step on by the whole grid until all threads have run, so that any grid is right. It is never empty:
// XLA takes a captured graph without a launch for an error.
void GpuLayout::choose_grid(int64_t block, const std::vector<int64_t>& own) {
  const bool is_own = own.size() == kOwnAxes;
  const int64_t share = own.size() == 1 ? own[0] : block;  // of the launch's threads, for each block
  const int64_t blocks = words[kTotal] / share + (words[kTotal] % share != 0);
  const int64_t x = is_own ? own[0] : blocks;
  const int64_t y = is_own ? own[1] : 1;
  const int64_t z = is_own ? words[kItems] : 1;
  grid[0] = static_cast<unsigned>(std::clamp<int64_t>(x, 1, kMaxGridX));
  grid[1] = static_cast<unsigned>(std::max<int64_t>(y, 1));
  grid[2] = static_cast<unsigned>(std::clamp<int64_t>(z, 1, kMaxGridZ));
}

}  // namespace jwarp::gpu
