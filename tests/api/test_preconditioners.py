"""Preconditioners of sparse matrices: `FSAI` and a search by NumPy, inverses of blocks, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp

KINDS = ("block_jacobi_direct", "block_jacobi_sequential", "block_jacobi_tile")


def definite(n, seed=0, density=0.35):
    """A sparse matrix that is symmetric and positive definite, whose scales differ."""
    make = np.random.default_rng(seed)
    a = make.normal(size=(n, n))
    a[make.random(a.shape) > density] = 0
    a = a + a.T
    np.fill_diagonal(a, np.abs(a).sum(1) + 0.5)
    scale = np.geomspace(0.05, 20.0, n)
    return a * scale[:, None] * scale


def sparse(a, dtype=wp.float64, block=1):
    rows, columns = np.nonzero(a)
    entries = wp.array(rows, dtype=int), wp.array(columns, dtype=int), wp.array(a[rows, columns], dtype=dtype)
    made = wp.sparse.bsr_from_triplets(*a.shape, *entries)
    return made if block == 1 else wp.sparse.bsr_copy(made, block_shape=(block, block))


def dense(A):
    offsets, columns, values = (each.numpy() for each in (A.offsets, A.columns, A.values))
    made = np.zeros(A.shape)
    for row in range(A.nrow):
        found = slice(offsets[row], offsets[row + 1])
        assert (np.diff(columns[found]) > 0).all()
        made[row, columns[found]] = values[found]
    return made


def factor_of(a, width, step, tolerance):
    """The factor by a search through all columns, with dense solves."""
    d = 1 / np.sqrt(np.diag(a))
    scaled = a * d[:, None] * d
    made = np.zeros_like(a)
    for row in range(len(a)):
        support, z = [row], np.ones(1)
        while len(support) < width:
            residuals = np.abs(scaled[:row, support] @ z)
            residuals[[c for c in support if c < row]] = 0
            best = np.argsort(-residuals, kind="stable")[: min(step, width - len(support))]
            best = [c for c in best if residuals[c] > 0]
            if not best:
                break
            before, support = z[0], support + best
            z = np.linalg.solve(scaled[np.ix_(support, support)], np.eye(len(support))[0])
            if tolerance > 0 and 1 - before / z[0] <= tolerance:
                break
        made[row, support] = z / np.sqrt(z[0]) * d[support]
    return made


@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize(
    ("width", "step", "tolerance"), [(1, 1, 0.0), (5, 1, 0.0), (8, 3, 0.0), (8, 1, 0.05), (24, 4, 0)]
)
def test_factor_is_that_of_a_dense_search(width, step, tolerance, block):
    a = definite(24)
    M = wp.optim.linear.FSAI(sparse(a, block=block), max_row_size=width, max_step_size=step, kap_tolerance=tolerance)
    assert M.truncated_rows == 0
    assert_allclose(dense(M.G), factor_of(a, width, step, tolerance), rtol=1e-10, atol=1e-13)
    assert_array_equal(dense(M.GT), dense(M.G).T)
    if width == 24:
        assert_allclose(dense(M.G).T @ dense(M.G) @ a, np.eye(24), atol=1e-10)


@pytest.mark.parametrize(
    ("dtype", "kept"), [("float64", "float64"), ("float64", "float32"), ("float32", None), ("float16", None)]
)
def test_products_with_the_factors(dtype, kept):
    dtype, kept = getattr(wp, dtype), kept and getattr(wp, kept)
    a, make = definite(18, density=0.2), np.random.default_rng(1)
    a /= np.sqrt(np.diag(a))[:, None] * np.sqrt(np.diag(a))  # so that float16 holds it
    M = wp.optim.linear.FSAI(sparse(a, dtype, 3), factor_dtype=kept)
    assert M.G.scalar_type is (kept or dtype)
    G, tolerance = dense(M.G), {wp.float16: 1e-2, wp.float32: 1e-5, wp.float64: 1e-12}[dtype]
    vectors = wp.types.vector(3, dtype)
    x, y = (wp.array(make.normal(size=(6, 3)), dtype=vectors) for _ in range(2))
    wanted = 0.5 * G.T @ G @ x.numpy().ravel() - 2.0 * y.numpy().ravel()
    M.matvec(x, y, y, 0.5, -2.0)
    assert_allclose(y.numpy().ravel(), wanted, rtol=tolerance, atol=tolerance)
    y.fill_(float("nan"))
    M.matvec(x, y, x, 1.0, 0.0)  # y is not read, and x is both
    assert np.isfinite(x.numpy()).all()


@pytest.mark.parametrize("kind", ["fsai", *KINDS])
def test_solvers_need_fewer_iterations(kind):
    a = definite(60, density=0.06)
    A, b = sparse(a, block=3), wp.array(np.random.default_rng(2).normal(size=60), dtype=wp.float64)
    counts = {}
    for each in ("id", kind):
        x = wp.zeros_like(b)
        M = wp.optim.linear.preconditioner(A, each)
        counts[each], _, _ = wp.optim.linear.cg(A, b, x, tol=1e-10, M=M, check_every=1, maxiter=1000)
        assert_allclose(a @ x.numpy(), b.numpy(), atol=1e-7)
    assert counts[kind] < counts["id"]


def test_columns_of_any_order_and_blocks_that_are_added():
    a = definite(10)
    A = sparse(a)
    made = wp.sparse.bsr_zeros(10, 10, wp.float64)
    offsets = A.offsets.numpy()
    columns, values = A.columns.numpy()[: offsets[-1]], A.values.numpy()[: offsets[-1]]
    order = np.concatenate([np.arange(offsets[r], offsets[r + 1])[::-1].repeat(2) for r in range(10)])
    made.offsets = wp.array(2 * offsets, dtype=int)
    made.columns, made.values = wp.array(columns[order], dtype=int), wp.array(values[order] / 2, dtype=wp.float64)
    made.notify_nnz_changed()
    assert_allclose(dense(wp.optim.linear.FSAI(made).G), dense(wp.optim.linear.FSAI(A).G), rtol=1e-12)


def test_an_update_keeps_columns_and_one_that_fails_keeps_values():
    a, b = definite(20), definite(20) + np.diag(np.arange(20.0))
    A, B = sparse(a), sparse(b)
    M = wp.optim.linear.FSAI(A, reuse_pattern=True)
    pattern = dense(M.G) != 0
    assert M.update(B) is M
    assert M.source is B
    got = dense(M.G)
    for row in range(20):
        support = np.flatnonzero(pattern[row])
        z = np.linalg.solve(b[np.ix_(support, support)], np.eye(len(support))[-1])
        assert_allclose(got[row, support], z / np.sqrt(z[-1]), rtol=1e-10)
    elsewhere = wp.sparse.bsr_copy(B)
    columns = elsewhere.columns.numpy().copy()
    columns[1] = 10**9  # which no place of memory is read for
    elsewhere.columns.assign(columns)
    empty = wp.sparse.bsr_copy(B)
    empty.values.zero_()
    indefinite = sparse(np.where(b == 0, 0, 10.0) - 9.0 * np.eye(20))
    for wrong, message in ((elsewhere, "sparsity"), (empty, "positive diagonals"), (indefinite, "SPD")):
        with pytest.raises(wp.LaunchError, match=message):
            M.update(wrong)
        assert M.source is B
        assert_array_equal(dense(M.G), got)
        assert_array_equal(dense(M.GT), got.T)
    A.values.fill_(float("nan"))
    with pytest.raises(wp.LaunchError, match="positive diagonals"):
        M.update(A)


def test_rows_that_fail_become_diagonal():
    a = np.kron(np.eye(3), [[2.0, 0.5], [0.5, 1.0]])
    M = wp.optim.linear.FSAI(sparse(a), reuse_pattern=True, regularize_refit=True)
    wrong = a.copy()
    wrong[0, 0], wrong[2:4, 2:4] = -1.0, 1.0
    M.update(sparse(wrong))
    assert_array_equal(M.update_status.numpy(), [0, 1, 1, 1])
    got = dense(M.G)
    assert_array_equal(got[0], np.eye(6)[0])
    assert np.isfinite(got).all()
    assert_allclose(
        got[4:].T @ got[4:], np.linalg.inv(a)[:, :] * np.kron([[0, 0, 0], [0, 0, 0], [0, 0, 1]], np.ones((2, 2)))
    )


def test_columns_that_are_found_in_a_capture():
    a = definite(16)
    A = sparse(a)
    values = A.values.numpy().copy()
    A.values.zero_()
    M = wp.optim.linear.FSAI(A, reuse_pattern=True, defer_pattern=True)
    x, y = wp.array(np.arange(16.0), dtype=wp.float64), wp.zeros(16, dtype=wp.float64)
    M.matvec(x, y, y, 1.0, 0.0)
    assert_array_equal(y.numpy(), x.numpy())
    with wp.ScopedCapture(device="cpu") as capture:
        M.update()
        M.matvec(x, y, y, 1.0, 0.0)
    wp.capture_launch(capture.graph)  # with zeros, which are refused
    assert M.pattern_ready.numpy()[0] == 0
    assert M.update_status.numpy()[1] == 16
    assert_array_equal(dense(M.G), np.eye(16))
    for factor in (1.0, 4.0):
        A.values.assign(factor * values)
        wp.capture_launch(capture.graph)
        assert M.pattern_ready.numpy()[0] == 1
        assert_array_equal(M.update_status.numpy(), 0)
        assert_allclose(dense(M.G), factor_of(a, 8, 1, 1e-3) / np.sqrt(factor), rtol=1e-10, atol=1e-13)
        assert_array_equal(dense(M.GT), dense(M.G).T)
        assert_allclose(y.numpy(), dense(M.G).T @ dense(M.G) @ x.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (kind, dtype)
        for kind in KINDS
        for dtype in ("float16", "float32", "float64")
        if (kind, dtype) != ("block_jacobi_tile", "float16")  # which is refused
    ],
)
def test_inverses_of_blocks(kind, dtype):
    make, dtype = np.random.default_rng(5), getattr(wp, dtype)
    blocks = make.normal(size=(6, 4, 4))
    blocks = blocks @ blocks.transpose(0, 2, 1) + 0.5 * np.eye(4)
    if kind == "block_jacobi_direct":
        blocks = make.permutation(blocks, axis=2)
        blocks[1] = [[0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 3], [4, 0, 0, 0]]  # which needs pivots
    kept = np.ones(6, dtype=bool)
    blocks[3], kept[3] = np.ones((4, 4)), False  # which has no inverse
    if kind != "block_jacobi_direct":
        blocks[4], blocks[5, 0, 1] = -blocks[4], blocks[5, 0, 1] + 1.0
        kept[4:] = False
    A = wp.sparse.bsr_diag(wp.array(blocks, dtype=wp.types.matrix((4, 4), dtype)))
    x = wp.array(make.normal(size=24), dtype=dtype)
    z = wp.zeros_like(x)
    wp.optim.linear.preconditioner(A, kind).matvec(x, z, z, alpha=1.0, beta=0.0)
    wanted = x.numpy().astype(float).reshape(6, 4).copy()
    stored = A.values.numpy()[:6].astype(float)
    wanted[kept] = np.linalg.solve(stored[kept], wanted[kept][..., None])[..., 0]
    tolerance = {wp.float16: 3e-2, wp.float32: 1e-4, wp.float64: 1e-12}[dtype]
    assert_allclose(z.numpy().reshape(6, 4), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_one_number_are_the_diagonal(kind):
    A = sparse(definite(7))
    x, z, w = (wp.full(7, 1.0 + i, dtype=wp.float64) for i in range(3))
    wp.optim.linear.preconditioner(A, kind).matvec(x, z, z, alpha=1.0, beta=0.0)
    wp.optim.linear.preconditioner(A, "diag").matvec(x, w, w, alpha=1.0, beta=0.0)
    assert_array_equal(z.numpy(), w.numpy())


@pytest.mark.parametrize("a", [np.zeros((0, 0)), np.diag([2.0])])
def test_smallest_matrices(a):
    M = wp.optim.linear.FSAI(sparse(a), reuse_pattern=True)
    x = wp.ones(len(a), dtype=wp.float64)
    M.update().matvec(x, x, x, 1.0, 1.0)
    assert_allclose(x.numpy(), np.full(len(a), 1.5), rtol=1e-15)


def padded():
    return wp.sparse.bsr_zeros(3, 3, float, row_capacity=2)


def blocks(rows, columns, shape, dtype=float):
    return wp.sparse.bsr_zeros(rows, columns, wp.types.matrix(shape, dtype))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda w: w.FSAI(None), wp.LaunchError, "square BsrMatrix"),
        (lambda w: w.FSAI(blocks(3, 2, (2, 3))), wp.LaunchError, "square blocks"),
        (lambda w: w.FSAI(wp.sparse.bsr_zeros(3, 3, int)), wp.KernelTypeError, "float16, float32 or float64"),
        (lambda w: w.FSAI(sparse(np.eye(3)), max_row_size=65), wp.LaunchError, "max_row_size"),
        (lambda w: w.FSAI(sparse(np.eye(3)), max_step_size=0), wp.LaunchError, "max_step_size"),
        (lambda w: w.FSAI(sparse(np.eye(3)), kap_tolerance=1.0), wp.LaunchError, "kap_tolerance"),
        (lambda w: w.FSAI(sparse(np.eye(3)), pivot_floor=float("nan")), wp.LaunchError, "pivot_floor"),
        (lambda w: w.FSAI(sparse(np.eye(3), wp.float32), factor_dtype=wp.float64), wp.LaunchError, "factor_dtype"),
        (lambda w: w.FSAI(padded(), reuse_pattern=True), wp.LaunchError, "compact"),
        (lambda w: w.FSAI(sparse(np.eye(3)), defer_pattern=True), wp.LaunchError, "reuse_pattern"),
        (lambda w: w.FSAI(sparse(np.eye(3))).update(), wp.LaunchError, "reuse_pattern"),
        (lambda w: w.FSAI(sparse(np.eye(3)), reuse_pattern=True).update(3), wp.LaunchError, "BSR"),
        (
            lambda w: w.FSAI(sparse(np.eye(3)), reuse_pattern=True).update(sparse(np.eye(2))),
            wp.LaunchError,
            "original shape",
        ),
        (lambda w: w.FSAI(sparse(np.diag([1.0, -1.0]))), wp.LaunchError, "positive diagonals"),
        (lambda w: w.FSAI(sparse(np.diag([1.0, np.inf]))), wp.LaunchError, "positive diagonals"),
        (lambda w: w.FSAI(sparse(1e100 * np.eye(2)), factor_dtype=float), wp.LaunchError, "positive diagonal"),
        (lambda w: w.preconditioner(blocks(3, 4, (2, 2)), "block_jacobi_tile"), wp.LaunchError, "square matrix"),
        (
            lambda w: w.preconditioner(blocks(2, 3, (3, 2)), "block_jacobi_direct"),
            wp.LaunchError,
            "square matrix blocks",
        ),
        (
            lambda w: w.preconditioner(blocks(3, 3, (2, 2), wp.float16), "block_jacobi_tile"),
            wp.LaunchError,
            "float16",
        ),
        (lambda w: w.preconditioner(sparse(np.eye(2)), "block_jacobi_other"), wp.LaunchError, "no preconditioner"),
    ],
)
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make(wp.optim.linear)


def test_that_ill_conditioned_rows_end_early_is_told():
    a = np.array([[1.0, 1.0 - 1e-14, 0.0], [1.0 - 1e-14, 1.0, 0.0], [0.0, 0.0, 2.0]])
    M = wp.optim.linear.FSAI(sparse(a))
    assert M.truncated_rows == 1
    assert_allclose(dense(M.G), np.diag(1 / np.sqrt(np.diag(a))))
