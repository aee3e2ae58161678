// The vocabulary of generated kernels: integers that wrap, checked indices, atomics, batches.
//
// It includes no header but its own, so that a kernel compiles in milliseconds. With JW_HOST_SHIM it is compiled for the
// host by the tests, which declare what CUDA has built in.
#pragma once

#define JW_INLINE __device__ __forceinline__

// ---- types

struct jw_half { unsigned short bits; };
struct jw_bfloat { unsigned short bits; };

template <class T> struct jw_unsigned_of { using type = T; };
template <> struct jw_unsigned_of<signed char> { using type = unsigned char; };
template <> struct jw_unsigned_of<short> { using type = unsigned short; };
template <> struct jw_unsigned_of<int> { using type = unsigned int; };
template <> struct jw_unsigned_of<long long> { using type = unsigned long long; };
template <class T> using jw_unsigned = typename jw_unsigned_of<T>::type;

template <class T> constexpr bool jw_is_signed = T(-1) < T(0);
template <class T> constexpr int jw_bits = 8 * int(sizeof(T));

// The same bits as another type of that width.
template <class To, class From> JW_INLINE To jw_bitcast(From from) {
  static_assert(sizeof(To) == sizeof(From), "the widths differ");
  union { From from; To to; } both;
  both.from = from;
  return both.to;
}

JW_INLINE float jw_float(unsigned bits) { return jw_bitcast<float>(bits); }
JW_INLINE double jw_double(unsigned long long bits) { return jw_bitcast<double>(bits); }

// The number of a thread in its block, and how many there are: also where an author's text has axes of its own.
JW_INLINE int jw_thread() { return int(threadIdx.x); }
JW_INLINE int jw_threads() { return int(blockDim.x); }

// ---- integers: all of them wrap, and nothing traps or is undefined

template <class T> JW_INLINE T jw_add(T x, T y) { return T(jw_unsigned<T>(x) + jw_unsigned<T>(y)); }
template <class T> JW_INLINE T jw_sub(T x, T y) { return T(jw_unsigned<T>(x) - jw_unsigned<T>(y)); }
// Small unsigned types become int in a product, which may overflow; 64 bits hold every such product.
template <class T> JW_INLINE T jw_mul(T x, T y) {
  if constexpr (sizeof(T) < 4) return T((unsigned)x * (unsigned)y);
  return T(jw_unsigned<T>(x) * jw_unsigned<T>(y));
}
template <class T> JW_INLINE T jw_neg(T x) { return jw_sub(T(0), x); }
template <class T> JW_INLINE T jw_abs(T x) { return x < T(0) ? jw_neg(x) : x; }

// A divisor by which hardware can divide: not 0, and not the -1 whose quotient overflows.
template <class T> JW_INLINE T jw_divisor(T x, T y) {
  if (y == T(0)) return T(1);
  if constexpr (jw_is_signed<T>) {
    constexpr T lowest = T(jw_unsigned<T>(1) << (jw_bits<T> - 1));
    if (x == lowest && y == T(-1)) return T(1);
  }
  return y;
}
template <class T> JW_INLINE T jw_div(T x, T y) {
  const T quotient = T(x / jw_divisor(x, y));
  return y == T(0) ? T(~T(0)) : quotient;
}
template <class T> JW_INLINE T jw_mod(T x, T y) {
  const T rest = T(x % jw_divisor(x, y));
  return y == T(0) ? x : rest;
}
template <class T> JW_INLINE T jw_floordiv(T x, T y) {
  const T divisor = jw_divisor(x, y);
  T quotient = T(x / divisor);
  if constexpr (jw_is_signed<T>) {
    if (T(x % divisor) != T(0) && (x < T(0)) != (divisor < T(0))) quotient = jw_sub(quotient, T(1));
  }
  return y == T(0) ? T(~T(0)) : quotient;
}
template <class T> JW_INLINE T jw_shl(T x, T y) {
  const auto amount = jw_unsigned<T>(y);
  return amount < jw_bits<T> ? T(jw_unsigned<T>(x) << amount) : T(0);
}
template <class T> JW_INLINE T jw_shr(T x, T y) {
  const auto amount = jw_unsigned<T>(y);
  if (amount < jw_bits<T>) return T(x >> amount);
  return x < T(0) ? T(-1) : T(0);
}
template <class T> JW_INLINE int jw_bit_count(T x) {
  if constexpr (sizeof(T) == 8) return __popcll((unsigned long long)x);
  return __popc((unsigned)jw_unsigned<T>(x));
}

// ---- floats

template <class T> JW_INLINE T jw_min(T x, T y) { return y < x ? y : x; }
template <class T> JW_INLINE T jw_max(T x, T y) { return x < y ? y : x; }
// Of floats a number wins over NaN, and -0 is below 0: so say the instructions.
#ifndef JW_HOST_SHIM
#define JW_EXTREMUM(T, name, instruction, letter, lesser, greater, join)  \
  template <> JW_INLINE T jw_##name(T x, T y) {                           \
    T z;                                                                  \
    asm(instruction " %0, %1, %2;" : "=" letter(z) : letter(x), letter(y)); \
    return z;                                                             \
  }
#else
// Equal values that are not zeros have equal bits, so that only the sign of a zero is decided by them.
#define JW_EXTREMUM(T, name, instruction, letter, lesser, greater, join)  \
  template <> JW_INLINE T jw_##name(T x, T y) {                           \
    if (x == y) return join;                                              \
    return (lesser < greater) || y != y ? x : y;                          \
  }
#endif
#define JW_ONE_ZERO(T, U, sign) jw_bitcast<T>((U)(jw_bitcast<U>(x) sign jw_bitcast<U>(y)))
JW_EXTREMUM(float, min, "min.f32", "f", x, y, JW_ONE_ZERO(float, unsigned, |))
JW_EXTREMUM(float, max, "max.f32", "f", y, x, JW_ONE_ZERO(float, unsigned, &))
JW_EXTREMUM(double, min, "min.f64", "d", x, y, JW_ONE_ZERO(double, unsigned long long, |))
JW_EXTREMUM(double, max, "max.f64", "d", y, x, JW_ONE_ZERO(double, unsigned long long, &))
#undef JW_EXTREMUM
#undef JW_ONE_ZERO

JW_INLINE float jw_asin(float x) { return asinf(x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x); }
JW_INLINE double jw_asin(double x) { return asin(x < -1.0 ? -1.0 : x > 1.0 ? 1.0 : x); }
JW_INLINE float jw_acos(float x) { return acosf(x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x); }
JW_INLINE double jw_acos(double x) { return acos(x < -1.0 ? -1.0 : x > 1.0 ? 1.0 : x); }

// By an instruction of its own where that is allowed: whether NVRTC finds it depends on what else the process compiles.
JW_INLINE float jw_inverse_root(float x) {
#ifdef JW_FAST
  return rsqrtf(x);
#else
  return 1.0f / sqrtf(x);
#endif
}

// Several quotients, or roots, at once: as `/` and `sqrtf` round them, by the steps that these take for most operands, too;
// but with one branch for all of them, for operands of which some are no ordinary numbers, or so large or small that a
// step could overflow or lose bits.
template <int N> struct jw_floats { float at[N]; };
#if !defined(JW_HOST_SHIM) && !defined(JW_FAST)
// From 2^-60 to 2^60: all steps of a quotient are ordinary numbers.
JW_INLINE bool jw_is_tame(float x) { return __float_as_uint(x) * 2 - (67u << 24) < (120u << 24); }
template <int N> JW_INLINE jw_floats<N> jw_quotients(const float (&x)[N], const float (&y)[N]) {
  jw_floats<N> q;
  bool tame = true;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    tame &= jw_is_tame(x[k]) & jw_is_tame(y[k]);
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y[k]));
    r = fmaf(r, fmaf(-y[k], r, 1.0f), r);
    const float near = x[k] * r;
    q.at[k] = fmaf(r, fmaf(-y[k], near, x[k]), near);
  }
  if (!tame) {
#pragma unroll
    for (int k = 0; k < N; ++k) q.at[k] = x[k] / y[k];
  }
  return q;
}
template <int N> JW_INLINE jw_floats<N> jw_roots(const float (&x)[N]) {
  jw_floats<N> q;
  bool tame = true;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    tame &= __float_as_uint(x[k]) - (26u << 23) < (229u << 23);  // from 2^-101 on, and finite
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x[k]));
    const float near = x[k] * r;
    q.at[k] = fmaf(fmaf(-near, near, x[k]), 0.5f * r, near);
  }
  if (!tame) {
#pragma unroll
    for (int k = 0; k < N; ++k) q.at[k] = sqrtf(x[k]);
  }
  return q;
}
#else
template <int N> JW_INLINE jw_floats<N> jw_quotients(const float (&x)[N], const float (&y)[N]) {
  jw_floats<N> q;
  for (int k = 0; k < N; ++k) q.at[k] = x[k] / y[k];
  return q;
}
template <int N> JW_INLINE jw_floats<N> jw_roots(const float (&x)[N]) {
  jw_floats<N> q;
  for (int k = 0; k < N; ++k) q.at[k] = sqrtf(x[k]);
  return q;
}
#endif
template <int N> JW_INLINE jw_floats<N> jw_inverse_roots(const float (&x)[N]) {
#ifdef JW_FAST
  jw_floats<N> q;
#pragma unroll
  for (int k = 0; k < N; ++k) q.at[k] = rsqrtf(x[k]);
  return q;
#else
  jw_floats<N> one;
#pragma unroll
  for (int k = 0; k < N; ++k) one.at[k] = 1.0f;
  return jw_quotients<N>(one.at, jw_roots<N>(x).at);
#endif
}

// ---- conversions

#ifdef JW_HOST_SHIM
JW_INLINE float jw_widen(jw_half x) {
  const unsigned sign = unsigned(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
  if (rest >= 0x7c00) return jw_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // Times 2^112: exact, also for the subnormal ones.
  return jw_float(sign | jw_bitcast<unsigned>(jw_float(rest << 13) * jw_float(0x77800000u)));
}
JW_INLINE jw_half jw_to_half(float x) {
  const unsigned bits = jw_bitcast<unsigned>(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return {(unsigned short)(sign | 0x7e00u)};
  if (rest >= 0x477ff000u) return {(unsigned short)(sign | 0x7c00u)};
  if (rest < 0x38800000u) {
    // The sum has the unit of subnormal halves as its last bit.
    const unsigned sum = jw_bitcast<unsigned>(jw_float(rest) + 0.5f);
    return {(unsigned short)(sign | (sum - 0x3f000000u))};
  }
  const unsigned rounded = rest + 0xfffu + (rest >> 13 & 1u);
  return {(unsigned short)(sign | ((rounded - 0x38000000u) >> 13))};
}
#else
JW_INLINE float jw_widen(jw_half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
JW_INLINE jw_half jw_to_half(float x) {
  jw_half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
#endif
JW_INLINE float jw_widen(jw_bfloat x) { return jw_float((unsigned)x.bits << 16); }
JW_INLINE jw_bfloat jw_to_bfloat(float x) {
  const unsigned bits = jw_bitcast<unsigned>(x);
  if (x != x) return {(unsigned short)(bits >> 16 | 64u)};
  return {(unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

// Truncates and saturates; NaN gives 0.
template <class To, class From> JW_INLINE To jw_to_int(From x) {
  constexpr To lowest = jw_is_signed<To> ? To(jw_unsigned<To>(1) << (jw_bits<To> - 1)) : To(0);
  constexpr To highest = To(~jw_unsigned<To>(lowest));
  constexpr From end = From(2) * From(1ull << (jw_bits<To> - 1 - int(jw_is_signed<To>)));  // one past the highest
  if (x != x) return To(0);
  if (x >= end) return highest;
  if (x <= From(lowest)) return lowest;
  return To(x);
}

// ---- places in arrays

// An index as an offset along an axis; what int64 lacks stays outside every array.
JW_INLINE long long jw_index(long long i) { return i; }
JW_INLINE long long jw_index(unsigned long long i) { return i >> 63 ? 0x7fffffffffffffffll : (long long)i; }
JW_INLINE long long jw_index(int i) { return i; }
JW_INLINE long long jw_index(unsigned i) { return i; }
JW_INLINE long long jw_index(short i) { return i; }
JW_INLINE long long jw_index(unsigned short i) { return i; }
JW_INLINE long long jw_index(signed char i) { return i; }
JW_INLINE long long jw_index(unsigned char i) { return i; }

// Counts a negative index from the end; whether the index is inside then.
JW_INLINE bool jw_inside(long long& i, long long extent) {
  if (i < 0) i += extent;
  return (unsigned long long)i < (unsigned long long)extent;
}

__device__ __noinline__ long long jw_wide_quotient(long long n, long long d) { return n / d; }

// n / d, and the rest in `n`; 32 bits where they hold both, which is ten times as fast.
JW_INLINE long long jw_split(long long& n, long long d) {
  if (((n | d) >> 32) == 0) {
    const unsigned small = (unsigned)n, quotient = small / (unsigned)d;
    n = small - quotient * (unsigned)d;
    return quotient;
  }
  const long long quotient = jw_wide_quotient(n, d);
  n -= quotient * d;
  return quotient;
}

// True if a number is within limits: the least one is in the lower 32 bits of the word, the greatest in the upper ones.
JW_INLINE bool jw_within(long long x, long long limits) { return x >= (int)limits && x <= (int)(limits >> 32); }

// Reads what nothing writes while the kernel runs.
template <class T> JW_INLINE T jw_read(const T* place) {
#ifdef JW_HOST_SHIM
  return *place;
#else
  return __ldg(place);
#endif
}
// Several times sixteen bytes of it: by as many accesses, where they begin at a multiple of sixteen, which holds for all
// elements of an array if for the first one.
template <class T> JW_INLINE bool jw_has_quads(const T* array) { return ((unsigned long long)array & 15) == 0; }
template <class T, int N> struct jw_quads { T at[N * 16 / sizeof(T)]; };
template <int N, class T> JW_INLINE jw_quads<T, N> jw_read_quads(const T* place, bool has_quads) {
  jw_quads<T, N> read;
#ifndef JW_HOST_SHIM
  if (has_quads) {
    struct all { uint4 part[N]; } parts;
#pragma unroll
    for (int k = 0; k < N; ++k) parts.part[k] = __ldg((const uint4*)place + k);
    return jw_bitcast<jw_quads<T, N>>(parts);
  }
#endif
#pragma unroll
  for (int k = 0; k < int(N * 16 / sizeof(T)); ++k) read.at[k] = jw_read(place + k);
  return read;
}
JW_INLINE jw_half jw_read(const jw_half* place) { return {jw_read(&place->bits)}; }
JW_INLINE jw_bfloat jw_read(const jw_bfloat* place) { return {jw_read(&place->bits)}; }

// ---- elements of several scalars, of all threads of a warp

// Where a scalar of a warp's elements is in shared memory: elements lie odd distances apart, so that banks do not meet.
template <int n> JW_INLINE constexpr unsigned jw_staged_at(unsigned k) { return n % 2 ? k : k / n * (n + 1) + k % n; }

// Loads the elements of a warp's threads together, of which this one, number `thread` of `total`, has `own`. All threads
// of the warp come here.
template <int n, class T> JW_INLINE void jw_take(const T* from, unsigned thread, unsigned total, T* staged, T (&own)[n]) {
  const unsigned lane = threadIdx.x & 31, first = thread - lane;
  const T* const start = from + (unsigned long long)first * n + lane;
  const unsigned count = first >= total ? 0 : total - first >= 32 ? 32 * n : (total - first) * n;
  __syncwarp();
  if (count == 32 * n) {
#pragma unroll
    for (int k = 0; k < n; ++k) staged[jw_staged_at<n>(32 * k + lane)] = jw_read(start + 32 * k);
  } else {
    for (unsigned k = lane; k < count; k += 32) staged[jw_staged_at<n>(k)] = jw_read(start + (k - lane));
  }
  __syncwarp();
#pragma unroll
  for (int k = 0; k < n; ++k) own[k] = staged[lane * (n | 1) + k];
}
// Stores them.
template <int n, class T> JW_INLINE void jw_give(T* to, unsigned thread, unsigned total, T* staged, const T (&own)[n]) {
  const unsigned lane = threadIdx.x & 31, first = thread - lane;
  T* const start = to + (unsigned long long)first * n + lane;
  const unsigned count = first >= total ? 0 : total - first >= 32 ? 32 * n : (total - first) * n;
  __syncwarp();
#pragma unroll
  for (int k = 0; k < n; ++k) staged[lane * (n | 1) + k] = own[k];
  __syncwarp();
  if (count == 32 * n) {
#pragma unroll
    for (int k = 0; k < n; ++k) start[32 * k] = staged[jw_staged_at<n>(32 * k + lane)];
  } else {
    for (unsigned k = lane; k < count; k += 32) start[k - lane] = staged[jw_staged_at<n>(k)];
  }
}

// ---- a launch, as the runtime describes it in words of 64 bits

// Threads in all, batch elements, and threads of one of these; where failed checks are noted; up to four batch axes,
// outermost first, padded in front with 1; then what depends on the kernel: launch dimensions, extents and integer
// scalars, a pointer for each parameter, and how many bytes it moves along each batch axis.
template <int symbol_count, int parameter_count> struct jw_args {
  long long total, items, threads;
  unsigned long long* failure;
  long long batch[4];
  long long symbols[symbol_count];
  char* arrays[parameter_count];
  long long strides[4][parameter_count];
};
template <int symbol_count> struct jw_args<symbol_count, 0> {
  long long total, items, threads;
  unsigned long long* failure;
  long long batch[4];
  long long symbols[symbol_count];
};

// Where a thread is: `at` counts the threads of batch element `item`, `thread` goes on counting where the launch
// repeats them. Of a batch with several axes the element alone does not say how far parameters move.
struct jw_place {
  long long at, thread, item;
  bool several;
};
template <int S, int P> JW_INLINE jw_place jw_locate(const jw_args<S, P>& args, long long n) {
  jw_place place = {n, n, 0, args.items != args.batch[3]};
  place.item = jw_split(place.at, args.threads);
  place.thread = place.at;
  if (place.item >= args.items) {
    const long long lap = jw_wide_quotient(place.item, args.items);
    place.thread += lap * args.threads;
    place.item -= lap * args.items;
  }
  return place;
}

// How many bytes a parameter moves to a batch element.
JW_INLINE long long jw_shift(const long long* batch, const long long* stride, int next, long long item) {
  long long bytes = 0;
  for (int k = 3; k > 0; --k) {
    if (item < batch[k]) return bytes + item * stride[k * next];
    const long long outer = jw_wide_quotient(item, batch[k]);
    bytes += (item - outer * batch[k]) * stride[k * next];
    item = outer;
  }
  return bytes + item * stride[0];
}

// The coordinates of an element along the axes of its batch, and how far a parameter moves by them: `words` are those of
// the launch, where the parameter's strides begin at `first`, `next` words apart. Calls, since most batches have one
// axis, and what is inlined for the others would be loaded by all.
struct jw_coordinates { long long of[4]; };
__device__ __noinline__ jw_coordinates jw_unravel(const long long* words, long long item) {
  jw_coordinates at;
  for (int k = 3; k > 0; --k) {
    const long long extent = words[4 + k], outer = jw_wide_quotient(item, extent);
    at.of[k] = item - outer * extent;
    item = outer;
  }
  at.of[0] = item;
  return at;
}
__device__ __noinline__ long long jw_moved(const long long* words, int first, int next, jw_coordinates at) {
  long long bytes = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) bytes += at.of[k] * words[first + k * next];
  return bytes;
}
// How many bytes each parameter moves to a thread's batch element: what divides is reckoned once for all of them. Where
// there are many parameters these stay in memory: the compiler takes ages to tell hundreds of them apart.
constexpr int jw_many = 64;
template <int S, int P> JW_INLINE void jw_shifts(const jw_args<S, P>& args, const jw_place& place, long long (&bytes)[P]) {
  const long long* words = (const long long*)&args;
  if constexpr (P > jw_many) {
    const jw_coordinates at = jw_unravel(words, place.item);
#pragma unroll 1
    for (int p = 0; p < P; ++p) bytes[p] = jw_moved(words, 8 + S + P + p, P, at);
  } else if (place.several) {
    const jw_coordinates at = jw_unravel(words, place.item);
#pragma unroll
    for (int p = 0; p < P; ++p) bytes[p] = jw_moved(words, 8 + S + P + p, P, at);
  } else {
#pragma unroll
    for (int p = 0; p < P; ++p) bytes[p] = place.item * args.strides[3][p];
  }
}

// A parameter of batch element `item`.
template <class T, int S, int P>
JW_INLINE T* jw_array_of(const jw_args<S, P>& args, int parameter, long long item) {
  char* array = args.arrays[parameter];
  if (args.items != 1) array += jw_shift(args.batch, &args.strides[0][parameter], P, item);
  return (T*)array;
}

#include "atomics.cuh"

// ---- what an adjoint remembers, where nobody knows before how much that is

// A larger piece of the device's heap with the content of the old one, which is given back; null if there is none.
__device__ __noinline__ void* jw_enlarged(void* old, unsigned long long used, unsigned long long wanted) {
  void* const made = malloc(wanted);
  if (made == nullptr) return made;
  for (unsigned long long k = 0; k < used / 8; ++k) ((unsigned long long*)made)[k] = ((unsigned long long*)old)[k];
  if (old != nullptr) free(old);
  return made;
}

// Records of one thread, in a row that grows.
template <class T> struct jw_records {
  T* data = nullptr;
  long long room = 0;
  JW_INLINE jw_records() {}
  JW_INLINE ~jw_records() {
    if (data != nullptr) free(data);
  }
  JW_INLINE T& operator[](long long k) { return data[k]; }
  // True if there is a place for record number `count`, the next one.
  JW_INLINE bool has(long long count) {
    if (count < room) return true;
    const long long more = room == 0 ? 64 : 2 * room;
    T* const made = (T*)jw_enlarged(data, room * sizeof(T), more * sizeof(T));
    if (made == nullptr) return false;
    data = made;
    room = more;
    return true;
  }
};

// ---- failed checks

// Notes a failure, of which the first thread's stays. Sites count from 1.
JW_INLINE void jw_fail(unsigned long long* failure, long long thread, int site) {
  if (failure) atomicMin(failure, (unsigned long long)thread << 12 | (unsigned)site);
}
