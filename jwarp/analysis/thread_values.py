"""Finds the values that differ between threads: what depends on a thread's coordinates, or is loaded by them."""

from __future__ import annotations

from jwarp.ir.nodes import Block, For, If, Kernel, Op, Operand, Value, While, used_values, walk
from jwarp.types import float32, float64


def thread_values(kernel: Kernel) -> frozenset[Value]:
    """The values that may differ between threads; others are the same while nothing changes what is loaded."""
    own: set[Value] = set()
    before = -1
    while before < len(own):  # until a trip around a loop finds no more
        before = len(own)
        _block(kernel.body, own)
    return frozenset(own)


def _block(block: Block, own: set[Value]) -> None:
    def is_own(x: Operand) -> bool:
        return isinstance(x, Value) and x in own

    for node in block.nodes:
        match node:
            case Op(result=result):
                if result is not None and (node.name == "tid" or node.row.is_atomic or any(map(is_own, node.args))):
                    own.add(result)
            case If(cond=cond, results=results):
                for inner in (node.then, node.orelse):
                    _block(inner, own)
                for k, found in enumerate(results):
                    if is_own(cond) or is_own(node.then.yields[k]) or is_own(node.orelse.yields[k]):
                        own.add(found)
            case For():
                differs = is_own(node.lo) or is_own(node.hi) or node.lanes is not None
                if differs:
                    own.add(node.index)
                _block(node.body, own)
                for param, result, init, after in zip(
                    node.params, node.results, node.init, node.body.yields, strict=True
                ):
                    if differs or is_own(init) or is_own(after):
                        own |= {param, result}
            case While():
                own |= {*node.params, *node.results}
                _block(node.cond, own)
                _block(node.body, own)


def common_sums(kernel: Kernel) -> frozenset[int]:
    """The ids of what adds floats to elements that no thread's coordinates say, so that threads add to one together.

    Kernels whose threads have an order, or work on tiles, have none.
    """
    if kernel.order or kernel.block_dim:
        return frozenset()
    own, used = thread_values(kernel), used_values(kernel.body)
    return frozenset(
        id(node)
        for node in walk(kernel.body)
        if isinstance(node, Op)
        and node.name == "atomic_add"
        and node.array < len(kernel.params)
        and node.args[-1].type in (float32, float64)
        and node.result not in used
        and not own.intersection(node.indices)
    )
