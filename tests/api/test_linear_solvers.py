"""`wp.optim.linear`: iterates of SciPy's solvers, counts and residuals of Warp's, and what is refused.

With Warp, as `python tests/api/test_linear_solvers.py` runs them, what solvers return goes to `linear_solvers.json`.
"""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp
from jwarp.arrays import allocation
from jwarp.arrays.allocation import new_memory

KNOWN = Path(__file__).with_suffix("").with_name("linear_solvers.json")
N = 40
SYMMETRIC = ("cg", "cr")
SOLVERS = (*SYMMETRIC, "bicgstab", "gmres")


def system(name, n=N):
    """A matrix that a solver is for, with a diagonal that differs, and a right-hand side."""
    make = np.random.default_rng(3)
    q = make.normal(size=(n, n))
    matrix = q @ q.T / n + np.diag(make.uniform(0.5, 4.0, n))
    if name not in SYMMETRIC:
        matrix += 0.5 * make.normal(size=(n, n)) / np.sqrt(n)
    return matrix, make.normal(size=n), make.normal(size=n)


CASES = [
    (name, settings)
    for name in SOLVERS
    for settings in (
        {},
        {"maxiter": 7},
        {"check_every": 3, "tol": 1e-4},
        {"atol": 0.5},
        {"tol": 1e-2, "atol": 0.3, "maxiter": 100},
        {"tol": 0.0, "atol": 0.0, "maxiter": 12},
        {"preconditioner": "diag"},
        {"preconditioner": "diag_abs", "check_every": 4, "tol": 1e-5},
        {"restart": 5, "tol": 1e-6},
        {"is_left_preconditioner": True, "preconditioner": "diag", "tol": 1e-6},
    )
    if not (name == "bicgstab" and "restart" in settings)
    and not (name in SYMMETRIC and "is_left_preconditioner" in settings)
]


def solved(w, name, settings):
    """The result of a solver in float64, its reports to the callback, and the final x, under Warp or jwarp."""
    matrix, b, x0 = system(name)
    linear, settings, told = w.optim.linear, dict(settings), []
    A, x = w.array(matrix, dtype=w.float64), w.array(x0, dtype=w.float64)
    kind = settings.pop("preconditioner", None)
    settings["M"] = None if kind is None else linear.preconditioner(A, kind)
    given = w.array(b, dtype=w.float64)
    returned = getattr(linear, name)(A, given, x, callback=lambda *now: told.append(now), **settings)
    return {"returned": list(map(float, returned)), "told": np.float64(told).tolist(), "x": x.numpy().tolist()}


@pytest.mark.parametrize("case", range(len(CASES)), ids=str)
def test_solvers_count_and_tell_what_those_of_warp_do(case):
    name, settings = CASES[case]
    known, found = json.loads(KNOWN.read_text())[case], solved(wp, name, settings)
    assert found["returned"][0] == known["returned"][0]
    assert_array_equal(np.float64(found["told"])[:, 0], np.float64(known["told"])[:, 0])
    assert_allclose(found["returned"][2], known["returned"][2], rtol=1e-12)
    assert found["returned"][1:] == pytest.approx(found["told"][-1][1:])
    if name not in SYMMETRIC and known["returned"][1] <= known["returned"][2]:
        # Warp's stop in the middle of an iteration, or go on until the next check.
        assert found["returned"][1] <= found["returned"][2]
        return
    # Rounding is another one, which each iteration makes more of.
    assert_allclose(found["x"], known["x"], rtol=0, atol=1e-9)
    assert_allclose(np.float64(found["told"])[:, 1], np.float64(known["told"])[:, 1], rtol=2e-2, atol=1e-11)


def by_scipy(name, matrix, b, x0, count, M):
    from scipy.sparse import linalg

    method = {"cr": "minres"}.get(name, name)  # which have the same iterates for such a matrix
    named = {"restart": count, "maxiter": 1} if name == "gmres" else {"maxiter": count}
    tolerance = {"rtol": 0.0} if name == "cr" else {"rtol": 0.0, "atol": 0.0}
    return getattr(linalg, method)(matrix, b, x0=x0, M=M, **tolerance, **named)[0]


@pytest.mark.parametrize("count", [1, 2, 9])
@pytest.mark.parametrize("is_preconditioned", [False, True])
@pytest.mark.parametrize("name", SOLVERS)
def test_iterates_are_those_of_scipy(name, is_preconditioned, count):
    if name == "cr" and is_preconditioned:
        pytest.skip("minres measures its residual otherwise")
    matrix, b, x0 = system(name)
    A, x = wp.array(matrix, dtype=wp.float64), wp.array(x0, dtype=wp.float64)
    M = wp.optim.linear.preconditioner(A) if is_preconditioned else None
    named = {"restart": count} if name == "gmres" else {}
    done, residual, _ = getattr(wp.optim.linear, name)(
        A, wp.array(b, dtype=wp.float64), x, tol=0.0, maxiter=count, M=M, **named
    )
    inverse = np.diag(1 / np.diag(matrix)) if is_preconditioned else None
    if name == "gmres" and is_preconditioned:  # SciPy's is on the left
        expected = x0 + inverse @ by_scipy(name, matrix @ inverse, b - matrix @ x0, None, count, None)
    else:
        expected = by_scipy(name, matrix, b, x0, count, inverse)
    assert done == count
    assert_allclose(x.numpy(), expected, rtol=1e-8, atol=1e-10)
    assert_allclose(residual, np.linalg.norm(b - matrix @ x.numpy()), rtol=1e-6)


@wp.kernel
def diffused(x: wp.array[wp.vec3], y: wp.array[wp.vec3], z: wp.array[wp.vec3], alpha: float, beta: float):
    i = wp.tid()
    total = 2.5 * x[i]
    if i > 0:
        total -= x[i - 1]
    if i < x.shape[0] - 1:
        total -= x[i + 1]
    z[i] = alpha * total + wp.where(beta == 0.0, wp.vec3(0.0), beta * y[i])


def band(n):
    """The factor of `diffused` for each component."""
    return 2.5 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)


def operator(n, **named):
    def matvec(x, y, z, *, alpha, beta):
        assert x.dtype is wp.vec3 and x.shape == y.shape == z.shape == (n,)
        wp.launch(diffused, n, inputs=[x, y, z, alpha, beta])

    return wp.optim.linear.LinearOperator((3 * n, 3 * n), wp.vec3, "cpu", matvec, **named)


@pytest.mark.parametrize("name", SOLVERS)
def test_operators_of_a_program_on_vectors(name):
    b = np.random.default_rng(1).normal(size=(30, 3)).astype(np.float32)
    x = wp.zeros(30, dtype=wp.vec3)
    done, residual, tolerance = getattr(wp.optim.linear, name)(operator(30), wp.array(b, dtype=wp.vec3), x, tol=1e-5)
    assert 0 < done <= 90 and residual <= tolerance
    assert_allclose(x.numpy(), np.linalg.solve(band(30), b), atol=1e-4)


@wp.kernel
def scaled(k: float, x: wp.array[float], y: wp.array[float], z: wp.array[float], alpha: float, beta: float):
    i = wp.tid()
    z[i] = alpha * (k + 0.1 * float(i)) * x[i] + beta * y[i]


@pytest.mark.parametrize("name", SOLVERS)
def test_operators_may_add_zero_times_what_is_in_y(monkeypatch, name):
    """They do so in Newton; memory that nobody wrote may hold NaN."""

    def not_a_number(nbytes, zeroed, device):
        made = new_memory(nbytes, zeroed, device)
        if not zeroed:
            made.buffer[:] = 0xFF
        return made

    monkeypatch.setattr(allocation, "new_memory", not_a_number)
    assert np.isnan(wp.empty(3, dtype=float).numpy()).all()
    n, b = 12, np.random.default_rng(2).normal(size=12).astype(np.float32)

    def diagonal(k):
        def matvec(x, y, z, alpha, beta):
            wp.launch(scaled, n, inputs=[k, x, y, z, alpha, beta])

        return wp.optim.linear.LinearOperator((n, n), wp.float32, "cpu", matvec)

    x = wp.zeros(n, dtype=float)
    _, residual, tolerance = getattr(wp.optim.linear, name)(diagonal(2.0), wp.array(b), x, tol=1e-5, M=diagonal(0.5))
    assert residual <= tolerance
    assert_allclose(x.numpy(), b / (2.0 + 0.1 * np.arange(n)), atol=1e-4)


@pytest.mark.parametrize("kind", [wp.vec4, wp.mat22], ids=repr)
@pytest.mark.parametrize("name", SOLVERS)
def test_vectors_of_vectors_and_matrices(name, kind):
    matrix, b, _ = system(name)
    parts = b.reshape(-1, *kind().shape)
    x = wp.zeros(N // 4, dtype=kind)
    _, residual, tolerance = getattr(wp.optim.linear, name)(
        wp.array(matrix, dtype=float), wp.array(parts, dtype=kind), x, tol=1e-4
    )
    assert residual <= tolerance
    assert_allclose(x.numpy(), np.linalg.solve(matrix, b).reshape(parts.shape), atol=1e-2)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("check_every", [5, 0])
def test_several_systems_are_solved_each_until_it_is_done(name, check_every):
    make = np.random.default_rng(2)
    sizes = [3, 12, 0, 5, 4]
    starts = np.cumsum([0, *sizes])
    matrix = np.zeros((24, 24))
    for lo, hi in itertools.pairwise(starts):
        q = make.normal(size=(hi - lo, hi - lo))
        matrix[lo:hi, lo:hi] = q @ q.T + np.eye(hi - lo)
    b, x0 = make.normal(size=(2, 24))
    x0[20:] = make.normal(size=4)
    offsets = wp.array(starts[:-1], dtype=int)  # the last numbers are of none
    A = wp.optim.linear.aslinearoperator(wp.array(matrix, dtype=wp.float64), offsets, max_batch_length=12)
    assert A.batch_count == 4
    x = wp.array(x0, dtype=wp.float64)
    found = getattr(wp.optim.linear, name)(A, wp.array(b, dtype=wp.float64), x, tol=1e-10, check_every=check_every)
    expected = np.linalg.solve(matrix, b)
    assert_allclose(x.numpy()[:20], expected[:20], atol=1e-7)
    assert_array_equal(x.numpy()[20:], x0[20:])
    if check_every:
        assert found[1] <= found[2]
    else:
        count, residuals, tolerances = (a.numpy() for a in found)
        assert count.shape == (1,) and (residuals <= tolerances).all() and residuals.shape == (4,)


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_that_read_nothing_are_captured_and_called_again(name):
    matrix, b, _ = system(name)
    A, x = wp.array(matrix, dtype=wp.float64), wp.zeros(N, dtype=wp.float64)
    given = wp.array(b, dtype=wp.float64)
    solver = getattr(wp.optim.linear, name)(A, given, x, tol=1e-9, check_every=0, run=False)
    with wp.ScopedCapture() as capture:
        x.zero_()
        done, residual, tolerance = solver()
    for scale in (1.0, -3.0):
        given.assign(scale * b)
        wp.capture_launch(capture.graph)
        assert_allclose(x.numpy(), scale * np.linalg.solve(matrix, b), atol=1e-7)
        assert 0 < done.numpy()[0] <= 62 and residual.numpy()[0] <= tolerance.numpy()[0]
    other, target = wp.array(b[::-1].copy(), dtype=wp.float64), wp.zeros(N, dtype=wp.float64)
    solver(b=other, x=target)
    assert_allclose(target.numpy(), np.linalg.solve(matrix, b[::-1]), atol=1e-7)
    with pytest.raises(wp.LaunchError, match="arrays of the shapes and types"):
        solver(b=wp.zeros(N + 1, dtype=wp.float64))


@wp.kernel
def note(done: wp.array[int], residual: wp.array[wp.float64], tolerance: wp.array[wp.float64]):
    if residual[0] > tolerance[0]:
        tolerance[0] = wp.where(done[0] == 3, wp.float64(1e6), tolerance[0])


def test_a_kernel_as_callback_runs_after_each_iteration():
    matrix, b, _ = system("cg")
    A, x = wp.array(matrix, dtype=wp.float64), wp.zeros(N, dtype=wp.float64)
    done, _, tolerance = wp.optim.linear.cg(A, wp.array(b, dtype=wp.float64), x, callback=note, check_every=0)
    assert done.numpy()[0] == 4 and tolerance.numpy()[0] == 1e6  # it has raised the tolerance after three


def test_solutions_are_functions_for_jax():
    import jax
    import jax.numpy as jnp

    matrix, b, _ = system("cg", 12)

    def solution(A: wp.array2d[float], b: wp.array[float]):
        x = wp.zeros(12, dtype=float)
        wp.optim.linear.cg(A, b, x, tol=1e-5, check_every=0)
        return x

    found, changed = jax.jit(wp.functionalize(solution))(jnp.float32(matrix), jnp.float32(b))
    assert not changed
    assert_allclose(found, np.linalg.solve(matrix, b), atol=1e-4)


@pytest.mark.parametrize("name", ["cg", "bicgstab"])
def test_gradients_of_solutions_are_those_of_the_inverse(name):
    import jax
    import jax.numpy as jnp

    matrix, b, weights = system(name, 8)

    def solution(A: wp.array2d[float], b: wp.array[float]):
        x = wp.zeros(8, dtype=float)
        getattr(wp.optim.linear, name)(A, b, x, tol=1e-6, check_every=0)
        return wp.to_jax(x)

    solve = wp.functionalize(solution, max_trips=16)
    found = jax.jit(jax.grad(lambda b: solve(jnp.float32(matrix), b)[0] @ jnp.float32(weights)))(jnp.float32(b))
    assert_allclose(found, np.linalg.solve(matrix.T, weights), atol=1e-3)


@pytest.mark.parametrize("dtype", [wp.float16, wp.float32, wp.float64])
def test_diagonals_of_all_floats(dtype):
    make = np.random.default_rng(5)
    diagonal, b = make.uniform(1.0, 3.0, 20), make.normal(size=20)
    A, x = wp.array(diagonal, dtype=dtype), wp.zeros(20, dtype=dtype)
    M = wp.optim.linear.preconditioner(A)
    done, residual, tolerance = wp.optim.linear.cg(A, wp.array(b, dtype=dtype), x, M=M, check_every=1, maxiter=5)
    assert residual <= tolerance
    assert 1 <= done <= 3
    assert_allclose(x.numpy().astype(np.float64), b / diagonal, rtol={"float16": 4e-3}.get(dtype.name, 1e-5))


def test_zeros_on_the_diagonal_count_as_ones():
    matrix = np.diag(np.float32([2.0, 0.0, -4.0]))
    z = wp.zeros(3, dtype=float)
    for kind, wanted in (("diag", [0.5, 1.0, -0.25]), ("diag_abs", [0.5, 1.0, 0.25])):
        M = wp.optim.linear.preconditioner(wp.array(matrix), kind)
        M.matvec(wp.full(3, 1.0, dtype=float), z, z, 1.0, 0.0)
        assert z.numpy().tolist() == wanted
    assert wp.optim.linear.preconditioner(wp.array(matrix), "id") is None


def test_nothing_to_do():
    A, x = wp.array(np.eye(4, dtype=np.float32)), wp.array(np.arange(4.0), dtype=float)
    told = []
    assert wp.optim.linear.cg(A, wp.array(np.arange(4.0), dtype=float), x, callback=lambda *a: told.append(a))[0] == 0
    assert [a[0] for a in told] == [0] and x.numpy().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert wp.optim.linear.gmres(A, wp.zeros(4, dtype=float), wp.zeros(4, dtype=float))[:2] == (0, 0.0)


def ones(n=3, dtype=float):
    return wp.full(n, 1.0, dtype=dtype)


@pytest.mark.parametrize(
    "ask, kind, says",
    [
        (lambda w: w.aslinearoperator(np.eye(3)), wp.KernelTypeError, "not ndarray"),
        (lambda w: w.aslinearoperator(wp.zeros((2, 2), dtype=wp.mat33)), wp.KernelTypeError, "LinearOperator"),
        (lambda w: w.preconditioner(ones(), "ilu"), wp.LaunchError, "no preconditioner 'ilu'"),
        (
            lambda w: w.preconditioner(ones(), "block_jacobi_direct"),
            wp.LaunchError,
            "is for a BsrMatrix",
        ),
        (lambda w: w.preconditioner(operator(3)), wp.LaunchError, "diagonal of an operator is not known"),
        (lambda w: w.preconditioner(wp.zeros((3, 2), dtype=float)), wp.LaunchError, "no inverse"),
        (lambda w: w.cg(wp.zeros((3, 4), dtype=float), ones(), ones()), wp.LaunchError, "must be square"),
        (lambda w: w.cg(ones(4), ones(), ones()), wp.LaunchError, "A has the shape"),
        (lambda w: w.cg(ones(), ones(), ones(4)), wp.LaunchError, "b has the shape"),
        (lambda w: w.cg(ones(), ones(3, wp.float64), ones(3, wp.float64)), wp.LaunchError, "A is of float32"),
        (lambda w: w.cg(ones(), wp.zeros(3, dtype=int), ones()), wp.KernelTypeError, "'b' must be an array"),
        (lambda w: w.cg(ones(), np.ones(3), ones()), wp.KernelTypeError, "'b' must be an array"),
        (lambda w: w.cr(ones(), ones(), ones(), restart=0), wp.LaunchError, "restart must be positive"),
        (lambda w: w.cr(ones(), ones(), ones(), restart=2.5), wp.KernelTypeError, "restart must be an int"),
        (lambda w: w.gmres(ones(), ones(), ones(), restart=0), wp.LaunchError, "restart must be positive"),
        (lambda w: w.cg(ones(), ones(), ones(), callback=print, check_every=0), wp.KernelTypeError, "is a kernel"),
        (lambda w: w.LinearOperator((3, 3), float, "cpu", print, None, 5), wp.LaunchError, "max_batch_length"),
        (lambda w: w.aslinearoperator(ones(), ones()), wp.KernelTypeError, "array of int32"),
    ],
)
def test_what_does_not_fit_is_refused(ask, kind, says):
    with pytest.raises(kind, match=says):
        ask(wp.optim.linear)


if __name__ == "__main__":
    import warp
    import warp.optim.linear

    KNOWN.write_text(json.dumps([solved(warp, *case) for case in CASES]) + "\n")
