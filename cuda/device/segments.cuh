// Sums of rows that belong together: neighbours up to given offsets, or those of equal index; and their adjoints.
#pragma once

#include "arrays.cuh"
#include "block.cuh"

namespace jw {

// The rows of a segment: from one offset to the next, and never outside the array.
struct segment {
  int first, last;
  JW_INLINE segment(array<const int, 1> offsets, int number, int rows) {
    first = jw_max(offsets[number], 0);
    last = jw_min(offsets[number + 1], rows);
  }
};

// A warp to each segment. Its lanes share the rows, or the columns if there are several.
template <class T>
__global__ void segmented_sum(array<const T, 2> x, array<const int, 1> offsets, array<T, 2> sums) {
  const int lane = threadIdx.x % 32, number = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (number >= sums.shape(0)) return;
  const segment rows(offsets, number, x.shape(0));
  if (x.shape(1) == 1) {
    T value = T(0);
    for (long long i = (long long)rows.first + lane; i < rows.last; i += 32) value = sum::apply(value, x[i]);
    value = warp_reduce<sum>(value);
    if (lane == 0) sums[number] = value;
    return;
  }
  for (int j = lane; j < x.shape(1); j += 32) {
    T value = T(0);
    for (int i = rows.first; i < rows.last; ++i) value = sum::apply(value, x(i, j));
    sums(number, j) = value;
  }
}

// The adjoint: each row is that of its segment. Rows of no segment stay as they are.
template <class T>
__global__ void spread_segments(array<const T, 2> values, array<const int, 1> offsets, array<T, 2> x) {
  const int lane = threadIdx.x % 32, number = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (number >= values.shape(0)) return;
  const segment rows(offsets, number, x.shape(0));
  const long long columns = x.shape(1), end = rows.last * columns;
  for (long long i = rows.first * columns + lane; i < end; i += 32) x[i] = values(number, i % columns);
}

// Adds each row to the one of `sums` that its index says; rows with an index outside are dropped. Where the sums
// fit, each block has its own in shared memory and adds them up at the end. The order of additions is not fixed.
template <class T, bool in_shared>
__global__ void scatter_add(array<const T, 2> values, array<const int, 1> indices, array<T, 2> sums) {
  T* target = in_shared ? dynamic_shared<T>() : sums.data();
  const long long columns = sums.shape(1), bins = sums.size(), step = (long long)gridDim.x * blockDim.x;
  if (in_shared) {
    for (int j = threadIdx.x; j < bins; j += blockDim.x) target[j] = T(0);
    __syncthreads();
  }
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < values.size(); i += step) {
    const long long row = i / columns, index = indices[row];
    if (index >= 0 && index < sums.shape(0)) jw_atomic_add(target + index * columns + i % columns, values[i]);
  }
  if (in_shared) {
    __syncthreads();
    for (int j = threadIdx.x; j < bins; j += blockDim.x) {
      if (target[j] != T(0)) jw_atomic_add(sums.data() + j, target[j]);
    }
  }
}

// The adjoint: the rows that the indices say, zeros for those outside.
template <class T>
__global__ void take_rows(array<const T, 2> table, array<const int, 1> indices, array<T, 2> rows) {
  const long long columns = rows.shape(1), step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < rows.size(); i += step) {
    const long long index = indices[i / columns];
    if (index >= 0 && index < table.shape(0)) rows[i] = table(index, i % columns);
  }
}

}  // namespace jw
