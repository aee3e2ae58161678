// Copies of tiles to shared memory that go on while the block does something else.
//
// A copy is begun by all threads of a block. It is there when all have waited for it, which ends with a barrier. Until
// then nobody touches either end.
#pragma once

#include "tile_ptx.cuh"
#include "tile_types.cuh"

namespace jw::tile {

// Rows of BYTES bytes in pieces of WIDTH, at multiples of which each row begins; what is left of a row right away.
template <int WIDTH, int ROWS, int BYTES, int NT>
JW_INLINE void copy_pieces(char* to, int to_step, const char* from, long long from_step) {
  constexpr int pieces = BYTES / WIDTH, rest = BYTES % WIDTH;
  constexpr int apart = pieces > 0 ? NT / pieces : 0;  // the rows that all threads have at a time
  if constexpr (apart > 0 && apart * pieces == NT && ROWS % apart == 0) {
    const int row = int(threadIdx.x) / pieces, offset = int(threadIdx.x) % pieces * WIDTH;
    char* target = to + row * to_step + offset;
    const char* source = from + row * from_step + offset;
    const long long step = apart * from_step;
#pragma unroll(WIDTH == 16 ? 16 : 1)
    for (int k = 0; k < ROWS / apart; ++k) {
      ptx::copy_async<WIDTH>(target + k * apart * to_step, source);
      source += step;
    }
  } else if constexpr (pieces > 0) {
#pragma unroll(WIDTH == 16 ? 4 : 1)
    for (int at = threadIdx.x; at < ROWS * pieces; at += NT) {
      const int row = at / pieces, offset = at % pieces * WIDTH;
      ptx::copy_async<WIDTH>(to + row * to_step + offset, from + row * from_step + offset);
    }
  }
  if constexpr (rest > 0) {
#pragma unroll 1
    for (int at = threadIdx.x; at < ROWS * rest; at += NT) {
      const int row = at / rest, offset = pieces * WIDTH + at % rest;
      to[row * to_step + offset] = from[row * from_step + offset];
    }
  }
}

template <class T, int ROWS, int COLS, int NT>
JW_INLINE void copy_rows(T* shared, int to_stride, const T* global, long long from_stride) {
  constexpr int size = int(sizeof(T)), bytes = COLS * size;
  const int to_step = ROWS > 1 ? to_stride * size : 0;
  const long long from_step = ROWS > 1 ? from_stride * size : 0;
  const unsigned places = ptx::low_bits(shared) | (unsigned)(unsigned long long)global | to_step | (unsigned)from_step;
  char* to = (char*)shared;
  const char* from = (const char*)global;
  const bool can = ptx::in_shared(shared);
  if (bytes >= 16 && can && places % 16 == 0) {
    copy_pieces<16, ROWS, bytes, NT>(to, to_step, from, from_step);
  } else if (bytes >= 4 && can && places % 4 == 0) {
    copy_pieces<4, ROWS, bytes, NT>(to, to_step, from, from_step);
  } else {
#pragma unroll 1
    for (int at = threadIdx.x; at < ROWS * COLS; at += NT) {
      shared[at / COLS * (long long)to_stride + at % COLS] = global[at / COLS * from_stride + at % COLS];
    }
  }
}

// Begins to copy BYTES bytes from global memory; fastest where both begin at multiples of 16.
template <int BYTES, int NT> JW_INLINE void copy_async(void* shared, const void* global) {
  copy_rows<char, 1, BYTES, NT>((char*)shared, BYTES, (const char*)global, BYTES);
}

// Begins to copy a tile whose rows are `stride` elements apart in global memory and LD in shared memory.
template <class T, int ROWS, int COLS, int NT, int LD = COLS>
JW_INLINE void copy_2d_async(T* shared, const T* global, long long stride) {
  copy_rows<T, ROWS, COLS, NT>(shared, LD, global, stride);
}

// Ends a group of copies; waits for all groups but the NEWEST ones, or for all copies. So a block can fetch one tile
// while it uses another.
JW_INLINE void commit_async() { ptx::copy_commit(); }
template <int NEWEST = 0> JW_INLINE void wait_async() {
  if constexpr (NEWEST == 0) ptx::copy_wait_all();
  else ptx::copy_wait_group<NEWEST>();
  __syncthreads();
}

}  // namespace jw::tile
