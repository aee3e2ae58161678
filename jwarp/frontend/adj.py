"""The parameters of a kernel as Warp's kernels tell of them: `kernel.adj.args`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jwarp.arrays.array import array
from jwarp.frontend.kernel_base import Parameter
from jwarp.types import ArrayPattern, ArrayType, StructArrayType, element_of, user_type
from jwarp.types.patterns import ANY


@dataclass(frozen=True)
class Argument:
    """A parameter; `type` is as users write it, `wp.array[float]`."""

    label: str
    type: Any


@dataclass(frozen=True)
class Adjoint:
    """The part of a Warp kernel that knows its parameters."""

    args: tuple[Argument, ...]
    # Every wp.static has its value when the kernel is defined.
    has_unresolved_static_expressions: bool = False


def adjoint_of(signature: Iterable[Parameter]) -> Adjoint:
    """The object that programs read from Warp's kernels as `adj`."""
    return Adjoint(tuple(Argument(p.name, _written(p.type)) for p in signature))


def _written(kind: Any) -> Any:
    if isinstance(kind, ArrayPattern):
        return array(dtype=kind.element, ndim=kind.dims)
    if isinstance(kind, (ArrayType, StructArrayType)) and kind.dims:
        return array(dtype=element_of(kind), ndim=kind.dims)
    return Any if kind is ANY else user_type(kind)
