"""Lowers what stands in brackets: elements of arrays, components of vectors and matrices."""

from __future__ import annotations

import ast
import itertools

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.lowering.expressions import ExpressionLowering, scalar_hint
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
    flatten,
    layout,
)
from jwarp.ir.nodes import Const, Local, Op, Operand, Value
from jwarp.ir.ops import OPS
from jwarp.types import ArrayType, CompositeType, int32, int64, uint32, uint64

# What one thread may have in local arrays. Sixteen threads at a time have theirs on the stack.
MAX_LOCAL_BYTES = 4096


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

    def local_array(self, kind: ArrayType, extents: tuple[int, ...], span: Span) -> ArrayRef:
        """A new array of this thread's own, all zeros."""
        local = Local(self.assigned_name or "local array", kind, (*extents, *kind.element))
        self.locals.append(local)
        if sum(made.size * made.dtype.bits // 8 for made in self.locals) > MAX_LOCAL_BYTES:
            raise CompileError(
                f"the local arrays of a kernel may have {MAX_LOCAL_BYTES} bytes for each thread; with this one of "
                f"{local.size * local.dtype.bits // 8} bytes, `{local.name}`, they have more",
                span,
                "use a smaller array, or a parameter with an axis for the threads; an unrolled loop has the arrays "
                "of its body once for each trip: wp.config.max_unroll",
            )
        number = self.first_local + len(self.locals) - 1
        self.builder.effect("clear", attr=number)
        return ArrayRef(number, local.name, kind, (), extents)

    def load(self, array: ArrayRef, indices: tuple[Operand, ...], span: Span) -> Binding:
        """The element of `array` at `indices`, which start with those of its row."""
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
        place = (*array.prefix, *self.from_start(array, place))
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
        indices = self.from_start(array, tuple(self.index(item, array) for item in items))
        return (*array.prefix, *indices) if len(items) == array.type.dims else array.row(indices)

    def from_start(self, array: ArrayRef, indices: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """`indices`, with those that are known to count from the end of a local array counted from its start."""
        if array.extents is None:
            return indices
        return tuple(
            Const(x.type, x.value + n) if isinstance(x, Const) and -n <= x.value < 0 else x
            for x, n in zip(indices, array.extents, strict=False)
        )

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


def _is_whole(node: ast.expr) -> bool:
    """Whether `node` is a bare `:`."""
    return isinstance(node, ast.Slice) and not (node.lower or node.upper or node.step)


def component_indices(element: tuple[int, ...]) -> list[tuple[Const, ...]]:
    """The indices of all components of an element of shape `element`, row by row."""
    return [tuple(Const(int32, k) for k in place) for place in itertools.product(*map(range, element))]
