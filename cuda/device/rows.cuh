// Reductions and scans of the rows of an array, a block to each row.
#pragma once

#include "arrays.cuh"
#include "block.cuh"

namespace jw {

template <class T, class Op> __global__ void reduce_rows(array<const T, 2> x, T* y) {
  const int row = blockIdx.x, columns = x.shape(1);
  T value = Op::template identity<T>();
  for (int j = threadIdx.x; j < columns; j += blockDim.x) value = Op::apply(value, x(row, j));
  value = block_reduce<Op>(value);
  if (threadIdx.x == 0) y[row] = value;
}

// Sums from the start of each row, or from its end: with the element itself, or without.
template <class T, bool exclusive, bool reverse> __global__ void scan_rows(array<const T, 2> x, array<T, 2> y) {
  const int row = blockIdx.x, columns = x.shape(1);
  T carried = T(0);
  for (long long first = 0; first < columns; first += blockDim.x) {
    const long long step = first + threadIdx.x, j = reverse ? columns - 1 - step : step;
    const scanned<T> found = block_scan<sum>(step < columns ? x(row, j) : T(0));
    if (step < columns) y(row, j) = sum::apply(carried, exclusive ? found.before : found.with);
    carried = sum::apply(carried, found.all);
  }
}

}  // namespace jw
