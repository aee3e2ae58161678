// Copies between arrays with any strides and contiguous ones, and sums into them, for launches on arrays of others.
#pragma once

#include "arrays.cuh"

namespace jw {

// Where element `i`, in row-major order, of an array of these extents is.
template <int axes>
JW_INLINE long long place_of(long long i, long long first, vector<long long, axes> extents, vector<long long, axes> steps) {
  long long at = first;
#pragma unroll
  for (int axis = axes - 1; axis >= 0; --axis) {
    at += i % extents[axis] * steps[axis];
    i /= extents[axis];
  }
  return at;
}

JW_INLINE float sum_of(float x, float y) { return x + y; }
JW_INLINE double sum_of(double x, double y) { return x + y; }
JW_INLINE jw_half sum_of(jw_half x, jw_half y) { return jw_to_half(jw_widen(x) + jw_widen(y)); }
JW_INLINE jw_bfloat sum_of(jw_bfloat x, jw_bfloat y) { return jw_to_bfloat(jw_widen(x) + jw_widen(y)); }

#define JW_MOVE(name, FROM, TO, what)                                                                          \
  template <class T, int axes>                                                                                 \
  __global__ void name(FROM* strided, TO* packed, long long first, vector<long long, axes> extents,            \
                       vector<long long, axes> steps, long long count) {                                       \
    const long long step = (long long)gridDim.x * blockDim.x;                                                  \
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {               \
      const long long at = place_of<axes>(i, first, extents, steps);                                           \
      what;                                                                                                    \
    }                                                                                                          \
  }
JW_MOVE(gather, const T, T, packed[i] = strided[at])
JW_MOVE(scatter, T, const T, strided[at] = packed[i])
JW_MOVE(add, T, const T, strided[at] = sum_of(strided[at], packed[i]))
#undef JW_MOVE

}  // namespace jw
