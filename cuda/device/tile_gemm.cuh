// Products of tiles: on tensor cores where types and shapes allow it, else with the sums of each thread in registers.
#pragma once

#include "tile_tensor.cuh"
#include "tile_types.cuh"

namespace jw::tile {

// The type in which products of these types are summed: of halves in float, of integers in the type of the result.
template <class TA, class TB, class TC>
using sum_type = typename choose<
    is_same<TA, double> || is_same<TB, double> || is_same<TC, double>, double,
    typename choose<is_float<TA> || is_float<TB> || is_float<TC>, float, TC>::type>::type;

template <class S> JW_INLINE void add_product(S& sum, S x, S y) {
  if constexpr (is_float<S>) sum += x * y;
  else sum = jw_add(sum, jw_mul(x, y));
}

// ---- neighbours in memory that are read and written together

template <class T, int COUNT> struct alignas(sizeof(T) * COUNT) neighbours { T item[COUNT]; };

// How many of the `extent` elements along an axis go together, if rows are `stride` long.
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

// Neighbours that go together to a thread, of the `sums` that it has of `extent`.
template <class T> JW_INLINE constexpr int group_of(int extent, int sums) {
  int count = together<T>(extent, extent);
  while (sums % count != 0) count /= 2;
  return count;
}

// The share of each of THREADS threads along an axis of the product, and its part of operand T with that axis: groups of
// neighbours, of which a thread has each THREADS-th one. CLOSE says that they are neighbours in memory, too; else
// those along K are.
template <class T, class S, int EXTENT, int THREADS, int MOST, bool CLOSE> struct simt_axis {
  static constexpr int sums = least(parts(EXTENT, THREADS), MOST), part = THREADS * sums;
  static constexpr int group = CLOSE ? group_of<T>(EXTENT, sums) : 1;

  JW_INLINE static int place(int thread, int sum) { return (sum / group * THREADS + thread) * group + sum % group; }
  // Where to read: what is outside is reckoned as the last ones inside.
  JW_INLINE static int inside(int place) { return EXTENT % part == 0 ? place : least(place, EXTENT - group); }

  template <int COUNT> JW_INLINE static void take(S* values, const T* from) {
    const neighbours<T, COUNT> found = *(const neighbours<T, COUNT>*)from;
#pragma unroll
    for (int k = 0; k < COUNT; ++k) values[k] = summand<S>(found.item[k]);
  }

  // For each place STEP elements along K, in pieces of COUNT.
  template <int COUNT, int LD, int STEP>
  JW_INLINE static void read_along(S (&values)[sums][STEP], const T* from, int first, int thread, int k) {
#pragma unroll
    for (int i = 0; i < sums; ++i) {
#pragma unroll
      for (int e = 0; e < STEP; e += COUNT) {
        take<COUNT>(values[i] + e, from + inside(first + place(thread, i)) * LD + k + e);
      }
    }
  }
  // The elements at one place along K.
  template <bool PACKED, int LD>
  JW_INLINE static void read_at(S (&values)[sums], const T* from, int first, int thread, int k) {
    constexpr int count = PACKED && LD % group == 0 ? group : 1;
#pragma unroll
    for (int i = 0; i < sums; i += count) {
      const int at = inside(first + place(thread, i / group * group)) + i % group;
      take<count>(values + i, from + (CLOSE ? k * LD + at : at * LD + k));
    }
  }
};

// The sums of a product M x N: those of the thread, or where it has too many for registers, a part of them.
template <class TA, class TB, class S, int M, int N, bool TRANSA, bool TRANSB, int NT> struct simt_sums {
  static constexpr int columns = thread_columns(M, N, NT), rows = NT / columns;
  // Sums of a thread: what registers hold, of which a thread of a larger block has less.
  static constexpr int room = (NT <= 256 ? 128 : NT <= 512 ? 32 : 16) * 4 / (sizeof(S) < 4 ? 4 : int(sizeof(S)));
  static constexpr int most = room >= 64 ? 8 : room >= 16 ? 4 : 2;
  using Down = simt_axis<TA, S, M, rows, most, TRANSA>;
  using Right = simt_axis<TB, S, N, columns, room / most, !TRANSB>;
  static constexpr bool are_all = Down::part >= M && Right::part >= N;

  S sums[Down::sums][Right::sums];

  JW_INLINE static bool has_thread() { return int(threadIdx.x) / columns < rows; }
  JW_INLINE static int thread_m() { return int(threadIdx.x) / columns; }
  JW_INLINE static int thread_n() { return int(threadIdx.x) % columns; }

  JW_INLINE void clear() {
#pragma unroll
    for (int i = 0; i < Down::sums; ++i) {
#pragma unroll
      for (int j = 0; j < Right::sums; ++j) sums[i][j] = S(0);
    }
  }

  // Adds op(A) op(B), where op(A) has K columns, to the part at (m, n). PACKED says that both begin at multiples of 16.
  template <int K, bool PACKED, int LDA, int LDB>
  JW_INLINE void add(const TA* a, const TB* b, int m = 0, int n = 0) {
    constexpr int a_step = PACKED && !TRANSA ? together<TA>(K, LDA) : 1;
    constexpr int b_step = PACKED && TRANSB ? together<TB>(K, LDB) : 1;
    constexpr int step = a_step > b_step ? a_step : b_step;
    const int row = thread_m(), column = thread_n();
    if (!has_thread()) return;
#pragma unroll(step >= 4 ? 1 : 4)
    for (int k = 0; k < K; k += step) {
      S x[Down::sums][step], y[Right::sums][step], left[Down::sums], right[Right::sums];
      if constexpr (!TRANSA) Down::template read_along<a_step, LDA>(x, a, m, row, k);
      if constexpr (TRANSB) Right::template read_along<b_step, LDB>(y, b, n, column, k);
#pragma unroll
      for (int e = 0; e < step; ++e) {
        if constexpr (TRANSA) Down::template read_at<PACKED, LDA>(left, a, m, row, k + e);
        if constexpr (!TRANSB) Right::template read_at<PACKED, LDB>(right, b, n, column, k + e);
#pragma unroll
        for (int i = 0; i < Down::sums; ++i) {
#pragma unroll
          for (int j = 0; j < Right::sums; ++j) {
            add_product(sums[i][j], TRANSA ? left[i] : x[i][e], TRANSB ? y[j][e] : right[j]);
          }
        }
      }
    }
  }

  // Puts the sums to C, or takes them from it, as far as C has places for them: in groups of neighbours that are read
  // and written together if that is possible.
  template <int LDC, bool PUT, class TC> JW_INLINE void move(TC* c, int m, int n) {
    constexpr int count = LDC % Right::group == 0 ? least(Right::group, 16 / int(sizeof(TC))) : 1;
    if ((ptx::low_bits(c) & (count * sizeof(TC) - 1)) == 0) move_groups<LDC, PUT, count>(c, m, n);
    else move_groups<LDC, PUT, 1>(c, m, n);
  }
  template <int LDC, bool PUT, int COUNT, class TC> JW_INLINE void move_groups(TC* c, int m, int n) {
    if (!has_thread()) return;
#pragma unroll
    for (int i = 0; i < Down::sums; ++i) {
#pragma unroll
      for (int j = 0; j < Right::sums; j += COUNT) {
        const int at_m = m + Down::place(thread_m(), i), at_n = n + Right::place(thread_n(), j);
        if (at_m >= M || at_n >= N) continue;
        auto* const place = (neighbours<TC, COUNT>*)(c + at_m * LDC + at_n);
        if constexpr (PUT) put_some(place, sums[i] + j);
        else take_some(place, sums[i] + j);
      }
    }
  }
  template <class TC, int COUNT> JW_INLINE static void put_some(neighbours<TC, COUNT>* place, const S* from) {
    neighbours<TC, COUNT> some;
#pragma unroll
    for (int e = 0; e < COUNT; ++e) some.item[e] = narrow<TC>(from[e]);
    *place = some;
  }
  template <class TC, int COUNT> JW_INLINE static void take_some(neighbours<TC, COUNT>* place, S* to) {
    const neighbours<TC, COUNT> some = *place;
#pragma unroll
    for (int e = 0; e < COUNT; ++e) to[e] = summand<S>(some.item[e]);
  }
  template <int LDC, class TC> JW_INLINE void put(TC* c, int m = 0, int n = 0) {
    move<LDC, true>(c, m, n);
  }
  template <int LDC, class TC> JW_INLINE void take(TC* c, int m = 0, int n = 0) {
    move<LDC, false>(c, m, n);
  }
};

template <class Sums, int M, int N, int K, bool ACC, bool PACKED, int LDA, int LDB, int LDC, class TA, class TB,
          class TC>
JW_INLINE void simt_gemm(const TA* a, const TB* b, TC* c) {
#pragma unroll 1
  for (int m = 0; m < M; m += Sums::Down::part) {
#pragma unroll 1
    for (int n = 0; n < N; n += Sums::Right::part) {
      Sums sums;
      sums.clear();  // also what is outside
      if (ACC) sums.template take<LDC>(c, m, n);
      sums.template add<K, PACKED, LDA, LDB>(a, b, m, n);
      sums.template put<LDC>(c, m, n);
    }
  }
}

// ---- sums that outlive a product

// The sums of products M x N in registers: C = op(A) op(B) + op(A) op(B) + ..., of which there are as many as fit.
// MATRIX says that matrix instructions cover them all, where the hardware has some: each K is a multiple of theirs, and
// rows begin at multiples of 16 bytes. Rows may have other distances in each. All matrices are in shared memory, and
// begin at multiples of 16.
template <class TA, class TB, class TC, int M, int N, bool TRANSA, bool TRANSB, bool MATRIX, int NT, bool TF32 = false>
struct block_sums {
  using S = sum_type<TA, TB, TC>;
  using Unit = typename choose<MATRIX, unit_for<TA, TB, S, TF32>, void>::type;
  static constexpr bool by_matrices = covers<Unit, TA, M, N, 16, NT, 16, 16>();
  using Sums = typename choose<by_matrices, tensor_sums<Unit, M, N, NT>,
                               simt_sums<TA, TB, S, M, N, TRANSA, TRANSB, NT>>::type;
  static_assert(Sums::are_all, "a thread has too many sums for its registers");
  Sums own;

  JW_INLINE void clear() { own.clear(); }
  // From C, and to C: nobody else uses it before, nor what lies in its place while the sums are in registers.
  template <int LDC> JW_INLINE void take(TC* c) {
    __syncthreads();
    own.clear();
    own.template take<LDC>(c);
    __syncthreads();
  }
  template <int LDC> JW_INLINE void put(TC* c) {
    __syncthreads();
    own.template put<LDC>(c);
    __syncthreads();
  }
  // Adds a product. This has no barrier after it.
  template <int K, int LDA, int LDB> JW_INLINE void add(const TA* a, const TB* b) {
    if constexpr (by_matrices) own.template add<K, TRANSA, TRANSB, LDA, LDB>(a, b);
    else own.template add<K, true, LDA, LDB>(a, b);
  }
};

// ---- a product by itself

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
    if (!unit::loads_matrices || (aligned && ptx::in_shared(a) && ptx::in_shared(b))) {
      tensor_gemm<unit, TA, TC, M, N, K, TRANSA, TRANSB, ACC, NT, LDA, LDB, LDC>(a, b, c);
      __syncthreads();
      return;
    }
  }
  using sums = simt_sums<TA, TB, S, M, N, TRANSA, TRANSB, NT>;
  if (aligned) simt_gemm<sums, M, N, K, ACC, true, LDA, LDB, LDC>(a, b, c);
  else simt_gemm<sums, M, N, K, ACC, false, LDA, LDB, LDC>(a, b, c);
  __syncthreads();
}

}  // namespace jw::tile
