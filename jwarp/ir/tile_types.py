"""The result types of the operations on tiles, which say what the attributes of these may be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jwarp.ir.attributes import Attribute, Fourier, Iota, Reduction, Scan, Shape, Strided, Transposes, Triangle
from jwarp.ir.ops import COMBINERS, EXTREMA, OPS, SCANS
from jwarp.types import MAX_DIMS, MAX_TILE_ELEMENTS, TileType, ValueType, bool_, int32, scalar_of, shape_of, with_shape

# The greatest prime factor of the length of a Fourier transform: what is written for one grows with its square.
MAX_FACTOR = 13


class Misfit(ValueError):
    """An operation on tiles with operands or attributes that it does not take; the text says why."""


def tile_result(name: str, types: tuple[ValueType, ...], attr: Attribute | None) -> ValueType:
    """The type of what operation `name` gives.

    Raises:
        Misfit: it does not take such operands, or such an attribute.
    """
    return _RULES[name](types, attr)


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise Misfit(reason)


def check_shape(shape: Any) -> tuple[int, ...]:
    """`shape` if tiles may have it."""
    is_shape = type(shape) is tuple and all(type(n) is int and n >= 1 for n in shape)
    _require(is_shape and 1 <= len(shape) <= MAX_DIMS, f"{shape!r} is no shape of a tile")
    _require(math.prod(shape) <= MAX_TILE_ELEMENTS, f"a tile has at most {MAX_TILE_ELEMENTS} elements")
    return shape


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The distances of neighbours along each axis in the flattened tile."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def _tile(type_: ValueType, rank: int | None = None) -> TileType:
    if not isinstance(type_, TileType):
        raise Misfit(f"{type_} is no tile")
    _require(rank is None or len(type_.shape) == rank, f"{type_} has not {rank} axes")
    return type_


def _fill(types: tuple[ValueType, ...], shape: Shape) -> ValueType:
    _require(not shape_of(types[0]), f"{types[0]} is no scalar")
    return with_shape(scalar_of(types[0]), check_shape(shape))


def _iota(types: tuple[ValueType, ...], iota: Iota) -> ValueType:
    check_shape(iota.shape)
    _require(0 <= iota.axis < len(iota.shape), f"there is no axis {iota.axis!r}")
    return with_shape(int32, iota.shape)


def _places(view: Strided, shape: tuple[int, ...], size: int) -> None:
    """Check that a view of `shape` into `size` elements stays inside."""
    offset, strides = view.offset, view.strides
    _require(len(strides) == len(shape), f"a view needs an offset and {len(shape)} strides, not {view!r}")
    ends = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low, high = offset + sum(min(e, 0) for e in ends), offset + sum(max(e, 0) for e in ends)
    _require(low >= 0 and high < size, f"the view {view!r} leaves its tile of {size} elements")


def _view(types: tuple[ValueType, ...], view: Strided) -> ValueType:
    tile = _tile(types[0])
    shape = check_shape(view.shape)
    _places(view, shape, tile.size)
    return with_shape(tile.scalar, shape)


def _spread(types: tuple[ValueType, ...], view: Strided) -> ValueType:
    tile = _tile(types[0])
    shape = check_shape(view.shape)
    _places(view, tile.shape, math.prod(shape))
    return with_shape(tile.scalar, shape)


def _indexed(types: tuple[ValueType, ...], values: int) -> tuple[TileType, tuple[int, ...]]:
    """The tile, and the shape of what is taken from it or put into it."""
    _require(len(types) > 1 + values, "takes a tile and indices")
    tile, rest = _tile(types[0]), types[1:]
    _require(len(rest) - values == len(tile.shape), f"{len(rest) - values} indices for {tile}")
    shapes = {shape_of(t) for t in rest}
    _require(len(shapes) == 1, f"indices and values of several shapes: {', '.join(map(str, rest))}")
    _require(all(t.is_int for t in rest[: len(tile.shape)]), "indices must be integers")
    return tile, shapes.pop()


def _take(types: tuple[ValueType, ...], nothing: None) -> ValueType:
    tile, shape = _indexed(types, 0)
    return with_shape(tile.scalar, shape)


def _put(types: tuple[ValueType, ...], nothing: None) -> ValueType:
    tile, _ = _indexed(types, 1)
    _require(scalar_of(types[-1]) is tile.scalar, f"{types[-1]} is put into {tile}")
    return tile


def _combines(kind: str, tile: TileType, kinds: tuple[str, ...]) -> None:
    _require(kind in kinds, f"{kind!r} is none of {', '.join(kinds)}")
    fits = (tile.scalar is bool_ or tile.is_int) if OPS[kind].is_logical else tile.scalar is not bool_
    _require(fits, f"{kind} does not take {tile}")


def _reduce(types: tuple[ValueType, ...], reduction: Reduction) -> ValueType:
    tile, axes = _tile(types[0]), reduction.axes
    _combines(reduction.operation, tile, COMBINERS)
    known = all(0 <= n < len(tile.shape) for n in axes)
    ascending = known and all(x < y for x, y in itertools.pairwise(axes))
    _require(ascending and len(axes) > 0, f"{axes!r} are no axes of {tile}")
    return with_shape(tile.scalar, tuple(n for axis, n in enumerate(tile.shape) if axis not in axes))


def _arg(types: tuple[ValueType, ...], operation: str) -> ValueType:
    _tile(types[0])
    _require(operation in EXTREMA, f"{operation!r} is neither min nor max")
    return int32


def _scan(types: tuple[ValueType, ...], scan: Scan) -> ValueType:
    tile = _tile(types[0])
    _combines(scan.operation, tile, SCANS)
    return tile


def _matmul(types: tuple[ValueType, ...], transposes: Transposes) -> ValueType:
    a, b, c = (_tile(t, 2) for t in types)
    m, k = a.shape[::-1] if transposes.a else a.shape
    inner, n = b.shape[::-1] if transposes.b else b.shape
    _require(k == inner and c.shape == (m, n), f"a product of {m}x{k} and {inner}x{n} does not fit {c}")
    _require(a.scalar is b.scalar and a.scalar is not bool_, f"{a} and {b} are not multiplied")
    wide = a.is_float and a.bits == 16 and c.is_float and c.bits == 32
    _require(c.scalar is a.scalar or wide, f"a product of {a.scalar} is not added to {c}")
    return c


def _argsort(types: tuple[ValueType, ...], nothing: None) -> ValueType:
    tile = _tile(types[0], 1)
    _require(tile.scalar is not bool_, f"{tile} has no order")
    return with_shape(int32, tile.shape)


def factors(length: int) -> list[int]:
    """The factors by which a Fourier transform of that length goes: fours, and primes.

    Raises:
        Misfit: there is a greater prime factor than `MAX_FACTOR`.
    """
    found, rest = [], length
    for factor in (4, 2, 3, 5, 7, 11, MAX_FACTOR):
        while rest % factor == 0:
            found.append(factor)
            rest //= factor
    _require(rest == 1, f"a transform of length {length} has a prime factor above {MAX_FACTOR}")
    return found


def _fourier(types: tuple[ValueType, ...], _: Fourier) -> ValueType:
    x, circle = _tile(types[0], 3), _tile(types[1], 2)
    _require(x.shape[0] == 2 and x.bits >= 32, f"{x} has no real and imaginary parts")
    factors(x.shape[2])
    _require(circle.shape == (2, x.shape[2]) and circle.scalar is x.scalar, f"{circle} does not fit {x}")
    return x


def _cholesky(types: tuple[ValueType, ...], nothing: None) -> ValueType:
    tile = _tile(types[0], 2)
    _require(tile.shape[0] == tile.shape[1] and tile.bits >= 32, f"{tile} has no such factor")
    return tile


def _tri_solve(types: tuple[ValueType, ...], _: Triangle) -> ValueType:
    t, b = _tile(types[0], 2), _tile(types[1])
    square = t.shape[0] == t.shape[1] == b.shape[0] and len(b.shape) <= 2
    _require(square and t.scalar is b.scalar and t.bits >= 32, f"{t} and {b} are no system of equations")
    return b


_RULES: dict[str, Callable[[tuple[ValueType, ...], Any], ValueType]] = {
    "fill": _fill,
    "iota": _iota,
    "view": _view,
    "spread": _spread,
    "take": _take,
    "put": _put,
    "put_add": _put,
    "reduce": _reduce,
    "arg": _arg,
    "scan": _scan,
    "matmul": _matmul,
    "cholesky": _cholesky,
    "tri_solve": _tri_solve,
    "argsort": _argsort,
    "fourier": _fourier,
}
