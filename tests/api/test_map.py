"""`wp.map`: functions applied to the elements of arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface

rng = np.random.default_rng(0)
X = jnp.asarray(rng.normal(size=5), jnp.float32)
V = jnp.asarray(rng.normal(size=(5, 3)), jnp.float32)


@wp.func
def both(a: wp.vec3, b: wp.vec3):
    return wp.dot(a, b), wp.cross(a, b)


@wp.func
def turned(m: wp.mat33, v: wp.vec3, k: float = 2.0):
    return k * (m * v)


@wp.struct
class Line:
    at: float
    slope: float


@wp.func
def on_line(line: Line, x: float):
    return line.at + line.slope * x


def plain(x, k):
    return x * k + 1.0


def times(factor):
    return wp.map(lambda x: x * factor, X)


def test_functions_of_every_kind():
    np.testing.assert_allclose(wp.map(wp.sin, X), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(wp.map(abs, X), np.abs(X))
    np.testing.assert_allclose(wp.map(plain, X, 3.0), X * 3 + 1, rtol=1e-6)
    np.testing.assert_allclose(wp.map(lambda x: wp.where(x > 0.0, x, 2.0 * x), X), np.where(X > 0, X, 2 * X))
    pair = [lambda x: x + 1.0, lambda x: x + 2.0]
    np.testing.assert_allclose(wp.map(pair[1], X) - wp.map(pair[0], X), np.ones(5), rtol=1e-5)
    for factor in (2.0, 3.0):
        np.testing.assert_allclose(times(factor), X * factor)
    first, second = wp.map(both, V, V[:1])
    np.testing.assert_allclose(first, V @ V[0], rtol=1e-5)
    np.testing.assert_allclose(second, np.cross(V, V[:1]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(wp.map(on_line, Line(1.0, 2.0), X), 1 + 2 * X, rtol=1e-6)


def test_elements_are_numbers_unless_the_function_says_otherwise():
    np.testing.assert_allclose(wp.map(wp.length, V), np.linalg.norm(V, axis=1), rtol=1e-6)
    np.testing.assert_allclose(wp.map(wp.dot, V, wp.vec3(1.0, 2.0, 3.0)), V @ np.array([1.0, 2.0, 3.0]), rtol=1e-5)
    assert wp.map(wp.sqrt, jnp.abs(V)).shape == (5, 3)
    m = jnp.asarray(rng.normal(size=(5, 3, 3)), jnp.float32)
    np.testing.assert_allclose(wp.map(turned, m, V, 3.0), 3 * jnp.einsum("nij,nj->ni", m, V), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(wp.map(turned, m[0], V), 2 * V @ m[0].T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(wp.map(wp.determinant, m), jnp.linalg.det(m), rtol=1e-4, atol=1e-5)


def test_arrays_are_broadcast():
    found = wp.map(lambda x, y: x - y, X[:, None, None], jnp.ones((1, 4, 2)) * X[:2])
    np.testing.assert_allclose(found, X[:, None, None] - np.ones((1, 4, 2)) * X[:2], rtol=1e-6)
    assert wp.map(wp.add, jnp.zeros((0, 1)), jnp.zeros(3)).shape == (0, 3)


def test_transformations():
    k = 1.5

    def mapped(x, k):
        return wp.map(lambda x, k: k * wp.sin(x), x, k)

    np.testing.assert_allclose(jax.jit(mapped)(X, k), k * jnp.sin(X), rtol=1e-6)
    dx, dk = jax.grad(lambda x, k: mapped(x, k).sum(), (0, 1))(X, k)
    np.testing.assert_allclose(dx, k * jnp.cos(X), rtol=1e-5)
    np.testing.assert_allclose(dk, jnp.sin(X).sum(), rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(mapped, (0, None))(X, k), k * jnp.sin(X), rtol=1e-6)  # one number at a time
    np.testing.assert_allclose(jax.vmap(mapped)(V, X), X[:, None] * jnp.sin(V), rtol=1e-6)
    assert isinstance(jax.jit(lambda: wp.map(wp.sin, np.ones(3, np.float32)))(), jax.Array)


def test_numpy_arrays():
    x = np.linspace(-1, 1, 6)
    found = wp.map(lambda x, k: x * k, x, 2.0)  # a number that the function takes as a double only
    assert type(found) is np.ndarray and found.dtype == np.float64
    np.testing.assert_array_equal(found, 2 * x)
    expected = np.clip(x, -0.5, 0.5)
    assert wp.map(wp.clamp, x, -0.5, 0.5, out=x) is x
    np.testing.assert_array_equal(x, expected)
    v = np.asarray(V)
    out = (np.zeros(5, np.float32), np.zeros((5, 3), np.float32))
    assert wp.map(both, v, V, out=out)[1] is out[1]
    np.testing.assert_allclose(out[1], np.zeros((5, 3)), atol=1e-6)
    assert isinstance(wp.map(wp.add, np.asarray(X), X), jax.Array)


def test_indexed_arrays():
    indices = np.array([4, 0, 7, -1], np.int32)
    expected = [X[4] * 2, X[0] * 2, 0, X[4] * 2]  # what is outside is zero, as in kernels
    for x, where in ((X, jnp.asarray(indices)), (np.asarray(X), indices)):
        found = wp.map(lambda x: x * 2.0, wp.indexedarray(x, where))
        assert isinstance(found, type(x))
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    dx = jax.grad(lambda x: wp.map(wp.sin, wp.indexedarray(x, jnp.array([1, 1]))).sum())(X)
    np.testing.assert_allclose(dx, jnp.zeros(5).at[1].set(2 * jnp.cos(X[1])), rtol=1e-5)


def test_the_kernel():
    kernel = wp.map(turned, jnp.zeros((4, 3, 3)), V[:1], return_kernel=True)
    assert repr(kernel) == "<wp.kernel map_turned(m: array[mat33], v: array[vec3], out: array[vec3])>"
    m = jnp.eye(3)[None]
    np.testing.assert_allclose(wp.launch(kernel, 1, [m, V[:1]], [1])[0], 2 * V[:1], rtol=1e-6)
    again = wp.map(turned, jnp.ones((7, 3, 3)), V[:1], return_kernel=True)
    assert again is kernel


K, L = wp.KernelTypeError, wp.LaunchError


def limits(q, most):
    return wp.length(q) < most


@pytest.mark.parametrize("f", [limits, lambda q, most: wp.length(q) < most])
def test_kernels_call_functions_that_are_made_of_functions(f):
    inside, module = wp.utils.create_warp_function(f)
    assert module is wp.get_module(__name__)

    @wp.kernel
    def outside(q: wp.array[wp.vec3], most: float, found: wp.array[bool]):
        i = wp.tid()
        found[i] = not wp.bool(inside(q[i], most))

    (found,) = wp.launch(outside, 5, [V, 1.2], [5])
    wanted = np.linalg.norm(V, axis=1) >= 1.2
    assert wanted.any() and not wanted.all()
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(K, match=r"wp\.utils\.create_warp_function needs a function, not 3"):
        wp.utils.create_warp_function(3)


@pytest.mark.parametrize(
    ("run", "error", "words"),
    [
        (lambda: wp.map(3, X), K, "wp.map needs a function, not 3"),
        (lambda: wp.map(wp.sin, 1.0), L, "map requires at least one warp.array input"),
        (lambda: wp.map(wp.sin, X, X), K, "wp.sin takes 1 argument"),
        (lambda: wp.map(both, V), K, r"`both`: Number of input arguments \(1\) does not match"),
        (lambda: wp.map(both, V, X), K, "`b` of `both` must be vec3, not an element of float32"),
        (lambda: wp.map(wp.add, X, jnp.ones(3)), L, r"Shapes \(5,\) and \(3,\) are not broadcastable"),
        (lambda: wp.map(wp.sin, X, out=X), L, "out is a JAX array"),
        (
            lambda: wp.map(wp.sin, X, out=np.zeros(3, np.float32)),
            L,
            r"map_sin: Output array shape \(3,\) does not match",
        ),
        (lambda: wp.map(both, V, V, out=np.zeros(5, np.float32)), L, r"output arrays \(1\) does not .* outputs \(2\)"),
        (lambda: wp.map(wp.sin, X, out=np.zeros(3, np.float32)), TypeError, "Output array shape"),
        (lambda: wp.map(both, V, V, out=[np.zeros(5, np.float32)] * 3), TypeError, r"output arrays \(3\) does not"),
        (lambda: wp.map(wp.sin, X, device="cpu"), L, "there is no keyword 'device'"),
        (lambda: wp.map(wp.sin, "text"), K, "input 0 is str text"),
        (lambda: wp.map(lambda x: wp.printf("%f", x), X), K, "gives nothing"),
        (lambda: wp.map(wp.tile_sum, X), K, "wp.map needs a function"),
        (lambda: wp.map(eval("lambda x: x"), X), wp.CompileError, "the text of the lambda is not found"),
        (lambda: wp.map(lambda x: x + 1, X), K, r"must be the same, got \['float32', 'int32'\]"),
    ],
)
def test_what_is_refused(run, error, words):
    with pytest.raises(error, match=words):
        run()


@pytest.mark.parametrize("in_program", [False, True])
def test_several_results_are_a_list_in_programs(monkeypatch, in_program):
    monkeypatch.setattr(surface, "is_warps", in_program)

    @wp.func
    def both(a: float):
        return a + 2.0, 3.0 * a

    found = wp.map(both, wp.array([1.0, 2.0], dtype=float))
    assert type(found) is (list if in_program else tuple)
    assert [x.numpy().tolist() for x in found] == [[3.0, 4.0], [3.0, 6.0]]
    content = [wp.zeros(4, dtype=float) for _ in found]
    chosen = wp.array([3, 1], dtype=int)
    wp.map(both, wp.array([1.0, 2.0], dtype=float), out=[wp.indexedarray(x, [chosen]) for x in content])
    assert [x.numpy().tolist() for x in content] == [[0.0, 4.0, 0.0, 3.0], [0.0, 6.0, 0.0, 3.0]]
