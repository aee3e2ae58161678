"""Array parameters that are one and the same array in a launch become one parameter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from jwarp.ir.nodes import Kernel, Op, renumbered
from jwarp.ir.visit import map_ops


def merge_arrays(kernel: Kernel, into: Mapping[int, int]) -> Kernel:
    """`kernel` with all that it does with array parameter p done with `into[p]`.

    The parameters stay. In the result, a read sees what was written to the array before, which code that takes the two
    for different ones need not do.
    """

    def merged(node: Op) -> Op:
        return renumbered(node, lambda array: into.get(array, array) if isinstance(array, int) else array)

    return dataclasses.replace(kernel, body=map_ops(kernel.body, merged))
