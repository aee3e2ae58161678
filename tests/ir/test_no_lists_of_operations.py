"""Facts about operations stand in their rows: no other file lists operations by name."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import jwarp
from jwarp.ir.operation import Operation
from jwarp.ir.ops import COMBINERS, EXTREMA, OPS, SCANS
from jwarp.types import bool_, int32

ROOT = Path(jwarp.__file__).parent
# The frontend is not among them: it says which operators the language has for which values.
FOLDERS = ("analysis", "passes", "autodiff", "tiling", "backend", "launching", "dispatch", "bind", "ir")
# The table itself.
ROWS = {"ir/ops.py", "ir/tile_ops.py", "ir/derivative_ops.py", "ir/operation.py"}
# Names of C's functions, and of JAX's primitives, that operations have, too.
FOREIGN = {"backend/cuda/host_headers.py", "bind/jax_functions/elementwise.py"}
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def _domain(holds: Callable[[Operation], bool]) -> frozenset[str]:
    return frozenset(name for name, row in OPS.items() if holds(row))


COMBINED = frozenset(row.combines for row in OPS.values() if row.combines)
LOGICAL = _domain(lambda row: row.is_logical) & set(COMBINERS)
# Sets of operations that the rows tell from others: a table with a text or number for each of one is complete.
DOMAINS = {
    frozenset(COMBINERS),
    frozenset(COMBINERS) - LOGICAL,
    LOGICAL,
    frozenset(SCANS),
    COMBINED,
    COMBINED - set(EXTREMA),
    _domain(lambda row: row.is_access and not row.is_atomic),
    _domain(lambda row: row.arity == 2 and row.result is not None and row.result((int32, int32)) is bool_),
}


def _names(nodes: list[ast.expr]) -> list[str]:
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [text for text in texts if text in OPS]


def _compared(node: ast.expr) -> list[ast.expr]:
    """The operands that an equality compares with."""
    is_equality = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq)
    return [*node.comparators, node.left] if is_equality and isinstance(node, ast.Compare) else []


def _lists(tree: ast.Module) -> Iterator[tuple[int, list[str]]]:
    """The lines where several operations stand in one set, tuple, list, pattern or chain of comparisons."""
    for node in ast.walk(tree):
        match node:
            case ast.Set(elts=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                found = _names(parts)
            case ast.MatchOr(patterns=patterns):
                found = _names([p.value for p in patterns if isinstance(p, ast.MatchValue)])
            case ast.BoolOp(op=ast.Or(), values=values):
                found = _names([x for value in values for x in _compared(value)])
            case _:
                continue
        if len(found) >= 2:
            yield node.lineno, found


def test_no_file_lists_operations():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(names)}"
        for path in FILES
        if path.relative_to(ROOT).as_posix() not in ROWS | FOREIGN
        for line, names in _lists(ast.parse(path.read_text()))
    ]
    assert not found, "\n".join(found)
    assert len(FILES) > 200


def test_tables_of_texts_and_numbers_are_complete():
    """Tables of rules may have a default; a fact that is no rule is said of all operations that it is about."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {', '.join(names)}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Dict) and all(isinstance(value, ast.Constant) for value in node.values)
        if len(names := _names([key for key in node.keys if key is not None])) >= 2
        if frozenset(names) not in DOMAINS
    ]
    assert not found, "\n".join(found)
