"""Primitives that take and set elements at indices, which may be known only when the kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jwarp.bind.jax_functions.elementwise import combined
from jwarp.bind.jax_functions.forms import Form
from jwarp.bind.jax_functions.lowering import Lowering, Scalars, one, primitive
from jwarp.frontend.values.bindings import ArrayRef
from jwarp.ir.builder import TRUE, zero
from jwarp.ir.nodes import Const, Op, Value
from jwarp.ir.ops import EXTREMA
from jwarp.types import ArrayType, bool_, int32, int64

# One of more elements than this is read from an array of the thread's own, not chosen by comparisons.
MAX_CHOICES = 32


def as_index(low: Lowering, x: Any) -> Any:
    """An index as int32, or int64 where it needs that."""
    return low.cast(x, int64 if x.type.bits == 64 or x.type.name == "uint32" else int32)


def stored(low: Lowering, scalars: Sequence[Any]) -> ArrayRef:
    """An array of the thread's own that holds these scalars: a new one, or that of the same ones from before."""
    key = tuple(scalars)  # values are equal to themselves alone
    known = low.tables.get(key)
    if known is not None and low.build.is_open(known[1]):
        return known[0]
    array = low.ctx.local_array(ArrayType(scalars[0].type, 1), (len(scalars),), low.span)
    for k, x in enumerate(scalars):
        put(low, array, Const(int32, k), x)
    low.tables[key] = array, low.build.nodes
    return array


def put(low: Lowering, array: ArrayRef, index: Any, x: Any) -> None:
    """Set an element of an array of the thread's own."""
    low.build.append(Op("store", (index, x), array.index, None, low.span))


def get(low: Lowering, array: ArrayRef, index: Any) -> Value:
    """An element of an array of the thread's own."""
    result = Value(array.type.dtype)
    low.build.append(Op("load", (index,), array.index, result, low.span))
    return result


def among(low: Lowering, scalars: Sequence[Any], count: int) -> Callable[[Any, int], Any]:
    """A function that gives the scalar at `index` + k, where `index` is below `count`."""
    if count <= MAX_CHOICES or any(isinstance(x, Form) for x in scalars):
        return lambda index, k: _chosen(low, scalars[k : k + count], index)
    if scalars[0].type is bool_:
        numbers = among(low, [low.cast(x, int32) for x in scalars], count)
        return lambda index, k: low.op("ne", numbers(index, k), zero(int32))
    array = stored(low, scalars)
    return lambda index, k: get(low, array, low.op("add", index, Const(index.type, k)))


def _chosen(low: Lowering, scalars: Sequence[Any], index: Any) -> Any:
    """The one of the scalars at an index, by comparisons."""
    if isinstance(index, Const):
        return scalars[index.value]
    found = scalars[-1]
    for k in reversed(range(len(scalars) - 1)):
        found = low.where(low.op("eq", index, Const(index.type, k)), scalars[k], found)
    return found


def between(low: Lowering, index: Any, last: int) -> Any:
    """An index moved into 0 to `last`."""
    return low.op("max", low.op("min", index, Const(index.type, last)), zero(index.type))


def _starts(low: Lowering, indices: Sequence[Scalars], shape: Sequence[int], sizes: Sequence[int]) -> list[Any]:
    """The first indices of a slice that lies in an array of `shape`."""
    parts = zip(indices, shape, sizes, strict=True)
    return [between(low, as_index(low, one(index)), extent - size) for index, extent, size in parts]


def _window(low: Lowering, array: Scalars, starts: Sequence[Any], sizes: Sequence[int]) -> Scalars:
    """The part of the array from `starts` on: one axis after the other."""
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        extent = array.shape[axis]
        if extent == size:
            continue
        if isinstance(start, Const):
            array = array.take(range(start.value, start.value + size), axis)
            continue
        moved = np.moveaxis(array, axis, -1)
        made = np.empty((*moved.shape[:-1], size), object)
        for place in np.ndindex(moved.shape[:-1]):
            chosen = among(low, list(moved[place]), extent - size + 1)
            for k in range(size):
                made[(*place, k)] = chosen(start, k)
        array = np.moveaxis(made, -1, axis)
    return array


@primitive("dynamic_slice")
def _dynamic_slice(low: Lowering, equation: Any, array: Scalars, *indices: Scalars) -> Scalars:
    sizes = [int(n) for n in equation.params["slice_sizes"]]
    return _window(low, array, _starts(low, indices, array.shape, sizes), sizes)


@primitive("dynamic_update_slice")
def _dynamic_update(low: Lowering, equation: Any, array: Scalars, update: Scalars, *indices: Scalars) -> Scalars:
    starts = _starts(low, indices, array.shape, update.shape)
    made = np.array(array)
    for place in np.ndindex(update.shape):
        target = [low.op("add", start, Const(start.type, k)) for start, k in zip(starts, place, strict=True)]
        _set(low, made, target, lambda old, new=update[place]: new, TRUE)
    return made


def _set(low: Lowering, array: Scalars, target: Sequence[Any], change: Any, valid: Any) -> None:
    """Change the element at `target` where it is `valid`: every element that it may be."""
    known = [[k.value] if isinstance(k, Const) else range(n) for k, n in zip(target, array.shape, strict=True)]
    for place in np.ndindex(*(len(options) for options in known)):
        at = tuple(options[k] for options, k in zip(known, place, strict=True))
        if not all(0 <= k < n for k, n in zip(at, array.shape, strict=True)):
            continue
        hit = valid
        for index, k in zip(target, at, strict=True):
            if not isinstance(index, Const):
                hit = low.op("and", hit, low.op("eq", index, Const(index.type, k)))
        new = change(array[at])
        array[at] = new if hit == TRUE else low.where(hit, new, array[at])


def _mode(equation: Any) -> str:
    """The treatment of indices outside: `clip`, `fill` (and drop), or none, since there are none (`promise`)."""
    name = str(equation.params["mode"]).rpartition(".")[2].lower()
    return "clip" if name.startswith("clip") else "promise" if name.startswith("promise") else "fill"


@primitive("gather")
def _gather(low: Lowering, equation: Any, array: Scalars, indices: Scalars) -> Scalars:
    p = equation.params
    numbers, sizes, mode = p["dimension_numbers"], [int(n) for n in p["slice_sizes"]], _mode(equation)
    offsets, collapsed = [*map(int, numbers.offset_dims)], [*map(int, numbers.collapsed_slice_dims)]
    operand_batch = [*map(int, numbers.operand_batching_dims)]
    index_batch = [*map(int, numbers.start_indices_batching_dims)]
    shape = equation.outvars[0].aval.shape
    batch_axes = [k for k in range(len(shape)) if k not in offsets]
    batch_shape = indices.shape[:-1]
    assert [shape[k] for k in batch_axes] == list(batch_shape)
    kept = [k for k in range(array.ndim) if k not in collapsed and k not in operand_batch]
    fill = _fill_value(low, equation)
    made = np.empty(shape, object)
    for batch in np.ndindex(batch_shape):
        own = array
        starts: list[Any] = [Const(int32, 0)] * array.ndim
        valid: Any = TRUE
        for axis, index_axis in zip(operand_batch, index_batch, strict=True):
            starts[axis] = Const(int32, batch[index_axis])
        for k, axis in enumerate(map(int, numbers.start_index_map)):
            index = as_index(low, indices[(*batch, k)])
            last = array.shape[axis] - sizes[axis]
            if mode == "fill":
                below = low.op("ge", index, zero(index.type))
                valid = low.op("and", valid, low.op("and", below, low.op("le", index, Const(index.type, last))))
            starts[axis] = between(low, index, last)
        window = _window(low, own, starts, sizes).reshape([sizes[k] for k in kept])
        if mode == "fill" and valid != TRUE:
            window = low.each(lambda x, valid=valid: low.where(valid, x, fill), window)
        target: list[Any] = [slice(None)] * len(shape)
        for axis, k in zip(batch_axes, batch, strict=True):
            target[axis] = k
        made[tuple(target)] = window if window.ndim else window[()]
    return made


def _fill_value(low: Lowering, equation: Any) -> Const:
    given = equation.params.get("fill_value")
    kind = equation.outvars[0].aval.dtype
    if given is None:
        given = (
            np.nan
            if np.issubdtype(kind, np.inexact) or kind.kind == "V"
            else (np.iinfo(kind).max if kind.kind == "u" else np.iinfo(kind).min if kind.kind == "i" else True)
        )
    found: Const = one(low.constant(np.asarray(given), kind))
    return found


def _scattering(name: str, operation: str) -> None:
    combine = combined if operation in EXTREMA else Lowering.op

    @primitive(name)
    def scatter(low: Lowering, equation: Any, array: Scalars, indices: Scalars, updates: Scalars) -> Scalars:
        p = equation.params
        numbers = p["dimension_numbers"]
        windows, inserted = [*map(int, numbers.update_window_dims)], [*map(int, numbers.inserted_window_dims)]
        operand_batch = [*map(int, numbers.operand_batching_dims)]
        index_batch = [*map(int, numbers.scatter_indices_batching_dims)]
        batch_axes = [k for k in range(updates.ndim) if k not in windows]
        kept = [k for k in range(array.ndim) if k not in inserted and k not in operand_batch]
        sizes = dict(zip(kept, (updates.shape[k] for k in windows), strict=True))
        made = np.array(array)
        for place in np.ndindex(updates.shape):
            batch = [place[k] for k in batch_axes]
            target: list[Any] = [Const(int32, 0)] * array.ndim
            valid: Any = TRUE
            for axis, index_axis in zip(operand_batch, index_batch, strict=True):
                target[axis] = Const(int32, batch[index_axis])
            for k, axis in enumerate(map(int, numbers.scatter_dims_to_operand_dims)):
                index = as_index(low, indices[(*batch, k)])
                last = array.shape[axis] - sizes.get(axis, 1)
                if _mode(equation) == "clip":
                    index = between(low, index, last)
                else:
                    inside = low.op(
                        "and", low.op("ge", index, zero(index.type)), low.op("le", index, Const(index.type, last))
                    )
                    valid = low.op("and", valid, inside)
                target[axis] = index
            for axis, k in zip(kept, (place[k] for k in windows), strict=True):
                target[axis] = low.op("add", target[axis], Const(target[axis].type, k))
            new = updates[place]
            _set(low, made, target, lambda old, new=new: combine(low, operation, old, new) if operation else new, valid)
        return made


for _name, _operation in (
    ("scatter", ""), ("scatter-add", "add"), ("scatter_add", "add"), ("scatter-sub", "sub"), ("scatter_sub", "sub"),
    ("scatter-mul", "mul"), ("scatter_mul", "mul"), ("scatter-min", "min"), ("scatter_min", "min"),
    ("scatter-max", "max"), ("scatter_max", "max"),
):  # fmt: skip
    _scattering(_name, _operation)
