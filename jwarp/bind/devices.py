"""The GPUs to compile for."""

from __future__ import annotations

import jax

from jwarp.backend.cuda import nvrtc
from jwarp.backend.cuda.nvrtc import read_architectures
from jwarp.caches import cached


def architectures(setting: str) -> tuple[str, ...]:
    """The architectures to compile CUDA code for: those of `wp.config.cuda_arch`, else those of this process's GPUs.

    Without a GPU it is one architecture of each generation.
    """
    return read_architectures(setting) if setting else _of_gpus() or read_architectures("")


@cached("one")
def _of_gpus() -> tuple[str, ...]:
    """The architectures of the process's GPUs; starts no backend that is not needed anyway."""
    try:
        gpus = jax.devices("cuda")
    except RuntimeError:  # there is no plugin, it finds none, or JAX_PLATFORMS leaves it out
        return ()
    found = {f"sm_{str(gpu.compute_capability).replace('.', '')}" for gpu in gpus}
    return tuple(sorted(found, key=lambda name: int(name.removeprefix("sm_"))))


def may_have_gpu() -> bool:
    """True if code can be compiled for GPUs, so that traced code may come to run on one."""
    return nvrtc.is_installed()
