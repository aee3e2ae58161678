"""The optimised LLVM module of a generated kernel."""

from __future__ import annotations

import llvmlite.binding as llvm

from jwarp.backend.cpu.access.shared_loads import emit
from jwarp.backend.cpu.code import Options
from jwarp.backend.cpu.entry import Generated
from jwarp.backend.cpu.optimize import optimized_module

LOCAL_PASSES = ("sroa",)
UNROLLING_PASSES = ("loop_rotate", "loop_unroll")


def optimized_code(made: Generated, options: Options) -> llvm.ModuleRef:
    """The verified and optimised module of a generated kernel."""
    # Elements of local arrays with constant indices become values.
    passes: tuple[str, ...] = LOCAL_PASSES if " = alloca " in made.text else ()
    if options.fast_math:  # where sums may be made in any order, a few iterations at once are worth three percent
        passes += UNROLLING_PASSES
    inlined = [emit(load, options.target, is_near=True) for load in made.inlined]
    return optimized_module(made.text, options.target, passes, inlined)
