"""Mutable arrays from arrays of other libraries, and back, without copies."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jwarp.arrays import dlpack
from jwarp.arrays.array import array
from jwarp.arrays.content import read_element
from jwarp.arrays.cuda_arrays import borrow, is_cuda_array
from jwarp.arrays.cuda_memory import STREAM, cuda_memory_at
from jwarp.arrays.view import View, scalar_of
from jwarp.devices import get_device
from jwarp.errors import JwarpError, KernelTypeError
from jwarp.types import from_dtype


def from_dlpack(source: Any, dtype: Any = None) -> array:
    """An array in the memory of another library's array, which has `__dlpack__`. Each sees what the other writes.

    Args:
        source: An array of NumPy, PyTorch, JAX or another library in host memory or on a GPU, or an unused DLPack
            capsule. Do not write to read-only arrays, such as JAX's.
        dtype: The type of the elements; the components of vectors and matrices are the last axes. Integers may have
            another signedness, and booleans may be integers of 8 bits. Default: scalars of the array's type.

    Raises:
        KernelTypeError: `source` is not such an array, or has other elements.

    Example:
        >>> a = wp.from_dlpack(torch.zeros(4, 3), dtype=wp.vec3)
    """
    if dlpack.is_capsule(source):
        try:
            source = dlpack.Capsule(source)
        except (TypeError, ValueError) as error:
            raise KernelTypeError(f"wp.from_dlpack: {error}") from None
    if is_cuda_array(source):
        return _on_gpu(source, dtype)
    if not dlpack.is_exporter(source):
        _refuse_device(source)
        raise KernelTypeError(
            f"wp.from_dlpack: expected an array in host memory or on a GPU that has __dlpack__, got "
            f"{type(source).__name__}"
        )
    try:
        seen = dlpack.view(source, is_read_only=isinstance(source, jax.Array))
    except (BufferError, RuntimeError, ValueError) as error:  # NumPy's, about elements that it has no dtype for
        if isinstance(error, JwarpError):
            raise
        raise KernelTypeError(f"wp.from_dlpack: {error}", also=type(error)) from None
    if dtype is None:
        return array(seen, copy=False)
    made = array(seen.view(_wanted(seen.dtype, dtype)), dtype=dtype, copy=False)
    if made.size and made.memory.start + made.layout.offset != seen.ctypes.data:  # type: ignore[attr-defined]
        raise KernelTypeError(
            f"wp.from_dlpack: Could not convert DLPack tensor with shape {seen.shape} to Warp array with "
            f"dtype={dtype!r}, because the source inner strides are not contiguous: the memory is shared",
            hint="wp.array(x, dtype=…) copies",
        )
    return made


def _refuse_device(source: Any) -> None:
    """Raise KernelTypeError if an object says that its memory is on a device which is none of Warp's."""
    try:
        kind, number = source.__dlpack_device__()
    except Exception:  # what a foreign object raises
        return
    raise KernelTypeError(
        f"wp.from_dlpack: Unsupported source device for DLPack: device_type={kind}, device_id={number}"
    )


def _wanted(given: np.dtype, dtype: Any) -> np.dtype:
    """The dtype of NumPy's as which elements are seen: their own, or integers of the same size.

    Raises:
        KernelTypeError: they would have to be converted, and so copied.
    """
    wanted = scalar_of(read_element(dtype)).dtype
    if wanted == given or (given.kind in "biu" and wanted.kind in "iu" and wanted.itemsize == given.itemsize):
        return wanted
    name = "bool8" if given.kind == "b" else given.name
    raise KernelTypeError(
        f"wp.from_dlpack: Incompatible data types: DLPack {name} and Warp {wanted.name}: the memory is shared, and its "
        "elements cannot be converted",
        hint="leave dtype= out; wp.array(x, dtype=…) converts and copies",
    )


def _on_gpu(source: Any, dtype: Any) -> array:
    """The array in the memory of another library's on a GPU."""
    if isinstance(source, array):
        return source if dtype is None else source.view(dtype)
    device = get_device(f"cuda:{source.__dlpack_device__()[1]}")
    try:
        found = borrow(source, STREAM)
    except Exception as error:  # what a foreign object raises
        raise KernelTypeError(f"wp.from_dlpack: {type(source).__name__} exports nothing, {error}") from None
    kind = None if found is None else from_dtype(found.outline.dtype)
    if found is None or kind is None:
        raise KernelTypeError("wp.from_dlpack: the array has a dtype that kernels do not have")
    shown = found.outline
    if isinstance(source, jax.Array):
        shown.flags.writeable = False
    low, high = np.lib.array_utils.byte_bounds(shown) if shown.size else (0, 0)
    is_read_only = not shown.flags.writeable
    memory = cuda_memory_at(device, low, high - low, found.owner, is_read_only=is_read_only)
    offset = shown.ctypes.data - low if shown.size else 0
    scalars = array.of(memory, View(kind, shown.shape, shown.strides, offset))
    if dtype is None:
        return scalars
    _wanted(shown.dtype, dtype)
    return scalars.view(dtype)


def to_dlpack(wp_array: array) -> Any:
    """A DLPack capsule of the memory of an array. Most libraries accept the array itself."""
    return wp_array.__dlpack__()
