"""Finds the arrays that a kernel does nothing with but add to, and estimates how long a thread runs."""

from __future__ import annotations

from collections.abc import Sequence

from jwarp.analysis.ownership import MAX_OFFSET, Form, ThreadIndices
from jwarp.ir.attributes import BlockMatmul
from jwarp.ir.contents import contents_of, native_arrays
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Node, Op, While, overlaps_of

# Tenths of a nanosecond, as vector code takes them per thread.
_OPERATION, _ACCESS, _ATOMIC = 1, 4, 20
# Multiplications of a product of matrices in a tenth of a nanosecond.
_PRODUCTS = 7
# Elements in a vector, and what one operation on it takes.
_LANES, _LANE_WEIGHT = 16, 4
# The assumed trip counts of loops if only the launch knows them: of the outermost one, and of loops inside, that mostly
# go through parts of what there is. A loop that ends by a condition, such as a search, ends sooner.
_ITERATIONS = (64, 8, 2)
_SOONER = 4
# A block has few tiles in a row.
_TILE_ITERATIONS = (8,)

# Of a function: what it weighs by how many entries of iterations are left where it is called.
_Weights = dict[int, int]
MAX_WEIGHT = 1 << 40


def sums_of(kernel: Kernel) -> frozenset[int]:
    """The parameters that threads only add to, without looking at what was there before.

    Nothing in a launch depends on the order of such additions but their rounding. So they need not be
    atomic, if each thread of the processor adds to arrays of its own.
    """
    contents = contents_of(kernel.body)
    others = {n.array for n in contents.accesses if not n.row.is_addition or n.result in contents.used}
    added = frozenset(node.array for node in contents.accesses)
    others |= {n for n in added if n < len(kernel.params) and kernel.params[n].is_heap}  # of which there are no copies
    return added.difference(overlaps_of(kernel)(others), native_arrays(kernel.body))


def apart_of(kernel: Kernel, array: int) -> int:
    """How the first coordinates of threads tell the elements apart that they access.

    0: they do not. 1: two threads that differ in it access no element in common. More: so it is in launches
    whose last dimension is no longer than that.
    """
    indices, found = ThreadIndices(kernel), []
    for node in contents_of(kernel.body).accesses:
        if node.array == array:
            found.append([indices.form(i) for i in node.indices])
    common = (forms[0] for forms in zip(*found, strict=True) if all(form == forms[0] for form in forms))
    return max((_apart(form, kernel.tid_dims - 1) for form in common if form is not None), default=0)


def _apart(form: Form, last: int) -> int:
    """As `apart_of`, of an index; a negative one would count from the end."""
    step = form.terms.get(0, 0)
    if step < 1 or form.inner or not 0 <= form.constant <= MAX_OFFSET:
        return 0
    others = {axis: factor for axis, factor in form.terms.items() if axis != 0}
    if not others:
        return 1 if step == 1 else 0
    return step if others == {last: 1} and step > 1 else 0


def weight_of(kernel: Kernel) -> int:
    """A rough estimate of a thread's work, in tenths of a nanosecond; at least 1."""
    iterations = _TILE_ITERATIONS if kernel.block_dim else _ITERATIONS
    inside = [iterations[k:] for k in range(len(iterations))]
    called: list[_Weights] = []  # functions call those before them
    for function in kernel.functions:
        called.append({len(unknown): _block_weight(function.body, unknown, called) for unknown in inside})
    return max(1, min(MAX_WEIGHT, _block_weight(kernel.body, iterations, called)))


def _block_weight(block: Block, unknown: Sequence[int], called: Sequence[_Weights]) -> int:
    return sum(_node_weight(node, unknown, called) for node in block.nodes)


def _node_weight(node: Node, unknown: Sequence[int], called: Sequence[_Weights]) -> int:
    """`unknown` is how many iterations loops make where only the launch knows, `called` what functions weigh."""
    match node:
        case Op(row=row) if row.is_call:
            return called[node.number][len(unknown)]
        case Op(row=row) if row.is_product:
            attr = node.attr_as(BlockMatmul)
            return max(1, attr.m * attr.n * attr.k // _PRODUCTS)
        case Op():
            row = node.row
            return _ATOMIC if row.is_atomic else _ACCESS if row.is_access else _OPERATION
        case If():
            return _block_weight(node.then, unknown, called) + _block_weight(node.orelse, unknown, called)
        case For():
            iterations, inside = unknown[0], unknown[1:] or unknown
            if isinstance(node.lo, Const) and isinstance(node.hi, Const):
                iterations, inside = len(range(node.lo.value, node.hi.value, node.step)), unknown
            if node.lanes is not None:  # vectors of elements
                return -(-iterations // _LANES) * _LANE_WEIGHT * _block_weight(node.body, inside, called)
            return iterations * _block_weight(node.body, inside, called)
        case While():
            iterations, inside = max(unknown[0] // _SOONER, 1), unknown[1:] or unknown
            return iterations * (_block_weight(node.cond, inside, called) + _block_weight(node.body, inside, called))
