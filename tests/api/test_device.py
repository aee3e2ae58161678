"""`wp.device` against JAX's own operations, and its kernels compiled for every generation of GPUs."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzz_profiles import each_value, in_turn

import jwarp as wp
from jwarp.api import device
from jwarp.backend.cuda import nvrtc
from jwarp.compiler.handwritten import Handwritten
from jwarp.compiler.program import program_of

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


def check_gradient(function, matrix, x):
    """The gradient of a sum with random weights, that of its square, and a batch of them.

    The function multiplies the first axis of `x` by a matrix, so that NumPy has its derivatives.
    """
    weights = numbers((len(matrix), *x.shape[1:]), seed=9)

    def expected_gradient(x):
        return np.tensordot(matrix.T, weights * np.cos(np.tensordot(matrix, x, 1)), 1)

    def gradient(x):
        return jax.grad(lambda x: jnp.sum(weights * jnp.sin(function(x))))(x)

    @jax.jit  # as a whole: operation by operation, most of the time would go into compiling each
    def derivatives(x, xs):
        return gradient(x), jax.vmap(gradient)(xs), jax.grad(lambda x: jnp.sum(gradient(x) ** 2))(x)

    xs = np.stack([x, 2 * x, -x])
    first = expected_gradient(x)
    bent = -2 * weights * np.sin(np.tensordot(matrix, x, 1)) * np.tensordot(matrix, first, 1)
    expected = (first, np.stack([*map(expected_gradient, xs)]), np.tensordot(matrix.T, bent, 1))
    for found, one in zip(derivatives(x, xs), expected, strict=True):
        assert found.dtype == one.dtype
        np.testing.assert_allclose(found, one, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("shape, dtype", each_value(SHAPES, DTYPES))
def test_reduce(shape, dtype):
    x = numbers(shape, dtype)
    expected = {"sum": x.sum(-1).astype(dtype)} | ({"max": x.max(-1), "min": x.min(-1)} if shape[-1] else {})
    close(jax.jit(lambda x: {op: wp.device.reduce(x, op) for op in expected})(x), expected)
    if dtype == "float32":
        close({op: wp.device.reduce(x, op) for op in expected}, expected)


@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reduce_differentiates(op):
    x = jnp.asarray(numbers((4, 9))).at[1, 3].set(5.0).at[1, 7].set(5.0).at[2, 2].set(-5.0).at[2, 0].set(-5.0)
    weights, xs = numbers(4, seed=9), jnp.stack([x, 2 * x, -x])

    def derivatives(reduce, x):
        def gradient(x):
            return jax.grad(lambda x: jnp.sum(weights * jnp.sin(reduce(x))))(x)

        return gradient(x), jax.vmap(gradient)(xs), jax.grad(lambda x: jnp.sum(gradient(x) ** 2))(x)

    compiled = jax.jit(derivatives, static_argnums=0)
    close(compiled(lambda x: wp.device.reduce(x, op), x), compiled(lambda x: getattr(jnp, op)(x, -1), x))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("exclusive, reverse", [(e, r) for e in (False, True) for r in (False, True)])
def test_scan(shape, exclusive, reverse):
    # By a triangle of ones, which is independent of cumulative sums.
    lower = np.tril(np.ones((shape[-1],) * 2), -1 if exclusive else 0)
    lower = lower[::-1, ::-1] if reverse else lower
    function = lambda x: wp.device.scan(x, exclusive=exclusive, reverse=reverse)  # noqa: E731
    x = numbers(shape, seed=1)
    np.testing.assert_allclose(function(x), x @ lower.T, rtol=1e-9, atol=1e-9)
    if x.size and in_turn(SHAPES.index(shape), 2 * exclusive, reverse, of=4):
        weights = numbers(shape, seed=2)
        gradient = jax.jit(jax.grad(lambda x: jnp.sum(weights * jnp.sin(function(x)))))(x)
        np.testing.assert_allclose(gradient, (weights * np.cos(x @ lower.T)) @ lower, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(jax.vmap(function)(np.stack([x, -x]))[1], -x @ lower.T, rtol=1e-9, atol=1e-9)
    integers = numbers(shape, "int32")
    close(function(integers), integers @ lower.T.astype(np.int32))


OFFSETS = ([0, 3, 3, 10], [2, 5, 9], [0], [0, 0], [4, 4, 4], [1, 10], [3, 40])
COLUMNS = ((), (1,), (4,), (2, 3))


@pytest.mark.parametrize("offsets", OFFSETS, ids=str)
@pytest.mark.parametrize("columns", COLUMNS)
def test_segmented_sum(offsets, columns):
    x, where = numbers((10, *columns), seed=3), np.array(offsets, np.int32)
    row = np.arange(len(x))
    segments = [(max(a, 0) <= row) & (row < b) for a, b in itertools.pairwise(offsets)]
    ones = np.array(segments, float).reshape(len(offsets) - 1, len(x))
    close(wp.device.segmented_sum(x, where), np.tensordot(ones, x, 1))
    if len(offsets) > 1 and in_turn(OFFSETS.index(offsets), COLUMNS.index(columns), of=4):
        check_gradient(lambda x: wp.device.segmented_sum(x, where), ones, x)


def ones_at(indices, size):
    """A row for each place, with a one where an index names it; indices outside are those of no row."""
    return (indices == np.arange(size)[:, None]).astype(float)


def added(values, indices, size):
    """The sums as a product with a matrix of ones and zeros."""
    return np.tensordot(ones_at(indices, size), values, 1).astype(values.dtype)


@pytest.mark.parametrize("size, columns", each_value([1, 6, 50_000], [(), (3,), (2, 2)]))
def test_scatter_add(size, columns):
    values = numbers((12, *columns), seed=4)
    indices = np.random.default_rng(5).integers(-2, min(size, 9) + 2, 12).astype(np.int32)
    close(wp.device.scatter_add(values, indices, size), added(values, indices, size))
    check_gradient(lambda v: wp.device.scatter_add(v, indices, size), ones_at(indices, size), values)
    batch = np.stack([indices, indices[::-1], indices + 1])
    found = jax.vmap(wp.device.scatter_add, (None, 0, None))(values, batch, size)
    close(found, np.stack([added(values, i, size) for i in batch]))


def test_scatter_add_of_integers_and_of_none():
    values, indices = numbers(20, "int64"), numbers(20, "int32") % 4
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
@pytest.mark.parametrize("name, architecture", each_value([*device.kernels()], nvrtc.DEFAULT_ARCHITECTURES))
def test_kernels_compile(name, architecture):
    types = {"sm_80": (wp.int32,), "sm_90": (wp.float64,), "sm_100": (wp.uint64,), "sm_120": (wp.int64, wp.float32)}
    for dtype in types[architecture]:
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
