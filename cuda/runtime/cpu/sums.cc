// Making copies ready, and adding them up in an order that does not depend on threads.
#include "cpu/sums.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/dtype.h"
#include "cpu/float_state.h"
#include "cpu/half.h"
#include "cpu/pages.h"

namespace jwarp::cpu {
namespace {

// Copies of different chunks share no cache line.
constexpr int64_t kAlignment = 64;
// So many bytes of the result stay in the nearest cache while the copies are added to them.
constexpr int64_t kBlock = int64_t{1} << 14;
// Adding up fewer bytes than this is done sooner alone.
constexpr int64_t kWorthSharing = int64_t{1} << 19;

// The value that changes nothing when it is added: for floats it is -0.0, as -0.0 + 0.0 is 0.0.
template <typename T>
constexpr T neutral = T(-0.0);
template <>
constexpr Half neutral<Half>{0x8000};
template <>
constexpr BFloat16 neutral<BFloat16>{0x8000};

struct Adder {
  void (*clear)(void* data, int64_t bytes);
  void (*add)(void* result, const void* copy, int64_t bytes);
};

template <typename T>
constexpr Adder adder_of = {
    [](void* data, int64_t bytes) {
      T* const values = static_cast<T*>(data);
      std::fill(values, values + bytes / static_cast<int64_t>(sizeof(T)), neutral<T>);
    },
    [](void* result, const void* copy, int64_t bytes) {
      T* __restrict__ const into = static_cast<T*>(result);
      const T* __restrict__ const from = static_cast<const T*>(copy);
      for (int64_t i = 0; i < bytes / static_cast<int64_t>(sizeof(T)); ++i) into[i] = sum(into[i], from[i]);
    },
};

// Sums of integers wrap alike, whatever their sign.
const Adder& adder(int64_t dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_F16:
      return adder_of<Half>;
    case XLA_FFI_DataType_BF16:
      return adder_of<BFloat16>;
    case XLA_FFI_DataType_F32:
      return adder_of<float>;
    case XLA_FFI_DataType_F64:
      return adder_of<double>;
    default:
      break;
  }
  switch (item_size(dtype)) {
    case 1:
      return adder_of<uint8_t>;
    case 2:
      return adder_of<uint16_t>;
    case 4:
      return adder_of<uint32_t>;
    default:
      return adder_of<uint64_t>;
  }
}

// One result and where its first copy is.
struct Merge {
  const Adder& adder;
  char* result;
  const char* copies;
  int64_t bytes;
  int64_t count;
  int64_t distance;  // in bytes, from copy to copy
};

void merge_blocks(const void* context, int64_t begin, int64_t end) {
  const Merge& merge = *static_cast<const Merge*>(context);
  const DefaultFloatState float_state;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kBlock;
    const int64_t bytes = std::min(kBlock, merge.bytes - first);
    for (int64_t c = 0; c < merge.count; ++c) {
      merge.adder.add(merge.result + first, merge.copies + c * merge.distance + first, bytes);
    }
  }
}

// `work` is in bytes, of all that is added.
void run_merge(const Merge& merge, int64_t work, Pool& pool) {
  const int64_t blocks = merge.bytes / kBlock + (merge.bytes % kBlock != 0);
  if (shares_eagerly() || work >= kWorthSharing) {
    share(pool, thread_count(pool) - 1, 0, blocks, Claims{}, merge_blocks, &merge);
  } else {
    merge_blocks(&merge, 0, blocks);
  }
}

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

Copies::Copies(const CpuLayout& layout, void* const* base, Pool& pool) : chunks_(layout.chunks) {
  for (const int64_t p : layout.copied) {
    const CpuLayout::Operand& operand = layout.operands[p];
    arrays_.push_back({p, operand.dtype, operand.bytes, chunk_bytes_, static_cast<char*>(base[p])});
    chunk_bytes_ += aligned(operand.bytes);
  }
  const int64_t bytes = std::max(kAlignment, (chunks_ - 1) * chunk_bytes_);
  memory_.reset(static_cast<char*>(std::aligned_alloc(kAlignment, bytes)));
  if (memory_ == nullptr) throw std::bad_alloc();
  prepare_pages(memory_.get(), bytes, pool);
}

void Copies::clear(int64_t chunk) const {
  if (chunk == 0) return;
  for (const Array& array : arrays_) adder(array.dtype).clear(copy(chunk, array), array.bytes);
}

void Copies::point(int64_t chunk, void** base) const {
  if (chunk == 0) return;
  for (const Array& array : arrays_) base[array.parameter] = copy(chunk, array);
}

void Copies::merge(Pool& pool) const {
  for (const Array& array : arrays_) {
    const Merge merge = {adder(array.dtype), array.result, copy(1, array), array.bytes, chunks_ - 1, chunk_bytes_};
    run_merge(merge, array.bytes * chunks_, pool);
  }
}

void add_elements(int64_t dtype, void* into, const void* from, int64_t bytes, Pool& pool) {
  run_merge({adder(dtype), static_cast<char*>(into), static_cast<const char*>(from), bytes, 1, 0}, bytes, pool);
}

AddFew adder_of_few(int64_t dtype, int64_t bytes) { return bytes <= kBlock ? adder(dtype).add : nullptr; }

}  // namespace jwarp::cpu
