// Cholesky factors of tiles, and solves with triangular ones.
#pragma once

#include "tile_types.cuh"

namespace jw::tile {

JW_INLINE float root(float x) { return sqrtf(x); }
JW_INLINE double root(double x) { return sqrt(x); }

// A thread's place in rows of at most 32 threads; those that do not fill a row have nothing to do.
template <int NT> struct row_place {
  static constexpr int columns = NT < 32 ? NT : 32, rows = NT / columns;
  int row = int(threadIdx.x) / columns, column = int(threadIdx.x) % columns;
};

// The lower factor of a symmetric positive definite N x N tile, in its place. Only the lower triangle is read, and
// zeros are left in the upper one. What is not positive definite gives NaN from the first column on where that shows.
template <class T, int N, int NT> JW_INLINE void cholesky(T* a) {
  const row_place<NT> own;
  // The upper triangle holds each column again as a row, where threads find it side by side.
  for (int i = 1 + int(threadIdx.x); i < N; i += NT) a[i] = a[i * N];
  __syncthreads();
  // Columns stay unscaled until the end, so that there is one barrier for each.
#pragma unroll 1
  for (int k = 0; k + 1 < N; ++k) {
    const T scale = T(1) / root(a[k * N + k]);
    for (int i = k + 1 + own.row; i < N && own.row < own.rows; i += own.rows) {
      const T x = a[k * N + i] * scale;
      for (int j = k + 1 + own.column; j <= i; j += own.columns) {
        const T left = a[i * N + j] - x * (a[k * N + j] * scale);
        a[i * N + j] = left;
        if (j == k + 1 && i > j) a[j * N + i] = left;
      }
    }
    __syncthreads();
  }
  for (int i = own.row; i < N && own.row < own.rows; i += own.rows) {
    for (int j = own.column; j < N; j += own.columns) {
      if (j < i) a[i * N + j] /= root(a[j * N + j]);
      if (j > i) a[i * N + j] = T(0);
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < N; k += NT) a[k * N + k] = root(a[k * N + k]);
  __syncthreads();
}

// Solves op(L) X = B for the N x R tile X, in the place of B. Of L only one triangle is read, the lower one or else the
// upper one; op transposes it if TRANS.
template <class T, int N, int R, bool LOWER, bool TRANS, int NT> JW_INLINE void tri_solve(const T* l, T* b) {
  constexpr bool forward = LOWER != TRANS;
  // Number k of the unknowns, in the order in which they are found; and what the one at i has in the equation of j.
  const auto unknown = [](int k) { return forward ? k : N - 1 - k; };
  const auto factor = [=](int j, int i) { return TRANS ? l[i * N + j] : l[j * N + i]; };
  if constexpr (2 * R >= NT) {
    // Each thread has columns of its own, and no need of others.
    for (int column = threadIdx.x; column < R; column += NT) {
#pragma unroll 1
      for (int k = 0; k < N; ++k) {
        const int row = unknown(k);
        T left = b[row * R + column];
#pragma unroll 4
        for (int m = 0; m < k; ++m) left -= factor(row, unknown(m)) * b[unknown(m) * R + column];
        b[row * R + column] = left / factor(row, row);
      }
    }
  } else {
    // Unknowns stay undivided until the end, so that there is one barrier for each.
#pragma unroll 1
    for (int k = 0; k + 1 < N; ++k) {
      const int found = unknown(k);
      const T pivot = factor(found, found);
      for (int at = (k + 1) * R + threadIdx.x; at < N * R; at += NT) {
        const int row = unknown(at / R), column = at % R;
        b[row * R + column] -= factor(row, found) * (b[found * R + column] / pivot);
      }
      __syncthreads();
    }
    for (int at = threadIdx.x; at < N * R; at += NT) b[at] /= factor(at / R, at / R);
  }
  __syncthreads();
}

}  // namespace jw::tile
