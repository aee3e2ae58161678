"""The data classes that the IR has many thousands of: as frozen ones, for type checkers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(*, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """A data class with slots whose objects never change; without `eq`, what is equal is what the class says,
    or else each only to itself.

    A type checker says where a field is assigned to. Python does not look: with `frozen=True`, it takes three to four
    times as long to make an object.
    """
    return dataclass(slots=True, eq=eq, unsafe_hash=eq)
