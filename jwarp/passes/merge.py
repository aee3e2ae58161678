"""Two array parameters that are one and the same array in a launch become one parameter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from jwarp.ir.nodes import Kernel, Op, renumbered
from jwarp.ir.visit import map_ops


def merge_arrays(kernel: Kernel, into: Mapping[int, int]) -> Kernel:
    """`kernel` with every read of array parameter p made a read of `into[p]`.

    The parameters stay, and the kernel must not write to p. In the result, a read sees what was written to
    `into[p]` before, which code that takes the two for different arrays need not do.
    """

    def merged(node: Op) -> Op:
        if node.row.effect == "read" and node.array in into:
            return dataclasses.replace(node, attr=into[node.array])
        if node.row.is_native:
            return renumbered(node, lambda array: into.get(array, array) if isinstance(array, int) else array)
        return node

    return dataclasses.replace(kernel, body=map_ops(kernel.body, merged))
