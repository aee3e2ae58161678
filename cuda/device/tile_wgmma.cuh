// Products of tiles by warpgroups, four warps each, that read both factors from shared memory: of sm_90a alone.
//
// The generated text brings `multiply_group` for the extents that it has.
#pragma once

#include "tile_copy.cuh"
#include "tile_tensor.cuh"

namespace jw::ptx {

// Adds a product of 64 x 16 by 16 x N elements, which descriptors say the places of; TURN says that rows go along K for
// a, and along N for b, to the sums of the thread. It goes on after this, until it is waited for.
template <class T, int N, bool TURN_A, bool TURN_B>
JW_INLINE void multiply_group(float (&c)[N / 2], unsigned long long a, unsigned long long b);

// Before products: what the thread did to their registers. After them: they are a group. Waits for all groups.
JW_INLINE void group_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
JW_INLINE void group_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
JW_INLINE void group_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// Shows products what the thread has written to shared memory, once there is a barrier after this.
JW_INLINE void show_to_groups() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace jw::ptx

namespace jw::tile {

// ---- tiles as warpgroups read them
//
// A tile is cut into pieces of some columns, `width` bytes each, that lie one after the other. Of the rows of a piece
// the units of 16 bytes trade places, so that those of eight rows are in different banks. It begins at a multiple of
// 1024 bytes.

template <class T> JW_INLINE constexpr int pattern_width(int columns) {
  const int bytes = columns * int(sizeof(T));
  return bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : bytes % 32 == 0 ? 32 : 16;
}

// Where the element of a number is.
template <class T, int ROWS, int COLS, class I> JW_INLINE I swizzled(I number) {
  constexpr int width = pattern_width<T>(COLS) / int(sizeof(T)), unit = 16 / int(sizeof(T));
  const I row = number / COLS, column = number % COLS;
  const I place = column / width * (ROWS * width) + row * width + column % width;
  return place ^ (place / (8 * unit) % (width / unit) * unit);
}

// Begins to copy a tile whose rows are `stride` elements apart in global memory.
template <class T, int ROWS, int COLS, int NT>
JW_INLINE void copy_swizzled_async(T* shared, const T* global, long long stride) {
  constexpr int unit = 16 / int(sizeof(T)), pieces = COLS / unit, apart = NT / pieces;
  constexpr int width = pattern_width<T>(COLS) / int(sizeof(T));
  static_assert(COLS % unit == 0, "rows are units of 16 bytes");
  if (((unsigned)(unsigned long long)global | (unsigned)stride * (unsigned)sizeof(T)) % 16 != 0) {
#pragma unroll 1
    for (int at = threadIdx.x; at < ROWS * COLS; at += NT) {
      shared[swizzled<T, ROWS, COLS>(at)] = global[at / COLS * stride + at % COLS];
    }
  } else if constexpr (apart > 0 && apart * pieces == NT && ROWS % apart == 0 && (apart % 8 == 0 || 8 % apart == 0)) {
    // A thread has the same columns of some rows. The pattern repeats after eight rows.
    constexpr int ways = apart < 8 ? 8 / apart : 1;
    const int row = int(threadIdx.x) / pieces, column = int(threadIdx.x) % pieces * unit;
    T* target[ways];
#pragma unroll
    for (int k = 0; k < ways; ++k) target[k] = shared + swizzled<T, ROWS, COLS>((row + k * apart) * COLS + column);
    const T* source = global + row * stride + column;
    const long long step = apart * stride;
#pragma unroll
    for (int k = 0; k < ROWS / apart; ++k) {
      ptx::copy_async<16>(target[k % ways] + k / ways * ways * apart * width, source);
      source += step;
    }
  } else {
#pragma unroll 4
    for (int at = threadIdx.x; at < ROWS * pieces; at += NT) {
      const int row = at / pieces, column = at % pieces * unit;
      ptx::copy_async<16>(shared + swizzled<T, ROWS, COLS>(row * COLS + column), global + row * stride + column);
    }
  }
}

// Waits for all groups of copies but the NEWEST ones, or for all copies, which warpgroups may multiply then.
template <int NEWEST = 0> JW_INLINE void wait_for_groups() {
  if constexpr (NEWEST == 0) ptx::copy_wait_all();
  else ptx::copy_wait_group<NEWEST>();
  ptx::show_to_groups();
  __syncthreads();
}
// Lets warpgroups multiply what threads have written.
JW_INLINE void show_to_groups() {
  ptx::show_to_groups();
  __syncthreads();
}

// A tile of ROWS x COLS as a factor of products, of which 16 along K go together; TURNED says that rows go along K.
template <class T, int ROWS, int COLS, bool TURNED> struct group_factor {
  static constexpr int width = pattern_width<T>(COLS), panel = ROWS * width;  // bytes
  static constexpr bool is_plain = width == 16;
  static constexpr unsigned long long mode = width == 128 ? 1 : width == 64 ? 2 : width == 32 ? 3 : 0;
  // Bytes from eight rows to the next; along the other axis from a piece to the next. Without a pattern, these are
  // called otherwise where rows go along K.
  static constexpr int rows = 8 * width;
  static constexpr int leading = TURNED && is_plain ? rows : TURNED ? panel : 16;
  static constexpr int stride = TURNED && is_plain ? panel : rows;
  static_assert(TURNED || !is_plain, "a row has 16 elements along K");

  // The descriptor of the part that begins at `first` along M or N, and at K.
  JW_INLINE static unsigned long long descriptor(const T* tile, int first, int k) {
    const int size = int(sizeof(T));
    const int place = TURNED ? first * size / width * panel + k * width
                             : first * width + k * size / width * panel + k * size % width;
    const unsigned begin = ptx::shared_address(tile) + place;
    return (unsigned long long)((begin & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(stride >> 4) << 32 | mode << 62;
  }
};

// The sums of products M x N, as `block_sums`, of which the block's warpgroups have parts: DOWN along M, RIGHT along
// N. A and B are swizzled. What `add` has begun is waited for before anything else is done with the sums, A or B.
template <class T, class TC, int M, int N, bool TRANSA, bool TRANSB, int DOWN, int RIGHT> struct group_sums {
  static constexpr int own_m = M / 64 / DOWN, own_n = N / RIGHT, values = own_n / 2;
  static_assert(own_m * 64 * DOWN == M && own_n * RIGHT == N && own_n % 8 == 0 && own_n <= 256, "no whole products");

  float sums[own_m][values];

  JW_INLINE static int first_m() { return int(threadIdx.x) / 128 / RIGHT * own_m * 64; }
  JW_INLINE static int first_n() { return int(threadIdx.x) / 128 % RIGHT * own_n; }

  JW_INLINE void clear() {
#pragma unroll
    for (int i = 0; i < own_m; ++i) {
#pragma unroll
      for (int e = 0; e < values; ++e) sums[i][e] = 0;
    }
  }

  // Begins to add op(A) op(B), where op(A) has K columns.
  template <int K> JW_INLINE void add(const T* a, const T* b) {
    using A = group_factor<T, TRANSA ? K : M, TRANSA ? M : K, TRANSA>;
    using B = group_factor<T, TRANSB ? N : K, TRANSB ? K : N, !TRANSB>;
    settle();
    ptx::group_begin();
#pragma unroll
    for (int k = 0; k < K; k += 16) {
#pragma unroll
      for (int i = 0; i < own_m; ++i) {
        ptx::multiply_group<T, own_n, TRANSA, !TRANSB>(sums[i], A::descriptor(a, first_m() + i * 64, k),
                                                       B::descriptor(b, first_n(), k));
      }
    }
    ptx::group_end();
  }
  JW_INLINE void wait() {
    ptx::group_wait();
    settle();
  }
  // The compiler does here what it has to do with the registers, and neither earlier nor later.
  JW_INLINE void settle() {
#pragma unroll
    for (int i = 0; i < own_m; ++i) {
#pragma unroll
      for (int e = 0; e < values; ++e) asm volatile("" : "+f"(sums[i][e])::"memory");
    }
  }

  // To C, or from it: neighbours are written and read together if that is possible.
  template <int LDC, bool PUT> JW_INLINE void move(TC* c) {
    const bool together = LDC % 2 == 0 && (ptx::low_bits(c) & (2 * sizeof(TC) - 1)) == 0;
    const int lane = lane_number(), row = first_m() + warp_number() % 4 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < own_m; ++i) {
#pragma unroll
      for (int e = 0; e < values; e += 2) {
        TC* const place = c + (row + i * 64 + e / 2 % 2 * 8) * LDC + first_n() + e / 4 * 8 + 2 * (lane % 4);
        if constexpr (PUT) put_pair(place, sums[i][e], sums[i][e + 1], together);
        else take_pair(sums[i][e], sums[i][e + 1], place, together);
      }
    }
  }
  template <int LDC> JW_INLINE void take(TC* c) {
    __syncthreads();
    move<LDC, false>(c);
    __syncthreads();
  }
  template <int LDC> JW_INLINE void put(TC* c) {
    __syncthreads();
    move<LDC, true>(c);
    __syncthreads();
  }
};

}  // namespace jw::tile
