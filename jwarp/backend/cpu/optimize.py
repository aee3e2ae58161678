"""Turns LLVM assembly into an optimised module for one processor."""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.binding as llvm

from jwarp.backend.cpu.target import Target, target_machine

PASSES = ("instruction_combine", "simplify_cfg", "dead_code_elimination")
# Of longer texts, combining instructions takes a tenth of the whole time, and the code is not shorter for it.
MAX_COMBINED = 1 << 16


def optimized_module(
    text: str, target: Target, first: Sequence[str] = (), in_line: Sequence[str] = ()
) -> llvm.ModuleRef:
    """The verified module of a text after LLVM's passes: those named `first`, and the few that most code has.

    Functions that it declares and that the texts `in_line` have are taken in line.
    """
    machine = target_machine(target)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    for other in in_line:
        part = llvm.parse_assembly(other)
        part.triple, part.data_layout = module.triple, module.data_layout
        module.link_in(part)
    module.verify()
    passes = llvm.create_new_module_pass_manager()
    for name in (
        *(("always_inliner",) if in_line else ()),
        *first,
        *(PASSES if len(text) <= MAX_COMBINED else PASSES[1:]),
    ):
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(1)))
    return module
