"""Steps on host arrays that are there, and the native steps that do the same each time that they run."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jwarp import _native
from jwarp.dispatch.steps.host_executor import code_of
from jwarp.launching.steps import Add, Allocate, Copy, Launch, Slot, Step, Steps


class Native(NamedTuple):
    """A step that is native from the beginning: a prepared launch, a branch or a loop."""

    step: Any


class Recorded(NamedTuple):
    """Steps, and the arrays of the slots that these do not allocate.

    A capture, and the backward pass of a tape, are lists of them: one for each command. What one allocates no other
    one needs.
    """

    steps: tuple[Step | Native, ...]
    arrays: Mapping[Slot, np.ndarray]


def copying(target: np.ndarray, source: np.ndarray) -> Recorded:
    """The elements of one array become those of another one; what overlaps is read before it is written."""
    into, out, own = Slot("array", 0), Slot("array", 1), Slot("own", 0)
    steps: tuple[Step, ...] = (Copy(out, into),)
    if np.may_share_memory(target, source):
        steps = Allocate(own, target.shape, source.dtype), Copy(out, own), Copy(own, into)
    return Recorded(steps, {into: target, out: source})


def filling(target: np.ndarray, value: np.ndarray) -> Recorded:
    """All elements of an array become `value`, which broadcasts to them."""
    into, out = Slot("array", 0), Slot("array", 1)
    return Recorded((Copy(out, into),), {into: target, out: value})


def zeroing(target: np.ndarray) -> Recorded:
    """All elements of an array become zeros."""
    return filling(target, np.zeros((), target.dtype))


def moving(source: np.ndarray, target: np.ndarray) -> Recorded:
    """The elements of an array are added to another one, of which it may be a part, and become zeros."""
    out, into, none, own = (Slot("array", 0), Slot("array", 1), Slot("array", 2), Slot("own", 0))
    steps = Allocate(own, source.shape, source.dtype), Copy(out, own), Copy(none, out), Add(own, into)
    return Recorded(steps, {out: source, into: target, none: np.zeros((), source.dtype)})


class Scratch:
    """Memory for native steps that run one after the other. What one turn takes is taken again after `turn`."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[tuple[int, ...], np.dtype], list[np.ndarray]] = collections.defaultdict(list)
        self._taken: collections.Counter[tuple[tuple[int, ...], np.dtype]] = collections.Counter()

    @property
    def nbytes(self) -> int:
        """The size of the memory."""
        return sum(array.nbytes for arrays in self._arrays.values() for array in arrays)

    def turn(self) -> None:
        """Free all arrays."""
        self._taken.clear()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array that nothing else uses in this turn."""
        key = shape, dtype
        known, count = self._arrays[key], self._taken[key]
        self._taken[key] += 1
        if count == len(known):
            known.append(np.empty(shape, dtype))
        return known[count]


def native_steps(recorded: Iterable[Recorded], scratch: Scratch) -> list[Any] | None:
    """The native steps of a list, which work on `scratch` memory; None where there are none for one of its steps."""
    made: list[Any] = []
    for one in recorded:
        scratch.turn()
        own = _bound(one, scratch)
        if own is None:
            return None
        made += own
    return made


def _bound(recorded: Recorded, scratch: Scratch) -> list[Any] | None:
    arrays, made = dict(recorded.arrays), list[Any]()
    written = Steps(tuple(step for step in recorded.steps if not isinstance(step, Native))).written
    for step in recorded.steps:
        if isinstance(step, Native):
            made.append(step.step)
        elif isinstance(step, Allocate):
            if step.value is None:
                arrays[step.slot] = scratch.empty(step.shape, step.dtype)
            elif step.slot not in written:
                arrays[step.slot] = np.full(step.shape, step.value, step.dtype)
            else:
                arrays[step.slot] = array = scratch.empty(step.shape, step.dtype)
                made.append((array, np.broadcast_to(np.array(step.value, step.dtype), step.shape)))
        elif isinstance(step, Copy):
            source, target = arrays[step.source], arrays[step.target]
            # The array itself, where it may be: a graph sees changes of its attributes, and none through a view.
            made.append((target, source if source.shape == target.shape else np.broadcast_to(source, target.shape)))
        elif isinstance(step, Launch):
            of = [arrays[slot] for slot in step.slots]
            made.append(_native.BoundHostLaunch(*code_of(step), of, step.launch.operands, step.launch.results))
        else:
            source, target = arrays[step.source], arrays[step.target]
            if source.dtype != target.dtype:
                return None
            made.append((target, source if step.shape is None else source.reshape(step.shape), "add"))
    return made
