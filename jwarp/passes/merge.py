"""Two array parameters that are one and the same array in a launch become one parameter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from jwarp.ir.nodes import Kernel, Op, renumbered
from jwarp.ir.visit import map_ops


def merge_arrays(kernel: Kernel, into: Mapping[int, int]) -> Kernel:
    """`kernel` with every access to array parameter p made one to `into[p]`.

    The parameters stay. In the result, a read sees what was written to the other before, which code that takes the two
    for different arrays need not do.
    """

    def merged(node: Op) -> Op:
        return renumbered(node, lambda array: into.get(array, array) if isinstance(array, int) else array)

    return dataclasses.replace(kernel, body=map_ops(kernel.body, merged))
