"""Patterns in annotations, which stand for several types: `Any`, type variables, and types made of these."""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin

from jwarp.errors import KernelTypeError
from jwarp.types.annotations import meant
from jwarp.types.scalars import (
    FLOATS,
    INTS,
    as_scalar,
    bfloat16,
    float16,
    float64,
    int8,
    int16,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

# As Warp has them: `x: wp.Float` takes numbers of every type of floats. Each use stands for itself there.
Int = TypeVar("Int", int, int8, uint8, int16, uint16, uint32, int64, uint64)
Float = TypeVar("Float", float, float16, bfloat16, float64)
Scalar = TypeVar(
    "Scalar", int, int8, uint8, int16, uint16, uint32, int64, uint64, float, float16, bfloat16, float64
)  # fmt: skip
_OF_WARP = (Int, Float, Scalar)

# The types that the type variables of a signature stand for, as far as they are known.
Bound = dict[TypeVar, Any]


class Pattern(ABC):
    """Stands for types that have something in common. What `is_block`, threads of a block share: no kernel takes it."""

    is_block = False

    @abstractmethod
    def fits(self, kind: Any, bound: Bound) -> bool:
        """True if `kind` is one of the types, with the type variables in `bound` fixed.

        A variable without an entry is bound to the type that it is compared with.
        """

    @abstractmethod
    def filled(self, bound: Bound) -> Any:
        """The type that it is where its variables stand for the types in `bound`; itself if some has none there."""

    def __str__(self) -> str:
        return repr(self)


@dataclass(frozen=True, repr=False)
class Open(Pattern):
    """Any type, or those of some scalars: `Any`, and Warp's `Scalar`, `Float` and `Int`."""

    name: str = "Any"
    options: tuple[Any, ...] | None = None

    def fits(self, kind: Any, bound: Bound) -> bool:
        return self.options is None or kind in self.options

    def filled(self, bound: Bound) -> Any:
        return self

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False)
class Variable(Pattern):
    """A type variable of the user's: one type wherever it stands in a signature."""

    variable: TypeVar
    options: tuple[Any, ...] | None = None

    def fits(self, kind: Any, bound: Bound) -> bool:
        if self.variable in bound:
            return bool(bound[self.variable] == kind)
        if self.options is not None and not any(fits(kind, option, bound) for option in self.options):
            return False
        bound[self.variable] = kind
        return True

    def filled(self, bound: Bound) -> Any:
        return bound.get(self.variable, self)

    def __repr__(self) -> str:
        return self.variable.__name__


ANY = Open()
_WARPS = {
    Int: Open("Int", INTS),
    Float: Open("Float", FLOATS),
    Scalar: Open("Scalar", (*INTS, *FLOATS)),
}


def fits(kind: Any, wanted: Any, bound: Bound) -> bool:
    """True if a type is the wanted one, or fits the wanted pattern, or is a handle for the wanted number."""
    if isinstance(wanted, Pattern):
        return wanted.fits(kind, bound)
    return bool(wanted == kind) or (getattr(kind, "stands_for", None) is wanted is not None)


def filled(wanted: Any, bound: Bound) -> Any:
    """`wanted` with the type variables that stand for something replaced by it."""
    return wanted.filled(bound) if isinstance(wanted, Pattern) else wanted


def is_open(wanted: Any) -> bool:
    """True if the annotation stands for several types."""
    return isinstance(wanted, Pattern)


def as_pattern(annotation: Any, known: Any = as_scalar) -> Pattern | None:
    """The pattern that an annotation is, or None. `known` finds the types that constraints of variables name."""
    annotation = meant(annotation)
    if isinstance(annotation, Pattern) and not annotation.is_block:
        return annotation
    if annotation is Any:
        return ANY
    if isinstance(annotation, TypeVar):
        return _WARPS.get(annotation) or Variable(annotation, _options(annotation, known))
    return None


def _options(variable: TypeVar, known: Any) -> tuple[Any, ...] | None:
    """The types that a variable is constrained to, or bound by; None for any."""
    named = variable.__constraints__
    if not named and variable.__bound__ is not None:
        bound = variable.__bound__
        named = (
            get_args(bound) if get_origin(bound) is types.UnionType or "Union" in str(get_origin(bound)) else (bound,)
        )
    if not named:
        return None
    found = tuple(as_pattern(option, known) or known(option) for option in named)
    for option, known_as in zip(named, found, strict=True):
        if known_as is None:
            raise KernelTypeError(
                f"the type variable {variable.__name__} is constrained to {option!r}, which is no type of the kernel "
                "language",
                hint="name scalar, vector, matrix and struct types",
            )
    return found


@dataclass(frozen=True, repr=False)
class Repeated(Pattern):
    """Stands for the tuples whose items are all of a kind: `tuple[int, ...]`. None is anything."""

    item: Any

    def fits(self, kind: Any, bound: Bound) -> bool:
        return isinstance(kind, tuple) and (self.item is None or all(fits(part, self.item, bound) for part in kind))

    def filled(self, bound: Bound) -> Any:
        return Repeated(filled(self.item, bound))

    def __repr__(self) -> str:
        return f"tuple[{self.item!r}, ...]"
