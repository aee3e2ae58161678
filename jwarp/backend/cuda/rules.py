"""The CUDA C++ expression of each pure operation: one row per row of the operation table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from jwarp.ir.nodes import Const, Op
from jwarp.types import (
    ScalarType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

# Arithmetic on 16-bit floats has become arithmetic on float32 before code is generated. Arguments are names or
# literals, so that they may be next to any operator.
Rule = Callable[[Op, list[str]], str]

C_TYPES: dict[ScalarType, str] = {
    bool_: "bool",
    int8: "signed char",
    int16: "short",
    int32: "int",
    int64: "long long",
    uint8: "unsigned char",
    uint16: "unsigned short",
    uint32: "unsigned",
    uint64: "unsigned long long",
    float16: "jw_half",
    bfloat16: "jw_bfloat",
    float32: "float",
    float64: "double",
}
_SUFFIXES: dict[ScalarType, str] = {int32: "", int64: "ll", uint32: "u", uint64: "ull"}


def memory_type(type: ScalarType) -> str:
    """The C type of an element in memory."""
    return "unsigned char" if type is bool_ else C_TYPES[type]


def literal(constant: Const) -> str:
    """The constant as C++ spells a value of its type; no operator binds tighter than what is around it."""
    type, value = constant.type, constant.value
    if type is bool_:
        return "true" if value else "false"
    if type in (float16, bfloat16):
        bits = np.array(value, type.dtype).view(np.uint16)
        return f"{C_TYPES[type]}{{0x{int(bits):04x}}}"
    if type.is_float:
        return _float(type, value)
    if value == type.min and type.kind == "int" and type.bits >= 32:
        return f"({value + 1}{_SUFFIXES[type]} - 1)"  # C++ has no literals below zero
    text = f"{value}{_SUFFIXES.get(type, '')}"
    if type.bits < 32:
        return f"({C_TYPES[type]}){text}" if value >= 0 else f"({C_TYPES[type]})({text})"
    return text if value >= 0 else f"({text})"


def _float(type: ScalarType, value: float) -> str:
    if not math.isfinite(value):
        bits = np.array(value, type.dtype).view(f"u{type.bits // 8}")
        return f"jw_float(0x{int(bits):08x}u)" if type is float32 else f"jw_double(0x{int(bits):016x}ull)"
    text = str(np.float32(value)) if type is float32 else repr(value)
    text += "" if set(text) & set(".e") else ".0"
    text += "f" if type is float32 else ""
    return text if not text.startswith("-") else f"({text})"


def _type(node: Op) -> ScalarType:
    return node.args[0].type


def _arithmetic(sign: str, name: str) -> Rule:
    return lambda node, x: f"{x[0]} {sign} {x[1]}" if _type(node).is_float else call(f"jw_{name}", *x)


def _operator(sign: str) -> Rule:
    return lambda node, x: f"{x[0]} {sign} {x[1]}"


def _bitwise(sign: str) -> Rule:
    # Small integers become int.
    return lambda node, x: f"({C_TYPES[_type(node)]})({x[0]} {sign} {x[1]})"


def _helper(name: str) -> Rule:
    return lambda node, x: call(f"jw_{name}", *x)


def call(name: str, *args: str) -> str:
    """A call; what is between commas needs no parentheses."""
    return f"{name}({', '.join(map(bare, args))})"


def bare(text: str) -> str:
    """The expression without parentheses around the whole of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    level = 0
    for k, c in enumerate(text):
        level += (c == "(") - (c == ")")
        if level == 0:
            return text[1:-1] if k == len(text) - 1 else text
    return text


def _function(name: str) -> Rule:
    """A function of CUDA's mathematical library, whose names for float32 end in f."""
    return lambda node, x: call(f"{name}{'f' if _type(node) is float32 else ''}", *x)


def several(function: str) -> Callable[[Sequence[Sequence[str]]], str]:
    """A call for several sets of arguments, which are given argument by argument."""

    def rule(rows: Sequence[Sequence[str]]) -> str:
        lists = ", ".join("{" + ", ".join(row) + "}" for row in rows)
        return f"{function}<{len(rows[0])}>({lists})"

    return rule


def _mod(node: Op, x: list[str]) -> str:
    return _function("fmod")(node, x) if _type(node).is_float else call("jw_mod", *x)


def _floordiv(node: Op, x: list[str]) -> str:
    if _type(node).is_float:
        return f"floor{'f' if _type(node) is float32 else ''}({x[0]} / {x[1]})"
    return call("jw_floordiv", *x)


def _neg(node: Op, x: list[str]) -> str:
    return f"-{x[0]}" if _type(node).is_float else call("jw_neg", *x)


def _abs(node: Op, x: list[str]) -> str:
    return _function("fabs")(node, x) if _type(node).is_float else call("jw_abs", *x)


def _not(node: Op, x: list[str]) -> str:
    return f"!{x[0]}" if _type(node) is bool_ else f"({C_TYPES[_type(node)]})(~{x[0]})"


def _cast(node: Op, x: list[str]) -> str:
    assert node.result is not None
    return convert(_type(node), node.result.type, x[0])


def convert(source: ScalarType, target: ScalarType, x: str) -> str:
    """The value `x` of type `source` as `target`."""
    if source is target:
        return x
    if source in (float16, bfloat16):
        return convert(float32, target, call("jw_widen", x))
    if target in (float16, bfloat16):
        name = "jw_to_half" if target is float16 else "jw_to_bfloat"
        return call(name, convert(source, float32, x))
    if target is bool_:
        return f"({x} != {literal(Const(source, 0.0 if source.is_float else 0))})"
    if source.is_float and target.is_int:
        return call(f"jw_to_int<{C_TYPES[target]}>", x)
    return f"({C_TYPES[target]}){x}" if x.isidentifier() else f"({C_TYPES[target]})({bare(x)})"


def _bitcast(node: Op, x: list[str]) -> str:
    assert node.result is not None
    return call(f"jw_bitcast<{C_TYPES[node.result.type]}>", x[0])


CUDA_RULES: dict[str, Rule] = {
    # Elementary functions that CUDA's library has under their names.
    "sin": _function("sin"),
    "cos": _function("cos"),
    "tan": _function("tan"),
    "atan": _function("atan"),
    "atan2": _function("atan2"),
    "exp": _function("exp"),
    "log": _function("log"),
    "log2": _function("log2"),
    "log10": _function("log10"),
    "pow": _function("pow"),
    "sinh": _function("sinh"),
    "cosh": _function("cosh"),
    "tanh": _function("tanh"),
    "cbrt": _function("cbrt"),
    "erf": _function("erf"),
    "erfc": _function("erfc"),
    "erfinv": _function("erfinv"),
    "erfcinv": _function("erfcinv"),
    "add": _arithmetic("+", "add"),
    "sub": _arithmetic("-", "sub"),
    "mul": _arithmetic("*", "mul"),
    "div": _arithmetic("/", "div"),
    "floordiv": _floordiv,
    "mod": _mod,
    "min": _helper("min"),
    "max": _helper("max"),
    "copysign": _function("copysign"),
    "follow": lambda node, x: x[0],
    "slope": lambda node, x: x[0],
    "barred": lambda node, x: x[0],
    "symmetric": lambda node, x: x[0],
    "separation": lambda node, x: x[0],
    "replayed": lambda node, x: x[0],
    "given": lambda node, x: x[-1],
    "lane_affinity": lambda node, x: x[0],
    "lane_divergence": lambda node, x: x[0],
    "any_lane": lambda node, x: x[0],
    "many_lanes": lambda node, x: x[0],
    "one_of": lambda node, x: x[0],
    "fma": _function("fma"),
    "neg": _neg,
    "abs": _abs,
    "sqrt": _function("sqrt"),
    "asin": _helper("asin"),
    "acos": _helper("acos"),
    "floor": _function("floor"),
    "ceil": _function("ceil"),
    "trunc": _function("trunc"),
    "round": _function("round"),
    "rint": _function("rint"),
    "and": _bitwise("&"),
    "or": _bitwise("|"),
    "xor": _bitwise("^"),
    "not": _not,
    "bit_count": _helper("bit_count"),
    "shl": _helper("shl"),
    "shr": _helper("shr"),
    "nonzero": lambda node, x: f"{x[0]} != 0",
    "lt": _operator("<"),
    "le": _operator("<="),
    "gt": _operator(">"),
    "ge": _operator(">="),
    "eq": _operator("=="),
    "ne": _operator("!="),
    "select": lambda node, x: f"{x[0]} ? {x[1]} : {x[2]}",
    "cast": _cast,
    "bitcast": _bitcast,
}

# Operations of float32 that have a branch for rare operands, which several of them have together.
AT_ONCE = {"div": several("jw_quotients"), "sqrt": several("jw_roots")}
INVERSE_ROOTS = several("jw_inverse_roots")
