"""The functions of numbers: one row each. Many take vectors, matrices and tiles too, element by element."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.builtins import vector
from jwarp.frontend.builtins.bits import reinterpreted
from jwarp.frontend.builtins.table import Builtin, Lower, check_count, check_same, define
from jwarp.frontend.context import Context
from jwarp.frontend.tiles import operators
from jwarp.frontend.values.bindings import (
    Binding,
    Composite,
    Number,
    PythonRef,
    StructValue,
    TileRef,
    describe,
    flatten,
    layout,
    rebuild,
    type_of,
)
from jwarp.ir.attributes import Part, Separation
from jwarp.ir.builder import FALSE, TRUE, zero
from jwarp.ir.nodes import Op, Operand, Value
from jwarp.ir.operation import FLOAT, NUMBER, Kinds
from jwarp.ir.ops import OPS
from jwarp.types import CompositeType, ScalarType, StructType, as_scalar, float64, int32
from jwarp.types.queries import no_overload

# -- one operation each


def _elementwise(forms: str, doc: str, operation: str = "") -> Builtin:
    """A builtin that is one operation, that of its name, on scalars of one type."""
    name = forms.strip().partition("(")[0]
    row = OPS[operation or name]

    def lower(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
        assert row.arity is not None
        if any(isinstance(a, TileRef) for a in args):
            return _of_tiles(ctx, name, row.name, args, span)
        if any(isinstance(a, Composite) for a in args):
            return vector.vector_form(ctx, name, row.name, args, span)
        check_count(name, args, (row.arity,), span)
        scalars = [ctx.scalar(a, s, f"argument of wp.{name}") for a, s in zip(args, spans, strict=True)]
        return ctx.emit(row.name, *scalars, span=span)

    return define(forms, doc, lower, operation=row.name)


def _of_tiles(ctx: Context, name: str, operation: str, args: list[Binding], span: Span) -> Binding:
    """The operators between tiles, by name."""
    match args:
        case [TileRef() as x] if operation == "neg":
            return operators.negated(ctx, x, span)
        case [x, y] if operation in (*operators.IN_PLACE, *operators.SCALED):
            return operators.binary(ctx, f"wp.{name}", operation, x, y, span)
    raise KernelTypeError(
        f"wp.{name} does not take tiles", span, f"wp.tile_map(wp.{name}, …) applies it to each element"
    )


def _pairwise(name: str, of: str = "Number", tiles: bool = True, composites: str = "Composite") -> str:
    """The forms of an operator between two of a kind."""
    kinds = [of, composites, *(["tile[T]"] if tiles else [])]
    return "\n".join(f"{name}(a: {kind}, b: {kind}) -> {kind}" for kind in kinds)


def _quotient(name: str) -> str:
    return f"""
        {name}(a: Number, b: Number) -> Number
        {name}(a: Linear, b: Number) -> Linear
        {name}(a: Number, b: Linear) -> Linear
        {name}(a: tile[T], b: Any) -> tile[T]
        {name}(a: Any, b: tile[T]) -> tile[T]"""


add = _elementwise(_pairwise("add", composites="Linear"), "a + b. Integers wrap around.")
sub = _elementwise(_pairwise("sub", composites="Linear"), "a - b. Integers wrap around.")
mul = _elementwise(
    """
    mul(a: Number, b: Number) -> Number
    mul(a: Linear, b: Number) -> Linear
    mul(a: Number, b: Linear) -> Linear
    mul(a: AnyQuaternion, b: AnyQuaternion) -> AnyQuaternion
    mul(a: AnyTransform, b: AnyTransform) -> AnyTransform
    mul(a: AnyMatrix, b: AnyMatrix) -> AnyMatrix
    mul(a: Matrix[Any, AnyVector], b: AnyVector) -> AnyVector
    mul(a: AnyVector, b: Matrix[Any, AnyVector]) -> AnyVector
    mul(a: tile[T], b: Any) -> tile[T]
    mul(a: Any, b: tile[T]) -> tile[T]""",
    """a * b: of numbers, of a number and each component, or the product of matrices, quaternions or transforms.

    Integers wrap around. Two vectors have no product: see `dot`, `cross`, `outer` and `cw_mul`.""",
)
div = _elementwise(
    _quotient("div"),
    "a / b. Integer quotients are truncated towards zero; an integer divided by 0 is -1, all bits set.",
)
div_approx = _elementwise(_quotient("div_approx"), "The same as `div`: a / b, correctly rounded.", "div")
floordiv = _elementwise(
    "floordiv(a: Number, b: Number) -> Number",
    "a // b: the quotient rounded down; an integer divided by 0 is -1, all bits set.",
)
mod = _elementwise(
    _pairwise("mod", tiles=False),
    "The remainder of a / b with the sign of a, as in C. For integers and b == 0, it is a.",
)
_EXTREME = """
    {0}(a: Number, b: Number) -> Number
    {0}(a: Composite, b: Composite) -> Composite
    {0}(a: Vector[Number, Any]) -> Number"""
min = _elementwise(
    _EXTREME.format("min"),
    """The smaller of a and b, component by component for vectors and matrices; of one vector, its least component.

    If one argument is NaN, the result is the other one, as in C's fmin. -0 is smaller than 0.""",
)
max = _elementwise(
    _EXTREME.format("max"),
    """The larger of a and b, component by component for vectors and matrices; of one vector, its greatest component.

    If one argument is NaN, the result is the other one, as in C's fmax. 0 is larger than -0.""",
)
pow = _elementwise("pow(x: Float, y: Float) -> Float", "x to the power y.")
atan2 = _elementwise("atan2(y: Float, x: Float) -> Float", "The angle of the point (x, y) in radians, -pi to pi.")
copysign = _elementwise("copysign(x: Float, y: Float) -> Float", "|x| with the sign of y.")
fma = _elementwise(
    "fma(x: Float, y: Float, z: Float) -> Float", "x * y + z, rounded once if the target has the instruction."
)
neg = _elementwise(
    """
    neg(x: Number) -> Number
    neg(x: Linear) -> Linear
    neg(x: tile[T]) -> tile[T]""",
    "-x.",
)
abs = _elementwise(
    """
    abs(x: Number) -> Number
    abs(x: Composite) -> Composite""",
    "|x|, component by component for vectors and matrices.",
)
sqrt = _elementwise("sqrt(x: Float) -> Float", "The square root of x; NaN if x is negative.")
sin = _elementwise("sin(x: Float) -> Float", "The sine of x radians.")
cos = _elementwise("cos(x: Float) -> Float", "The cosine of x radians.")
tan = _elementwise("tan(x: Float) -> Float", "The tangent of x radians.")
asin = _elementwise("asin(x: Float) -> Float", "The angle whose sine is x, -pi/2 to pi/2; x is clamped to [-1, 1].")
acos = _elementwise("acos(x: Float) -> Float", "The angle whose cosine is x, 0 to pi; x is clamped to [-1, 1].")
atan = _elementwise("atan(x: Float) -> Float", "The angle whose tangent is x, -pi/2 to pi/2.")
exp = _elementwise("exp(x: Float) -> Float", "e to the power x.")
log = _elementwise("log(x: Float) -> Float", "The natural logarithm of x; NaN if x is negative.")
log2 = _elementwise("log2(x: Float) -> Float", "The logarithm of x to base 2; NaN if x is negative.")
log10 = _elementwise("log10(x: Float) -> Float", "The logarithm of x to base 10; NaN if x is negative.")
sinh = _elementwise("sinh(x: Float) -> Float", "The hyperbolic sine of x.")
cosh = _elementwise("cosh(x: Float) -> Float", "The hyperbolic cosine of x.")
tanh = _elementwise("tanh(x: Float) -> Float", "The hyperbolic tangent of x.")
cbrt = _elementwise("cbrt(x: Float) -> Float", "The cube root of x, with the sign of x.")
erf = _elementwise("erf(x: Float) -> Float", "The error function of x.")
erfc = _elementwise("erfc(x: Float) -> Float", "1 - erf(x), without cancellation.")
erfinv = _elementwise("erfinv(x: Float) -> Float", "The inverse of erf: infinite at -1 and 1, NaN outside.")
erfcinv = _elementwise("erfcinv(x: Float) -> Float", "The inverse of erfc: infinite at 0 and 2, NaN outside.")
floor = _elementwise("floor(x: Float) -> Float", "The largest integer not above x, as a float.")
ceil = _elementwise("ceil(x: Float) -> Float", "The smallest integer not below x, as a float.")
trunc = _elementwise("trunc(x: Float) -> Float", "x without its fraction.")
round = _elementwise("round(x: Float) -> Float", "The integer nearest to x as a float; halves go away from zero.")
rint = _elementwise("rint(x: Float) -> Float", "The integer nearest to x as a float; halves go to the even one.")
bit_count = _elementwise("bit_count(x: Int) -> int", "The number of bits of x that are set, as int32.")
bit_and = _elementwise(_pairwise("bit_and", "Int"), "a & b: bitwise and; for bools, logical and.", "and")
bit_or = _elementwise(_pairwise("bit_or", "Int"), "a | b: bitwise or; for bools, logical or.", "or")
bit_xor = _elementwise(_pairwise("bit_xor", "Int"), "a ^ b: bitwise exclusive or; for bools, `!=`.", "xor")
invert = _elementwise(
    """
    invert(a: Int) -> Int
    invert(a: Composite) -> Composite""",
    "~a: bitwise complement; for bools, logical not.",
    "not",
)
lshift = _elementwise(
    _pairwise("lshift", "Int", tiles=False), "a << b; 0 if b is at least the width of the type in bits.", "shl"
)
rshift = _elementwise(
    _pairwise("rshift", "Int", tiles=False),
    "a >> b, arithmetic for signed integers; all sign bits if b is at least the width of the type in bits.",
    "shr",
)

# -- a few operations each


@dataclass(frozen=True)
class _Steps:
    """Emits the operations that a builtin is made of; Python numbers among them have `type`."""

    ctx: Context
    type: ScalarType
    span: Span

    def __call__(self, name: str, *args: Operand | float) -> Operand:
        operands = [Number(a).as_type(self.type, self.span) if isinstance(a, (int, float)) else a for a in args]
        return self.ctx.emit(name, *operands, span=self.span)


@dataclass(frozen=True)
class _VectorForm:
    """A scalar builtin on components: how many arguments are vectors or matrices, what joins the results."""

    leading: int
    reduction: str = ""


_EACH, _PAIRS = _VectorForm(1), _VectorForm(2)
_ANY, _ALL = _VectorForm(1, "or"), _VectorForm(1, "and")


def _composed(
    forms: str, doc: str, kinds: Kinds, steps: Callable[..., Operand], form: _VectorForm | None = None
) -> Builtin:
    """A builtin that is a few operations on scalars of one type."""

    def lower(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
        check_count(row.name, args, (len(row.each_form[0].names),), span)
        if isinstance(args[0], Composite) and form is not None and args[0].type.kind.takes(row.name):
            return by_component(form, ctx, args[0].type, args, spans, span)
        scalars = tuple(ctx.scalar(a, s, f"argument of wp.{row.name}") for a, s in zip(args, spans, strict=True))
        check_same(row.name, scalars, span)
        type = scalars[0].type
        if type.kind not in kinds:
            hint = "it is for floats: convert with float(x)" if kinds == FLOAT else ""
            why = no_overload(row.name, (type,))
            raise KernelTypeError(f"wp.{row.name} does not take {type.name}: {why}", span, hint)
        return steps(_Steps(ctx, type, span), *scalars)

    def by_component(
        form: _VectorForm, ctx: Context, kind: CompositeType, args: list[Binding], spans: list[Span], span: Span
    ) -> Binding:
        if any(not isinstance(a, Composite) or a.type is not kind for a in args[: form.leading]):
            names = [a.type.full_name if isinstance(a, Composite) else describe(a) for a in args]
            raise KernelTypeError(
                f"wp.{row.name} takes {form.leading} vectors or matrices of one type: Input types must be exactly the"
                f" same, got {names}",
                span,
            )
        columns = [a.items if isinstance(a, Composite) else [a] * kind.size for a in args]
        items = [ctx.scalar(lower(ctx, list(xs), spans, span), span, "") for xs in zip(*columns, strict=True)]
        if not form.reduction:
            return Composite(kind, tuple(items))
        return functools.reduce(lambda x, y: ctx.emit(form.reduction, x, y, span=span), items)

    row = define(forms, doc, lower)
    return row


def _lerp(do: _Steps, a: Operand, b: Operand, t: Operand) -> Operand:
    return do("add", do("mul", a, do("sub", 1, t)), do("mul", b, t))


def _smoothstep(do: _Steps, a: Operand, b: Operand, x: Operand) -> Operand:
    # At a itself the part is 0, also where a and b are the same.
    part = do("select", do("eq", x, a), 0, do("div", do("sub", x, a), do("sub", b, a)))
    part = do("min", do("max", part, 0), 1)
    return do("mul", do("mul", part, part), do("sub", 3, do("mul", 2, part)))


sign = _composed(
    """
    sign(x: Number) -> Number
    sign(x: Composite) -> Composite""",
    "-1 if x < 0, otherwise 1; component by component for vectors and matrices.",
    NUMBER,
    lambda do, x: do("select", do("lt", x, 0), -1, 1),
    _EACH,
)
pos = _composed(
    """
    pos(x: Number) -> Number
    pos(x: Linear) -> Linear""",
    "x itself.",
    NUMBER,
    lambda do, x: x,
    _EACH,
)
step = _composed(
    "step(x: Number) -> Number",
    "1 if x < 0, otherwise 0.",
    NUMBER,
    lambda do, x: do("select", do("lt", x, 0), 1, 0),
)
nonzero = _composed(
    "nonzero(x: Number) -> Number",
    "0 if x is 0, otherwise 1.",
    NUMBER,
    lambda do, x: do("select", do("eq", x, 0), 0, 1),
)
degrees = _composed(
    "degrees(x: Float) -> Float", "x radians in degrees.", FLOAT, lambda do, x: do("mul", x, 180.0 / math.pi)
)
radians = _composed(
    "radians(x: Float) -> Float", "x degrees in radians.", FLOAT, lambda do, x: do("mul", x, math.pi / 180.0)
)
frac = _composed(
    "frac(x: Float) -> Float",
    "x - trunc(x), which has the sign of x.",
    FLOAT,
    lambda do, x: do("sub", x, do("trunc", x)),
)
isnan = _composed(
    """
    isnan(a: Float) -> bool
    isnan(a: AnyLinear) -> bool""",
    "True if a, or any component of it, is NaN.",
    FLOAT,
    lambda do, a: do("ne", a, a),
    _ANY,
)
isinf = _composed(
    """
    isinf(a: Float) -> bool
    isinf(a: AnyLinear) -> bool""",
    "True if a, or any component of it, is infinite.",
    FLOAT,
    lambda do, a: do("eq", do("abs", a), math.inf),
    _ANY,
)
isfinite = _composed(
    """
    isfinite(a: Float) -> bool
    isfinite(a: AnyLinear) -> bool""",
    "True if a, or every component of it, is neither infinite nor NaN.",
    FLOAT,
    lambda do, a: do("lt", do("abs", a), math.inf),
    _ALL,
)
lerp = _composed(
    """
    lerp(a: Float, b: Float, t: Float) -> Float
    lerp(a: Linear, b: Linear, t: Float) -> Linear""",
    "a * (1 - t) + b * t: a at t = 0, b at t = 1.",
    FLOAT,
    _lerp,
    _PAIRS,
)
smoothstep = _composed(
    """
    smoothstep(a: Float, b: Float, x: Float) -> Float
    smoothstep(a: Composite, b: Composite, x: Float) -> Composite""",
    """A smooth rise from 0 at x = a to 1 at x = b, and constant outside.

    It is p * p * (3 - 2 * p) where p is (x - a) / (b - a), clamped to [0, 1].""",
    FLOAT,
    _smoothstep,
    _PAIRS,
)

# -- choices and conversions


def _lower_unot(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("unot", args, (1,), span)
    return ctx.emit("not", ctx.condition(args[0], spans[0]), span=span)


unot = define(
    """
    unot(a: Number) -> bool
    unot(a: array[Any]) -> bool""",
    "True if a is zero, False, or an array without elements: `not a`.",
    _lower_unot,
)


def _lower_clamp(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("clamp", args, (3,), span)
    x, low, high = (ctx.scalar(a, s, "argument of wp.clamp") for a, s in zip(args, spans, strict=True))
    check_same("clamp", (x, low, high), span)
    return ctx.emit("min", ctx.emit("max", low, x, span=span), high, span=span)


clamp = define(
    "clamp(x: Number, low: Number, high: Number) -> Number",
    "The value between low and high that is nearest to x.",
    _lower_clamp,
)


def _lower_where(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("where", args, (3,), span)
    condition = ctx.condition(args[0], spans[0])
    if all(isinstance(x, (Composite, StructValue)) for x in args[1:]):
        if layout(args[1], span) == layout(args[2], span):
            pairs = zip(ctx.scalars(args[1], spans[1]), ctx.scalars(args[2], spans[2]), strict=True)
            return rebuild(args[1], [ctx.emit("select", condition, *p, span=span) for p in pairs])
        if isinstance(args[1], StructValue) and type_of(args[1], span) == type_of(args[2], span):
            raise KernelTypeError("the arrays in these structs are not the same", span, "write `x if condition else y`")
    x, y = (ctx.scalar(args[k], spans[k], "argument of wp.where") for k in (1, 2))
    check_same("where", (x, y), span)
    return ctx.emit("select", condition, x, y, span=span)


def _lower_select(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("select", args, (3,), span)
    return _lower_where(ctx, [args[0], args[2], args[1]], [spans[0], spans[2], spans[1]], span)


where = define(
    """
    where(cond: Any, value_if_true: T, value_if_false: T) -> T
    where(arr: array[Any], value_if_true: T, value_if_false: T) -> T""",
    """`value_if_true` if the condition holds, otherwise `value_if_false`. Both have one type, and both are computed.

    The condition is a bool, a number, or an array, which is true if it has elements.""",
    _lower_where,
)
select = define(
    """
    select(cond: Any, value_if_false: T, value_if_true: T) -> T
    select(arr: array[Any], value_if_false: T, value_if_true: T) -> T""",
    "Like `where`, with the values in the other order.",
    _lower_select,
)


def _lower_cast(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("cast", args, (2,), span)
    wanted = args[1].object if isinstance(args[1], PythonRef) else None
    kind = wanted if isinstance(wanted, (CompositeType, StructType)) else as_scalar(wanted)
    if kind is None:
        raise KernelTypeError(
            "second argument of wp.cast must be a type", spans[1], "as in wp.cast(x, wp.int32)"
        )  # fmt: skip
    return reinterpreted(ctx, args[0], kind, spans[0])


cast = define(
    "cast(a: Any, dtype: type[T]) -> T",
    """The bits of a number, vector, matrix or struct, reinterpreted as another type of the same size.

    To convert the value, call the type: wp.float32(x).""",
    _lower_cast,
)

# -- for the library: values that one way computes well, and another way differentiates well; loops that stay loops


def _lower_follow(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    x, y = (flatten(a, span) or [] for a in args)
    return rebuild(args[0], [ctx.emit("follow", a, b, span=span) for a, b in zip(x, y, strict=True)])


def _lower_fixed(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    parts = flatten(args[0], span) or []
    return rebuild(args[0], [ctx.emit("follow", x, zero(x.type), span=span) for x in parts])


def _lower_replayed(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    x, y = (flatten(a, span) or [] for a in args)
    return rebuild(args[0], [ctx.emit("replayed", a, b, span=span) for a, b in zip(x, y, strict=True)])


def _lower_fixed_once(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    return _lower_replayed(ctx, [_lower_fixed(ctx, args, spans, span), args[0]], spans, span)


def _lower_symmetric(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    x, y, values = (flatten(a, span) or [] for a in args[:3])
    if _is_computed_at_once(ctx):
        return args[0]
    assert isinstance(args[3], Number)
    made: list[Operand] = []
    for k, (a, b) in enumerate(zip(x, y, strict=True)):
        result = Value(a.type)
        part = Part(int(args[3].value), k, len(values))
        ctx.builder.append(Op("symmetric", (a, b, values[0]), part, result, span))
        made.append(result)
    return rebuild(args[0], made)


def _lower_separation(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    if _is_computed_at_once(ctx):
        return args[0]
    made, kind = Value(float64), as_scalar(getattr(args[1], "object", None))
    assert kind is not None and isinstance(args[2], Number)
    attr = Separation(kind.bits, bool(args[2].value))
    ctx.builder.append(Op("separation", (ctx.scalar(args[0], span),), attr, made, span))
    return made


def _lower_only_values(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    if not ctx.only_values:
        return FALSE
    ctx.left_out = True
    return TRUE


only_values = Builtin(
    "only_values() -> bool", "Whether what is for derivatives may be left out: it is read when one is asked for.",
    _lower_only_values,
)  # fmt: skip
fixed = Builtin("fixed(x: T) -> T", "x, as a constant for derivatives.", _lower_fixed)
follow = Builtin("follow(x: T, y: T) -> T", "x, with the derivative of y.", _lower_follow)
replayed = Builtin(
    "replayed(x: T, y: T) -> T", "x, with its derivative; where a derivative computes it again, y.", _lower_replayed
)
symmetric = Builtin(
    "symmetric(x: T, y: Any, values: Any, factor: int) -> T",
    "x, one of the factors of a decomposition; `y` is the same in float64, for derivatives that do not see how vectors"
    " of equal values are chosen.",
    _lower_symmetric,
)
separation = Builtin(
    "separation(size: float64, dtype: Any, signed: bool) -> float64",
    "How far apart values that go into `symmetric` have to be, the greatest of them being `size`; `signed` ones may be"
    " negative.",
    _lower_separation,
)
fixed_once = Builtin(
    "fixed_once(x: T) -> T", "x, as a constant for a derivative, not for the derivative of that one.", _lower_fixed_once
)


def _is_computed_at_once(ctx: Context) -> bool:
    """True outside of kernels, where a call is computed while it is read."""
    return ctx.max_unroll > MANY_ITERATIONS


def _lower_rolled(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    if _is_computed_at_once(ctx):
        return args[0]
    result = Value(int32)  # not through `op`, which would fold it
    ctx.builder.append(Op("add", (ctx.scalar(args[0], span), zero(int32)), None, result, span))
    return result


MANY_ITERATIONS = 512


def _lower_together(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    return args[0]


def _of_lanes(operation: str) -> Lower:
    """The rule of a function that asks or tells something of the lanes, where code has such."""

    def lower(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
        return args[0] if _is_computed_at_once(ctx) else ctx.emit(operation, ctx.scalar(args[0], span), span=span)

    return lower


def _lower_in_step(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    if _is_computed_at_once(ctx) or ctx.block_dim:
        return FALSE
    return ctx.emit("not", ctx.emit("on_gpu", span=span), span=span)


def _lower_on_gpu(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    return FALSE if _is_computed_at_once(ctx) else ctx.emit("on_gpu", span=span)


together = Builtin(
    "together(n: int) -> int",
    "n, as the bound of a loop whose iterations may run in lockstep: each carried value is reduced by one operation.",
    _lower_together,
)
coherent = Builtin(
    "coherent(x: int) -> int",
    "x, where a loop begins: adjacent lanes begin in about the same place, so that they may run in lockstep.",
    _of_lanes("lane_affinity"),
)
divergent = Builtin(
    "divergent(x: bool) -> bool",
    "x, the condition of a loop that lanes leave apart: the last few lanes may run it one after the other.",
    _of_lanes("lane_divergence"),
)
in_step = Builtin(
    "in_step() -> bool", "True if lanes may run in lockstep, with `any_lane` and `one_of`.", _lower_in_step
)
any_lane = Builtin(
    "any_lane(x: bool) -> bool",
    "The disjunction of x over the lanes that run in lockstep, one value for all of them. Results must not depend on"
    " which lanes these are.",
    _of_lanes("any_lane"),
)
one_of = Builtin("one_of(x: int) -> int", "x of one of the lanes that run in lockstep.", _of_lanes("one_of"))
on_gpu = Builtin("on_gpu() -> bool", "True if the code runs on a GPU.", _lower_on_gpu)
rolled = Builtin("rolled(n: int) -> int", "n, as a bound of loops that are not unrolled.", _lower_rolled)
