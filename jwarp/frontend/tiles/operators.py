"""Operators between tiles, element by element, and between tiles and numbers, vectors or matrices."""

from __future__ import annotations

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.context import Context
from jwarp.frontend.values.bindings import Binding, Composite, TileRef, describe
from jwarp.ir.nodes import Operand
from jwarp.types import CompositeType, ElementType, ScalarType, StructType, scalar_of

# The operators, by the names of the operations. The first two change a tile in place, as in `a += b`.
SUMS = ("add", "sub")
BITS = ("and", "or", "xor")
SCALED = ("mul", "div")
IN_PLACE = (*SUMS, *BITS)


def adds_up(kind: ScalarType) -> bool:
    """True if a field of structs is summed, as in Warp; other fields keep the first struct's value."""
    return kind.is_float or (kind.is_int and kind.bits >= 32)


def binary(ctx: Context, symbol: str, name: str, x: Binding, y: Binding, span: Span) -> TileRef:
    """`x op y` of which at least one is a tile: a new tile."""
    if name not in (*SUMS, *BITS, *SCALED):
        hint = "wp.tile_matmul(a, b)" if name == "matmul" else "wp.tile_map(f, a, b) applies a function to the elements"
        raise KernelTypeError(f"`{symbol}` does not take tiles: ({describe(x)}, {describe(y)})", span, hint)
    if StructType in {type(side.dtype) for side in (x, y) if isinstance(side, TileRef)} and name not in SUMS:
        raise KernelTypeError(
            f"`{symbol}` does not take tiles of structs", span, "wp.tile_map(f, a, b) applies a function"
        )
    (a, shape), (b, other) = (_side(ctx, side, symbol, span) for side in (x, y))
    if shape is None or other is None:
        if name not in SCALED:
            raise KernelTypeError(
                f"`{symbol}` needs tiles on both sides, not ({describe(x)}, {describe(y)})",
                span,
                "wp.tile_full(shape, value, dtype) makes a tile of one value",
            )
    elif shape != other:
        raise KernelTypeError(f"`{symbol}` needs tiles of one shape, not {shape} and {other}", span)
    if name in SCALED and all(isinstance(side.type, CompositeType) for side in (a, b)):
        raise _two_composites(name, x, y, span)
    return combined(ctx, symbol, name, a, b, shape or other or (), span)


def _two_composites(name: str, x: Binding, y: Binding, span: Span) -> KernelTypeError:
    """The error for a product or quotient of elements neither of which are scalars."""
    kinds = [f"tile<{side.dtype!r}>" if isinstance(side, TileRef) else describe(side) for side in (x, y)]
    wanted = "at least one operand must be a scalar type"
    if isinstance(x, TileRef) and isinstance(y, TileRef):
        wanted = "of one of them the element type must be scalar"
    verb = "multiply" if name == "mul" else "divide"
    hint = "wp.tile_map(f, a, b) applies a function to the elements"
    return KernelTypeError(f"Cannot {verb} {kinds[0]} by {kinds[1]}: {wanted}", span, hint)


def _side(ctx: Context, x: Binding, symbol: str, span: Span) -> tuple[Composite, tuple[int, ...] | None]:
    """One side as its components, and the shape if it is a tile."""
    if isinstance(x, TileRef):
        return _parts(x.dtype, ctx.tiles.read(x, span)), x.shape
    if isinstance(x, Composite):
        return x, None
    scalar = ctx.scalar(x, span, f"operand of `{symbol}`")
    return _parts(scalar.type, (scalar,)), None


def _parts(dtype: ElementType, items: tuple[Operand, ...]) -> Composite:
    return Composite(dtype, items)  # type: ignore[arg-type]  # of one item for a scalar


def combined(
    ctx: Context, symbol: str, name: str, a: Composite, b: Composite, shape: tuple[int, ...], span: Span
) -> TileRef:
    """The tile of `shape` that an operation makes of components, which are tiles or scalars."""
    scalars = [not isinstance(side.type, CompositeType) for side in (a, b)]
    same = a.type is b.type
    if name in SCALED:
        underlying = [side.type.dtype if isinstance(side.type, CompositeType) else side.type for side in (a, b)]
        if not any(scalars) or underlying[0] is not underlying[1]:
            raise _mismatch(symbol, a, b, span)
    elif not same:
        raise _mismatch(symbol, a, b, span)
    dtype = b.type if scalars[0] else a.type
    count = max(len(a.items), len(b.items))
    columns = (side.items * (count // len(side.items)) for side in (a, b))
    items = []
    for x, y in zip(*columns, strict=True):
        filled = [ctx.tiles.fill(operand, shape, span) for operand in (x, y)]
        rides = isinstance(dtype, StructType) and not adds_up(scalar_of(x.type))
        items.append(filled[0] if rides else ctx.emit(name, *filled, span=span))
    return ctx.tiles.made(dtype, shape, items, span)


def _mismatch(symbol: str, a: Composite, b: Composite, span: Span) -> KernelTypeError:
    return KernelTypeError(
        f"`{symbol}` does not take elements of types ({a.type!r}, {b.type!r})",
        span,
        "wp.tile_astype converts a tile; write 2.0 for a float, 2 for an int",
    )


def negated(ctx: Context, x: TileRef, span: Span) -> TileRef:
    """`-x` of a tile: a new tile."""
    is_struct = isinstance(x.dtype, StructType)
    items = [
        item if is_struct and not adds_up(scalar_of(item.type)) else ctx.emit("neg", item, span=span)
        for item in ctx.tiles.read(x, span)
    ]
    return ctx.tiles.made(x.dtype, x.shape, items, span)


def change(ctx: Context, symbol: str, name: str, target: TileRef, y: Binding, span: Span) -> None:
    """`target op= y` in place."""
    if isinstance(target.dtype, StructType) and name in BITS:
        hint = "wp.tile_map(f, a, b) applies a function"
        raise KernelTypeError(f"`{symbol}=`: no bitwise inplace operation takes tiles of a Warp struct", span, hint)
    made = binary(ctx, symbol, name, target, y, span)
    ctx.tiles.write(target, ctx.tiles.read(made, span), span)
