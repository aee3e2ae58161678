"""Launches on arrays that are new, of shapes that are not: what the first one checked holds for them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from jwarp.arrays.array import array
from jwarp.arrays.memory import HostMemory
from jwarp.config import config
from jwarp.dispatch import array_plans
from jwarp.dispatch.host import Forward
from jwarp.dispatch.host_plans import ForwardPlan, forward_plan
from jwarp.dispatch.ready import Ready
from jwarp.frontend import options
from jwarp.frontend.kernel_base import Kernel
from jwarp.types import CompositeValue


class Shaped:
    """A launch, ready for any arrays of the shapes that it was made for, and any numbers of the same types."""

    __slots__ = ("_plan", "changes", "settings")

    def __init__(self, plan: ForwardPlan):
        self._plan = plan
        self.settings, self.changes = config.settings, options.changes

    def run(self, values: Sequence[Any]) -> bool:
        """Run it; False where a closer look is needed, as at arrays that share memory, and then nothing has run."""
        if self.settings is not config.settings or self.changes != options.changes:
            return False
        arrays = [x.host() if type(x) is array else x for x in values]
        found = self._plan.read(arrays)
        if found is None:
            return False
        for p in self._plan.written:
            memory = values[p].memory
            memory.version += 1
            if memory.keepers:
                memory.will_write()
        self._plan.native(found)
        return True


def key_of(dims: tuple[int, ...], block_dim: int, values: Sequence[Any]) -> Hashable | None:
    """What must be alike for a launch to be repeated on other arrays; None where a closer look is needed."""
    parts: list[Any] = ["shapes", dims, block_dim]
    for value in values:
        kind = type(value)
        if kind is array:
            if type(getattr(value, "memory", None)) is not HostMemory:
                return None
            parts += value.dtype, value.shape
        elif kind is CompositeValue:
            parts += value.kind, value.dtype, value.shape
        elif kind is float or kind is int or kind is bool:
            parts.append(kind)
        else:
            return None
    return tuple(parts)


def on_others(kernel: Kernel, dims: tuple[int, ...], dim: Any, inputs: Any, outputs: Any, block: Any) -> bool:
    """Run a launch of a kernel without structs on arrays that it has not seen, but their shapes: whether it has run.

    `dims` is what `dim` was read as. Arrays that come back are left to be made ready for a launch of their own, which
    costs less.
    """
    if type(inputs) not in _LISTS or not (outputs is None or type(outputs) in _LISTS):
        return False
    values = [*inputs, *outputs] if outputs else inputs
    key = key_of(dims, block or 1, values)
    found = None if key is None else kernel.plans.get(key)
    if found is None:
        return False
    own, memory, _ = array_plans.key_of(kernel, dim, values, block)
    if memory is None or array_plans.is_seen(kernel, own):
        return False
    array_plans.see(kernel, own)
    return found.run(values)


_LISTS = (list, tuple)


def repeated(kernel: Kernel, key: Hashable | None, values: Sequence[Any]) -> bool:
    """Run a launch, if one of the same key has been kept: whether it has run."""
    if key is None:
        return False
    found = kernel.plans.get(key)
    return found is not None and found.run(values)


def keep(kernel: Kernel, key: Hashable | None, made: Ready, written: Sequence[int], values: Sequence[Any]) -> None:
    """Let a launch be repeated on other arrays."""
    if key is None or type(made) is not Forward or len(made.run.places) != len(values):
        return
    places = made.run.places
    given = [place.array if type(x) in _MEMORY else x for x, place in zip(values, places, strict=True)]
    plan = forward_plan(made.run, written, given, None)
    if plan is not None:
        shaped = Shaped(plan)
        kernel.plans.keep(key, shaped)
        kernel.plans.replace(key, shaped)  # of one that was made under other settings


# What is given to the launch as it is: the elements of an array, and the numbers of a vector.
_MEMORY = (array, CompositeValue)
