"""Changes of the elements that indexed arrays name in `wp.array`s: fills and copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.commands import submit
from jwarp.arrays.content import value_of
from jwarp.arrays.descriptors import indexed_described
from jwarp.arrays.struct_array import StructArray, field_content
from jwarp.arrays.writes import Computation
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import indexedarray
from jwarp.types.indexed import COPY, DESCRIBE, FILL, checked_indices


def fill_indexed(target: indexedarray, value: Any) -> None:
    """Fill the elements that an indexed array names."""
    data = target.data
    if not isinstance(data, array):
        raise KernelTypeError(f"fill_ is for indexed arrays of wp.arrays, not of {type(data).__name__}")
    if isinstance(data, StructArray):
        is_zero = isinstance(value, (int, float)) and value == 0
        if not is_zero and type(value) is not data.dtype:
            raise KernelTypeError(f"an array of {data.dtype!r} cannot be filled with {value!r}")
        for name, part in data.parts.items():
            fill_indexed(indexedarray(part, target.indices), 0 if is_zero else field_content(value, name))
        return
    element = value_of(data.layout.element, value)

    def run() -> None:
        _write(data, target.indices, element)

    def back(contents: Sequence[Any]) -> None:
        if data.grad is not None:  # what was filled has the gradient zero before
            _write(data.grad, _as_they_were(target, iter(contents)), 0)

    submit(Computation("fill_ of an indexed array", run, [data], back, _index_arrays(target)))


def copy_indexed(dest: Any, src: Any) -> None:
    """Copy the elements of an array to another one of the same shape and type, where one or both are indexed arrays.

    Raises:
        KernelTypeError: the types differ, or `src` is no array.
        LaunchError: the shapes differ.
    """
    if not isinstance(src, array | indexedarray):
        src = array(src, dtype=dest.dtype)
    if dest.dtype != src.dtype:
        raise KernelTypeError(f"copy of an indexed array: destination dtype={dest.dtype}, source dtype={src.dtype}")
    if tuple(dest.shape) != tuple(src.shape):
        raise LaunchError(f"copy of an indexed array: destination shape={dest.shape}, source shape={src.shape}")
    if not src.size:
        return
    into, out = (a.data if isinstance(a, indexedarray) else a for a in (dest, src))
    if isinstance(into, StructArray):
        for (_, to_part), (_, part) in zip(into.parts.items(), out.parts.items(), strict=True):
            copy_indexed(_with_data(dest, to_part), _with_data(src, part))
        return

    def run() -> None:
        _write(into, _indices(dest), np.array(out.numpy()[_named(out, _indices(src))]))

    def back(contents: Sequence[Any]) -> None:
        if into.grad is None:
            return
        kept = iter(contents)
        to_indices, from_indices = _as_they_were(dest, kept), _as_they_were(src, kept)
        named = _named(into, to_indices)
        given = into.grad.numpy()[named] * _is_last(into, named)
        _write(into.grad, to_indices, 0)
        if out.grad is not None:
            gradient = np.array(out.grad.numpy())
            np.add.at(gradient, _named(out, from_indices), given)
            out.grad.memory.write(out.grad.layout, gradient)

    reads = [*_index_arrays(dest), *_index_arrays(src)]
    submit(Computation("copy of an indexed array", run, [into], back, reads, [out]))


def _is_last(data: array, named: Any) -> np.ndarray:
    """One for each element that is written last at its place, which the content comes from, and zero for the others."""
    writers = np.full(data.shape, -1)
    numbers = np.arange(writers[named].size).reshape(writers[named].shape)
    writers[named] = numbers
    is_last = writers[named] == numbers
    return is_last.reshape(is_last.shape + (1,) * (data.numpy().ndim - is_last.ndim))


def _with_data(given: Any, part: Any) -> Any:
    return indexedarray(part, given.indices) if isinstance(given, indexedarray) else part


def _indices(given: Any) -> Sequence[Any]:
    return given.indices if isinstance(given, indexedarray) else ()


def _index_arrays(given: Any) -> list[array]:
    return [index for index in _indices(given) if isinstance(index, array)]


def _as_they_were(given: Any, kept: Any) -> list[Any]:
    """The indices of an array, of which a tape has kept the contents."""
    return [next(kept) if isinstance(index, array) else index for index in _indices(given)]


def _write(data: array, indices: Sequence[Any], values: Any) -> None:
    content = np.array(data.numpy())
    content[_named(data, indices)] = values
    data.memory.write(data.layout, content)


def _named(data: array, indices: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The indices, for NumPy, of the elements that arrays of indices name; None is all of an axis."""
    axes = enumerate(zip(data.shape, (*indices, *(None,) * data.ndim), strict=False))
    return np.ix_(*(np.arange(n) if named is None else checked_indices(named, n, k) for k, (n, named) in axes))


DESCRIBE.append(indexed_described)
FILL.append(fill_indexed)
COPY.append(copy_indexed)
