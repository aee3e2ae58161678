"""Arguments of Warp's launches: copied, taken apart as jwarp takes structs apart, and filled with other numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import warp
from ids import arrays_in, copy_of, number_of, numbers_in, table_in
from warp._src import types as warp_types
from warp._src.codegen import Struct, StructInstance

from jwarp.types import AnyType, StructArrayType, StructType, has_arrays


class Refused(Exception):
    """An argument has no counterpart in jwarp; the text is the reason."""


def kept(value: Any) -> Any:
    """A copy that later launches do not change."""
    if isinstance(value, StructInstance):
        copy = value._cls()
        for name in value._cls.vars:
            field = getattr(value, name)
            if field is not None:
                setattr(copy, name, kept(field))
        return copy
    if isinstance(value, warp_types.indexedarray):
        return _indexed(value, kept(value.data))
    if isinstance(value, np.ndarray):
        return value.copy()
    if not isinstance(value, warp_types.array):
        return copy_of(number_of(value)) if number_of(value) else value
    if numbers_in(value):
        copies = [copy_of(n) if number_of(n) else 0 for n in value.numpy().tolist()]
        return warp.array(np.array(copies, np.uint64), dtype=warp.uint64, device="cpu")
    copy = warp.empty(value.shape, dtype=value.dtype, device="cpu")  # contiguous, and of no subclass
    warp.copy(copy, value)
    return copy


def _indexed(value: Any, data: Any) -> Any:
    """The elements of `data` that an indexed array names of its own data."""
    return warp.indexedarray(data, [None if i is None else kept(i) for i in value.indices[: data.ndim]])


def _whole(value: Any, name: str) -> Any:
    """A part of an indexed array, as NumPy array; where it names all elements along an axis, their numbers."""
    if name == "data":
        return value.data.numpy()
    axis = int(name.removeprefix("indices"))
    rows = value.indices[axis]
    return np.arange(value.data.shape[axis], dtype=np.int32) if rows is None else rows.numpy()


def parts(kind: AnyType, value: Any) -> Iterator[Any]:
    """The values of the parameters that one of type `kind` is taken apart into; arrays as NumPy arrays, or None."""
    if isinstance(value, warp_types.indexedarray) and isinstance(kind, StructType) and kind.indexed is not None:
        for name in kind.fields:
            yield _whole(value, name)
    elif isinstance(kind, StructType) and kind.table_of is not None:
        yield from table_in(kind, value)
    elif isinstance(kind, StructType) and kind.is_handle:
        yield from arrays_in(kind, value)
    elif isinstance(kind, StructType):
        for name, inner in kind.fields.items():
            if value is not None:
                field = value[name] if isinstance(value, np.ndarray) else getattr(value, name)
            yield from parts(inner, None if value is None else field)
    elif isinstance(kind, StructArrayType):
        if any(has_arrays(inner) for inner in kind.struct.fields.values()):
            raise Refused("an array of structs that hold arrays, in Warp anywhere in memory")
        yield from parts(kind.struct, value.numpy() if isinstance(value, warp_types.array) else value)
    elif type(value) is warp_types.array:
        yield value.numpy()
    else:
        yield value


def assign(kind: AnyType, target: Any, values: Iterator[Any]) -> None:
    """Store what a launch of jwarp's gave into the arrays of an argument; None is for what does not change."""
    if isinstance(kind, StructArrayType):
        whole = target.numpy().copy()
        _fill(kind.struct, whole, values)
        target.assign(warp.array(whole, dtype=target.dtype, device="cpu"))
    elif isinstance(target, warp_types.indexedarray):
        found = [next(values) for _ in kind.fields]
        if found[0] is not None:
            target.data.assign(found[0])
    elif isinstance(kind, StructType) and kind.table_of is not None:
        for _ in kind.fields:
            next(values)
    elif isinstance(kind, StructType) and kind.is_handle:
        for _ in arrays_in(kind, target):
            next(values)
    elif isinstance(kind, StructType):
        for name, inner in kind.fields.items():
            assign(inner, getattr(target, name), values)
    else:
        value = next(values)
        if value is not None:
            target.assign(value)


def _fill(kind: StructType, whole: np.ndarray, values: Iterator[Any]) -> None:
    for name, inner in kind.fields.items():
        if isinstance(inner, StructType):
            _fill(inner, whole[name], values)
        elif (value := next(values)) is not None:
            whole[name] = value


def sizes(value: Any) -> Iterator[int]:
    """How many elements the arrays of an argument have."""
    if isinstance(value, StructInstance):
        for name in value._cls.vars:
            yield from sizes(getattr(value, name))
    elif isinstance(value, warp_types.array):
        yield value.size


def changed(before: Any, now: Any) -> bool:
    """True if an array of an argument differs from its copy in some bit."""
    if isinstance(before, StructInstance):
        return any(changed(getattr(before, name), getattr(now, name)) for name in before._cls.vars)
    if isinstance(before, warp_types.indexedarray):
        return changed(before.data, now.data)
    if type(before) is warp_types.array and before.size:
        return bool(before.numpy().tobytes() != now.numpy().tobytes())
    return False


def randomized(value: Any, rng: np.random.Generator, largest: int = 0) -> Any:
    """A copy of an argument with random numbers in its arrays: floats of both signs, never 0, and integers up to
    `largest`.

    Without `largest` integers stay as they are. Numbers that are no elements of arrays stay, too.
    """
    if isinstance(value, StructInstance):
        copy = kept(value)
        for name in value._cls.vars:
            field = getattr(value, name)
            if type(field) is warp_types.array or isinstance(field, StructInstance):
                setattr(copy, name, randomized(field, rng, largest))
        return copy
    if isinstance(value, warp_types.indexedarray):
        return _indexed(value, randomized(value.data, rng, largest))
    if type(value) is not warp_types.array:
        return value
    if value.size == 0:
        return kept(value)
    new = value.numpy().copy()
    if isinstance(value.dtype, Struct):
        _randomize(value.dtype, new, rng, largest)
    else:
        floating = warp_types.type_scalar_type(value.dtype) in warp_types.float_types
        new[...] = _numbers(new, floating, rng, largest)
    return warp.array(new, dtype=value.dtype, device="cpu")


def _randomize(kind: Struct, whole: np.ndarray, rng: np.random.Generator, largest: int) -> None:
    for name, var in kind.vars.items():
        if isinstance(var.type, Struct):
            _randomize(var.type, whole[name], rng, largest)
        elif not isinstance(var.type, (warp_types.array, warp_types._ArrayAnnotation)):
            whole[name] = _numbers(whole[name], whole[name].dtype.kind == "f", rng, largest)


def _numbers(old: np.ndarray, floating: bool, rng: np.random.Generator, largest: int) -> np.ndarray:
    if floating:
        new = rng.uniform(0.25, 2.0, old.shape) * rng.choice([-1, 1], old.shape)
    elif largest:
        new = rng.integers(0, 2 if old.dtype == bool else largest + 1, old.shape)
    else:
        return old
    return np.asarray(new).astype(old.dtype)
