"""Blocks that factorise small matrices, which run side by side where a launch has many of them."""

import jax
import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.cpu.target import host_target
from jwarp.compiler.launch_forms import LEAST_VECTORS, LEAST_WIDTH, VECTOR, with_lanes
from jwarp.compiler.program import program_of
from jwarp.config import config
from jwarp.launching.geometry import Geometry

BLOCK = 32
FEW, MANY = 5, LEAST_VECTORS * VECTOR + 3
needs_vectors = pytest.mark.skipif(host_target().width < LEAST_WIDTH, reason="vectors of so few blocks gain nothing")


def solver(n: int, columns: int, fill: str, dtype):
    shape = (n, columns) if columns > 1 else n

    @wp.kernel
    def solved(
        a: wp.array3d[dtype], b: wp.array3d[dtype], skip: wp.array[bool], x: wp.array3d[dtype],
        factor: wp.array3d[dtype], total: wp.array[dtype],
    ):  # fmt: skip
        w = wp.tid()
        if skip[w]:
            return
        t = wp.tile_load(a[w], shape=(n, n))
        wp.tile_cholesky_inplace(t, fill_mode=fill)
        wp.tile_store(factor[w], t)
        if wp.static(columns > 1):
            y = wp.tile_load(b[w], shape=shape)
        else:
            y = wp.tile_load(b[w, 0], shape=shape)
        s = wp.tile_cholesky_solve(t, y, fill_mode=fill)
        total[w] = wp.tile_sum(s)[0]
        if wp.static(columns > 1):
            wp.tile_store(x[w], s)
        else:
            wp.tile_store(x[w, 0], s)

    return solved


def systems(count: int, n: int, columns: int, dtype, seed: int = 0):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(count, n, n + 2))
    shape = (count, n, columns) if columns > 1 else (count, 1, n)
    a = (q @ q.transpose(0, 2, 1) + n * np.eye(n)).astype(dtype.dtype)
    return a, rng.normal(size=shape).astype(dtype.dtype), rng.random(count) < 0.3


@pytest.mark.parametrize(
    ("n", "columns", "fill", "dtype"),
    [(1, 1, "lower", wp.float32), (3, 1, "upper", wp.float64), (4, 2, "upper", wp.float32), (6, 1, "lower", wp.float32),
     (13, 3, "lower", wp.float64), (27, 1, "upper", wp.float32)],
)  # fmt: skip
def test_factors_and_solutions(n, columns, fill, dtype):
    kernel = solver(n, columns, fill, dtype)
    a, b, skip = systems(MANY, n, columns, dtype)
    right = b if columns > 1 else b.transpose(0, 2, 1)
    factors = np.linalg.cholesky(a.astype(np.float64))
    solutions = np.linalg.solve(a.astype(np.float64), right.astype(np.float64))
    tolerance = 64 * np.finfo(a.dtype).eps
    for count in (FEW, MANY):
        x, factor, total = np.zeros_like(b[:count]), np.zeros_like(a[:count]), np.zeros(count, a.dtype)
        wp.launch(kernel, (count, BLOCK), [a[:count], b[:count], skip[:count]], [x, factor, total], block_dim=BLOCK)
        at_work = ~skip[:count]
        found = x if columns > 1 else x.transpose(0, 2, 1)
        expected = factors if fill == "lower" else factors.transpose(0, 2, 1)
        np.testing.assert_allclose(factor[at_work], expected[:count][at_work], rtol=tolerance, atol=tolerance * n)
        np.testing.assert_allclose(found[at_work], solutions[:count][at_work], rtol=tolerance, atol=tolerance * n)
        sums = solutions[:count].sum((1, 2))
        np.testing.assert_allclose(total[at_work], sums[at_work], rtol=tolerance, atol=tolerance * n)
        assert not x[~at_work].any() and not factor[~at_work].any() and not total[~at_work].any()


@wp.kernel
def gathered(m: wp.array2d[float], places: wp.array[int], first: wp.array[int], factor: wp.array2d[float]):
    w, part = wp.tid()
    at = wp.tile_load(places, shape=(36,), offset=(part * 36,))
    square = wp.tile_reshape(wp.tile_load_indexed(m[w], at, shape=(36,)), (6, 6))
    wp.tile_cholesky_inplace(square)
    wp.tile_store(factor[w], wp.tile_reshape(square, (36,)), offset=(first[part],))


def test_blocks_along_the_first_dimension():
    a, _, _ = systems(2 * MANY, 6, 1, wp.float32)
    m = a.reshape(MANY, 72)
    order = np.random.default_rng(1).permutation(36).astype(np.int32)
    mixed = m.copy()
    mixed[:, :36] = 0.0
    mixed[:, order] = m[:, :36]
    places = np.concatenate([order, 36 + np.arange(36, dtype=np.int32)])
    factor = np.zeros_like(m)
    given = [mixed, places, np.array([0, 36], np.int32)]
    wp.launch(gathered, (MANY, 2, BLOCK), given, [factor], block_dim=BLOCK)
    expected = np.linalg.cholesky(a.astype(np.float64))
    np.testing.assert_allclose(factor.reshape(2 * MANY, 6, 6), expected, rtol=1e-5, atol=1e-5)


@needs_vectors
def test_many_blocks_are_threads():
    kernel = solver(5, 1, "upper", wp.float32)
    program = program_of(kernel, config.settings)
    for count, is_thread in ((FEW, False), (MANY, True)):
        blocks, geometry = program.arranged((count, BLOCK), BLOCK)
        made, over = with_lanes(blocks, geometry)
        assert (made.kernel.block_dim == 0) is is_thread and over == geometry
    blocks, geometry = program_of(gathered, config.settings).arranged((MANY, 2, BLOCK), BLOCK)
    made, over = with_lanes(blocks, geometry)
    assert made.kernel.block_dim == 0 and over == Geometry((2, MANY, 1, 1))


@wp.kernel
def multiplied(a: wp.array3d[float], y: wp.array3d[float]):
    w = wp.tid()
    t = wp.tile_load(a[w], shape=(8, 8))
    wp.tile_cholesky_inplace(t)
    wp.tile_store(y[w], wp.tile_matmul(t, t))


@wp.kernel
def large(a: wp.array3d[float], y: wp.array3d[float]):
    w = wp.tid()
    t = wp.tile_load(a[w], shape=(96, 96))
    wp.tile_cholesky_inplace(t)
    wp.tile_store(y[w], t)


@wp.kernel
def counted(a: wp.array3d[float], count: wp.array[int], y: wp.array3d[float]):
    w = wp.tid()
    t = wp.tile_load(a[w], shape=(4, 4))
    wp.tile_cholesky_inplace(t)
    wp.atomic_add(count, 0, 1)
    wp.tile_store(y[w], t)


@pytest.mark.parametrize("kernel", [multiplied, large, counted], ids=lambda k: k.name)
def test_other_blocks_stay(kernel):
    blocks, geometry = program_of(kernel, config.settings).arranged((MANY, BLOCK), BLOCK)
    assert with_lanes(blocks, geometry) == (blocks, geometry)


def test_gradients_and_batches():
    kernel, n = solver(6, 1, "lower", wp.float32), 6
    a, b, _ = systems(MANY, n, 1, wp.float32)
    skip = np.zeros(MANY, bool)
    outputs = {"x": b.shape, "factor": a.shape, "total": (MANY,)}
    f = wp.jax_kernel(kernel, num_outputs=3, launch_dims=(MANY, BLOCK), block_dim=BLOCK, output_dims=outputs)
    weights = np.random.default_rng(2).normal(size=b.shape).astype(np.float32)

    def loss(b):
        return (f(a, b, skip)[0] * weights).sum()

    found = jax.jit(jax.grad(loss))(b)
    expected = np.linalg.solve(a.astype(np.float64), weights.transpose(0, 2, 1).astype(np.float64)).transpose(0, 2, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    both = jax.vmap(lambda b: f(a, b, skip)[0])(np.stack([b, 2.0 * b]))
    np.testing.assert_allclose(both[1], 2.0 * both[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(both[0], f(a, b, skip)[0])
