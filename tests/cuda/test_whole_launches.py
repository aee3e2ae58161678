"""From a JAX function to the kernel's work, without a GPU: lowered for CUDA, launched by the runtime's own handlers
through a stand-in for the driver, and run by the code generated for CUDA on the processor; against the CPU's launch."""

import functools

import numpy as np
import pytest
from fake_xla import Xla, XlaError
from own_process import own_process

import jwarp as wp
from jwarp import _native
from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")
STREAM = 0x101


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


class Lowered:
    """What a function is lowered to for CUDA: the attributes and results of its one call, and the texts of kernels."""

    def __init__(self, function, *args):
        import jax

        from jwarp.backend.cuda.compile import CudaKernel
        from jwarp.backend.cuda.handwritten import Handwritten
        from jwarp.bind import primitive

        texts, calls = {}, []
        image, own_image, lowering = CudaKernel.image, Handwritten.image, jax.ffi.ffi_lowering

        def recorded_image(kernel, version, architectures, block_dim=None):
            made = image(kernel, version, architectures, block_dim)
            texts[made.entry] = kernel.unit(version, made.block).text
            return made

        def recorded_own_image(kernel, architectures, block):
            made = own_image(kernel, architectures, block)
            # Headers of the library are in the folder that the stand-in's compiler looks in.
            texts[made.entry] = kernel.unit(block).text.replace('"jwarp/', '"')
            return made

        def recorded_lowering(target, **options):
            call = lowering(target, **options)

            def lower(ctx, *operands, **attributes):
                calls.append((target, attributes, ctx.avals_out))
                return call(ctx, *operands, **attributes)

            return lower

        with pytest.MonkeyPatch.context() as patch, wp.config(cuda_arch="sm_90"):
            patch.setattr(CudaKernel, "image", recorded_image)
            patch.setattr(Handwritten, "image", recorded_own_image)
            patch.setattr(primitive.jax.ffi, "ffi_lowering", recorded_lowering)
            jax.jit(lambda *given: function(*given)).trace(*args).lower(lowering_platforms=("cuda",))
        ((self.target, self.attributes, self.results),) = calls
        self.texts = texts


@functools.cache
def registered(checks):
    return Xla(_native.cuda_handlers(checks))


def run_lowered(lowered, operands, results):
    """Runs the call on arrays, as XLA would on those of a GPU."""
    from host import compile_host
    from mock_driver import driver

    for entry, text in lowered.texts.items():
        (host,) = compile_host([text])

        def kernel(words, shape, host=host):
            grid, block, shared = shape[:3], shape[3:6], shape[6]
            host.run(np.ctypeslib.as_array(words, (host.word_count,)), grid, block, shared, order=1)

        driver().register(entry, kernel)
    target = registered(lowered.target == "jwarp_cuda_debug_v1")
    site = target.instantiate(lowered.attributes)
    site.prepare()
    site.initialize(STREAM)
    site.execute(STREAM, operands, results)
    site.delete()


def batched(rng, core, batch, masks, make):
    """An array with some of the batch axes, and the `in_axes` of each level of vmap, outermost first."""
    shape = [extent for extent, has in zip(batch, masks, strict=True) if has]
    return make(rng, (*shape, *core)), [0 if has else None for has in masks]


def vmapped(function, levels):
    import jax

    for axes in reversed(levels):
        if any(axis is not None for axis in axes):
            function = jax.vmap(function, in_axes=tuple(axes))
    return function


def floats(rng, shape):
    return rng.uniform(0.5, 2, size=shape).astype(np.float32)


def small_ints(rng, shape):
    return rng.integers(0, 5, size=shape).astype(np.int32)


def check(function, cores, makes, rng, in_outs=()):
    """A random batch: the lowered call on the processor against the same function of JAX's CPU."""
    import jax

    batch = [int(rng.choice([1, 2, 3])) for _ in range(rng.integers(0, 7))]
    masks = rng.integers(0, 2, size=(len(cores), len(batch)))
    made = [batched(rng, core, batch, mask, make) for core, mask, make in zip(cores, masks, makes, strict=True)]
    args = [array for array, _ in made]
    for p in in_outs:  # an initial content is broadcast before the call, outside of it
        levels = [level for level in range(len(batch)) if any(axes[level] == 0 for _, axes in made)]
        args[p] = makes[p](rng, (*(batch[level] for level in levels), *cores[p]))
        made[p] = args[p], [0 if level in levels else None for level in range(len(batch))]
    levels = [[axes[level] for _, axes in made] for level in range(len(batch))]
    whole = vmapped(function, levels)
    expected = [np.asarray(y) for y in jax.jit(whole)(*args)]
    lowered = Lowered(whole, *args)
    results = [np.full(y.shape, 77, y.dtype) for y in expected]
    run_lowered(lowered, args, results)
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    return len(batch)


@own_process(seconds=400)
def test_batches_of_arrays_numbers_and_vectors():
    """Results that start as zeros and in-out results, negative indices, accesses under conditions."""
    rng = np.random.default_rng(0)
    function = lambda x, k, v, s: wp.launch(blend, (2, 3), [x, k, v], [2, s])  # noqa: E731
    axes = [check(function, [(2, 3), (), (3,), (2, 3)], [floats] * 4, rng, in_outs=[3]) for _ in range(12)]
    assert max(axes) > 4


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
