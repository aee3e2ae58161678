"""The table of operations: every later stage is a table with one row per row of this one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jwarp.types import ScalarType, ValueType, bool_, int32, int64, scalar_of, shape_of, with_shape

Kinds = frozenset[str]
FLOAT: Kinds = frozenset({"float"})
INT: Kinds = frozenset({"int", "uint"})
NUMBER: Kinds = FLOAT | INT
BOOL: Kinds = frozenset({"bool"})
BITS: Kinds = INT | BOOL
ANY: Kinds = NUMBER | BOOL

Args = tuple[ScalarType, ...]
Types = tuple[ValueType, ...]


def _same(args: Args) -> ScalarType | None:
    """The one type that all arguments have, or None."""
    return args[0] if all(a is args[0] for a in args) else None


def _to_bool(args: Args) -> ScalarType | None:
    return bool_ if _same(args) else None


def _select(args: Args) -> ScalarType | None:
    return args[1] if args[0] is bool_ and args[1] is args[2] else None


def mapped_shape(name: str, types: Types) -> tuple[int, ...] | None:
    """The shape that operation `name` works on element by element, () for scalars; None where types do not fit."""
    if name in ("push", "rule"):
        return ()  # they only collect values
    # One condition may choose between two tiles.
    first = 1 if name == "select" and types and not shape_of(types[0]) else 0
    shapes = {shape_of(t) for t in types[first:]}
    return shapes.pop() if len(shapes) == 1 else None if shapes else ()


@dataclass(frozen=True)
class Operation:
    """One operation: `result` maps argument types to the result type (None: they do not fit).

    `kinds` are the scalar kinds that arguments may have. `effect` is `pure`, `tile` (pure, too, but not element by
    element), `read` (memory), `look` (at
    what changes while the kernel runs: it stays where it is), `write` (memory), `check`, `print` or `rule`. An
    operation of `result` None either has no result, or takes it from outside (`cast`, `load`, …), which
    `typed_by` then says.
    """

    name: str
    arity: int | None
    kinds: Kinds
    result: Callable[[Args], ScalarType | None] | None
    doc: str
    effect: str = "pure"
    typed_by: str = ""

    def __post_init__(self) -> None:
        if self.result is not None:
            object.__setattr__(self, "result", _mapped(self.name, self.result))


def _mapped(name: str, result: Callable[[Args], ScalarType | None]) -> Callable[[Types], ValueType | None]:
    """The type rule of an operation on scalars, for tiles too."""

    def of_types(types: Types) -> ValueType | None:
        shape = mapped_shape(name, types)
        scalar = result(tuple(map(scalar_of, types))) if shape is not None else None
        return with_shape(scalar, shape) if scalar is not None and shape else scalar

    return of_types


def _rows(arity: int, kinds: Kinds, result: Any, **docs: str) -> list[Operation]:
    return [Operation(name.rstrip("_"), arity, kinds, result, doc) for name, doc in docs.items()]


_TABLE: list[Operation] = [
    *_rows(
        2,
        NUMBER,
        _same,
        add="x + y; integers wrap",
        sub="x - y; integers wrap",
        mul="x * y; integers wrap",
        div="x / y; integers truncate towards zero, x / 0 is -1 (all bits set)",
        floordiv="x // y: the quotient rounded down; as div where y is 0",
        mod="remainder with the sign of x (C's % and fmod); x % 0 is x for integers",
        min="smaller of x and y, -0 below 0; NaN if either is",
        max="larger of x and y, 0 above -0; NaN if either is",
    ),
    *_rows(
        2,
        FLOAT,
        _same,
        pow="x to the power y",
        atan2="angle of (y, x) in radians: args are y, x",
        copysign="|x| with the sign of y",
    ),
    *_rows(2, FLOAT, _same, follow="x, with the derivative of y"),
    *_rows(3, FLOAT, _same, fma="x * y + z, rounded once where the target has the instruction"),
    *_rows(1, NUMBER, _same, neg="-x", abs="|x|"),
    *_rows(
        1,
        FLOAT,
        _same,
        sqrt="square root",
        sin="sine of x radians",
        cos="cosine of x radians",
        tan="tangent of x radians",
        asin="angle whose sine is x, -pi/2 to pi/2; x is clamped to [-1, 1]",
        acos="angle whose cosine is x, 0 to pi; x is clamped to [-1, 1]",
        atan="angle whose tangent is x, -pi/2 to pi/2",
        exp="e to the power x",
        log="natural logarithm",
        log2="logarithm of base 2",
        log10="logarithm of base 10",
        sinh="hyperbolic sine",
        cosh="hyperbolic cosine",
        tanh="hyperbolic tangent",
        cbrt="cube root, negative for negative x",
        erf="error function",
        erfc="1 - erf(x), without its cancellation",
        erfinv="inverse of erf: infinite at -1 and 1, NaN outside",
        erfcinv="inverse of erfc: infinite at 0 and 2, NaN outside",
        floor="largest integer not above x",
        ceil="smallest integer not below x",
        trunc="x without its fraction",
        round="nearest integer, halves away from zero",
        rint="nearest integer, halves to even",
    ),
    *_rows(2, BITS, _same, and_="bitwise and", or_="bitwise or", xor="bitwise exclusive or"),
    *_rows(1, BITS, _same, not_="bitwise complement"),
    *_rows(1, INT, lambda _: int32, bit_count="how many bits are set, as int32"),
    *_rows(
        2,
        INT,
        _same,
        shl="x << y; 0 where y is not below the bit width",
        shr="x >> y, arithmetic for signed x; all sign bits where y is not below the bit width",
    ),
    *_rows(2, NUMBER, _to_bool, lt="x < y", le="x <= y", gt="x > y", ge="x >= y"),
    *_rows(2, ANY, _to_bool, eq="x == y", ne="x != y"),
    Operation("select", 3, ANY, _select, "args (condition, x, y): x where the condition holds, else y"),
    Operation(
        "cast",
        1,
        ANY,
        None,
        "conversion: floats to integers truncate and saturate, NaN gives 0; integers wrap; to bool: x != 0",
        typed_by="target",
    ),
    Operation("bitcast", 1, NUMBER, None, "the same bits as another type of that width", typed_by="target"),
    Operation("tid", 0, ANY, lambda _: int32, "coordinate of this thread along launch axis `attr`"),
    Operation("param", 0, ANY, None, "value of scalar parameter `attr`", typed_by="param"),
    Operation("shape", 0, ANY, lambda _: int32, "extent of array parameter attr[0] along axis attr[1]"),
    Operation(
        "load",
        None,
        INT,
        None,
        "element of array `attr` at the indices `args`; a negative index counts from the end,"
        " outside the array the value is 0",
        effect="read",
        typed_by="array",
    ),
    Operation(
        "store",
        None,
        ANY,
        None,
        "args (indices…, value): write an element of array `attr`; outside the array, nothing",
        effect="write",
    ),
    Operation("clear", 0, ANY, None, "set every element of local array `attr` to zero", effect="write"),
    *(
        Operation(
            f"atomic_{name}",
            None,
            kinds,
            None,
            f"args (indices…, {values}): {doc} an element of array `attr` as one indivisible step;"
            " the result, if there is one, is what the element held before, 0 outside the array",
            effect="write",
            typed_by="array",
        )
        for name, kinds, values, doc in (
            ("add", NUMBER, "value", "add to"),
            ("min", NUMBER, "value", "store the smaller of the value and"),
            ("max", NUMBER, "value", "store the larger of the value and"),
            ("and", INT, "value", "combine by bitwise and with"),
            ("or", INT, "value", "combine by bitwise or with"),
            ("xor", INT, "value", "combine by bitwise exclusive or with"),
            ("exch", NUMBER, "value", "store to"),
            ("cas", NUMBER, "expected, value", "store, where it equals the expected value bit by bit, to"),
        )
    ),
    Operation(
        "inside",
        None,
        INT,
        lambda _: bool_,
        "whether the indices `args` are those of an element of array parameter `attr`",
        effect="read",
    ),
    Operation(
        "thread",
        0,
        ANY,
        lambda _: int64,
        "number of this thread among all of its batch element, from 0; repeated threads differ in it",
    ),
    Operation(
        "check",
        1,
        BOOL,
        None,
        "end the launch with an error unless the condition holds; `attr` says where and why not",
        effect="check",
    ),
    Operation("print", None, ANY, None, "write a line: `attr` is the format text for `args`", effect="print"),
    Operation(
        "push",
        None,
        ANY,
        None,
        "add a record of the values `args` to the thread's tape; `attr` is the number of the tape",
        effect="write",
    ),
    Operation(
        "top",
        0,
        ANY,
        None,
        "field attr[1] of the record that was last added to tape attr[0] and not taken away",
        effect="look",
        typed_by="tape",
    ),
    Operation("pop", 0, ANY, None, "take away the last record of tape `attr`", effect="write"),
    Operation("mark", 0, ANY, lambda _: int64, "how many records the log of array `attr` has", effect="look"),
    Operation(
        "save",
        None,
        INT,
        None,
        "add a record of the indices `args` and of the element of array `attr` there to the array's log",
        effect="write",
    ),
    Operation(
        "undo",
        None,
        INT,
        None,
        "take the last record of the log of array `attr` and restore it; with an argument, as many as it has elements",
        effect="write",
    ),
    Operation("rollback", 1, INT, None, "undo the log of array `attr` until it has `args` records", effect="write"),
    Operation(
        "rule",
        None,
        ANY,
        None,
        "the `detach`ed values after it have the derivative that gradient attr[0] of the kernel is, of `args`;"
        " attr[1:] are the arrays that were written on the way to them",
        effect="rule",
    ),
    Operation(
        "detach",
        None,
        FLOAT,
        lambda args: args[0],
        "the value args[0]. Its derivative is zero by that, and as the `rule` before says by args[1:] and the arrays"
        " attr[2:], of which it is result attr[1] of rule attr[0]; attr is None where there is no rule",
        effect="look",
    ),
    Operation(
        "lane_max",
        1,
        INT,
        _same,
        "at least x, and the same for all threads that run in step",
        effect="look",
    ),
]

_TABLE += [
    Operation(name, arity, kinds, None, doc, effect="tile", typed_by="attr")
    for name, arity, kinds, doc in (
        ("fill", 1, ANY, "a tile of shape `attr`, all of whose elements are x"),
        ("iota", 0, ANY, "int32 tile of shape attr[0]: the index of each element along axis attr[1]"),
        (
            "view",
            1,
            ANY,
            "`attr` is (shape, offset, strides): element (i, j…) of the result, which has that shape, is element"
            " offset + i * strides[0] + j * strides[1]… of the flattened tile",
        ),
        (
            "spread",
            1,
            NUMBER,
            "the transpose of `view` with the attr (…, offset, strides): a tile of shape attr[0], zero but for the"
            " elements that such a view would take, to which those of the argument are added",
        ),
        (
            "take",
            None,
            ANY,
            "args (tile, indices…): the element there; for indices that are tiles, a tile of elements. Negative"
            " indices count from the end; outside the tile, zero",
        ),
        ("put", None, ANY, "args (tile, indices…, value): the tile with another element, or other elements, there"),
        ("put_add", None, NUMBER, "args (tile, indices…, value): the tile with value added to the element(s) there"),
        ("reduce", 1, ANY, "`attr` is (operation, axes): the elements along the axes combined; all of them: a scalar"),
        (
            "arg",
            1,
            NUMBER,
            "number of the first element that is the `attr`, min or max, of the flattened tile; of NaNs, the first",
        ),
        (
            "scan",
            1,
            NUMBER,
            "`attr` is (operation, reverse, exclusive): each element combined with those before it in the flattened"
            " tile (after it, if reverse); exclusive leaves out the element itself",
        ),
        (
            "matmul",
            3,
            NUMBER,
            "args (a, b, c): a @ b + c, a or b transposed before as `attr` says. Sums of floats of 16 bits are made in"
            " float32 and rounded once",
        ),
        ("cholesky", 1, FLOAT, "the lower triangular L of L @ L.T == x; reads the lower triangle of x"),
        (
            "tri_solve",
            2,
            FLOAT,
            "args (t, b): x of t @ x == b for a triangular t; `attr` is (lower, transposed): which triangle is read,"
            " and whether t.T stands in the equation",
        ),
    )
]
# What tiles become: operations on the memory of a block.
_TABLE += [
    Operation(
        "tile_matmul",
        0,
        ANY,
        None,
        "`attr` is (c, a, b, m, n, k, accumulate, transpose_a, transpose_b): the shared array c becomes the m x n"
        " product of a and b, or that is added to it; they hold the rows of matrices one after the other",
        effect="write",
    ),
    Operation(
        "tile_scan",
        0,
        ANY,
        None,
        "`attr` is (target, source, size, kind, reverse, exclusive): the shared array `target` becomes what `scan`"
        " gives",
        effect="write",
    ),
    Operation(
        "tile_cholesky",
        0,
        ANY,
        None,
        "`attr` is (target, source, n): the shared array `target` becomes what `cholesky` gives for an n x n matrix",
        effect="write",
    ),
    Operation(
        "tile_solve",
        0,
        ANY,
        None,
        "`attr` is (target, triangle, n, m, lower, transposed): the shared array `target`, n x m numbers, becomes what"
        " `tri_solve` gives for it",
        effect="write",
    ),
]

OPS: dict[str, Operation] = {row.name: row for row in _TABLE}
assert len(OPS) == len(_TABLE), "two operations have the same name"

# The operations that combine elements, and those that a running result can be made by.
COMBINERS = ("add", "mul", "min", "max", "and", "or", "xor")
SCANS = ("add", "min", "max")

# Effects that keep an operation where nothing reads its result.
LASTING_EFFECTS = frozenset({"write", "check", "print", "rule"})

# Operations that take tens of instructions for each value.
ELEMENTARY = frozenset({"pow", "atan2", "sin", "cos", "tan", "asin", "acos", "atan"})
ELEMENTARY |= {"exp", "log", "log2", "log10", "sinh", "cosh", "tanh", "cbrt", "erf", "erfc", "erfinv", "erfcinv"}
