"""Writes `jwarp/__init__.pyi`, what type checkers and editors read, of the tables: `python -m` this module.

The names that `jwarp/__init__.py` and `jwarp/public.py` import are imported by the stub too; those that come from a
table are written out. It needs ruff, which lays the text out.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from jwarp.constants import CONSTANTS
from jwarp.frontend.builtins.signatures import Described
from jwarp.frontend.builtins.table import BUILTINS, LIBRARY
from jwarp.frontend.values.operator_table import OPERATORS, UNARY
from jwarp.types import (
    MATRIX,
    NAMED,
    QUATERNION,
    SCALARS,
    TRANSFORM,
    VECTOR,
    CompositeKind,
    CompositeType,
    Part,
    ScalarType,
    composite,
    float32,
    int32,
)

PACKAGE = Path(__file__).parents[2]
PATH = PACKAGE / "__init__.pyi"
ANNOTATIONS = Path(__file__).with_name("annotations.pyi")

_HEADER = '''"""Kernels written in Python become JAX functions: `import jwarp as wp`.

Made by `python -m jwarp.frontend.builtins.stub`: change the tables that it is made of.
"""

import builtins
from collections.abc import Callable
from typing import Any
from typing import overload as _overload
'''

_FOOTER = """
Function = Callable[..., Any]
handle = uint64
__version__: str
"""


def written() -> str:
    """The text of the stub."""
    known = _defined(ANNOTATIONS)
    public = [name for name in known if name in (*_TYPES, *SCALARS)]
    rows = [row for name, row in sorted((BUILTINS | LIBRARY).items()) if name not in public]
    body = "\n".join([*_composites(), *(text for row in rows for text in _function(row))])
    used = [name for name in known if name not in public and re.search(rf"\b{name}\b", body)]
    parts = [
        _HEADER,
        *_imports(known),
        *(f"from jwarp.frontend.builtins.annotations import {name}" for name in used),
        *(f"from jwarp.frontend.builtins.annotations import {name} as {name}" for name in public),
        "bool = builtins.bool",
        *(f"{name}: float" for name in CONSTANTS),
        body,
        _FOOTER,
    ]
    return _formatted("\n".join(parts))


_TYPES = (
    *("array", "array1d", "array2d", "array3d", "array4d", "tile", "tile_stack", "Float", "Int", "Scalar"),
    *("HashGridQuery", "BvhQuery", "MeshQuery", "MeshQueryAABB", "BvhQueryTiled", "MeshQueryAABBTiled"),
)


def _defined(path: Path) -> list[str]:
    """The names that a file defines at its top level."""
    found = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            found += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return found


def _imports(known: list[str]) -> Iterator[str]:
    """The imports of the package's public names that no table has, as the package itself has them."""
    texts = [(PACKAGE / name).read_text() for name in ("__init__.py", "public.py")]
    for node in (node for text in texts for node in ast.parse(text).body):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.asname == alias.name and alias.name not in known:
                    yield f"from {node.module} import {alias.name} as {alias.name}"


# -- vectors, matrices and other kinds


def _composites() -> Iterator[str]:
    """A class for each composite type that has a name, and another name for a type that has two."""
    first: dict[CompositeType, str] = {}
    for name, kind in NAMED.items():
        if kind in first:
            yield f"{name} = {first[kind]}"
        else:
            first[kind] = name
            yield _class(name, kind)


def _class(name: str, kind: CompositeType) -> str:
    component = _scalar(kind.dtype)
    base = {VECTOR: "Vector", MATRIX: "Matrix"}.get(kind.kind)
    number = "float" if kind.dtype.is_float else "int"
    given = component if component == number else f"{component} | {number}"  # numbers are converted
    fields = [f"{field}: {component}" for field in kind.kind.components[: kind.size]]
    fields += [f"{field}: {_part(part, kind.dtype)}" for field, part in kind.kind.parts]
    parameters = ", ".join(f"{field}: {given}" for field in _entries(kind))
    if base:
        bases, operators = f"{base}[{component}, {_partner(kind)}]", []
        made = [f"value: {given} | {base}[Any, Any] = ..., /"]
    else:
        own = {QUATERNION: "Quaternion", TRANSFORM: "Transform"}.get(kind.kind, "Components")
        bases, operators = f"{own}[{component}]", list(_operators(kind.kind, component, name))
        made = ["*parts: Any"]
    made += [", ".join(f"{n}: Any" for n in names) for shape, names in kind.kind.parameters if shape == kind.shape]
    return "\n    ".join(
        [
            f"class {name}({bases}):",
            f'"""{inspect.getdoc(kind)}"""',
            *fields,
            "@_overload",
            f"def __init__(self, {parameters}, /) -> None: ...",
            *(line for given in made for line in ("@_overload", f"def __init__(self, {given}) -> None: ...")),
            *operators,
            f"def __set__(self, instance: Any, value: {name} | HostValue, /) -> None: ...",
        ]
    )


def _part(part: Part, dtype: ScalarType) -> str:
    """The name of the type of a part."""
    type = composite(part.kind, (part.extent,), dtype)
    return next(name for name, known in NAMED.items() if known is type)


def _partner(kind: CompositeType) -> str:
    """The square matrix of as many rows as a vector has components, or the vector that is a row of a matrix."""
    rank, other = len(kind.shape), MATRIX if kind.kind is VECTOR else VECTOR
    shape = kind.shape[:1] * (3 - rank)
    return next((n for n, t in NAMED.items() if (t.dtype, t.shape, t.kind) == (kind.dtype, shape, other)), "Any")


# The parts of the methods' names that are not those of the operations.
_METHODS = {"div": "truediv", "shl": "lshift", "shr": "rshift"}


def _operators(kind: CompositeKind, component: str, own: str) -> Iterator[str]:
    """The operators of a kind that has no class of its own among the annotations, from their table."""
    found: dict[str, list[str]] = {}
    for name, left, right in OPERATORS:
        if name not in ("eq", *UNARY) and kind in (left, right) and (left is kind or left is None):
            method = f"__{'' if left else 'r'}{_METHODS.get(name, name)}__"
            other = right if left else left
            found.setdefault(method, []).append(own if other is kind else "Any" if other else component)
    for method, others in found.items():
        yield f"def {method}(self, other: {' | '.join(others)}, /) -> {own}: ..."


def _entries(kind: CompositeType) -> list[str]:
    """Names of the components, as parameters."""
    if len(kind.shape) == 1:
        return [f"v{i}" for i in range(kind.size)]
    return [f"m{i}{j}" for i in range(kind.shape[0]) for j in range(kind.shape[1])]


def _scalar(kind: ScalarType) -> str:
    return "float" if kind is float32 else "int" if kind is int32 else kind.name


# -- functions


def _function(row: Described) -> Iterator[str]:
    """The definition of a function, or one for each of its forms; the first has the text."""
    for number, form in enumerate(row.each_form):
        if len(row.each_form) > 1:
            yield "@_overload"
        if number:
            yield f"def {form.text}: ..."
        else:
            yield f"def {form.text}:\n{textwrap.indent(_quoted(str(row.doc)), '    ')}"


def _quoted(doc: str) -> str:
    text = inspect.cleandoc(doc)
    return f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'


def _formatted(text: str) -> str:
    """The text as ruff lays it out."""
    for command in (["check", "--fix", "--quiet", "--select", "I"], ["format"]):
        run = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(PATH), "-"]
        text = subprocess.run(run, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    dir(importlib.import_module("jwarp"))  # fills the tables
    PATH.write_text(written())
