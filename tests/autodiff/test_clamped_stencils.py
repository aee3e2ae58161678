"""Gradients of stencils at clamped indices: gathered where the launch allows it, and those of NumPy everywhere."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from textual_ir import read

import jwarp as wp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.program import program_of
from jwarp.compiler.write_conflicts import gatherable
from jwarp.config import config
from jwarp.launching.geometry import Geometry

SEEDS = 24

CLAMPED = """
    kernel clamped(x: array[float64], y: array[float64]), tid 1
      %0: int32 = tid 0
      %1: int32 = shape x axis 0
      %2: int32 = sub %0, 2
      %3: int32 = max %2, 0
      %4: float64 = load x[%3]
      %5: int32 = add %0, 1
      %6: int32 = sub %1, 1
      %7: int32 = min %5, %6
      %8: float64 = load x[%7]
      %9: float64 = mul %4, %8
      store y[%0], %9
"""


def one(a: int, b: int, ends: int):
    """A stencil over one dimension: clamped below, above, and on both sides."""

    @wp.kernel
    def stencil(n: int, u: wp.array[wp.float64], y: wp.array[wp.float64]):
        i = wp.tid()
        left = u[wp.max(i - a, 0)]
        right = u[wp.min(n - 1, i + b)]
        if wp.static(ends == 0):
            y[i] = left * right
        elif wp.static(ends == 1):
            y[i] = left * right + u[wp.clamp(i + b, 0, n - 1)] * u[wp.clamp(i - a, 0, n - 1)]
        else:
            if left > wp.float64(0.0):
                y[i] = left * left + u[wp.max(0, wp.min(i - a, n - 1))] - right
            else:
                y[i] = right * left * left

    return stencil


def reference(u, w, n, a, b, ends):
    """Value and gradient in NumPy. Negative indices count from the end, too; what lies outside is zero."""
    i = np.arange(len(w))
    padded = np.append(u, 0.0)

    def places(index):
        index = np.where(index < 0, index + len(u), index)
        return np.where((index >= 0) & (index < len(u)), index, len(u))

    low, high = places(np.maximum(i - a, 0)), places(np.minimum(i + b, n - 1))
    both, below = (places(np.minimum(np.maximum(j, 0), n - 1)) for j in (i + b, i - a))
    inner = places(np.maximum(np.minimum(i - a, n - 1), 0))
    left, right = padded[low], padded[high]
    positive = left > 0
    if ends == 0:
        value, parts = left * right, [(low, right), (high, left)]
    elif ends == 1:
        value = left * right + padded[both] * padded[below]
        parts = [(low, right), (high, left), (both, padded[below]), (below, padded[both])]
    else:
        value = np.where(positive, left * left + padded[inner] - right, right * left * left)
        parts = [(low, np.where(positive, 2 * left, 2 * right * left)), (inner, np.where(positive, 1.0, 0.0)),
                 (high, np.where(positive, -1.0, left * left))]  # fmt: skip
    gradient = np.zeros_like(padded)
    for at, slopes in parts:
        np.add.at(gradient, at, slopes * w)
    return value, gradient[:-1]


def adjoint(kernel, dims, inputs, y, w, start):
    """The gradient of the last input, added to `start`."""
    found = start.copy()
    wanted = [*[None] * (len(inputs) - 1), found]
    wp.launch(kernel, dims, inputs, [np.zeros_like(y)], adjoint=True, adj_outputs=[w], adj_inputs=wanted)
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_one_dimension(seed):
    """Launches of fewer, as many and more threads than elements; arrays of one and two; ends inside of the array."""
    rng = np.random.default_rng(seed)
    a, b, ends = seed % 4, (seed // 4) % 5, seed % 3
    kernel = one(a, b, ends)
    for extent, n, count in [
        (1, 1, 1), (2, 2, 2), (37, 37, 37), (3, 3, 0), (0, 0, 0), (40, 40, 25), (40, 19, 19), (40, 19, 40), (7, 7, 30),
        (9, 0, 9), (5, 4, 1),
    ]:  # fmt: skip
        u, w, start = rng.normal(size=extent), rng.normal(size=count), rng.normal(size=extent)
        y = np.zeros(count)
        wp.launch(kernel, count, [n, u], [y])
        found = adjoint(kernel, count, [n, u], y, w, start)
        value, gradient = reference(u, w, n, a, b, ends)
        np.testing.assert_allclose(y, value, rtol=1e-12, atol=1e-12, err_msg=f"{extent, n, count}")
        np.testing.assert_allclose(found - start, gradient, rtol=1e-12, atol=1e-12, err_msg=f"{extent, n, count}")


@wp.kernel
def plane(u: wp.array2d[wp.float64], y: wp.array2d[wp.float64]):
    i, j = wp.tid()
    n, m = u.shape[0], u.shape[1]
    across = u[wp.max(i - 1, 0), wp.min(j + 2, m - 1)] * u[wp.min(i + 1, n - 1), wp.max(j - 1, 0)]
    y[i, j] = across + u[wp.clamp(i + 1, 0, n - 1), j] * u[i, wp.max(j - 3, 0)] - wp.sin(u[i, j])


def in_plane(u):
    i, j = jnp.indices(u.shape)
    n, m = u.shape
    across = u[jnp.maximum(i - 1, 0), jnp.minimum(j + 2, m - 1)] * u[jnp.minimum(i + 1, n - 1), jnp.maximum(j - 1, 0)]
    return across + u[jnp.minimum(i + 1, n - 1), j] * u[i, jnp.maximum(j - 3, 0)] - jnp.sin(u)


@wp.kernel
def space(u: wp.array3d[wp.float64], y: wp.array3d[wp.float64]):
    i, j, k = wp.tid()
    l, m, n = u.shape[0], u.shape[1], u.shape[2]
    first = u[wp.max(i - 1, 0), j, k] * u[wp.min(i + 1, l - 1), j, k]
    second = u[i, wp.max(j - 1, 0), k] * u[i, wp.min(j + 1, m - 1), k]
    y[i, j, k] = first + second + u[i, j, wp.max(k - 1, 0)] * u[i, j, wp.min(k + 1, n - 1)]


def in_space(u):
    i, j, k = jnp.indices(u.shape)
    l, m, n = u.shape
    first = u[jnp.maximum(i - 1, 0), j, k] * u[jnp.minimum(i + 1, l - 1), j, k]
    second = u[i, jnp.maximum(j - 1, 0), k] * u[i, jnp.minimum(j + 1, m - 1), k]
    return first + second + u[i, j, jnp.maximum(k - 1, 0)] * u[i, j, jnp.minimum(k + 1, n - 1)]


CASES = [
    (plane, in_plane, (9, 21)), (plane, in_plane, (1, 2)), (space, in_space, (5, 4, 19)), (space, in_space, (2, 2, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "same", "shape"), CASES)
def test_more_dimensions(x64, kernel, same, shape):
    """Under JAX and in place, with batches and second derivatives."""
    rng = np.random.default_rng(len(shape))
    u, w = rng.normal(size=(2, *shape))
    f, direction = wp.jax_kernel(kernel), rng.normal(size=shape)
    np.testing.assert_allclose(f(u)[0], same(jnp.asarray(u)), rtol=1e-12)

    def gradient(function):
        return jax.grad(lambda u: (function(u) * w).sum())

    def own(u):
        return f(u)[0]

    np.testing.assert_allclose(gradient(own)(u), gradient(same)(u), rtol=1e-11, atol=1e-12)
    found = adjoint(kernel, shape, [u], u, w, u)
    np.testing.assert_allclose(found - u, gradient(same)(u), rtol=1e-11, atol=1e-12)
    if u.size < 50:  # of which the first derivative shows what ends do
        return
    seconds = [jax.jvp(gradient(g), (jnp.asarray(u),), (jnp.asarray(direction),))[1] for g in (own, same)]
    np.testing.assert_allclose(*seconds, rtol=1e-11, atol=1e-12)
    batch = jnp.asarray(rng.normal(size=(3, *shape)))
    np.testing.assert_allclose(jax.vmap(gradient(own))(batch), jax.vmap(gradient(same))(batch), rtol=1e-11, atol=1e-12)


@pytest.mark.quick
def test_the_interpreter_finds_the_same_gathered_and_scattered():
    kernel = read(CLAMPED)
    rng = np.random.default_rng(3)
    gathered, scattered = vjp(kernel, (0,), (1,), gathered=(0,)), vjp(kernel, (0,), (1,))
    assert "atomic_add" not in str(gathered.kernel) and "atomic_add" in str(scattered.kernel)
    for extent, count in itertools.product((1, 2, 3, 17), (1, 2, 3, 17)):
        if count > extent:
            continue
        x, g = rng.normal(size=extent), rng.normal(size=count)
        found = []
        for made, threads in ((gathered, extent), (scattered, count)):
            given = {"primal": x, "cotangent": g, "gradient": np.zeros_like(x), "dim": np.int32(count)}
            outs = run(made.kernel, (threads,), [given[o.kind] for o in made.origins])
            arrays = [o.kind for o, p in zip(made.origins, made.kernel.params, strict=True) if p.is_array]
            found.append(dict(zip(arrays, outs, strict=True))["gradient"])
        np.testing.assert_allclose(*found, rtol=1e-13, atol=1e-13, err_msg=f"{extent, count}")


# A kernel, the dimensions of a launch, the shape of `u` and the parameter n: whether the gradient is gathered.
LAUNCHES = [
    (one(1, 1, 1), (64,), (64,), 64, True), (one(2, 2, 0), (64,), (70,), 65, True), (one(1, 1, 0), (1,), (1,), 1, True),
    (one(1, 4, 0), (64,), (64,), 64, False),  # farther than cases are made for
    (one(1, 1, 0), (64,), (64,), 63, False), (one(1, 1, 0), (64,), (20,), 20, False),  # threads beyond the end
    (one(1, 1, 0), (64,), (64,), 65, False), (one(1, 1, 0), (9,), (9,), 0, False),  # an end beyond the array
    (space, (4, 5, 6), (4, 5, 6), None, True), (space, (4, 5, 6), (4, 4, 6), None, False),
]  # fmt: skip


@pytest.mark.quick
@pytest.mark.parametrize(("kernel", "dims", "shape", "n", "expected"), LAUNCHES)
def test_they_are_gathered(kernel, dims, shape, n, expected):
    """Where launches have no more threads than there are elements up to the end."""
    program, u = program_of(kernel, config.settings), 0 if n is None else 1
    extents = [None, shape, dims][1 - u :]
    found = gatherable(program, Geometry((*dims, *[1] * (4 - len(dims)))), tuple(extents), {} if n is None else {0: n})
    assert found == ((u,) if expected else ())
    made = vjp(program.simplified, (u,), (u + 1,), gathered=found)
    assert ("atomic_add" not in str(made.kernel)) == expected
