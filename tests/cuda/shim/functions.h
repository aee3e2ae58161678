// CUDA's functions of single threads: atomics, bits of numbers, and mathematics that C++ lacks.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

namespace cuda_host {

template <class T> uint64_t to_word(T value) {
  static_assert(sizeof(T) <= 8, "warp operations move at most 64 bits");
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}
template <class T> T from_word(uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}


// Integers wrap around.
template <class T> T plus(T x, T y) {
  if constexpr (std::is_integral_v<T>) return T(uint64_t(x) + uint64_t(y));
  else return x + y;
}
template <class T> T minus(T x, T y) {
  if constexpr (std::is_integral_v<T>) return T(uint64_t(x) - uint64_t(y));
  else return x - y;
}

// Only one thread runs at a time.
template <class T> T change(T* place, T value) {
  const T old = *place;
  *place = value;
  return old;
}

// The nearest integer that the type has; for what is no number 0, or its highest bit where 64 bits take part.
template <class I, class F> I saturated(F rounded) {
  constexpr bool is_wide = sizeof(I) == 8 || sizeof(F) == 8;
  if (rounded != rounded) return is_wide ? I(std::make_unsigned_t<I>(1) << (8 * sizeof(I) - 1)) : I(0);
  if (rounded <= F(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  if (rounded >= F(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
  return I(rounded);
}

// Newton's method on the error function, in more digits than the result has: in the middle, and in the tails.
inline double middle_erfinv(double y) {
  if (y == 0.0) return y;
  long double x = y * 0.88622692545275801365L;
  for (int k = 0; k < 8; ++k) x -= (erfl(x) - y) / (1.12837916709551257390L * expl(-x * x));
  return double(x);
}
inline double tail_erfcinv(long double z) {
  const long double t = sqrtl(-2.0L * logl(z / 2.0L));
  long double x = (t - (2.515517L + t * (0.802853L + t * 0.010328L)) /
                           (1.0L + t * (1.432788L + t * (0.189269L + t * 0.001308L)))) * 0.70710678118654752440L;
  for (int k = 0; k < 8; ++k) x += (erfcl(x) - z) / (1.12837916709551257390L * expl(-x * x));
  return double(x);
}

}  // namespace cuda_host

// ---- atomics

template <class T, class U> T atomicAdd(T* place, U value) {
  return cuda_host::change(place, cuda_host::plus(*place, T(value)));
}
template <class T, class U> T atomicSub(T* place, U value) {
  return cuda_host::change(place, cuda_host::minus(*place, T(value)));
}
template <class T, class U> T atomicMin(T* place, U value) {
  return cuda_host::change(place, T(value) < *place ? T(value) : *place);
}
template <class T, class U> T atomicMax(T* place, U value) {
  return cuda_host::change(place, *place < T(value) ? T(value) : *place);
}
template <class T, class U> T atomicAnd(T* place, U value) { return cuda_host::change(place, T(*place & T(value))); }
template <class T, class U> T atomicOr(T* place, U value) { return cuda_host::change(place, T(*place | T(value))); }
template <class T, class U> T atomicXor(T* place, U value) { return cuda_host::change(place, T(*place ^ T(value))); }
template <class T, class U> T atomicExch(T* place, U value) { return cuda_host::change(place, T(value)); }
// Floats are compared by their bits.
template <class T, class E, class U> T atomicCAS(T* place, E expected, U value) {
  const bool same = cuda_host::to_word(*place) == cuda_host::to_word(T(expected));
  return cuda_host::change(place, same ? T(value) : *place);
}
inline unsigned atomicInc(unsigned* place, unsigned most) {
  return cuda_host::change(place, *place >= most ? 0u : *place + 1);
}
inline unsigned atomicDec(unsigned* place, unsigned most) {
  return cuda_host::change(place, *place == 0 || *place > most ? most : *place - 1);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
template <class T> T __ldg(const T* place) { return *place; }
template <class T> T __ldcg(const T* place) { return *place; }
template <class T> T __ldcs(const T* place) { return *place; }

// ---- bits

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned long long __brevll(unsigned long long x) {
  unsigned long long reversed = 0;
  for (int k = 0; k < 64; ++k) reversed |= (x >> k & 1) << (63 - k);
  return reversed;
}
inline unsigned __brev(unsigned x) { return unsigned(__brevll(x) >> 32); }
inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}

inline int __float_as_int(float x) { return cuda_host::from_word<int>(cuda_host::to_word(x)); }
inline unsigned __float_as_uint(float x) { return cuda_host::from_word<unsigned>(cuda_host::to_word(x)); }
inline float __int_as_float(int x) { return cuda_host::from_word<float>(cuda_host::to_word(x)); }
inline float __uint_as_float(unsigned x) { return cuda_host::from_word<float>(x); }
inline long long __double_as_longlong(double x) { return cuda_host::from_word<long long>(cuda_host::to_word(x)); }
inline double __longlong_as_double(long long x) { return cuda_host::from_word<double>(cuda_host::to_word(x)); }
inline int __double2hiint(double x) { return int(cuda_host::to_word(x) >> 32); }
inline int __double2loint(double x) { return int(cuda_host::to_word(x)); }
inline double __hiloint2double(int high, int low) {
  return cuda_host::from_word<double>(uint64_t(unsigned(high)) << 32 | unsigned(low));
}

// ---- numbers

inline int __float2int_rn(float x) { return cuda_host::saturated<int>(rintf(x)); }
inline int __float2int_rz(float x) { return cuda_host::saturated<int>(truncf(x)); }
inline int __float2int_rd(float x) { return cuda_host::saturated<int>(floorf(x)); }
inline int __float2int_ru(float x) { return cuda_host::saturated<int>(ceilf(x)); }
inline unsigned __float2uint_rn(float x) { return cuda_host::saturated<unsigned>(rintf(x)); }
inline unsigned __float2uint_rz(float x) { return cuda_host::saturated<unsigned>(truncf(x)); }
inline int __double2int_rn(double x) { return cuda_host::saturated<int>(rint(x)); }
inline int __double2int_rz(double x) { return cuda_host::saturated<int>(trunc(x)); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }

inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }

inline double erfcinv(double y) {
  if (!(y >= 0.0 && y <= 2.0)) return NAN;
  if (y == 0.0 || y == 2.0) return y == 0.0 ? INFINITY : -INFINITY;
  if (y > 0.5 && y < 1.5) return cuda_host::middle_erfinv(1.0 - y) + 0.0;
  return y < 1.0 ? cuda_host::tail_erfcinv(y) : -cuda_host::tail_erfcinv(2.0L - y);
}
inline double erfinv(double y) {
  if (!(y >= -1.0 && y <= 1.0)) return NAN;
  if (fabs(y) == 1.0) return y > 0.0 ? INFINITY : -INFINITY;
  if (fabs(y) < 0.5) return cuda_host::middle_erfinv(y);
  return y > 0.0 ? cuda_host::tail_erfcinv(1.0L - y) : -cuda_host::tail_erfcinv(1.0L + y);
}
inline float erfinvf(float y) { return float(erfinv(double(y))); }
inline float erfcinvf(float y) { return float(erfcinv(double(y))); }

// Of two floats, the one that is a number.
template <class T, class U> std::common_type_t<T, U> min(T x, U y) {
  using Common = std::common_type_t<T, U>;
  if constexpr (std::is_floating_point_v<Common>) return std::fmin(Common(x), Common(y));
  else return Common(y) < Common(x) ? Common(y) : Common(x);
}
template <class T, class U> std::common_type_t<T, U> max(T x, U y) {
  using Common = std::common_type_t<T, U>;
  if constexpr (std::is_floating_point_v<Common>) return std::fmax(Common(x), Common(y));
  else return Common(x) < Common(y) ? Common(y) : Common(x);
}

// ---- what has to do with other threads

// Spinning is in vain while the others do not run.
inline void __nanosleep(unsigned) {
  if (cuda_host::block == nullptr) cuda_host::surprised = true;
  else cuda_host::yield_as(cuda_host::State::kReady);
}
inline void __trap() {
  if (cuda_host::block != nullptr) cuda_host::fail("__trap");
  std::abort();
}
