// Products of tiles: on tensor cores where types and shapes allow it, else with the sums of each thread in registers.
#pragma once

#include "tile_tensor.cuh"
#include "tile_types.cuh"

namespace jw::tile {

// What products of these types are summed up in: of halves in float, of integers in the type of the result.
template <class TA, class TB, class TC>
using sum_type = typename choose<
    is_same<TA, double> || is_same<TB, double> || is_same<TC, double>, double,
    typename choose<is_float<TA> || is_float<TB> || is_float<TC>, float, TC>::type>::type;

template <class S> JW_INLINE void add_product(S& sum, S x, S y) {
  if constexpr (is_float<S>) sum += x * y;
  else sum = jw_add(sum, jw_mul(x, y));
}

// ---- neighbours in memory that are read together

template <class T, int COUNT> struct alignas(sizeof(T) * COUNT) neighbours { T item[COUNT]; };

// How many elements along an axis of `extent` can be read together, if rows are `stride` long.
template <class T> JW_INLINE constexpr int together(int extent, int stride) {
  int count = 16 / int(sizeof(T)) < 4 ? 16 / int(sizeof(T)) : 4;
  while (extent % count != 0 || stride % count != 0) count /= 2;
  return count;
}

// ---- threads that have some elements of the product each

// Threads in rows of 2^k, of which the sums of a thread are as near to a square as can be.
JW_INLINE constexpr int thread_columns(int m, int n, int threads) {
  int best = 1, cost = parts(m, threads) + n;
  for (int columns = 2; columns <= threads; columns *= 2) {
    const int found = parts(m, threads / columns) + parts(n, columns);
    if (found <= cost) {
      cost = found;
      best = columns;
    }
  }
  return best;
}

template <class TA, class TB, class TC, int M, int N, int K, bool TRANSA, bool TRANSB, bool ACC, int NT, int LDA,
          int LDB, int LDC, bool PACKED>
struct simt_gemm {
  using S = sum_type<TA, TB, TC>;
  static constexpr int columns = thread_columns(M, N, NT), rows = NT / columns;
  // Sums of a thread: what registers hold, of which a thread of a larger block has less.
  static constexpr int room = (NT <= 256 ? 64 : NT <= 512 ? 32 : 16) * 4 / (sizeof(S) < 4 ? 4 : int(sizeof(S)));
  static constexpr int m_sums = least(parts(M, rows), room >= 64 ? 8 : room >= 16 ? 4 : 2);
  static constexpr int n_sums = least(parts(N, columns), room / (room >= 64 ? 8 : room >= 16 ? 4 : 2));
  static constexpr int a_step = PACKED && !TRANSA ? together<TA>(K, LDA) : 1;
  static constexpr int b_step = PACKED && TRANSB ? together<TB>(K, LDB) : 1;
  static constexpr int step = a_step > b_step ? a_step : b_step;

  // Of an operand, `step` elements along K.
  template <class T, bool along, int count, int stride>
  JW_INLINE static void take(S (&values)[step], const T* from) {
    if constexpr (along) {
#pragma unroll
      for (int first = 0; first < step; first += count) {
        const neighbours<T, count> found = *(const neighbours<T, count>*)(from + first);
#pragma unroll
        for (int k = 0; k < count; ++k) values[first + k] = summand<S>(found.item[k]);
      }
    } else {
#pragma unroll
      for (int k = 0; k < step; ++k) values[k] = summand<S>(from[k * stride]);
    }
  }

  JW_INLINE static void run(const TA* a, const TB* b, TC* c) {
    const int row = int(threadIdx.x) / columns, column = int(threadIdx.x) % columns;
    if (row >= rows) return;
#pragma unroll 1
    for (int m = row; m < M; m += rows * m_sums) {
#pragma unroll 1
      for (int n = column; n < N; n += columns * n_sums) block(a, b, c, m, n);
    }
  }

  // The sums at m, m + rows … and n, n + columns …: what is outside is reckoned as the last one inside.
  JW_INLINE static void block(const TA* a, const TB* b, TC* c, int m, int n) {
    const TA* a_at[m_sums];
    const TB* b_at[n_sums];
#pragma unroll
    for (int i = 0; i < m_sums; ++i) a_at[i] = a + least(m + i * rows, M - 1) * (TRANSA ? 1 : LDA);
#pragma unroll
    for (int j = 0; j < n_sums; ++j) b_at[j] = b + least(n + j * columns, N - 1) * (TRANSB ? LDB : 1);
    S sums[m_sums][n_sums] = {};
#pragma unroll 2
    for (int k = 0; k < K; k += step) {
      S x[m_sums][step], y[n_sums][step];
#pragma unroll
      for (int i = 0; i < m_sums; ++i) take<TA, !TRANSA, a_step, LDA>(x[i], a_at[i] + k * (TRANSA ? LDA : 1));
#pragma unroll
      for (int j = 0; j < n_sums; ++j) take<TB, TRANSB, b_step, LDB>(y[j], b_at[j] + k * (TRANSB ? 1 : LDB));
#pragma unroll
      for (int e = 0; e < step; ++e) {
#pragma unroll
        for (int i = 0; i < m_sums; ++i) {
#pragma unroll
          for (int j = 0; j < n_sums; ++j) add_product(sums[i][j], x[i][e], y[j][e]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < m_sums; ++i) {
#pragma unroll
      for (int j = 0; j < n_sums; ++j) {
        const int at_m = m + i * rows, at_n = n + j * columns;
        if (at_m < M && at_n < N) put_sum<ACC>(c + at_m * LDC + at_n, sums[i][j]);
      }
    }
  }
};

// ---- the one that is called

// C = op(A) op(B), added to C if ACC: op(A) is M x K and op(B) K x N, of which TRANSA and TRANSB say that they are
// stored the other way round. C is neither A nor B. Sums of halves are floats over all of K, rounded once. With TF32
// floats may be rounded to 11 bits before they are multiplied. Rows are LDA, LDB and LDC elements apart: whoever can
// choose takes 16 bytes more than the row has where that is a multiple of 128, for the sake of shared memory's banks.
template <class TA, class TB, class TC, int M, int N, int K, bool TRANSA, bool TRANSB, bool ACC, int NT,
          bool TF32 = false, int LDA = TRANSA ? M : K, int LDB = TRANSB ? K : N, int LDC = N>
JW_INLINE void gemm(const TA* a, const TB* b, TC* c) {
  static_assert(is_float<TC> || !(is_float<TA> || is_float<TB>), "integers do not hold products of floats");
  using S = sum_type<TA, TB, TC>;
  using unit = unit_for<TA, TB, S, TF32>;
  // Where shared memory begins is known to the compiler, so that it decides these questions itself.
  const bool aligned = ((ptx::low_bits(a) | ptx::low_bits(b)) & 15) == 0;
  if constexpr (covers<unit, TA, M, N, K, NT, LDA, LDB>()) {
    using tensor = tensor_gemm<unit, TA, TC, M, N, K, TRANSA, TRANSB, ACC, NT, LDA, LDB, LDC>;
    if (!unit::loads_matrices || (aligned && ptx::in_shared(a) && ptx::in_shared(b))) {
      tensor::run(a, b, c);
      __syncthreads();
      return;
    }
  }
  using packed = simt_gemm<TA, TB, TC, M, N, K, TRANSA, TRANSB, ACC, NT, LDA, LDB, LDC, true>;
  using single = simt_gemm<TA, TB, TC, M, N, K, TRANSA, TRANSB, ACC, NT, LDA, LDB, LDC, false>;
  if (packed::step == 1 || aligned) packed::run(a, b, c);
  else single::run(a, b, c);
  __syncthreads();
}

}  // namespace jw::tile
