// Instructions that CUDA C++ has no words for: products of small matrices by warps, and copies to shared memory.
//
// Where what is in which lane: g = lane / 4 and t = lane % 4 in what follows.
#pragma once

#include "jwarp.cuh"

// The tests have their own, which do the same on a processor.
#ifndef JW_HOST_SHIM
namespace jw::ptx {

JW_INLINE bool in_shared(const void* place) { return __isShared(place); }
JW_INLINE unsigned shared_address(const void* place) { return (unsigned)__cvta_generic_to_shared(place); }
// The low bits of an address. Those of shared memory count from its beginning, which lets the compiler know them.
JW_INLINE unsigned low_bits(const void* place) {
  return in_shared(place) ? shared_address(place) : (unsigned)(unsigned long long)place;
}

// Matrices of 8 x 8 elements of 16 bits, one for each register: a lane has row g, columns 2t and 2t + 1, or if TRANS
// column g, rows 2t and 2t + 1. Lanes 0 to 7 say where the rows of the first matrix are, lanes 8 to 15 where those of
// the second, and so on.
template <bool TRANS> JW_INLINE void load_matrices(unsigned (&x)[4], const void* row) {
  if constexpr (TRANS) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(shared_address(row)) : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(shared_address(row)) : "memory");
  }
}
template <bool TRANS> JW_INLINE void load_matrices(unsigned (&x)[2], const void* row) {
  if constexpr (TRANS) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(x[0]), "=r"(x[1]) : "r"(shared_address(row)) : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(x[0]), "=r"(x[1]) : "r"(shared_address(row)) : "memory");
  }
}

// c += a b, 16 x 16 by 16 x 8. Of a: rows g and g + 8 at columns 2t, 2t + 1, then at 2t + 8, 2t + 9. Of b: column g at
// these rows. Of c: row g, columns 2t and 2t + 1, then row g + 8.
#define JW_MMA(TYPES)                                                                                     \
  asm("mma.sync.aligned." TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"         \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                    \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
JW_INLINE void mma_f16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  JW_MMA("m16n8k16.row.col.f32.f16.f16.f32");
}
JW_INLINE void mma_bf16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  JW_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}
// 16 x 8 by 8 x 8, of floats with 11 bits. Of a: rows g and g + 8 at column t, then at t + 4. Of b: column g at these
// rows.
JW_INLINE void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  JW_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
}
#undef JW_MMA
JW_INLINE unsigned to_tf32(float x) {
  unsigned y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
// 8 x 4 by 4 x 8: of a row g, column t, of b column g, row t; of c row g, columns 2t and 2t + 1.
JW_INLINE void mma_f64(double (&c)[2], const double (&a)[1], const double (&b)[1]) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c[0]), "+d"(c[1]) : "d"(a[0]), "d"(b[0]));
}

// Begins to copy 4, 8 or 16 bytes, which are where multiples of their number are.
template <int BYTES> JW_INLINE void copy_async(void* shared, const void* global) {
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)), "n"(BYTES) : "memory");
  }
}
// Makes a group of the thread's copies so far; waits for all groups of it but the newest ones; waits for all copies.
JW_INLINE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int NEWEST> JW_INLINE void copy_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
}
JW_INLINE void copy_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Neighbours that an instruction adds to memory, which begin at a multiple of what they take together.
#if __CUDA_ARCH__ >= 900
template <class T> constexpr int most_added = 1;
template <> constexpr int most_added<float> = 4;
template <> constexpr int most_added<jw_half> = 8;
template <> constexpr int most_added<jw_bfloat> = 8;
#define JW_PAIR(x, k) (unsigned(x[k].bits) | unsigned(x[k + 1].bits) << 16)
#define JW_ADD_PAIRS(T, type)                                                                                    \
  JW_INLINE void add_neighbours(T* place, const T (&x)[2]) {                                                     \
    asm volatile("red.global.add.noftz." type " [%0], %1;"                                                       \
                 :: "l"(__cvta_generic_to_global(place)), "r"(JW_PAIR(x, 0)) : "memory");                        \
  }                                                                                                              \
  JW_INLINE void add_neighbours(T* place, const T (&x)[4]) {                                                     \
    asm volatile("red.global.add.noftz.v2." type " [%0], {%1, %2};"                                              \
                 :: "l"(__cvta_generic_to_global(place)), "r"(JW_PAIR(x, 0)), "r"(JW_PAIR(x, 2)) : "memory");    \
  }                                                                                                              \
  JW_INLINE void add_neighbours(T* place, const T (&x)[8]) {                                                     \
    asm volatile("red.global.add.noftz.v4." type " [%0], {%1, %2, %3, %4};"                                      \
                 :: "l"(__cvta_generic_to_global(place)), "r"(JW_PAIR(x, 0)), "r"(JW_PAIR(x, 2)),                \
                    "r"(JW_PAIR(x, 4)), "r"(JW_PAIR(x, 6)) : "memory");                                          \
  }
JW_ADD_PAIRS(jw_half, "f16x2")
JW_ADD_PAIRS(jw_bfloat, "bf16x2")
#undef JW_ADD_PAIRS
#undef JW_PAIR
JW_INLINE void add_neighbours(float* place, const float (&x)[2]) {
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};"
               :: "l"(__cvta_generic_to_global(place)), "f"(x[0]), "f"(x[1]) : "memory");
}
JW_INLINE void add_neighbours(float* place, const float (&x)[4]) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
               :: "l"(__cvta_generic_to_global(place)), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]) : "memory");
}
#else
template <class T> constexpr int most_added = 1;
template <class T, int COUNT> JW_INLINE void add_neighbours(T*, const T (&)[COUNT]) {}
#endif

// True if the hardware has products of doubles by warps: others are sequences of instructions, and long ones.
#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || (__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1100)
constexpr bool has_mma_f64 = true;
#else
constexpr bool has_mma_f64 = false;
#endif

}  // namespace jw::ptx
#endif
