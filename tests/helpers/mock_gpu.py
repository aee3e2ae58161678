"""A GPU that is none: the stand-in for the driver runs what is generated for CUDA, compiled for the processor."""

from __future__ import annotations

from typing import Any

import numpy as np
from host import compile_host
from mock_driver import driver

import jwarp as wp


def run_what_is_compiled() -> None:
    """From now on each kernel that is compiled for a GPU runs on the processor where it is launched."""
    from jwarp.backend.cuda.compile import CudaKernel
    from jwarp.backend.cuda.handwritten import Handwritten
    from jwarp.backend.cuda.shared import room_of

    generated, handwritten = CudaKernel.image, Handwritten.image

    def generated_image(kernel: Any, version: Any, architectures: Any, block_dim: Any = None) -> Any:
        made = generated(kernel, version, architectures, block_dim)
        _register(made.entry, kernel.unit(version, made.block, room_of(architectures)).text)
        return made

    def handwritten_image(kernel: Any, architectures: Any, blocks: Any) -> Any:
        made = handwritten(kernel, architectures, blocks)
        # Headers of the library are in the folder that the stand-in's compiler looks in.
        _register(made.entry, kernel.unit(blocks).text.replace('"jwarp/', '"'))
        return made

    CudaKernel.image = generated_image  # type: ignore[method-assign]
    Handwritten.image = handwritten_image  # type: ignore[method-assign]
    wp.config.cuda_arch = "sm_90"


def _register(entry: str, text: str) -> None:
    (host,) = compile_host([text])

    def kernel(words: Any, shape: Any) -> None:
        grid, block, shared = shape[:3], shape[3:6], shape[6]
        host.run(np.ctypeslib.as_array(words, (host.word_count,)), grid, block, shared, order=1)

    driver().register(entry, kernel)
