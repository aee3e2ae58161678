"""The steps of a launch and its derivatives as data: allocate, copy, launch, add.

A list of steps computes a derivative, or runs a launch once more. It names its arrays by slots and holds none, and it
knows all their shapes, so that it is made once for a layout and run on any arrays. Executors interpret it: on JAX
values (`bind/step_executor.py`), on host arrays and on arrays of a GPU (`dispatch/steps`).

The slots:
    primal p     the content of parameter p before the launch
    final p      its content after the launch
    given p      the cotangent, or of a tangent the direction, that is given for it
    along p      the second direction
    gradient p   what the result for parameter p is added to
    own k        memory of the list itself
The steps:
    Allocate     memory for a slot. Its content is undefined where `value` is None
    Copy         all elements of one slot to another one of the same shape
    Launch       a kernel; each parameter has a slot. A slot of role ZEROS is filled with zeros before the first thread
    Add          all elements of one slot to another one of as many elements

`final p` is allocated by the steps that run the launch once more, and given by executors that have run it anyway.
In a list that works in place there is no `gradient p`: `given p` is the cotangent before, and the gradient after.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jwarp.launching.descriptor import Descriptor

Shape = tuple[int, ...]


class Slot(NamedTuple):
    """The name of an array of the list; `param` is a parameter of the launch, or the number of own memory."""

    kind: str
    param: int

    def __repr__(self) -> str:
        return f"{self.kind} {self.param}"


@dataclass(frozen=True)
class Allocate:
    """Memory for `slot`, all of whose elements are `value`; undefined where that is None."""

    slot: Slot
    shape: Shape
    dtype: np.dtype
    value: int | None = None
    slots: ClassVar[tuple[Slot, ...]] = ()
    written: ClassVar[tuple[Slot, ...]] = ()


@dataclass(frozen=True)
class Copy:
    """The elements of `source` become those of `target`, which is the first content of memory of the list."""

    source: Slot
    target: Slot
    written: ClassVar[tuple[Slot, ...]] = ()

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots that it has a use for."""
        return self.source, self.target


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel. Its parameters have the `slots`, whose shapes are `shapes`.

    It only adds to the parameters `sums`, so that the whole of a batch may share the arrays of these.
    """

    launch: Descriptor[Any]
    slots: tuple[Slot, ...]
    shapes: tuple[Shape, ...]
    sums: tuple[int, ...] = ()

    @property
    def written(self) -> tuple[Slot, ...]:
        """The slots whose content it changes."""
        return tuple(self.slots[k] for k in self.launch.results)


@dataclass(frozen=True)
class Add:
    """The elements of `source` are added to those of `target`, whose `shape` is given where it is another one."""

    source: Slot
    target: Slot
    shape: Shape | None = None

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots that it has a use for."""
        return self.source, self.target

    @property
    def written(self) -> tuple[Slot, ...]:
        """The slots whose content it changes."""
        return (self.target,)


# Every kind has the `slots` that it reads or writes, and those that are `written`: whose first content it changes.
Step = Allocate | Copy | Launch | Add


@dataclass(frozen=True)
class Steps:
    """A list of steps, and the slots that its executor is given arrays for."""

    steps: tuple[Step, ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches among the steps, in order."""
        return tuple(step for step in self.steps if isinstance(step, Launch))

    @functools.cached_property
    def written(self) -> frozenset[Slot]:
        """The slots that steps change."""
        return frozenset(slot for step in self.steps for slot in step.written)

    @functools.cached_property
    def given(self) -> tuple[Slot, ...]:
        """The slots that no step allocates, in the order of their first use."""
        own = {step.slot for step in self.steps if isinstance(step, Allocate)}
        used = dict.fromkeys(slot for step in self.steps for slot in step.slots)
        return tuple(slot for slot in used if slot not in own)
