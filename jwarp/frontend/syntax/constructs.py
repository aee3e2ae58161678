"""Names of the expressions and operators that kernels do not have, and what to write instead."""

from __future__ import annotations

DEFAULT_WAY_OUT = "kernels have numbers, arrays, arithmetic, comparisons, calls, if, for, while and assignments"
_ARRAY = "use an array parameter, a local array by wp.zeros(…), or a tuple for a few numbers"
_LOOP = "write a for statement over range(…)"
_EQUAL = "compare numbers with == and !="

_PRINT = 'print("x", x) prints several values, and so does wp.printf("x %f\\n", x)'

# By the name of the syntax node.
CONSTRUCTS: dict[str, tuple[str, str]] = {
    "Await": ("`await`", DEFAULT_WAY_OUT),
    "Dict": ("a dict", _ARRAY),
    "DictComp": ("a dict comprehension", _LOOP),
    "GeneratorExp": ("a generator expression", _LOOP),
    "In": ("`in`", "compare with each value: x == 1 or x == 2"),
    "Is": ("`is`", _EQUAL),
    "IsNot": ("`is not`", _EQUAL),
    "JoinedStr": ("an f-string", _PRINT),
    "Lambda": ("a lambda", "define a function outside, under @wp.func"),
    "List": ("a list", _ARRAY),
    "ListComp": ("a list comprehension", _LOOP),
    "NamedExpr": ("`:=`", "assign in a statement of its own"),
    "NotIn": ("`not in`", "compare with each value: x != 1 and x != 2"),
    "Set": ("a set", _ARRAY),
    "SetComp": ("a set comprehension", _LOOP),
    "Slice": ("a slice", "index each element"),
    "Starred": ("`*` unpacking", "write the values one by one"),
    "Yield": ("`yield`", "write the values to an array"),
    "YieldFrom": ("`yield`", "write the values to an array"),
}
