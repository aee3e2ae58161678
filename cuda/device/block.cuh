// Sums, extrema and scans of one value of each thread of a block, which has whole warps.
//
// Every thread of the block must call them. Results have the same bits every time: the order of additions is fixed.
#pragma once

#include "jwarp.cuh"

namespace jw {

constexpr unsigned all_lanes = 0xffffffffu;

template <class T> constexpr bool has_fractions = T(0.5) != T(0);

// Operations, and what changes nothing: of extrema the end of the type's range, infinite where it has that. NaN wins over
// numbers, as in jax.numpy.
struct sum {
  template <class T> JW_INLINE static T apply(T x, T y) {
    if constexpr (has_fractions<T>) return x + y;
    else return jw_add(x, y);
  }
  template <class T> JW_INLINE static T identity() { return T(0); }
};
template <class T> JW_INLINE T highest() {
  if constexpr (sizeof(T) == 8 && has_fractions<T>) return T(jw_double(0x7ff0000000000000ull));
  else if constexpr (has_fractions<T>) return T(jw_float(0x7f800000u));
  else if constexpr (jw_is_signed<T>) return T(~(jw_unsigned<T>(1) << (jw_bits<T> - 1)));
  else return T(~T(0));
}
template <class T> JW_INLINE T lowest() {
  if constexpr (has_fractions<T>) return -highest<T>();
  else return T(~highest<T>());
}
struct max {
  template <class T> JW_INLINE static T apply(T x, T y) { return x != x || y != y ? x + y : jw_max(x, y); }
  template <class T> JW_INLINE static T identity() { return lowest<T>(); }
};
struct min {
  template <class T> JW_INLINE static T apply(T x, T y) { return x != x || y != y ? x + y : jw_min(x, y); }
  template <class T> JW_INLINE static T identity() { return highest<T>(); }
};

// Of a warp, in all its lanes.
template <class Op, class T> JW_INLINE T warp_reduce(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = Op::apply(value, __shfl_xor_sync(all_lanes, value, distance));
  }
  return value;
}

// Of a block, in all its threads.
template <class Op, class T> JW_INLINE T block_reduce(T value) {
  __shared__ T parts[32];
  const int lane = jw_thread() % 32, warp = jw_thread() / 32, warps = jw_threads() / 32;
  value = warp_reduce<Op>(value);
  __syncthreads();  // until all have read the parts of an earlier call
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  return warp_reduce<Op>(lane < warps ? parts[lane] : Op::template identity<T>());
}

// The sums of the threads before, of those and this one, and of all threads.
template <class T> struct scanned {
  T before, with, all;
};
template <class Op, class T> JW_INLINE scanned<T> warp_scan(T value) {
  const int lane = jw_thread() % 32;
  for (int distance = 1; distance < 32; distance *= 2) {
    const T other = __shfl_up_sync(all_lanes, value, distance);
    if (lane >= distance) value = Op::apply(other, value);
  }
  const T before = __shfl_up_sync(all_lanes, value, 1);
  return {lane == 0 ? Op::template identity<T>() : before, value, __shfl_sync(all_lanes, value, 31)};
}
template <class Op, class T> JW_INLINE scanned<T> block_scan(T value) {
  __shared__ T parts[32];
  const int lane = jw_thread() % 32, warp = jw_thread() / 32, warps = jw_threads() / 32;
  const scanned<T> own = warp_scan<Op>(value);
  __syncthreads();
  if (lane == 0) parts[warp] = own.all;
  __syncthreads();
  // Each warp scans the parts of all for itself.
  const scanned<T> others = warp_scan<Op>(lane < warps ? parts[lane] : Op::template identity<T>());
  const T before = __shfl_sync(all_lanes, others.before, warp);
  return {Op::apply(before, own.before), Op::apply(before, own.with), others.all};
}

}  // namespace jw
