// Reductions of one value of each thread of a block, and scans of tiles.
//
// Results have the same bits every time, and in all threads: the order of operations is fixed.
#pragma once

#include "tile_types.cuh"

namespace jw::tile {

// ---- operations, and what changes nothing

// Of floats that is NaN for extrema, since any number wins over it.
template <class T> JW_INLINE T highest() {
  if constexpr (is_same<T, double>) return jw_double(0x7ff8000000000000ull);
  else if constexpr (is_same<T, float>) return jw_float(0x7fc00000u);
  else if constexpr (is_same<T, bool>) return true;
  else if constexpr (jw_is_signed<T>) return T(~(jw_unsigned<T>(1) << (jw_bits<T> - 1)));
  else return T(~T(0));
}
template <class T> JW_INLINE T lowest() {
  if constexpr (is_float<T>) return highest<T>();
  else if constexpr (is_same<T, bool>) return false;
  else return T(~highest<T>());
}

struct add {
  template <class T> JW_INLINE static T apply(T x, T y) { return jw_plus(x, y); }
  template <class T> JW_INLINE static T identity() { return T(0); }
};
struct mul {
  template <class T> JW_INLINE static T apply(T x, T y) {
    if constexpr (is_float<T>) return x * y;
    else return jw_mul(x, y);
  }
  template <class T> JW_INLINE static T identity() { return T(1); }
};
struct min {
  template <class T> JW_INLINE static T apply(T x, T y) { return jw_min(x, y); }
  template <class T> JW_INLINE static T identity() { return highest<T>(); }
  template <class T> JW_INLINE static bool prefers(T x, T y) { return x < y; }
};
struct max {
  template <class T> JW_INLINE static T apply(T x, T y) { return jw_max(x, y); }
  template <class T> JW_INLINE static T identity() { return lowest<T>(); }
  template <class T> JW_INLINE static bool prefers(T x, T y) { return y < x; }
};
struct bit_and {
  template <class T> JW_INLINE static T apply(T x, T y) { return T(x & y); }
  template <class T> JW_INLINE static T identity() { return T(~T(0)); }
};
struct bit_or {
  template <class T> JW_INLINE static T apply(T x, T y) { return T(x | y); }
  template <class T> JW_INLINE static T identity() { return T(0); }
};
struct bit_xor {
  template <class T> JW_INLINE static T apply(T x, T y) { return T(x ^ y); }
  template <class T> JW_INLINE static T identity() { return T(0); }
};

template <class Op, class T> JW_INLINE T combine(T x, T y) { return narrow<T>(Op::apply(wide(x), wide(y))); }
template <class Op, class T> JW_INLINE T identity() {
  if constexpr (is_half<T>) return narrow<T>(Op::template identity<float>());
  else return Op::template identity<T>();
}

// ---- reductions

// Of the first `count` lanes, in the first one; `mask` are all that the warp has.
template <class Op, class T> JW_INLINE T first_lane_reduce(T value, int count, unsigned mask) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = shuffle_down(mask, value, distance);
    if (lane_number() + distance < count) value = combine<Op>(value, other);
  }
  return value;
}

// Of a block's threads, in all of them. `scratch` has a place for each warp.
template <class Op, int NT, class T> JW_INLINE T block_reduce(T value, T* scratch) {
  constexpr int count = warps<NT>;
  const int lanes = lane_count<NT>();
  const unsigned mask = lane_mask(lanes);
  value = first_lane_reduce<Op>(value, lanes, mask);
  if constexpr (count > 1) {
    if (lane_number() == 0) scratch[warp_number()] = value;
    __syncthreads();
    // Each warp reduces what all have found, together if it has the lanes for that.
    if constexpr (NT % 32 == 0 || NT % 32 >= count) {
      value = first_lane_reduce<Op>(scratch[least(lane_number(), count - 1)], count, mask);
      value = shuffle_from(mask, value, 0);
    } else {
      value = scratch[0];
      for (int k = 1; k < count; ++k) value = combine<Op>(value, scratch[k]);
    }
  } else {
    value = shuffle_from(mask, value, 0);
  }
  __syncthreads();
  return value;
}

template <int NT> JW_INLINE bool block_any(bool value) { return __syncthreads_or(value) != 0; }
template <int NT> JW_INLINE bool block_all(bool value) { return __syncthreads_and(value) != 0; }

// An element and its number; one that is not there has a number that no other has.
template <class T> struct numbered {
  T value;
  int number;
};
constexpr int no_number = 0x7fffffff;

// The least or greatest of two: a number if the other is NaN, and of equal ones that of the lower number.
template <class Op, class T> JW_INLINE numbered<T> preferred(numbered<T> x, numbered<T> y) {
  const auto a = wide(x.value), b = wide(y.value);
  bool first = x.number < y.number;
  if (x.number != no_number && y.number != no_number) {
    if ((a == a) != (b == b)) first = a == a;
    else if (Op::prefers(a, b)) first = true;
    else if (Op::prefers(b, a)) first = false;
  }
  return first ? x : y;
}

template <class Op, class T>
JW_INLINE numbered<T> first_lane_prefer(numbered<T> best, int count, unsigned mask) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const numbered<T> other = {shuffle_down(mask, best.value, distance), shuffle_down(mask, best.number, distance)};
    if (lane_number() + distance < count) best = preferred<Op>(best, other);
  }
  return best;
}

// The least (Op `min`) or greatest (`max`) of the threads' elements and its number, in all threads. A thread without
// one gives `no_number`. There is a place for each warp in both scratches.
template <class Op, int NT, class T>
JW_INLINE numbered<T> block_arg_reduce(T value, int number, T* scratch, int* numbers) {
  constexpr int count = warps<NT>;
  const int lanes = lane_count<NT>();
  const unsigned mask = lane_mask(lanes);
  numbered<T> best = first_lane_prefer<Op>(numbered<T>{value, number}, lanes, mask);
  if constexpr (count > 1) {
    if (lane_number() == 0) {
      scratch[warp_number()] = best.value;
      numbers[warp_number()] = best.number;
    }
    __syncthreads();
    best = {scratch[0], numbers[0]};
    for (int k = 1; k < count; ++k) best = preferred<Op>(best, numbered<T>{scratch[k], numbers[k]});
  } else {
    best = {shuffle_from(mask, best.value, 0), shuffle_from(mask, best.number, 0)};
  }
  __syncthreads();
  return best;
}

// ---- scans

// Replaces each of `n` elements by what those up to it have together: with itself, or without. In reverse, up to it
// from the end. `scratch` has a place for each warp.
template <class Op, int NT, bool EXCLUSIVE, bool REVERSE = false, class T>
JW_INLINE void block_scan(T* data, int n, T* scratch) {
  const int lane = lane_number(), warp = warp_number(), lanes = lane_count<NT>();
  const unsigned mask = lane_mask(lanes);
  // Each warp has neighbouring elements, as many as its share of the threads.
  const int share = parts(n, NT), first = warp * 32 * share, last = least(n, first + lanes * share);
  const auto place = [=](int at) { return REVERSE ? n - 1 - at : at; };
  T carried = identity<Op, T>();
  for (int start = first; start < last; start += lanes) {
    const int at = start + lane;
    T with = at < last ? data[place(at)] : identity<Op, T>();
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const T other = shuffle_up(mask, with, distance);
      if (lane >= distance) with = combine<Op>(other, with);
    }
    const T before = shuffle_up(mask, with, 1);
    const T all = shuffle_from(mask, with, lanes - 1);
    T own = with;
    if constexpr (EXCLUSIVE) own = lane == 0 ? identity<Op, T>() : before;
    if (at < last) data[place(at)] = combine<Op>(carried, own);
    carried = combine<Op>(carried, all);
  }
  if constexpr (warps<NT> > 1) {
    if (lane == 0) scratch[warp] = carried;
    __syncthreads();
    if (warp > 0 && first < last) {
      T offset = scratch[0];
      for (int k = 1; k < warp; ++k) offset = combine<Op>(offset, scratch[k]);
      for (int at = first + lane; at < last; at += lanes) data[place(at)] = combine<Op>(offset, data[place(at)]);
    }
  }
  __syncthreads();
}

}  // namespace jw::tile
