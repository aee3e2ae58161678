"""From a JAX function to the work of a kernel with tiles, without a GPU: as in `test_whole_launches`."""

import numpy as np
import pytest
from cuda_launches import Lowered, check, floats, run_lowered
from cuda_tile_launches import product, softmax
from forked_tests import own_process

import jwarp as wp
from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")


@own_process(seconds=300)
def test_batches_of_products():
    rng = np.random.default_rng(0)
    axes = [check(product, [(32, 24), (24, 48)], [floats] * 2, rng) for _ in range(4)]
    assert max(axes) > 3


@own_process(seconds=300)
def test_gradients_of_products():
    import jax

    def gradients(a, b, weight):
        return jax.grad(lambda a, b: (product(a, b)[0] * weight).sum(), (0, 1))(a, b)

    rng = np.random.default_rng(1)
    for _ in range(2):
        check(gradients, [(32, 24), (24, 48), (32, 48)], [floats] * 3, rng)


@own_process(seconds=300)
def test_batches_of_rows():
    rng = np.random.default_rng(2)
    function = lambda x, k: wp.launch_tiled(softmax, [5], [x, k], [x.shape, 1], block_dim=32)  # noqa: E731
    for _ in range(4):
        check(function, [(5, 40), ()], [floats] * 2, rng)


@wp.func
def positive(x: float):
    assert x > 0.0
    return wp.sqrt(x)


@wp.kernel
def roots(x: wp.array2d[float], y: wp.array2d[float]):
    i = wp.tid()
    row = wp.tile_load(x, shape=(1, 40), offset=(i, 0))
    assert row[0, 3] > 0.25
    wp.tile_store(y, wp.tile_map(positive, row), offset=(i, 0))


@own_process(seconds=300)
def test_checks_of_elements_and_of_blocks():
    """The same words as on the CPU, also where a single lane fails and the others wait for it."""
    import jax
    from fake_xla import XlaError

    given = floats(np.random.default_rng(3), (2, 5, 40))
    function = jax.vmap(lambda x: wp.launch_tiled(roots, [5], [x], [x.shape], block_dim=32)[0])
    with wp.config(debug=True):
        lowered = Lowered(function, given)
        results = [np.zeros(y.shape, y.dtype) for y in lowered.results]
        run_lowered(lowered, [given], results)
        np.testing.assert_allclose(results[0], np.sqrt(given), rtol=1e-6)
        for place in ((1, 2, 3), (1, 2, 39), (0, 4, 17)):
            x = given.copy()
            x[place] = -1
            with pytest.raises(jax.errors.JaxRuntimeError) as on_cpu:
                jax.block_until_ready(jax.jit(function)(x))
            with pytest.raises(XlaError) as caught:
                run_lowered(lowered, [x], [np.zeros(y.shape, y.dtype) for y in lowered.results])
            assert str(caught.value) in str(on_cpu.value), (caught.value, on_cpu.value)
            assert f"thread ({place[1]}), batch ({place[0]})" in str(caught.value)
