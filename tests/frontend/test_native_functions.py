"""Functions of native code: barriers by their text, what runs instead of others, what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

BLOCK = 32


@wp.func_native(snippet="WP_TILE_SYNC();")
def sync():
    pass


@wp.func_native("""
#if defined(__CUDA_ARCH__)
__syncthreads();
#endif
""")
def sync_as_in_newton(): ...


@wp.func
def softplus_in_python(x: float, k: float) -> float:
    return wp.log(1.0 + wp.exp(k * x)) / k


@wp.func_native("return logf(1.0f + expf(k * x)) / k;", adj_snippet="adj_x += 1.0f;", cpu=softplus_in_python)
def softplus(x: float, k: float) -> float: ...


@wp.func_native("return x + 1.0f;")
def on_gpus_only(x: float) -> float: ...


@wp.kernel
def turned(x: wp.array2d[float], work: wp.array2d[float], r: wp.array2d[float]):
    row, lane = wp.tid()
    work[row, lane] = x[row, lane]
    sync()
    r[row, lane] = work[row, wp.block_dim() - 1 - lane]
    sync_as_in_newton()
    work[row, lane] = 0.0


@wp.kernel
def smooth(x: wp.array[float], r: wp.array[float]):
    i = wp.tid()
    r[i] = softplus(x[i], k=2.0)


@wp.kernel
def refused(x: wp.array[float]):
    x[0] = on_gpus_only(x[0])


def test_a_text_that_only_waits_is_the_barrier_of_a_block():
    x = np.random.default_rng(0).normal(size=(3, BLOCK)).astype(np.float32)
    got = wp.launch(turned, (3, BLOCK), [jnp.asarray(x), jnp.zeros_like(x), jnp.zeros_like(x)], block_dim=BLOCK)
    np.testing.assert_array_equal(got["r"], x[:, ::-1])
    assert not got["work"].any()


def test_what_stands_for_native_code_runs_and_has_the_derivative():
    x = jnp.asarray(np.random.default_rng(1).normal(size=20), jnp.float32)
    fn = wp.jax_kernel(smooth)
    np.testing.assert_allclose(fn(x)[0], np.log1p(np.exp(2 * x)) / 2, rtol=1e-5)
    wp.check_grads(fn, (x,))
    assert softplus(1.0, 2.0) == pytest.approx(np.log1p(np.exp(2.0)) / 2)


def test_native_code_alone_is_refused_where_it_is_called():
    with pytest.raises(wp.CompileError, match="`on_gpus_only` is native code") as caught:
        wp.inspect(refused, "ir")
    assert "cpu=f" in caught.value.diagnostic.hint
    with pytest.raises(wp.KernelTypeError, match="only be called inside a kernel"):
        on_gpus_only(1.0)


def test_what_no_function_is_made_of_is_refused():
    with pytest.raises(wp.KernelTypeError, match="needs the text"):
        wp.func_native(sync)
    with pytest.raises(wp.KernelTypeError, match="under @wp.func"):
        wp.func_native("", cpu=np.sin)
