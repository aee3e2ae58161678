"""Batches as threads: a kernel whose last axis has one thread runs over the elements of a batch there instead.

Threads of one launch fill the lanes of a vector, elements of a batch follow each other. A kernel for one thing, batched
over thousands, becomes by this the kernel for all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container

from jwarp.analysis.thread_order import runs_in_order
from jwarp.ir.attributes import ArrayNumber, Extent
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Const, Kernel, Node, Op, Param, Value, failure_texts, has_native_code, prints, walk
from jwarp.types import MAX_DIMS, ArrayType, int32


def becomes_threads(kernel: Kernel, batched: Container[int]) -> bool:
    """True if a batch over these parameters can become threads of the kernel.

    A kernel must not tell who its threads are or run them in order, and its arrays take one axis more.
    """
    arrays = [p for k, p in enumerate(kernel.params) if k in batched and isinstance(p.type, ArrayType)]
    tells = failure_texts(kernel) or prints(kernel)
    if tells or runs_in_order(kernel) or any(p.type.dims >= MAX_DIMS for p in arrays):  # type: ignore[union-attr]
        return False
    return not has_native_code(kernel.body) and not any(
        isinstance(n, Op) and n.row.is_thread_number for n in walk(kernel.body)
    )


def batch_to_threads(kernel: Kernel, batched: Container[int]) -> Kernel:
    """`kernel` with the element of the batch in place of its last coordinate, which must be 0.

    Parameters `batched` have the axis of the batch in front, so that scalars become arrays.
    """
    params = tuple(_with_axis(p) if k in batched else p for k, p in enumerate(kernel.params))
    return dataclasses.replace(kernel, params=params, body=_Batcher(kernel, batched).block(kernel.body))


def _with_axis(param: Param) -> Param:
    if isinstance(param.type, ArrayType):
        return Param(param.name, ArrayType(param.type.element, param.type.dims + 1))
    return Param(param.name, ArrayType(param.type, 1))


class _Batcher(Cloner):
    def __init__(self, kernel: Kernel, batched: Container[int]):
        super().__init__()
        self.batched, self.axis = batched, kernel.tid_dims - 1

    def nodes(self, node: Node) -> list[Node]:
        if not isinstance(node, Op):
            return [self.node(node)]
        if node.row.is_coordinate and node.attr == self.axis:
            assert node.result is not None
            self.known[node.result] = Const(int32, 0)
            return []
        made = self.node(node)
        assert isinstance(made, Op)
        if node.row.is_extent and node.attr_as(Extent).array in self.batched:
            extent = node.attr_as(Extent)
            return [dataclasses.replace(made, attr=Extent(extent.array, extent.axis + 1))]
        at_indices = node.row.indices is not None and node.row.attribute is ArrayNumber
        if not (at_indices or node.row.is_parameter) or node.attr not in self.batched:
            return [made]
        element = Value(int32)
        name = "load" if node.row.is_parameter else node.name
        own = Op("tid", (), self.axis, element, node.span)
        return [own, dataclasses.replace(made, name=name, args=(element, *made.args))]
