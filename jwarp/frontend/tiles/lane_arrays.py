"""Local arrays of which each lane of a block has another one: arrays of the block with an axis for the lanes."""

from __future__ import annotations

import dataclasses
from collections.abc import Container

from jwarp.errors import CompileError, Span
from jwarp.ir.builder import zero
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Block, Const, For, Kernel, Local, Node, Op, Operand, Value
from jwarp.ir.verify import MAX_SHARED_BYTES
from jwarp.types import MAX_DIMS, ArrayType, int32


def cleared_by_lanes(kernel: Kernel, arrays: Container[int]) -> Kernel:
    """The code of a thread that sets the elements of some local arrays to zero one by one.

    Where lanes part, each clears its own.
    """
    return dataclasses.replace(kernel, body=_Cleared(kernel, arrays).block(kernel.body))


class _Cleared(Cloner):
    def __init__(self, kernel: Kernel, arrays: Container[int]):
        super().__init__()
        self.kernel, self.arrays = kernel, arrays

    def fresh(self, value: Value) -> Value:
        return value

    def nodes(self, node: Node) -> list[Node]:
        if not isinstance(node, Op) or not node.row.clears or node.array not in self.arrays:
            return super().nodes(node)
        local = self.kernel.local(node.array)
        assert local is not None
        return [_zeros(local, node.array, (), node.span)]


def _zeros(local: Local, array: int, indices: tuple[Operand, ...], span: Span) -> Node:
    """Loops over the axes that have no index yet, and a store."""
    axis = len(indices)
    if axis == len(local.shape):
        return Op("store", (*indices, zero(local.dtype)), array, None, span)
    index = Value(int32)
    body = Block((_zeros(local, array, (*indices, index), span),))
    return For(index, Const(int32, 0), Const(int32, local.shape[axis]), 1, (), (), body, (), span)


def with_lane(kernel: Kernel, node: Op, number: Operand) -> Op:
    """An access to an element of a local array, as that of lane `number`.

    What the lanes have for one element lies side by side: most accesses of a block are to one element of all lanes.
    """
    local = kernel.local(node.array)
    assert local is not None
    dims = local.type.dims
    return dataclasses.replace(node, args=(*node.args[:dims], number, *node.args[dims:]))


def with_lanes(kernel: Kernel, arrays: Container[int], block_dim: int) -> tuple[Local, ...]:
    """The local arrays of a block.

    Raises:
        CompileError: they are too large, or have too many dimensions.
    """
    made = []
    for number, local in enumerate(kernel.locals, len(kernel.params)):
        if number not in arrays:
            made.append(local)
            continue
        if local.type.dims == MAX_DIMS:
            raise CompileError(
                f"`{local.name}` has {MAX_DIMS} dimensions, and what the threads of a block have in theirs differs",
                kernel.span,
                "give it fewer dimensions",
            )
        kind = ArrayType(local.type.element, local.type.dims + 1)
        dims = local.type.dims
        shape = (*local.shape[:dims], block_dim, *local.shape[dims:])
        made.append(Local(local.name, kind, shape, shared=True))
    size = sum(local.size * local.dtype.bits // 8 for local in made if local.shared)
    if size > MAX_SHARED_BYTES:
        raise CompileError(
            f"the local arrays of a block of {block_dim} threads need {size} bytes, of {MAX_SHARED_BYTES}",
            kernel.span,
            "make them smaller, or launch with a smaller block_dim",
        )
    return tuple(made)
