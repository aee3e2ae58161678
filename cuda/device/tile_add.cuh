// Adds tiles to matrices in global memory, to which others may add at the same time.
#pragma once

#include "tile_ptx.cuh"
#include "tile_types.cuh"

namespace jw::tile {

template <class T, int COUNT> struct alignas(sizeof(T) * COUNT) addends { T item[COUNT]; };

template <class T, int COUNT> JW_INLINE void add_some(T* place, const addends<T, COUNT>& x) {
  if constexpr (COUNT == 1) jw_atomic_add(place, x.item[0]);
  else ptx::add_neighbours(place, x.item);
}

// COUNT neighbours at a time.
template <class T, int ROWS, int COLS, int NT, int LD, int COUNT>
JW_INLINE void add_pieces(T* global, const T* shared, long long stride) {
  constexpr int pieces = COLS / COUNT, apart = NT / pieces;
  if constexpr (apart > 0 && apart * pieces == NT && ROWS % apart == 0) {
    // A thread has the same columns of some rows.
    const int row = int(threadIdx.x) / pieces, column = int(threadIdx.x) % pieces * COUNT;
    T* place = global + row * stride + column;
    const T* from = shared + row * LD + column;
#pragma unroll 4
    for (int k = 0; k < ROWS / apart; ++k) {
      add_some(place, *(const addends<T, COUNT>*)(from + k * apart * LD));
      place += apart * stride;
    }
  } else {
#pragma unroll 1
    for (int at = threadIdx.x; at < ROWS * pieces; at += NT) {
      const int row = at / pieces, column = at % pieces * COUNT;
      add_some(global + row * stride + column, *(const addends<T, COUNT>*)(shared + row * LD + column));
    }
  }
}

// Adds a tile, whose rows are LD elements apart in shared memory and `stride` in global memory.
template <class T, int ROWS, int COLS, int NT, int LD = COLS>
JW_INLINE void add_2d(T* global, const T* shared, long long stride) {
  constexpr int most = ptx::most_added<T>;
  constexpr int count = most >= 8 && COLS % 8 == 0 && LD % 8 == 0   ? 8
                        : most >= 4 && COLS % 4 == 0 && LD % 4 == 0 ? 4
                        : most >= 2 && COLS % 2 == 0 && LD % 2 == 0 ? 2 : 1;
  const unsigned places = ptx::low_bits(shared) | (unsigned)(unsigned long long)global |
                          (ROWS > 1 ? (unsigned)stride * (unsigned)sizeof(T) : 0);
  if (count > 1 && places % (count * sizeof(T)) == 0) add_pieces<T, ROWS, COLS, NT, LD, count>(global, shared, stride);
  else add_pieces<T, ROWS, COLS, NT, LD, 1>(global, shared, stride);
}

}  // namespace jw::tile
