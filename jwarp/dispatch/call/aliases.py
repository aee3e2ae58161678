"""Arrays of one launch that show the same elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jwarp.analysis.read_first import reads_first as in_order
from jwarp.arrays.array import array
from jwarp.arrays.overlap import overlap
from jwarp.compiler.program import Program
from jwarp.config import config
from jwarp.errors import LaunchError
from jwarp.frontend.kernel import PythonKernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.functions import without_reading_functions


def identical(of: dict[int, array], written: tuple[int, ...]) -> dict[int, int]:
    """Of parameters that are given one view of one memory, all but one, and that one, which is written if any is."""
    first: dict[Any, int] = {}
    for p in sorted(of, key=lambda p: (p not in written, p)):
        first.setdefault((id(of[p].memory), of[p].layout), p)
    found = {p: first[id(a.memory), a.layout] for p, a in of.items()}
    return {p: q for p, q in found.items() if p != q}


def reads_first(kernel: Kernel, read: int, changed: int) -> bool:
    """True if a launch may read a copy of one array, made before, while it changes another that overlaps it.

    So it may if no thread would see by one name what it wrote by the other one: Warp promises nothing about other
    threads.
    """
    if kernel.uses_tiles or not isinstance(kernel, PythonKernel):
        return False
    return in_order(without_reading_functions(kernel.values_ir(kernel.settled(config.settings))[0]), read, changed)


def overlaps(written: Iterable[int], of: dict[int, array], same: dict[int, int]) -> Iterator[tuple[int, int]]:
    """The parameters that are written, with those whose arrays overlap theirs and are none of theirs."""
    for p in written:
        for q, a in of.items():
            if p in of and same.get(p, p) != same.get(q, q) and overlap(of[p], a):
                yield p, q


def overlap_error(program: Program, of: dict[int, array], p: int, q: int, why: str, hint: str) -> LaunchError:
    """The error for a parameter that is written, and another one whose array overlaps its array."""
    names, made = [program.params[k].name for k in (p, q)], [of[k].memory.made_at for k in (p, q)]
    places = " and ".join(dict.fromkeys(made))
    return LaunchError(
        f"kernel '{program.name}': '{names[0]}', which it writes, overlaps '{names[1]}' in memory, {why}: {places}",
        hint=hint,
    )


def refuse_overlaps(program: Program, of: dict[int, array], same: dict[int, int], changed: Iterable[int] = ()) -> None:
    """Refuse the derivative of a launch on arrays that overlap. It writes to the parameters `changed` itself.

    Raises:
        LaunchError: some do.
    """
    for p, q in overlaps((*program.written, *changed), of, same):
        raise overlap_error(
            program, of, p, q, "which an adjoint does not follow", "pass one array for both, or a copy of one"
        )


def refuse_unordered(kernel: Kernel, program: Program, of: dict[int, array], same: dict[int, int]) -> None:
    """Refuse a launch on arrays that overlap, unless what is read may be a copy.

    Raises:
        LaunchError: some overlap that are written, or that a thread reads after it has written.
    """
    for p, q in overlaps(program.written, of, same):
        if q in program.written or not reads_first(kernel, q, p):
            why, hint = UNORDERED[q in program.written]
            raise overlap_error(program, of, p, q, why, hint)


# Why arrays that overlap are refused: those of which one is only read, and those that are both written.
UNORDERED = {
    False: (
        "and a thread may read by one name what it wrote by the other",
        "read all of it first, or pass one array for both, or a copy of what is read",
    ),
    True: ("and both are written", "pass one array for both"),
}
