"""Sparse matrices of random sizes and shapes of blocks, compared with those of SciPy and NumPy."""

import numpy as np
import pytest
from sparse_matrices import dense, dense_of, entries, matrix_of

import jwarp as wp
from jwarp.sparse import (
    bsr_assign,
    bsr_axpy,
    bsr_compress,
    bsr_copy,
    bsr_diag,
    bsr_from_triplets,
    bsr_get_diag,
    bsr_identity,
    bsr_mm,
    bsr_mm_work_arrays,
    bsr_mv,
    bsr_scale,
    bsr_set_diag,
    bsr_set_from_triplets,
    bsr_set_transpose,
    bsr_set_zero,
    bsr_transposed,
    bsr_zeros,
)  # fmt: skip

SHAPES = [(1, 1), (2, 3), (3, 3), (1, 4), (5, 2)]
TYPES = {np.float32: 1e-5, np.float64: 1e-13}


def close(found, wanted, dtype):
    scale = max(1.0, np.abs(wanted).max(initial=0.0))
    np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=10 * TYPES[dtype])


def sizes(seed):
    rng = np.random.default_rng(seed)
    nrow, ncol = (int(each) for each in rng.integers(1, 40, 2))
    return rng, nrow, ncol, int(rng.integers(1, 300))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("seed", range(6))
def test_assembly_sums_sorts_and_prunes(seed, dtype):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    rng, nrow, ncol, count = sizes(seed)
    rows, columns, values = entries(rng, nrow, ncol, count, dtype=dtype)
    A, _ = matrix_of(nrow, ncol, rows, columns, values)
    kept = values[:, 0, 0] != 0.0
    wanted = scipy_sparse.coo_matrix((values[kept, 0, 0], (rows[kept], columns[kept])), (nrow, ncol)).tocsr()
    wanted.sum_duplicates()
    assert A.nnz == count and A.nnz_sync() == wanted.nnz
    np.testing.assert_array_equal(A.offsets.numpy(), wanted.indptr)
    np.testing.assert_array_equal(A.columns.numpy()[: A.nnz], wanted.indices)
    np.testing.assert_allclose(A.values.numpy()[: A.nnz], wanted.data, rtol=1e-4 if dtype is np.float32 else 1e-12)
    np.testing.assert_array_equal(A.uncompress_rows().numpy(), wanted.tocoo().row)


def test_a_row_of_many_entries_is_merged():
    rng = np.random.default_rng(1)
    rows, columns, values = (
        np.zeros(5000, np.int32),
        rng.integers(0, 300, 5000).astype(np.int32),
        rng.random((5000, 1, 1)),
    )
    A, _ = matrix_of(3, 300, rows, columns, values)
    assert A.nnz_sync() == 300
    np.testing.assert_array_equal(A.columns.numpy()[:300], np.arange(300))
    close(dense(A), dense_of(3, 300, rows, columns, values), np.float64)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("block", SHAPES)
def test_products(block, dtype):
    rng, nrow, ncol, count = sizes(block[0] * 7 + block[1])
    given = entries(rng, nrow, ncol, count, block, dtype)
    A, _ = matrix_of(nrow, ncol, *given)
    wanted = dense_of(nrow, ncol, *given)
    x, y = rng.standard_normal(A.shape[1]).astype(dtype), rng.standard_normal(A.shape[0]).astype(dtype)
    kind = A.scalar_type
    close((A @ wp.array(x, dtype=kind)).numpy().ravel(), wanted @ x, dtype)
    close((wp.array(y, dtype=kind) @ (2.0 * A)).numpy().ravel(), 2.0 * y @ wanted, dtype)
    z = wp.array(y, dtype=kind)
    assert bsr_mv(A, wp.array(x, dtype=kind), z, alpha=0.5, beta=-2.0) is z
    close(z.numpy(), 0.5 * wanted @ x - 2.0 * y, dtype)
    bsr_mv(A, wp.array(y, dtype=kind), z := wp.array(x, dtype=kind), alpha=3.0, beta=0.5, transpose=True)
    close(z.numpy(), 3.0 * y @ wanted + 0.5 * x, dtype)

    inner = entries(rng, ncol, 17, count, block[::-1], dtype)
    B, _ = matrix_of(ncol, 17, *inner)
    right = dense_of(ncol, 17, *inner)
    C = A @ B
    assert C.nnz == C.nnz_sync()
    close(dense(C), wanted @ right, dtype)
    third = entries(rng, nrow, 17, 40, (block[0], block[0]), dtype)
    D, _ = matrix_of(nrow, 17, *third)
    close(dense(bsr_mm(A, B, D, alpha=2.0, beta=-1.0)), 2.0 * wanted @ right - dense_of(nrow, 17, *third), dtype)
    mask, _ = matrix_of(nrow, 17, *third, prune_numerical_zeros=False)
    has = np.abs(dense_of(nrow, 17, *third[:2], np.ones((40, block[0], block[0])))) > 0
    close(dense(bsr_mm(A, B, mask, topology="masked")), has * (wanted @ right), dtype)
    roomy = bsr_zeros(nrow, 17, C.dtype, row_capacity=17)
    close(dense(bsr_mm(A, B, roomy, topology="padded")), wanted @ right, dtype)
    assert roomy.status_sync() == wp.sparse.BSR_STATUS_SUCCESS and roomy.status_message() == "success"


def test_a_product_of_what_is_changed():
    rng = np.random.default_rng(2)
    given = entries(rng, 9, 9, 30, (2, 2), np.float64)
    A, _ = matrix_of(9, 9, *given)
    wanted = dense_of(9, 9, *given)
    A @= A
    close(dense(A), wanted @ wanted, np.float64)
    bsr_mm(A, A, A, alpha=0.5, beta=3.0)
    close(dense(A), 0.5 * np.linalg.matrix_power(wanted, 4) + 3.0 * wanted @ wanted, np.float64)


def test_the_blocks_of_a_product_are_used_again():
    rng = np.random.default_rng(3)
    given = entries(rng, 12, 12, 50, dtype=np.float64)
    A, _ = matrix_of(12, 12, *given, prune_numerical_zeros=False)
    work = bsr_mm_work_arrays()
    C = bsr_mm(A, A, work_arrays=work)
    A.values.fill_(2.0)
    D = bsr_mm(A, A, bsr_zeros(12, 12, wp.float64), work_arrays=work, reuse_topology=True)
    np.testing.assert_array_equal(C.columns.numpy(), D.columns.numpy()[: C.nnz])
    close(dense(D), dense(A) @ dense(A), np.float64)


@pytest.mark.parametrize("block", SHAPES)
@pytest.mark.parametrize("topology", ["compact", "padded", "masked"])
def test_sums(block, topology):
    rng, nrow, ncol, count = sizes(block[0] + 5 * block[1])
    one, two = (entries(rng, nrow, ncol, count, block, np.float64) for _ in range(2))
    (A, _), (B, _) = (matrix_of(nrow, ncol, *each, prune_numerical_zeros=False) for each in (one, two))
    wanted = 2.0 * dense(A) - 0.5 * dense(B)
    if topology == "padded":
        roomy = bsr_zeros(nrow, ncol, B.dtype, row_capacity=ncol)
        bsr_assign(roomy, B, topology="padded")
        B = roomy
    if topology == "masked":
        wanted *= np.kron(dense_of(nrow, ncol, *two[:2], np.ones((count, 1, 1))) > 0, np.ones(block))
    assert bsr_axpy(A, B, 2.0, -0.5, topology=topology) is B
    close(dense(B), wanted, np.float64)
    if topology != "compact":
        return
    close(dense(A + B), dense(A) + dense(B), np.float64)
    close(dense(2.0 * A - B / 4.0), 2.0 * dense(A) - dense(B) / 4.0, np.float64)
    close(dense(-A - 3.0 * B), -dense(A) - 3.0 * dense(B), np.float64)
    close(dense(bsr_axpy(3.0 * A)), 3.0 * dense(A), np.float64)
    close(dense(bsr_axpy(A, A, 2.0, 0.5)), 2.5 * dense_of(nrow, ncol, *one), np.float64)


@pytest.mark.parametrize("block", SHAPES)
def test_transposes(block):
    rng, nrow, ncol, count = sizes(3 * block[0] + block[1])
    given = entries(rng, nrow, ncol, count, block)
    A, _ = matrix_of(nrow, ncol, *given)
    wanted = dense(A).T
    found = bsr_transposed(A)
    np.testing.assert_array_equal(dense(found), wanted)
    np.testing.assert_array_equal(dense((2.0 * A).transpose().eval()), 2.0 * wanted)
    mask = bsr_copy(found, structure_only=True)
    bsr_set_transpose(mask, A, topology="masked")
    np.testing.assert_array_equal(dense(mask), wanted)
    roomy = bsr_zeros(ncol, nrow, found.dtype, row_capacity=nrow)
    bsr_set_transpose(roomy, A, topology="padded")
    np.testing.assert_array_equal(dense(roomy), wanted)


@pytest.mark.parametrize(("old", "new"), [((4, 2), (2, 2)), ((4, 2), (1, 1)), ((2, 2), (4, 6)), ((6, 1), (2, 3))])
def test_blocks_of_another_shape(old, new):
    rng = np.random.default_rng(4)
    given = entries(rng, 12, 18, 60, old, np.float64)
    A, _ = matrix_of(12, 18, *given)
    for topology in ("compact", "padded"):
        B = bsr_copy(3.0 * A, block_shape=new, topology=topology)
        assert tuple(B.block_shape) == new and B.shape == A.shape
        close(dense(B), 3.0 * dense(A), np.float64)
    assert bsr_copy(A, scalar_type=wp.float32).scalar_type is wp.float32


@pytest.mark.parametrize("topology", ["compact", "padded"])
def test_compression_takes_rows_in_any_order(topology):
    A = bsr_zeros(2, 3, float, row_capacity=4)
    A.row_counts = wp.array([4, 3], dtype=int)
    A.columns = wp.array([2, 0, 2, 7, 1, 1, -1, 0], dtype=int)
    A.values = wp.array([5.0, 2.0, -1.0, 9.0, 4.0, -4.0, 8.0, 6.0], dtype=float)
    bsr_compress(A, topology=topology)
    np.testing.assert_array_equal(dense(A), [[2.0, 0.0, 4.0], [0.0, 0.0, 0.0]])
    assert (A.row_counts is None) == (topology == "compact")


def test_diagonals():
    rng = np.random.default_rng(5)
    given = entries(rng, 7, 9, 80, (2, 2), np.float64)
    A, _ = matrix_of(7, 9, *given)
    wanted = np.stack([dense(A)[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] for i in range(7)])
    np.testing.assert_array_equal(bsr_get_diag(3.0 * A).numpy(), 3.0 * wanted)
    D = bsr_diag(bsr_get_diag(A))
    np.testing.assert_array_equal(bsr_get_diag(D).numpy(), wanted)
    np.testing.assert_array_equal(dense(bsr_identity(3, wp.mat22d)), np.eye(6))
    bsr_set_diag(D, None, 4)
    assert (D.nrow, D.ncol, D.nnz) == (4, 4, 4)
    bsr_scale(D, 0.0)
    np.testing.assert_array_equal(dense(D), np.zeros((8, 8)))
    bsr_set_zero(D, 2, 3)
    assert (D.nrow, D.ncol, D.nnz_sync()) == (2, 3, 0)


def test_a_row_without_room_says_so():
    small = bsr_zeros(2, 3, float, row_capacity=1)
    numbers = [wp.array(each, dtype=int) for each in ([0, 0, 1], [0, 2, 1])]
    bsr_set_from_triplets(small, *numbers, wp.array([1.0, 2.0, 3.0], dtype=float), topology="padded")
    assert small.status_sync() == wp.sparse.BSR_STATUS_ROW_CAPACITY_EXCEEDED
    assert "room" in small.status_message()
    small.clear_status()
    assert small.status_sync() == wp.sparse.BSR_STATUS_SUCCESS


def test_rows_and_blocks_in_kernels():
    @wp.kernel
    def ask(offsets: wp.array[int], columns: wp.array[int], counts: wp.array[int], n: int, out: wp.array2d[int]):
        i, j = wp.tid()
        out[i, j] = wp.sparse.bsr_block_index(i, j, offsets, columns, counts)
        if out[i, j] >= 0:
            wp.expect_eq(wp.sparse.bsr_row_index(offsets, n, out[i, j], counts), i)

    given = entries(np.random.default_rng(6), 8, 6, 20)
    for capacity in (None, 6):
        A = bsr_zeros(8, 6, float, row_capacity=capacity)
        kinds = [wp.array(each, dtype=int) for each in given[:2]]
        bsr_set_from_triplets(A, *kinds, wp.array(given[2], dtype=float), topology="padded" if capacity else None)
        out = wp.zeros((8, 6), dtype=int)
        wp.launch(ask, (8, 6), [A.offsets, A.columns, A.row_counts, 8, out])
        np.testing.assert_array_equal(out.numpy() >= 0, dense_of(8, 6, *given[:2], (given[2] != 0).astype(int)) > 0)


def test_a_capture_replays_matrices():
    rows, columns = wp.array([0, 1, 1], dtype=int), wp.array([1, 0, 1], dtype=int)
    values = wp.array([1.0, 2.0, 3.0], dtype=float)
    C, x, y = bsr_zeros(2, 2, float), wp.array([1.0, 1.0], dtype=float), wp.zeros(2, dtype=float)
    with wp.ScopedCapture() as capture:
        A = wp.sparse.bsr_from_triplets(2, 2, rows, columns, values)
        bsr_mm(A, A.transpose(), C, max_new_nnz=4)
        bsr_mv(C, x, y)
        with pytest.raises(RuntimeError, match="max_new_nnz"):
            bsr_mm(A, A)
        with pytest.raises(RuntimeError, match="not known before"):
            A.nnz_sync()
    for scale in (1.0, 2.0):
        values.assign(np.array([1.0, 2.0, 3.0], np.float32) * scale)
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(y.numpy(), scale**2 * np.array([4.0, 16.0]))


def test_solvers_take_matrices():
    rng = np.random.default_rng(7)
    rows, columns, values = entries(rng, 20, 20, 60, (2, 2), np.float64)
    A, _ = matrix_of(20, 20, rows, columns, values)
    A = A @ A.transpose() + 5.0 * bsr_identity(20, wp.mat22d)
    b = rng.standard_normal(40)
    for solve in (wp.optim.linear.cg, wp.optim.linear.bicgstab, wp.optim.linear.gmres, wp.optim.linear.cr):
        x = wp.zeros(20, dtype=wp.vec2d)
        given = wp.array(b.reshape(20, 2), dtype=wp.vec2d)
        solve(A, given, x, tol=1e-12, M=wp.optim.linear.preconditioner(A, "diag"))
        np.testing.assert_allclose(dense(A) @ x.numpy().ravel(), b, atol=1e-9)


@pytest.mark.parametrize("zero", [0.0, np.float32(0), np.float64(0), np.int32(0), wp.float32(0)])
def test_what_is_multiplied_by_any_zero_may_hold_anything(zero):
    def diagonal(first):
        numbers = wp.array([0, 1], dtype=int)
        return bsr_from_triplets(2, 2, numbers, numbers, wp.array([first, 1.0], dtype=float))

    x, A, nothing = wp.ones(2, dtype=float), diagonal(2.0), diagonal(np.nan)
    for transpose in (False, True):
        y = wp.array([np.nan, np.nan], dtype=float)
        assert list(bsr_mv(A, x, y, beta=zero, transpose=transpose).numpy()) == [2.0, 1.0]
        assert list(bsr_mv(nothing, x, alpha=zero, transpose=transpose).numpy()) == [0.0, 0.0]
    for made, want in (
        (bsr_scale(bsr_copy(nothing), zero), [0.0, 0.0]),
        (bsr_axpy(A, bsr_copy(nothing), 1.0, zero), [2.0, 1.0]),
        (bsr_mm(A, A, bsr_copy(nothing), beta=zero), [4.0, 1.0]),
        (bsr_mm(nothing, A, bsr_copy(A), alpha=zero, beta=1.0), [2.0, 1.0]),
    ):
        assert list(made.values.numpy()[:2]) == want
