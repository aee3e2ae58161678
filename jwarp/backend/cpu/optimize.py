"""Optimise LLVM assembly for one processor."""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.binding as llvm

from jwarp.backend.cpu.target import Target, target_machine

PASSES = ("instruction_combine", "simplify_cfg", "dead_code_elimination")
# Of longer texts, combining instructions takes a tenth of the whole time, and the code is not shorter for it.
MAX_COMBINED = 1 << 16


def optimized_module(
    text: str, target: Target, first: Sequence[str] = (), inlined: Sequence[str] = ()
) -> llvm.ModuleRef:
    """The verified module of a text after LLVM's passes: those named `first`, and the few that most code has.

    Functions that it declares and that the texts `inlined` have are inlined.
    """
    inliner = ("always_inliner",) if inlined else ()
    try:
        module = _module(text, target, inlined)
        _run(module, target, (*inliner, *first, *(PASSES if len(text) <= MAX_COMBINED else PASSES[1:])))
        module.verify()
    except RuntimeError:  # a pass has a fault, and invalid code would end the process: without them it is longer
        module = _module(text, target, inlined)
        _run(module, target, inliner)
        module.verify()
    return module


def _module(text: str, target: Target, inlined: Sequence[str]) -> llvm.ModuleRef:
    """The verified module of a text and of the functions that are to be inlined."""
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(target_machine(target).target_data)
    for other in inlined:
        part = llvm.parse_assembly(other)
        part.triple, part.data_layout = module.triple, module.data_layout
        module.link_in(part)
    module.verify()
    return module


def _run(module: llvm.ModuleRef, target: Target, names: Sequence[str]) -> None:
    """Let LLVM's passes of these names change the module."""
    passes = llvm.create_new_module_pass_manager()
    for name in names:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, llvm.create_pass_builder(target_machine(target), llvm.create_pipeline_tuning_options(1)))
