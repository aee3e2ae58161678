// Copying between strided arrays and contiguous ones, in blocks of rows.
#include "cpu/staging.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace jwarp::cpu {
namespace {

constexpr int64_t kAlignment = 64;
// Copying fewer bytes than this is done sooner alone.
constexpr int64_t kWorthSharing = int64_t{1} << 20;
constexpr int64_t kBlockColumns = int64_t{1} << 15;

// The pieces may lie anywhere, so nothing is assumed of their alignment.
template <int64_t kBytes>
void copy_items(char* target, int64_t target_stride, const char* source, int64_t source_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(target + i * target_stride, source + i * source_stride, kBytes);
  }
}

void copy_row(char* target, int64_t target_stride, const char* source, int64_t source_stride, int64_t count,
              int64_t item_bytes) {
  if (target_stride == item_bytes && source_stride == item_bytes) {
    std::memcpy(target, source, count * item_bytes);
    return;
  }
  switch (item_bytes) {
    case 1:
      return copy_items<1>(target, target_stride, source, source_stride, count);
    case 2:
      return copy_items<2>(target, target_stride, source, source_stride, count);
    case 4:
      return copy_items<4>(target, target_stride, source, source_stride, count);
    default:
      return copy_items<8>(target, target_stride, source, source_stride, count);
  }
}

struct Move {
  char* strided;
  char* dense;
  const std::vector<int64_t>& shape;
  const std::vector<int64_t>& strides;
  int64_t item_bytes;
  bool into_dense;

  int64_t columns() const { return shape.back(); }
  int64_t row_blocks() const { return (columns() - 1) / kBlockColumns + 1; }
};

// Copies blocks of at most so many columns, counted row by row.
void move_blocks(const void* context, int64_t begin, int64_t end) {
  const Move& move = *static_cast<const Move*>(context);
  const size_t last = move.shape.size() - 1;
  const int64_t stride = move.strides[last];
  for (int64_t block = begin; block < end; ++block) {
    const int64_t row = block / move.row_blocks();
    const int64_t column = block % move.row_blocks() * kBlockColumns;
    const int64_t count = std::min(kBlockColumns, move.columns() - column);
    char* strided = move.strided + column * stride;
    int64_t rest = row;
    for (size_t axis = last; axis-- > 0;) {
      strided += rest % move.shape[axis] * move.strides[axis];
      rest /= move.shape[axis];
    }
    char* const dense = move.dense + (row * move.columns() + column) * move.item_bytes;
    if (move.into_dense) {
      copy_row(dense, move.item_bytes, strided, stride, count, move.item_bytes);
    } else {
      copy_row(strided, stride, dense, move.item_bytes, count, move.item_bytes);
    }
  }
}

}  // namespace

StagedArray::StagedArray(void* data, std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t item_bytes)
    : data_(data),
      shape_(std::move(shape)),
      strides_(std::move(strides)),
      item_bytes_(item_bytes),
      bytes_(item_bytes) {
  for (const int64_t extent : shape_) {
    // A broadcast array takes more memory as a copy than it has itself.
    if (__builtin_mul_overflow(bytes_, extent, &bytes_)) throw std::bad_alloc();
  }
  if (bytes_ == 0 || is_usable()) return;
  if (bytes_ > INT64_MAX - kAlignment) throw std::bad_alloc();
  copy_.reset(std::aligned_alloc(kAlignment, (bytes_ + kAlignment - 1) / kAlignment * kAlignment));
  if (copy_ == nullptr) throw std::bad_alloc();
}

bool StagedArray::is_usable() const {
  if (reinterpret_cast<uintptr_t>(data_) % item_bytes_ != 0) return false;
  int64_t stride = item_bytes_;
  for (size_t axis = shape_.size(); axis-- > 0;) {
    if (shape_[axis] != 1 && strides_[axis] != stride) return false;
    stride *= shape_[axis];
  }
  return true;
}

void StagedArray::fetch(Pool& pool) const { move_all(pool, true); }

void StagedArray::put_back(Pool& pool) const { move_all(pool, false); }

void StagedArray::move_all(Pool& pool, bool into_copy) const {
  if (copy_ == nullptr) return;
  char* const dense = static_cast<char*>(copy_.get());
  if (shape_.empty()) {
    std::memcpy(into_copy ? dense : data_, into_copy ? data_ : dense, item_bytes_);
    return;
  }
  const Move move = {static_cast<char*>(data_), dense, shape_, strides_, item_bytes_, into_copy};
  const int64_t rows = bytes_ / (move.columns() * item_bytes_);
  const int64_t blocks = rows * move.row_blocks();
  if (bytes_ < kWorthSharing) return move_blocks(&move, 0, blocks);
  const int64_t chunk = std::max<int64_t>(1, kWorthSharing / 4 / (bytes_ / blocks));
  share(pool, thread_count(pool) - 1, 0, blocks, {chunk, chunk}, move_blocks, &move);
}

}  // namespace jwarp::cpu
