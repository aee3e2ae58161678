"""Bad input to sparse matrices is refused by name, and offsets that lie touch nothing of others."""

import numpy as np
import pytest
from sparse_matrices import entries, matrix_of

import jwarp as wp
from jwarp import sparse


def ints(*given):
    return wp.array(list(given), dtype=int)


def floats(*given):
    return wp.array(list(given), dtype=float)


def small(rows=3, columns=2, block=(1, 1)):
    return matrix_of(rows, columns, *entries(np.random.default_rng(0), rows, columns, 6, block))[0]


CASES = [
    (lambda: sparse.bsr_zeros(2, 2, wp.vec3), TypeError, "either warp matrix or scalar"),
    (lambda: sparse.bsr_zeros(2, 2, wp.vec3), ValueError, "either warp matrix or scalar"),
    (lambda: sparse.bsr_zeros(2, 2, wp.quat), TypeError, "either warp matrix or scalar"),
    (lambda: sparse.bsr_zeros(-1, 2, float), wp.LaunchError, "-1 rows"),
    (lambda: sparse.bsr_zeros(2.5, 2, float), wp.LaunchError, "must be an integer"),
    (lambda: sparse.bsr_zeros(2**31, 2, float), wp.LaunchError, "cannot have"),
    (lambda: sparse.bsr_zeros(2, 2, float, topology="round"), wp.LaunchError, "Unsupported topology"),
    (lambda: sparse.bsr_zeros(2, 2, float, row_capacity=-1), wp.LaunchError, "nonnegative"),
    (lambda: sparse.bsr_zeros(2, 2, float, row_capacity=ints(1, 2, 3)), wp.LaunchError, "shape"),
    (lambda: sparse.bsr_zeros(2, 2, float, row_capacity=2**31), wp.LaunchError, "int32"),
    (lambda: sparse.bsr_from_triplets(2, 2, ints(0), ints(0, 1), floats(1.0)), wp.LaunchError, "same length"),
    (lambda: sparse.bsr_from_triplets(2, 2, ints(0), ints(0), floats(1.0, 2.0)), wp.LaunchError, "2 values for 1"),
    (lambda: sparse.bsr_from_triplets(2, 2, floats(0.0), ints(0), floats(1.0)), TypeError, "int32"),
    (lambda: sparse.bsr_from_triplets(2, 2, ints(0), ints(0), [1.0]), TypeError, "values must be"),
    (lambda: sparse.bsr_from_triplets(2, 2, 0, ints(0), floats(1.0)), TypeError, "rows must be"),
    (lambda: sparse.bsr_set_from_triplets(small(), ints(0), ints(0), ints(1)), TypeError, "block type"),
    (lambda: sparse.bsr_set_from_triplets(small(), ints(0), ints(0), floats(1.0), ints(1, 2)), wp.LaunchError, "count"),
    (lambda: sparse.bsr_mv(small(), floats(1.0)), wp.LaunchError, "Incompatible 'x'"),
    (lambda: sparse.bsr_mv(small(), floats(1.0, 2.0), floats(1.0)), wp.LaunchError, "Incompatible 'y'"),
    (lambda: sparse.bsr_mv(small(), ints(1, 2)), TypeError, "Incompatible 'x'"),
    (lambda: sparse.bsr_mv(small(), [1.0, 2.0]), TypeError, "x must be"),
    (lambda: sparse.bsr_mv(7, floats(1.0)), TypeError, "BsrMatrix"),
    (lambda: small() @ small(), wp.LaunchError, "number of rows/columns"),
    (lambda: small() @ small(2, 3, (2, 2)), wp.LaunchError, "block sizes"),
    (lambda: small() @ sparse.bsr_zeros(2, 3, wp.float64), TypeError, "same scalar type"),
    (lambda: sparse.bsr_mm(small(), small(2, 3), nnz_max=-1), wp.LaunchError, "at most"),
    (lambda: sparse.bsr_mm(small(), small(2, 3), reuse_topology=True), wp.LaunchError, "work_arrays"),
    (lambda: sparse.bsr_mm(small(), small(2, 3), topology="masked"), wp.LaunchError, "z must be given"),
    (lambda: small() + small(2, 3), wp.LaunchError, "same number of rows"),
    (lambda: small() + small(3, 2, (2, 2)), TypeError, "same block type"),
    (lambda: small() + 1.0, TypeError, "BsrMatrix"),
    (lambda: sparse.bsr_copy(small(4, 4, (2, 2)), block_shape=(3, 3)), wp.LaunchError, "evenly divide"),
    (lambda: sparse.bsr_copy(small(), block_shape=(0, 1)), wp.LaunchError, "evenly divide"),
    (lambda: sparse.bsr_set_transpose(small(block=(1, 2)), small(block=(1, 2))), wp.LaunchError, "block shape must be"),
    (lambda: sparse.bsr_get_diag(small(), out=ints(1, 2)), TypeError, "out must be"),
    (lambda: sparse.bsr_diag(), wp.LaunchError, "must be given"),
    (lambda: sparse.bsr_set_diag(small(), floats(1.0), 3), wp.LaunchError, "1 blocks, 3 are needed"),
    (lambda: sparse.bsr_identity(2, wp.types.matrix((2, 3), wp.float32)), wp.LaunchError, "not square"),
    (lambda: sparse.bsr_compress(2.0 * small()), TypeError, "concrete"),
    (lambda: small().uncompress_rows(ints(1)), wp.LaunchError, "are needed"),
    (lambda: small().notify_nnz_changed(-5), wp.LaunchError, "not negative"),
    (lambda: setattr(small(), "columns", None), TypeError, "columns must be an array of int32"),
    (lambda: setattr(small(), "offsets", floats(1.0)), TypeError, "offsets must be an array of int32"),
    (lambda: setattr(small(), "row_counts", [1]), TypeError, "row_counts must be an array of int32"),
    (lambda: setattr(small(), "values", [1.0]), TypeError, "values must be an array"),
    (lambda: setattr(small(), "nnz", -1), wp.LaunchError, "cannot be -1"),
    (lambda: setattr(small(), "ncol", 2.5), wp.LaunchError, "must be an integer"),
    (lambda: sparse.bsr_mv(sparse.BsrMatrix(), floats(1.0)), wp.LaunchError, "without arrays"),
    (lambda: wp.optim.linear.preconditioner(small(), "diag"), wp.LaunchError, "no diagonal"),
]


@pytest.mark.parametrize(("call", "error", "text"), CASES)
def test_bad_input_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("seed", range(12))
def test_offsets_and_columns_that_lie_stay_inside(seed):
    rng = np.random.default_rng(seed)
    wild = np.array([-(2**31), -7, -1, 0, 1, 3, 5, 1000, 2**31 - 1], np.int64)

    def lie(A):
        A.offsets = wp.array(rng.choice(wild, A.nrow + 1).astype(np.int32))
        A.columns = wp.array(rng.choice(wild, A.columns.size).astype(np.int32))
        if seed % 2:
            A.row_counts = wp.array(rng.choice(wild, A.nrow).astype(np.int32))
        return A

    A, B = lie(small(4, 4)), small(4, 4)
    if seed % 3 == 0:
        A.values = A.values[:1]  # of fewer blocks than there are columns
    x = wp.ones(4, dtype=float)
    sparse.bsr_mv(A, x)
    sparse.bsr_mv(A, x, transpose=True)
    sparse.bsr_mm(A, B, small(4, 4), topology="masked")
    sparse.bsr_mm(B, A, sparse.bsr_zeros(4, 4, float, row_capacity=4), topology="padded")
    sparse.bsr_mm(B, B, lie(small(4, 4)), topology="masked")
    sparse.bsr_mm(B, A)
    sparse.bsr_get_diag(A)
    A.uncompress_rows()
    for call in (sparse.bsr_transposed, lambda A: sparse.bsr_axpy(A, B), sparse.bsr_copy, sparse.bsr_compress):
        try:
            call(A)
        except wp.LaunchError:  # which is for values that are too few
            assert seed % 3 == 0


FALLING = [[0, 2**31 - 1, -2, 6], [0, 10**9, -(2**31) + 10, 6], [0, 5, 3, 6], [0, 2, -(2**31), 6]]


@pytest.mark.parametrize("offsets", FALLING)
def test_padded_rows_that_fall_have_no_room(offsets):
    A = sparse.bsr_diag(floats(1.0, 2.0, 3.0))
    for call in (sparse.bsr_mm, lambda A, _, z, topology: sparse.bsr_assign(z, A, topology=topology)):
        z = sparse.bsr_zeros(3, 3, float, row_capacity=2)
        z.offsets = wp.array(np.array(offsets, np.int32))
        call(A, A, z, topology="padded")
        assert z.row_counts.numpy()[1] == 0
        assert z.status_sync() == sparse.BSR_STATUS_ROW_CAPACITY_EXCEEDED


def short_of_rows(name):
    A = small(4, 4)
    A.row_counts = wp.zeros(4, dtype=int)
    setattr(A, name, wp.zeros(2, dtype=int))
    return A


@pytest.mark.parametrize("name", ["offsets", "row_counts"])
def test_arrays_that_lack_rows_are_refused(name):
    x = wp.ones(4, dtype=float)
    for call in (
        lambda A: sparse.bsr_mv(A, x),
        lambda A: sparse.bsr_mv(A, x, transpose=True),
        lambda A: sparse.bsr_mm(A, small(4, 4)),
        lambda A: sparse.bsr_mm(small(4, 4), A),
        lambda A: sparse.bsr_mm(small(4, 4), small(4, 4), A, topology="masked"),
    ):
        with pytest.raises(wp.LaunchError, match=rf"{name} of a matrix of 4 rows"):
            call(short_of_rows(name))


def test_offsets_that_are_too_few_say_no_number_of_blocks():
    A = small(4, 4)
    A.offsets = ints(0, 1)
    with pytest.raises(wp.LaunchError, match="2 offsets for a matrix of 4 rows"):
        A.nnz_sync()


@pytest.mark.parametrize(
    ("offsets", "counts"),
    [((0, 2, 4, 6), (5, 5, 5)), ((0, 2, 4, 6), (1, -3, 2**31 - 1)), ((-(2**31), 2, 2, 6), (-1, -1, -1))],
)
def test_rows_end_where_the_next_one_begins_or_before(offsets, counts):
    """Counts beyond what rows have room for make no rows that overlap, and do not wrap."""
    A = sparse.bsr_zeros(3, 6, float)
    A.offsets, A.row_counts = ints(*offsets), ints(*counts)
    A.columns, A.values = ints(*range(6)), floats(*range(1, 7))
    A.nnz = 6
    wanted = np.zeros((3, 6), np.float32)
    for row in range(3):
        begin = max(offsets[row], 0)
        for block in range(begin, min(begin + max(counts[row], 0), offsets[row + 1])):
            wanted[row, block] = block + 1
    x, y = np.arange(1.0, 7.0, dtype=np.float32), np.arange(1.0, 4.0, dtype=np.float32)
    np.testing.assert_array_equal((A @ wp.array(x)).numpy(), wanted @ x)
    np.testing.assert_array_equal((wp.array(y) @ A).numpy(), y @ wanted)
    np.testing.assert_array_equal((A @ sparse.bsr_identity(6, float) @ wp.array(x)).numpy(), wanted @ x)
    np.testing.assert_array_equal((sparse.bsr_transposed(A) @ wp.array(y)).numpy(), y @ wanted)
    rows = A.uncompress_rows().numpy()
    np.testing.assert_array_equal(rows, [*np.where(wanted.any(0), wanted.argmax(0), -1)])
