"""Finds the parameters whose addresses a kernel takes."""

from __future__ import annotations

from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import Const, Kernel
from jwarp.types.all_memory import MEMORY


def addressed(kernel: Kernel) -> tuple[int, ...]:
    """The parameters, ascending, whose descriptors a kernel reads in the table that has those of all."""
    table = {p for p, param in enumerate(kernel.params) if param.name == f"{MEMORY}.arguments"}
    rows = {node.indices[0] for node in contents_of(kernel.body).accesses if node.array in table}
    return tuple(sorted(int(row.value) for row in rows if isinstance(row, Const)))
