"""The custom calls for CUDA as XLA itself hands them over, in processes without a GPU."""

from forked_tests import own_process


@own_process(driver="/nowhere/libcuda.so.1")
def test_handlers_wait_for_a_gpu_from_the_import_on():
    import jax
    from jaxlib import xla_client

    from jwarp.bind.targets import CUDA_DEBUG_TARGET, CUDA_TARGET

    queued = {name: handlers for name, handlers, *_ in xla_client._custom_callback["CUDA"]}
    assert set(queued) >= {CUDA_TARGET, CUDA_DEBUG_TARGET}
    for target in (CUDA_TARGET, CUDA_DEBUG_TARGET):
        assert set(queued[target]) == {"instantiate", "prepare", "initialize", "execute"}
    assert float(jax.numpy.ones(3).sum()) == 3.0


@own_process(driver="/nowhere/libcuda.so.1")
def test_attributes_of_lowered_calls_are_read():
    """Registered for the CPU, the handlers get as far as asking for a stream, which a CPU does not have."""
    import jax
    import numpy as np
    import pytest

    import jwarp as wp
    from jwarp import _native
    from jwarp.backend.cuda import nvrtc
    from jwarp.bind.targets import CUDA_DEBUG_TARGET, CUDA_TARGET

    if nvrtc.missing():
        return
    for target, checks in ((CUDA_TARGET, False), (CUDA_DEBUG_TARGET, True)):
        handlers = _native.cuda_handlers(checks)
        stages = {stage: handlers[stage] for stage in ("instantiate", "execute")}
        jax.ffi.register_ffi_target(target, stages, platform="cpu")

    @wp.kernel
    def spring(x: wp.array[float], k: float, f: wp.array[float]):
        i = wp.tid()
        f[i] = -k * x[i]

    x, disabled = np.ones((3, 8), np.float32), [*wp.EXPORT_CHECKS, jax.export.DisabledSafetyCheck.platform()]
    for debug in (False, True):
        with wp.config(cuda_arch="sm_90", debug=debug):
            function = jax.jit(jax.vmap(wp.jax_kernel(spring), in_axes=(0, None)))
            exported = jax.export.export(function, platforms=["cuda"], disabled_checks=disabled)(x, np.float32(2))
        with pytest.raises(jax.errors.JaxRuntimeError, match="XLA FFI GPU context is not available"):
            exported.call(x, np.float32(2))
