"""Functions that make arrays, and copy them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.arrays import allocation
from jwarp.arrays import allocators as allocators  # which devices have
from jwarp.arrays.array import array
from jwarp.arrays.commands import listeners, submit
from jwarp.arrays.content import read_element
from jwarp.arrays.indexed import copy_indexed
from jwarp.arrays.struct_array import StructArray, both_leaves
from jwarp.arrays.view import View, read_shape
from jwarp.arrays.writes import Copy, copy_range
from jwarp.devices import get_device
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import (
    CompositeValue,
    Struct,
    StructType,
    bool_,
    float32,
    from_dtype,
    indexedarray,
    int32,
    matrix,
    vector,
)
from jwarp.types.indexed import CLONE


def empty(
    shape: Any = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
    ndim: int | None = None,
    strides: Any = None,
) -> array:
    """A new array with arbitrary content.

    Args:
        shape: The extents, an int or up to four ints. Default: an array without elements.
        dtype: The type of the elements: a scalar, vector, matrix or struct type.
        device: The device: "cpu", "cuda:0" or another GPU. Default: the current device.
        requires_grad: Whether it has a gradient, an array of zeros in `grad`.
        pinned: Has no effect.
        retain_grad: Whether backward passes keep its gradient where it was overwritten.
        n: Another name of `shape`.
        ndim: The number of extents, if it is to be checked.
        strides: Bytes from one element to the next along each dimension. Default: contiguous.

    Raises:
        KernelTypeError: Arrays of `dtype` do not exist.
        LaunchError: The shape, `ndim`, the strides or the device are invalid.
    """
    given = shape if n is None else n
    return _made("empty", given, ndim, dtype, device, requires_grad, retain_grad, strides, zeroed=False)


def zeros(
    shape: Any = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
    ndim: int | None = None,
    strides: Any = None,
) -> array:
    """A new array of zeros. Arguments and errors are those of `wp.empty`.

    Example:
        >>> wp.zeros((2, 3), dtype=wp.vec3).numpy().shape
        (2, 3, 3)
    """
    given = shape if n is None else n
    return _made("zeros", given, ndim, dtype, device, requires_grad, retain_grad, strides, zeroed=True)


def _made(
    name: str,
    shape: Any,
    ndim: int | None,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    retain_grad: bool,
    strides: Any,
    zeroed: bool,
) -> array:
    where = get_device(device)
    extents = read_shape(0 if shape is None else shape)
    if not extents:
        raise LaunchError(f"wp.{name}: an array has at least one dimension", hint="shape=1 is an array of one element")
    if ndim is not None and ndim != len(extents):
        raise LaunchError(f"wp.{name}: an array of shape {extents} has {len(extents)} dimension(s), not ndim={ndim}")
    element = read_element(dtype)
    if isinstance(element, StructType):
        return array(shape=extents, dtype=element, strides=strides, device=where, requires_grad=requires_grad)
    layout = View.whole(element, extents)
    if strides is not None:
        if len(strides) != len(extents):
            counts = f"expected {len(extents)} strides, got {len(strides)}"
            raise LaunchError(f"wp.{name}: Invalid number of strides, {counts}")
        layout = View(layout.element, extents, tuple(map(int, strides)))
        if layout.bounds[0] < 0:
            raise LaunchError(f"wp.{name}: Negative strides are those of views alone", also=NotImplementedError)
    made = array.of(allocation.allocate(layout, zeroed=zeroed, device=where), layout)
    if zeroed and listeners.here.capture is not None:
        made.zero_()  # each time that the capture runs
    if requires_grad:
        made._allocate_gradient()
    if retain_grad:
        made.retain_grad = True
    return made


def full(
    shape: Any = None,
    value: Any = 0,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
    ndim: int | None = None,
    strides: Any = None,
) -> array:
    """A new array whose elements are `value`. Default `dtype`: int32, float32 or bool for Python's numbers.

    Raises:
        KernelTypeError: The value does not have the type `dtype`.
        LaunchError: As for `wp.empty`.
    """
    kind = _type_of(value) if dtype is None else dtype
    given = shape if n is None else n
    made = _made("full", given, ndim, kind, device, requires_grad, retain_grad, strides, zeroed=False)
    made.fill_(value)
    return made


def _type_of(value: Any) -> Any:
    """The type of arrays that are full of a value."""
    known = {bool: bool_, int: int32, float: float32}.get(type(value))
    if known is not None:
        return known
    if isinstance(value, Struct):
        return type(value)
    given = np.asarray(value)
    scalar = from_dtype(given.dtype) if given.dtype.kind in "biufV" else None
    if scalar is None or given.ndim > 2:
        raise KernelTypeError(f"wp.full: {value!r} has no type that elements have", hint="say dtype=")
    if isinstance(value, CompositeValue) and value.own_kind is not None:
        return value.type_in_kernels(scalar)
    return scalar if not given.ndim else vector(given.size, scalar) if given.ndim == 1 else matrix(given.shape, scalar)


def ones(
    shape: Any = None,
    dtype: Any = float,
    device: Any = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
    ndim: int | None = None,
    strides: Any = None,
) -> array:
    """A new array of ones; all components of vectors are 1. Arguments and errors are those of `wp.empty`."""
    return full(shape, 1, dtype, device, requires_grad, pinned, retain_grad, n=n, ndim=ndim, strides=strides)


def empty_like(
    src: array,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """A new array with the shape and type of `src` and arbitrary content. It has a gradient if `src` has one.

    Raises:
        KernelTypeError: `src` is not an array.
    """
    source = _template(src, "empty_like")
    wanted = source.requires_grad if requires_grad is None else requires_grad
    where = source.device if device is None else device
    return empty(source.shape, source.dtype, where, wanted, retain_grad=retain_grad)


def zeros_like(
    src: array,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """A new array of zeros with the shape and type of `src`. Arguments and errors are those of `wp.empty_like`."""
    source = _template(src, "zeros_like")
    wanted = source.requires_grad if requires_grad is None else requires_grad
    where = source.device if device is None else device
    return zeros(source.shape, source.dtype, where, wanted, retain_grad=retain_grad)


def full_like(
    src: array,
    value: Any,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """A new array with the shape and type of `src`, whose elements are `value`. Arguments as for `wp.empty_like`."""
    made = empty_like(_template(src, "full_like"), device, requires_grad, pinned, retain_grad)
    made.fill_(value)
    return made


def ones_like(
    src: array,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """A new array of ones with the shape and type of `src`. Arguments and errors are those of `wp.empty_like`."""
    return full_like(_template(src, "ones_like"), 1, device, requires_grad, pinned, retain_grad)


def clone(
    src: array,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """A copy of an array, in new memory."""
    made = empty_like(_template(src, "clone"), device, requires_grad, pinned, retain_grad)
    copy(made, src)
    return made


def copy(
    dest: array, src: array, dest_offset: int = 0, src_offset: int = 0, count: int = 0, stream: Any = None
) -> None:
    """Copy elements of `src` to `dest`, and their gradients if both have one, unless a `wp.Tape` records the copy.

    Args:
        dest: The array to write to.
        src: The array to read from. Its elements must have the same number of bytes.
        dest_offset: The first element to write, counted along the flattened array.
        src_offset: The first element to read.
        count: The number of elements; 0 for all of `src`.
        stream: Must be None.

    Raises:
        KernelTypeError: The elements differ in size, or an argument is not an array.
        LaunchError: The range is outside an array, or the shapes differ and an array is not contiguous.
    """
    if isinstance(dest, indexedarray) or isinstance(src, indexedarray):
        if dest_offset or src_offset or count:
            raise LaunchError("wp.copy: indexed arrays are copied as a whole, without offsets and a count")
        copy_indexed(_template(dest, "copy"), _template(src, "copy"))
        return
    target, source = _array(dest, "copy"), _array(src, "copy")
    if isinstance(target, StructArray) or isinstance(source, StructArray):
        for into_part, part in both_leaves(target, source):
            copy(into_part, part, dest_offset, src_offset, count)
        return
    into, out = copy_range(target, source, dest_offset, src_offset, count)
    if out.size:
        submit(Copy(target if into is target.layout else target.seen(into),
                    source if out is source.layout else source.seen(out)))  # fmt: skip
    # On a tape, the gradient of the copy is that of what it is a copy of; it begins with what it has.
    is_on_tape = listeners.here.recorders or listeners.here.captured_tapes
    if source.grad is not None and target.grad is not None and not is_on_tape:
        copy(target.grad, source.grad, dest_offset, src_offset, count)


def from_numpy(
    arr: Any,
    dtype: Any = None,
    shape: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    retain_grad: bool = False,
) -> array:
    """A new array with a copy of a NumPy array's content.

    Without `dtype`, a NumPy array of two dimensions becomes an array of vectors, and one of three dimensions an array
    of matrices.

    Raises:
        KernelTypeError, LaunchError: The content does not match `dtype`.
    """
    given = np.asarray(arr)
    if dtype is None:
        scalar = from_dtype(given.dtype) if given.dtype.kind in "biufV" else None
        if scalar is None:
            raise KernelTypeError(f"wp.from_numpy: there are no arrays of {given.dtype}", hint="say dtype=")
        rank = given.ndim
        dtype = (
            vector(given.shape[1], scalar) if rank == 2 else matrix(given.shape[1:], scalar) if rank == 3 else scalar
        )
    return array(given, dtype=dtype, shape=shape, device=device, requires_grad=requires_grad, retain_grad=retain_grad)


def _template(value: Any, name: str) -> Any:
    """An array, or the elements that an indexed array names in one."""
    if isinstance(value, indexedarray):
        _array(value.data, name)
        return value
    return _array(value, name)


def _array(value: Any, name: str) -> array:
    if isinstance(value, array) and value.device is not None:
        return value
    raise KernelTypeError(f"wp.{name}: expected an array, got {type(value).__name__}", hint="wp.array(data) makes one")


CLONE.append(clone)
