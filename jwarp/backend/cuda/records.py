"""What an adjoint remembers on a GPU: tapes, logs and notes of known length, in the thread's own memory."""

from __future__ import annotations

from dataclasses import dataclass

from jwarp.analysis.tape_sizes import logged_arrays, noted_arrays, record_counts, tape_fields
from jwarp.backend.cuda.rules import C_TYPES, memory_type
from jwarp.ir.nodes import Kernel
from jwarp.types import int64


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
    return {a: Log(f"log{a}_places", f"log{a}_contents", f"log{a}_size") for a in logged_arrays(kernel)}


def notes_of(kernel: Kernel) -> dict[int, Notes]:
    """The notes of a kernel by the array that they are of."""
    return {a: Notes(f"notes{a}_contents", f"notes{a}_place") for a in noted_arrays(kernel)}


def declarations(kernel: Kernel) -> list[str]:
    """The C++ declarations of all tapes, logs and notes, empty."""
    bounds = record_counts(kernel.body)
    assert bounds is not None, "a kernel is known to fit before code is made"
    lines = []
    fields = tape_fields(kernel)
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
    for array, notes in notes_of(kernel).items():
        length = max(1, bounds["note", array])
        lines.append(f"{memory_type(kernel.array(array).dtype)} {notes.contents}[{length}];")
        lines.append(f"{C_TYPES[int64]} {notes.place} = 0;")
    return lines
