"""From a JAX function to the kernel's work, without a GPU: lowered for CUDA, launched by the runtime's own handlers
through a stand-in for the driver, and run by the code generated for CUDA on the processor; against the CPU's launch."""

import numpy as np
import pytest
from cuda_launches import Lowered, check, floats, run_lowered, small_ints
from fake_xla import XlaError
from forked_tests import own_process

import jwarp as wp
from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")


@wp.kernel
def blend(x: wp.array2d[float], k: float, v: wp.vec3, y: wp.array[wp.vec3], s: wp.array2d[float]):
    i, j = wp.tid()
    s[i, j] += k * x[i, j] + v[2] * x[i, j - 1]
    if j == 0:
        y[i] = v * x[i, 0]


@wp.kernel
def histogram(x: wp.array[int], n: int, counts: wp.array[int], total: wp.array[int]):
    i = wp.tid()
    if x[i] < n:
        wp.atomic_add(counts, x[i], 1)
    wp.atomic_max(total, 0, x[i] * n)


@wp.kernel
def positive(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    assert x[i, j] > 0.0
    y[i, j] = 1.0 / x[i, j]


@own_process(seconds=400)
def test_batches_of_arrays_numbers_and_vectors():
    """Results that start as zeros and in-out results, negative indices, accesses under conditions."""
    rng = np.random.default_rng(0)
    function = lambda x, k, v, s: wp.launch(blend, (2, 3), [x, k, v], [2, s])  # noqa: E731
    axes = [check(function, [(2, 3), (), (3,), (2, 3)], [floats] * 4, rng, in_outs=[3]) for _ in range(12)]
    assert max(axes) > 4


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
@own_process(seconds=400)
def test_batches_with_atomics_and_repeats():
    rng = np.random.default_rng(1)
    function = lambda x, n: wp.launch(histogram, (7, 2), [x, n], [5, 1])  # noqa: E731
    for _ in range(8):
        check(function, [(7,), ()], [small_ints, small_ints], rng)


@own_process(seconds=200)
def test_a_failed_check_of_a_batch():
    """The same words as on the CPU."""
    import jax

    rng = np.random.default_rng(2)
    x = floats(rng, (2, 3, 4, 5))
    x[1, 2, 3, 1] = x[1, 2, 1, 4] = -1
    function = jax.vmap(jax.vmap(lambda x: wp.launch(positive, (4, 5), [x], [(4, 5)])))
    with wp.config(debug=True):
        lowered = Lowered(function, x)
        with pytest.raises(jax.errors.JaxRuntimeError) as on_cpu:
            jax.block_until_ready(jax.jit(function)(x))
        with pytest.raises(XlaError) as found:
            run_lowered(lowered, [x], [np.zeros(y.shape, y.dtype) for y in lowered.results])
    assert str(found.value) in str(on_cpu.value), (found.value, on_cpu.value)
    assert "thread (1, 4), batch (1, 2)" in str(found.value)


HANDWRITTEN = """\
__global__ void mix(jw::array<const float, 2> x, float k, const float* bias, jw::array<float, 2> y, float* sums) {
  __shared__ float row[4];
  int j = threadIdx.x, i = blockIdx.y;
  if (j < x.shape(1)) row[j] = k * x(i, j) + bias[j];
  __syncthreads();
  if (j < x.shape(1)) {
    y(i, j) += row[x.shape(1) - 1 - j];
    atomicAdd(sums + j, row[j]);
  }
}
"""


def mixed(x, k, bias, y):
    """A launch of the kernel with a row of the grid to each row of `x`; `y` is changed."""

    def cpu(x, k, bias, y):
        rows = k * x + bias
        return y + rows[:, ::-1], rows.sum(0)

    one, two = wp.array[float], wp.array2d[float]
    kernel = wp.cuda_kernel(
        HANDWRITTEN, "mix", {"x": two, "k": float, "bias": one, "y": two, "sums": one},
        outputs=["y", "sums"], in_out_argnames=["y"], cpu=cpu, block_dim=32, grid=lambda dim: (1, dim[0]),
    )  # fmt: skip
    return wp.launch(kernel, x.shape, [x, k, bias], [y, x.shape[1]])


@own_process(seconds=400)
def test_batches_of_handwritten_kernels():
    """In-out results, shared memory and both axes of the grid, in up to six batch axes."""
    rng = np.random.default_rng(2)
    axes = [check(mixed, [(2, 3), (), (3,), (2, 3)], [floats] * 4, rng, in_outs=[3]) for _ in range(12)]
    assert max(axes) > 4


@own_process(seconds=400)
def test_batches_of_the_library():
    rng = np.random.default_rng(3)
    for _ in range(4):
        check(lambda x: (wp.device.scan(x, exclusive=True),), [(2, 300)], [floats], rng)
        check(lambda x, i: (wp.device.scatter_add(x, i, 4),), [(7, 2), (7,)], [floats, small_ints], rng)
