"""Linear solvers under `wp.functionalize`: derivatives of solutions, compared with those of the inverse matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp


@pytest.fixture(autouse=True)
def in_double():
    with jax.enable_x64(True):
        yield


def system(name, n):
    """A matrix that a solver is for, a right-hand side, and weights."""
    make = np.random.default_rng(3)
    q = make.normal(size=(n, n))
    matrix = q @ q.T / n + np.diag(make.uniform(0.5, 4.0, n))
    if name not in ("cg", "cr"):
        matrix += 0.5 * make.normal(size=(n, n)) / np.sqrt(n)
    return matrix, make.normal(size=n), make.normal(size=n)


def implicit(name, near, check_every):
    """A solver as a function of a matrix, a right-hand side and a start, with a preconditioner made of the matrix."""

    def solution(A: wp.array2d[wp.float64], b: wp.array[wp.float64], start: wp.array[wp.float64]):
        x = wp.clone(start)
        M = wp.optim.linear.preconditioner(A, near) if near else None
        getattr(wp.optim.linear, name)(A, b, x, tol=1e-13, M=M, check_every=check_every, maxiter=60)
        return wp.to_jax(x)

    made = wp.functionalize(solution)
    return lambda *args: made(*args)[0]


@pytest.mark.parametrize(
    ("name", "near", "check_every"),
    [("cg", None, 0), ("cg", "diag", 10), ("cr", "diag", 0), ("bicgstab", "diag", 10), ("gmres", None, 0)],
)
def test_derivatives_of_solutions_are_those_of_the_inverse(name, near, check_every):
    """By the matrix and by the right-hand side, in both modes; where the iterations begin does not count."""
    matrix, b, weights = system(name, 8)
    make = np.random.default_rng(3)
    start, dA, db = make.normal(size=8), make.normal(size=(8, 8)), make.normal(size=8)
    dA = dA + dA.T if name in ("cg", "cr") else dA
    solve = implicit(name, near, check_every)
    args = [jnp.asarray(each) for each in (matrix, b, start)]
    want = np.linalg.solve(matrix, b)
    value, tangent = jax.jvp(lambda A, b: solve(A, b, args[2]), args[:2], [jnp.asarray(dA), jnp.asarray(db)])
    assert_allclose(value, want, rtol=1e-8)
    assert_allclose(tangent, np.linalg.solve(matrix, db - dA @ want), rtol=1e-6, atol=1e-8)
    by = jax.jit(jax.grad(lambda A, b, x: solve(A, b, x) @ jnp.asarray(weights), argnums=(0, 1, 2)))(*args)
    adjoint = np.linalg.solve(matrix.T, weights)
    assert_allclose(by[1], adjoint, rtol=1e-6, atol=1e-8)
    assert_allclose(by[0], -np.outer(adjoint, want), rtol=1e-6, atol=1e-8)
    assert np.abs(by[2]).max() < 1e-7


def test_solutions_batch_and_have_second_derivatives():
    matrix, b, weights = (jnp.asarray(each) for each in system("cg", 6))
    solve, zero = implicit("cg", None, 0), jnp.zeros(6)
    both = jax.vmap(lambda s: solve(s * matrix, b, zero))(jnp.array([1.0, 2.0]))
    assert_allclose(both, np.stack([np.linalg.solve(k * matrix, b) for k in (1.0, 2.0)]), rtol=1e-8)
    second = jax.grad(jax.grad(lambda s: solve(s * matrix, b, zero) @ weights))(2.0)
    assert_allclose(second, 2.0 * (weights @ np.linalg.solve(matrix, b)) / 2.0**3, rtol=1e-6)  # of c / s


@pytest.mark.parametrize("kind", ["sparse", "operator"])
def test_sparse_matrices_and_operators_of_a_program(kind):
    """The matrix has the structure of a chain; the operator is a function of launches."""
    make, n = np.random.default_rng(4), 7
    rows = np.concatenate([np.arange(n), np.arange(n - 1), np.arange(1, n)]).astype(np.int32)
    columns = np.concatenate([np.arange(n), np.arange(1, n), np.arange(n - 1)]).astype(np.int32)
    values = np.concatenate([make.uniform(3.0, 4.0, n), np.tile(make.uniform(-1.0, 1.0, n - 1), 2)])
    b, weights = make.normal(size=n), make.normal(size=n)
    matrix = np.zeros((n, n))
    matrix[rows, columns] = values

    def solution(values: wp.array[wp.float64], b: wp.array[wp.float64]):
        A = wp.sparse.bsr_from_triplets(n, n, wp.array(rows), wp.array(columns), values)

        def product(x, y, z, alpha, beta):
            wp.copy(z, y)
            wp.sparse.bsr_mv(A, x, z, alpha=alpha, beta=beta)

        x = wp.zeros_like(b)
        operator = wp.optim.linear.LinearOperator((n, n), wp.float64, b.device, product)
        wp.optim.linear.cg(operator if kind == "operator" else A, b, x, tol=1e-13)
        return wp.to_jax(x)

    solve = wp.functionalize(solution)
    value, by = jax.value_and_grad(lambda v: solve(v, jnp.asarray(b))[0] @ jnp.asarray(weights))(jnp.asarray(values))
    want = np.linalg.solve(matrix, b)
    assert_allclose(value, want @ weights, rtol=1e-9)
    assert_allclose(by, -np.linalg.solve(matrix.T, weights)[rows] * want[columns], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["cg", "cr", "bicgstab", "gmres"])
def test_derivatives_are_linear_in_what_they_are_taken_along(name):
    """In float32, a millionth of a gradient is the millionth of it: no absolute tolerance stops its iterations."""
    matrix, b, weights = (np.float32(each) for each in system(name, 20))

    def solution(A: wp.array2d[float], b: wp.array[float]):
        x = wp.zeros_like(b)
        getattr(wp.optim.linear, name)(A, b, x, maxiter=100)
        return wp.to_jax(x)

    solve = wp.functionalize(solution)
    for size in (1.0, 1e-8):
        by = jax.grad(lambda b, size=size: size * (solve(jnp.asarray(matrix), b)[0] @ weights))(jnp.asarray(b))
        assert_allclose(by, size * np.linalg.solve(matrix.T, weights), rtol=1e-3, atol=1e-5 * size)


@wp.kernel
def multiplied(A: wp.array2d[wp.float64], x: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    total = wp.float64(0.0)
    for j in range(A.shape[1]):
        total += A[i, j] * x[j]
    out[i] = total


@wp.kernel
def combined(a: wp.float64, x: wp.array[wp.float64], b: wp.float64, y: wp.array[wp.float64], z: wp.array[wp.float64]):
    i = wp.tid()
    z[i] = a * x[i] + b * y[i]


def test_operators_may_write_to_arrays_of_their_own_and_loops_need_no_bound():
    matrix, b, weights = (jnp.asarray(each) for each in system("cg", 7))

    def solution(A: wp.array2d[wp.float64], b: wp.array[wp.float64]):
        outer = wp.zeros_like(b)

        def product(x, y, z, alpha, beta):
            wp.launch(multiplied, 7, inputs=[A, x], outputs=[outer])
            wp.launch(combined, 7, inputs=[alpha, outer, beta, y], outputs=[z])

        x = wp.zeros_like(b)
        operator = wp.optim.linear.LinearOperator((7, 7), wp.float64, b.device, product)
        wp.optim.linear.cg(operator, b, x, tol=1e-13)
        return wp.to_jax(x)

    solve = wp.functionalize(solution, max_trips=2)
    assert_allclose(solve(matrix, b)[0], np.linalg.solve(matrix, b), rtol=1e-9)
    by = jax.grad(lambda A: solve(A, b)[0] @ weights)(matrix)
    want = -np.outer(np.linalg.solve(matrix, weights), np.linalg.solve(matrix, b))
    assert_allclose(by, want, rtol=1e-6, atol=1e-9)


def test_warm_starts_and_reports_are_those_outside_of_jax():
    matrix, b, _ = system("cg", 12)
    near = np.linalg.solve(matrix, b) + 1e-4

    def solved(A, b, x):
        done, residual, tolerance = wp.optim.linear.cg(A, b, x, tol=1e-2, atol=0.0, check_every=0)
        return x, done, residual, tolerance

    arrays = [wp.array(each, dtype=wp.float64) for each in (matrix, b, near)]
    x, *report = solved(*arrays)

    def solution(A: wp.array2d[wp.float64], b: wp.array[wp.float64], x: wp.array[wp.float64]):
        return [wp.to_jax(each) for each in solved(A, b, x)]

    found, *reported = wp.functionalize(solution)(*map(jnp.asarray, (matrix, b, near)))[0]
    assert_allclose(found, x.numpy(), rtol=1e-12)
    for got, want in zip(reported, report, strict=True):
        assert_allclose(got, want.numpy(), rtol=1e-9)
