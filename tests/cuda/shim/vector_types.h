// CUDA's short vectors, and what makes them.
#pragma once

#define CUDA_HOST_VECTORS(T, V)                                                 \
  struct V##1 { T x; };                                                         \
  struct alignas(2 * sizeof(T)) V##2 { T x, y; };                               \
  struct V##3 { T x, y, z; };                                                   \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) V##4 { T x, y, z, w; }; \
  inline V##1 make_##V##1(T x) { return {x}; }                                  \
  inline V##2 make_##V##2(T x, T y) { return {x, y}; }                          \
  inline V##3 make_##V##3(T x, T y, T z) { return {x, y, z}; }                  \
  inline V##4 make_##V##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CUDA_HOST_VECTORS(signed char, char)
CUDA_HOST_VECTORS(unsigned char, uchar)
CUDA_HOST_VECTORS(short, short)
CUDA_HOST_VECTORS(unsigned short, ushort)
CUDA_HOST_VECTORS(int, int)
CUDA_HOST_VECTORS(unsigned, uint)
CUDA_HOST_VECTORS(long long, longlong)
CUDA_HOST_VECTORS(unsigned long long, ulonglong)
CUDA_HOST_VECTORS(float, float)
CUDA_HOST_VECTORS(double, double)
#undef CUDA_HOST_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
