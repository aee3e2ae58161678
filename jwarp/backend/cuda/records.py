"""What an adjoint remembers on a GPU: tapes and logs of known length, in the thread's own memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from jwarp.backend.cuda.rules import C_TYPES, memory_type
from jwarp.ir.nodes import Block, Const, For, Kernel, Node, Op, While, blocks, walk
from jwarp.types import ScalarType, int64

# A thread's memory is far away, so records beyond this are no gain over running a loop again.
MAX_BYTES = 2048


@dataclass(frozen=True)
class Tape:
    """The names of the arrays of one tape, a field each, and of how many records they hold."""

    fields: tuple[str, ...]
    size: str


@dataclass(frozen=True)
class Log:
    """The names of the arrays of an array's log, and of how many records they hold."""

    places: str
    contents: str
    size: str


def tapes_of(kernel: Kernel) -> dict[int, Tape]:
    """The tapes of a kernel by their number."""
    return {
        number: Tape(tuple(f"tape{number}_field{k}" for k in range(len(types))), f"tape{number}_size")
        for number, types in _fields(kernel).items()
    }


def logs_of(kernel: Kernel) -> dict[int, Log]:
    """The logs of a kernel by the array whose elements they keep."""
    used = (n.attr for n in walk(kernel.body) if isinstance(n, Op) and n.name in ("save", "undo", "rollback", "mark"))
    return {a: Log(f"log{a}_places", f"log{a}_contents", f"log{a}_size") for a in sorted(set(used))}


def fits(kernel: Kernel) -> bool:
    """Whether the records of a kernel have a length that is known, and is not too much for a thread."""
    bounds = _bounds(kernel.body)
    if bounds is None:
        return False
    taped = sum(bounds["push", n] * sum(t.bits // 8 for t in types) for n, types in _fields(kernel).items())
    logged = sum(bounds["save", a] * (8 + kernel.array(a).dtype.bits // 8) for a in logs_of(kernel))
    return taped + logged <= MAX_BYTES


def declarations(kernel: Kernel) -> list[str]:
    """The C++ declarations of all tapes and logs, empty."""
    bounds = _bounds(kernel.body)
    assert bounds is not None, "a kernel is looked at by `fits` before code is made"
    lines = []
    fields = _fields(kernel)
    for number, tape in tapes_of(kernel).items():
        length = max(1, bounds["push", number])
        lines += [
            f"{memory_type(t)} {name}[{length}];" for t, name in zip(fields[number], tape.fields, strict=True)
        ]  # fmt: skip
        lines.append(f"int {tape.size} = 0;")
    for array, log in logs_of(kernel).items():
        length = max(1, bounds["save", array])
        lines.append(f"{C_TYPES[int64]} {log.places}[{length}];")
        lines.append(f"{memory_type(kernel.array(array).dtype)} {log.contents}[{length}];")
        lines.append(f"{C_TYPES[int64]} {log.size} = 0;")
    return lines


def _fields(kernel: Kernel) -> dict[int, tuple[ScalarType, ...]]:
    pushes = (n for n in walk(kernel.body) if isinstance(n, Op) and n.name == "push")
    return {n.attr[0]: tuple(x.type for x in n.args) for n in pushes}


def _bounds(block: Block) -> Mapping[tuple[str, int], int] | None:
    """How many records are added at most, by kind and number; None where that depends on the data."""
    total: Counter[tuple[str, int]] = Counter()
    for node in block.nodes:
        if isinstance(node, Op):
            if node.name in ("push", "save"):
                total[node.name, node.attr[0] if node.name == "push" else node.attr] += 1
            continue
        for inner in blocks(node):
            found = _bounds(inner)
            if found is None:
                return None
            trips = _trips(node)
            if found and trips is None:
                return None
            for key, count in found.items():
                total[key] += count * (trips or 0)
    return total


def _trips(node: Node) -> int | None:
    """How often a node runs its blocks; None where that is not known."""
    match node:
        case For(lo=Const(value=lo), hi=Const(value=hi), step=step):
            return len(range(lo, hi, step))
        case For() | While():
            return None
        case _:
            return 1
