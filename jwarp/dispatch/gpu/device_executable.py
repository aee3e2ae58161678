"""The executable of launches on arrays on a GPU: any arrays of one layout, any numbers of the same types."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.bind.compat import is_not_tracing
from jwarp.compiler.program import Program
from jwarp.dispatch.call.numbers import Convert, content_of
from jwarp.dispatch.executables.ready import Ready
from jwarp.dispatch.gpu.device import Forward

# From a value of a call to what the native module takes for its parameter; None where a closer look is needed.
Place = Callable[[Any], Any]


class DeviceExecutable:
    """A launch for all calls of one layout, once it has learnt it: arrays are contiguous, and nothing is copied.

    Attributes:
        program: What it runs.
        backward: The backward passes of such launches, once somebody has asked for them.
    """

    __slots__ = ("__weakref__", "_launch", "_places", "backward", "program")

    def __init__(self, program: Program):
        self.program = program
        self.backward: Any = None
        self._launch: Any = None  # a launch with its parameters, the stream and the GPU
        self._places: Sequence[tuple[int, int, Place]] = ()  # of each parameter: where, the value's number

    def call(self, values: Sequence[Any]) -> Any:
        """Run it: True, or None where a closer look is needed, and then nothing has run."""
        if self._launch is None or not is_not_tracing():
            return None
        settled, stream, device = self._launch
        placed = [*settled.placed]
        for at, p, place in self._places:
            made = place(values[p])
            if made is None:
                return None
            placed[at] = made, *placed[at][1:]
        memories: list[Any] = [x.memory for x in values if type(x) is array]
        for p in self.program.written:
            written = values[p]
            if type(written) is array and written.memory.is_watched:
                written.memory.will_write()
        owners = [memory.owner for memory in memories]  # which live until the launch has ended
        dataclasses.replace(settled, placed=placed).run(stream, device, owners)
        return True

    def learn_launch(self, made: Ready, values: Sequence[Any]) -> None:
        """Do from now on what a launch does that has run on these values, if that may be repeated."""
        found = made.settled if type(made) is Forward else None
        if found is None:
            return
        settled, stream, device, given = found
        if len(given) != len(values):
            return
        places: list[tuple[int, int, Place]] = []
        for at, placed in enumerate(settled.placed):
            for p, one in enumerate(given):
                if one.placed is not placed:
                    continue
                place = _place(self.program.params[p], values[p])
                if place is not None:
                    places.append((at, p, place))
                elif values[p] is not None and not (type(values[p]) is array and not values[p].size):
                    return
                break
        self._launch, self._places = (settled, stream, device), tuple(places)


def _place(param: Any, value: Any) -> Place | None:
    if type(value) is array:
        return _address if value.size else None
    convert = content_of(param, value)
    return None if convert is None else _bytes(convert, param.dtype.dtype)


def _address(value: array) -> int:
    memory: Any = value.memory
    found: int = memory.start + value.layout.offset
    return found


def _bytes(convert: Convert, dtype: np.dtype) -> Place:
    def place(value: Any) -> bytes | None:
        made = convert(value)
        return None if made is None else np.asarray(made, dtype).tobytes()

    return place
