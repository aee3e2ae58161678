// CUDA's warp operations, each made of one exchange of words between lanes.
#pragma once

#include "functions.h"

namespace cuda_host {

template <class T> T shuffle(const char* operation, unsigned mask, T value, unsigned source) {
  return from_word<T>(exchange(operation, mask, to_word(value))[source % kWarp]);
}

// The lane that a shuffle within groups of `width` reads; its own where that is outside.
inline unsigned up(unsigned distance, unsigned width) {
  return lane() % width >= distance ? lane() - distance : lane();
}
inline unsigned down(unsigned distance, unsigned width) {
  return lane() % width + distance < width ? lane() + distance : lane();
}
inline unsigned across(unsigned bits, unsigned width) {
  const unsigned source = lane() ^ bits;
  return source / width <= lane() / width ? source : lane();
}
inline unsigned within(unsigned source, unsigned width) { return lane() / width * width + source % width; }

// The lanes of the mask for whose words `holds` is true.
template <class F> unsigned lanes_that(const char* operation, unsigned mask, uint64_t value, F holds) {
  const uint64_t* all = exchange(operation, mask, value);
  if (block != nullptr) mask &= present(block->current->number / kWarp);
  unsigned found = 0;
  for (unsigned l = 0; l < kWarp; ++l) found |= unsigned((mask >> l & 1) != 0 && holds(all[l])) << l;
  return found;
}

template <class T, class F> T reduce(const char* operation, unsigned mask, T value, F combine) {
  static_assert(sizeof(T) == 4 && std::is_integral_v<T>, "warps reduce integers of 32 bits");
  const uint64_t* all = exchange(operation, mask, to_word(value));
  if (block != nullptr) mask &= present(block->current->number / kWarp);
  T total{};
  bool any = false;
  for (unsigned l = 0; l < kWarp; ++l) {
    if ((mask >> l & 1) == 0) continue;
    total = any ? combine(total, from_word<T>(all[l])) : from_word<T>(all[l]);
    any = true;
  }
  return total;
}

}  // namespace cuda_host

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return cuda_host::shuffle("__shfl_sync", mask, value, cuda_host::within(source, width));
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  return cuda_host::shuffle("__shfl_up_sync", mask, value, cuda_host::up(distance, width));
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  return cuda_host::shuffle("__shfl_down_sync", mask, value, cuda_host::down(distance, width));
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  return cuda_host::shuffle("__shfl_xor_sync", mask, value, cuda_host::across(bits, width));
}
inline void __syncwarp(unsigned mask = 0xffffffffu) { cuda_host::exchange("__syncwarp", mask, 0); }

inline unsigned __ballot_sync(unsigned mask, int yes) {
  return cuda_host::lanes_that("__ballot_sync", mask, yes != 0, [](uint64_t said) { return said != 0; });
}
inline int __any_sync(unsigned mask, int yes) {
  return cuda_host::lanes_that("__any_sync", mask, yes != 0, [](uint64_t said) { return said != 0; }) != 0;
}
inline int __all_sync(unsigned mask, int yes) {
  return cuda_host::lanes_that("__all_sync", mask, yes != 0, [](uint64_t said) { return said == 0; }) == 0;
}
template <class T> unsigned __match_any_sync(unsigned mask, T value) {
  const uint64_t mine = cuda_host::to_word(value);
  return cuda_host::lanes_that("__match_any_sync", mask, mine, [=](uint64_t other) { return other == mine; });
}
template <class T> unsigned __match_all_sync(unsigned mask, T value, int* all) {
  const uint64_t mine = cuda_host::to_word(value);
  *all = cuda_host::lanes_that("__match_all_sync", mask, mine, [=](uint64_t other) { return other != mine; }) == 0;
  return *all ? mask : 0;
}
// Each thread runs alone until it waits, so no other is active with it.
inline unsigned __activemask() { return 1u << cuda_host::lane(); }

template <class T> T __reduce_add_sync(unsigned mask, T value) {
  return cuda_host::reduce("__reduce_add_sync", mask, value, [](T x, T y) { return cuda_host::plus(x, y); });
}
template <class T> T __reduce_min_sync(unsigned mask, T value) {
  return cuda_host::reduce("__reduce_min_sync", mask, value, [](T x, T y) { return y < x ? y : x; });
}
template <class T> T __reduce_max_sync(unsigned mask, T value) {
  return cuda_host::reduce("__reduce_max_sync", mask, value, [](T x, T y) { return x < y ? y : x; });
}
template <class T> T __reduce_and_sync(unsigned mask, T value) {
  return cuda_host::reduce("__reduce_and_sync", mask, value, [](T x, T y) { return x & y; });
}
template <class T> T __reduce_or_sync(unsigned mask, T value) {
  return cuda_host::reduce("__reduce_or_sync", mask, value, [](T x, T y) { return x | y; });
}
template <class T> T __reduce_xor_sync(unsigned mask, T value) {
  return cuda_host::reduce("__reduce_xor_sync", mask, value, [](T x, T y) { return x ^ y; });
}
