"""Reads of arrays that tapes have recorded, and warnings of later writes: `verify_autograd_array_access` of programs.

Warp goes back with what arrays hold then, so that a write after a recorded read may falsify gradients there. Tapes here
keep what their backward pass needs: the warnings help to keep a program right under Warp.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from jwarp.api.timers import get_logger
from jwarp.arrays.array import array
from jwarp.arrays.commands import Command
from jwarp.arrays.overlap import views_overlap
from jwarp.arrays.view import View
from jwarp.arrays.writes import Copy
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.program_base import Program
from jwarp.config import config, surface
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import arrays_read

# Of memory: the views of it that were read, and the tapes that have recorded it (None: the program has noted it).
_reads: weakref.WeakKeyDictionary[Any, list[tuple[View, Any]]] = weakref.WeakKeyDictionary()
_WARNING = (
    "is being written to{place} but has already been read from in a previous launch. This may corrupt gradient "
    "computation in the backward pass. (Of Warp, that is: jwarp's tapes keep what they need.)"
)


def is_verified() -> bool:
    """True if reads and writes are noted."""
    return surface.is_warps and bool(config.of_warp["verify_autograd_array_access"])


def is_read(a: array) -> bool:
    """True if elements of an array have been read by what a tape has recorded."""
    return any(views_overlap(a.layout, view) for view, _ in _reads.get(a.memory, ()))


def set_read(a: array, is_read: bool = True) -> None:
    """Note that an array has been read, or that it has not."""
    known = [entry for entry in _reads.get(a.memory, ()) if not views_overlap(a.layout, entry[0])]
    _reads[a.memory] = [*known, (a.layout, None)] if is_read else known


def note(command: Command, tape: Any) -> None:
    """Note what a command that a tape has recorded reads, after warnings of what it writes."""
    if isinstance(command, ArrayLaunch):
        arrays = {p: value for p, value in enumerate(command.values) if type(value) is array}
        for p in command.program.written:
            if p in arrays and is_read(arrays[p]):
                about = f"passed to parameter {command.kernel.params[p].name} in kernel {command.kernel.key}"
                _warn(f"Array {arrays[p]!r} {about} {_WARNING.format(place='')}")
        for p in _read_params(command.program):
            if p in arrays:
                _add(arrays[p], tape)
    elif isinstance(command, Copy) and type(command.dest) is array:
        if is_read(command.dest):
            place = f" by an array copy at {_place()}"
            _warn(f"Array {command.dest!r} {_WARNING.format(place=place)}")
        _add(command.src, tape)


def forget(tape: Any) -> None:
    """Drop the reads that a tape has recorded."""
    for memory, entries in list(_reads.items()):
        left = [(view, known) for view, known in entries if known is not None and known() not in (None, tape)]
        _reads[memory] = left + [entry for entry in entries if entry[1] is None]


def _read_params(program: Program) -> set[int]:
    """The parameters that a kernel reads by other operations than atomic ones."""
    if not isinstance(program, GeneratedProgram):  # nobody knows what native code reads
        return set()
    ops = contents_of(program.simplified.body).ops
    return {k for n in ops if not n.row.is_atomic for k in arrays_read(n) if isinstance(k, int)}


def _add(a: array, tape: Any) -> None:
    entry, known = (a.layout, weakref.ref(tape)), _reads.get(a.memory, [])
    if entry not in known:
        alive = [(view, noted) for view, noted in known if noted is None or noted() is not None]
        _reads[a.memory] = [*alive, entry]


def _warn(text: str) -> None:
    get_logger().warning(text, UserWarning, stacklevel=2)


def _place() -> str:
    """The line of the program that is running."""
    frame: Any = sys._getframe(2)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("jwarp."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _mark_write(self: array, **_: Any) -> None:
    if is_verified() and is_read(self):
        _warn(f"Array {self!r} {_WARNING.format(place=f' at {_place()}')}")


def install() -> None:
    """Give the arrays of this process Warp's notes of what is read."""
    array._is_read = property(is_read, set_read)  # type: ignore[assignment]
    marks = {"mark_read": set_read, "mark_init": lambda self: set_read(self, False), "mark_write": _mark_write}
    for name, method in marks.items():
        setattr(array, name, method)
