"""Files ask properties of rows, not names: tests of an operation's name only become fewer."""

from __future__ import annotations

import ast
from pathlib import Path

import jwarp
from jwarp.ir.ops import OPS

# The tests of names that are left, by folder: each is about one operation, of which no other fact is asked.
MOST = {
    "ir": 0,
    "analysis": 0,
    "passes": 1,  # division, which `reciprocal_roots` replaces
    "autodiff": 0,
    "tiling": 2,  # `view` as a transpose, and `spread` to few elements, both told by their strides
    "backend/cuda": 0,
    "backend/interpreter": 0,
    "compiler": 0,
    "frontend": 2,  # the test of an index that it wrote, and the product that a loop runs to
    "lib": 0,
}


def named_lines(text: str) -> list[int]:
    """The lines with `node.name == "add"`, `node.name in ("add", "sub")`, or `case Op(name="add")`."""

    def is_named(node: ast.expr) -> bool:
        if isinstance(node, (ast.Tuple, ast.Set, ast.List)):
            return any(map(is_named, node.elts))
        return isinstance(node, ast.Constant) and node.value in OPS

    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left=ast.Attribute(attr="name"), comparators=comparators) if any(
                map(is_named, comparators)
            ):
                found.append(node.lineno)
            case ast.MatchClass(cls=ast.Name(id="Op"), kwd_attrs=names, kwd_patterns=patterns):
                found += [
                    node.lineno
                    for name, pattern in zip(names, patterns, strict=True)
                    for value in ast.walk(pattern)
                    if name == "name" and isinstance(value, ast.Constant) and value.value in OPS
                ]
    return found


def test_name_checks_only_become_fewer():
    root = Path(jwarp.__file__).parent
    count = {}
    for folder in MOST:
        files = list((root / folder).rglob("*.py"))
        assert files, folder
        count[folder] = sum(len(named_lines(path.read_text())) for path in files)
    more = {folder: n for folder, n in count.items() if n > MOST[folder]}
    assert more == {}, "ask a property of the row"


def test_the_search_finds_named_lines():
    text = 'a.name == "add"\nb.name in ("mul", "sub")\nc.name == "x y"\n'
    text += 'match d:\n    case Op(name="add" | "mul"):\n        pass'
    assert named_lines(text) == [1, 2, 5, 5]
