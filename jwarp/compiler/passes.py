"""A pass: a named step from kernel to kernel that says what it needs and gives; lists of passes are run here."""

from __future__ import annotations

import contextlib
import contextvars
import enum
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from jwarp.config import Settings
from jwarp.ir.nodes import Kernel


class Form(enum.Enum):
    """A property of kernels that some passes give and others need."""

    WITHOUT_RULES = "no operations that only derivatives need"
    WITHOUT_CALLS = "no functions: all calls are inlined"
    SIMPLE = "constants are folded, equal operations shared, unused ones dropped"
    FOR_TARGET = "no question on the target: native code is there, or its replacement is"
    WITHOUT_TILES = "scalars and loops over them in place of tiles"
    NATIVE = "only operations that the target has an instruction or a routine for"
    LANES_SETTLED = "iterations have lanes only where the target's code runs them together"


@dataclass(frozen=True)
class Context:
    """The facts, other than the kernel, that passes depend on: settings, and what a derivative or a launch asks for."""

    settings: Settings
    is_tested: bool = True  # accesses are tested where nothing proves that they stay inside
    checks_bounds: bool = False  # an access outside of its array is an error
    checks_values: bool = False  # so are NaN and races
    order: int = 1  # of the derivative that the kernel is prepared for
    merged: tuple[tuple[int, int], ...] = ()  # pairs of parameters that are one array
    batched: frozenset[int] = frozenset()  # parameters with a batch axis that becomes threads
    width: int = 0  # of the groups that the first launch dimension is split into
    fresh: tuple[int, ...] = ()  # outputs that start as zeros and have an element for each thread


Step = Callable[[Kernel, Context], Kernel]
Test = Callable[[Kernel, Context], bool]


def step(function: Callable[..., Kernel], **keywords: Any) -> Step:
    """A function of the kernel alone, as a step."""
    return lambda kernel, context: function(kernel, **keywords)


def _always(kernel: Kernel, context: Context) -> bool:
    return True


@dataclass(frozen=True, eq=False)
class Pass:
    """A row of a pipeline: `run` makes a kernel of a kernel, if `when` holds.

    The kernel must have the forms `needs`. Afterwards it has the forms `gives`, also where `when` does not hold, as
    there was nothing to do then; and those that it `loses` no more.
    """

    name: str
    run: Step
    needs: AbstractSet[Form] = frozenset()
    gives: AbstractSet[Form] = frozenset()
    loses: AbstractSet[Form] = frozenset()
    when: Test = field(default=_always)


Passes = Sequence[Pass]


def run(passes: Passes, kernel: Kernel, context: Context) -> Kernel:
    """The kernel after a list of passes."""
    for each in passes:
        if each.when(kernel, context):
            kernel = each.run(kernel, context)
        note(each.name, kernel)
    return kernel


def applies(passes: Passes, kernel: Kernel, context: Context) -> bool:
    """True if one of the passes has something to do with the kernel as it is."""
    return any(each.when(kernel, context) for each in passes)


State = tuple[str, Kernel]  # the name of a step, and the kernel after it
_seen: contextvars.ContextVar[list[State] | None] = contextvars.ContextVar("seen", default=None)


@contextlib.contextmanager
def watching() -> Iterator[list[State]]:
    """Collect the kernel after each pass that runs inside the `with`, in this thread."""
    states: list[State] = []
    token = _seen.set(states)
    try:
        yield states
    finally:
        _seen.reset(token)


def note(name: str, kernel: Kernel) -> None:
    """Say to who is watching that a step has made this kernel."""
    if (states := _seen.get()) is not None:
        states.append((name, kernel))
