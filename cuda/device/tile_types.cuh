// The kinds of elements that tiles have, and what is reckoned in where they are narrow.
#pragma once

#include "jwarp.cuh"

namespace jw::tile {

template <class T, class U> constexpr bool is_same = false;
template <class T> constexpr bool is_same<T, T> = true;

// Of 16 bits, which are floats to reckon with.
template <class T> constexpr bool is_half = is_same<T, jw_half> || is_same<T, jw_bfloat>;
template <class T> constexpr bool is_float = is_half<T> || is_same<T, float> || is_same<T, double>;

template <bool first, class T, class U> struct choose { using type = T; };
template <class T, class U> struct choose<false, T, U> { using type = U; };

template <class T> JW_INLINE T wide(T x) { return x; }
JW_INLINE float wide(jw_half x) { return jw_widen(x); }
JW_INLINE float wide(jw_bfloat x) { return jw_widen(x); }

template <class T, class From> JW_INLINE T narrow(From x) {
  if constexpr (is_same<T, jw_half>) return jw_to_half(float(x));
  else if constexpr (is_same<T, jw_bfloat>) return jw_to_bfloat(float(x));
  else return T(x);
}

// An element as a summand of a sum.
template <class S, class T> JW_INLINE S summand(T x) { return S(wide(x)); }
// Where the element of a number is in a tile whose rows of COLUMNS elements are STEP elements apart.
template <int COLUMNS, int STEP, class I> JW_INLINE I placed(I number) {
  return number + number / COLUMNS * (STEP - COLUMNS);
}

JW_INLINE constexpr int least(int x, int y) { return x < y ? x : y; }
JW_INLINE constexpr int parts(int whole, int part) { return (whole + part - 1) / part; }

// ---- warps of a block; its last one may lack lanes

template <int NT> constexpr int warps = (NT + 31) / 32;
JW_INLINE int lane_number() { return int(threadIdx.x) % 32; }
JW_INLINE int warp_number() { return int(threadIdx.x) / 32; }
template <int NT> JW_INLINE int lane_count() {
  if constexpr (NT % 32 == 0) return 32;
  else return least(32, NT - 32 * warp_number());
}
JW_INLINE unsigned lane_mask(int count) { return 0xffffffffu >> (32 - count); }

// The words of a value in a shuffle: shuffles have words of four and eight bytes.
template <class T> JW_INLINE auto word_of(T value) {
  if constexpr (is_half<T>) return unsigned(value.bits);
  else if constexpr (sizeof(T) < 4) return int(value);
  else return value;
}
template <class T, class Word> JW_INLINE T from_word(Word word) {
  if constexpr (is_half<T>) return T{(unsigned short)word};
  else return T(word);
}
template <class T> JW_INLINE T shuffle_down(unsigned mask, T value, int distance) {
  return from_word<T>(__shfl_down_sync(mask, word_of(value), distance));
}
template <class T> JW_INLINE T shuffle_up(unsigned mask, T value, int distance) {
  return from_word<T>(__shfl_up_sync(mask, word_of(value), distance));
}
template <class T> JW_INLINE T shuffle_from(unsigned mask, T value, int lane) {
  return from_word<T>(__shfl_sync(mask, word_of(value), lane));
}

}  // namespace jw::tile
