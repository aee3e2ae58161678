"""Linear kernels transpose: jax.linear_transpose, and the gradients of iterative solvers, against dense matrices."""

# Without postponed annotations: those of these kernels name variables.

import functools
import linecache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.sparse.linalg import bicgstab, cg, gmres

import jwarp as wp

N = 9
RNG = np.random.default_rng(5)
A = (RNG.normal(size=(N, N)) + 6 * np.eye(N)).astype(np.float32)
SYMMETRIC = (A @ A.T / 6).astype(np.float32)
X, Y = RNG.normal(size=(2, N)).astype(np.float32)


@wp.kernel
def product(a: wp.array2d[float], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    total = wp.float32(0.0)
    for j in range(x.shape[0]):
        total += a[i, j] * x[j]
    y[i] = total


def matvec(a, x):
    return wp.launch(product, len(a), [a, x], [len(a)])[0]


def transpose(f, *like):
    return jax.linear_transpose(f, *like)


def test_a_product_transposes_in_either_factor_and_back():
    to_x = transpose(lambda x: matvec(A, x), X)
    np.testing.assert_allclose(to_x(Y)[0], A.T @ Y, rtol=1e-5, atol=1e-5)
    back = transpose(lambda y: to_x(y)[0], Y)
    np.testing.assert_allclose(back(X)[0], A @ X, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jax.jit(to_x)(Y)[0], A.T @ Y, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(transpose(lambda a: matvec(a, X), A)(Y)[0], np.outer(Y, X), rtol=1e-6)


def test_vmap_of_a_transpose_and_transpose_of_a_vmap():
    many, others = RNG.normal(size=(2, 4, N)).astype(np.float32)
    stack = RNG.normal(size=(4, N, N)).astype(np.float32)

    def apart(a, y):
        return transpose(lambda x: matvec(a, x), X)(y)[0]

    expected = np.einsum("bij,bi->bj", stack, many)
    np.testing.assert_allclose(jax.vmap(apart)(stack, many), expected, rtol=1e-4, atol=1e-5)
    together = transpose(lambda x: jax.vmap(matvec)(stack, x), others)
    np.testing.assert_allclose(together(many)[0], expected, rtol=1e-4, atol=1e-5)
    shared = transpose(lambda x: jax.vmap(matvec, (0, None))(stack, x), X)
    np.testing.assert_allclose(shared(many)[0], expected.sum(0), rtol=1e-4, atol=1e-5)


@wp.struct
class Chain:
    k: float
    x: wp.array[wp.vec3]


@wp.kernel
def pulls(c: Chain, scale: float, active: wp.array[bool], f: wp.array[wp.vec3], total: wp.array[float]):
    i = wp.tid()
    d = wp.vec3(0.0, 0.0, 0.0)
    if i > 0:
        d = c.x[i - 1] - c.x[i]
    if active[i]:
        f[i] = c.k * d / (1.0 + scale * scale)
    wp.atomic_add(total, 0, -wp.dot(d, wp.vec3(1.0, 2.0, scale)))


def test_structs_vectors_branches_and_atomic_sums():
    active = RNG.random(N) > 0.3

    def run(x, initial):
        return wp.launch(
            pulls,
            N,
            [{"k": jnp.float32(3.0), "x": x}, 0.5, active],
            [jax.ShapeDtypeStruct((N, 3), jnp.float32), initial],
        )

    x, g = jnp.asarray(RNG.normal(size=(2, N, 3)), jnp.float32)
    one = jnp.array([0.7], jnp.float32)
    transposed = transpose(run, x, one)((g, one))
    expected = jax.vjp(run, x, one)[1]((g, one))
    for made, wanted in zip(transposed, expected, strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)
    # The initial content of an output is added: a known one takes no part.
    alone = transpose(lambda x: run(x, one), x)((g, one))[0]
    np.testing.assert_allclose(alone, transposed[0], rtol=1e-6)
    pairs = zip(run(x, 0 * one), (g, one), strict=True)
    np.testing.assert_allclose((transposed[0] * x).sum(), sum((r * c).sum() for r, c in pairs), rtol=1e-4)


@wp.kernel
def tiled(a: wp.array2d[float], x: wp.array2d[float], y: wp.array2d[float]):
    product = wp.tile_matmul(wp.tile_load(a, shape=(8, 8)), wp.tile_load(x, shape=(8, 4)))
    wp.tile_store(y, product * 2.0 + wp.tile_load(x, shape=(8, 4)))


def test_tiles():
    a, x, y = (RNG.normal(size=shape).astype(np.float32) for shape in ((8, 8), (8, 4), (8, 4)))
    run = functools.partial(wp.launch_tiled, tiled, 1, outputs=[(8, 4)], block_dim=32)
    (made,) = transpose(lambda x: run([a, x])[0], x)(y)
    np.testing.assert_allclose(made, 2 * a.T @ y + y, rtol=1e-4, atol=1e-5)
    with pytest.raises(wp.NotDifferentiableError, match=r"not linear in 'a', which is added to"):
        transpose(lambda a: run([a, x])[0], a)(y)


# -- what is not linear says so, with the line


def kernel_of(body):
    @wp.kernel
    def bent(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        body(x, b, n, y, i)

    return bent


@wp.func
def squares(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    y[i] = x[i] * x[i]


@wp.func
def adds(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    y[i] = x[i] + b[i]


@wp.func
def rounds(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    y[i] = b[i] * float(int(x[i]))


@wp.func
def branches(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    if x[i] > 0.0:
        y[i] = x[i]


@wp.func
def trips(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    s = x[i]
    while s < 1.0:
        s += x[i]
    y[i] = s


@wp.func
def floors(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    y[i] = wp.floor(x[i])


@wp.func
def remains(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    y[i] = x[i] % 3.0


@wp.func
def magnitudes(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    y[i] = wp.abs(x[i])


@wp.func
def divides(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    y[i] = b[i] / x[i]


@wp.func
def extremes(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    wp.atomic_max(y, 0, x[i])


@wp.func
def indexes(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    y[int(x[i])] = x[i]


@wp.func
def forgets(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    y[i] = b[i]


@wp.func
def carries(x: wp.array[float], b: wp.array[float], n: wp.array[int], y: wp.array[float], i: int):
    p = x[i]
    for _ in range(n[i]):
        p = p * p
    y[i] = p


BENT = {
    squares: "x[i] * x[i]",
    adds: "x[i] + b[i]",
    rounds: "int(x[i])",
    branches: "x[i] > 0.0",
    trips: "s < 1.0",
    floors: "wp.floor(x[i])",
    remains: "x[i] % 3.0",
    magnitudes: "wp.abs(x[i])",
    divides: "b[i] / x[i]",
    extremes: "wp.atomic_max(y, 0, x[i])",
    indexes: "int(x[i])",
    forgets: "y[i] = b[i]",
    carries: "p * p",
}


@pytest.mark.parametrize("body", BENT, ids=lambda f: f.__name__)
def test_what_is_not_linear_is_refused_by_its_line(body):
    kernel = kernel_of(body)
    count = np.full(N, 2, np.int32)
    with pytest.raises(wp.NotDifferentiableError, match="not linear in 'x', which") as caught:
        transpose(lambda x: wp.launch(kernel, N, [x, Y, count], [N])[0], X)(Y)
    span = caught.value.diagnostic.span
    assert BENT[body] in linecache.getline(span.file, span.line)


def test_two_factors_together():
    with pytest.raises(wp.NotDifferentiableError, match="not linear in 'a' and 'x', which"):
        transpose(matvec, A, X)(Y)


@wp.kernel
def scratch(x: wp.array[float], n: wp.array[int], y: wp.array[float]):
    """Linear by way of an array of the thread's own, loops of any length, and constants that are zero."""
    i = wp.tid()
    v = wp.vec4(0.0)
    for k in range(n[i]):
        v[k % 4] = v[k % 4] + x[(i + k) % x.shape[0]] * float(k)
    if n[i] == 2:
        y[i] = 0.0
    else:
        y[i] = wp.where(n[i] > 3, -v[0], v[1] / 3.0) - wp.length(wp.vec2(float(i), 1.0)) * v[2]


def test_loops_scratch_and_zeros():
    n = np.arange(N, dtype=np.int32) % 6

    def run(x):
        return wp.launch(scratch, N, [x, n], [N])[0]

    dense = np.asarray(jax.vmap(run)(np.eye(N, dtype=np.float32))).T
    np.testing.assert_allclose(transpose(run, X)(Y)[0], dense.T @ Y, rtol=1e-5, atol=1e-5)


@wp.kernel
def scattered(x: wp.array[float], n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[n[i]] = x[i]


def test_stores_that_may_meet_are_refused():
    order = np.arange(N, dtype=np.int32)[::-1].copy()
    with pytest.raises(wp.NotDifferentiableError, match="several threads may store to one element of 'y'"):
        transpose(lambda x: wp.launch(scattered, N, [x, order], [N])[0], X)(Y)


@wp.kernel
def compacted(x: wp.array[float], count: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if i % 2 == 0:
        y[wp.atomic_add(count, 0, 1)] = 2.0 * x[i]


def test_counters_need_an_order():
    def run(x):
        return wp.launch(compacted, N, [x], [1, N])[1]

    with pytest.raises(wp.NotDifferentiableError, match="depends on the order of the threads"):
        transpose(run, X)(Y)
    with wp.config(deterministic=True):
        made = transpose(run, X)(Y)[0]
    np.testing.assert_allclose(made[::2], 2 * Y[: (N + 1) // 2], rtol=1e-6)
    np.testing.assert_array_equal(made[1::2], 0.0)


def test_switched_off():
    @wp.kernel(enable_backward=False)
    def fixed(a: wp.array2d[float], x: wp.array[float], y: wp.array[float]):
        y[wp.tid()] = a[wp.tid(), 0] * x[0]

    with pytest.raises(wp.NotDifferentiableError, match="enable_backward"):
        transpose(lambda x: wp.launch(fixed, N, [A, x], [N])[0], X)(Y)


# -- solvers


def check_solver(solve, a):
    """The solution and its gradients by the matrix and the right hand side."""

    @jax.jit
    def loss(a, b):
        return (solve(functools.partial(matvec, a), b) * Y).sum()

    x, back = np.linalg.solve(a.astype(float), X), np.linalg.solve(a.T.astype(float), Y)
    np.testing.assert_allclose(loss(a, X), (x * Y).sum(), rtol=1e-4, atol=1e-5)
    by_a, by_b = jax.grad(loss, (0, 1))(a, X)
    np.testing.assert_allclose(by_b, back, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(by_a, -np.outer(back, x), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("solver", [gmres, bicgstab, cg], ids=lambda f: f.__name__)
def test_solvers_of_jax(solver):
    check_solver(lambda f, b: solver(f, b, tol=1e-7, maxiter=100)[0], SYMMETRIC if solver is cg else A)


def test_custom_linear_solve_without_a_transpose_and_its_second_derivative():
    def solve(f, b):
        return jax.lax.custom_linear_solve(
            f, b, lambda f, b: jnp.linalg.solve(jax.jacfwd(f)(b), b), lambda f, b: jnp.linalg.solve(jax.jacfwd(f)(b), b)
        )

    check_solver(solve, A)

    def twice(run):
        def loss(a):
            return (solve(functools.partial(run, a), X) ** 2).sum()

        return jax.jvp(jax.grad(loss), (A,), (SYMMETRIC,))[1]

    np.testing.assert_allclose(twice(matvec), twice(jnp.matmul), rtol=1e-3, atol=1e-5)


DENSE = {"LU": {}, "QR": {}, "SVD": {}, "AutoLinearSolver": {"well_posed": True}}
ITERATIVE = {name: {"rtol": 1e-6, "atol": 1e-6} for name in ("CG", "GMRES", "BiCGStab", "LSMR")}


@pytest.mark.parametrize("name, options", [*DENSE.items(), *ITERATIVE.items()])
def test_solvers_of_lineax(name, options, request):
    lineax = pytest.importorskip("lineax")
    if not hasattr(lineax, name):
        pytest.skip(f"this version has no {name}")
    if name == "BiCGStab":
        # Without 64-bit types, it takes any negative coefficient for a breakdown.
        request.getfixturevalue("x64")
    tags = lineax.positive_semidefinite_tag if name == "CG" else ()
    solver = getattr(lineax, name)(**options)

    def solve(f, b):
        operator = lineax.FunctionLinearOperator(f, jax.ShapeDtypeStruct(b.shape, b.dtype), tags)
        return lineax.linear_solve(operator, b, solver).value

    check_solver(solve, SYMMETRIC if name == "CG" else A)
