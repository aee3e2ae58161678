"""Arrays of one launch that show the same elements."""

from __future__ import annotations

from typing import Any

from jwarp.arrays.array import array
from jwarp.arrays.overlap import overlap
from jwarp.errors import LaunchError
from jwarp.launching.program import Program


def identical(of: dict[int, array], written: tuple[int, ...]) -> dict[int, int]:
    """Of parameters that are given one view of one memory, all but one, and that one, which is written if any is."""
    first: dict[Any, int] = {}
    for p in sorted(of, key=lambda p: (p not in written, p)):
        first.setdefault((id(of[p].memory), of[p].layout), p)
    found = {p: first[id(a.memory), a.layout] for p, a in of.items()}
    return {p: q for p, q in found.items() if p != q}


def refuse_overlaps(program: Program, of: dict[int, array], same: dict[int, int]) -> None:
    for p in program.written:
        for q, a in of.items():
            if p in of and same.get(p, p) != same.get(q, q) and overlap(of[p], a):
                names = [program.params[k].name for k in (p, q)]
                raise LaunchError(
                    f"kernel '{program.name}': '{names[0]}', which it writes, and '{names[1]}' overlap in memory, which"
                    " an adjoint does not follow",
                    hint="pass one array for both, or a copy of one",
                )
