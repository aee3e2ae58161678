"""Finds the arrays that a kernel does nothing with but add to, and estimates how long a thread runs."""

from __future__ import annotations

from jwarp.ir.nodes import ATOMICS, Block, Const, For, If, Kernel, Node, Op, While, used_values, walk

_ACCESSES = frozenset(("load", "store", *(f"atomic_{name}" for name in ATOMICS)))

# Tenths of a nanosecond, as vector code takes them per thread.
_OPERATION, _ACCESS, _ATOMIC = 1, 4, 20
# Multiplications of a product of matrices in a tenth of a nanosecond.
_PRODUCTS = 5
# Elements in a vector, and what one operation on it takes.
_LANES, _LANE_WEIGHT = 16, 8
# What a loop is taken to do where only the launch knows.
_TRIPS = 64
MAX_WEIGHT = 1 << 40


def sums_of(kernel: Kernel) -> frozenset[int]:
    """The parameters that threads only add to, without looking at what was there before.

    Nothing in a launch depends on the order of such additions but their rounding. So they need not be
    atomic, if each thread of the processor adds to arrays of its own.
    """
    used = used_values(kernel.body)
    accesses = [node for node in walk(kernel.body) if isinstance(node, Op) and node.name in _ACCESSES]
    others = {n.attr for n in accesses if n.name != "atomic_add" or n.result in used}
    return frozenset(node.attr for node in accesses) - others


def weight_of(kernel: Kernel) -> int:
    """A rough estimate of a thread's work, in tenths of a nanosecond; at least 1."""
    return max(1, min(MAX_WEIGHT, _block_weight(kernel.body)))


def _block_weight(block: Block) -> int:
    return sum(map(_node_weight, block.nodes))


def _node_weight(node: Node) -> int:
    match node:
        case Op(name="tile_matmul"):
            m, n, k = node.attr[3:6]
            return max(1, m * n * k // _PRODUCTS)
        case Op():
            atomic = node.name.startswith("atomic_")
            return _ATOMIC if atomic else _ACCESS if node.name in _ACCESSES else _OPERATION
        case If():
            return _block_weight(node.then) + _block_weight(node.orelse)
        case For():
            trips = _TRIPS
            if isinstance(node.lo, Const) and isinstance(node.hi, Const):
                trips = len(range(node.lo.value, node.hi.value, node.step))
            if node.lanes is not None:  # vectors of elements
                return -(-trips // _LANES) * _LANE_WEIGHT * _block_weight(node.body)
            return trips * _block_weight(node.body)
        case While():
            return _TRIPS * (_block_weight(node.cond) + _block_weight(node.body))
