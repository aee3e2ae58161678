"""Programs that JAX lowered for CUDA, run by XLA:CPU with the PTX machine for a GPU, against the CPU's own lowering."""

import numpy as np
import pytest
from cuda_tile_launches import product
from forked_tests import own_process
from handwritten_kernels import powers, powers_kernel

import jwarp as wp
from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")


@wp.kernel
def smooth(x: wp.array[float], k: float, y: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    n = x.shape[0]
    y[i] = k * (x[(i + 1) % n] + x[(i + n - 1) % n]) - wp.sin(x[i])
    wp.atomic_add(total, 0, x[i] * x[i])


def both(function, *args, rtol=2e-5, small=1e-6):
    import jax
    from ptx_xla import DEVICE, on_cuda

    expected = jax.tree.leaves(jax.jit(function)(*args))
    before = len(DEVICE.launches)
    found = jax.tree.leaves(on_cuda(function, *args))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=max(1e-5, small * np.abs(y).max(initial=0.0)))  # sums cancel
    return DEVICE.launches[before:]


@own_process(seconds=300)
def test_a_step_and_its_derivatives():
    """Forward, reverse and forward mode, a loop of XLA around launches, and batches."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 2.0, (3, 40)).astype(np.float32)

    def step(x, k):
        y, total = wp.launch(smooth, x.shape[0], [x, k], [x.shape[0], 1])
        return y / (1.0 + total[0]), total

    def loss(x, k):
        _, totals = jax.lax.scan(lambda x, _: step(x, k), x, None, length=3)
        return jnp.sum(jnp.sin(totals))

    assert both(step, x[0], 0.3) == ["jwarp_smooth"]
    assert len(both(jax.value_and_grad(loss, (0, 1)), x[0], 0.3)) >= 6
    both(lambda x: jax.jvp(lambda x: loss(x, 0.3), (x,), (x,)), x[0])
    both(jax.vmap(jax.grad(loss), (0, None)), x, 0.3, rtol=1e-3)


@own_process(seconds=300)
def test_tiles_and_handwritten_kernels():
    import jax

    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(32, 24)).astype(np.float32), rng.normal(size=(24, 48)).astype(np.float32)
    both(lambda a, b: jax.value_and_grad(lambda a, b: (product(a, b)[0] ** 2).sum(), (0, 1))(a, b), a, b)
    kernel, x, bias = powers_kernel(), rng.normal(size=(7, 5)).astype(np.float32), rng.normal(size=5).astype(np.float32)
    both(jax.value_and_grad(lambda x, k, bias: powers(kernel, x, k, bias).sum(), (0, 1, 2)), x, 1.5, bias)


@wp.kernel
def halves(a: wp.array2d[wp.float16], b: wp.array2d[wp.float16], c: wp.array2d[wp.float16]):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(64, 64), dtype=wp.float16)
    for step in range(a.shape[1] // 64):
        left = wp.tile_load(a, shape=(64, 64), offset=(i * 64, step * 64))
        right = wp.tile_load(b, shape=(64, 64), offset=(step * 64, j * 64))
        wp.tile_matmul(left, right, total)
    wp.tile_store(c, total, offset=(i * 64, j * 64))


@own_process(seconds=300)
def test_products_by_warpgroups():
    """A setting chooses them when a program is traced."""
    import jax
    import ptx_xla

    texts, made = [], ptx_xla._registered

    def registered(image, unit, architecture):
        texts.append((architecture, "group_sums<" in unit.text))
        return made(image, unit, architecture)

    def loss(a, b, instructions="wgmma"):
        with wp.config(matrix_instructions=instructions):
            (c,) = wp.launch_tiled(halves, (1, 1), [a, b], [(64, 64)], block_dim=128)
        return (c.astype(np.float32) ** 2).sum()

    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=(64, 64)).astype(np.float16) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ptx_xla, "_registered", registered)
        both(jax.value_and_grad(loss, (0, 1)), a, b, rtol=1e-2, small=2e-3)
        assert ("compute_90a", True) in texts, texts
        del texts[:]
        both(lambda a, b: loss(a, b, "mma"), a, b, rtol=1e-2)
        assert texts == [("compute_90", False)]


@wp.kernel
def placed(x: wp.array[float], counter: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    square = x[i] * x[i]
    total = wp.tile_sum(wp.tile(square))
    if square > 1.0:
        j = wp.atomic_add(counter, 0, 1)
        y[j] = square * total[0]


@own_process(seconds=300)
def test_lanes_that_count():
    """Whose derivatives need places in one order: the lanes of a block take turns."""
    import jax
    import jax.numpy as jnp

    x = np.random.default_rng(3).uniform(0.5, 2.0, 96).astype(np.float32)
    weights = jnp.linspace(1.0, 2.0, 96)
    fn = wp.jax_kernel(placed, num_outputs=2, launch_dims=96, output_dims={"counter": 1, "y": 96}, block_dim=32)
    both(jax.value_and_grad(lambda x: (weights * fn(x)[1]).sum()), x)


@wp.kernel
def positive(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    assert x[i, j] > 0.0
    y[i, j] = 1.0 / x[i, j]


@own_process(seconds=300)
def test_a_failed_check():
    """The same words as on the CPU."""
    import jax
    from ptx_xla import on_cuda

    x = np.random.default_rng(2).uniform(0.5, 2.0, (2, 4, 5)).astype(np.float32)
    function = jax.vmap(lambda x: wp.launch(positive, (4, 5), [x], [(4, 5)])[0])
    with wp.config(debug=True):
        np.testing.assert_allclose(on_cuda(function, x), 1 / x, rtol=1e-6)
        x[1, 2, 3] = -1
        with pytest.raises(jax.errors.JaxRuntimeError) as on_cpu:
            jax.block_until_ready(jax.jit(function)(x))
        with pytest.raises(jax.errors.JaxRuntimeError) as found:
            on_cuda(function, x)
    (told,) = (line for line in str(on_cpu.value).splitlines() if "thread (2, 3), batch (1)" in line)
    assert told.split("jwarp:")[1] in str(found.value)
