"""Primitives that combine the elements of an axis: sums, extrema, running results, products, sorting."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jwarp.bind.jax_functions.elementwise import combined, extremum
from jwarp.bind.jax_functions.lowering import Lowering, Scalars, filled, primitive, scalar_type, single
from jwarp.ir.builder import FALSE, zero
from jwarp.ir.nodes import Const
from jwarp.types import bool_

Combine = Callable[[Any, Any], Any]


def in_pairs(combine: Combine, scalars: list[Any]) -> Any:
    """All combined, neighbours first: a tree, whose sums round less than one after the other."""
    while len(scalars) > 1:
        rest = scalars[len(scalars) // 2 * 2 :]
        scalars = [combine(x, y) for x, y in zip(scalars[::2], scalars[1::2], strict=False)] + rest
    return scalars[0]


def rows_of(array: Scalars, axes: tuple[int, ...]) -> tuple[tuple[int, ...], list[list[Any]]]:
    """The shape without some axes, and for each place there the scalars along these axes."""
    kept = [k for k in range(array.ndim) if k not in axes]
    shape = tuple(array.shape[k] for k in kept)
    moved = array.transpose([*kept, *axes]).reshape(math.prod(shape), math.prod(array.shape[k] for k in axes))
    return shape, [list(row) for row in moved]


def _reduction(name: str, rule: Callable[[Lowering, list[Any], Any], Any]) -> None:
    @primitive(name)
    def reduced(low: Lowering, equation: Any, array: Scalars) -> Scalars:
        kind = scalar_type(equation.invars[0].aval.dtype, "an array", low.span)
        shape, rows = rows_of(array, tuple(int(k) for k in equation.params["axes"]))
        return filled(shape, (rule(low, row, kind) for row in rows))


def _of(name: str, on_bool: str, start: Callable[[Any], Const]) -> Callable[[Lowering, list[Any], Any], Any]:
    def rule(low: Lowering, row: list[Any], kind: Any) -> Any:
        operation = on_bool if kind is bool_ else name
        return in_pairs(lambda x, y: low.op(operation, x, y), row) if row else start(kind)

    return rule


def _extreme(name: str) -> Callable[[Lowering, list[Any], Any], Any]:
    def rule(low: Lowering, row: list[Any], kind: Any) -> Any:
        """The derivative is shared by all that are the result."""
        if not kind.is_float:
            return in_pairs(lambda x, y: extremum(low, name, x, y), row)
        value = in_pairs(lambda x, y: combined(low, name, x, y), row)
        if isinstance(value, Const) or low.order <= 0:
            return low.undifferentiated(value)
        one, none = low.number(kind, 1), zero(kind)
        hits = [low.where(low.op("eq", x, value), one, none) for x in row]
        share = in_pairs(lambda x, y: low.op("add", x, y), hits)
        return low.sloped(value, *((x, low.op("div", hit, share)) for x, hit in zip(row, hits, strict=True)))

    return rule


_reduction("reduce_sum", _of("add", "or", zero))
_reduction("reduce_prod", _of("mul", "and", lambda kind: Const(kind, 1.0 if kind.is_float else 1)))
_reduction("reduce_and", _of("and", "and", lambda kind: Const(kind, True if kind is bool_ else -1)))
_reduction("reduce_or", _of("or", "or", zero))
_reduction("reduce_xor", _of("xor", "xor", zero))
_reduction("reduce_max", _extreme("max"))
_reduction("reduce_min", _extreme("min"))


def _place_of(name: str, better: str) -> None:
    @primitive(name)
    def found(low: Lowering, equation: Any, array: Scalars) -> Scalars:
        """The first of the best ones, where NaN is better than any number."""
        kind = scalar_type(equation.params["index_dtype"], "an index", low.span)
        shape, rows = rows_of(array, tuple(int(k) for k in equation.params["axes"]))

        def best(row: list[Any]) -> Any:
            top, place = row[0], Const(kind, 0)
            for k, x in enumerate(row[1:], 1):
                if x.type is bool_:
                    wins = (
                        low.op("and", x, low.op("not", top)) if better == "gt" else low.op("and", low.op("not", x), top)
                    )
                else:
                    wins = low.op(better, x, top)
                    if x.type.is_float:
                        number = low.op("eq", top, top)
                        wins = low.op("and", number, low.op("or", wins, low.op("ne", x, x)))
                top, place = low.where(wins, x, top), low.where(wins, Const(kind, k), place)
            return place

        return filled(shape, map(best, rows))


_place_of("argmax", "gt")
_place_of("argmin", "lt")


def _running(name: str, combine: Callable[[Lowering, Any, Any], Any]) -> None:
    @primitive(name)
    def running(low: Lowering, equation: Any, array: Scalars) -> Scalars:
        axis = equation.params["axis"]
        made = np.empty(array.shape, object)
        source, target = np.moveaxis(array, axis, -1), np.moveaxis(made, axis, -1)
        for place in np.ndindex(source.shape[:-1]):
            row = list(source[place])
            order = range(len(row))[::-1] if equation.params["reverse"] else range(len(row))
            total = None
            for k in order:
                total = row[k] if total is None else combine(low, total, row[k])
                target[(*place, k)] = total
        return made


def _log_sum(low: Lowering, x: Any, y: Any) -> Any:
    """The logarithm of the sum of two exponentials."""
    top = low.undifferentiated(combined(low, "max", x, y))
    top = low.where(low.op("lt", low.op("abs", top), low.number(x.type, math.inf)), top, zero(x.type))
    parts = (low.op("exp", low.op("sub", z, top)) for z in (x, y))
    return low.op("add", low.op("log", low.op("add", *parts)), top)


_running("cumsum", lambda low, x, y: low.op("add", x, y))
_running("cumprod", lambda low, x, y: low.op("mul", x, y))
_running("cummax", lambda low, x, y: extremum(low, "max", x, y))
_running("cummin", lambda low, x, y: extremum(low, "min", x, y))
_running("cumlogsumexp", _log_sum)


@primitive("reduce")
def _reduce(low: Lowering, equation: Any, *arrays: Scalars) -> list[Scalars]:
    """By a function of the user's."""
    p, half = equation.params, len(arrays) // 2
    combined = p.get("jaxpr") or p["computation"]
    parts = [rows_of(array, tuple(int(k) for k in p["dimensions"])) for array in arrays[:half]]
    shape, count = parts[0][0], len(parts[0][1])
    found: list[list[Any]] = [[] for _ in range(half)]
    for place in range(count):
        totals = [array[()] for array in arrays[half:]]
        for items in zip(*(rows[place] for _, rows in parts), strict=True):
            args = [single(x) for x in (*totals, *items)]
            totals = (
                [x[()] for x in low.closed(combined, args)]
                if hasattr(combined, "consts")
                else [x[()] for x in low.run(combined, p.get("consts", ()), args)]
            )
        for k, total in enumerate(totals):
            found[k].append(total)
    return [filled(shape, row) for row in found]


# -- products of matrices


@primitive("dot_general")
def _dot_general(low: Lowering, equation: Any, a: Scalars, b: Scalars) -> Scalars:
    (sum_a, sum_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    wanted = equation.params.get("preferred_element_type")
    kind = scalar_type(equation.outvars[0].aval.dtype if wanted is None else wanted, "a product", low.span)
    shape_a, rows_a, free_a = _arranged(a, batch_a, sum_a)
    _, rows_b, free_b = _arranged(b, batch_b, sum_b)
    out = np.empty((rows_a.shape[0], rows_a.shape[1], rows_b.shape[1]), object)
    for batch, i, j in np.ndindex(out.shape):
        out[batch, i, j] = dot(low, rows_a[batch, i], rows_b[batch, j], kind)
    return out.reshape((*shape_a, *free_a, *free_b))


def dot(low: Lowering, xs: Any, ys: Any, kind: Any) -> Any:
    """The sum of the products."""
    pairs = [(low.cast(x, kind), low.cast(y, kind)) for x, y in zip(xs, ys, strict=True)]
    if not pairs:
        return zero(kind)
    if kind is bool_:
        return functools.reduce(lambda x, y: low.op("or", x, y), (low.op("and", *pair) for pair in pairs), FALSE)
    total = None
    for x, y in pairs:
        product = low.op("mul", x, y)
        total = product if total is None else low.op("add", total, product)
    return total


def _arranged(array: Scalars, batch: Any, summed: Any) -> tuple[tuple[int, ...], Scalars, tuple[int, ...]]:
    """The batch shape, the array as (batch, rows, what is summed), and the shape of the rows."""
    batch, summed = [int(k) for k in batch], [int(k) for k in summed]
    free = [k for k in range(array.ndim) if k not in batch and k not in summed]
    shapes = [tuple(array.shape[k] for k in axes) for axes in (batch, free, summed)]
    moved = array.transpose([*batch, *free, *summed]).reshape([math.prod(shape) for shape in shapes])
    return shapes[0], moved, shapes[1]


@primitive("conv_general_dilated")
def _convolution(low: Lowering, equation: Any, a: Scalars, b: Scalars) -> Scalars:
    """Each element of the result is a sum of products."""
    p = equation.params
    if p["batch_group_count"] != 1:
        raise low.error("a convolution with groups of a batch")
    layout, aval = p["dimension_numbers"], equation.outvars[0].aval
    kind = scalar_type(aval.dtype, "a convolution", low.span)
    a, b = a.transpose(layout.lhs_spec), b.transpose(layout.rhs_spec)
    out = np.empty([aval.shape[k] for k in layout.out_spec], object)
    features = b.shape[1]
    each = out.shape[1] // p["feature_group_count"]
    for batch, feature, *place in np.ndindex(out.shape):
        group = feature // each
        met = []
        for k in np.ndindex(b.shape[2:]):
            at = [
                divmod(y * stride + j * apart - before, wide)
                for y, j, stride, apart, (before, _), wide in zip(
                    place, k, p["window_strides"], p["rhs_dilation"], p["padding"], p["lhs_dilation"], strict=True
                )
            ]
            if all(rest == 0 and 0 <= x < n for (x, rest), n in zip(at, a.shape[2:], strict=True)):
                spot = tuple(x for x, _ in at)
                met += [(a[(batch, group * features + i, *spot)], b[(feature, i, *k)]) for i in range(features)]
        out[(batch, feature, *place)] = dot(low, [x for x, _ in met], [y for _, y in met], kind)
    return out.transpose(np.argsort(layout.out_spec))


# -- sorting

MAX_SORTED = 32


@primitive("sort")
def _sort(low: Lowering, equation: Any, *arrays: Scalars) -> list[Scalars]:
    """Neighbours change places until all are in order, so that equal ones keep theirs; NaN comes last."""
    p = equation.params
    axis, keys = p["dimension"], p["num_keys"]
    moved = [np.moveaxis(array, axis, -1) for array in arrays]
    count = moved[0].shape[-1]
    if count > MAX_SORTED:
        raise low.error(
            f"{count} numbers are sorted in a kernel, where at most {MAX_SORTED} can be", "sort them outside"
        )
    made = [np.array(array) for array in moved]
    for place in np.ndindex(moved[0].shape[:-1]):
        rows = [list(array[place]) for array in made]
        for turn in range(count):
            for k in range(turn % 2, count - 1, 2):
                swap = _comes_before(low, [row[k + 1] for row in rows[:keys]], [row[k] for row in rows[:keys]])
                for row in rows:
                    x, y = row[k], row[k + 1]
                    row[k], row[k + 1] = low.where(swap, y, x), low.where(swap, x, y)
        for array, row in zip(made, rows, strict=True):
            for k, x in enumerate(row):
                array[(*place, k)] = x
    return [np.moveaxis(array, -1, axis) for array in made]


def _comes_before(low: Lowering, xs: list[Any], ys: list[Any]) -> Any:
    """The truth value that the first keys come strictly before the second ones."""
    found, same = FALSE, None
    for x, y in zip(xs, ys, strict=True):
        if x.type is bool_:
            before, equal = low.op("and", low.op("not", x), y), low.op("eq", x, y)
        else:
            before, equal = low.op("lt", x, y), low.op("eq", x, y)
            if x.type.is_float:
                nan_x, nan_y = low.op("ne", x, x), low.op("ne", y, y)
                before = low.op("or", before, low.op("and", nan_y, low.op("not", nan_x)))
                equal = low.op("or", equal, low.op("and", nan_x, nan_y))
        found = before if same is None else low.op("or", found, low.op("and", same, before))
        same = equal if same is None else low.op("and", same, equal)
    return found


@primitive("top_k")
def _top_k(low: Lowering, equation: Any, array: Scalars) -> list[Scalars]:
    """By taking the best one that is left, `k` times; the first one of equal ones."""
    k, kind = equation.params["k"], scalar_type(equation.outvars[1].aval.dtype, "an index", low.span)
    axis = equation.params.get("axis", -1)
    moved = np.moveaxis(array, axis, -1)
    values, places = (np.empty((*moved.shape[:-1], k), object) for _ in range(2))
    for place in np.ndindex(moved.shape[:-1]):
        row = list(moved[place])
        numbers: list[Any] = [Const(kind, n) for n in range(len(row))]
        for n in range(k):  # the best of the rest moves to the front, past those that stay in order
            for m in reversed(range(n, len(row) - 1)):
                swap = _comes_before(low, [row[m]], [row[m + 1]])
                for items in (row, numbers):
                    x, y = items[m], items[m + 1]
                    items[m], items[m + 1] = low.where(swap, y, x), low.where(swap, x, y)
            values[(*place, n)], places[(*place, n)] = row[n], numbers[n]
    return [np.moveaxis(values, -1, axis), np.moveaxis(places, -1, axis)]
