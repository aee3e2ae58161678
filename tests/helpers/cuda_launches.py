"""From a JAX function to the kernel's work without a GPU: lowered for CUDA, and launched through stand-ins."""

import functools

import numpy as np
import pytest
from fake_xla import Xla

import jwarp as wp
from jwarp import _native

STREAM = 0x101


class Lowered:
    """A function lowered for CUDA: the attributes and results of its one call, and the texts of kernels."""

    def __init__(self, function, *args):
        import jax

        from jwarp.backend.cuda.shared import room_of
        from jwarp.bind import primitive
        from jwarp.compiler.cuda import CudaKernel
        from jwarp.compiler.handwritten import Handwritten

        texts, calls = {}, []
        image, own_image, lowering = CudaKernel.image, Handwritten.image, jax.ffi.ffi_lowering

        def recorded_image(kernel, version, architectures, block_dim=None):
            made = image(kernel, version, architectures, block_dim)
            texts[made.entry] = kernel.unit(version, made.block, room_of(architectures)).text
            return made

        def recorded_own_image(kernel, architectures, blocks):
            made = own_image(kernel, architectures, blocks)
            # Headers of the library are in the folder that the stand-in's compiler looks in.
            texts[made.entry] = kernel.unit(blocks).text.replace('"jwarp/', '"')
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
    from cuda_on_host import compile_host
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
