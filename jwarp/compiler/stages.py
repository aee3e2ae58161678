"""The kernel after each pass on the way to its code, as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jwarp.compiler import pipeline
from jwarp.compiler.analysed import AnalysedKernel
from jwarp.compiler.cpu import CpuKernel
from jwarp.compiler.cuda import CudaKernel
from jwarp.compiler.derivation_cache import NO_CACHE
from jwarp.compiler.derive import derive, in_known_order
from jwarp.compiler.derived import Variant
from jwarp.compiler.order import in_one_order
from jwarp.compiler.passes import State, note, run, watching
from jwarp.compiler.program import GeneratedProgram
from jwarp.ir.printing import format_kernel


def passes_text(program: GeneratedProgram, target: str, variant: Variant | None = None) -> str:
    """The kernel after each pass that changed it, and the names of the other passes, in the order in which they run.

    The passes are those for code for a `target`: of the program itself, or of its derivative `variant`. They run once
    more for this, as caches have results alone.
    """
    is_ordered = variant is not None and in_known_order(program, [variant]) is not program
    again = dataclasses.replace(program, cache=NO_CACHE)
    with watching() as states:
        if variant is None:
            note("as read", program.as_read)
            again = dataclasses.replace(again, kernel=run(pipeline.PROGRAM, program.as_read, program.context))
        else:
            again = derive(again.running(in_one_order) if is_ordered else again, variant).program
        _ = _prepared(again, target).proofs
    return _text(states)


def _prepared(program: GeneratedProgram, target: str) -> AnalysedKernel:
    """The kernel that code for a target is generated from, with nothing from a cache."""
    if target == "cuda":
        return CudaKernel(program.gpu_kernel, program.settings)
    return CpuKernel(program.kernel, program.settings)


def _text(states: Iterable[State]) -> str:
    shown: list[str] = []
    unchanged: list[str] = []
    last = ""
    for name, kernel in states:
        text = format_kernel(kernel)
        if text == last:
            unchanged.append(name)
            continue
        shown += [*_named(unchanged), f"# {name}", text.rstrip(), ""]
        last, unchanged = text, []
    return "\n".join([*shown, *_named(unchanged)])


def _named(unchanged: list[str]) -> list[str]:
    return [f"# unchanged by: {', '.join(unchanged)}", ""] if unchanged else []
