"""The table of operations: every later stage is a table with one row per row of this one."""

from __future__ import annotations

from typing import Any

from jwarp.ir.attributes import (
    ArrayNumber,
    Axis,
    Extent,
    FormatText,
    FunctionNumber,
    NativeCall,
    ParamNumber,
    Text,
)
from jwarp.ir.derivative_ops import DERIVATIVE_TABLE
from jwarp.ir.operation import (
    ANY,
    BITS,
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    Kinds,
    Operation,
    same,
    selected,
    to_bool,
)
from jwarp.ir.row_groups import (
    EVERYWHERE,
    FIELDS,
    Code,
    Comparison,
    Derivative,
    Group,
    Memory,
    Numeric,
    Stage,
    Threads,
    Transfer,
    Uses,
)
from jwarp.ir.tile_ops import TILE_TABLE
from jwarp.types import bool_, int32, int64

# Of an access: all operands are indices, or all but the values.
_ALL, _BUT_ONE, _BUT_TWO = slice(None), slice(-1), slice(-2)


def _rows(arity: int, kinds: Kinds, result: Any, *groups: Group, **docs: str) -> list[Operation]:
    """Rows of similar operations, which have the same `groups` of facts."""
    facts: Any = {FIELDS[type(group)]: group for group in groups}
    return [Operation(name.rstrip("_"), arity, kinds, result, doc, **facts) for name, doc in docs.items()]


# The operations that combine elements, those that a running result can be made by, and those that choose an element.
COMBINERS = ("add", "mul", "min", "max", "and", "or", "xor")
SCANS = ("add", "min", "max")
EXTREMA = ("min", "max")

_TABLE: list[Operation] = [
    Operation(
        "add",
        2,
        NUMBER,
        same,
        "x + y; integers wrap",
        numeric=Numeric(is_total=True, signs=(1, 1)),
    ),
    Operation(
        "sub",
        2,
        NUMBER,
        same,
        "x - y; integers wrap",
        numeric=Numeric(is_total=True, signs=(1, -1)),
    ),
    *_rows(2, NUMBER, same, Numeric(is_total=True), mul="x * y; integers wrap"),
    *_rows(2, NUMBER, same, div="x / y; integers truncate towards zero, x / 0 is -1 (all bits set)"),
    *_rows(
        2,
        NUMBER,
        same,
        Numeric(jumps=True),
        mod="remainder with the sign of x (C's % and fmod); x % 0 is x for integers",
    ),
    *_rows(2, NUMBER, same, Numeric(is_step=True), floordiv="x // y: the quotient rounded down; as div where y is 0"),
    *_rows(
        2,
        NUMBER,
        same,
        Numeric(is_total=True, without_new_nan=True),
        min="smaller of x and y, -0 below 0; of a number and NaN the number",
        max="larger of x and y, 0 above -0; of a number and NaN the number",
    ),
    *_rows(
        2,
        FLOAT,
        same,
        Code(is_elementary=True),
        pow="x to the power y",
        atan2="angle of (y, x) in radians: args are y, x",
    ),
    *_rows(2, FLOAT, same, Numeric(without_new_nan=True), copysign="|x| with the sign of y"),
    *_rows(2, FLOAT, same, Derivative(only=True), follow="x, with the derivative of y"),
    *_rows(3, FLOAT, same, Numeric(is_total=True), fma="x * y + z, rounded once where the target has the instruction"),
    *_rows(1, NUMBER, same, Numeric(is_total=True, without_new_nan=True), neg="-x", abs="|x|"),
    Operation(
        "sin", 1, FLOAT, same, "sine of x radians", code=Code(is_elementary=True), numeric=Numeric(partner="cos")
    ),
    Operation(
        "cos", 1, FLOAT, same, "cosine of x radians", code=Code(is_elementary=True), numeric=Numeric(partner="sin")
    ),
    *_rows(
        1,
        FLOAT,
        same,
        Code(is_elementary=True),
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
    *_rows(1, FLOAT, same, sqrt="square root"),
    Operation(
        *("norm", None, FLOAT, same, "the square root of the sum of the squares of `args`, added up in their order"),
        code=Code(is_composed=True),
    ),
    *_rows(3, FLOAT, same, Code(is_composed=True), over="args (x, y, z): x / y; derivatives use z, the inverse of y"),
    *_rows(
        1,
        FLOAT,
        same,
        Numeric(is_step=True),
        floor="largest integer not above x",
        ceil="smallest integer not below x",
        trunc="x without its fraction",
        round="nearest integer, halves away from zero",
        rint="nearest integer, halves to even",
    ),
    Operation("and", 2, BITS, same, "bitwise and", numeric=Numeric(absorbs=False)),
    Operation("or", 2, BITS, same, "bitwise or", numeric=Numeric(absorbs=True)),
    *_rows(2, BITS, same, xor="bitwise exclusive or"),
    *_rows(1, BITS, same, not_="bitwise complement"),
    *_rows(1, INT, lambda _: int32, bit_count="how many bits are set, as int32"),
    *_rows(1, BOOL, same, Threads(is_common=True), any_lane="x, or true if it is for another thread in lockstep"),
    *_rows(
        1,
        BOOL,
        same,
        Threads(is_common=True),
        many_lanes="x, or false if it is false for most threads in lockstep",
    ),
    *_rows(1, INT, same, Threads(is_common=True), one_of="x of this thread, or of another one in lockstep"),
    *_rows(
        1,
        INT,
        same,
        Threads(is_affinity=True),
        lane_affinity="x, where a loop begins in about the same place for adjacent threads",
    ),
    *_rows(
        1,
        BOOL,
        same,
        Threads(is_divergence=True),
        lane_divergence="x, where a loop goes on that adjacent threads leave apart",
    ),
    *_rows(
        2,
        INT,
        same,
        shl="x << y; 0 where y is not below the bit width",
        shr="x >> y, arithmetic for signed x; all sign bits where y is not below the bit width",
    ),
    *(
        Operation(
            *(name, 2, kinds, to_bool, f"x {symbol} y"),
            comparison=Comparison(opposite=opposite, swapped=swapped, holds_for_equal=equal),
        )
        for name, symbol, kinds, opposite, swapped, equal in (
            ("lt", "<", NUMBER, "ge", "gt", False),
            ("le", "<=", NUMBER, "gt", "ge", True),
            ("gt", ">", NUMBER, "le", "lt", False),
            ("ge", ">=", NUMBER, "lt", "le", True),
            ("eq", "==", ANY, "ne", "eq", True),
            ("ne", "!=", ANY, "eq", "ne", False),
        )
    ),
    *_rows(
        1,
        FLOAT,
        lambda args: bool_,
        nonzero="x != 0, where x is a derivative; in a derivative of that also where its tangent is not zero",
    ),
    Operation(
        "select",
        3,
        ANY,
        selected,
        "args (condition, x, y): x where the condition holds, else y",
        transfer=Transfer(moves_bits=True, chooses=True),
        numeric=Numeric(without_new_nan=True),
    ),
    Operation(
        "cast",
        1,
        ANY,
        None,
        "conversion: floats to integers truncate and saturate, NaN gives 0; integers wrap; to bool: x != 0",
        typed_by="target",
        transfer=Transfer(moves_bits=True, converts=True),
        numeric=Numeric(without_new_nan=True),
    ),
    Operation(
        "bitcast",
        1,
        NUMBER,
        None,
        "the same bits as another type of that width",
        typed_by="target",
        numeric=Numeric(without_new_nan=True),
        transfer=Transfer(moves_bits=True, reinterprets=True),
    ),
    Operation(
        "tid",
        0,
        ANY,
        lambda _: int32,
        "coordinate of this thread along the launch axis",
        attribute=Axis,
        numeric=Numeric(is_count=True),
        threads=Threads(differ=True),
    ),
    Operation(
        "param",
        0,
        ANY,
        None,
        "value of the scalar parameter",
        typed_by="param",
        attribute=ParamNumber,
        numeric=Numeric(without_new_nan=True),
    ),
    Operation(
        "shape",
        0,
        ANY,
        lambda _: int32,
        "extent of the array parameter along the axis",
        attribute=Extent,
        numeric=Numeric(is_count=True),
        uses=Uses(reads=Memory.EXTENTS),
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
        uses=Uses(reads=Memory.ELEMENTS),
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
        uses=Uses(writes=Memory.ELEMENTS),
    ),
    Operation(
        *("clear", 0, ANY, None, "set every element of the local array to zero"),
        effect="write",
        attribute=ArrayNumber,
        uses=Uses(writes=Memory.ELEMENTS),
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
            uses=Uses(reads=Memory.ELEMENTS, writes=Memory.ELEMENTS),
            combines=name if name in COMBINERS else "",
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
        uses=Uses(reads=Memory.EXTENTS),
    ),
    Operation(
        "thread",
        0,
        ANY,
        lambda _: int64,
        "number of this thread among all of its batch element, from 0; repeated threads differ in it",
        threads=Threads(differ=True),
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
        least=0,
        uses=Uses(adds=Memory.LINES),
    ),
    *DERIVATIVE_TABLE,
    Operation(
        "prefetch",
        None,
        INT,
        None,
        "have the processor fetch the element of the array at the indices `args`, if there is one, for a later load",
        effect="look",
        attribute=ArrayNumber,
        indices=_ALL,
        stages=frozenset({Stage.LOWERED}),
    ),
    Operation(
        "call",
        None,
        ANY,
        lambda _: int32,
        "run a function of the kernel on `args`; the result stands for what comes out of it",
        effect="call",
        attribute=FunctionNumber,
        least=0,
        collects=True,
        stages=EVERYWHERE - {Stage.TILING},
    ),
    Operation(
        "call_part",
        1,
        INT,
        None,
        "result number `attr` of a function that was called",
        effect="call",
        attribute=Axis,
        typed_by="call",
        stages=EVERYWHERE - {Stage.TILING},
    ),
    Operation(
        "on_gpu",
        0,
        ANY,
        lambda _: bool_,
        "whether a GPU runs this, where native code is compiled",
        threads=Threads(is_target=True),
    ),
    Operation(
        "native",
        None,
        ANY,
        None,
        "run a text in C++ as the body of a function of `args` and arrays; the result stands for what comes out of it",
        effect="write",
        attribute=NativeCall,
        least=0,
        uses=Uses(reads=Memory.ELEMENTS, writes=Memory.ELEMENTS, adds=Memory.LINES),
        collects=True,
        stages=EVERYWHERE - {Stage.TILING},
    ),
    Operation(
        "native_part",
        1,
        INT,
        None,
        "scalar number `attr` of what came out of native code: of its result, then of its references",
        effect="look",
        attribute=Axis,
        typed_by="call",
        stages=EVERYWHERE - {Stage.TILING},
    ),
    *TILE_TABLE,
]

OPS: dict[str, Operation] = {row.name: row for row in _TABLE}
assert len(OPS) == len(_TABLE), "two operations have the same name"

# Operations that take tens of instructions for each value.
ELEMENTARY = frozenset(name for name, row in OPS.items() if row.code.is_elementary)
