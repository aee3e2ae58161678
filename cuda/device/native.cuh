// The language of native functions: Warp's names for numbers, vectors and arrays, in namespace wp.
//
// A text that names anything else of Warp's library is refused by the compiler, at its place. Nothing tests the
// indices that a text uses.
#pragma once

#include "jwarp.cuh"

#define CUDA_CALLABLE __device__
#define CUDA_CALLABLE_DEVICE __device__

#ifndef JW_HOST_SHIM
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
#endif

#ifndef INFINITY
#define INFINITY jw_float(0x7f800000u)
#define NAN jw_float(0x7fffffffu)
#endif

namespace wp {

using int8 = signed char;
using uint8 = unsigned char;
using int16 = short;
using uint16 = unsigned short;
using int32 = int;
using uint32 = unsigned int;
using int64 = long long;
using uint64 = unsigned long long;
using float32 = float;
using float64 = double;
using half = jw_half;
using bfloat16 = jw_bfloat;

// ---- vectors and matrices: the components in order, as arrays hold them

template <unsigned N, class T> struct vec_t {
  T c[N];
  JW_INLINE vec_t() : c{} {}
  JW_INLINE vec_t(T value) { for (unsigned k = 0; k < N; ++k) c[k] = value; }
  template <class... S, class = decltype(T(sizeof...(S)))>
  JW_INLINE vec_t(T x, T y, S... rest) : c{x, y, T(rest)...} { static_assert(sizeof...(S) + 2 == N, "wrong number of components"); }
  template <class S> JW_INLINE explicit vec_t(const vec_t<N, S>& other) { for (unsigned k = 0; k < N; ++k) c[k] = T(other.c[k]); }
  JW_INLINE T& operator[](int k) { return c[k]; }
  JW_INLINE const T& operator[](int k) const { return c[k]; }
  JW_INLINE T& operator()(int k) { return c[k]; }
  JW_INLINE const T& operator()(int k) const { return c[k]; }
};

template <unsigned R, unsigned C, class T> struct mat_t {
  T data[R][C];
  JW_INLINE mat_t() : data{} {}
  JW_INLINE mat_t(T value) { for (unsigned k = 0; k < R * C; ++k) data[k / C][k % C] = value; }
  template <class... S, class = decltype(T(sizeof...(S)))> JW_INLINE mat_t(T x, T y, S... rest) {
    static_assert(sizeof...(S) + 2 == R * C, "wrong number of components");
    const T all[] = {x, y, T(rest)...};
    for (unsigned k = 0; k < R * C; ++k) data[k / C][k % C] = all[k];
  }
  JW_INLINE T& operator()(int i, int j) { return data[i][j]; }
  JW_INLINE const T& operator()(int i, int j) const { return data[i][j]; }
  JW_INLINE vec_t<C, T> get_row(int i) const {
    vec_t<C, T> row;
    for (unsigned j = 0; j < C; ++j) row.c[j] = data[i][j];
    return row;
  }
  JW_INLINE vec_t<R, T> get_col(int j) const {
    vec_t<R, T> column;
    for (unsigned i = 0; i < R; ++i) column.c[i] = data[i][j];
    return column;
  }
  JW_INLINE void set_row(int i, const vec_t<C, T>& row) { for (unsigned j = 0; j < C; ++j) data[i][j] = row.c[j]; }
  JW_INLINE void set_col(int j, const vec_t<R, T>& column) { for (unsigned i = 0; i < R; ++i) data[i][j] = column.c[i]; }
};

template <class T> struct quat_t {
  T x, y, z, w;
  JW_INLINE quat_t(T x = T(), T y = T(), T z = T(), T w = T()) : x(x), y(y), z(z), w(w) {}
  JW_INLINE quat_t(const vec_t<3, T>& v, T w = T()) : x(v.c[0]), y(v.c[1]), z(v.c[2]), w(w) {}
  JW_INLINE T& operator[](int k) { return (&x)[k]; }
  JW_INLINE const T& operator[](int k) const { return (&x)[k]; }
};

template <class T> struct transform_t {
  vec_t<3, T> p;
  quat_t<T> q;
  JW_INLINE transform_t(const vec_t<3, T>& p = vec_t<3, T>(), const quat_t<T>& q = quat_t<T>()) : p(p), q(q) {}
  JW_INLINE T& operator[](int k) { return ((T*)this)[k]; }
  JW_INLINE const T& operator[](int k) const { return ((const T*)this)[k]; }
};

#define JW_NAMES(end, T)                                                                                               \
  using vec2##end = vec_t<2, T>;                                                                                       \
  using vec3##end = vec_t<3, T>;                                                                                       \
  using vec4##end = vec_t<4, T>;
JW_NAMES(, float) JW_NAMES(f, float) JW_NAMES(d, double) JW_NAMES(h, half) JW_NAMES(i, int) JW_NAMES(ui, unsigned)
JW_NAMES(l, int64) JW_NAMES(ul, uint64) JW_NAMES(s, short) JW_NAMES(us, unsigned short) JW_NAMES(b, int8) JW_NAMES(ub, uint8)
#undef JW_NAMES
#define JW_NAMES(end, T)                                                                                               \
  using mat22##end = mat_t<2, 2, T>;                                                                                   \
  using mat33##end = mat_t<3, 3, T>;                                                                                   \
  using mat44##end = mat_t<4, 4, T>;                                                                                   \
  using quat##end = quat_t<T>;                                                                                         \
  using transform##end = transform_t<T>;                                                                               \
  using spatial_vector##end = vec_t<6, T>;                                                                             \
  using spatial_matrix##end = mat_t<6, 6, T>;
JW_NAMES(, float) JW_NAMES(f, float) JW_NAMES(d, double) JW_NAMES(h, half)
#undef JW_NAMES

// ---- by component

#define JW_BY_COMPONENT(sign, name)                                                                                    \
  template <unsigned N, class T> JW_INLINE vec_t<N, T> operator sign(const vec_t<N, T>& x, const vec_t<N, T>& y) {     \
    vec_t<N, T> z;                                                                                                     \
    for (unsigned k = 0; k < N; ++k) z.c[k] = x.c[k] sign y.c[k];                                                      \
    return z;                                                                                                          \
  }                                                                                                                    \
  template <unsigned N, class T> JW_INLINE vec_t<N, T>& operator sign##=(vec_t<N, T>& x, const vec_t<N, T>& y) {       \
    return x = x sign y;                                                                                               \
  }                                                                                                                    \
  template <unsigned R, unsigned C, class T>                                                                           \
  JW_INLINE mat_t<R, C, T> operator sign(const mat_t<R, C, T>& x, const mat_t<R, C, T>& y) {                           \
    mat_t<R, C, T> z;                                                                                                  \
    for (unsigned i = 0; i < R; ++i)                                                                                   \
      for (unsigned j = 0; j < C; ++j) z.data[i][j] = x.data[i][j] sign y.data[i][j];                                  \
    return z;                                                                                                          \
  }                                                                                                                    \
  template <unsigned R, unsigned C, class T>                                                                           \
  JW_INLINE mat_t<R, C, T>& operator sign##=(mat_t<R, C, T>& x, const mat_t<R, C, T>& y) {                             \
    return x = x sign y;                                                                                               \
  }                                                                                                                    \
  template <class A> JW_INLINE A name(const A& x, const A& y) { return x sign y; }
JW_BY_COMPONENT(+, add)
JW_BY_COMPONENT(-, sub)
#undef JW_BY_COMPONENT

// A scalar converts to the type of the components, as a number in C++ does.
template <class T> struct same_t { using type = T; };
template <class T> using same = typename same_t<T>::type;

#define JW_BY_SCALAR(sign)                                                                                             \
  template <unsigned N, class T> JW_INLINE vec_t<N, T> operator sign(vec_t<N, T> x, same<T> s) {                       \
    for (unsigned k = 0; k < N; ++k) x.c[k] = x.c[k] sign s;                                                           \
    return x;                                                                                                          \
  }                                                                                                                    \
  template <unsigned N, class T> JW_INLINE vec_t<N, T>& operator sign##=(vec_t<N, T>& x, same<T> s) {                  \
    return x = x sign s;                                                                                               \
  }                                                                                                                    \
  template <unsigned R, unsigned C, class T> JW_INLINE mat_t<R, C, T> operator sign(mat_t<R, C, T> x, same<T> s) {     \
    for (unsigned i = 0; i < R; ++i)                                                                                   \
      for (unsigned j = 0; j < C; ++j) x.data[i][j] = x.data[i][j] sign s;                                             \
    return x;                                                                                                          \
  }                                                                                                                    \
  template <unsigned R, unsigned C, class T> JW_INLINE mat_t<R, C, T>& operator sign##=(mat_t<R, C, T>& x, same<T> s) { \
    return x = x sign s;                                                                                               \
  }
JW_BY_SCALAR(*)
JW_BY_SCALAR(/)
#undef JW_BY_SCALAR
template <unsigned N, class T> JW_INLINE vec_t<N, T> operator*(same<T> s, const vec_t<N, T>& x) { return x * s; }
template <unsigned R, unsigned C, class T> JW_INLINE mat_t<R, C, T> operator*(same<T> s, const mat_t<R, C, T>& x) { return x * s; }
template <unsigned N, class T> JW_INLINE vec_t<N, T> operator-(const vec_t<N, T>& x) { return x * T(-1); }
template <unsigned R, unsigned C, class T> JW_INLINE mat_t<R, C, T> operator-(const mat_t<R, C, T>& x) { return x * T(-1); }

// ---- products

template <unsigned N, class T> JW_INLINE T dot(const vec_t<N, T>& x, const vec_t<N, T>& y) {
  T sum = x.c[0] * y.c[0];
  for (unsigned k = 1; k < N; ++k) sum += x.c[k] * y.c[k];
  return sum;
}
template <class T> JW_INLINE vec_t<3, T> cross(const vec_t<3, T>& x, const vec_t<3, T>& y) {
  return vec_t<3, T>(x.c[1] * y.c[2] - x.c[2] * y.c[1], x.c[2] * y.c[0] - x.c[0] * y.c[2],
                     x.c[0] * y.c[1] - x.c[1] * y.c[0]);
}
template <unsigned N, class T> JW_INLINE T length_sq(const vec_t<N, T>& x) { return dot(x, x); }
JW_INLINE float root(float x) { return sqrtf(x); }
JW_INLINE double root(double x) { return ::sqrt(x); }
template <unsigned N, class T> JW_INLINE T length(const vec_t<N, T>& x) { return root(dot(x, x)); }
template <unsigned N, class T> JW_INLINE vec_t<N, T> normalize(const vec_t<N, T>& x) {
  const T size = length(x);
  return size > T(0) ? x / size : vec_t<N, T>();
}
template <unsigned R, unsigned C, class T> JW_INLINE vec_t<R, T> operator*(const mat_t<R, C, T>& m, const vec_t<C, T>& x) {
  vec_t<R, T> y;
  for (unsigned i = 0; i < R; ++i)
    for (unsigned j = 0; j < C; ++j) y.c[i] += m.data[i][j] * x.c[j];
  return y;
}
template <unsigned R, unsigned K, unsigned C, class T>
JW_INLINE mat_t<R, C, T> operator*(const mat_t<R, K, T>& x, const mat_t<K, C, T>& y) {
  mat_t<R, C, T> z;
  for (unsigned i = 0; i < R; ++i)
    for (unsigned k = 0; k < K; ++k)
      for (unsigned j = 0; j < C; ++j) z.data[i][j] += x.data[i][k] * y.data[k][j];
  return z;
}
template <class X, class Y> JW_INLINE auto mul(const X& x, const Y& y) -> decltype(x * y) { return x * y; }
template <unsigned R, unsigned C, class T> JW_INLINE mat_t<C, R, T> transpose(const mat_t<R, C, T>& m) {
  mat_t<C, R, T> t;
  for (unsigned i = 0; i < R; ++i)
    for (unsigned j = 0; j < C; ++j) t.data[j][i] = m.data[i][j];
  return t;
}
template <unsigned N, class T> JW_INLINE T extract(const vec_t<N, T>& x, int k) { return x.c[k]; }
template <unsigned R, unsigned C, class T> JW_INLINE T extract(const mat_t<R, C, T>& m, int i, int j) { return m.data[i][j]; }

template <class T> JW_INLINE quat_t<T> operator*(const quat_t<T>& a, const quat_t<T>& b) {
  return quat_t<T>(a.w * b.x + b.w * a.x + a.y * b.z - b.y * a.z, a.w * b.y + b.w * a.y + a.z * b.x - b.z * a.x,
                   a.w * b.z + b.w * a.z + a.x * b.y - b.x * a.y, a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z);
}
template <class T> JW_INLINE quat_t<T> quat_inverse(const quat_t<T>& q) { return quat_t<T>(-q.x, -q.y, -q.z, q.w); }
template <class T> JW_INLINE vec_t<3, T> quat_rotate(const quat_t<T>& q, const vec_t<3, T>& v) {
  const vec_t<3, T> u(q.x, q.y, q.z);
  return v * (T(2) * q.w * q.w - T(1)) + cross(u, v) * (q.w * T(2)) + u * (dot(u, v) * T(2));
}
template <class T> JW_INLINE vec_t<3, T> quat_rotate_inv(const quat_t<T>& q, const vec_t<3, T>& v) {
  return quat_rotate(quat_inverse(q), v);
}
template <class T> JW_INLINE vec_t<3, T> transform_get_translation(const transform_t<T>& t) { return t.p; }
template <class T> JW_INLINE quat_t<T> transform_get_rotation(const transform_t<T>& t) { return t.q; }
template <class T> JW_INLINE vec_t<3, T> transform_vector(const transform_t<T>& t, const vec_t<3, T>& v) {
  return quat_rotate(t.q, v);
}
template <class T> JW_INLINE vec_t<3, T> transform_point(const transform_t<T>& t, const vec_t<3, T>& x) {
  return t.p + quat_rotate(t.q, x);
}
template <class T> JW_INLINE transform_t<T> operator*(const transform_t<T>& a, const transform_t<T>& b) {
  return transform_t<T>(transform_point(a, b.p), a.q * b.q);
}
template <class T> JW_INLINE transform_t<T> transform_multiply(const transform_t<T>& a, const transform_t<T>& b) { return a * b; }

// ---- numbers

template <class T> JW_INLINE bool isnan(T x) { return x != x; }
template <class T> JW_INLINE bool isinf(T x) { return x == x && x - x != x - x; }
template <class T> JW_INLINE bool isfinite(T x) { return x - x == x - x; }

template <class T> JW_INLINE T min(T x, T y) { return x < y ? x : y; }
template <class T> JW_INLINE T max(T x, T y) { return x > y ? x : y; }
template <class T> JW_INLINE T clamp(T x, T low, T high) { return min(max(low, x), high); }
template <class T> JW_INLINE T abs(T x) { return x < T(0) ? -x : x; }
#define JW_FUNCTION(name)                                                                                              \
  JW_INLINE float name(float x) { return ::name##f(x); }                                                               \
  JW_INLINE double name(double x) { return ::name(x); }
JW_FUNCTION(sqrt) JW_FUNCTION(sin) JW_FUNCTION(cos) JW_FUNCTION(tan) JW_FUNCTION(exp) JW_FUNCTION(log) JW_FUNCTION(tanh)
JW_FUNCTION(floor) JW_FUNCTION(ceil)
#undef JW_FUNCTION

// ---- arrays: elements one after the other, the last axis first

struct shape_t {
  int dims[4];
  JW_INLINE int operator[](int axis) const { return dims[axis]; }
};

template <class T> struct array_t {
  T* data;
  shape_t shape;
  int strides[4];  // bytes from one index to the next
  int ndim;
  // Negative extents are those of axes that there are not.
  JW_INLINE array_t(T* data, const shape_t& given) : data(data), shape{}, strides{}, ndim(0) {
    while (ndim < 4 && given.dims[ndim] >= 0) ++ndim;
    int step = sizeof(T);
    for (int axis = ndim - 1; axis >= 0; --axis) {
      shape.dims[axis] = given.dims[axis];
      strides[axis] = step;
      step *= given.dims[axis];
    }
  }
  JW_INLINE operator T*() const { return data; }
  JW_INLINE long long size() const {
    long long count = 1;
    for (int axis = 0; axis < ndim; ++axis) count *= shape.dims[axis];
    return count;
  }
};

template <class T> JW_INLINE T* address(const array_t<T>& a, long long i) { return a.data + i; }
template <class T> JW_INLINE T* address(const array_t<T>& a, long long i, long long j) {
  return a.data + i * a.shape.dims[1] + j;
}
template <class T> JW_INLINE T* address(const array_t<T>& a, long long i, long long j, long long k) {
  return a.data + (i * a.shape.dims[1] + j) * a.shape.dims[2] + k;
}
template <class T> JW_INLINE T* address(const array_t<T>& a, long long i, long long j, long long k, long long l) {
  return a.data + ((i * a.shape.dims[1] + j) * a.shape.dims[2] + k) * a.shape.dims[3] + l;
}
template <class T, class... I> JW_INLINE T& index(const array_t<T>& a, I... at) { return *address(a, at...); }
template <class T> JW_INLINE T load(T* place) { return *place; }
template <class T> JW_INLINE void store(T* place, same<T> value) { *place = value; }
template <class T> JW_INLINE void array_store(const array_t<T>& a, int i, same<T> value) { *address(a, i) = value; }
template <class T> JW_INLINE void array_store(const array_t<T>& a, int i, int j, same<T> value) { *address(a, i, j) = value; }
#define JW_ATOMIC(name)                                                                                                \
  template <class T> JW_INLINE T atomic_##name(T* place, same<T> value) { return jw_atomic_##name(place, value); }     \
  template <class T> JW_INLINE T atomic_##name(const array_t<T>& a, int i, same<T> value) {                            \
    return jw_atomic_##name(address(a, i), value);                                                                     \
  }                                                                                                                    \
  template <class T> JW_INLINE T atomic_##name(const array_t<T>& a, int i, int j, same<T> value) {                     \
    return jw_atomic_##name(address(a, i, j), value);                                                                  \
  }
JW_ATOMIC(add) JW_ATOMIC(min) JW_ATOMIC(max)
#undef JW_ATOMIC

}  // namespace wp

// ---- between the scalars of generated code and these types

template <class C, class T, class... S> JW_INLINE C jw_made(T first, S... rest) {
  C made;
  const T all[] = {first, rest...};
  static_assert(sizeof(C) == sizeof(all), "all scalars of a value");
  for (unsigned k = 0; k < sizeof(all) / sizeof(T); ++k) ((T*)&made)[k] = all[k];
  return made;
}
template <class T, class C> JW_INLINE T jw_scalar_of(const C& value, int k) { return ((const T*)&value)[k]; }
