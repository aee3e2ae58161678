"""Finds what loops carry round and that never changes, also where a trip exchanges it with something equal."""

from __future__ import annotations

from collections.abc import Callable, Collection

from jwarp.ir.nodes import Block, For, If, Node, Operand, Value, While, results


def unchanged(
    node: For | While, positions: Collection[int], known: Callable[[Operand], Operand] = lambda x: x
) -> dict[int, Operand]:
    """Those of the positions of carried values that are in every trip what they are at first, and what that is.

    It is assumed of all, and given up where the body says otherwise, until that ends. `known` says what values from
    outside have been found to be.
    """
    init = {k: known(node.init[k]) for k in positions}
    while init:
        body = _Body(node.body, {node.params[k]: x for k, x in init.items()}, known)
        changed = [k for k, x in init.items() if body.value(node.body.yields[k]) != x]
        if not changed:
            break
        for k in changed:
            del init[k]
    return init


class _Body:
    """What values that a block computes are, under what is assumed of some."""

    def __init__(self, block: Block, assumed: dict[Value, Operand], known: Callable[[Operand], Operand]):
        self.block, self.assumed, self.known = block, assumed, known
        self._joins: dict[Value, tuple[Node, int]] | None = None
        self._loops: dict[int, dict[int, Operand]] = {}  # by identity

    @property
    def joins(self) -> dict[Value, tuple[Node, int]]:
        """The results of branches and loops in the block, each with its place among them."""
        if self._joins is None:
            nodes = (n for n in self.block.nodes if isinstance(n, (If, For, While)))
            self._joins = {result: (n, k) for n in nodes for k, result in enumerate(results(n))}
        return self._joins

    def value(self, x: Operand) -> Operand:
        """What `x` is: something from outside, or itself."""
        if not isinstance(x, Value):
            return x
        if x not in self.assumed and x in self.joins:
            self.assumed[x] = self._joined(x, *self.joins[x])
        return self.assumed[x] if x in self.assumed else self.known(x)

    def _joined(self, x: Value, node: Node, k: int) -> Operand:
        if isinstance(node, If):
            sides = {_Body(b, dict(self.assumed), self.known).value(b.yields[k]) for b in (node.then, node.orelse)}
            return sides.pop() if len(sides) == 1 else x
        assert isinstance(node, (For, While))
        if id(node) not in self._loops:
            self._loops[id(node)] = unchanged(node, range(len(node.params)), self.value)
        return self._loops[id(node)].get(k, x)
