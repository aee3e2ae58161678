// Products of tiles by the matrix instructions of warps.
#pragma once

#include "tile_ptx.cuh"
#include "tile_types.cuh"

namespace jw::tile {

// ---- kinds of instructions: their extents, and how a warp reads what they multiply
//
// `rows` points to the first element of A that a warp's instruction multiplies, `columns` to that of B, in tiles with
// rows LD apart; TRANS says that the tile is stored the other way round.

template <class T> struct half_unit {
  static constexpr int m = 16, n = 8, k = 16;
  static constexpr bool loads_matrices = true;
  using A = unsigned[4];
  using B = unsigned[2];
  using C = float[4];

  template <bool TRANS, int LD> JW_INLINE static void load_a(A& x, const T* rows) {
    const int lane = lane_number(), row = lane % 8, down = lane / 8 % 2 * 8, right = lane / 16 * 8;
    ptx::load_matrices<TRANS>(x, rows + (TRANS ? (right + row) * LD + down : (down + row) * LD + right));
  }
  template <bool TRANS, int LD, int COUNT> JW_INLINE static void load_b(B (&x)[COUNT], const T* columns) {
    const int lane = lane_number(), row = lane % 8, down = lane / 8 % 2 * 8, right = lane / 16 * 8;
#pragma unroll
    for (int j = 0; j + 1 < COUNT; j += 2) {
      A both;
      const T* from = columns + j * n * (TRANS ? LD : 1);
      ptx::load_matrices<!TRANS>(both, from + (TRANS ? (right + row) * LD + down : (down + row) * LD + right));
      x[j][0] = both[0];
      x[j][1] = both[1];
      x[j + 1][0] = both[2];
      x[j + 1][1] = both[3];
    }
    if constexpr (COUNT % 2 != 0) {
      const T* from = columns + (COUNT - 1) * n * (TRANS ? LD : 1);
      ptx::load_matrices<!TRANS>(x[COUNT - 1], from + (TRANS ? row * LD + down : (down + row) * LD));
    }
  }
  JW_INLINE static void multiply(C& c, const A& a, const B& b) {
    if constexpr (is_same<T, jw_half>) ptx::mma_f16(c, a, b);
    else ptx::mma_bf16(c, a, b);
  }
};

// Rows of four floats are rows of a matrix of 16-bit elements too, of which a lane gets the two of its float.
struct tf32_unit {
  static constexpr int m = 16, n = 8, k = 8;
  static constexpr bool loads_matrices = true;
  using A = unsigned[4];
  using B = unsigned[2];
  using C = float[4];

  template <int COUNT> JW_INLINE static void round(unsigned (&x)[COUNT]) {
#pragma unroll
    for (int e = 0; e < COUNT; ++e) x[e] = ptx::to_tf32(jw_float(x[e]));
  }
  template <bool TRANS, int LD> JW_INLINE static void load_a(A& x, const float* rows) {
    const int lane = lane_number();
    if constexpr (TRANS) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        x[e] = jw_bitcast<unsigned>(rows[(lane % 4 + e / 2 * 4) * LD + lane / 4 + e % 2 * 8]);
      }
    } else {
      ptx::load_matrices<false>(x, rows + (lane % 8 + lane / 8 % 2 * 8) * LD + lane / 16 * 4);
    }
    round(x);
  }
  template <bool TRANS, int LD, int COUNT> JW_INLINE static void load_b(B (&x)[COUNT], const float* columns) {
    const int lane = lane_number();
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
      const float* from = columns + j * n * (TRANS ? LD : 1);
      if constexpr (TRANS) {
        ptx::load_matrices<false>(x[j], from + lane % 8 * LD + lane / 8 % 2 * 4);
      } else {
        x[j][0] = jw_bitcast<unsigned>(from[lane % 4 * LD + lane / 4]);
        x[j][1] = jw_bitcast<unsigned>(from[(lane % 4 + 4) * LD + lane / 4]);
      }
      round(x[j]);
    }
  }
  JW_INLINE static void multiply(C& c, const A& a, const B& b) { ptx::mma_tf32(c, a, b); }
};

struct double_unit {
  static constexpr int m = 8, n = 8, k = 4;
  static constexpr bool loads_matrices = false;
  using A = double[1];
  using B = double[1];
  using C = double[2];

  template <bool TRANS, int LD> JW_INLINE static void load_a(A& x, const double* rows) {
    const int lane = lane_number(), g = lane / 4, t = lane % 4;
    x[0] = rows[TRANS ? t * LD + g : g * LD + t];
  }
  template <bool TRANS, int LD, int COUNT> JW_INLINE static void load_b(B (&x)[COUNT], const double* columns) {
    const int lane = lane_number(), g = lane / 4, t = lane % 4;
#pragma unroll
    for (int j = 0; j < COUNT; ++j) x[j][0] = columns[TRANS ? (j * n + g) * LD + t : t * LD + j * n + g];
  }
  JW_INLINE static void multiply(C& c, const A& a, const B& b) { ptx::mma_f64(c, a, b); }
};

// The unit for a product of these types that is summed up in S; none is `void`.
template <class TA, class TB, class S, bool TF32>
using unit_for = typename choose<
    is_half<TA> && is_same<TA, TB> && is_same<S, float>, half_unit<TA>,
    typename choose<
        TF32 && is_same<TA, float> && is_same<TB, float> && is_same<S, float>, tf32_unit,
        typename choose<ptx::has_mma_f64 && is_same<TA, double> && is_same<TB, double>, double_unit,
                        void>::type>::type>::type;

// ---- what each warp multiplies, and what of it at a time

struct counts {
  int m, n;
};

// Warps along M and N, of at most `most`, for a product that takes m x n instructions: as many as divide it, and of
// these the ones with the least to read. An instruction's share of A has `ratio` times the rows that of B has columns.
JW_INLINE constexpr counts warp_grid(int m, int n, int most, int ratio) {
  counts best = {1, 1};
  for (int i = 1; i <= most; ++i) {
    for (int j = 1; i * j <= most; ++j) {
      if (m % i != 0 || n % j != 0 || i * j < best.m * best.n) continue;
      if (i * j == best.m * best.n && ratio * (m / i) + n / j >= ratio * (m / best.m) + n / best.n) continue;
      best = {i, j};
    }
  }
  return best;
}

// The part of a warp's m x n instructions whose sums are in registers together.
JW_INLINE constexpr counts warp_part(int m, int n, int most, int ratio) {
  counts best = {1, 1};
  for (int i = 1; i <= m && i <= 8; ++i) {
    for (int j = 1; j <= n && i * j <= most; ++j) {
      if (m % i != 0 || n % j != 0 || i * j < best.m * best.n) continue;
      if (i * j == best.m * best.n && ratio * i + j >= ratio * best.m + best.n) continue;
      best = {i, j};
    }
  }
  return best;
}

JW_INLINE constexpr int divisor_up_to(int n, int most) {
  int found = 1;
  for (int d = 2; d <= most; ++d) found = n % d == 0 ? d : found;
  return found;
}

// Two neighbours of C, read and written together if they begin at a multiple of their width.
template <class T> struct alignas(2 * sizeof(T)) pair { T first, second; };
template <class S, class T> JW_INLINE void put_pair(T* place, S first, S second, bool together) {
  const pair<T> both = {narrow<T>(first), narrow<T>(second)};
  if (together) {
    *(pair<T>*)place = both;
  } else {
    place[0] = both.first;
    place[1] = both.second;
  }
}
template <class S, class T> JW_INLINE void take_pair(S& first, S& second, const T* place, bool together) {
  const pair<T> both = together ? *(const pair<T>*)place : pair<T>{place[0], place[1]};
  first = wide(both.first);
  second = wide(both.second);
}

// The sums of a product M x N: those of the warp, or where that has too many for registers, of a part at (m, n) of it.
// Functions that are called with matrices in shared memory get those of the whole product.
template <class Unit, int M, int N, int NT> struct tensor_sums {
  static constexpr int ratio = Unit::m / Unit::n;
  static constexpr counts grid = warp_grid(M / Unit::m, N / Unit::n, NT / 32, ratio);
  static constexpr counts own = {M / Unit::m / grid.m, N / Unit::n / grid.n};
  // Each has four registers of sums, and a thread of a larger block has less of them.
  static constexpr counts part = warp_part(own.m, own.n, NT <= 256 ? 32 : NT <= 512 ? 16 : 6, ratio);
  static constexpr bool are_all = part.m == own.m && part.n == own.n;
  static constexpr int values = Unit::m * Unit::n / 32;

  typename Unit::C sums[part.m][part.n];

  JW_INLINE static bool has_warp() { return warp_number() < grid.m * grid.n; }
  JW_INLINE static int first_m() { return warp_number() / grid.n * own.m * Unit::m; }
  JW_INLINE static int first_n() { return warp_number() % grid.n * own.n * Unit::n; }

  JW_INLINE void clear() {
#pragma unroll
    for (int i = 0; i < part.m; ++i) {
#pragma unroll
      for (int j = 0; j < part.n; ++j) {
#pragma unroll
        for (int e = 0; e < values; ++e) sums[i][j][e] = 0;
      }
    }
  }

  // Adds op(A) op(B), where op(A) has K columns.
  template <int K, bool TRANSA, bool TRANSB, int LDA, int LDB, class T>
  JW_INLINE void add(const T* a, const T* b, int m = first_m(), int n = first_n()) {
    constexpr int unrolled = divisor_up_to(K / Unit::k, least(8, parts(128, part.m * part.n)));
    if (!has_warp()) return;
#pragma unroll unrolled
    for (int k = 0; k < K; k += Unit::k) {
      typename Unit::A rows[part.m];
      typename Unit::B columns[part.n];
#pragma unroll
      for (int i = 0; i < part.m; ++i) {
        const int row = m + i * Unit::m;
        Unit::template load_a<TRANSA, LDA>(rows[i], a + (TRANSA ? k * LDA + row : row * LDA + k));
      }
      Unit::template load_b<TRANSB, LDB>(columns, b + (TRANSB ? n * LDB + k : k * LDB + n));
#pragma unroll
      for (int i = 0; i < part.m; ++i) {
#pragma unroll
        for (int j = 0; j < part.n; ++j) Unit::multiply(sums[i][j], rows[i], columns[j]);
      }
    }
  }

  // Puts the sums to C, or takes them from it: neighbours are read and written together if that is possible.
  template <int LDC, bool PUT, class TC> JW_INLINE void move(TC* c, int m, int n) {
    if (!has_warp()) return;
    // Of shared memory the compiler knows where it begins.
    const bool together = LDC % 2 == 0 && (ptx::low_bits(c) & (2 * sizeof(TC) - 1)) == 0;
    const int lane = lane_number(), g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < part.m; ++i) {
#pragma unroll
      for (int j = 0; j < part.n; ++j) {
#pragma unroll
        for (int e = 0; e < values; e += 2) {
          const int row = m + i * Unit::m + g + e / 2 * 8, column = n + j * Unit::n + 2 * t;
          TC* const place = c + row * LDC + column;
          if constexpr (PUT) put_pair(place, sums[i][j][e], sums[i][j][e + 1], together);
          else take_pair(sums[i][j][e], sums[i][j][e + 1], place, together);
        }
      }
    }
  }

  template <int LDC, class TC> JW_INLINE void put(TC* c, int m = first_m(), int n = first_n()) {
    move<LDC, true>(c, m, n);
  }
  template <int LDC, class TC> JW_INLINE void take(TC* c, int m = first_m(), int n = first_n()) {
    move<LDC, false>(c, m, n);
  }
};

template <class Unit, class TA, class TC, int M, int N, int K, bool TRANSA, bool TRANSB, bool ACC, int NT, int LDA,
          int LDB, int LDC>
JW_INLINE void tensor_gemm(const TA* a, const TA* b, TC* c) {
  using Sums = tensor_sums<Unit, M, N, NT>;
#pragma unroll 1
  for (int i = 0; i < Sums::own.m; i += Sums::part.m) {
#pragma unroll 1
    for (int j = 0; j < Sums::own.n; j += Sums::part.n) {
      const int m = Sums::first_m() + i * Unit::m, n = Sums::first_n() + j * Unit::n;
      Sums sums;
      if (ACC) sums.template take<LDC>(c, m, n);
      else sums.clear();
      sums.template add<K, TRANSA, TRANSB, LDA, LDB>(a, b, m, n);
      sums.template put<LDC>(c, m, n);
    }
  }
}

// True if the instructions cover a product of these extents, and rows begin where they can be read.
template <class Unit, class T, int M, int N, int K, int NT, int LDA, int LDB> JW_INLINE constexpr bool covers() {
  if constexpr (is_same<Unit, void>) return false;
  else {
    const bool rows = !Unit::loads_matrices || (LDA * sizeof(T) % 16 == 0 && LDB * sizeof(T) % 16 == 0);
    return NT >= 32 && M % Unit::m == 0 && N % Unit::n == 0 && K % Unit::k == 0 && rows;
  }
}

}  // namespace jw::tile
