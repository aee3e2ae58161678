"""Exact meaning of the operations on tiles, on NumPy arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jwarp.ir.attributes import Attribute, Fourier, Iota, Reduction, Scan, Shape, Strided, Transposes, Triangle
from jwarp.ir.evaluate import evaluate, scan_start
from jwarp.types import ValueType, float32, from_dtype, scalar_of, shape_of

Array = np.ndarray


def evaluate_tile(name: str, args: tuple[Array, ...], attr: Attribute | None, result: ValueType) -> Array:
    """Apply an operation on tiles; there are no floating-point warnings."""
    with np.errstate(all="ignore"):
        return np.asarray(TILE_RULES[name](args, attr, result))


def _fill(args: tuple[Array, ...], shape: Shape, result: ValueType) -> Array:
    return np.full(shape, args[0], result.dtype)


def _iota(args: tuple[Array, ...], iota: Iota, result: ValueType) -> Array:
    return np.indices(iota.shape, np.int32)[iota.axis]


def places(shape: tuple[int, ...], offset: int, strides: tuple[int, ...]) -> Array:
    """The numbers of the elements that a view takes."""
    return offset + np.tensordot(np.array(strides, np.int64), np.indices(shape), 1)


def _view(args: tuple[Array, ...], view: Strided, result: ValueType) -> Array:
    return args[0].reshape(-1)[places(view.shape, view.offset, view.strides)]


def _spread(args: tuple[Array, ...], view: Strided, result: ValueType) -> Array:
    whole = np.zeros(view.shape, args[0].dtype).reshape(-1)
    np.add.at(whole, places(args[0].shape, view.offset, view.strides).reshape(-1), args[0].reshape(-1))
    return whole.reshape(view.shape)


def _inside(tile: Array, indices: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
    """Which indices are those of an element, and all of them where that is so."""
    there, wrapped = np.ones(indices[0].shape, bool), []
    for given, extent in zip(indices, tile.shape, strict=True):
        index = np.minimum(given, np.iinfo(np.int64).max) if given.dtype == np.uint64 else given
        index = np.asarray(index).astype(np.int64)
        index = np.where(index < 0, index + extent, index)
        there = there & (index >= 0) & (index < extent)
        wrapped.append(index)
    return there, tuple(index[there] for index in wrapped)


def _take(args: tuple[Array, ...], nothing: None, result: ValueType) -> Array:
    there, element = _inside(args[0], args[1:])
    taken = np.zeros(shape_of(result), args[0].dtype)
    taken[there] = args[0][element]
    return taken


def _put(args: tuple[Array, ...], nothing: None, result: ValueType) -> Array:
    there, element = _inside(args[0], args[1:-1])
    changed = args[0].copy()
    changed[element] = args[-1][there]
    return changed


def _put_add(args: tuple[Array, ...], nothing: None, result: ValueType) -> Array:
    there, element = _inside(args[0], args[1:-1])
    changed = args[0].copy()
    np.add.at(changed, element, args[-1][there])
    return changed


def _combine(kind: str, x: Array, y: Array) -> Array:
    scalar = from_dtype(x.dtype)
    assert scalar is not None
    return evaluate(kind, (x, y), scalar)


def _reduce(args: tuple[Array, ...], reduction: Reduction, result: ValueType) -> Array:
    axes = reduction.axes
    tile = np.moveaxis(args[0], axes, range(len(axes)))
    rows = tile.reshape(-1, *tile.shape[len(axes) :])
    return functools.reduce(functools.partial(_combine, reduction.operation), rows)


def _arg(args: tuple[Array, ...], operation: str, result: ValueType) -> Array:
    """The number of the first one of those that are the extremum; NaNs are passed over, if there is a number."""
    x, best = args[0], functools.reduce(functools.partial(_combine, operation), args[0].reshape(-1))
    return np.asarray(np.argmax((x == best) | ((x != x) & (best != best))), np.int32)


def _scan(args: tuple[Array, ...], scan: Scan, result: ValueType) -> Array:
    kind, reverse = scan.operation, scan.reverse
    given = args[0].reshape(-1)[:: -1 if reverse else 1]
    running, total = np.empty_like(given), np.asarray(scan_start(kind, scalar_of(result)).value).astype(given.dtype)
    for k, x in enumerate(given):
        following = _combine(kind, total, x)
        running[k] = total if scan.exclusive else following
        total = following
    return running[:: -1 if reverse else 1].reshape(args[0].shape)


def _matmul(args: tuple[Array, ...], transposes: Transposes, result: ValueType) -> Array:
    a, b, c = args
    is_half = result.is_float and a.dtype.itemsize == 2
    wide = float32.dtype if is_half else a.dtype
    x, y = ((m.T if flag else m).astype(wide) for m, flag in zip((a, b), (transposes.a, transposes.b), strict=True))
    return (x @ y + c.astype(wide)).astype(c.dtype)


def _argsort(args: tuple[Array, ...], nothing: None, result: ValueType) -> Array:
    return np.argsort(args[0], kind="stable").astype(np.int32)  # NaN last, -0 and 0 equal


def _fourier(args: tuple[Array, ...], fourier: Fourier, result: ValueType) -> Array:
    re, im = args[0].astype(np.float64)
    made = (np.fft.ifft if fourier.inverse else np.fft.fft)(re + 1j * im, axis=-1, norm="backward")
    if fourier.inverse:
        made = made * made.shape[-1]
    return np.stack((made.real, made.imag)).astype(args[0].dtype)


def _cholesky(args: tuple[Array, ...], nothing: None, result: ValueType) -> Array:
    a = args[0]
    factor = np.zeros_like(a)
    for j in range(len(a)):
        rest = a[j:, j] - factor[j:, :j] @ factor[j, :j]
        factor[j, j] = np.sqrt(rest[0])
        factor[j + 1 :, j] = rest[1:] / factor[j, j]
    return factor


def _tri_solve(args: tuple[Array, ...], triangle: Triangle, result: ValueType) -> Array:
    t, b = args
    lower, transposed = triangle.lower, triangle.transposed
    t = (np.tril if lower else np.triu)(t)
    t = t.T if transposed else t
    solved = np.zeros_like(b)
    order = range(len(b)) if lower != transposed else range(len(b) - 1, -1, -1)
    for i in order:
        # Rows that are not known yet are zero.
        solved[i] = (b[i] - t[i] @ solved) / t[i, i]
    return solved


TILE_RULES: dict[str, Callable[[tuple[Array, ...], Any, ValueType], Any]] = {
    "fill": _fill,
    "iota": _iota,
    "view": _view,
    "spread": _spread,
    "take": _take,
    "put": _put,
    "put_add": _put_add,
    "reduce": _reduce,
    "arg": _arg,
    "scan": _scan,
    "matmul": _matmul,
    "cholesky": _cholesky,
    "tri_solve": _tri_solve,
    "argsort": _argsort,
    "fourier": _fourier,
}
