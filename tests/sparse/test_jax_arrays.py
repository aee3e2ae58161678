"""Functions of matrices on JAX arrays: their values, and derivatives by all factors compared with differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparse_matrices import dense_of, entries

import jwarp as wp
from jwarp import sparse

NROW, NCOL, COUNT = 5, 6, 18


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def given(seed, nrow=NROW, ncol=NCOL, block=(1, 1)):
    """Entries of a matrix, none of which is zero, as a function of their values, and these."""
    rows, columns, values = entries(np.random.default_rng(seed), nrow, ncol, COUNT, block, np.float64)
    values = values + 2.0 * (values == 0)
    values = jnp.asarray(values.ravel() if block == (1, 1) else values)
    rows, columns = jnp.asarray(rows), jnp.asarray(columns)
    return lambda v: sparse.bsr_from_triplets(nrow, ncol, rows, columns, v), values, (rows, columns)


def vector(seed, size):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(size))


def check_gradients(f, *at):
    """Compare the gradient of a weighted sum with differences, and what jit and vmap make of the function."""
    plain = np.asarray(f(*at))
    weights = vector(99, plain.shape)
    np.testing.assert_allclose(jax.jit(f)(*at), plain, rtol=1e-12, atol=1e-12)

    def loss(*at):
        return (f(*at) * weights).sum()

    found = jax.jit(jax.grad(loss, tuple(range(len(at)))))(*at)
    for k, (gradient, each) in enumerate(zip(found, at, strict=True)):
        along, h = vector(k, np.shape(each)), 1e-6
        ahead, behind = ([*at[:k], each + s * h * along, *at[k + 1 :]] for s in (1, -1))
        wanted = (loss(*ahead) - loss(*behind)) / (2.0 * h)
        assert abs(wanted) > 1e-3, k
        np.testing.assert_allclose((gradient * along).sum(), wanted, rtol=1e-6, atol=1e-8, err_msg=f"by number {k}")
    batch = [jnp.stack([each, 0.5 * each, 2.0 * each]) for each in map(jnp.asarray, at)]
    wanted = [f(*each) for each in zip(*batch, strict=True)]
    np.testing.assert_allclose(jax.jit(jax.vmap(f))(*batch), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", [(1, 1), (2, 3)])
@pytest.mark.parametrize("transpose", [False, True])
def test_products_with_vectors(transpose, block):
    A, values, places = given(0, block=block)
    sizes = NROW * block[0], NCOL * block[1]
    x, y = (vector(k, size) for k, size in enumerate(sizes if transpose else sizes[::-1]))

    def f(v, x, y, alpha, beta):
        return sparse.bsr_mv(A(v), x, y, alpha, beta, transpose=transpose)

    whole = dense_of(NROW, NCOL, *map(np.asarray, places), np.asarray(values).reshape(-1, *block))
    wanted = 0.5 * (whole.T if transpose else whole) @ x - 1.5 * y
    np.testing.assert_allclose(f(values, x, y, 0.5, -1.5), wanted, rtol=1e-12, atol=1e-12)
    check_gradients(f, values, x, y, 0.5, -1.5)


@pytest.mark.parametrize("block", [(1, 1), (2, 2)])
def test_products_of_matrices(block):
    (A, a, _), (B, b, _), (C, c, _) = (given(1, block=block), given(2, NCOL, 4, block), given(3, NROW, 4, block))
    x = vector(4, 4 * block[1])

    def f(a, b, c, alpha, beta):
        return sparse.bsr_mm(A(a), B(b), C(c), alpha, beta, nnz_max=NROW * 4) @ x

    check_gradients(f, a, b, c, 0.5, -1.5)
    check_gradients(lambda a, b, c: sparse.bsr_mm(A(a), B(b), C(c), 1.0, 0.5, topology="masked") @ x, a, b, c)
    check_gradients(lambda a: sparse.bsr_mm(A(a), A(a).transpose(), nnz_max=NROW**2) @ vector(4, NROW * block[0]), a)


@pytest.mark.parametrize("block", [(1, 1), (2, 3)])
@pytest.mark.parametrize("topology", ["compact", "masked"])
def test_sums_of_matrices(topology, block):
    (A, a, _), (B, b, _), x = given(5, block=block), given(6, block=block), vector(7, NCOL * block[1])
    check_gradients(lambda a, b, s, t: sparse.bsr_axpy(A(a), B(b), s, t, topology=topology) @ x, a, b, 0.5, -1.5)
    check_gradients(lambda a, b: (2.0 * A(a) - B(b)) @ x, a, b)


def test_copies_transposes_and_diagonals():
    (A, a, _), x, y = given(8, block=(2, 2)), vector(9, NCOL * 2), vector(10, NROW * 2)
    check_gradients(lambda a, x: y @ sparse.bsr_copy(3.0 * A(a), block_shape=(1, 1)) * x, a, x)
    check_gradients(lambda a, y: (2.0 * A(a)).transpose() @ y, a, y)
    check_gradients(lambda a, s: sparse.bsr_scale(A(a), s) @ x, a, 0.5)
    check_gradients(lambda a: sparse.bsr_compress(A(a)) @ x, a)
    check_gradients(lambda a: wp.to_jax(sparse.bsr_get_diag(A(a))), a)
    check_gradients(lambda d, x: sparse.bsr_diag(wp.from_jax(d, wp.types.matrix((2, 2), wp.float64))) @ x, a[:6], x)


def test_matrices_go_through_jit():
    (A, a, (rows, columns)), x = given(11), vector(12, NCOL)
    made = jax.jit(A)(a)
    assert isinstance(made, wp.sparse.BsrMatrix)
    whole = dense_of(NROW, NCOL, np.asarray(rows), np.asarray(columns), np.asarray(a).reshape(-1, 1, 1))
    np.testing.assert_allclose(jax.jit(lambda A, x: A @ x)(made, jnp.asarray(x)), whole @ x, rtol=1e-12, atol=1e-12)
    y = jnp.asarray(vector(13, NROW))
    np.testing.assert_allclose(jax.jit(lambda A, y: y @ A)(made, y), y @ whole, rtol=1e-12, atol=1e-12)
    batch = np.stack([x, 2.0 * x])
    np.testing.assert_allclose(
        jax.vmap(lambda x: made @ x)(jnp.asarray(batch)), batch @ whole.T, rtol=1e-12, atol=1e-12
    )


def test_more_blocks_than_nnz_max_are_an_error():
    A, a, (rows, columns) = given(14)
    square = jax.jit(lambda a: sparse.bsr_mm(A(a), A(a).transpose(), nnz_max=2) @ jnp.ones(NROW))
    with pytest.raises(RuntimeError, match="nnz_max"):
        jax.block_until_ready(square(a))

    @jax.jit
    def of_traced_rows(rows, a):
        made = sparse.bsr_from_triplets(NROW, NCOL, rows, columns, a)
        return sparse.bsr_mm(made, made.transpose()) @ jnp.ones(NROW)

    with pytest.raises(wp.LaunchError, match="nnz_max="):
        of_traced_rows(rows, a)


def test_the_blocks_of_a_product_are_known_if_rows_and_columns_are():
    A, a, (rows, columns) = given(14)
    square = jax.jit(lambda a: wp.to_jax(sparse.bsr_mm(A(a), A(a).transpose()).scalar_values).ravel())
    whole = dense_of(NROW, NCOL, np.asarray(rows), np.asarray(columns), np.asarray(a).reshape(-1, 1, 1))
    found = np.asarray(square(a))
    assert len(found) == np.count_nonzero((np.abs(whole) > 0).astype(float) @ (np.abs(whole) > 0).T)
    np.testing.assert_allclose(found.sum(), (whole @ whole.T).sum(), rtol=1e-12, atol=1e-12)


def test_types_that_differ_are_refused():
    A, a, _ = given(15)
    with pytest.raises(wp.KernelTypeError, match="float32"):
        sparse.bsr_mv(A(a), jnp.ones(NCOL, jnp.float32))
    with pytest.raises(wp.KernelTypeError, match="int32"):
        sparse.bsr_from_triplets(2, 2, jnp.zeros(3), jnp.zeros(3), jnp.ones(3))


@pytest.mark.parametrize("transpose", [False, True])
def test_scales_that_are_zero_have_derivatives(transpose):
    rows, columns = jnp.asarray([0, 1, 1], jnp.int32), jnp.asarray([0, 0, 1], jnp.int32)
    values = jnp.asarray([1.0, 2.0, 3.0])
    x, y = jnp.asarray([1.0, 2.0]), jnp.asarray([5.0, 7.0])

    def total(alpha, beta):
        A = sparse.bsr_from_triplets(2, 2, rows, columns, values)
        return sparse.bsr_mv(A, x, y, alpha, beta, transpose=transpose).sum()

    want = (11.0, 12.0) if transpose else (9.0, 12.0)
    for alpha, beta in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)):
        assert jax.grad(total, (0, 1))(alpha, beta) == want
        assert jax.jit(jax.grad(total, (0, 1)))(alpha, beta) == want
