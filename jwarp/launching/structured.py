"""Arrays whose elements are structs in memory, one after the other: NumPy's structured arrays, and Warp's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.struct_array import StructArray, fields_of
from jwarp.errors import KernelTypeError
from jwarp.types import ArrayType, StructArrayType, StructType, Written, has_arrays


def by_fields(where: str, kind: StructArrayType, value: Any) -> Any:
    """A view of each field of such an array, as a dict of the fields' names; any other value is what it is.

    Raises:
        KernelTypeError: the fields are not those of the struct, or the array is on a GPU.
    """
    if isinstance(value, StructArray):
        if value.dtype is not (kind.struct.described_of or kind.struct) or value.ndim != kind.dims:
            raise KernelTypeError(f"{where}: expected {kind!r}, got array{value.ndim}d[{value.dtype!r}]")
        if has_arrays(kind.struct):
            if value.size:
                raise KernelTypeError(
                    f"{where}: the elements hold arrays, which only launches that run now, in host memory, follow",
                    hint=f"under JAX, pass {kind.struct!r}(…) of arrays, with the axes of the elements in front",
                )
            return _of_nothing(kind.struct, value.shape)
        return fields_of(value)
    array = _structured(where, kind, value)
    return value if array is None else _views(where, kind.struct, array)


def _of_nothing(kind: StructType, shape: tuple[int, ...]) -> dict[str, Any]:
    """The arrays of the fields of an array without elements; those of arrays have the dimensions of these, too."""
    found: dict[str, Any] = {}
    for name, inner in kind.fields.items():
        if isinstance(inner, StructType):
            found[name] = _of_nothing(inner, shape)
        elif isinstance(inner, StructArrayType):
            found[name] = _of_nothing(inner.struct, (*shape, *(0,) * inner.dims))
        else:
            dims = inner.dims if isinstance(inner, ArrayType) else 0
            dtype = inner.element if isinstance(inner, ArrayType) else inner
            found[name] = array(shape=(*shape, *(0,) * dims), dtype=dtype)
    return found


def is_structured(value: Any) -> bool:
    """True if `value` is an array of structs in host memory."""
    if isinstance(value, np.ndarray):
        return value.dtype.names is not None
    interface = (
        None if isinstance(value, (dict, tuple, list, int, Written)) else getattr(value, "__array_interface__", None)
    )
    return isinstance(interface, dict) and str(interface.get("typestr", "")).startswith("|V")


def _structured(where: str, kind: StructArrayType, value: Any) -> np.ndarray | None:
    if is_structured(value):
        return np.asarray(value)
    on_gpu = None if isinstance(value, dict) else getattr(value, "__cuda_array_interface__", None)
    if isinstance(on_gpu, dict) and str(on_gpu.get("typestr", "")).startswith("|V"):
        raise KernelTypeError(
            f"{where}: an array of structs on a GPU, one struct after the other",
            hint=f"pass {kind.struct!r}(…), a struct of arrays: one for each field",
        )
    return None


def _views(where: str, kind: StructType, array: np.ndarray) -> dict[str, Any]:
    names = array.dtype.names or ()
    if list(names) != list(kind.fields):
        raise KernelTypeError(
            f"{where}: the elements have the fields {', '.join(names) or 'of no struct'}, not {', '.join(kind.fields)}",
            hint=f"pass an array of {kind!r}, or {kind!r}(…) of arrays",
        )
    found: dict[str, Any] = {}
    for name, inner in kind.fields.items():
        part = array[name]
        if has_arrays(inner):
            raise KernelTypeError(
                f"{where}: field '{name}' is an array, which lies somewhere else in each element",
                hint=f"pass {kind!r}(…) of arrays: '{name}' with the axes of the elements in front of its own",
            )
        found[name] = _views(f"{where}, field '{name}'", inner, part) if isinstance(inner, StructType) else part
    return found
