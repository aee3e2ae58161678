// The arguments of handwritten kernels: arrays that are pointers and know their extents, and numbers that
// become a parameter of their own kind only.
//
// A function may take an array as `float*` or as `jw::array<float, 2>`. Nothing converts that C++ would change in
// silence: no float becomes an int, and no pointer one to elements of another size.
#pragma once

#include "jwarp.cuh"

// Of cuda_fp16.h and cuda_bf16.h, where the author includes them.
struct __half;
struct __nv_bfloat16;

namespace jw {

template <class A, class B> constexpr bool is_same = false;
template <class A> constexpr bool is_same<A, A> = true;
template <class T> struct plain_of { using type = T; };
template <class T> struct plain_of<const T> { using type = T; };
template <class T> using plain = typename plain_of<T>::type;
template <class T> constexpr bool is_const = !is_same<T, plain<T>>;
template <bool, class T = void> struct enable {};
template <class T> struct enable<true, T> { using type = T; };

template <class T, class... U> constexpr bool is_one_of = (is_same<T, U> || ...);
template <class T> constexpr bool is_integer =
    is_one_of<T, char, signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long, long long,
              unsigned long long>;

// ---- vectors and matrices

template <class T, int n> struct vector {
  T data[n];
  JW_INLINE T& operator[](int i) { return data[i]; }
  JW_INLINE const T& operator[](int i) const { return data[i]; }
};
template <class T, int rows, int columns> struct matrix {
  T data[rows * columns];  // row by row
  JW_INLINE T& operator()(int i, int j) { return data[i * columns + j]; }
  JW_INLINE const T& operator()(int i, int j) const { return data[i * columns + j]; }
};

// The component type of a composite; void for a scalar, and for a struct of the author's own.
template <class T> struct component_of { using type = void; };
template <class T, int n> struct component_of<vector<T, n>> { using type = T; };
template <class T, int r, int c> struct component_of<matrix<T, r, c>> { using type = T; };
#define JW_BUILT_IN(T, V, n) template <> struct component_of<V##n> { using type = T; };
#define JW_BUILT_INS(T, V) JW_BUILT_IN(T, V, 2) JW_BUILT_IN(T, V, 3) JW_BUILT_IN(T, V, 4)
JW_BUILT_INS(signed char, char)
JW_BUILT_INS(unsigned char, uchar)
JW_BUILT_INS(short, short)
JW_BUILT_INS(unsigned short, ushort)
JW_BUILT_INS(int, int)
JW_BUILT_INS(unsigned, uint)
JW_BUILT_INS(float, float)
// Those of four are deprecated, and so count as structs of the author's own.
JW_BUILT_IN(long long, longlong, 2) JW_BUILT_IN(long long, longlong, 3)
JW_BUILT_IN(unsigned long long, ulonglong, 2) JW_BUILT_IN(unsigned long long, ulonglong, 3)
JW_BUILT_IN(double, double, 2) JW_BUILT_IN(double, double, 3)
#undef JW_BUILT_INS
#undef JW_BUILT_IN
template <class T> using component = typename component_of<T>::type;

// ---- which types stand for which

// True if a scalar in memory may be taken for another: halves, for example, for those of cuda_fp16.h.
template <class T, class U> JW_INLINE constexpr bool same_kind() {
  if constexpr (is_same<T, U>) return true;
  else if constexpr (is_same<T, bool>) return is_same<U, unsigned char>;
  else if constexpr (is_integer<T> && is_integer<U>) return sizeof(T) == sizeof(U);
  else if constexpr (is_same<U, __half>) return is_same<T, jw_half>;
  else if constexpr (is_same<U, __nv_bfloat16>) return is_same<T, jw_bfloat>;
  else if constexpr (is_one_of<T, jw_half, jw_bfloat> && !is_one_of<U, jw_half, jw_bfloat>)
    return is_same<U, unsigned short> || (__is_class(U) && sizeof(U) == 2);
  else return false;
}
// True if memory with elements T may be taken for elements U, or for their components.
template <class T, class U> JW_INLINE constexpr bool holds() {
  if constexpr (is_same<T, U>) return true;
  else if constexpr (is_same<component<T>, void>) return same_kind<T, U>();
  else if constexpr (!__is_class(U)) return same_kind<component<T>, U>();
  else if constexpr (sizeof(U) == sizeof(component<T>)) return same_kind<component<T>, U>();
  else if constexpr (sizeof(U) != sizeof(T)) return false;
  else if constexpr (is_same<component<U>, void>) return true;
  else return same_kind<component<T>, component<U>>();
}
// True if a value T may be passed for a parameter U: nothing is lost.
template <class T, class U> JW_INLINE constexpr bool becomes() {
  if constexpr (is_integer<T> && is_integer<U>) return sizeof(U) >= sizeof(T);
  else if constexpr (is_same<T, float>) return is_one_of<U, float, double>;
  else if constexpr (is_same<T, bool>) return is_same<U, bool>;
  else if constexpr (is_one_of<T, jw_half, jw_bfloat> && is_same<U, float>) return true;
  else if constexpr (is_same<component<T>, void>) return same_kind<T, U>();
  else return __is_class(U) && holds<T, U>();
}

// ---- arrays

template <class T, int n> struct array {
  T* start;
  int extents[n > 0 ? n : 1];

  JW_INLINE T* data() const { return start; }
  JW_INLINE int shape(int axis) const { return extents[axis]; }
  JW_INLINE long long size() const {
    long long product = 1;
    for (int axis = 0; axis < n; ++axis) product *= extents[axis];
    return product;
  }
  // An element by its number, as of a pointer.
  JW_INLINE T& operator[](long long i) const { return start[i]; }
  // An element by one index for each axis.
  template <class... I> JW_INLINE T& operator()(I... indices) const {
    static_assert(sizeof...(I) == n, "an array takes one index for each of its axes");
    const long long all[] = {(long long)indices...};
    long long offset = 0;
    for (int axis = 0; axis < n; ++axis) offset = offset * extents[axis] + all[axis];
    return start[offset];
  }
  template <class U, class = typename enable<holds<plain<T>, plain<U>>() && (is_const<U> || !is_const<T>)>::type>
  JW_INLINE operator U*() const {
    return (U*)start;
  }
  template <class U, class = typename enable<!is_same<T, U> && holds<plain<T>, plain<U>>() &&
                                             (is_const<U> || !is_const<T>)>::type>
  JW_INLINE operator array<U, n>() const {
    array<U, n> other;
    other.start = (U*)start;
    for (int axis = 0; axis < n; ++axis) other.extents[axis] = extents[axis];
    return other;
  }
};

// The dynamic shared memory of the block.
template <class T> JW_INLINE T* dynamic_shared() {
#ifdef JW_HOST_SHIM
  return (T*)cuda_host::dynamic_shared;
#else
  extern __shared__ unsigned long long jw_dynamic_shared[];
  return (T*)jw_dynamic_shared;
#endif
}

// ---- numbers, vectors and matrices by value

template <class T> struct value {
  T held;
  template <class U, class = typename enable<becomes<T, U>()>::type> JW_INLINE operator U() const {
    if constexpr (is_one_of<T, jw_half, jw_bfloat> && is_same<U, float>) return jw_widen(held);
    else if constexpr (__is_class(T)) return jw_bitcast<U>(held);
    else return (U)held;
  }
};

// A parameter of the batch element; bytes that are not 0 are true, whatever else they are.
template <class T> struct reader {
  template <int S, int P> JW_INLINE static T read(const jw_args<S, P>& args, int parameter, long long item) {
    return *jw_array_of<const T>(args, parameter, item);
  }
};
template <> struct reader<bool> {
  template <int S, int P> JW_INLINE static bool read(const jw_args<S, P>& args, int parameter, long long item) {
    return *jw_array_of<const unsigned char>(args, parameter, item) != 0;
  }
};
template <class T, int S, int P>
JW_INLINE value<T> value_of(const jw_args<S, P>& args, int parameter, long long item) {
  return {reader<T>::read(args, parameter, item)};
}

template <class T, class... E, int S, int P>
JW_INLINE array<T, sizeof...(E)> array_of(const jw_args<S, P>& args, int parameter, long long item,
                                          E... extents) {
  return {jw_array_of<T>(args, parameter, item), {(int)extents...}};
}

}  // namespace jw
