"""How much an adjoint remembers: the records of its tapes and logs, where their number does not depend on data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from jwarp.ir.attributes import RecordFields
from jwarp.ir.nodes import Block, Const, For, Kernel, Node, Op, While, blocks, walk
from jwarp.ir.row_groups import Memory
from jwarp.types import ScalarType, shape_of

# A GPU keeps a thread's own memory far away: records beyond this are no gain over running a loop again.
MAX_BYTES = 2048
PLACE_BYTES = 8  # of an element in the log of its array


def fits_thread(kernel: Kernel) -> bool:
    """True if all records have a known number and fit into the thread's local memory."""
    counts = record_counts(kernel.body)
    if counts is None:
        return False
    taped = sum(counts["push", n] * sum(_bytes(t) for t in types) for n, types in tape_fields(kernel).items())
    logged = sum(counts["save", a] * (PLACE_BYTES + kernel.array(a).dtype.bits // 8) for a in logged_arrays(kernel))
    noted = sum(counts["note", a] * (kernel.array(a).dtype.bits // 8) for a in noted_arrays(kernel))
    return taped + logged + noted <= MAX_BYTES


def _bytes(type_: ScalarType) -> int:
    return type_.bits // 8 * math.prod(shape_of(type_))


def tape_fields(kernel: Kernel) -> dict[int, tuple[ScalarType, ...]]:
    """The types of the fields of each tape, by its number."""
    pushes = (n for n in walk(kernel.body) if isinstance(n, Op) and n.row.adds_to_tape)
    return {n.attr_as(RecordFields).tape: tuple(x.type for x in n.args) for n in pushes}


def logged_arrays(kernel: Kernel) -> tuple[int, ...]:
    """The arrays whose overwritten elements are kept, ascending."""
    return tuple(sorted({n.array for n in walk(kernel.body) if isinstance(n, Op) and n.row.uses_log}))


def noted_arrays(kernel: Kernel) -> tuple[int, ...]:
    """The arrays of which what was found in them is noted, ascending."""
    return tuple(sorted({n.array for n in walk(kernel.body) if isinstance(n, Op) and n.row.uses_notes}))


def record_counts(block: Block) -> Mapping[tuple[str, int], int] | None:
    """How many records are added at most, by operation and number; None where that depends on data."""
    total: Counter[tuple[str, int]] = Counter()
    for node in block.nodes:
        if isinstance(node, Op):
            if node.row.uses.adds in (Memory.TAPE, Memory.LOG, Memory.NOTES):
                total[node.name, node.attr_as(RecordFields).tape if node.row.uses_tape else node.array] += 1
            continue
        iterations = _iterations(node)
        for inner in blocks(node):
            found = record_counts(inner)
            if found is None or (found and iterations is None):
                return None
            for key, count in found.items():
                total[key] += count * (iterations or 0)
    return total


def _iterations(node: Node) -> int | None:
    """How often a node runs its blocks; None where that is not known."""
    match node:
        case For(lo=Const(value=lo), hi=Const(value=hi), step=step):
            return len(range(lo, hi, step))
        case For() | While():
            return None
        case _:
            return 1
