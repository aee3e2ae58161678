"""`wp.inspect`: what a kernel becomes on its way to machine code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jwarp.api.tracebacks import shortening
from jwarp.backend.annotate import annotated
from jwarp.backend.cpu.source_lines import with_directives
from jwarp.backend.cpu.target import target_machine
from jwarp.compiler.cpu import lower_kernel
from jwarp.compiler.cuda_text import cuda_text, handwritten_text
from jwarp.compiler.derivative_steps import any_variant, variant_of
from jwarp.compiler.derive import derive, in_known_order
from jwarp.compiler.derived import Variant
from jwarp.compiler.handwritten import Handwritten
from jwarp.compiler.handwritten_program import HandwrittenProgram
from jwarp.compiler.program import GeneratedProgram, program_of
from jwarp.compiler.program_base import Program
from jwarp.compiler.stages import passes_text
from jwarp.config import config
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.foreign.kernels import as_kernel
from jwarp.frontend.generics import GenericKernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.printing import format_kernel
from jwarp.launching.record import Record, Sizes
from jwarp.passes.simplify import simplify

CUDA_STAGES = ("cuda", "ptx", "sass", "resources")
PASSES = {"passes": "cpu", "cuda_passes": "cuda"}  # stages, and the targets whose passes they show
STAGES = ("ir", *PASSES, "llvm", "asm", *CUDA_STAGES)


@shortening
def inspect(kernel: Kernel | Record, stage: str = "ir", *, adjoint: bool | str | Sequence[str] | None = None) -> str:
    """The code of a kernel or launch record at `stage`, as text.

    - `ir`: the kernel in jwarp's intermediate form. `passes`: the IR after each pass, for this processor;
      `cuda_passes`: for GPUs.
    - `llvm` (after LLVM's passes) and `asm`: the code for this processor.
    - `cuda`, `ptx` and `sass`: the CUDA C++ code, and NVRTC's result for the first architecture of
      `wp.config.cuda_arch` (sm_90 if empty). `resources`: size and registers for every architecture of
      `wp.config.cuda_arch`.

    The code is that of the fast version, which relies on the launch conditions, with your lines as comments. All stages
    follow the current settings; under `wp.config(debug=True)`, they contain the checks of debug mode.

    Args:
        kernel: A `@wp.kernel`, or a `wp.Launch`, which defines itself whether it is an adjoint.
        stage: The stage.
        adjoint: True for the adjoint with respect to all floating-point arguments, or the names of parameters; False or
            None for the kernel itself. In the adjoint, outputs start from zeros. That of a launch is the one that is
            run for its sizes.

    Raises:
        KernelTypeError: `kernel` is neither a `@wp.kernel` nor a `wp.Launch`.
        LaunchError: There is no such stage or parameter, or NVIDIA's tools for `ptx` and `sass` are not found.
        NotDifferentiableError: A gradient has no exact derivative.
    """
    sizes = None
    if isinstance(kernel, Record):
        if adjoint is None and kernel.adjoint:
            adjoint = list(kernel.wanted) or False
        # The adjoint depends on the sizes of the launch: gradients are gathered where neighbours are within reach.
        sizes = kernel.sizes() if adjoint else None
        kernel = kernel.kernel
    kernel = as_kernel(kernel)
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(f"wp.inspect takes a @wp.kernel or a wp.Launch, not {type(kernel).__name__}")
    if isinstance(kernel, GenericKernel):
        kernel = kernel.the_overload()
    if stage not in STAGES:
        raise LaunchError(f"there is no stage {stage!r}", hint=f"there are {', '.join(STAGES)}")
    program = program_of(kernel, config.settings)
    return _TEXTS[type(program)](program, stage, adjoint, sizes)


def _generated(program: GeneratedProgram, stage: str, adjoint: Any, sizes: Sizes | None) -> str:
    """The text of a stage of a generated kernel."""
    settings = program.settings
    has_variant, for_gpu = adjoint is not None and adjoint is not False, stage in (*CUDA_STAGES, "cuda_passes")
    variant = _variant(program, adjoint, sizes, for_gpu=for_gpu) if has_variant else None
    if stage in PASSES:
        return passes_text(program, PASSES[stage], variant)
    if variant is not None:
        program = derive(in_known_order(program, [variant]), variant).program
    if stage in CUDA_STAGES:
        return cuda_text(program.gpu_kernel, settings, stage)
    ir = program.kernel
    if stage == "ir":
        return format_kernel(simplify(ir))
    made = lower_kernel(ir, settings)
    module = made.module(options=dataclasses.replace(made.options, lines=True))
    if stage == "llvm":
        return annotated(with_directives(str(module)), ";")
    return annotated(target_machine(made.options.target).emit_assembly(module), "#")


def _handwritten(program: HandwrittenProgram, stage: str, adjoint: Any, _: Sizes | None) -> str:
    """The author's text with what is around it, and what NVRTC makes of it, in blocks as the author says."""
    if stage not in CUDA_STAGES:
        raise LaunchError(
            f"kernel '{program.name}' is written in CUDA C++, which has no stage {stage!r}",
            hint=f"there are {', '.join(CUDA_STAGES)}",
        )
    if adjoint:
        raise LaunchError(f"kernel '{program.name}' is written in CUDA C++: its adjoint is inspected by itself")
    made = Handwritten(program.definition, program.kernel, program.settings)
    return handwritten_text(made, stage)


_TEXTS: dict[type[Program], Callable[..., str]] = {GeneratedProgram: _generated, HandwrittenProgram: _handwritten}


def _variant(program: GeneratedProgram, adjoint: Any, sizes: Sizes | None, *, for_gpu: bool) -> Variant:
    """The adjoint by the parameters that are asked for, as a launch of these sizes chooses it where they are known."""
    floats = {p.name: k for k, p in enumerate(program.params) if p.dtype.is_float}
    outputs = tuple(p for p in program.written if p in floats.values())
    inputs = tuple(p for p in floats.values() if p not in outputs)
    if adjoint is not True:
        names = [adjoint] if isinstance(adjoint, str) else list(adjoint)
        unknown = [name for name in names if name not in floats]
        if unknown:
            raise LaunchError(
                f"kernel '{program.name}' has no parameter {unknown[0]!r} with a gradient; there are "
                f"{', '.join(floats)}"
            )
        inputs = tuple(floats[name] for name in names)
    fresh = tuple(p for p in outputs if p not in inputs)
    if sizes is not None:
        return variant_of(
            "adjoint", program, sizes.geometry, sizes.extents, inputs, outputs,
            integers=sizes.integers, fresh=fresh, for_gpu=for_gpu,
        )  # fmt: skip
    return any_variant("adjoint", inputs, outputs, fresh=fresh, for_gpu=for_gpu)
