"""Writes the operations on whole tiles: as loops, or as calls where a backend has routines for them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from jwarp.ir.attributes import Attribute, BlockCholesky, BlockMatmul, BlockScan, BlockSolve, Scan, Transposes, Triangle
from jwarp.ir.builder import zero
from jwarp.ir.evaluate import scan_start
from jwarp.ir.matmul import Request
from jwarp.ir.nodes import Const, Kernel, Op, Operand, Value
from jwarp.tiling.elements import Elements
from jwarp.tiling.factors import factor_by_rows, solve_by_rows
from jwarp.tiling.fourier import transform
from jwarp.tiling.parts import Whole
from jwarp.tiling.sorting import sort_numbers
from jwarp.tiling.writer import Writer
from jwarp.types import TileType, int32


def is_whole(node: Op) -> bool:
    """True if an operation works on whole tiles."""
    return node.name in WHOLE or node.row.attribute is Transposes


def write_whole(elements: Elements, routines: Container[str], part: Whole, alone: bool = False) -> None:
    """Write one operation, on tiles in memory; `routines` are those that the backend has.

    Where a block runs `alone` in its lane, no loop is for vectors of elements.
    """
    if part.node.row.attribute is Transposes:
        m, n = _shape(part.target)
        k = _tile(part.reads[0]).size // m
        c, a, b = (elements.array(x) for x in (part.target, *part.reads))
        matmul = BlockMatmul(c, a, b, m, n, k, part.accumulate, part.node.attr_as(Transposes))
        elements.builder.effect("tile_matmul", attr=matmul)
        return
    row = WHOLE[part.node.name]
    if alone and row.alone is not None:
        row.alone(elements, part)
    elif row.attribute is not None and row.routine in routines:
        attribute = row.attribute(part, *(elements.array(x) for x in (part.target, *part.reads)))
        elements.builder.effect(row.routine, attr=attribute)
    else:
        row.loops(elements, part)


def _scan_attr(part: Whole, target: int, source: int) -> BlockScan:
    return BlockScan(target, source, _tile(part.target).size, part.node.attr_as(Scan))


def _cholesky_attr(part: Whole, target: int, source: int) -> BlockCholesky:
    return BlockCholesky(target, source, _shape(part.target)[0])


def _solve_attr(part: Whole, target: int, triangle: int) -> BlockSolve:
    n, m = (*_shape(part.target), 1)[:2]
    return BlockSolve(target, triangle, n, m, part.node.attr_as(Triangle))


def _tile(value: Value) -> TileType:
    assert isinstance(value.type, TileType)
    return value.type


def _shape(value: Value) -> tuple[int, ...]:
    return _tile(value).shape


def _scan(elements: Elements, part: Whole) -> None:
    w, (source,), target = Writer(elements), part.reads, part.target
    scan = part.node.attr_as(Scan)
    kind = scan.operation
    type, size = _tile(target).scalar, _tile(target).size
    start = scan_start(kind, type)

    def body(i: Value, carried: Sequence[Value]) -> list[Operand]:
        (total,) = carried
        following = w.do(kind, total, elements.load(source, i))
        elements.store(target, i, total if scan.exclusive else following)
        return [following]

    ends = (size - 1, -1, -1) if scan.reverse else (0, size, 1)
    w.loop(ends[0], ends[1], body, [start], ends[2])


def _dot(w: Writer, first: Operand, second: Operand, lo: Operand | int, hi: Operand | int, x: Value, y: Value,
         stride: int = 1) -> Value:  # fmt: skip
    """The sum of x[first + k * stride] * y[second + k] for k from lo to hi."""
    load, type = w.elements.load, _tile(x).scalar

    def body(k: Value, carried: Sequence[Value]) -> list[Operand]:
        left = w.do("add", first, w.do("mul", k, Const(int32, stride)))
        product = w.do("mul", load(x, left), load(y, w.do("add", second, k)))
        return [w.do("add", carried[0], product)]

    (total,) = w.loop(lo, hi, body, [zero(type)], lanes=("add",))
    return total


def _cholesky(elements: Elements, part: Whole) -> None:
    """Column after column, each element from the product of two rows of what is known."""
    w, (source,), target = Writer(elements), part.reads, part.target
    (n, _), type = _shape(target), _tile(target).scalar

    def clear(i: Value, carried: Sequence[Value]) -> list[Operand]:
        elements.store(target, i, zero(type))
        return []

    w.loop(0, n * n, clear, lanes=())

    def column(j: Value, carried: Sequence[Value]) -> list[Operand]:
        row = w.at(j, 0, n)
        diagonal = w.at(j, j, n)
        rest = w.do("sub", elements.load(source, diagonal), _dot(w, row, row, 0, j, target, target))
        root = w.do("sqrt", rest)
        elements.store(target, diagonal, root)

        def below(i: Value, carried: Sequence[Value]) -> list[Operand]:
            known = _dot(w, w.at(i, 0, n), row, 0, j, target, target)
            rest = w.do("sub", elements.load(source, w.at(i, j, n)), known)
            elements.store(target, w.at(i, j, n), w.do("div", rest, root))
            return []

        w.loop(w.do("add", j, Const(int32, 1)), n, below)
        return []

    w.loop(0, n, column)


def _solve(elements: Elements, part: Whole) -> None:
    """Row after row, in place of the right-hand side, which the target holds."""
    w, (triangle,), target = Writer(elements), part.reads, part.target
    lower, transposed = part.node.attr_as(Triangle).lower, part.node.attr_as(Triangle).transposed
    forward = lower != transposed
    n, *rest = _shape(target)
    m = rest[0] if rest else 1
    rows = (0, n, 1) if forward else (n - 1, -1, -1)

    def known(i: Operand) -> tuple[Operand | int, Operand | int]:
        """The rows that are known when row i is solved."""
        return (0, i) if forward else (w.do("add", i, Const(int32, 1)), n)

    def entry(i: Operand, k: Operand) -> Value:
        return elements.load(triangle, w.at(k, i, n) if transposed else w.at(i, k, n))

    def one(i: Value, carried: Sequence[Value]) -> list[Operand]:
        first, stride = (w.at(0, i, n), n) if transposed else (w.at(i, 0, n), 1)
        total = _dot(w, first, Const(int32, 0), *known(i), triangle, target, stride)
        elements.store(target, i, w.do("div", w.do("sub", elements.load(target, i), total), entry(i, i)))
        return []

    def columns(j: Value, carried: Sequence[Value]) -> list[Operand]:
        def row(i: Value, carried: Sequence[Value]) -> list[Operand]:
            def minus(k: Value, carried: Sequence[Value]) -> list[Operand]:
                product = w.do("mul", entry(i, k), elements.load(target, w.at(k, j, m)))
                return [w.do("sub", carried[0], product)]

            (left,) = w.loop(*known(i), minus, [elements.load(target, w.at(i, j, m))])
            elements.store(target, w.at(i, j, m), w.do("div", left, entry(i, i)))
            return []

        w.loop(rows[0], rows[1], row, step=rows[2])
        return []

    if m == 1:
        w.loop(rows[0], rows[1], one, step=rows[2])
    else:
        w.loop(0, m, columns, lanes=())


@dataclass(frozen=True)
class WholeOperation:
    """How an operation on whole tiles is written: by `loops`, or as a `routine` where the backend has that.

    `attribute` makes the attribute of a routine from the operation and the arrays of its result and operands.
    The result takes the place of operand number `replaced`, if there is one. `alone` writes loops without lanes, where
    the operation waits for itself in others.
    """

    loops: Callable[[Elements, Whole], None]
    routine: str = ""
    attribute: Callable[..., Attribute] | None = None
    replaced: int | None = None
    alone: Callable[[Elements, Whole], None] | None = None


# All of them but products of matrices, for which every backend has a routine.
WHOLE = {
    "scan": WholeOperation(_scan, "tile_scan", _scan_attr),
    "cholesky": WholeOperation(_cholesky, "tile_cholesky", _cholesky_attr, alone=factor_by_rows),
    "tri_solve": WholeOperation(_solve, "tile_solve", _solve_attr, replaced=1, alone=solve_by_rows),
    "argsort": WholeOperation(sort_numbers),
    "fourier": WholeOperation(transform),
}


def request_of(kernel: Kernel, node: Op) -> Request:
    """The product that an operation `tile_matmul` asks for."""
    attribute = node.attr_as(BlockMatmul)
    x, y, z = (kernel.array(number).dtype for number in (attribute.a, attribute.b, attribute.c))
    flags = attribute.transposes
    return Request(x, y, z, attribute.m, attribute.n, attribute.k, flags.a, flags.b, attribute.accumulate)
