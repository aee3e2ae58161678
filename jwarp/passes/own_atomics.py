"""Atomic operations on arrays of the thread's own become a load and a store, where what they found is used.

No other thread sees such an array, so both do the same, and the two have derivatives whatever comes of what was found.
"""

from __future__ import annotations

import dataclasses

from jwarp.ir.clone import Cloner
from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import Kernel, Node, Op, Value


def plain_atomics(kernel: Kernel) -> Kernel:
    """The kernel with loads and stores for them; the same one, if there are none."""
    contents = contents_of(kernel.body)
    ops = (n for n in contents.accesses if n.row.is_atomic and n.result in contents.used)
    # A comparison bit by bit has no such form.
    found = frozenset(n.result for n in ops if kernel.local(n.array) is not None and len(n.values) == 1)
    return dataclasses.replace(kernel, body=_Plain(found).block(kernel.body)) if found else kernel


class _Plain(Cloner):
    """Copies with a load and a store for the atomic operations that have one of the results `found`."""

    def __init__(self, found: frozenset[Value | None]):
        super().__init__()
        self.found = found

    def nodes(self, node: Node) -> list[Node]:
        if not isinstance(node, Op) or node.result not in self.found:
            return super().nodes(node)
        assert node.result is not None
        indices, (new,), span = self.operands(node.indices), self.operands(node.values), node.span
        before = self.fresh(node.result)
        load = Op("load", indices, node.attr, before, span)
        made = [load]
        if node.row.combines:
            combined = Value(before.type)
            made.append(Op(node.row.combines, (before, new), None, combined, span))
            new = combined
        return [*made, Op("store", (*indices, new), node.attr, None, span)]
