"""Python's operators: their symbols, and the operations that they are on scalars."""

from __future__ import annotations

import ast

BINARY_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "add"),
    ast.Sub: ("-", "sub"),
    ast.Mult: ("*", "mul"),
    ast.Div: ("/", "div"),
    ast.FloorDiv: ("//", "floordiv"),
    ast.Mod: ("%", "mod"),
    ast.Pow: ("**", "pow"),
    ast.MatMult: ("@", "matmul"),
    ast.BitAnd: ("&", "and"),
    ast.BitOr: ("|", "or"),
    ast.BitXor: ("^", "xor"),
    ast.LShift: ("<<", "shl"),
    ast.RShift: (">>", "shr"),
}
UNARY_OPERATORS: dict[type[ast.unaryop], str] = {ast.USub: "neg", ast.Invert: "not"}
COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "lt"),
    ast.LtE: ("<=", "le"),
    ast.Gt: (">", "gt"),
    ast.GtE: (">=", "ge"),
    ast.Eq: ("==", "eq"),
    ast.NotEq: ("!=", "ne"),
}

# By the operation, how it is written.
SYMBOLS = {op: symbol for symbol, op in [*BINARY_OPERATORS.values(), *COMPARISONS.values()]} | {"neg": "-", "not": "~"}

# By the operation, the name of a function of the user's that is called instead where it takes the operands, as in Warp.
OVERLOADS = {
    name: {"matmul": "mul", "and": "bit_and", "or": "bit_or", "xor": "bit_xor", "shl": "lshift", "shr": "rshift"}.get(
        name, name
    )
    for _, name in BINARY_OPERATORS.values()
} | {"neg": "neg", "not": "invert"}
