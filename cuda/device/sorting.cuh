// Sorts keys, and values with them; equal keys stay in their order. Chunks are sorted in shared memory, then runs are
// merged: each element finds its place by counting those of the other run that come before it.
#pragma once

#include "arrays.cuh"

namespace jw {

constexpr int chunk_of_keys = 1024;

// Unsigned numbers in the order of keys, which are given as their bits: those from `begin` up to `end` count.
enum class keys_are { not_negative, integers, floats };
template <class K, keys_are kind> struct key_order {
  int begin, end;
  JW_INLINE K operator()(K key) const {
    const K top = K(1) << (jw_bits<K> - 1);
    if (kind == keys_are::integers) key ^= top;
    if (kind == keys_are::floats) key ^= key & top ? ~K(0) : top;
    key >>= begin;
    const int width = end - begin;
    return width < jw_bits<K> ? key & ((K(1) << width) - 1) : key;
  }
};

// Where element `i` of runs of `width` comes when each two are merged.
template <class K, keys_are kind>
JW_INLINE long long merged_place(const K* keys, key_order<K, kind> order, long long i, long long width, long long count) {
  const long long run = i / width, is_second = run & 1, first = jw_min((run ^ 1) * width, count);
  const K own = order(keys[i]);
  long long low = first, high = jw_min(first + width, count);
  while (low < high) {
    const long long middle = (low + high) / 2;
    const K other = order(keys[middle]);
    if (other < own || (is_second && other == own)) low = middle + 1;
    else high = middle;
  }
  return (run - is_second) * width + (i - run * width) + (low - first);
}

// Sorts each chunk of the first `count` elements; they are written from `to` on.
template <class K, class V, keys_are kind>
__global__ void sort_chunks(long long count, long long to, int begin, int end, array<K, 1> keys, array<V, 1> values) {
  __shared__ K own_keys[2][chunk_of_keys];
  __shared__ V own_values[2][chunk_of_keys];
  const key_order<K, kind> order{begin, end};
  const long long first = (long long)blockIdx.x * chunk_of_keys;
  const int length = int(jw_min(count - first, (long long)chunk_of_keys));
  for (int i = threadIdx.x; i < length; i += blockDim.x) {
    own_keys[0][i] = keys[first + i];
    own_values[0][i] = values[first + i];
  }
  __syncthreads();
  int now = 0;
  for (int width = 1; width < length; width *= 2, now ^= 1) {
    for (int i = threadIdx.x; i < length; i += blockDim.x) {
      const long long place = merged_place(own_keys[now], order, i, width, length);
      own_keys[now ^ 1][place] = own_keys[now][i];
      own_values[now ^ 1][place] = own_values[now][i];
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < length; i += blockDim.x) {
    keys[to + first + i] = own_keys[now][i];
    values[to + first + i] = own_values[now][i];
  }
}

// Merges each two runs of the `count` elements from `from` on; they are written from `to` on.
template <class K, class V, keys_are kind>
__global__ void merge_runs(long long count, long long from, long long to, long long width, int begin, int end,
                           array<K, 1> keys, array<V, 1> values) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const long long place = merged_place(keys.data() + from, key_order<K, kind>{begin, end}, i, width, count);
  keys[to + place] = keys[from + i];
  values[to + place] = values[from + i];
}

}  // namespace jw
