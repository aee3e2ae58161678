"""Random sparse matrices, and matrices of `wp.sparse` as dense ones of NumPy."""

from __future__ import annotations

import numpy as np

import jwarp as wp


def entries(rng, nrow, ncol, count, block=(1, 1), dtype=np.float32):
    """Rows, columns and blocks: places repeat, some rows are empty, some blocks are zero, in no order."""
    rows = rng.choice(rng.permutation(nrow)[: max(1, nrow * 2 // 3)], count).astype(np.int32)
    columns = rng.integers(0, ncol, count).astype(np.int32)
    values = rng.standard_normal((count, *block)).astype(dtype)
    values[rng.random(count) < 0.1] = 0.0
    return rows, columns, values


def matrix_of(nrow, ncol, rows, columns, values, requires_grad=False, **named):
    """A matrix of these entries, and the array of their blocks."""
    given = wp.array(values, dtype=wp.dtype_from_numpy(values.dtype), requires_grad=requires_grad)
    kinds = [wp.array(each, dtype=int) for each in (rows, columns)]
    return wp.sparse.bsr_from_triplets(nrow, ncol, *kinds, given, **named), given


def dense_of(nrow, ncol, rows, columns, values):
    """The sum of entries."""
    shape = values.shape[1:]
    made = np.zeros((nrow, ncol, *shape), values.dtype)
    np.add.at(made, (rows, columns), values)
    return made.transpose(0, 2, 1, 3).reshape(nrow * shape[0], ncol * shape[1])


def dense(A):
    """A matrix, whose blocks are where `offsets`, `row_counts` and `columns` say."""
    made = np.zeros((A.nrow, A.ncol, *A.block_shape), A.scalar_values.numpy().dtype)
    offsets, columns, values = A.offsets.numpy(), A.columns.numpy(), A.scalar_values.numpy()
    counts = np.diff(offsets[: A.nrow + 1]) if A.row_counts is None else A.row_counts.numpy()
    for row in range(A.nrow):
        for block in range(offsets[row], offsets[row] + counts[row]):
            made[row, columns[block]] += values[block]
    return made.transpose(0, 2, 1, 3).reshape(A.shape)
