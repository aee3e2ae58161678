"""The functions that apply a function to the elements of tiles, or combine elements: one row each."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins import scalar
from jwarp.frontend.builtins.table import PYTHON_BUILTINS, Builtin
from jwarp.frontend.builtins.tiles.calls import Given, define
from jwarp.frontend.tiles.lift import lift
from jwarp.frontend.tiles.operators import adds_up, binary
from jwarp.frontend.values.bindings import (
    Binding,
    Composite,
    PythonRef,
    StructValue,
    TileRef,
    describe,
    flatten,
    holds_array,
)
from jwarp.ir.attributes import Reduction, Scan, Strided
from jwarp.ir.builder import make_block
from jwarp.ir.nodes import Block, Const, For, Op, Operand, Value, walk
from jwarp.ir.operation import INT, NUMBER
from jwarp.ir.tile_types import dense_strides
from jwarp.types import ScalarType, StructType, TileType, int32, scalar_of, with_shape

# Functions that are operations of their own where they combine elements.
_REDUCTIONS: dict[Any, str] = {
    scalar.add: "add",
    scalar.mul: "mul",
    scalar.min: "min",
    scalar.max: "max",
    scalar.bit_and: "and",
    scalar.bit_or: "or",
    scalar.bit_xor: "xor",
}


# -- functions of elements


def _function(given: Given, name: str) -> PythonRef:
    value = given.values[name]
    if not isinstance(value, PythonRef) or not callable(value.object):
        raise given.type_error(name, "a function: a @wp.func or a builtin")
    return value


def elementwise(
    given: Given, function: PythonRef, args: Sequence[tuple[Any, Sequence[Operand]] | Binding], shape: tuple[int, ...],
    spans: Sequence[Span],
) -> tuple[Any, list[Operand]]:  # fmt: skip
    """The type and the components of what a function gives for each element.

    Of tiles, `args` has the type of the elements and the components, which are tiles of `shape`; () stands for
    scalars. Anything else is the same for all elements.
    """
    e, lanes = given.e, dict[Value, Operand]()
    placeholders: list[Binding] = []
    with e.builder.block() as nodes_inside:
        for arg in args:
            if not isinstance(arg, tuple):
                placeholders.append(arg)
                continue
            dtype, items = arg
            parts = [_element(item) for item in items]
            lanes |= {part: item for part, item in zip(parts, items, strict=True) if isinstance(part, Value)}
            placeholders.append(given.memory.composed(dtype, parts))
        locals = len(e.locals)
        result = e.apply(function, placeholders, list(spans), given.span)
    block = _checked(given, Block(tuple(nodes_inside)))
    if len(e.locals) > locals:
        raise given.error("a function that is applied to elements cannot have arrays of its own")
    scalars = flatten(result, given.span)
    if isinstance(result, (tuple, TileRef)) or holds_array(result) or scalars is None:
        raise given.error(
            f"the function must give one number, vector, matrix or struct, not {describe(result)}", "return one value"
        )
    made = lift(Block(block.nodes, tuple(scalars)), shape, lanes)
    e.builder.extend(made.nodes)
    return _dtype_of(result, scalars), list(made.yields)


def _dtype_of(element: Binding, scalars: Sequence[Operand]) -> Any:
    """The type of an element that is made of these scalars."""
    return element.type if isinstance(element, (Composite, StructValue)) else scalars[0].type


def _element(item: Operand) -> Operand:
    """The operand that stands for one element while a function is read."""
    scalar = scalar_of(item.type)
    return Const(scalar, item.value) if isinstance(item, Const) else Value(scalar)


def _checked(given: Given, block: Block) -> Block:
    for node in walk(block):
        if isinstance(node, Op) and node.row.is_rule:
            raise given.error("a function that is applied to elements cannot have a gradient of its own yet")
        if isinstance(node, Op) and (node.row.is_tile or any(isinstance(a.type, TileType) for a in node.args)):
            raise CompileError(
                f"a function that wp.{given.name} applies to elements cannot use tiles", node.span, "call it itself"
            )
    return block


def _map(given: Given) -> TileRef:
    function = _function(given, "op")
    values = [given.values["a"], *given.values.get("args", ())]
    first = values[0]
    if not isinstance(first, TileRef):
        raise given.type_error("a", "a tile")
    spans = [given.where("a"), *given.spans.get("args", ())]
    args: list[Any] = []
    for value, span in zip(values, spans, strict=True):
        if isinstance(value, TileRef):
            if value.shape != first.shape:
                raise KernelTypeError(
                    f"wp.tile_map: the tiles have shapes {first.shape} and {value.shape}", span, "they must be the same"
                )
            args.append((value.dtype, given.memory.read(value, span)))
        else:
            args.append(value)
    dtype, items = elementwise(given, function, args, first.shape, spans)
    return given.memory.made(dtype, first.shape, items, given.span)


# -- reductions


def _kinds(given: Given, name: str, items: Sequence[Operand], operation: str) -> None:
    allowed = INT | {"bool"} if operation in ("and", "or", "xor") else NUMBER
    if scalar_of(items[0].type).kind not in allowed:
        raise given.type_error(
            name, "a tile of integers" if "int" in allowed and "float" not in allowed else "a tile of numbers"
        )


def _reduced(given: Given, items: Sequence[Operand], operation: str, axis: int | None) -> list[Operand]:
    """Each component combined over an axis, or over all; a scalar becomes a tile of one element."""
    _kinds(given, "a", items, operation)
    memory, made = given.memory, []
    for item in items:
        dims = len(item.type.shape)  # type: ignore[attr-defined]
        axes = tuple(range(dims)) if axis is None else (axis,)
        result = memory.op("reduce", item, attr=Reduction(operation, axes), span=given.span)
        made.append(memory.fill(result, (1,), given.span) if len(axes) == dims else result)
    return made


def _kept(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """The shape of what a reduction gives."""
    return () if axis is None else tuple(n for k, n in enumerate(shape) if k != axis)


def _axis(given: Given, shape: tuple[int, ...]) -> int | None:
    return given.axis("axis", len(shape)) if "axis" in given else None


def _sum(given: Given) -> TileRef:
    kind, items = given.tile("a")
    assert kind.shape is not None and kind.dtype is not None
    axis = _axis(given, kind.shape)
    if isinstance(kind.dtype, StructType):
        made = [_field_sum(given, item, axis) for item in items]
    else:
        made = _reduced(given, items, "add", axis)
    return given.memory.made(kind.dtype, _kept(kind.shape, axis) or (1,), made, given.span)


def _field_sum(given: Given, item: Operand, axis: int | None) -> Operand:
    """The sum of a field; of one that does not add up, the first element."""
    if adds_up(scalar_of(item.type)):
        return _reduced(given, (item,), "add", axis)[0]
    shape = item.type.shape  # type: ignore[attr-defined]
    kept = _kept(shape, axis) or (1,)
    strides = tuple(s for k, s in enumerate(dense_strides(shape)) if k != axis) if axis is not None else (1,)
    return given.memory.op("view", item, attr=Strided(kept, 0, strides[: len(kept)] or (1,)), span=given.span)


def _extreme(given: Given, operation: str) -> TileRef:
    kind, item = given.scalar_tile("a")
    return given.memory.made(kind.scalar, (1,), _reduced(given, (item,), operation, None), given.span)


def _arg(given: Given, operation: str) -> TileRef:
    _, item = given.scalar_tile("a")
    _kinds(given, "a", (item,), operation)
    found = given.memory.op("arg", item, attr=operation, span=given.span)
    return given.memory.made(int32, (1,), (given.memory.fill(found, (1,), given.span),), given.span)


def _reduce(given: Given) -> TileRef:
    function = _function(given, "op")
    kind, items = given.tile("a")
    assert kind.shape is not None and kind.dtype is not None
    axis = _axis(given, kind.shape)
    operation = _REDUCTIONS.get(PYTHON_BUILTINS.get(function.object, function.object))
    # A product of floats is one multiplication after the other: its derivative is right where elements are zero, too.
    folded = operation == "mul" and (not isinstance(kind.dtype, ScalarType) or items[0].type.is_float)
    if operation is not None and not folded and not isinstance(kind.dtype, StructType):
        made = _reduced(given, items, operation, axis)
    else:
        made = _folded(given, function, kind.dtype, items, axis)
    return given.memory.made(kind.dtype, _kept(kind.shape, axis) or (1,), made, given.span)


def _folded(given: Given, function: PythonRef, dtype: Any, items: Sequence[Operand], axis: int | None) -> list[Operand]:
    """The elements combined by a function, one after the other along an axis, or all of them."""
    memory, e, span = given.memory, given.e, given.span
    shape = items[0].type.shape  # type: ignore[attr-defined]
    if axis is None and len(shape) > 1:
        size = items[0].type.size  # type: ignore[attr-defined]
        items = [memory.op("view", item, attr=Strided((size,), 0, (1,)), span=span) for item in items]
        shape = (size,)
    axis = axis or 0
    rest = _kept(shape, axis)

    def at(number: Operand) -> list[Operand]:
        places = [memory.iota(rest, k, span) for k in range(len(rest))]
        places.insert(axis, memory.fill(number, rest, span) if rest else number)
        return [memory.op("take", item, *places, span=span) for item in items]

    start = at(Const(int32, 0))
    index, params = Value(int32), [Value(with_shape(scalar_of(item.type), rest)) for item in items]
    with e.builder.block() as nodes:
        sides = ((dtype, params), (dtype, at(index)))
        found, following = _combined(given, function, sides, rest)
        if found is not dtype:
            raise given.error(f"the function must give {dtype!r} for two of such, not {found!r}", name="op")
    results = tuple(Value(p.type) for p in params)
    block = make_block(nodes, following)
    e.builder.append(
        For(index, Const(int32, 1), Const(int32, shape[axis]), 1, tuple(params), tuple(start), block, results, span)
    )
    return list(results) if rest else [memory.fill(r, (1,), span) for r in results]


def _combined(
    given: Given, function: PythonRef, sides: Sequence[tuple[Any, Sequence[Operand]]], shape: tuple[int, ...]
) -> tuple[Any, list[Operand]]:
    """The result of a function for two elements, or for each pair of elements of tiles of `shape`."""
    spans = [given.span] * len(sides)
    if shape:
        return elementwise(given, function, sides, shape, spans)
    args = [given.memory.composed(dtype, items) for dtype, items in sides]
    result = given.e.apply(function, args, spans, given.span)
    scalars = flatten(result, given.span)
    if isinstance(result, (tuple, TileRef)) or holds_array(result) or scalars is None:
        raise given.error(f"the function must give one value, not {describe(result)}", name="op")
    return _dtype_of(result, scalars), scalars


# -- running results, products


def _scan(given: Given, operation: str, exclusive: bool) -> TileRef:
    kind, item = given.scalar_tile("a")
    _kinds(given, "a", (item,), operation)
    assert kind.shape is not None
    made = given.memory.op("scan", item, attr=Scan(operation, False, exclusive), span=given.span)
    return given.memory.made(kind.scalar, kind.shape, (made,), given.span)


def _dot(given: Given) -> TileRef:
    a, b = given.tile("a"), given.tile("b")
    if a[0] != b[0]:
        raise given.error(f"the tiles must have one type and shape, not {a[0]} and {b[0]}")
    if isinstance(a[0].dtype, StructType):
        raise given.type_error("a", "a tile of numbers, vectors or matrices")
    memory, span = given.memory, given.span
    products = (given.e.emit("mul", x, y, span=span) for x, y in zip(a[1], b[1], strict=True))
    total = functools.reduce(lambda x, y: given.e.emit("add", x, y, span=span), products)
    return memory.made(a[0].scalar, (1,), _reduced(given, (total,), "add", None), span)


def _axpy(given: Given) -> Binding:
    """dest += alpha * src."""
    target, source, span = given.ref("dest"), given.ref("src"), given.span
    if target.type != source.type:
        raise given.error(f"the tiles must have one type and shape, not {source.type} and {target.type}")
    alpha = given.e.scalar(given.values["alpha"], given.where("alpha"), "`alpha`")
    product = binary(given.e, "*", "mul", source, alpha, span)
    if target.view.repeats:  # what it shows more than once gets all that is added there
        given.memory.write(target, given.memory.read(product, span), span, "put_add")
        return ()
    total = binary(given.e, "+", "add", target, product, span)
    given.memory.write(target, given.memory.read(total, span), span)
    return ()


# -- rows

tile_map = define(
    """
    tile_map(op: Callable[[T], Result], a: tile[T]) -> tile[Result]
    tile_map(op: Callable[..., Any], a: tile[Any], *args: Any) -> tile[Any]""",
    """A new tile: a function, a `@wp.func` or a builtin, applied to each element of `a`.

    Its further arguments are elements of tiles of the same shape, or values that are the same for all.

    Raises:
        KernelTypeError: the shapes differ, or the function gives no number, vector or matrix.""",
    _map,
)
tile_sum = define(
    "tile_sum(a: tile[T], axis: int | None = None) -> tile[T]",
    "The sum of the elements along an axis, which is left out of the shape; or of all, a tile of one element.",
    _sum,
)
tile_min = define(
    "tile_min(a: tile[T]) -> tile[T]",
    "The smallest element of a tile of numbers, as a tile of one element.",
    functools.partial(_extreme, operation="min"),
)
tile_max = define(
    "tile_max(a: tile[T]) -> tile[T]",
    "The largest element of a tile of numbers, as a tile of one element.",
    functools.partial(_extreme, operation="max"),
)
tile_argmin = define(
    "tile_argmin(a: tile[Any]) -> tile[int]",
    "The index of the first smallest element, counted row by row, as a tile of one int32.",
    functools.partial(_arg, operation="min"),
)
tile_argmax = define(
    "tile_argmax(a: tile[Any]) -> tile[int]",
    "The index of the first largest element, counted row by row, as a tile of one int32.",
    functools.partial(_arg, operation="max"),
)
tile_reduce = define(
    "tile_reduce(op: Callable[[T, T], T], a: tile[T], axis: int | None = None) -> tile[T]",
    """The elements combined by a function of two along an axis, which is left out of the shape; or all.

    Sums, extrema and the like by a builtin are taken in any order, other functions from the first element on.""",
    _reduce,
)


def _scans(name: str, operation: str, exclusive: bool, doc: str) -> Builtin:
    forms = f"tile_scan_{name}(a: tile[T]) -> tile[T]"
    return define(forms, doc, functools.partial(_scan, operation=operation, exclusive=exclusive))


tile_scan_inclusive = _scans("inclusive", "add", False, "A new tile with the inclusive cumulative sums, row by row.")
tile_scan_exclusive = _scans(
    "exclusive", "add", True, "A new tile with the exclusive cumulative sums, row by row; the first is 0."
)
tile_scan_max_inclusive = _scans(
    "max_inclusive", "max", False, "A new tile with the inclusive cumulative maxima, row by row."
)
tile_scan_min_inclusive = _scans(
    "min_inclusive", "min", False, "A new tile with the inclusive cumulative minima, row by row."
)
tile_dot = define(
    "tile_dot(a: tile[Any], b: tile[Any]) -> tile[Any]",
    "The sum of the products of elements and their components, of two tiles of one type and shape: one element.",
    _dot,
)
tile_axpy = define(
    "tile_axpy(alpha: Any, src: tile[T], dest: tile[T]) -> None",
    "dest += alpha * src, for two tiles of one type and shape.",
    _axpy,
)
