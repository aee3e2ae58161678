"""Files ask properties of rows: no file tests an operation's name, or a field of its row that is text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import jwarp
from jwarp.ir.ops import OPS

pytestmark = pytest.mark.quick

ROOT = Path(jwarp.__file__).parent
# The tests of names that are left, by file: each is about one operation, of which no other fact is asked.
LEFT = {
    "passes/reciprocal_roots.py": 1,  # division, which the pass is a rule for
    "frontend/tiles/index_tests.py": 1,  # the test of an index that it wrote itself
    "frontend/tiles/strided_loops.py": 1,  # the product that a loop runs to
}
# Fields of a row that are text, whose values only `ir/` compares: properties of the row tell the rest.
FIELDS = {"effect", "combines", "typed_by"}


def texts(node: ast.AST) -> Iterator[str]:
    """The constants in an expression or a pattern that are text."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def asks(node: ast.expr, attributes: set[str]) -> bool:
    """True if an expression, or an element of a tuple, is an attribute of one of these names."""
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(isinstance(item, ast.Attribute) and item.attr in attributes for item in items)


def named_lines(text: str) -> list[int]:
    """The lines that compare `node.name` with the name of an operation, or a field of a row with text.

    Comparisons are `==`, `!=`, `in` and `not in` with constants on either side, and the patterns of `match`.
    """
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left=left, comparators=comparators):
                sides = [left, *comparators]
                named = any(asks(side, {"name"}) for side in sides)
                constants = [t for side in sides if not isinstance(side, ast.Call) for t in texts(side)]
                if (named and any(t in OPS for t in constants)) or (
                    any(asks(side, FIELDS) for side in sides) and constants
                ):
                    found.append(node.lineno)
            case ast.Match(subject=subject, cases=cases) if asks(subject, {"name", *FIELDS}):
                found += [case.pattern.lineno for case in cases if any(t in OPS for t in texts(case.pattern))]
            case ast.MatchClass(cls=ast.Name(id="Op" | "Operation"), kwd_attrs=names, kwd_patterns=patterns):
                for name, pattern in zip(names, patterns, strict=True):
                    if name in {"name", *FIELDS} and any(texts(pattern)):
                        found.append(node.lineno)
    return found


def test_no_file_tests_names_of_operations():
    files = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "ir" / "operation.py"]
    assert len(files) > 300
    found = {str(path.relative_to(ROOT)): named_lines(path.read_text()) for path in files}
    more = {path: lines for path, lines in found.items() if len(lines) > LEFT.get(path, 0)}
    assert more == {}, "ask a property of the row: ir/operation.py has them"
    assert {path: len(lines) for path, lines in found.items() if path in LEFT} == LEFT, (
        "there are fewer: lower the number"
    )


def test_the_search_finds_named_lines():
    text = 'a.name == "add"\nb.name in ("mul", "sub")\nc.name == "x y"\n"neg" != c.name\nd.row.effect == "read"\n'
    text += 'match d:\n    case Op(name="add" | "mul"):\n        pass\n'
    text += 'match d.name, d.args:\n    case "add", [x, y]:\n        pass\n    case name, _:\n        pass\n'
    assert sorted(named_lines(text)) == [1, 2, 4, 5, 7, 10]


# The middle end, whose facts are about nodes; objects of the user's, which may have no hash, are apart.
KEYED_BY_NODES = ("ir", "analysis", "passes", "autodiff", "tiling", "lib", "backend", "compiler", "frontend/lowering")


def test_no_table_is_keyed_by_the_id_of_a_node():
    """Nodes are equal to themselves alone and have hashes: an `id` may be another node's once the first is gone."""
    found = {}
    for folder in KEYED_BY_NODES:
        files = sorted((ROOT / folder).rglob("*.py"))
        assert files, folder
        for path in files:
            calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
            lines = [n.lineno for n in calls if isinstance(n.func, ast.Name) and n.func.id == "id"]
            if lines:
                found[str(path.relative_to(ROOT))] = lines
    assert found == {}, "key the table by the node"
