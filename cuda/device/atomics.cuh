// Atomics of all types, and sums of warps: what generated kernels change elements with that other threads change too.
#pragma once

// ---- atomics: each returns what the element held before

template <class T> struct jw_word { using type = unsigned; };
template <> struct jw_word<long long> { using type = unsigned long long; };
template <> struct jw_word<unsigned long long> { using type = unsigned long long; };
template <> struct jw_word<double> { using type = unsigned long long; };

// Replaces an element by change(element) in one indivisible step.
template <class T, class F> JW_INLINE T jw_change(T* place, F change) {
#ifndef JW_HOST_SHIM
  if constexpr (sizeof(T) == 2) {
    unsigned short seen = *(volatile unsigned short*)place;
    while (true) {
      const T old = T(seen);
      const unsigned short found = atomicCAS((unsigned short*)place, seen, (unsigned short)change(old));
      if (found == seen) return old;
      seen = found;
    }
  } else
#endif
  if constexpr (sizeof(T) < 4) {
    // The element is a part of a word, whose other parts stay.
    using Bits = jw_unsigned<T>;
    const unsigned before = unsigned((unsigned long long)place & 3), shift = 8 * before;
    // Of the pointer, not of its number: else the compiler takes the array for one that nothing changes.
    unsigned* word = (unsigned*)((char*)place - before);
    unsigned seen = *(volatile unsigned*)word;
    while (true) {
      const T old = T(Bits(seen >> shift));
      const unsigned mask = (unsigned)Bits(~Bits(0)) << shift;
      const unsigned wanted = (seen & ~mask) | (unsigned)Bits(change(old)) << shift;
      const unsigned found = atomicCAS(word, seen, wanted);
      if (found == seen) return old;
      seen = found;
    }
  } else {
    using Word = typename jw_word<T>::type;
    Word* word = (Word*)place;
    Word seen = *(volatile Word*)word;
    while (true) {
      const T old = jw_bitcast<T>(seen);
      const Word found = atomicCAS(word, seen, jw_bitcast<Word>(change(old)));
      if (found == seen) return old;
      seen = found;
    }
  }
}
// Of halves the bits change, by what the values do.
template <class F> JW_INLINE jw_half jw_change(jw_half* place, F change) {
  return {jw_change(&place->bits, [&](unsigned short bits) { return change(jw_half{bits}).bits; })};
}
template <class F> JW_INLINE jw_bfloat jw_change(jw_bfloat* place, F change) {
  return {jw_change(&place->bits, [&](unsigned short bits) { return change(jw_bfloat{bits}).bits; })};
}

template <class T> JW_INLINE T jw_atomic_add(T* place, T value) {
  return jw_change(place, [=](T old) { return jw_add(old, value); });
}
template <> JW_INLINE int jw_atomic_add(int* place, int value) { return atomicAdd(place, value); }
template <> JW_INLINE unsigned jw_atomic_add(unsigned* place, unsigned value) { return atomicAdd(place, value); }
template <> JW_INLINE unsigned long long jw_atomic_add(unsigned long long* place, unsigned long long value) {
  return atomicAdd(place, value);
}
template <> JW_INLINE long long jw_atomic_add(long long* place, long long value) {
  return (long long)atomicAdd((unsigned long long*)place, (unsigned long long)value);
}
template <> JW_INLINE float jw_atomic_add(float* place, float value) { return atomicAdd(place, value); }
template <> JW_INLINE double jw_atomic_add(double* place, double value) { return atomicAdd(place, value); }
// Of 16 bits: hardware adds two neighbours in a word of global memory at once, and rounds once, as the sum in 32 bits
// does. The neighbour gets -0, which changes nothing. For a single one there is an instruction in PTX alone, of which a
// loop of comparisons becomes.
#if !defined(JW_HOST_SHIM)
#define JW_ADD_PAIR(T, type)                                                                           \
  JW_INLINE T jw_add_half(T* place, T value) {                                                         \
    T old;                                                                                             \
    if (__isGlobal(place)) {                                                                           \
      const unsigned long long at = __cvta_generic_to_global(place);                                   \
      const bool upper = at & 2;                                                                       \
      unsigned pair = upper ? (unsigned)value.bits << 16 | 0x8000u : 0x80000000u | value.bits;         \
      asm volatile("atom.global.add.noftz." type "x2 %0, [%1], %2;"                                    \
                   : "=r"(pair) : "l"(at & ~3ull), "r"(pair) : "memory");                              \
      old.bits = (unsigned short)(upper ? pair >> 16 : pair);                                          \
    } else {                                                                                           \
      asm volatile("atom.add.noftz." type " %0, [%1], %2;"                                             \
                   : "=h"(old.bits) : "l"(place), "h"(value.bits) : "memory");                         \
    }                                                                                                  \
    return old;                                                                                        \
  }
JW_ADD_PAIR(jw_half, "f16")
#if __CUDA_ARCH__ >= 900
JW_ADD_PAIR(jw_bfloat, "bf16")
#endif
#undef JW_ADD_PAIR
#endif
template <> JW_INLINE jw_half jw_atomic_add(jw_half* place, jw_half value) {
#ifndef JW_HOST_SHIM
  return jw_add_half(place, value);
#else
  return jw_change(place, [=](jw_half old) { return jw_to_half(jw_widen(old) + jw_widen(value)); });
#endif
}
template <> JW_INLINE jw_bfloat jw_atomic_add(jw_bfloat* place, jw_bfloat value) {
#if !defined(JW_HOST_SHIM) && __CUDA_ARCH__ >= 900
  return jw_add_half(place, value);
#else
  return jw_change(place, [=](jw_bfloat old) { return jw_to_bfloat(jw_widen(old) + jw_widen(value)); });
#endif
}
template <class T> JW_INLINE T jw_atomic_min(T* place, T value) {
  return jw_change(place, [=](T old) { return jw_min(old, value); });
}
template <class T> JW_INLINE T jw_atomic_max(T* place, T value) {
  return jw_change(place, [=](T old) { return jw_max(old, value); });
}
template <> JW_INLINE int jw_atomic_min(int* place, int value) { return atomicMin(place, value); }
template <> JW_INLINE int jw_atomic_max(int* place, int value) { return atomicMax(place, value); }
template <> JW_INLINE unsigned jw_atomic_min(unsigned* place, unsigned value) { return atomicMin(place, value); }
template <> JW_INLINE unsigned jw_atomic_max(unsigned* place, unsigned value) { return atomicMax(place, value); }
template <> JW_INLINE long long jw_atomic_min(long long* place, long long value) { return atomicMin(place, value); }
template <> JW_INLINE long long jw_atomic_max(long long* place, long long value) { return atomicMax(place, value); }
template <> JW_INLINE unsigned long long jw_atomic_min(unsigned long long* place, unsigned long long value) {
  return atomicMin(place, value);
}
template <> JW_INLINE unsigned long long jw_atomic_max(unsigned long long* place, unsigned long long value) {
  return atomicMax(place, value);
}
// Floats of one sign have the order of their bits, or the opposite one. NaN changes nothing. Where memory held one, its
// sign decides if the bits of a number win; if they do not, the number is put there by a comparison.
template <class F, class I, class U> JW_INLINE F jw_atomic_extremum(F* place, F value, bool max) {
  if (value != value) return jw_bitcast<F>((U)atomicAdd((U*)place, U(0)));
  const I bits = jw_bitcast<I>(value);
  I old;
  if (max == (bits >= 0)) old = max ? atomicMax((I*)place, bits) : (I)atomicMax((U*)place, (U)bits);
  else old = max ? (I)atomicMin((U*)place, (U)bits) : atomicMin((I*)place, bits);
  const F before = jw_bitcast<F>(old);
  if (before == before || max != (old >= 0)) return before;
  return jw_change(place, [=](F there) { return max ? jw_max(there, value) : jw_min(there, value); });
}
template <> JW_INLINE float jw_atomic_min(float* place, float value) {
  return jw_atomic_extremum<float, int, unsigned>(place, value, false);
}
template <> JW_INLINE float jw_atomic_max(float* place, float value) {
  return jw_atomic_extremum<float, int, unsigned>(place, value, true);
}
template <> JW_INLINE double jw_atomic_min(double* place, double value) {
  return jw_atomic_extremum<double, long long, unsigned long long>(place, value, false);
}
template <> JW_INLINE double jw_atomic_max(double* place, double value) {
  return jw_atomic_extremum<double, long long, unsigned long long>(place, value, true);
}
template <> JW_INLINE jw_half jw_atomic_min(jw_half* place, jw_half value) {
  return jw_change(place, [=](jw_half old) { return jw_to_half(jw_min(jw_widen(old), jw_widen(value))); });
}
template <> JW_INLINE jw_half jw_atomic_max(jw_half* place, jw_half value) {
  return jw_change(place, [=](jw_half old) { return jw_to_half(jw_max(jw_widen(old), jw_widen(value))); });
}
template <> JW_INLINE jw_bfloat jw_atomic_min(jw_bfloat* place, jw_bfloat value) {
  return jw_change(place, [=](jw_bfloat old) { return jw_to_bfloat(jw_min(jw_widen(old), jw_widen(value))); });
}
template <> JW_INLINE jw_bfloat jw_atomic_max(jw_bfloat* place, jw_bfloat value) {
  return jw_change(place, [=](jw_bfloat old) { return jw_to_bfloat(jw_max(jw_widen(old), jw_widen(value))); });
}
template <class T> JW_INLINE T jw_atomic_and(T* place, T value) {
  return jw_change(place, [=](T old) { return T(old & value); });
}
template <class T> JW_INLINE T jw_atomic_or(T* place, T value) {
  return jw_change(place, [=](T old) { return T(old | value); });
}
template <class T> JW_INLINE T jw_atomic_xor(T* place, T value) {
  return jw_change(place, [=](T old) { return T(old ^ value); });
}
template <class T> JW_INLINE T jw_atomic_exch(T* place, T value) {
  return jw_change(place, [=](T) { return value; });
}

#define JW_ATOMIC(T, U, name, function) \
  template <> JW_INLINE T jw_atomic_##name(T* place, T value) { return (T)function((U*)place, (U)value); }
#define JW_ATOMICS(T, U)             \
  JW_ATOMIC(T, U, and, atomicAnd)    \
  JW_ATOMIC(T, U, or, atomicOr)      \
  JW_ATOMIC(T, U, xor, atomicXor)    \
  JW_ATOMIC(T, U, exch, atomicExch)
JW_ATOMICS(int, unsigned)
JW_ATOMICS(unsigned, unsigned)
JW_ATOMICS(long long, unsigned long long)
JW_ATOMICS(unsigned long long, unsigned long long)
#undef JW_ATOMICS
#undef JW_ATOMIC
template <> JW_INLINE float jw_atomic_exch(float* place, float value) {
  return jw_float(atomicExch((unsigned*)place, jw_bitcast<unsigned>(value)));
}
template <> JW_INLINE double jw_atomic_exch(double* place, double value) {
  return jw_double(atomicExch((unsigned long long*)place, jw_bitcast<unsigned long long>(value)));
}

template <class T> JW_INLINE bool jw_same_bits(T x, T y) { return x == y; }
JW_INLINE bool jw_same_bits(float x, float y) { return jw_bitcast<unsigned>(x) == jw_bitcast<unsigned>(y); }
JW_INLINE bool jw_same_bits(double x, double y) {
  return jw_bitcast<unsigned long long>(x) == jw_bitcast<unsigned long long>(y);
}
JW_INLINE bool jw_same_bits(jw_half x, jw_half y) { return x.bits == y.bits; }
JW_INLINE bool jw_same_bits(jw_bfloat x, jw_bfloat y) { return x.bits == y.bits; }
template <class T> JW_INLINE T jw_atomic_cas(T* place, T expected, T value) {
  return jw_change(place, [=](T old) { return jw_same_bits(old, expected) ? value : old; });
}

template <class T> JW_INLINE T jw_plus(T x, T y) { return jw_add(x, y); }
template <> JW_INLINE float jw_plus(float x, float y) { return x + y; }
template <> JW_INLINE double jw_plus(double x, double y) { return x + y; }

// Adds what each thread of a warp has summed up to its place; all threads of the warp come here, those that have
// nothing to add with a null place. One atomic for the warp, where all have one place.
template <class T> JW_INLINE void jw_flush(T* place, T value) {
  const unsigned all = 0xffffffffu;
  const unsigned long long mine = (unsigned long long)place;
  const unsigned having = __ballot_sync(all, mine != 0);
  if (having == 0) return;
  const unsigned long long first = __shfl_sync(all, mine, __ffs((int)having) - 1);
  if (__all_sync(all, mine == 0 || mine == first)) {
    T total = mine == 0 ? T(0) : value;
    for (int distance = 16; distance > 0; distance /= 2) total = jw_plus(total, __shfl_down_sync(all, total, distance));
    if ((threadIdx.x & 31) == 0) jw_atomic_add((T*)first, total);
  } else if (mine != 0) {
    jw_atomic_add(place, value);
  }
}

// ---- sums of warps, whose old value nobody asks for

// Tests if all threads of the warp are here, and, only then, if they have the same value.
JW_INLINE bool jw_whole_warp() {
#ifndef JW_HOST_SHIM
  return __activemask() == 0xffffffffu;
#else
  return false;
#endif
}
template <class T> JW_INLINE bool jw_alike(T value) {
#ifndef JW_HOST_SHIM
  if constexpr (sizeof(T) < 4) return jw_alike(int(value));
  else return __all_sync(0xffffffffu, value == __shfl_sync(0xffffffffu, value, 0));
#else
  return false;
#endif
}

#ifndef JW_HOST_SHIM
// Of the sums of N values, the number of the one that a lane has after `jw_sum_of_warp`; -1 if others have it.
template <int N, int D = 16> JW_INLINE int jw_own_sum(int lane) {
  constexpr int half = (N + 1) / 2;
  int own = 0;
  if constexpr (D > 1) own = jw_own_sum<half, D / 2>(lane);
  if ((lane & D) == 0 || own < 0) return own;
  return own + half < N ? own + half : -1;
}

// Sums N values of each lane over a warp: lanes at a distance D each go on with half of the values of both.
template <int D, class T, int N> JW_INLINE T jw_sum_of_warp(const T (&values)[N], int lane) {
  constexpr int half = (N + 1) / 2;
  const bool upper = lane & D;
  T sums[half];
#pragma unroll
  for (int k = 0; k < half; ++k) {
    const bool paired = k + half < N;
    const T low = values[k], high = paired ? values[paired ? k + half : k] : low;
    const T given = upper ? low : high, kept = upper ? high : low;
    sums[k] = jw_plus(kept, __shfl_xor_sync(0xffffffffu, given, D));
  }
  if constexpr (D > 1) return jw_sum_of_warp<D / 2>(sums, lane);
  else return sums[0];
}
#endif

// Adds values to elements, by places in arrays. Where the whole warp is here, and all have the same arrays and places,
// lanes sum up what all have, and each adds one sum at the most; else each adds its own values.
template <class T, class P, int N>
JW_INLINE void jw_add_together(bool whole, T* const (&arrays)[N], const P (&places)[N], const T (&values)[N]) {
#ifndef JW_HOST_SHIM
  if (whole) {
    const int lane = threadIdx.x & 31, own = jw_own_sum<N>(lane);
    const T sum = jw_sum_of_warp<16>(values, lane);
    T* array = arrays[N - 1];
    P place = places[N - 1];
#pragma unroll
    for (int k = N - 2; k >= 0; --k) {
      array = own == k ? arrays[k] : array;
      place = own == k ? places[k] : place;
    }
    if (own >= 0) jw_atomic_add(array + place, sum);
    return;
  }
#endif
#pragma unroll
  for (int k = 0; k < N; ++k) jw_atomic_add(arrays[k] + places[k], values[k]);
}

// The same in a loop over `at`, to places that are at * stride + offset. A lane's own ones are found before the loop.
template <class T, class P> struct jw_line {
  T* array;
  P stride;
};
template <class T, class P, int N>
JW_INLINE jw_line<T, P> jw_own_line(T* const (&arrays)[N], const P (&strides)[N], const P (&offsets)[N]) {
  jw_line<T, P> line = {nullptr, 0};
#ifndef JW_HOST_SHIM
  const int own = jw_own_sum<N>(threadIdx.x & 31);
#pragma unroll
  for (int k = N - 1; k >= 0; --k) {
    line.array = own == k ? arrays[k] + offsets[k] : line.array;
    line.stride = own == k ? strides[k] : line.stride;
  }
  // Else NVRTC finds them where they are used, at each turn.
  asm volatile("" : "+l"(line.array));
  if constexpr (sizeof(P) == 8) asm volatile("" : "+l"(line.stride));
  else asm volatile("" : "+r"(line.stride));
#endif
  return line;
}
template <class T, class P, int N>
JW_INLINE void jw_add_along(bool whole, jw_line<T, P> own, T* const (&arrays)[N], P at, const P (&strides)[N],
                            const P (&offsets)[N], const T (&values)[N]) {
#ifndef JW_HOST_SHIM
  if (whole) {
    const T sum = jw_sum_of_warp<16>(values, threadIdx.x & 31);
    if (own.array) jw_atomic_add(own.array + at * own.stride, sum);
    return;
  }
#endif
#pragma unroll
  for (int k = 0; k < N; ++k) jw_atomic_add(arrays[k] + (at * strides[k] + offsets[k]), values[k]);
}
