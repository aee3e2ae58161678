"""Between the values of a call and what the checks and the primitive take."""

from __future__ import annotations

import operator
from typing import Any

import jax
import numpy as np

from jwarp.bind import compat
from jwarp.frontend.canonicalise import canonical
from jwarp.ir.nodes import Param
from jwarp.launching.arguments import Argument, to_scalar
from jwarp.launching.sizes import Symbolic
from jwarp.types import ArrayType


def describe(value: Any, param: Param | None = None) -> Argument:
    """`value` as the argument checks see it; a tuple for a vector or matrix `param` is an array of it."""
    if isinstance(value, (tuple, list)) and param is not None and isinstance(param.type, ArrayType) and param.is_value:
        assembled = _assembled(value, param.type)
        return Argument(value, "other") if assembled is None else describe(assembled)
    if type(value) in (float, int, bool):
        return Argument(value, "number")
    if isinstance(value, jax.Array):
        # Only scalars are ever read, to see whether they fit.
        concrete = not value.shape and not isinstance(value, compat.Tracer) and value.is_fully_addressable
        return Argument(value, "jax", value.shape, value.dtype, concrete)
    # A masked array is left out: its mask would be lost.
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        return Argument(value, "numpy", value.shape, value.dtype)
    if isinstance(value, np.generic):
        return Argument(value, "number", (), value.dtype)
    if isinstance(value, (bool, int, float)):
        return Argument(value, "number")
    if isinstance(value, (jax.ShapeDtypeStruct, compat.ShapedArray)):
        return Argument(value, "spec", value.shape, value.dtype)
    # As a scalar it is converted below, for an array it is a shape.
    if isinstance(value, Symbolic) and (param is None or param.is_array):
        return Argument(value, "other")
    if hasattr(value, "__jax_array__"):
        return describe(value.__jax_array__())
    if param is not None and not isinstance(param.type, ArrayType) and (index := _index(value)) is not None:
        return Argument(index, "number")
    known = value if hasattr(value, "__dlpack__") else canonical(value)
    return Argument(value, "other") if known is value else describe(known, param)


def _index(value: Any) -> int | None:
    """The integer that a value of another library or of the user's is, if it says that it is one."""
    try:
        return operator.index(value)
    except Exception:  # foreign code
        return None


def _assembled(value: tuple | list, wanted: ArrayType) -> Any:
    """The array of a nested tuple of numbers, some of which may be traced; None if it is none."""
    numbers = [x for row in value for x in (row if isinstance(row, (tuple, list)) else (row,))]
    try:
        if any(isinstance(x, jax.Array) for x in numbers):
            return jax.numpy.asarray(value)
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if array.dtype.kind not in "iuf":
        return None
    # Python's numbers have no width of their own; what an integer component cannot hold is refused.
    converted = array.astype(wanted.dtype.dtype)
    return converted if wanted.dtype.is_float or np.array_equal(converted, array) else None


def as_it_is_now(value: Any) -> Any:
    """A copy of NumPy's arrays where JAX traces, which reads constants when it compiles."""
    return np.array(value) if isinstance(value, np.ndarray) and not compat.is_not_tracing() else value


def to_operand(param: Param, given: Argument) -> Any:
    """A checked argument as the primitive takes it, with exactly the parameter's dtype."""
    if isinstance(param.type, ArrayType):
        if param.is_value and given.dtype != param.type.dtype.dtype:
            return jax.numpy.asarray(given.value, param.type.dtype.dtype)
        return as_it_is_now(given.value)
    if given.origin != "jax":
        return to_scalar(param.type, given)
    if given.dtype == param.type.dtype:
        return given.value
    return jax.lax.convert_element_type(given.value, param.type.dtype)
