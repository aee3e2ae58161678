"""`wp.inspect`: what a kernel becomes on its way to machine code."""

from __future__ import annotations

from typing import Any

from jwarp.backend.cpu.compile import lower_kernel
from jwarp.backend.cpu.target import host_target, target_machine
from jwarp.config import config
from jwarp.errors import KernelTypeError, LaunchError, NotDifferentiableError
from jwarp.frontend.function import Kernel
from jwarp.ir.printing import format_kernel
from jwarp.launch.descriptor import program_of
from jwarp.transform.simplify import simplify

STAGES = ("ir", "llvm", "asm")
LATER = ("cuda", "ptx", "sass")


def inspect(kernel: Kernel, stage: str = "ir", *, adjoint: Any = None) -> str:
    """The text of `kernel` at `stage`: `ir`, `llvm` (after LLVM's passes) or `asm`.

    `llvm` and `asm` show the code for this processor that trusts the launch's proofs; all stages
    follow the settings in force, with the checks of debug mode under `wp.config(debug=True)`.

    Raises:
        KernelTypeError: `kernel` is not a `@wp.kernel`.
        LaunchError: there is no such stage.
        NotDifferentiableError: `adjoint` is given; adjoints are not available yet.
    """
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(f"wp.inspect takes a @wp.kernel, not {type(kernel).__name__}")
    if adjoint is not None and adjoint is not False:
        raise NotDifferentiableError("adjoint kernels are not available yet", kernel.span)
    if stage in LATER:
        raise LaunchError(f"stage {stage!r} is not available yet", hint=f"there are {', '.join(STAGES)}")
    if stage not in STAGES:
        raise LaunchError(f"there is no stage {stage!r}", hint=f"there are {', '.join(STAGES)}")
    settings = config.settings
    ir = program_of(kernel, settings).kernel
    if stage == "ir":
        return format_kernel(simplify(ir))
    module = lower_kernel(ir, settings).module()
    return str(module) if stage == "llvm" else target_machine(host_target()).emit_assembly(module)
