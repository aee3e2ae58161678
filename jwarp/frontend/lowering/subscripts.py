"""Lowers what stands in brackets: elements of arrays, components of vectors and matrices."""

from __future__ import annotations

import ast

from jwarp.errors import CompileError, KernelTypeError
from jwarp.frontend.context import from_start, scalar_hint
from jwarp.frontend.lowering.expressions import ExpressionLowering
from jwarp.frontend.tiles import subscripts
from jwarp.frontend.values import composites, structs
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    Number,
    Shape,
    StructArray,
    TileRef,
    describe,
)
from jwarp.ir.nodes import Const, Operand, Value
from jwarp.types import CompositeType


class SubscriptLowering(ExpressionLowering):
    """The part of a lowering that deals with arrays, indices and slices."""

    def lower_Subscript(self, node: ast.Subscript) -> Binding:
        owner, span = self.expression(node.value), self.span(node)
        if isinstance(owner, (ArrayRef, StructArray)):
            found = self.element_or_row(owner, node)
            if not isinstance(found, tuple):
                return found
            if isinstance(owner, StructArray):
                return structs.element(self, owner, found, span)
            return self.load(owner, found, span)
        if isinstance(owner, TileRef):
            return subscripts.read(self, owner, node)
        if isinstance(owner, Composite):
            return composites.read(self, owner, self.selectors(owner.type, node), span)
        if isinstance(owner, (Shape, tuple)):
            length = owner.array.type.dims if isinstance(owner, Shape) else len(owner)
            k = self.static_index(node.slice, length)
            return owner[k] if isinstance(owner, tuple) else self.extent(owner.array, k, span)
        raise KernelTypeError(f"{describe(owner)} cannot be indexed", span, scalar_hint(owner))

    def selectors(self, type: CompositeType, node: ast.Subscript) -> tuple[composites.Selector, ...]:
        """What the indices and slices of `v[…]` or `m[…]` select."""
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) > len(type.shape):
            raise KernelTypeError(f"{type} takes {len(type.shape)} index(es), {len(items)} given", self.span(node))
        return tuple(self.selector(item, extent) for item, extent in zip(items, type.shape, strict=False))

    def selector(self, node: ast.expr, extent: int) -> composites.Selector:
        if not isinstance(node, ast.Slice):
            index = composites.index_of(self.expression(node), extent, self.span(node))
            if self.debug and isinstance(index, Value):
                self.check_component(index, extent)
            return index
        parts = (node.lower, node.upper, node.step)
        bounds = [None if part is None else self.constant_integer(part) for part in parts]
        positions = range(extent)[slice(*bounds)] if bounds[2] != 0 else ()
        if not isinstance(positions, range) or not positions:
            raise CompileError("this slice has no components", self.span(node))
        return positions

    def check_component(self, index: Value, extent: int) -> None:
        """Debug mode: an index of a vector or matrix must be one of its components."""
        holds = self.builder.op("lt", index, Const(index.type, extent))
        if index.type.kind == "int":
            holds = self.builder.op("and", holds, self.builder.op("ge", index, Const(index.type, -extent)))
        self.builder.check(holds, f"index outside of the {extent} components of an axis")

    def static_index(self, node: ast.expr, length: int) -> int:
        """An index that must be known when the kernel is built."""
        value = self.constant_integer(node)
        if not -length <= value < length:
            raise CompileError(f"index {value} is outside 0 to {length - 1}", self.span(node))
        return value % length

    def constant_integer(self, node: ast.expr) -> int:
        binding = self.expression(node)
        value = binding.value if isinstance(binding, (Number, Const)) else None
        if not isinstance(value, int) or isinstance(value, bool):
            raise CompileError(
                "this index must be a constant integer", self.span(node), "for an index that varies, use an array"
            )
        return value

    def element_or_row(
        self, array: ArrayRef | StructArray, node: ast.Subscript
    ) -> tuple[Operand, ...] | ArrayRef | StructArray:
        """The indices of an element, as int32 or int64; of fewer axes, a row.

        Those of an element of a plain array start with those of its row.
        """
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        while items and _is_whole(items[-1]):  # a[i, :] is a[i]
            items = items[:-1]
        for item in items:
            if not isinstance(item, ast.Slice):
                continue
            raise CompileError(
                "array slices are not part of the kernel language, but for whole rows: a[i], a[i, :]",
                self.span(item),
                "loop over the elements and index each",
            )
        if len(items) > array.type.dims:
            raise KernelTypeError(
                f"`{array.name}` has {array.type.dims} dimension(s), {len(items)} index(es) given",
                self.span(node),
                "give one index for each dimension: a[i], b[i, j]",
            )
        if isinstance(array, StructArray):
            indices = tuple(self.index(item, array.first) for item in items)
            return indices if len(items) == array.type.dims else array.row(indices)
        indices = from_start(array, tuple(self.index(item, array) for item in items))
        return (*array.prefix, *indices) if len(items) == array.type.dims else array.row(indices)

    def index(self, node: ast.expr, array: ArrayRef) -> Operand:
        return self.as_index(self.expression(node), array, self.span(node))


def _is_whole(node: ast.expr) -> bool:
    """Whether `node` is a bare `:`."""
    return isinstance(node, ast.Slice) and not (node.lower or node.upper or node.step)
