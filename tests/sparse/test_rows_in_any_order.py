"""Matrices whose rows have their columns in no order, and some twice, compared with those of SciPy."""

import numpy as np
import pytest
from sparse_matrices import dense, entries, matrix_of

import jwarp as wp
from jwarp import sparse

BLOCKS = [(1, 1), (2, 2)]


def shuffled(seed, nrow, ncol, block=(1, 1), repeats=True):
    """A matrix with each row's blocks in random order, and SciPy's matrix of the same entries."""
    scipy_sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(seed)
    rows, columns, values = entries(rng, nrow, ncol, 5 * nrow, block, np.float64)
    if not repeats:
        places = np.unique(rows.astype(np.int64) * ncol + columns)
        rows, columns = (places // ncol).astype(np.int32), (places % ncol).astype(np.int32)
    order = rng.permutation(rows.size)
    order = order[np.argsort(rows[order], kind="stable")]
    rows, columns, values = rows[order], columns[order], values[order]
    A = sparse.bsr_zeros(nrow, ncol, wp.float64 if block == (1, 1) else wp.types.matrix(block, wp.float64))
    A.offsets = wp.array(np.searchsorted(rows, np.arange(nrow + 1)).astype(np.int32))
    A.columns = wp.array(columns)
    A.values = wp.array(values.ravel() if block == (1, 1) else values, dtype=A.dtype)
    A.notify_nnz_changed()
    assert (np.diff(columns)[np.diff(rows) == 0] < 0).any()
    parts = [np.kron(each, np.ones(block[0] * block[1], np.int32)) for each in (rows, columns)]
    i, j = (np.tile(each.ravel(), rows.size) for each in np.indices(block))
    at = parts[0] * block[0] + i, parts[1] * block[1] + j
    return A, scipy_sparse.coo_matrix((values.ravel(), at), A.shape).tocsr()


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("seed", range(3))
def test_products(seed, block):
    (A, a), (B, b) = shuffled(seed, 30, 20, block), shuffled(seed + 10, 20, 50, block)
    wanted = (a @ b).toarray()
    C = A @ B
    close(dense(C), wanted)
    offsets, columns = C.offsets.numpy(), C.columns.numpy()
    for row in range(C.nrow):
        assert (np.diff(columns[offsets[row] : offsets[row + 1]]) > 0).all()
    close(dense(sparse.bsr_identity(30, A.dtype) @ A), a.toarray())
    D, d = shuffled(seed + 20, 30, 50, block)
    close(dense(sparse.bsr_mm(A, B, sparse.bsr_copy(D), 2.0, -0.5)), 2.0 * wanted - 0.5 * d.toarray())
    close(dense(sparse.bsr_mm(A, B, D, 2.0, -0.5)), 2.0 * wanted - 0.5 * d.toarray())
    roomy = sparse.bsr_zeros(30, 50, C.dtype, row_capacity=50)
    close(dense(sparse.bsr_mm(A, B, roomy, topology="padded")), wanted)
    x = np.random.default_rng(seed).standard_normal(A.shape[1])
    close((A @ wp.array(x)).numpy().ravel(), a @ x)
    y = np.random.default_rng(seed).standard_normal(A.shape[0])
    close((wp.array(y) @ A).numpy().ravel(), y @ a)


def test_products_with_more_columns_than_a_word_of_marks_has_groups():
    (A, a), (B, b) = shuffled(1, 40, 60), shuffled(2, 60, 200_000)
    C = A @ B
    offsets, columns = C.offsets.numpy(), C.columns.numpy()
    for each in (a, b):
        each.data = np.abs(each.data) + 1.0  # SciPy leaves out what is zero
    A.values, B.values = (wp.array(each.data) for each in (a, b))
    (A.columns, A.offsets), (B.columns, B.offsets) = (
        (wp.array(each.indices), wp.array(each.indptr)) for each in (a, b)
    )
    wanted = (a @ b).tocsr()
    wanted.sort_indices()
    np.testing.assert_array_equal(offsets, wanted.indptr)
    np.testing.assert_array_equal(columns[: C.nnz], wanted.indices)
    for each in (A, B):
        each.notify_nnz_changed()
    np.testing.assert_allclose((A @ B).values.numpy()[: C.nnz], wanted.data, rtol=1e-12)


@pytest.mark.parametrize("block", BLOCKS)
def test_masks(block):
    (A, a), (B, b) = shuffled(3, 30, 30, block), shuffled(4, 30, 30, block)
    mask, _ = shuffled(5, 30, 30, block, repeats=False)
    mask.values.fill_(1.0)
    has = dense(mask)
    close(dense(sparse.bsr_mm(A, B, mask, topology="masked")), has * (a @ b).toarray())
    mask.values.fill_(1.0)
    close(dense(sparse.bsr_axpy(A, mask, 2.0, 3.0, topology="masked")), has * (2.0 * a.toarray() + 3.0))
    sparse.bsr_assign(mask, A, topology="masked")
    close(dense(mask), has * a.toarray())
    sparse.bsr_set_transpose(mask, A, topology="masked")
    close(dense(mask), has * a.T.toarray())
    given = entries(np.random.default_rng(6), 30, 30, 200, block, np.float64)
    whole, values = matrix_of(30, 30, *given)
    sparse.bsr_set_from_triplets(mask, *(wp.array(each) for each in given[:2]), values, topology="masked")
    close(dense(mask), has * dense(whole))


@pytest.mark.parametrize("block", BLOCKS)
def test_sums_copies_transposes_and_diagonals(block):
    (A, a), (B, b) = shuffled(7, 30, 20, block), shuffled(8, 30, 20, block)
    close(dense(2.0 * A - B), (2.0 * a - b).toarray())
    close(dense(sparse.bsr_copy(A)), a.toarray())
    close(dense(sparse.bsr_copy(A, topology="padded")), a.toarray())
    close(dense(A.transpose()), a.T.toarray())
    blocks = a.toarray().reshape(30, block[0], 20, block[1])[np.arange(20), :, np.arange(20)]
    close(sparse.bsr_get_diag(A).numpy().reshape(blocks.shape), blocks)
    roomy = sparse.bsr_zeros(30, 20, A.dtype, row_capacity=20)
    sparse.bsr_assign(roomy, A, topology="padded")
    close(dense(sparse.bsr_axpy(B, roomy, topology="padded")), (a + b).toarray())
    close(dense(sparse.bsr_compress(A)), a.toarray())


def test_blocks_in_kernels():
    @wp.kernel
    def ask(offsets: wp.array[int], columns: wp.array[int], out: wp.array2d[int]):
        i, j = wp.tid()
        out[i, j] = wp.sparse.bsr_block_index(i, j, offsets, columns)

    A, _ = shuffled(9, 30, 20, repeats=False)
    out = wp.zeros((30, 20), dtype=int)
    wp.launch(ask, out.shape, [A.offsets, A.columns, out])
    wanted = np.full((30, 20), -1)
    wanted[A.uncompress_rows().numpy(), A.columns.numpy()] = np.arange(A.nnz)
    np.testing.assert_array_equal(out.numpy(), wanted)


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_of_no_column_are_none(block):
    A, a = shuffled(12, 30, 20, block)
    B, b = shuffled(13, 20, 30, block)
    columns, values = A.columns.numpy().copy(), A.values.numpy().copy()
    padding = np.random.default_rng(0).permutation(columns.size)[:40]
    values[padding] = 0
    A.values.assign(values)
    a = dense(A)  # without the blocks that become padding
    columns[padding] = np.where(padding % 2, -1, 1000)
    values[padding] = np.nan
    A.columns.assign(columns)
    A.values.assign(values)
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(A.shape[1]), rng.standard_normal(A.shape[0])
    close((A @ wp.array(x)).numpy().ravel(), a @ x)
    close((wp.array(y) @ A).numpy().ravel(), y @ a)
    close(dense(A @ B), a @ b.toarray())
    close(dense(B @ A), b.toarray() @ a)
    for made in (sparse.bsr_copy(A), A.transpose().transpose(), sparse.bsr_axpy(A), A - 0.0 * sparse.bsr_copy(A)):
        close(dense(made), a)
    close(dense(sparse.bsr_compress(A)), a)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("topology", ["compact", "masked"])
def test_products_with_gradients_have_the_same_values(topology, block):
    """The product that a tape records has another kernel than the one without derivatives."""
    A, B = shuffled(14, 30, 20, block)[0], shuffled(15, 20, 50, block)[0]
    found = []
    for requires_grad in (False, True):
        mask, _ = shuffled(16, 30, 50, block, repeats=topology == "compact")
        A.values.requires_grad = requires_grad
        found.append(dense(sparse.bsr_mm(A, B, mask, 2.0, 0.5, topology=topology)))
    close(*found)


def test_products_in_jax():
    import jax

    (A, a), (B, b) = shuffled(10, 30, 20), shuffled(11, 20, 30)
    x = np.random.default_rng(0).standard_normal(30)

    def multiply(A, B, x: wp.array[wp.float64]):
        y = wp.zeros(30, dtype=wp.float64)
        sparse.bsr_mv(sparse.bsr_mm(A, B, nnz_max=900), x, y)
        return wp.to_jax(y)

    with jax.enable_x64(True):
        found = jax.jit(wp.functionalize(multiply))(A, B, jax.numpy.asarray(x))[0]
    close(np.asarray(found), a @ (b @ x))
