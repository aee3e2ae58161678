"""Launches IR on a device as the library does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jwarp.bind import primitive
from jwarp.compiler.program import GeneratedProgram
from jwarp.config import config
from jwarp.ir.nodes import Kernel, written_params
from jwarp.launching.descriptor import descriptor_of
from jwarp.launching.geometry import fold
from jwarp.wire import Role


def launched(kernel: Kernel, dims: Sequence[int], args: Sequence[Any], device: Any) -> list[np.ndarray]:
    """The array parameters after a launch of IR on a device, as `interpreter.run` gives them."""
    written = written_params(kernel)
    program = GeneratedProgram(kernel, config.settings)
    roles = tuple(Role.IN_OUT if p in written else Role.READ for p in range(len(kernel.params)))
    launch = descriptor_of(program, fold(tuple(dims), kernel.tid_dims, kernel.name), roles)
    with jax.enable_x64(True):
        given = (np.asarray(a, p.dtype.dtype) for p, a in zip(kernel.params, args, strict=True))
        operands = [jax.device_put(array, device) for array in given]
        results = dict(zip(written, primitive.bind(operands, launch, ()), strict=True))
        return [np.asarray(results.get(p, operands[p])) for p, param in enumerate(kernel.params) if param.is_array]
