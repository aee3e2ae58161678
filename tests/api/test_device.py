"""`wp.device` against JAX's own operations, and its kernels compiled for every generation of GPUs."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.api import device
from jwarp.backend.cuda import nvrtc
from jwarp.backend.cuda.handwritten import Handwritten
from jwarp.launching.program import program_of

DTYPES = ("float32", "float64", "int32", "int64", "uint32", "uint64")
SHAPES = ((1,), (7,), (300,), (3, 5), (2, 3, 40), (4, 0), (0, 3))


@pytest.fixture(autouse=True)
def wide(x64):
    """64-bit types."""


def numbers(shape, dtype="float64", seed=0):
    random = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return random.normal(size=shape).astype(dtype)
    return random.integers(0, 100, shape).astype(dtype)


def close(found, expected):
    def compare(x, y):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(
            x, y, rtol=1e-5 if x.dtype == np.float32 else 1e-12, atol=1e-5 if x.dtype == np.float32 else 0
        )

    jax.tree.map(compare, found, expected)


def check_gradient(function, reference, x, order=2):
    """The gradient of a sum with random weights, that of its square, and a batch of them."""
    weights = numbers(np.shape(reference(x)), seed=9)
    xs = jnp.stack([x, 2 * x, -x])

    def derivatives(compute, x, xs):
        gradient = jax.grad(lambda x: jnp.sum(weights * jnp.sin(compute(x))))
        found = [gradient(x), jax.vmap(gradient)(xs)]
        return found + [jax.grad(lambda x: jnp.sum(gradient(x) ** 2))(x)] if order == 2 else found

    # Compiled as a whole: operation by operation, most of the time would go into compiling each.
    compiled = jax.jit(derivatives, static_argnums=0)
    close(compiled(function, x, xs), compiled(reference, x, xs))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reduce(shape, dtype):
    x = jnp.asarray(numbers(shape, dtype))
    close(wp.device.reduce(x), x.sum(-1).astype(dtype))
    if shape[-1]:
        close(wp.device.reduce(x, "max"), x.max(-1))
        close(jax.jit(lambda x: wp.device.reduce(x, "min"))(x), x.min(-1))


@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reduce_differentiates(op):
    x = jnp.asarray(numbers((4, 9))).at[1, 3].set(5.0).at[1, 7].set(5.0).at[2, 2].set(-5.0).at[2, 0].set(-5.0)
    check_gradient(lambda x: wp.device.reduce(x, op), lambda x: getattr(jnp, op)(x, -1), x)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("exclusive, reverse", [(e, r) for e in (False, True) for r in (False, True)])
def test_scan(shape, exclusive, reverse):
    def reference(x):
        x = jnp.flip(x, -1) if reverse else x
        # By a lower triangle, which is independent of JAX's cumulative sums.
        lower = jnp.tril(jnp.ones((shape[-1],) * 2, x.dtype), -1 if exclusive else 0)
        found = jnp.einsum("...j,ij->...i", x, lower)
        return jnp.flip(found, -1) if reverse else found

    x = jnp.asarray(numbers(shape, seed=1))
    reference = jax.jit(reference)
    function = lambda x: wp.device.scan(x, exclusive=exclusive, reverse=reverse)  # noqa: E731
    np.testing.assert_allclose(function(x), reference(x), rtol=1e-9, atol=1e-9)
    if x.size:
        weights = numbers(shape, seed=2)
        gradients = [
            jax.jit(jax.grad(lambda x, f=f: jnp.sum(weights * jnp.sin(f(x)))))(x) for f in (function, reference)
        ]
        np.testing.assert_allclose(*gradients, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(jax.vmap(function)(jnp.stack([x, -x]))[1], reference(-x), rtol=1e-9, atol=1e-9)
    integers = jnp.asarray(numbers(shape, "int32"))
    assert (function(integers) == reference(integers)).all() and function(integers).dtype == jnp.int32


def by_segments(x, offsets):
    """The sums as products with a matrix of ones and zeros: one row for each segment."""
    row = np.arange(len(x))
    ones = np.array([(max(a, 0) <= row) & (row < b) for a, b in itertools.pairwise(offsets)], float)
    return jnp.tensordot(ones.reshape(len(offsets) - 1, len(x)), x, 1)


OFFSETS = ([0, 3, 3, 10], [2, 5, 9], [0], [0, 0], [4, 4, 4], [1, 10], [3, 40])


@pytest.mark.parametrize("offsets", OFFSETS, ids=str)
@pytest.mark.parametrize("columns", [(), (1,), (4,), (2, 3)])
def test_segmented_sum(offsets, columns):
    x, where = jnp.asarray(numbers((10, *columns), seed=3)), jnp.asarray(offsets, jnp.int32)
    close(wp.device.segmented_sum(x, where), by_segments(x, offsets))
    if len(offsets) > 1:
        check_gradient(lambda x: wp.device.segmented_sum(x, where), lambda x: by_segments(x, offsets), x)


def added(values, indices, size):
    """The sums as a product with a matrix of ones and zeros; indices outside are those of no row."""
    return jnp.tensordot((indices == jnp.arange(size)[:, None]).astype(values.dtype), values, 1)


@pytest.mark.parametrize("size", [1, 6, 50_000])
@pytest.mark.parametrize("columns", [(), (3,), (2, 2)])
def test_scatter_add(size, columns):
    values = jnp.asarray(numbers((12, *columns), seed=4))
    indices = np.random.default_rng(5).integers(-2, min(size, 9) + 2, 12).astype(np.int32)
    close(wp.device.scatter_add(values, indices, size), added(values, indices, size))
    check_gradient(lambda v: wp.device.scatter_add(v, indices, size), lambda v: added(v, indices, size), values)
    batch = jnp.stack([indices, indices[::-1], indices + 1])
    found = jax.vmap(wp.device.scatter_add, (None, 0, None))(values, batch, size)
    close(found, jnp.stack([added(values, i, size) for i in batch]))


def test_scatter_add_of_integers_and_of_none():
    values = jnp.asarray(numbers(20, "int64"))
    indices = jnp.asarray(numbers(20, "int32") % 4)
    close(wp.device.scatter_add(values, indices, 4), added(values, indices, 4))
    assert wp.device.scatter_add(values[:0], indices[:0], 3).tolist() == [0, 0, 0]
    assert wp.device.scatter_add(values, indices, 0).shape == (0,)


def test_arguments_that_do_not_fit():
    x, indices = jnp.ones(3), jnp.zeros(3, jnp.int32)
    with pytest.raises(wp.LaunchError, match="op must be sum, max or min, got 'mean'"):
        wp.device.reduce(x, "mean")
    with pytest.raises(wp.KernelTypeError, match=r"expected floats or integers of 32 or 64 bits, got float16\[3\]"):
        wp.device.scan(x.astype(jnp.float16))
    with pytest.raises(wp.LaunchError, match="there is no max of no elements"):
        wp.device.reduce(jnp.zeros((2, 0)), "max")
    with pytest.raises(wp.LaunchError, match="expected an array, got a number"):
        wp.device.scan(1.0)
    with pytest.raises(wp.KernelTypeError, match=r"indices must be int32, got int64\[3\]"):
        wp.device.scatter_add(x, indices.astype(jnp.int64), 3)
    with pytest.raises(wp.LaunchError, match="there are 3 values, and 2 indices"):
        wp.device.scatter_add(x, indices[:2], 3)
    with pytest.raises(wp.LaunchError, match="size must be an int from 0"):
        wp.device.scatter_add(x, indices, -1)
    with pytest.raises(wp.LaunchError, match="offsets must have one more entry"):
        wp.device.segmented_sum(x, indices[:0])
    with pytest.raises(wp.LaunchError, match="offsets must have one axis"):
        wp.device.segmented_sum(x, indices[None])


# On GPUs


@pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
@pytest.mark.parametrize("architecture", nvrtc.DEFAULT_ARCHITECTURES)
@pytest.mark.parametrize("name", device.kernels())
def test_kernels_compile(name, architecture):
    others = {"sm_80": wp.int32, "sm_90": wp.float64, "sm_100": wp.uint64, "sm_120": wp.int64}
    for dtype in (wp.float32, others[architecture]):
        kernel = device.kernels()[name](dtype)
        program = program_of(kernel, wp.config.settings)
        made = Handwritten(kernel.definition, program.kernel, program.settings)
        code = made.codes([architecture], kernel.definition.blocks, ["-Xptxas=-v"])[architecture]
        assert code.spills == 0 and code.registers <= 64


@pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
def test_a_gradient_lowered_for_cuda_is_two_launches():
    values, indices = jnp.ones(1000, jnp.float32), jnp.zeros(1000, jnp.int32)

    def loss(v):
        return (wp.device.scatter_add(v, indices, 16) ** 2).sum()

    with wp.config(cuda_arch="sm_90"):
        text = jax.jit(jax.grad(loss)).trace(values).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("@jwarp_cuda_v1") == 2
    assert "shared = 64 : i64" in text
