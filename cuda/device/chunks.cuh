// Sums of the columns of an array, and sums up to each row. Each block has a chunk of the rows of a column, so that few
// long columns keep a GPU at work. Results have the same bits in every run.
#pragma once

#include "arrays.cuh"
#include "block.cuh"

namespace jw {

struct chunk {
  int column, number;
  long long first, last;
  JW_INLINE chunk(long long rows, int chunks) : column(blockIdx.x / chunks), number(blockIdx.x % chunks) {
    const long long length = (rows + chunks - 1) / chunks;
    first = number * length;
    last = jw_min(first + length, rows);
  }
};

// `sums` have a row for each column, with the sum of each chunk.
template <class T> __global__ void sum_chunks(array<const T, 2> x, array<T, 2> sums) {
  const chunk own(x.shape(0), sums.shape(1));
  const long long columns = x.shape(1);
  T value = T(0);
  for (long long i = own.first + threadIdx.x; i < own.last; i += blockDim.x) {
    value = sum::apply(value, x[i * columns + own.column]);
  }
  value = block_reduce<sum>(value);
  if (threadIdx.x == 0) sums(own.column, own.number) = value;
}

// Sums of products.
template <class T> __global__ void inner_chunks(array<const T, 1> x, array<const T, 1> y, array<T, 2> sums) {
  const chunk own(x.shape(0), sums.shape(1));
  T value = T(0);
  for (long long i = own.first + threadIdx.x; i < own.last; i += blockDim.x) value = sum::apply(value, x[i] * y[i]);
  value = block_reduce<sum>(value);
  if (threadIdx.x == 0) sums(0, own.number) = value;
}

// Sums up to each row in its place: `starts` have what comes before each chunk.
template <class T, bool exclusive> __global__ void scan_chunks(array<const T, 2> starts, array<T, 2> x) {
  const chunk own(x.shape(0), starts.shape(1));
  const long long columns = x.shape(1);
  T carried = starts(own.column, own.number);
  for (long long first = own.first; first < own.last; first += blockDim.x) {
    const long long i = first + threadIdx.x, at = i * columns + own.column;
    const scanned<T> found = block_scan<sum>(i < own.last ? x[at] : T(0));
    if (i < own.last) x[at] = sum::apply(carried, exclusive ? found.before : found.with);
    carried = sum::apply(carried, found.all);
  }
}

}  // namespace jw
