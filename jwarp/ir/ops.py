"""The table of operations: every later stage is a table with one row per row of this one."""

from __future__ import annotations

from typing import Any

from jwarp.ir.attributes import ArrayNumber, Axis, FormatText, ParamNumber, TapeNumber, Text
from jwarp.ir.operation import (
    ANY,
    BITS,
    BOOL,
    FLOAT,
    FROM_DERIVATIVES,
    INT,
    NUMBER,
    Kinds,
    Memory,
    Operation,
    same,
    selected,
    to_bool,
)
from jwarp.ir.tile_ops import TILE_TABLE
from jwarp.types import bool_, int32, int64

# Of an access: all operands are indices, or all but the values.
_ALL, _BUT_ONE, _BUT_TWO = slice(None), slice(-1), slice(-2)


def _rows(arity: int, kinds: Kinds, result: Any, *, elementary: bool = False, makes_nan: bool = True,
          **docs: str) -> list[Operation]:  # fmt: skip
    return [
        Operation(name.rstrip("_"), arity, kinds, result, doc, is_elementary=elementary, makes_nan=makes_nan)
        for name, doc in docs.items()
    ]


_TABLE: list[Operation] = [
    *_rows(
        2,
        NUMBER,
        same,
        add="x + y; integers wrap",
        sub="x - y; integers wrap",
        mul="x * y; integers wrap",
        div="x / y; integers truncate towards zero, x / 0 is -1 (all bits set)",
        floordiv="x // y: the quotient rounded down; as div where y is 0",
        mod="remainder with the sign of x (C's % and fmod); x % 0 is x for integers",
    ),
    *_rows(
        2,
        NUMBER,
        same,
        makes_nan=False,
        min="smaller of x and y, -0 below 0; NaN if either is",
        max="larger of x and y, 0 above -0; NaN if either is",
    ),
    *_rows(
        2,
        FLOAT,
        same,
        elementary=True,
        pow="x to the power y",
        atan2="angle of (y, x) in radians: args are y, x",
    ),
    *_rows(2, FLOAT, same, makes_nan=False, copysign="|x| with the sign of y"),
    *_rows(2, FLOAT, same, follow="x, with the derivative of y"),
    *_rows(3, FLOAT, same, fma="x * y + z, rounded once where the target has the instruction"),
    *_rows(1, NUMBER, same, makes_nan=False, neg="-x", abs="|x|"),
    *_rows(
        1,
        FLOAT,
        same,
        elementary=True,
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
    ),
    *_rows(
        1,
        FLOAT,
        same,
        sqrt="square root",
        floor="largest integer not above x",
        ceil="smallest integer not below x",
        trunc="x without its fraction",
        round="nearest integer, halves away from zero",
        rint="nearest integer, halves to even",
    ),
    *_rows(2, BITS, same, and_="bitwise and", or_="bitwise or", xor="bitwise exclusive or"),
    *_rows(1, BITS, same, not_="bitwise complement"),
    *_rows(1, INT, lambda _: int32, bit_count="how many bits are set, as int32"),
    *_rows(
        2,
        INT,
        same,
        shl="x << y; 0 where y is not below the bit width",
        shr="x >> y, arithmetic for signed x; all sign bits where y is not below the bit width",
    ),
    *_rows(2, NUMBER, to_bool, lt="x < y", le="x <= y", gt="x > y", ge="x >= y"),
    *_rows(2, ANY, to_bool, eq="x == y", ne="x != y"),
    Operation("select", 3, ANY, selected, "args (condition, x, y): x where the condition holds, else y"),
    Operation(
        "cast",
        1,
        ANY,
        None,
        "conversion: floats to integers truncate and saturate, NaN gives 0; integers wrap; to bool: x != 0",
        typed_by="target",
        makes_nan=False,
    ),
    Operation(
        "bitcast", 1, NUMBER, None, "the same bits as another type of that width", typed_by="target", makes_nan=False
    ),
    Operation("tid", 0, ANY, lambda _: int32, "coordinate of this thread along the launch axis", attribute=Axis),
    Operation(
        "param",
        0,
        ANY,
        None,
        "value of the scalar parameter",
        typed_by="param",
        attribute=ParamNumber,
        makes_nan=False,
    ),
    Operation(
        "shape",
        0,
        ANY,
        lambda _: int32,
        "extent of the array parameter attr[0] along axis attr[1]",
        reads=Memory.EXTENTS,
    ),
    Operation(
        "load",
        None,
        INT,
        None,
        "element of the array at the indices `args`; a negative index counts from the end,"
        " outside the array the value is 0",
        effect="read",
        typed_by="array",
        attribute=ArrayNumber,
        indices=_ALL,
        reads=Memory.ELEMENTS,
    ),
    Operation(
        "store",
        None,
        ANY,
        None,
        "args (indices…, value): write an element of the array; outside the array, nothing",
        effect="write",
        attribute=ArrayNumber,
        indices=_BUT_ONE,
        writes=Memory.ELEMENTS,
    ),
    Operation(
        "clear",
        0,
        ANY,
        None,
        "set every element of the local array to zero",
        effect="write",
        attribute=ArrayNumber,
        writes=Memory.ELEMENTS,
    ),
    *(
        Operation(
            f"atomic_{name}",
            None,
            kinds,
            None,
            f"args (indices…, {values}): {doc} an element of the array as one indivisible step;"
            " the result, if there is one, is what the element held before, 0 outside the array",
            effect="write",
            typed_by="array",
            attribute=ArrayNumber,
            indices=indices,
            reads=Memory.ELEMENTS,
            writes=Memory.ELEMENTS,
        )
        for name, kinds, indices, values, doc in (
            ("add", NUMBER, _BUT_ONE, "value", "add to"),
            ("min", NUMBER, _BUT_ONE, "value", "store the smaller of the value and"),
            ("max", NUMBER, _BUT_ONE, "value", "store the larger of the value and"),
            ("and", INT, _BUT_ONE, "value", "combine by bitwise and with"),
            ("or", INT, _BUT_ONE, "value", "combine by bitwise or with"),
            ("xor", INT, _BUT_ONE, "value", "combine by bitwise exclusive or with"),
            ("exch", NUMBER, _BUT_ONE, "value", "store to"),
            ("cas", NUMBER, _BUT_TWO, "expected, value", "store, where it equals the expected value bit by bit, to"),
        )
    ),
    Operation(
        "inside",
        None,
        INT,
        lambda _: bool_,
        "whether the indices `args` are those of an element of the array",
        effect="read",
        attribute=ArrayNumber,
        indices=_ALL,
        reads=Memory.EXTENTS,
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
        "end the launch with an error unless the condition holds; the text says where and why not",
        effect="check",
        attribute=Text,
    ),
    Operation(
        "print",
        None,
        ANY,
        None,
        "write a line: the format text, with `args` in it",
        effect="print",
        attribute=FormatText,
        adds=Memory.LINES,
    ),
    Operation(
        "push",
        None,
        ANY,
        None,
        "add a record of the values `args` to the thread's tape attr[0]; attr[1:] says which of them are the same for"
        " all lanes",
        effect="write",
        adds=Memory.TAPE,
        stages=FROM_DERIVATIVES,
        collects=True,
    ),
    Operation(
        "top",
        0,
        ANY,
        None,
        "field attr[1] of the record that was last added to tape attr[0] and not taken away",
        effect="look",
        typed_by="tape",
        reads=Memory.TAPE,
        stages=FROM_DERIVATIVES,
    ),
    Operation(
        "pop",
        0,
        ANY,
        None,
        "take away the last record of the tape",
        effect="write",
        attribute=TapeNumber,
        takes=Memory.TAPE,
        stages=FROM_DERIVATIVES,
    ),
    Operation(
        "mark",
        0,
        ANY,
        lambda _: int64,
        "how many records the log of the array has",
        effect="look",
        attribute=ArrayNumber,
        reads=Memory.LOG,
        stages=FROM_DERIVATIVES,
    ),
    Operation(
        "save",
        None,
        INT,
        None,
        "add a record of the indices `args` and of the element of the array there to the array's log",
        effect="write",
        attribute=ArrayNumber,
        indices=_ALL,
        reads=Memory.ELEMENTS,
        adds=Memory.LOG,
        stages=FROM_DERIVATIVES,
    ),
    Operation(
        "undo",
        None,
        INT,
        None,
        "take the last record of the log of the array and restore it; with an argument, as many as it has elements",
        effect="write",
        attribute=ArrayNumber,
        writes=Memory.ELEMENTS,
        takes=Memory.LOG,
        stages=FROM_DERIVATIVES,
    ),
    Operation(
        "rollback",
        1,
        INT,
        None,
        "undo the log of the array until it has `args` records",
        effect="write",
        attribute=ArrayNumber,
        writes=Memory.ELEMENTS,
        takes=Memory.LOG,
        stages=FROM_DERIVATIVES,
    ),
    Operation(
        "rule",
        None,
        ANY,
        None,
        "the `detach`ed values after it have the derivative that gradient attr[0] of the kernel is, of `args`;"
        " attr[1:] are the arrays that were written on the way to them",
        effect="rule",
        collects=True,
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
        same,
        "at least x, and the same for all threads that run in step",
        effect="look",
        stages=FROM_DERIVATIVES,
    ),
    *TILE_TABLE,
]

OPS: dict[str, Operation] = {row.name: row for row in _TABLE}
assert len(OPS) == len(_TABLE), "two operations have the same name"

# The operations that combine elements, and those that a running result can be made by.
COMBINERS = ("add", "mul", "min", "max", "and", "or", "xor")
SCANS = ("add", "min", "max")

# Operations that take tens of instructions for each value.
ELEMENTARY = frozenset(name for name, row in OPS.items() if row.is_elementary)
