"""The functions that sort tiles, and the Fourier transforms of tiles: one row each."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from jwarp.errors import Span
from jwarp.frontend.builtins.tiles.calls import Given, define
from jwarp.frontend.values.bindings import Binding
from jwarp.ir.attributes import Fourier, Iota, Strided
from jwarp.ir.nodes import Const, Operand
from jwarp.ir.operation import NUMBER
from jwarp.ir.tile_types import Misfit, dense_strides, factors
from jwarp.types import CompositeType, ScalarType, float64, shape_of, tile_type


def _reshaped(given: Given, item: Operand, shape: Sequence[int], span: Span) -> Operand:
    """The elements of a tile in order, as a tile of another shape."""
    extents = tuple(shape)
    if shape_of(item.type) == extents:
        return item
    return given.memory.op("view", item, attr=Strided(extents, 0, dense_strides(extents)), span=span)


# -- sorting


def _sort(given: Given) -> Binding:
    keys, values = given.ref("keys"), given.ref("values")
    if not isinstance(keys.dtype, ScalarType) or keys.dtype.kind not in NUMBER:
        raise given.type_error("keys", "a tile of numbers")
    if keys.shape != values.shape:
        raise given.error(f"`keys` have shape {keys.shape} and `values` {values.shape}", name="values")
    memory, span = given.memory, given.span
    flat = (math.prod(keys.shape),)
    before = [(ref, memory.read(ref, given.where(name))) for name, ref in (("keys", keys), ("values", values))]
    order = memory.op("argsort", _reshaped(given, before[0][1][0], flat, span), span=span)
    for ref, items in before:
        taken = (memory.op("take", _reshaped(given, item, flat, span), order, span=span) for item in items)
        memory.write(ref, [_reshaped(given, item, ref.shape, span) for item in taken], span)
    return ()


# -- Fourier transforms


def _circle(given: Given, scalar: ScalarType, length: int) -> Operand:
    """The cosines and sines of the parts of a turn, rounded from float64."""
    memory, span = given.memory, given.span

    def op(name: str, *args: Operand, type: ScalarType | None = None) -> Operand:
        return memory.op(name, *args, span=span, type=type)

    index = memory.op("iota", attr=Iota((length,), 0), span=span)
    whole = memory.fill_const(length, (length,))
    # Angles from minus half a turn to half a turn: they are the more exact, the smaller they are.
    is_upper = op("gt", index, memory.fill_const(length // 2, (length,)))
    index = op("select", is_upper, op("sub", index, whole), index)
    wide = tile_type(float64, (length,))
    angle = op("mul", op("cast", index, type=wide), Const(wide, 2.0 * math.pi / length))
    rows = [op("cast", op(name, angle), type=tile_type(scalar, (length,))) for name in ("cos", "sin")]
    return op("add", *[
        memory.op("spread", row, attr=Strided((2, length), k * length, (1,)), span=span) for k, row in enumerate(rows)
    ])  # fmt: skip


def _fourier(given: Given, inverse: bool) -> Binding:
    ref, memory, span = given.ref("inout"), given.memory, given.span
    dtype = ref.dtype
    if not isinstance(dtype, CompositeType) or dtype.shape != (2,) or not dtype.dtype.is_float or dtype.dtype.bits < 32:
        raise given.type_error("inout", "a tile of vec2f or vec2d, which stand for complex numbers")
    *leading, length = ref.shape
    try:
        factors(length)
    except Misfit as reason:
        raise given.error(str(reason), "pad with zeros to a length made of 2, 3 and 5", "inout") from None
    rows = math.prod(leading)
    shape = (2, rows, length)
    parts = []
    for k, item in enumerate(memory.read(ref, given.where("inout"))):
        row_by_row = _reshaped(given, item, (rows, length), span)
        parts.append(memory.op("spread", row_by_row, attr=Strided(shape, k * rows * length, (length, 1)), span=span))
    packed = memory.op("add", *parts, span=span)
    circle = _circle(given, dtype.dtype, length)
    made = memory.op("fourier", packed, circle, attr=Fourier(inverse), span=span)
    strides = dense_strides(ref.shape)
    items = [memory.op("view", made, attr=Strided(ref.shape, k * rows * length, strides), span=span) for k in range(2)]
    memory.write(ref, items, span)
    return ()


# -- rows

tile_sort = define(
    "tile_sort(keys: tile[Any], values: tile[Any]) -> None",
    """Sort two tiles of one shape in place, in ascending order of the numbers in `keys`.

    `values`, of any type, are reordered with their keys. Tiles of several dimensions are sorted row by row as one.
    The order is stable: equal keys keep their order. NaN come last.

    Raises:
        KernelTypeError: the shapes differ, or the keys are no numbers.""",
    _sort,
)


def _transforms(name: str, doc: str, inverse: bool) -> None:
    define(
        f"{name}(inout: tile[Any]) -> None",
        f"""{doc}.

    It takes place along the last dimension. The elements, vec2f or vec2d, are complex numbers: real part, imaginary
    part. The length is made of factors 2, 3 and 5; 7, 11 and 13 may be among them.

    Raises:
        KernelTypeError: the elements are others, or the length has another prime factor.""",
        functools.partial(_fourier, inverse=inverse),
    )


_transforms("tile_fft", "The Fourier transform: the sum of x[n] * exp(-2 pi i k n / N)", False)
_transforms("tile_ifft", "The inverse Fourier transform times N: the sum of x[k] * exp(2 pi i k n / N)", True)
