"""Operators of Python on arrays, element by element, as those of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jwarp.errors import KernelTypeError
from jwarp.types.composites import CompositeValue, plain_operator

# Applies an operator of kernels to the elements of arrays: `wp.map`, which stands above.
operate: list[Callable[..., Any]] = []


def _operator(name: str) -> tuple[Any, Any, Any]:
    """The methods of an operator: with the array on the left, on the right, and in place."""

    def left(self: Any, other: Any) -> Any:
        return operate[0](name, self, other)

    def right(self: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray) and not isinstance(other, CompositeValue):
            return plain_operator(name)(other, self.numpy())
        return operate[0](name, other, self)

    def in_place(self: Any, other: Any) -> Any:
        operate[0](name, self, other, out=self)
        return self

    return left, right, in_place


class Operators:
    """Python's operators on arrays. A product of matrices is refused by name."""

    __slots__ = ()
    # Numbers of NumPy leave operators with arrays to these.
    __array_priority__ = 1000

    __add__, __radd__, __iadd__ = _operator("add")
    __sub__, __rsub__, __isub__ = _operator("sub")
    __mul__, __rmul__, __imul__ = _operator("mul")
    __truediv__, __rtruediv__, __itruediv__ = _operator("div")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operator("floordiv")
    __mod__, __rmod__, __imod__ = _operator("mod")
    __pow__, __rpow__, __ipow__ = _operator("pow")

    def __neg__(self) -> Any:
        return operate[0]("neg", self)

    def __pos__(self) -> Any:
        return operate[0]("pos", self)

    def __matmul__(self, other: Any) -> Any:
        if getattr(other, "__array_ufunc__", self) is None:  # it has operators of its own, NumPy's way to say so
            return NotImplemented
        raise KernelTypeError("arrays have no @; functions of tiles multiply matrices in kernels")
