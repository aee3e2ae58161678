"""Compiles a kernel of Warp's, and its adjoint, as a launch would, and says what came of it and how long it took."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from jwarp.compiler.cpu import lower_kernel
from jwarp.compiler.derive import Variant, derive, in_known_order
from jwarp.compiler.program import GeneratedProgram, program_of
from jwarp.compiler.program_base import Program
from jwarp.config import config
from jwarp.errors import JwarpError
from jwarp.frontend.kernel_base import Kernel

BLOCK = 32  # threads of a block, where the kernel has tiles and no launch of it is known


@dataclass(frozen=True)
class Compiled:
    """Of a kernel or an adjoint: `compiled`, `refused`, `fault` (a raw error) or `none`; seconds of the processor."""

    verdict: str
    reason: str
    seconds: float


def forward(kernel: Kernel, dims: tuple[int, ...] = (), block_dim: int | None = None) -> Compiled:
    """Compile what launches over `dims` run where they are proven to stay inside their arrays."""
    return _timed(lambda: _code(_program(kernel, dims, block_dim)))


def adjoint(kernel: Kernel, dims: tuple[int, ...] = (), block_dim: int | None = None) -> Compiled:
    """Compile the adjoint by all floats, given all that the kernel writes; `none` if it has no floats to give."""

    def made() -> str | None:
        program = _program(kernel, dims, block_dim)
        floats = tuple(k for k, p in enumerate(program.params) if p.dtype.is_float)
        outputs = tuple(k for k in program.written if k in floats)
        if not outputs:
            return "none"
        variant = Variant("adjoint", floats, outputs)
        assert isinstance(program, GeneratedProgram)
        derived = derive(in_known_order(program, (variant,)), variant)  # as where JAX differentiates the launch
        assert isinstance(derived.program, GeneratedProgram)
        return _code(derived.program)

    return _timed(made)


def _program(kernel: Kernel, dims: tuple[int, ...], block_dim: int | None) -> Program:
    program = program_of(kernel, config.settings)
    if not program.kernel.block_dim:
        return program
    if dims:
        return program.arranged(dims, block_dim)[0]
    axes = program.kernel.tid_dims
    try:
        return program.arranged((2,) * max(1, axes - 1) + (BLOCK,), BLOCK)[0]
    except JwarpError:
        try:  # as `launch_tiled` does where the kernel does not ask for its lanes
            return program.arranged((2,) * axes + (BLOCK,), BLOCK)[0]
        except JwarpError:
            pass
        raise


def _code(program: Program) -> None:
    lower_kernel(program.kernel, program.settings).compile("fast")


def _timed(step: Any) -> Compiled:
    start = time.process_time()
    verdict, reason = "compiled", ""
    try:
        verdict = step() or verdict
    except JwarpError as error:
        verdict, reason = "refused", f"{type(error).__name__}: {str(error).splitlines()[0]}"
    except Exception as error:
        verdict, reason = "fault", f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    return Compiled(verdict, reason, time.process_time() - start)
