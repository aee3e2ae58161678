"""Lowers what stands in brackets: elements of arrays, components of vectors and matrices."""

from __future__ import annotations

import ast
import itertools

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend import composites
from jwarp.frontend.bindings import ArrayRef, Binding, Composite, Number, Shape, describe, flatten, layout
from jwarp.frontend.expressions import ExpressionLowering, scalar_hint
from jwarp.ir.nodes import Const, Op, Operand, Value
from jwarp.ir.ops import OPS
from jwarp.types import CompositeType, int32, int64, uint32, uint64


class SubscriptLowering(ExpressionLowering):
    """The part of a lowering that deals with indices and slices."""

    def lower_Subscript(self, node: ast.Subscript) -> Binding:
        owner, span = self.expression(node.value), self.span(node)
        if isinstance(owner, ArrayRef):
            return self.load(owner, self.indices(owner, node), span)
        if isinstance(owner, Composite):
            return composites.read(self, owner, self.selectors(owner.type, node), span)
        if isinstance(owner, (Shape, tuple)):
            length = owner.array.type.dims if isinstance(owner, Shape) else len(owner)
            k = self.static_index(node.slice, length)
            if isinstance(owner, tuple):
                return owner[k]
            result = Value(int32)
            self.builder.append(Op("shape", (), (owner.array.index, k), result, span))
            return result
        raise KernelTypeError(f"{describe(owner)} cannot be indexed", span, scalar_hint(owner))

    def load(self, array: ArrayRef, indices: tuple[Operand, ...], span: Span) -> Binding:
        """The element of `array` at `indices`."""
        items = []
        for component in component_indices(array.type.element):
            result = Value(array.type.dtype)
            self.builder.append(Op("load", (*indices, *component), array.index, result, span))
            items.append(result)
        kind = array.type.element_type
        return Composite(kind, tuple(items)) if isinstance(kind, CompositeType) else items[0]

    def atomic(
        self, name: str, array: ArrayRef, indices: list[Binding], values: list[Binding], spans: list[Span], span: Span
    ) -> Binding:
        """An atomic operation on an element, component by component; what was there before."""
        kind = array.type.element_type
        for value, value_span in zip(values, spans[len(indices) :], strict=True):
            if layout(value, value_span) is not kind:
                raise KernelTypeError(
                    f"`{array.name}` holds {kind}, the value is {describe(value)}", value_span, "convert it"
                )
        if array.type.dtype.kind not in OPS[f"atomic_{name}"].kinds:
            raise KernelTypeError(f"wp.atomic_{name} does not take {array.type.dtype}", span)
        place = tuple(self.as_index(i, array, s) for i, s in zip(indices, spans, strict=False))
        before = []
        parts = zip(*(flatten(v, span) or () for v in values), strict=True)
        for component, scalars in zip(component_indices(array.type.element), parts, strict=True):
            result = Value(array.type.dtype)
            self.builder.append(Op(f"atomic_{name}", (*place, *component, *scalars), array.index, result, span))
            before.append(result)
        return Composite(kind, tuple(before)) if isinstance(kind, CompositeType) else before[0]

    def selectors(self, type: CompositeType, node: ast.Subscript) -> tuple[composites.Selector, ...]:
        """What the indices and slices of `v[…]` or `m[…]` select."""
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) > len(type.shape):
            raise KernelTypeError(f"{type} takes {len(type.shape)} index(es), {len(items)} given", self.span(node))
        return tuple(self.selector(item, extent) for item, extent in zip(items, type.shape, strict=False))

    def selector(self, node: ast.expr, extent: int) -> composites.Selector:
        if not isinstance(node, ast.Slice):
            return composites.index_of(self.expression(node), extent, self.span(node))
        parts = (node.lower, node.upper, node.step)
        bounds = [None if part is None else self.constant_integer(part) for part in parts]
        positions = range(extent)[slice(*bounds)] if bounds[2] != 0 else ()
        if not isinstance(positions, range) or not positions:
            raise CompileError("this slice has no components", self.span(node))
        return positions

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

    def indices(self, array: ArrayRef, node: ast.Subscript) -> tuple[Operand, ...]:
        """The indices of an element access, as int32 or int64."""
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for item in items:
            if not isinstance(item, ast.Slice):
                continue
            raise CompileError(
                "array slices are not part of the kernel language yet",
                self.span(item),
                "loop over the elements and index each",
            )
        if len(items) != array.type.dims:
            raise KernelTypeError(
                f"`{array.name}` has {array.type.dims} dimension(s), {len(items)} index(es) given",
                self.span(node),
                "give one index for each dimension: a[i], b[i, j]",
            )
        return tuple(self.index(item, array) for item in items)

    def index(self, node: ast.expr, array: ArrayRef) -> Operand:
        return self.as_index(self.expression(node), array, self.span(node))

    def as_index(self, binding: Binding, array: ArrayRef, span: Span) -> Operand:
        """`binding` as an index of `array`, int32 or int64."""
        operand = self.scalar(binding, span, "array index")
        if not operand.type.is_int:
            raise KernelTypeError(
                f"index of `{array.name}` must be an integer, not {operand.type}", span, "convert it: int(x)"
            )
        if operand.type is uint64:  # beyond int64 it must stay outside of any array, not turn negative
            operand = self.emit("min", operand, Const(uint64, int64.max), span=span)
        wide = operand.type in (int64, uint64, uint32)
        return self.emit("cast", operand, span=span, type=int64 if wide else int32)


def component_indices(element: tuple[int, ...]) -> list[tuple[Const, ...]]:
    """The indices of all components of an element of shape `element`, row by row."""
    return [tuple(Const(int32, k) for k in place) for place in itertools.product(*map(range, element))]
