"""Copies, sums and transposes of matrices with sorted rows: what SciPy has, and what the general ways have."""

import numpy as np
import pytest
from sparse_matrices import dense, entries, matrix_of

import jwarp as wp
from jwarp.sparse import bsr_axpy, bsr_copy, bsr_from_triplets, bsr_transposed, bsr_zeros
from jwarp.sparse.sorted_rows import add_sorted, are_sorted, copy_sorted, transpose_sorted

BLOCKS = [(1, 1), (2, 3)]


def matrices(seed, block=(1, 1), dtype=np.float64):
    """Two matrices of one size, some of whose rows are empty, as dense ones too."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(2):
        rows, columns, values = entries(rng, 23, 31, 140, block, dtype)
        A, _ = matrix_of(23, 31, rows // 2, columns, values)
        A.nnz_sync()
        made.append(A)
    return made


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("seed", range(3))
def test_results(seed, block, dtype):
    A, B = matrices(seed, block, dtype)
    a, b = dense(A), dense(B)
    assert are_sorted(A, B) and np.abs(a).max() > 0.1
    tolerance = {"rtol": 1e-6 if dtype is np.float32 else 1e-14, "atol": 1e-6 if dtype is np.float32 else 1e-14}
    for general in (False, True):
        copied, total = bsr_copy(A * 3.0), bsr_copy(B)
        for each in (A, total):
            each.values.requires_grad = general  # which chooses the general way
        bsr_axpy(A, total, 2.0, -0.5)
        turned = bsr_transposed(A * 1.5)
        assert are_sorted(total) != general
        np.testing.assert_allclose(dense(copied), 3.0 * a, **tolerance)
        np.testing.assert_allclose(dense(total), 2.0 * a - 0.5 * b, **tolerance)
        np.testing.assert_allclose(dense(turned), 1.5 * a.T, **tolerance)
        for made in (copied, total, turned):
            made.values.requires_grad = False
            assert are_sorted(made) and made.row_counts is None
            made.nnz_sync()
        blocks = np.abs(a).reshape(23, block[0], 31, block[1]).sum((1, 3)) + 0.0
        assert turned.nnz == copied.nnz == A.nnz >= np.count_nonzero(blocks)
        assert max(A.nnz, B.nnz) <= total.nnz <= A.nnz + B.nnz


def test_they_are_chosen():
    A, B = matrices(5)
    wanted = dense(A) + dense(B)
    assert add_sorted(B, A, 1.0, 1.0)
    np.testing.assert_allclose(dense(B), wanted, rtol=1e-14)
    turned = bsr_zeros(31, 23, wp.float64)
    assert transpose_sorted(turned, A, 1.0) and copy_sorted(bsr_zeros(23, 31, wp.float64), A, 1.0, False)
    narrow = bsr_copy(A, scalar_type=wp.float32)
    assert narrow.scalar_type is wp.float32
    np.testing.assert_allclose(dense(narrow), dense(A), rtol=1e-6)


def changed(**arrays):
    A, _ = matrices(6)
    for name, change in arrays.items():
        old = getattr(A, name).numpy()
        setattr(A, name, wp.array(change(old.copy()), dtype=getattr(A, name).dtype))
    return A


def first_swapped(x):
    x[[0, 1]] = x[[1, 0]]
    return x


def with_first(value):
    def change(x):
        x[0] = value
        return x

    return change


@pytest.mark.parametrize(
    "arrays",
    [
        {"columns": first_swapped},
        {"columns": with_first(-1)},
        {"columns": lambda x: np.where(np.arange(x.size) == 1, x[0], x)},  # one twice
        {"columns": lambda x: x + 31},
        {"offsets": with_first(1)},
        {"offsets": lambda x: np.where(np.arange(x.size) == 4, 1000, x)},
        {"columns": lambda x: x[:5]},
        {"values": lambda x: x[:5]},
    ],
    ids=range(8),
)
def test_other_matrices_are_not_taken_for_sorted(arrays):
    A = changed(**arrays)
    assert not are_sorted(A)
    assert not copy_sorted(bsr_zeros(23, 31, wp.float64), A, 1.0, False)


def test_matrices_with_room_to_spare_and_empty_ones():
    A, _ = matrices(7)
    roomy = bsr_copy(A, topology="padded")
    assert are_sorted(roomy) and not copy_sorted(bsr_zeros(23, 31, wp.float64), roomy, 1.0, False)
    np.testing.assert_allclose(dense(bsr_transposed(roomy)), dense(A).T, rtol=1e-14)
    np.testing.assert_allclose(dense(bsr_axpy(roomy, bsr_copy(A))), 2.0 * dense(A), rtol=1e-14)
    nothing = bsr_zeros(4, 3, float)
    assert bsr_transposed(nothing).shape == (3, 4) and bsr_copy(nothing).nnz == 0


def test_columns_of_many_rows_keep_their_order():
    """Workers count a part of the rows each."""
    count = 1000
    rows = np.arange(count, dtype=np.int32)
    A = bsr_from_triplets(count, 2, wp.array(rows), wp.array(rows % 2), wp.array(rows + 1.0, dtype=float))
    turned = bsr_transposed(A)
    np.testing.assert_array_equal(turned.columns.numpy()[:count], np.concatenate([rows[::2], rows[1::2]]))
    np.testing.assert_array_equal(turned.values.numpy()[:count], turned.columns.numpy()[:count] + 1.0)
