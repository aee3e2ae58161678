"""The records of an adjoint on a GPU: tapes, logs and notes, in local memory or on the device's heap."""

from __future__ import annotations

from dataclasses import dataclass

from jwarp.analysis.tape_sizes import fits_thread, logged_arrays, noted_arrays, record_counts, tape_fields
from jwarp.backend.cuda.rules import C_TYPES, memory_type
from jwarp.errors import NotDifferentiableError
from jwarp.ir.nodes import For, Kernel, Op, failure_texts, walk
from jwarp.ir.row_groups import Memory
from jwarp.types import int64

# The launcher's message if the device's heap has no place for a record.
FULL = (
    "its derivative remembers more than the GPU's heap has a place for; launch fewer threads at a time, or store what "
    "loops overwrite to another array"
)
# Operations that push a record add to one of these.
RECORDS = (Memory.TAPE, Memory.LOG, Memory.NOTES)
# Bytes of the heap that are asked for, and blocks of a multiprocessor that share it.
HEAP = 1 << 30
BLOCKS_PER_SM = 2


@dataclass(frozen=True)
class Tape:
    """The names of the arrays of one tape, a field each, and of how many records they hold."""

    fields: tuple[str, ...]
    size: str


@dataclass(frozen=True)
class Log:
    """The names of the arrays of an array's log, and of how many records they hold.

    Where a block restores it together, a record says in which turn it was made, and there is the number of the turn.
    """

    places: str
    contents: str
    size: str
    turns: str
    turn: str


@dataclass(frozen=True)
class Notes:
    """The names of the array with the notes of an array, and of the place of the next one."""

    contents: str
    place: str


def tapes_of(kernel: Kernel) -> dict[int, Tape]:
    """The tapes of a kernel by their number."""
    return {
        number: Tape(tuple(f"tape{number}_field{k}" for k in range(len(types))), f"tape{number}_size")
        for number, types in tape_fields(kernel).items()
    }


def logs_of(kernel: Kernel) -> dict[int, Log]:
    """The logs of a kernel by the array whose elements they keep."""
    names = ("places", "contents", "size", "turns", "turn")
    return {a: Log(*(f"log{a}_{name}" for name in names)) for a in logged_arrays(kernel)}


def restored_together(kernel: Kernel) -> frozenset[int]:
    """The arrays of whose elements lanes keep some, each thread for itself, which the whole block restores at once.

    Lanes of one loop keep different elements, or the same content, but those of two loops need not be spread alike over
    the threads. So each loop that keeps some is a turn, and what was kept in a turn is restored before that of the turn
    before it.

    Raises:
        NotDifferentiableError: what lanes of one loop keep of one element may differ.
    """
    loops = [n for n in walk(kernel.body) if isinstance(n, For) and n.lanes is not None]
    in_lanes = [[n for n in walk(loop.body) if isinstance(n, Op)] for loop in loops]
    known = {n for ops in in_lanes for n in ops}
    saved = {n.array for ops in in_lanes for n in ops if n.row.adds_to_log}
    found = {
        n.array: n for n in walk(kernel.body)
        if isinstance(n, Op) and n.row.restores_until and n.array in saved and n not in known
    }  # fmt: skip
    for ops in in_lanes:
        for array in {n.array for n in ops if n.row.adds_to_log} & found.keys():
            if any(n.row.is_atomic and n.array == array for n in ops):
                raise NotDifferentiableError(
                    f"kernel `{kernel.name}`: a loop adds to elements of `{kernel.array(array).name}` by atomics of "
                    "lanes and reads them again, which a GPU cannot take back",
                    found[array].span,
                    "store to another array than the one that is read",
                )
    return frozenset(found)


def notes_of(kernel: Kernel) -> dict[int, Notes]:
    """The notes of a kernel by the array that they are of."""
    return {a: Notes(f"notes{a}_contents", f"notes{a}_place") for a in noted_arrays(kernel)}


def grows(kernel: Kernel) -> bool:
    """True if a thread remembers more than its own memory has a place for, or nobody knows how much."""
    return not fits_thread(kernel)


def texts_on_gpu(kernel: Kernel) -> tuple[str, ...]:
    """The texts of checks that may fail on a GPU, in the order in which the runtime numbers them."""
    return (*failure_texts(kernel), *((FULL,) if grows(kernel) else ()))


def declarations(kernel: Kernel) -> list[str]:
    """The C++ declarations of all tapes, logs and notes, empty."""
    bounds = None if grows(kernel) else record_counts(kernel.body)

    def row(type: str, name: str, operation: str, number: int) -> str:
        if bounds is None:
            return f"jw_records<{type}> {name};"
        return f"{type} {name}[{max(1, bounds[operation, number])}];"

    lines = []
    fields, together = tape_fields(kernel), restored_together(kernel)
    for number, tape in tapes_of(kernel).items():
        names = zip(fields[number], tape.fields, strict=True)
        lines += [row(memory_type(t), name, "push", number) for t, name in names]
        lines.append(f"{'int' if bounds is not None else C_TYPES[int64]} {tape.size} = 0;")
    for array, log in logs_of(kernel).items():
        lines.append(row(C_TYPES[int64], log.places, "save", array))
        lines.append(row(memory_type(kernel.array(array).dtype), log.contents, "save", array))
        lines.append(f"{C_TYPES[int64]} {log.size} = 0;")
        if array in together:
            lines += [row("int", log.turns, "save", array), f"int {log.turn} = 0;"]
    for array, notes in notes_of(kernel).items():
        lines.append(row(memory_type(kernel.array(array).dtype), notes.contents, "note", array))
        lines.append(f"{C_TYPES[int64]} {notes.place} = 0;")
    return lines
