"""What is on a tape: an entry for each command, and what entries have in common."""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.memory import HostMemory, Kept
from jwarp.dispatch.steps.host_executor import Scratch
from jwarp.errors import JwarpError, LaunchError


class Retained:
    """Gradients of arrays with `retain_grad` that were overwritten: what writes take away is put back at the end."""

    def __init__(self) -> None:
        self._taken: list[tuple[array, np.ndarray]] = []

    def watch(self, given: Iterable[array]) -> Callable[[], None]:
        """A function to call after a write went back, which keeps what that took from the gradients of arrays."""
        before = [(a.grad, a.grad.host().copy()) for a in given if a.retain_grad and a.grad is not None]
        return lambda: self._taken.extend((grad, old - grad.host()) for grad, old in before)

    def put_back(self) -> None:
        """Add what was taken."""
        for grad, taken in self._taken:
            added(grad, taken)
        self._taken.clear()


class Entry(abc.ABC):
    """One command on a tape. `arrays` are those that it is about, `written` those of them that it writes to."""

    arrays: tuple[array, ...] = ()
    written: tuple[array, ...] = ()

    @abc.abstractmethod
    def back(self, retained: Retained) -> None:
        """Take the gradients of what it left to those of what it found.

        Raises:
            NotDifferentiableError: it has no exact derivative, and what it wrote to has a gradient other than zero.
        """

    def steps(self, scratch: Scratch) -> list[Any] | None:
        """The native steps that do the same each time that they run; None where Python is needed."""
        return None

    @property
    def keeps(self) -> Iterable[Kept]:
        """What it keeps of contents."""
        return ()

    def key(self) -> Hashable | None:
        """What must be alike for the same steps to go back through it; None where a closer look is needed."""
        return None


def has_gradients(a: array) -> bool:
    """Whether arrays of this type have gradients: their elements are of floats."""
    return a.layout.dtype.kind not in "biu"


def tokens(arrays: Iterable[array]) -> list[Any]:
    """What tells arrays and their gradients from others."""
    made: list[Any] = []
    for a in arrays:
        grad = a._grad
        made += a.token, None if grad is None else grad.token, a.retain_grad
    return made


def refuse_traced(what: str, gradients: Iterable[array]) -> None:
    if any(grad.memory.is_traced for grad in gradients):
        raise LaunchError(
            f"{what}: wp.Tape goes back through arrays whose content is known, and JAX traces those of this launch",
            hint="jax.grad of a function of wp.functionalize goes back through what JAX traces",
        )


def added(grad: array, more: Any) -> None:
    """Add to a gradient."""
    memory, layout = grad.memory, grad.layout
    memory.write(layout, memory.read(layout) + more)


def zeroing(a: array) -> tuple[np.ndarray, np.ndarray]:
    """The native step that sets an array of this computer's memory to zeros."""
    return a.host(), np.broadcast_to(np.zeros((), a.layout.dtype), a.layout.full_shape)


def is_here(a: array) -> bool:
    """Whether native code of the host may look at an array."""
    return isinstance(a.memory, HostMemory)


def is_zero(content: Any) -> bool:
    return isinstance(content, np.ndarray) and not content.any()


def place_text(where: tuple[str, int]) -> str:
    return f"{where[0]}:{where[1]}"


def placed(error: JwarpError, where: tuple[str, int]) -> JwarpError:
    """The error, with where the command was recorded."""
    made = type(error)(*error.__reduce__()[1])
    made.add_note(f"recorded on a tape at {place_text(where)}")
    return made


def both_before_and_after(what: str, a: array) -> LaunchError:
    """The error for an array with `retain_grad` that is read and overwritten at once."""
    return LaunchError(
        f"{what}: {a.memory.made_at} has retain_grad, and is both read and overwritten, so that it has a gradient"
        " before and another one after",
        hint="let it write to another array, or set retain_grad to False",
    )
