"""Two array parameters that are one and the same array in a launch become one parameter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Kernel, Node, Op

READS = ("load", "inside")


def merge_arrays(kernel: Kernel, into: Mapping[int, int]) -> Kernel:
    """`kernel` with every read of array parameter p made a read of `into[p]`.

    The parameters stay, and the kernel must not write to p. In the result, a read sees what was written to
    `into[p]` before, which code that takes the two for different arrays need not do.
    """
    return dataclasses.replace(kernel, body=_Merger(into).block(kernel.body))


class _Merger(Cloner):
    def __init__(self, into: Mapping[int, int]):
        super().__init__()
        self.into = into

    def node(self, node: Node) -> Node:
        if isinstance(node, Op) and node.name in READS and node.attr in self.into:
            node = dataclasses.replace(node, attr=self.into[node.attr])
        return super().node(node)
