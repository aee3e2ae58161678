"""The types in calls of native code, which are spelt in texts, and what comes out of such a call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from jwarp.ir.attributes import NativeCall
from jwarp.types import SCALARS, CompositeType, ScalarType

# The manners of parameters that are passed by their scalars; the others are arrays.
BY_SCALARS = ("value", "reference")


class Element(NamedTuple):
    """A type as its spelling says it: the kind of composite, or "", its extents, and the scalar."""

    kind: str
    shape: tuple[int, ...]
    scalar: ScalarType

    @property
    def size(self) -> int:
        """How many scalars it has."""
        return math.prod(self.shape)


def spelt(kind: ScalarType | CompositeType) -> str:
    """The type as calls of native code have it."""
    if isinstance(kind, CompositeType):
        return f"{kind.kind.name} {' '.join(map(str, kind.shape))} {kind.dtype.name}"
    return kind.name


def element_of(text: str) -> Element:
    """The type that a text spells.

    Raises:
        ValueError: it spells none.
    """
    *kind, scalar = text.split(" ")
    if scalar not in SCALARS or not all(n.isdecimal() and len(n) < 10 for n in kind[1:]):
        raise ValueError(f"there is no type {text!r}")
    return Element(kind[0] if kind else "", tuple(map(int, kind[1:])), SCALARS[scalar])


def check_call(call: NativeCall, given: Sequence[object]) -> None:
    """Check that a call fits its parameters and the types of its operands.

    Raises:
        ValueError: it does not.
    """
    kinds, _ = [p.kind for p in call.params], parts_of(call)
    elements = [element_of(p.element) for p in call.params if p.kind in BY_SCALARS]
    wanted = [kind.scalar for kind in elements for _ in range(kind.size)]
    if wanted != [*given]:
        raise ValueError(f"takes {wanted}, not {given}")
    if not {*kinds} <= {*BY_SCALARS, "read", "changed"}:
        raise ValueError(f"has parameters of kinds {kinds}")
    if (kinds.count("read"), kinds.count("changed")) != (len(call.reads), len(call.changes)):
        raise ValueError("does not name its arrays")


def parts_of(call: NativeCall) -> list[ScalarType]:
    """The types of the scalars that come out of a call: of its result, then of its references."""
    kinds = [element_of(call.result)] if call.result else []
    kinds += [element_of(p.element) for p in call.params if p.kind == "reference"]
    return [kind.scalar for kind in kinds for _ in range(kind.size)]
