"""On a GPU: results, derivatives, batches, graphs, streams and threads, against the interpreter and the processor.

`python benchmarks/on_gpu.py` runs all tests that need a GPU, and writes a table of results. Without a GPU nothing here
runs. How fast it is, `benchmarks/gpu.py` says.
"""

import concurrent.futures
import random
import warnings
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cuda_compiling import saxpy
from gpu_launches import launched
from gradient_kernels import KINDS
from kernel_sources import Writer, load
from op_kernels import ULP_LIMIT_OF_CUDA, agree, arguments, casts_of, close, inputs_of, operand_sets, ops_of

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.errors import KernelWarning
from jwarp.ir.ops import ELEMENTARY
from jwarp.types import SCALARS, ArrayType

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def gpu():
    """The GPU that launches run on."""
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError as error:
        pytest.skip(f"no GPU: {error}")
    with jax.default_device(device), jax.enable_x64(True):
        yield device


@pytest.mark.parametrize("type_", SCALARS.values(), ids=SCALARS)
def test_operations(type_, gpu):
    for ops, inputs in ((ops_of(type_), inputs_of(type_, 1)), (casts_of(type_), operand_sets(type_, 1, 5)[:1])):
        kernel, count = ops.kernel(f"ops_{type_}"), len(inputs[0])
        args = arguments(ops, list(inputs), count)
        expected, found = run(kernel, (count,), args), launched(kernel, (count,), args, gpu)
        arrays = sum(isinstance(p.type, ArrayType) for p in ops.inputs)
        for (label, _), x, y in zip(ops.labels, found[arrays:], expected[arrays:], strict=True):
            name = label.split()[0]
            # A norm is a sum of products, which the compiler fuses.
            fits = close(x, y, ULP_LIMIT_OF_CUDA) if name in ELEMENTARY or name == "norm" else agree(x, y)
            if name == "copysign" and x.itemsize == 2:  # a NaN that is converted to 32 bits has no sign any more
                fits |= np.isnan(inputs[1].astype(np.float32)) & (np.abs(x) == np.abs(y))
            k = int(np.argmin(fits))
            assert fits.all(), f"{label} of {[v[k] for v in inputs]}: {x[k]!r}, expected {y[k]!r}"


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels(seed, tmp_path, gpu):
    generated = Writer(random.Random(seed)).kernel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        ir = load(generated.source, tmp_path).ir()
    expected = run(ir, generated.dims, generated.arguments)
    try:
        found = launched(ir, generated.dims, generated.arguments, gpu)
    except wp.LaunchError as error:
        pytest.skip(f"it leaves its arrays for certain: {str(error).splitlines()[0]}")
    for x, y in zip(found, expected, strict=True):
        # Products and sums are contracted on the GPU, and functions are rounded otherwise.
        wide = y.dtype.kind in "f" or y.dtype.name == "bfloat16"
        fits = np.isclose(x.astype(float), y.astype(float), rtol=1e-2, atol=1e-2, equal_nan=True) if wide else x == y
        assert np.size(fits) == 0 or np.mean(fits) > 0.98, generated.source


def both(function, args, gpu):
    """The results of a function on the GPU and on the processor."""
    results = []
    for device in (gpu, jax.devices("cpu")[0]):
        with jax.default_device(device):
            results.append(jax.tree.map(np.asarray, jax.jit(function)(*jax.device_put(args, device))))
    return results


@pytest.mark.parametrize("kernel", [k for kinds in KINDS.values() for k in kinds], ids=lambda k: k.name)
def test_derivatives(kernel, gpu):
    at = np.random.default_rng(0).uniform(0.35, 0.8, (2, 5))

    def loss(x, y, trips):
        (after,) = wp.launch(kernel, 5, [x, trips], [y])
        return jnp.sum(jnp.sin(after) * jnp.arange(1.0, 6.0))

    for trips in (0, 1, 16, 17, 300):
        tangent = lambda x, y, n: jax.jvp(lambda x, y: loss(x, y, n), (x, y), (y, x))[1]  # noqa: E731
        for function in (loss, tangent, jax.grad(loss, (0, 1)), jax.hessian(loss)):
            for x, y in zip(*map(jax.tree.leaves, both(function, (*at, trips), gpu)), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9)


def test_batches(gpu):
    rng = np.random.default_rng(1)
    x, a = rng.normal(size=(3, 4, 1000)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    f = wp.jax_kernel(saxpy, in_out_argnames=["y"])

    def loss(a, x, y):
        return jnp.sum(f(a, x, y)[0] ** 2)

    batched = jax.vmap(jax.vmap(jax.value_and_grad(loss, (0, 1)), (0, 0, None)), (None, 0, None))
    for u, v in zip(*map(jax.tree.leaves, both(batched, (a, x, x[0, 0]), gpu)), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-4, atol=1e-4)
    shared = jax.grad(lambda a: jax.vmap(lambda x: loss(a, x, x))(x.reshape(12, -1)).sum())
    np.testing.assert_allclose(*both(shared, (a[0],), gpu), rtol=1e-4)


@pytest.mark.parametrize("extents", [(128, 256, 64, 256), (64, 24, 16, 128), (64, 128, 32, 256)], ids=str)
@pytest.mark.parametrize("type_", [wp.float16, wp.bfloat16], ids=str)
def test_products_by_warpgroups(type_, extents, gpu):
    """Against NumPy in float64, with their gradients; elsewhere than on sm_90 these are products by warps."""
    m, n, k, threads = extents

    @wp.kernel
    def product(a: wp.array2d(dtype=type_), b: wp.array2d(dtype=type_), c: wp.array2d(dtype=type_)):
        i, j = wp.tid()
        total = wp.tile_zeros(shape=(m, n), dtype=type_)
        for step in range(a.shape[1] // k):
            left = wp.tile_load(a, shape=(m, k), offset=(i * m, step * k))
            right = wp.tile_load(b, shape=(k, n), offset=(step * k, j * n))
            wp.tile_matmul(left, right, total)
        wp.tile_store(c, total, offset=(i * m, j * n))

    def launch(a, b):
        with wp.config(matrix_instructions="wgmma"):
            return wp.launch_tiled(product, (3, 2), [a, b], [(3 * m, 2 * n)], block_dim=threads)[0]

    keys, dtype = jax.random.split(jax.random.key(m + n), 3), type_.dtype
    a, b, g = (
        jax.random.normal(key, shape).astype(dtype)
        for key, shape in zip(keys, ((3 * m, 5 * k), (5 * k, 2 * n), (3 * m, 2 * n)), strict=True)
    )
    c, pull = jax.vjp(launch, a, b)
    x, y, z = (np.asarray(v).astype(np.float64) for v in (a, b, g))
    for found, expected in zip((c, *pull(g)), (x @ y, z @ y.T, x.T @ z), strict=True):
        error = np.abs(np.asarray(found).astype(np.float64) - expected).max()
        assert error < 10 * float(jnp.finfo(dtype).eps) * np.abs(expected).max()


def test_a_large_launch(gpu):
    """More threads than a 32-bit index counts, by a batch of one launch."""

    @wp.kernel
    def count(total: wp.array[wp.uint64]):
        wp.atomic_add(total, 0, wp.uint64(1))

    (total,) = jax.jit(lambda: wp.launch(count, (1 << 16, 1 << 17), [], [1]))()
    assert int(total[0]) == 1 << 33


def test_export(gpu):
    f = jax.jit(lambda a, x: wp.launch(saxpy, 100, [a, x], [x])[0])
    x = np.linspace(0, 1, 100, dtype=np.float32)
    exported = jax.export.export(f, platforms=("cuda",), disabled_checks=wp.EXPORT_CHECKS)(np.float32(2), x)
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_allclose(again.call(np.float32(2), x), 3 * x, rtol=1e-6)


def test_graphs(gpu):
    """Many small launches in one program, which XLA records as a graph and replays."""

    def many(x):
        for _ in range(20):
            (x,) = wp.launch(saxpy, 64, [0.5, x], [x])
        return x

    x = np.ones(64, np.float32)
    run = jax.jit(many)
    for k in range(5):
        np.testing.assert_allclose(run((k + 1) * x), (k + 1) * 1.5**20 * x, rtol=1e-5)
    looped = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda _, c: wp.launch(saxpy, 64, [0.01, c], [c])[0], x))
    np.testing.assert_allclose(looped(x), 1.01**100 * x, rtol=1e-4)


def test_threads(gpu):
    def work(k):
        x = jnp.full(1000 + k, float(k), jnp.float32)
        value, slope = jax.value_and_grad(lambda x: jnp.sum(wp.launch(saxpy, 1000 + k, [2.0, x], [x])[0] ** 2))(x)
        return float(value), float(slope[0])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for k, (value, slope) in enumerate(pool.map(work, range(32))):
            np.testing.assert_allclose([value, slope], [9.0 * k * k * (1000 + k), 18.0 * k], rtol=1e-4)


def test_failed_checks(gpu):
    @wp.kernel
    def picked(x: wp.array[float], at: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[at[i]]

    at = np.array([0, 1, 9, 2], np.int32)
    with wp.config(bounds="error"), pytest.raises(Exception, match=r"(?s)picked.*outside.*thread \(2\)"):
        wp.launch(picked, 4, [np.ones(4, np.float32), at], [4])[0].block_until_ready()
    assert wp.launch(picked, 4, [np.ones(4, np.float32), at], [4])[0].tolist() == [1.0, 1.0, 0.0, 1.0]


def test_a_dropped_kernel_leaves_no_arrays(gpu):
    x = jnp.ones(1000, jnp.float32)
    made = wp.launch(saxpy, 1000, [1.0, x], [x])[0]
    gone = weakref.ref(made)
    del made
    assert gone() is None
