"""The LLVM instructions of each pure operation: one row per row of the operation table."""

from __future__ import annotations

from collections.abc import Callable

from jwarp.backend.cpu.code import Instructions, scalar_type
from jwarp.errors import KernelTypeError
from jwarp.ir.nodes import Const, Op
from jwarp.types import ScalarType, bfloat16, bool_, float16, float32, float64, int32

# Arithmetic on 16-bit floats has become arithmetic on float32 before code is generated.
Rule = Callable[[Instructions, Op, list[str]], str]


def _type(node: Op) -> ScalarType:
    return node.args[0].type


def _add(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    return out.binary("fadd" if type.is_float else "add", type, *x)


def _mul(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    return out.product(type, *x) if type.is_float else out.binary("mul", type, *x)


def _sub(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    return out.difference(type, *x) if type.is_float else out.binary("sub", type, *x)


def _bitwise(name: str) -> Rule:
    return lambda out, node, x: out.binary(name, _type(node), x[0], x[1])


def _float_intrinsic(name: str) -> Rule:
    def rule(out: Instructions, node: Op, x: list[str]) -> str:
        type = _type(node)
        return out.intrinsic(name, type, *((type, arg) for arg in x))

    return rule


def _divisor(out: Instructions, node: Op, x: list[str]) -> tuple[str, str | None]:
    """The divisor with the cases that would trap made 1, and the test for a zero divisor."""
    type, divisor = _type(node), node.args[1]
    if isinstance(divisor, Const) and divisor.value not in (0, -1):
        return x[1], None
    one = out.constant(type, 1)
    is_zero = out.compare("eq", type, x[1], out.constant(type, 0))
    safe = out.select(is_zero, type, one, x[1])
    if type.kind == "int":
        lowest = out.compare("eq", type, x[0], out.constant(type, type.min))
        minus = out.compare("eq", type, x[1], out.constant(type, -1))
        safe = out.select(out.binary("and", bool_, lowest, minus), type, one, safe)
    # LLVM 22 may divide before it selects where it takes x[1] for never zero, as in 31 << y: that traps.
    return out.emit(f"freeze {out.type(type)} {safe}"), is_zero


def _quotient(out: Instructions, node: Op, dividend: str, divisor: str) -> str:
    """Integer division towards zero by a divisor that cannot trap."""
    type = _type(node)
    signed = type.kind == "int"
    if out.width and type.bits <= 32 and not isinstance(node.args[1], Const):
        # There is no vector integer division; for up to 32 bits the one of doubles is exact.
        to, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
        wide = [out.convert(to, type, v, float64) for v in (dividend, divisor)]
        ratio = out.emit(f"fdiv {out.type(float64)} {wide[0]}, {wide[1]}")
        return out.convert(back, float64, ratio, type)
    return out.binary("sdiv" if signed else "udiv", type, dividend, divisor)


def _div(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    if type.is_float:
        return out.binary("fdiv", type, x[0], x[1])
    divisor, is_zero = _divisor(out, node, x)
    quotient = _quotient(out, node, x[0], divisor)
    ones = out.constant(type, -1 if type.kind == "int" else type.max)
    return quotient if is_zero is None else out.select(is_zero, type, ones, quotient)


def _mod(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    if type.is_float:
        return out.binary("frem", type, x[0], x[1])
    divisor, is_zero = _divisor(out, node, x)
    quotient = _quotient(out, node, x[0], divisor)
    rest = out.binary("sub", type, x[0], out.binary("mul", type, quotient, divisor))
    return rest if is_zero is None else out.select(is_zero, type, x[0], rest)


def _floordiv(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    if type.is_float:
        return out.intrinsic("floor", type, (type, out.binary("fdiv", type, x[0], x[1])))
    if type.kind == "uint":
        return _div(out, node, x)
    divisor, is_zero = _divisor(out, node, x)
    quotient = _quotient(out, node, x[0], divisor)
    zero = out.constant(type, 0)
    rest = out.binary("sub", type, x[0], out.binary("mul", type, quotient, divisor))
    inexact = out.compare("ne", type, rest, zero)
    opposite = out.compare("slt", type, out.binary("xor", type, rest, divisor), zero)
    lower = out.binary("sub", type, quotient, out.constant(type, 1))
    floored = out.select(out.binary("and", bool_, inexact, opposite), type, lower, quotient)
    return floored if is_zero is None else out.select(is_zero, type, out.constant(type, -1), floored)


def _extreme(is_max: bool) -> Rule:
    def rule(out: Instructions, node: Op, x: list[str]) -> str:
        type = _type(node)
        if not type.is_float:
            name = ("s" if type.kind == "int" else "u") + ("max" if is_max else "min")
            return out.intrinsic(name, type, (type, x[0]), (type, x[1]))
        args = list(zip(node.args, x, strict=True))
        args.sort(key=lambda arg: isinstance(arg[0], Const))  # stable: a constant comes second
        (_, first), (second, text) = args
        losing_zero = Const(type, -0.0 if is_max else 0.0)
        if isinstance(second, Const) and second.value == second.value and second != losing_zero:
            return _preferred(out, type, is_max, first, text)  # the constant is right for NaN, and for a zero
        return extremum(out, type, is_max, first, text)

    return rule


def extremum(out: Instructions, type: ScalarType, is_max: bool, x: str, y: str) -> str:
    """The smaller or larger of two floats: of a number and NaN the number, and -0 is below 0.

    LLVM's intrinsics decide by the sign of an operand which one the processor's instruction has first, which is slower,
    above all in a chain.
    """
    if out.code.options.target.is_arm:
        return out.intrinsic("maximumnum" if is_max else "minimumnum", type, (type, x), (type, y))
    bits = f"i{type.bits}"
    both = (out.convert("bitcast", type, _preferred(out, type, is_max, *pair), bits) for pair in ((x, y), (y, x)))
    # They only differ where an operand is NaN, and of zeros by the sign.
    joined = out.convert("bitcast", bits, out.binary("and" if is_max else "or", bits, *both), type)
    kept = out.select(out.compare("uno", type, x, x), type, y, joined)
    return out.select(out.compare("uno", type, y, y), type, x, kept)


def _preferred(out: Instructions, type: ScalarType, is_max: bool, x: str, y: str) -> str:
    """`x` if it is smaller, or larger, else `y`: one instruction of x86."""
    return out.select(out.compare("ogt" if is_max else "olt", type, x, y), type, x, y)


def _neg(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    if type.is_float:
        return out.emit(f"fneg {out.type(type)} {x[0]}")
    return out.binary("sub", type, out.constant(type, 0), x[0])


def _abs(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    if type.is_float:
        return out.intrinsic("fabs", type, (type, x[0]))
    if type.kind == "uint":
        return x[0]
    negative = out.compare("slt", type, x[0], out.constant(type, 0))
    return out.select(negative, type, out.binary("sub", type, out.constant(type, 0), x[0]), x[0])


def _not(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    ones = "true" if type is bool_ else "-1"
    return out.binary("xor", type, x[0], out.spread(ones, scalar_type(type)))


def _bit_count(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    return convert(out, type, int32, out.intrinsic("ctpop", type, (type, x[0])))


def _shl(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    fits, amount = _shift_amount(out, node, x)
    shifted = out.binary("shl", type, x[0], amount)
    return shifted if fits is None else out.select(fits, type, shifted, out.constant(type, 0))


def _shr(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    fits, amount = _shift_amount(out, node, x)
    signed = type.kind == "int"
    shifted = out.binary("ashr" if signed else "lshr", type, x[0], amount)
    if fits is None:
        return shifted
    gone = out.constant(type, 0)
    if signed:
        gone = out.binary("ashr", type, x[0], out.constant(type, type.bits - 1))
    return out.select(fits, type, shifted, gone)


def _shift_amount(out: Instructions, node: Op, x: list[str]) -> tuple[str | None, str]:
    """The condition that the amount is below the width, and an amount that always is."""
    type, amount = _type(node), node.args[1]
    if isinstance(amount, Const) and 0 <= amount.value < type.bits:
        return None, x[1]
    fits = out.compare("ult", type, x[1], out.constant(type, type.bits))
    return fits, out.select(fits, type, x[1], out.constant(type, 0))


def _comparison(float_name: str, int_name: str) -> Rule:
    def rule(out: Instructions, node: Op, x: list[str]) -> str:
        type = _type(node)
        if type.is_float:
            return out.compare(float_name, type, x[0], x[1])
        sign = "" if node.row.takes_all else "s" if type.kind == "int" else "u"
        return out.compare(sign + int_name, type, x[0], x[1])

    return rule


def _select(out: Instructions, node: Op, x: list[str]) -> str:
    return out.select(x[0], node.args[1].type, x[1], x[2])


def _fma(out: Instructions, node: Op, x: list[str]) -> str:
    type = _type(node)
    # Without the instruction, llvm.fma would call a slow library function for each lane.
    name = "fma" if out.code.options.target.fma else "fmuladd"
    return out.intrinsic(name, type, *((type, arg) for arg in x))


def _cast(out: Instructions, node: Op, x: list[str]) -> str:
    assert node.result is not None
    return convert(out, _type(node), node.result.type, x[0])


def convert(out: Instructions, source: ScalarType, target: ScalarType, x: str) -> str:
    """The value `x` of type `source` as `target`."""
    if source is target:
        return x
    if target is bool_:
        if source in (float16, bfloat16):
            return convert(out, float32, bool_, convert(out, source, float32, x))
        return out.compare("une" if source.is_float else "ne", source, x, out.constant(source, 0))
    if source is bfloat16:
        bits = out.binary("shl", "i32", out.convert("zext", "i16", x, "i32"), out.spread("16", "i32"))
        return convert(out, float32, target, out.convert("bitcast", "i32", bits, "float"))
    if target is bfloat16:
        return _round_to_bfloat16(out, convert(out, source, float32, x))
    if float16 in (source, target) and float32 not in (source, target):
        # Processors convert halves from and to float32 only; the rest would be calls of library functions.
        return convert(out, float32, target, convert(out, source, float32, x))
    if float16 in (source, target) and not out.code.options.target.half:
        raise KernelTypeError("float16 needs a processor with the F16C instructions", hint="use float32 or bfloat16")
    if source.is_float and target.is_float:
        return out.convert("fpext" if target.bits > source.bits else "fptrunc", source, x, target)
    if source.is_float:
        if out.width and not out.code.options.target.is_arm:
            return _saturated(out, source, x, target)
        name = "fptosi.sat" if target.kind == "int" else "fptoui.sat"
        return out.intrinsic(name, target, (source, x), of=scalar_type(source))
    if target.is_float:
        return out.convert("sitofp" if source.kind == "int" else "uitofp", source, x, target)
    if target.bits == source.bits and source is not bool_:
        return x
    if source is bool_ or target.bits > source.bits:
        return out.convert("sext" if source.kind == "int" else "zext", source, x, target)
    return out.convert("trunc", source, x, target)


def _saturated(out: Instructions, source: ScalarType, x: str, target: ScalarType) -> str:
    """Vectors of floats as integers: the nearest one there is for what is too large, and 0 for NaN.

    LLVM's own conversions that saturate take vectors apart on processors that have no instruction for them.
    """
    signed = target.kind == "int"
    end = out.constant(source, 2.0 ** (target.bits - signed))
    begin = out.constant(source, -(2.0 ** (target.bits - 1)) if signed else -1.0)
    below, above = out.compare("olt", source, x, end), out.compare("oge" if signed else "ogt", source, x, begin)
    inside = out.select(out.binary("and", "i1", below, above), source, x, out.constant(source, 0.0))
    made = out.convert("fptosi" if signed else "fptoui", source, inside, target)
    if signed:
        made = out.select(out.compare("olt", source, x, begin), target, out.constant(target, target.min), made)
    return out.select(out.compare("oge", source, x, end), target, out.constant(target, target.max), made)


def _round_to_bfloat16(out: Instructions, x: str) -> str:
    """Round a float32 to nearest, halves to even, by integer arithmetic on its bits."""
    i32 = "i32"
    bits = out.convert("bitcast", "float", x, i32)
    high = out.binary("lshr", i32, bits, out.spread("16", i32))
    odd = out.binary("and", i32, high, out.spread("1", i32))
    biased = out.binary("add", i32, out.binary("add", i32, bits, out.spread("32767", i32)), odd)
    rounded = out.binary("lshr", i32, biased, out.spread("16", i32))
    quiet = out.binary("or", i32, high, out.spread("64", i32))
    is_nan = out.compare("uno", float32, x, x)
    return out.convert("trunc", i32, out.select(is_nan, i32, quiet, rounded), "i16")


def _bitcast(out: Instructions, node: Op, x: list[str]) -> str:
    assert node.result is not None
    source, target = scalar_type(_type(node)), scalar_type(node.result.type)
    return x[0] if source == target else out.convert("bitcast", source, x[0], target)


# The elementary functions have no rows: they have become functions of the library by now.
LLVM_RULES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": _extreme(is_max=False),
    "max": _extreme(is_max=True),
    "copysign": _float_intrinsic("copysign"),
    "fma": _fma,
    "neg": _neg,
    "abs": _abs,
    "sqrt": _float_intrinsic("sqrt"),
    "floor": _float_intrinsic("floor"),
    "ceil": _float_intrinsic("ceil"),
    "trunc": _float_intrinsic("trunc"),
    "round": _float_intrinsic("round"),
    "rint": _float_intrinsic("roundeven"),
    "and": _bitwise("and"),
    "or": _bitwise("or"),
    "xor": _bitwise("xor"),
    "not": _not,
    "bit_count": _bit_count,
    "shl": _shl,
    "shr": _shr,
    "nonzero": lambda out, node, x: out.compare("une", _type(node), x[0], out.constant(_type(node), 0.0)),
    "lt": _comparison("olt", "lt"),
    "le": _comparison("ole", "le"),
    "gt": _comparison("ogt", "gt"),
    "ge": _comparison("oge", "ge"),
    "eq": _comparison("oeq", "eq"),
    "ne": _comparison("une", "ne"),
    "select": _select,
    "follow": lambda out, node, x: x[0],
    "slope": lambda out, node, x: x[0],
    "barred": lambda out, node, x: x[0],
    "symmetric": lambda out, node, x: x[0],
    "separation": lambda out, node, x: x[0],
    "replayed": lambda out, node, x: x[0],
    "given": lambda out, node, x: x[-1],
    "lane_affinity": lambda out, node, x: x[0],
    "lane_divergence": lambda out, node, x: x[0],
    "any_lane": lambda out, node, x: x[0],
    "many_lanes": lambda out, node, x: x[0],
    "one_of": lambda out, node, x: x[0],
    "cast": _cast,
    "bitcast": _bitcast,
}
