"""Gradients of sparse matrices by all their factors, on tapes and inside JAX, compared with differences in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparse_matrices import dense_of, entries, matrix_of

import jwarp as wp
from jwarp.sparse import bsr_axpy, bsr_compress, bsr_copy, bsr_get_diag, bsr_mm, bsr_mv, bsr_scale, bsr_transposed

NROW, NCOL, BLOCK = 5, 6, (2, 3)


def difference(f, x, along, h=1e-6):
    return (f(x + h * along) - f(x - h * along)) / (2.0 * h)


def through_all(A, x):
    """A vector that everything about a matrix went into."""
    product = bsr_mm(A, bsr_transposed(A), alpha=0.5)
    summed = bsr_axpy(bsr_copy(2.0 * product), product, alpha=1.5, beta=-0.5)
    bsr_scale(summed, 0.7)
    bsr_compress(summed)
    y = bsr_mv(A, x, alpha=0.3)
    z = bsr_mv(summed, y)
    diagonal = bsr_get_diag(summed)
    back = bsr_mv(A, y, transpose=True)
    return z, diagonal, back


def test_tapes_go_back_through_matrices():
    rng = np.random.default_rng(0)
    rows, columns, values = entries(rng, NROW, NCOL, 20, BLOCK, np.float64)
    values += 3.0 * (values == 0)
    numbers, weights = rng.standard_normal(NCOL * BLOCK[1]), [rng.standard_normal(n) for n in (10, 20, 18)]

    def run(values, x):
        A, given = matrix_of(NROW, NCOL, rows, columns, values, requires_grad=True)
        vector = wp.array(x.reshape(NCOL, BLOCK[1]), dtype=wp.vec3d, requires_grad=True)
        return A, given, vector

    def loss(values, x):
        A, _, vector = run(values, x)
        return sum(w @ out.numpy().ravel() for w, out in zip(weights, through_all(A, vector), strict=True))

    with wp.Tape() as tape:
        _, given, vector = A, *_ = run(values, numbers)
        outs = through_all(A, vector)
    seeds = {out: wp.array(w.reshape(out.numpy().shape), dtype=out.dtype) for w, out in zip(weights, outs, strict=True)}
    tape.backward(grads=seeds)
    for name, grad, f, at in (
        ("values", given.grad, lambda v: loss(v, numbers), values),
        ("x", vector.grad, lambda x: loss(values, x), numbers),
    ):
        along = rng.standard_normal(at.shape)
        wanted = difference(f, at, along)
        assert abs((grad.numpy().reshape(at.shape) * along).sum() - wanted) < 1e-6 * abs(wanted), name


def assemble(rows: wp.array[int], columns: wp.array[int], values: wp.array3d[float], x: wp.array[float]):
    A = wp.sparse.bsr_from_triplets(NROW, NCOL, rows, columns, values)
    B = bsr_mm(A, bsr_transposed(A), nnz_max=NROW * NROW)
    out = wp.zeros(NROW * BLOCK[0], dtype=float)
    bsr_mv(B, bsr_mv(A, x), out)
    return wp.to_jax(out)


def assembled(f):
    return lambda *given: f(*given)[0]


def test_assembly_and_products_in_jax():
    rng = np.random.default_rng(1)
    rows, columns, values = entries(rng, NROW, NCOL, 20, BLOCK)
    x = rng.standard_normal(NCOL * BLOCK[1]).astype(np.float32)
    f = assembled(wp.functionalize(assemble))

    def wanted(values, x):
        blocks = jnp.zeros((NROW, NCOL, *BLOCK), values.dtype).at[rows, columns].add(values)
        A = blocks.transpose(0, 2, 1, 3).reshape(NROW * BLOCK[0], NCOL * BLOCK[1])
        return A @ (A.T @ (A @ x))

    near = {"rtol": 1e-4, "atol": 1e-3}
    np.testing.assert_allclose(jax.jit(f)(rows, columns, values, x), wanted(values, x), **near)
    batch = np.stack([values, 2.0 * values, values[::-1]])
    found = jax.jit(jax.vmap(f, (None, None, 0, None)))(rows, columns, batch, x)
    np.testing.assert_allclose(found, jax.vmap(wanted, (0, None))(batch, x), **near)
    weights = rng.standard_normal(NROW * BLOCK[0]).astype(np.float32)
    gradients = jax.jit(jax.grad(lambda v, x: f(rows, columns, v, x) @ weights, (0, 1)))(values, x)
    expected = jax.grad(lambda v, x: wanted(v, x) @ weights, (0, 1))(values, x)
    kept = (values != 0).any(axis=(1, 2))  # entries that are zero are left out, and have no gradient
    np.testing.assert_allclose(gradients[0][kept], expected[0][kept], rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(gradients[1], expected[1], rtol=1e-3, atol=1e-2)


def multiply(A: wp.sparse.BsrMatrix, x: wp.array[float]):
    out = wp.zeros(A.shape[0], dtype=float)
    return wp.to_jax(bsr_mv(A, x, out))


def test_a_matrix_is_a_pytree():
    rng = np.random.default_rng(2)
    given = entries(rng, NROW, NCOL, 20, BLOCK)
    A, _ = matrix_of(NROW, NCOL, *given)
    A.nnz_sync()
    assert len(jax.tree.leaves(A)) == 3
    again = jax.tree.map(lambda leaf: leaf, A)
    assert (type(again), again.nrow, again.ncol, again.nnz) == (type(A), NROW, NCOL, A.nnz)
    f = assembled(wp.functionalize(multiply))
    x = rng.standard_normal(NCOL * BLOCK[1]).astype(np.float32)
    wanted = dense_of(NROW, NCOL, *given)
    np.testing.assert_allclose(jax.jit(f)(A, x), wanted @ x, rtol=1e-4, atol=1e-5)
    gradient = jax.grad(lambda values: f(wp.replace(A, values=values), x).sum())(wp.to_jax(A.values))
    columns = A.columns.numpy()[: A.nnz]
    expected = np.repeat(x.reshape(NCOL, 1, BLOCK[1])[columns], BLOCK[0], axis=1)
    np.testing.assert_allclose(gradient[: A.nnz], expected, rtol=1e-6)


def test_more_blocks_than_were_said_is_an_error():
    rng = np.random.default_rng(3)
    rows, columns, values = entries(rng, NROW, NCOL, 20, BLOCK)

    def square(values: wp.array3d[float]):
        kinds = [wp.array(each, dtype=int) for each in (rows, columns)]
        A = wp.sparse.bsr_from_triplets(NROW, NCOL, *kinds, values)
        return wp.to_jax(bsr_mm(A, bsr_transposed(A), nnz_max=2).scalar_values)

    with pytest.raises(RuntimeError, match="nnz_max"):
        jax.block_until_ready(jax.jit(wp.functionalize(square))(values))
    A, _ = matrix_of(NROW, NCOL, rows, columns, values)
    with pytest.raises(wp.LaunchError, match=r"the product has \d+ blocks, more than nnz_max=2"):
        bsr_mm(A, bsr_transposed(A), nnz_max=2)


def test_an_unknown_number_of_blocks_is_refused_with_a_way_out():
    def square(values: wp.array3d[float], rows: wp.array[int]):
        A = wp.sparse.bsr_from_triplets(2, 2, rows, wp.array([0, 1], dtype=int), values)
        return wp.to_jax(bsr_mm(A, A).scalar_values)

    with pytest.raises(wp.LaunchError, match="nnz_max="):
        jax.jit(wp.functionalize(square))(np.ones((2, 3, 3), np.float32), np.int32([0, 1]))
