"""Primitives that only move numbers: what they do to the axes of arrays of known shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.bind.jax_functions.lowering import Lowering, Scalars, filled, primitive, scalar_type
from jwarp.ir.evaluate import as_constant


@primitive("broadcast_in_dim")
def _broadcast(low: Lowering, equation: Any, array: Scalars, *extents: Any) -> Scalars:
    shape, axes = known_shape(low, equation.params["shape"]), equation.params["broadcast_dimensions"]
    own = [1] * len(shape)
    for extent, axis in zip(array.shape, axes, strict=True):
        own[int(axis)] = extent
    return np.broadcast_to(array.reshape(own), shape)


def known_shape(low: Lowering, shape: Any) -> tuple[int, ...]:
    """A shape of numbers.

    Raises:
        CompileError: an extent is not known when the kernel is compiled.
    """
    if not all(isinstance(n, (int, np.integer)) for n in shape):
        raise low.error(f"an array has the shape {shape}, which is not known when the kernel is compiled")
    return tuple(map(int, shape))


@primitive("reshape")
def _reshape(low: Lowering, equation: Any, array: Scalars, *extents: Any) -> Scalars:
    return array.reshape(known_shape(low, equation.params["new_sizes"]))


@primitive("squeeze")
def _squeeze(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    return array.reshape(equation.outvars[0].aval.shape)


@primitive("expand_dims")
def _expand_dims(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    return array.reshape(equation.outvars[0].aval.shape)


@primitive("transpose")
def _transpose(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    return array.transpose([int(k) for k in equation.params["permutation"]])


@primitive("rev")
def _reversed(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    return np.flip(array, tuple(map(int, equation.params["dimensions"])))


@primitive("concatenate")
def _concatenate(low: Lowering, equation: Any, *arrays: Scalars) -> Scalars:
    return np.concatenate(arrays, equation.params["dimension"])


@primitive("stack")
def _stack(low: Lowering, equation: Any, *arrays: Scalars) -> Scalars:
    return np.stack(arrays, equation.params.get("axis", equation.params.get("dimension", 0)))


@primitive("unstack")
def _unstack(low: Lowering, equation: Any, array: Scalars) -> list[Scalars]:
    rows = np.moveaxis(array, equation.params["axis"], 0)
    return [row if rows.ndim > 1 else filled((), (row,)) for row in rows]


@primitive("split")
def _split(low: Lowering, equation: Any, array: Scalars) -> list[Scalars]:
    ends = np.cumsum(equation.params["sizes"])[:-1]
    return list(np.split(array, ends, equation.params["axis"]))


@primitive("slice")
def _slice(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    p = equation.params
    steps = p["strides"] or (1,) * array.ndim
    parts = zip(p["start_indices"], p["limit_indices"], steps, strict=True)
    return array[tuple(slice(int(lo), int(hi), int(step)) for lo, hi, step in parts)]


@primitive("tile")
def _tile(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    return np.tile(array, equation.params["reps"])


@primitive("pad")
def _pad(low: Lowering, equation: Any, array: Scalars, padding: Scalars) -> Scalars:
    """With numbers before, after and between elements; where they are negative, without the elements there."""
    for axis, (before, after, between) in enumerate(equation.params["padding_config"]):
        extent = array.shape[axis]
        wide = extent + max(0, extent - 1) * between
        shape = list(array.shape)
        shape[axis] = wide + before + after
        made = np.empty(shape, object)
        made[...] = padding[()]
        source, target = [slice(None)] * array.ndim, [slice(None)] * array.ndim
        places = [(k, before + k * (between + 1)) for k in range(extent)]
        for k, place in places:
            if 0 <= place < shape[axis]:
                source[axis], target[axis] = slice(k, k + 1), slice(place, place + 1)
                made[tuple(target)] = array[tuple(source)]
        array = made
    return array


@primitive("iota")
def _iota(low: Lowering, equation: Any, *extents: Any) -> Scalars:
    p = equation.params
    shape, axis = known_shape(low, p["shape"]), p["dimension"]
    kind = scalar_type(p["dtype"], "an array", low.span)
    numbers = np.broadcast_to(
        np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape
    )
    return filled(shape, (as_constant(kind.dtype.type(x), kind) for x in numbers.flat))
