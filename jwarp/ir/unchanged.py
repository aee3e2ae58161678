"""Finds what loops carry round and that never changes, also where an iteration exchanges it with something equal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from jwarp.ir.nodes import Block, For, If, Node, Operand, Value, While, results

# So many times are the bodies of loops gone through for one loop and those in it; what more there is may change.
MAX_BODIES = 64


def unchanged(
    node: For | While,
    known: Callable[[Operand], Operand],
    left: Iterator[int] | None = None,
    positions: Collection[int] | None = None,
) -> dict[int, Operand]:
    """The positions of the carried values that are in every iteration what they are at first, and what that is.

    It is assumed of all, or of those at `positions`, and given up where the body says otherwise, until that ends.
    `known` says what values from outside have been found to be.
    """
    left = iter(range(MAX_BODIES)) if left is None else left
    init = {k: known(x) for k, x in enumerate(node.init) if positions is None or k in positions}
    while init:
        if next(left, None) is None:
            return {k: x for k, x in init.items() if node.body.yields[k] is node.params[k]}
        body = _Body(node.body, {node.params[k]: x for k, x in init.items()}, known, left)
        changed = [k for k, x in init.items() if body.value(node.body.yields[k]) != x]
        if not changed:
            return init
        for k in changed:
            del init[k]
    return init


class _Body:
    """The known equalities of values that a block computes, under assumptions about some."""

    def __init__(
        self,
        block: Block,
        assumed: dict[Value, Operand],
        known: Callable[[Operand], Operand],
        left: Iterator[int],
    ):
        self.block, self.assumed, self.known, self.left = block, assumed, known, left
        self._joins: dict[Value, tuple[Node, int]] | None = None
        self._sides: dict[If, tuple[_Body, _Body]] = {}
        self._loops: dict[For | While, dict[int, Operand]] = {}

    @property
    def joins(self) -> dict[Value, tuple[Node, int]]:
        """The results of branches and loops in the block, each with its place among them."""
        if self._joins is None:
            nodes = (n for n in self.block.nodes if isinstance(n, (If, For, While)))
            self._joins = {result: (n, k) for n in nodes for k, result in enumerate(results(n))}
        return self._joins

    def value(self, x: Operand) -> Operand:
        """The value that `x` equals: one from outside, or itself."""
        if not isinstance(x, Value):
            return x
        if x not in self.assumed and x in self.joins:
            self.assumed[x] = self._joined(x, *self.joins[x])
        return self.assumed[x] if x in self.assumed else self.known(x)

    def _joined(self, x: Value, node: Node, k: int) -> Operand:
        if isinstance(node, If):
            if node not in self._sides:
                then, orelse = (_Body(block, {}, self.value, self.left) for block in (node.then, node.orelse))
                self._sides[node] = then, orelse
            sides = {side.value(side.block.yields[k]) for side in self._sides[node]}
            return sides.pop() if len(sides) == 1 else x
        assert isinstance(node, (For, While))
        if node not in self._loops:
            self._loops[node] = unchanged(node, self.value, self.left)
        return self._loops[node].get(k, x)
