// The instructions of cuda/device/tile_ptx.cuh: products of matrices that a warp holds together, and copies that go on.
//
// Which lane holds what is as in NVIDIA's description of PTX. Sums are rounded once, which no GPU promises.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "functions.h"

namespace cuda_host {

// What all lanes of the warp post, `count` words each: word k of a lane at [lane][k]. Only whole warps can do this.
template <int count> struct Posted {
  uint64_t words[kWarp][count];
  Posted(const char* operation, const uint64_t (&own)[count]) {
    if (block != nullptr && present(block->current->number / kWarp) != ~0u) {
      fail(std::string(operation) + " needs a warp of 32 threads");
    }
    for (int k = 0; k < count; ++k) {
      const uint64_t* all = exchange(operation, ~0u, own[k]);
      for (unsigned l = 0; l < kWarp; ++l) words[l][k] = all[l];
    }
  }
};

template <bool trans, int count> void load_matrices(unsigned (&x)[count], const void* row) {
  if (block == nullptr) {
    surprised = true;
    return;
  }
  const Posted<1> rows("ldmatrix", {uint64_t(row)});
  const int g = int(lane()) / 4, t = int(lane()) % 4;
  for (int matrix = 0; matrix < count; ++matrix) {
    const auto element = [&](int i, int j) {
      const uint64_t place = rows.words[matrix * 8 + i][0];
      if (place % 16 != 0) fail("ldmatrix of a row that is not at a multiple of 16 bytes");
      uint16_t bits;
      std::memcpy(&bits, reinterpret_cast<const uint16_t*>(place) + j, sizeof bits);
      return unsigned(bits);
    };
    const unsigned low = trans ? element(2 * t, g) : element(g, 2 * t);
    const unsigned high = trans ? element(2 * t + 1, g) : element(g, 2 * t + 1);
    x[matrix] = low | high << 16;
  }
  exchange("ldmatrix", ~0u, 0);  // nobody goes on and writes before all have read
}

inline double from_f16(unsigned bits) {
  const int exponent = int(bits >> 10 & 31), fraction = int(bits & 1023);
  const double size = exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                      : exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}
inline double from_bf16(unsigned bits) { return from_word<float>(uint64_t(bits & 0xffff) << 16); }
inline double from_tf32(unsigned bits) { return from_word<float>(bits & 0xffffe000u); }  // the rest is not looked at

// Rows g and g + 8 by columns 2t and 2t + 1, where A has `k` columns, each register holding `packed` of neighbours.
template <int k, int packed, class F>
void multiply(const char* operation, float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], F value) {
  if (block == nullptr) {
    surprised = true;
    return;
  }
  const uint64_t own[3] = {a[0] | uint64_t(a[1]) << 32, a[2] | uint64_t(a[3]) << 32, b[0] | uint64_t(b[1]) << 32};
  const Posted<3> all(operation, own);
  // Element `column` of the row or column that group `g` of four lanes holds, in the given registers.
  const auto element = [&](int g, int word, int half, int column) {
    const uint64_t held = all.words[g * 4 + column / packed % 4][word];
    return value(unsigned(held >> (32 * half)) >> (32 / packed * (column % packed)));
  };
  const int g = int(lane()) / 4, t = int(lane()) % 4;
  for (int e = 0; e < 4; ++e) {
    double sum = c[e];
    for (int j = 0; j < k; ++j) {
      const int right = j >= k / 2;
      sum += element(g, right, e / 2, j) * element(2 * t + e % 2, 2, right, j);
    }
    c[e] = float(sum);
  }
}

}  // namespace cuda_host

template <class T> T jw_atomic_add(T* place, T value);

namespace jw::ptx {

constexpr bool has_mma_f64 = true;

// Neighbours are added one by one here, in as many pieces as on the newest of GPUs.
template <class T> constexpr int most_added = sizeof(T) == 4 ? 4 : sizeof(T) == 2 ? 8 : 1;
template <class T, int count> void add_neighbours(T* place, const T (&x)[count]) {
  if (uint64_t(place) % sizeof(x) != 0) cuda_host::fail("an addition to neighbours that are not aligned");
  for (int k = 0; k < count; ++k) jw_atomic_add(place + k, x[k]);
}

inline bool in_shared(const void*) { return true; }
inline unsigned low_bits(const void* place) { return unsigned(uint64_t(place)); }

template <bool trans> void load_matrices(unsigned (&x)[4], const void* row) { cuda_host::load_matrices<trans>(x, row); }
template <bool trans> void load_matrices(unsigned (&x)[2], const void* row) { cuda_host::load_matrices<trans>(x, row); }

inline void mma_f16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  cuda_host::multiply<16, 2>("mma.f16", c, a, b, [](unsigned bits) { return cuda_host::from_f16(bits & 0xffff); });
}
inline void mma_bf16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  cuda_host::multiply<16, 2>("mma.bf16", c, a, b, cuda_host::from_bf16);
}
inline void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  cuda_host::multiply<8, 1>("mma.tf32", c, a, b, cuda_host::from_tf32);
}
// To the nearest number of 11 bits, halves away from zero.
inline unsigned to_tf32(float x) {
  const unsigned bits = unsigned(cuda_host::to_word(x));
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}
inline void mma_f64(double (&c)[2], const double (&a)[1], const double (&b)[1]) {
  if (cuda_host::block == nullptr) {
    cuda_host::surprised = true;
    return;
  }
  const cuda_host::Posted<2> all("mma.f64", {cuda_host::to_word(a[0]), cuda_host::to_word(b[0])});
  const int g = int(cuda_host::lane()) / 4, t = int(cuda_host::lane()) % 4;
  for (int e = 0; e < 2; ++e) {
    for (int j = 0; j < 4; ++j) {
      const double x = cuda_host::from_word<double>(all.words[g * 4 + j][0]);
      c[e] = std::fma(x, cuda_host::from_word<double>(all.words[(2 * t + e) * 4 + j][1]), c[e]);
    }
  }
}

// What is copied comes when it is waited for; until then there is nothing to use.
template <int bytes> void copy_async(void* shared, const void* global) {
  if (cuda_host::block == nullptr) {
    cuda_host::surprised = true;
    return;
  }
  if ((uint64_t(shared) | uint64_t(global)) % bytes != 0) cuda_host::fail("a copy between places that are not aligned");
  cuda_host::poison(static_cast<char*>(shared), bytes);
  cuda_host::Thread& thread = *cuda_host::block->current;
  thread.copies.push_back({static_cast<char*>(shared), static_cast<const char*>(global), size_t(bytes), thread.groups});
}
inline void copy_until(int group) {
  if (cuda_host::block == nullptr) return;
  std::vector<cuda_host::Copy>& copies = cuda_host::block->current->copies;
  size_t done = 0;
  for (; done < copies.size() && copies[done].group < group; ++done) {
    std::memcpy(copies[done].to, copies[done].from, copies[done].bytes);
  }
  copies.erase(copies.begin(), copies.begin() + long(done));
}
inline void copy_commit() {
  if (cuda_host::block != nullptr) ++cuda_host::block->current->groups;
}
template <int newest> void copy_wait_group() {
  if (cuda_host::block != nullptr) copy_until(cuda_host::block->current->groups - newest);
}
inline void copy_wait_all() {
  if (cuda_host::block != nullptr) copy_until(cuda_host::block->current->groups + 1);
}

}  // namespace jw::ptx
