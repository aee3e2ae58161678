"""Names of the Python constructs that kernels do not have, and what to write instead."""

from __future__ import annotations

DEFAULT_WAY_OUT = "kernels have numbers, arrays, arithmetic, comparisons, calls, if, for, while and assignments"
_OUTSIDE = "do it outside the kernel"
_ARRAY = "use an array parameter, a local array by wp.zeros(…), or a tuple for a few numbers"
_LOOP = "write a for statement over range(…)"
_EQUAL = "compare numbers with == and !="

# By the name of the syntax node.
CONSTRUCTS: dict[str, tuple[str, str]] = {
    "AnnAssign": ("an annotated assignment", "leave the annotation out; float(0.0) or wp.int64(0) says the type"),
    "AsyncFor": ("`async for`", DEFAULT_WAY_OUT),
    "AsyncFunctionDef": ("`async def`", DEFAULT_WAY_OUT),
    "AsyncWith": ("`async with`", DEFAULT_WAY_OUT),
    "Await": ("`await`", DEFAULT_WAY_OUT),
    "ClassDef": ("a class inside a kernel", _OUTSIDE),
    "Delete": ("`del`", "leave it out: variables need no deleting"),
    "Dict": ("a dict", _ARRAY),
    "DictComp": ("a dict comprehension", _LOOP),
    "FunctionDef": ("a function inside a kernel", "define it outside, under @wp.func"),
    "GeneratorExp": ("a generator expression", _LOOP),
    "Global": ("`global`", "kernels can read outer numbers, but only change array parameters"),
    "Import": ("`import` inside a kernel", "import at the top of the file"),
    "ImportFrom": ("`import` inside a kernel", "import at the top of the file"),
    "In": ("`in`", "compare with each value: x == 1 or x == 2"),
    "Is": ("`is`", _EQUAL),
    "IsNot": ("`is not`", _EQUAL),
    "JoinedStr": ("an f-string", "kernels have no text"),
    "Lambda": ("a lambda", "define a function outside, under @wp.func"),
    "List": ("a list", _ARRAY),
    "ListComp": ("a list comprehension", _LOOP),
    "Match": ("`match`", "write if and elif"),
    "NamedExpr": ("`:=`", "assign in a statement of its own"),
    "Nonlocal": ("`nonlocal`", "kernels can read outer numbers, but only change array parameters"),
    "NotIn": ("`not in`", "compare with each value: x != 1 and x != 2"),
    "Raise": ("`raise`", "write an error code to an array, or use assert"),
    "Set": ("a set", _ARRAY),
    "SetComp": ("a set comprehension", _LOOP),
    "Slice": ("a slice", "index each element"),
    "Starred": ("`*` unpacking", "write the values one by one"),
    "Try": ("`try`", "test the condition with an if"),
    "TryStar": ("`try`", "test the condition with an if"),
    "With": ("`with`", _OUTSIDE),
    "Yield": ("`yield`", "write the values to an array"),
    "YieldFrom": ("`yield`", "write the values to an array"),
}
