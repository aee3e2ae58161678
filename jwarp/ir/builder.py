"""The builder of blocks of IR, with constant folding and the simplifications of `rewrites`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from jwarp.errors import NO_SPAN, Span
from jwarp.ir.attributes import Attribute
from jwarp.ir.evaluate import as_constant, fold
from jwarp.ir.nodes import Block, Const, Node, Op, Operand, Value
from jwarp.ir.ops import OPS
from jwarp.ir.printing import short_file
from jwarp.ir.rewrites import rewritten
from jwarp.ir.tile_types import tile_result
from jwarp.types import ValueType, bool_

TRUE = Const(bool_, True)
FALSE = Const(bool_, False)


def zero(type: ValueType) -> Const:
    """The constant zero (false) of `type`, a tile of such for a tile."""
    return Const(type, {"float": 0.0, "bool": False}.get(type.kind, 0))


def nearest(type: ValueType, number: float) -> Const:
    """The constant of the float type `type` that is nearest to a number, which the type need not have."""
    with np.errstate(over="ignore"):
        return as_constant(type.dtype.type(number), type)


class Builder:
    """Appends nodes to the innermost open block; `span` is what new nodes are stamped with."""

    def __init__(self) -> None:
        self.span: Span = NO_SPAN
        self._open: list[list[Node]] = [[]]

    @property
    def nodes(self) -> list[Node]:
        """The nodes of the innermost open block."""
        return self._open[-1]

    @property
    def depth(self) -> int:
        """How many blocks are open; one where what is appended surely runs."""
        return len(self._open)

    def is_open(self, nodes: list[Node]) -> bool:
        """True if these are the nodes of the innermost open block or of one around it."""
        return any(known is nodes for known in self._open)

    def append(self, node: Node) -> None:
        self._open[-1].append(node)

    def extend(self, nodes: Iterable[Node]) -> None:
        self.nodes.extend(nodes)

    @contextlib.contextmanager
    def block(self) -> Iterator[list[Node]]:
        """Open a block; what is built inside the `with` goes to the list it gives."""
        self._open.append([])
        try:
            yield self._open[-1]
        finally:
            self._open.pop()

    def op(self, name: str, *args: Operand, attr: Attribute | None = None, type: ValueType | None = None) -> Operand:
        """Append operation `name` and return its result, or the value that it folds to."""
        row = OPS[name]
        if row.is_typed_by_attribute:
            type = tile_result(name, tuple([a.type for a in args]), attr)
        elif type is None and row.result is not None:
            type = row.result(tuple([a.type for a in args]))
        if type is None:
            raise TypeError(f"IR operation {name} does not take {[a.type for a in args]}")
        folded = simplify_op(name, args, type)
        if folded is not None:
            return folded
        result = Value(type)
        self.append(Op(name, args, attr, result, self.span))
        return result

    def check(self, holds: Operand, text: str) -> None:
        """Append a check with the place at hand in its text, which compiled code keeps."""
        if holds != TRUE:
            self.effect("check", holds, attr=f"{short_file(self.span)}:{self.span.line}: {text}")

    def effect(self, name: str, *args: Operand, attr: Attribute | None = None) -> None:
        """Append an operation without a result."""
        self.append(Op(name, tuple(args), attr, None, self.span))


def simplify_op(name: str, args: tuple[Operand, ...], type: ValueType) -> Operand | None:
    """The result of a pure operation that is known without running it, or None."""
    row = OPS[name]
    if not row.is_pure:
        return _fold_tile(name, args, type) if row.is_tile else None
    has_constant, is_constant = False, bool(args)
    for x in args:
        if isinstance(x, Const):
            has_constant = True
        else:
            is_constant = False
    if is_constant:
        return fold(name, args, type)  # type: ignore[arg-type]
    return rewritten(name, args, type, has_constant)


def _fold_tile(name: str, args: tuple[Operand, ...], type: ValueType) -> Operand | None:
    """A tile filled with a constant stays one where elements only move."""
    rule = _CONSTANT_TILES.get(name)
    return Const(type, args[0].value) if rule is not None and isinstance(args[0], Const) and rule(args[0]) else None


def make_block(nodes: Iterable[Node], yields: Iterable[Operand] = ()) -> Block:
    """The block of the nodes that were built, which hands `yields` to its owner."""
    return Block(tuple(nodes), tuple(yields))


# True if the result is filled with the constant that the argument is filled with.
_CONSTANT_TILES: dict[str, Callable[[Const], bool]] = {
    "fill": lambda x: True,
    "view": lambda x: True,
    "spread": lambda x: x == zero(x.type),
}
