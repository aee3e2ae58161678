"""Composites in kernels, taken apart into scalars: how they are made, their components, and rules for operators."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jwarp.errors import CompileError, KernelTypeError, Span, no_attribute
from jwarp.frontend.values.bindings import Binding, Composite, Number, PythonRef, as_operand, describe, spelling
from jwarp.ir.attributes import Attribute
from jwarp.ir.builder import TRUE, zero
from jwarp.ir.nodes import Const, Operand
from jwarp.types import (
    MATRIX,
    QUATERNION,
    TRANSFORM,
    VECTOR,
    CompositeType,
    ScalarType,
    as_scalar,
    composite,
    float32,
    int32,
    matrix,
    of_components,
    vector,
)
from jwarp.types.queries import type_repr


@dataclass(frozen=True)
class Part:
    """The components that a name such as `t.q` selects, and the type that they make together."""

    type: CompositeType
    positions: range
    size: int  # of the whole


# A selection along one axis: a known position, a computed one, or several positions.
Along = int | Operand | range
# An index as it is written: a selection, or the name of a part.
Selector = Along | Part


class Emitter(Protocol):
    """The operations of the lowering that the rules below use."""

    def emit(
        self, name: str, *args: Operand, span: Span, attr: Attribute | None = None, type: Any = None
    ) -> Operand: ...
    def scalar(self, binding: Binding, span: Span, role: str = "value") -> Operand: ...


# -- construction


def from_components(e: Emitter, type: CompositeType, args: Sequence[Binding], span: Span) -> Composite:
    """Of nothing (zeros), of one value for all components, of all components, or of a value of the same kind."""
    if len(args) == 1 and isinstance(args[0], Composite):
        return convert(e, type, args[0], span)
    if any(isinstance(a, Composite) for a in args):
        given = ", ".join(map(describe, args))
        way = f"wp.matrix_from_rows and wp.matrix_from_cols take vectors; {_FROM_PARTS}" if type.kind is MATRIX else ""
        raise KernelTypeError(f"{type.name} is made of scalars, not of ({given})", span, way or "give each component")
    noun = type.kind.name
    fault = (
        f"all values used to initialize this {noun} are" if len(args) > 1 else f"the value used to fill this {noun} is"
    )
    scalars = [component(e, type.dtype, a, span, fault) for a in args] or [zero(type.dtype)]
    if len(scalars) != type.size and (len(scalars) > 1 or (args and not type.kind.repeats)):
        raise KernelTypeError(
            f"{type.name} has {type.size} components: incompatible number of values given ({len(scalars)}) "
            f"when constructing {_made(type)}",
            span,
        )
    return Composite(type, tuple(scalars if len(scalars) == type.size else scalars * type.size))


def _made(type: CompositeType) -> str:
    """The name of a type and its size, as Warp says that a value is made of it."""
    return f"a transform; expected 0, 1, or {type.size}" if type.kind is TRANSFORM else _noun(type)


def _noun(type: CompositeType) -> str:
    """The kind of a type and its extents, with an article."""
    shape = f"shape {type.shape}" if type.kind is MATRIX else f"length {type.size}"
    return f"a {type.kind.name} of {shape}"


def component(e: Emitter, kind: ScalarType, binding: Binding, span: Span, fault: str = "the component is") -> Operand:
    """One value as a component of type `kind`; literals convert, values must have the type."""
    if isinstance(binding, Number):
        if isinstance(binding.value, float) and not kind.is_float:
            raise KernelTypeError(f"a component of type {kind} cannot be {binding.value}", span)
        return binding.as_type(kind, span)
    scalar = e.scalar(binding, span, "component")
    if scalar.type is not kind:
        way = f"convert it: {spelling(kind)}(…)"
        raise KernelTypeError(f"this value is {scalar.type}: {fault} expected to be of the type `{kind}`", span, way)
    return scalar


def convert(e: Emitter, type: CompositeType, value: Composite, span: Span) -> Composite:
    """A value of the same kind and shape with components of another type."""
    if not value.type.is_like(type):
        raise KernelTypeError(
            f"{describe(value)} cannot become {type.name}: incompatible {_noun(type)[2:]} given when copy constructing "
            f"{_noun(value.type)}",
            span,
        )
    return Composite(type, tuple(e.emit("cast", x, span=span, type=type.dtype) for x in value.items))


def make_vector(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    """`vector(*values, length, dtype)`; what is left out follows from the values."""
    values, length, dtype = args
    assert isinstance(values, tuple)
    first = values[0] if len(values) == 1 else None
    if length is not None:
        is_zero = isinstance(length, (Number, Const)) and length.value == 0 and not isinstance(length.value, bool)
        extent = 0 if is_zero else positive(length, "length", span)
    elif isinstance(first, Composite):
        extent = first.type.size
    elif len(values) > 1:
        extent = len(values)
    else:
        raise KernelTypeError(
            f"the `length` argument must be specified when {'filling' if values else 'zero-initializing'} a vector",
            span,
            "wp.vector(length=3, dtype=float)",
        )
    return from_components(e, vector(extent, component_type(e, values, dtype, "wp.vector", span)), values, span)


# Warp's wp.matrix and wp.mat44 do this, too.
_FROM_PARTS = "of a position, a rotation and a scale: wp.transform_compose(position, rotation, scale)"


def make_matrix(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    """`matrix(*values, shape, dtype)`; the type follows from the values where it is left out."""
    values, shape, dtype = args
    assert isinstance(values, tuple)
    if len(values) == 3 and isinstance(values[1], Composite) and values[1].type.kind is QUATERNION:
        hint = "wp.transform_compose(position, rotation, scale) is that matrix"
        raise KernelTypeError("wp.matrix does not take a position, a rotation and a scale", span, hint)
    if shape is not None:
        if not isinstance(shape, tuple) or len(shape) != 2:
            raise KernelTypeError(f"shape must be (rows, columns), not {describe(shape)}", span)
        extents = tuple(positive(n, "an extent", span) for n in shape)
    elif len(values) == 1 and isinstance(values[0], Composite) and not values[0].type.is_vector:
        extents = values[0].type.shape
    else:
        raise KernelTypeError(
            "the `shape` argument must be specified when initializing a matrix by value",
            span,
            "wp.matrix(shape=(2, 3), dtype=float)",
        )
    kind = component_type(e, values, dtype, "wp.matrix", span)
    return from_components(e, matrix((extents[0], extents[1]), kind), values, span)


def make_identity(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    """`identity(n, dtype)`."""
    n = positive(args[0], "n", span)
    kind = component_type(e, (), args[1], "wp.identity", span)
    one = Number(1).as_type(kind, span)
    return Composite(matrix((n, n), kind), tuple(zero(kind) if k % (n + 1) else one for k in range(n * n)))


def positive(binding: Binding, what: str, span: Span) -> int:
    """A positive integer that is known when the kernel is built."""
    value = binding.value if isinstance(binding, (Number, Const)) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise KernelTypeError(f"{what} must be a positive constant integer", span)
    return value


def check_extents(type: CompositeType, named: dict[str, Binding], span: Span) -> None:
    """Take `length` or `shape` out of the arguments by name of a constructor: they say again what its type's name says.

    Raises:
        KernelTypeError: they say something else.
    """
    wanted = {VECTOR: "length", MATRIX: "shape"}.get(type.kind, "")
    if wanted not in named:
        return
    given = named.pop(wanted)
    extents = given if isinstance(given, tuple) else (given,)
    if tuple(positive(n, wanted, span) for n in extents) != type.shape:
        said = type.size if type.kind is VECTOR else type.shape
        raise KernelTypeError(f"{type.name} has the {wanted} {said}", span, f"leave {wanted} out")


def component_type(e: Emitter, values: Sequence[Binding], dtype: Binding | None, name: str, span: Span) -> ScalarType:
    """The type that `dtype` names, or else the one that the values have."""
    if dtype is not None:
        kind = as_scalar(dtype.object if isinstance(dtype, PythonRef) else dtype)  # a default is the type itself
        if kind is None:
            raise KernelTypeError(f"the dtype of {name} must be a scalar type, not {describe(dtype)}", span)
        return kind
    kinds = [v.type.dtype if isinstance(v, Composite) else e.scalar(v, span, "component").type for v in values]
    if len(set(kinds)) > 1:
        raise KernelTypeError(
            f"{name} got {', '.join(k.name for k in kinds)}: all values given when constructing a "
            f"{name.removeprefix('wp.')} must have the same type",
            span,
            "add dtype=",
        )
    return kinds[0] if kinds else float32


def from_rows(rows: Sequence[Composite]) -> Composite:
    """The matrix with the given rows, all of one type."""
    kind = matrix((len(rows), rows[0].type.size), rows[0].type.dtype)
    return Composite(kind, tuple(x for row in rows for x in row.items))


# -- components


def component_indices(shape: tuple[int, ...]) -> list[tuple[Const, ...]]:
    """The indices of all components of a vector or matrix of `shape`, row by row; of a scalar, one of none."""
    return [tuple(Const(int32, k) for k in place) for place in itertools.product(*map(range, shape))]


def named(type: CompositeType, attribute: str, span: Span, hint: str = "index its components: v[0]") -> int | Part:
    """The selector for `v.x` to `v.w`, or `t.p`."""
    known, part = type.kind.components[: type.size], dict(type.kind.parts).get(attribute)
    if part is not None:
        own = composite(part.kind, (part.extent,), type.dtype)
        return Part(own, range(part.first, part.first + part.extent), type.size)
    if attribute not in known:
        raise no_attribute(attribute, str(type), span, hint)
    return known.index(attribute)


def within(e: Emitter, part: Part, selector: Selector, span: Span) -> Selector:
    """Translate a selector of a part into one of the whole."""
    positions = part.positions
    if isinstance(selector, Part):
        return Part(selector.type, positions[selector.positions.start : selector.positions.stop], part.size)
    if isinstance(selector, range):
        return range(selector.start + positions.start, selector.stop + positions.start, selector.step)
    if isinstance(selector, int):
        return positions[selector]
    found: Operand = Const(selector.type, part.size)  # outside of the part is outside of the whole
    for position, hit in zip(positions, hits(e, selector, len(positions), span), strict=True):
        found = e.emit("select", hit, Const(selector.type, position), found, span=span)
    return found


def index_of(binding: Binding, length: int, span: Span) -> int | Operand:
    """An index as a known position, or as a value."""
    operand = as_operand(binding, span)
    if operand is None or not operand.type.is_int:
        raise KernelTypeError(f"a component index must be an integer, not {describe(binding)}", span)
    if not isinstance(operand, Const):
        return operand
    if not -length <= operand.value < length:
        raise CompileError(f"index {operand.value} is outside 0 to {length - 1}", span)
    return operand.value % length


def axes_of(shape: tuple[int, ...], selectors: Sequence[Selector]) -> list[Along]:
    """One selector for each axis: an axis without one is taken whole, a part is the positions of its components."""
    given = (s.positions if isinstance(s, Part) else s for s in selectors)
    return [*given, *map(range, shape[len(selectors) :])]


def selected_type(type: CompositeType, selectors: Sequence[Selector]) -> ScalarType | CompositeType:
    """The type of what is selected of a composite; of a part of it, a vector or matrix type."""
    if not selectors:
        return type
    if isinstance(selectors[-1], Part):
        return selectors[-1].type
    extents = [len(s) for s in axes_of(type.shape, selectors) if isinstance(s, range)]
    return of_components(tuple(extents), type.dtype)


def read(e: Emitter, value: Composite, selectors: Sequence[Selector], span: Span) -> Binding:
    """`v[i]`, `m[i, j]`, the row `m[i]`, the slice `v[1:3]`."""
    if selectors and not value.items:
        raise CompileError(f"{value.type!r} has no components", span)
    shape = value.type.shape
    axes = [s if isinstance(s, range) else (s,) for s in _known_axes(e, shape, selectors, span)]
    items = tuple(_at(e, value, place, span) for place in itertools.product(*axes))
    kind = selected_type(value.type, selectors)
    return Composite(kind, items) if isinstance(kind, CompositeType) else items[0]


# A position along an axis: a known one, or of a computed one whether it is the first, the second, and so on.
Position = int | tuple[Operand, ...]


def _known_axes(
    e: Emitter, shape: tuple[int, ...], selectors: Sequence[Selector], span: Span
) -> list[range | Position]:
    """The selection along each axis."""
    return [
        s if isinstance(s, (range, int)) else hits(e, s, extent, span)
        for s, extent in zip(axes_of(shape, selectors), shape, strict=True)
    ]


def _at(e: Emitter, value: Composite, place: Sequence[Position], span: Span) -> Operand:
    """The component at `place`; outside, zero."""
    items = value.items
    for position, extent in zip(reversed(place), reversed(value.type.shape), strict=True):
        groups = [items[k : k + extent] for k in range(0, len(items), extent)]
        items = tuple(_pick(e, group, position, span) for group in groups)
    return items[0]


def _pick(e: Emitter, items: Sequence[Operand], position: Position, span: Span) -> Operand:
    if isinstance(position, int):
        return items[position]
    chosen: Operand = zero(items[0].type)
    for item, hit in zip(reversed(items), reversed(position), strict=True):
        chosen = e.emit("select", hit, item, chosen, span=span)
    return chosen


def hits(e: Emitter, index: Operand, length: int, span: Span) -> tuple[Operand, ...]:
    """The truth values that a computed index selects each of `length` positions, counted from either end."""
    if index.type.max < length:
        index = e.emit("cast", index, span=span, type=int32)
    if index.type.kind == "int":
        from_end = e.emit("add", index, Const(index.type, length), span=span)
        is_from_end = e.emit("lt", index, zero(index.type), span=span)
        index = e.emit("select", is_from_end, from_end, index, span=span)
    return tuple(e.emit("eq", index, Const(index.type, k), span=span) for k in range(length))


def replace(
    e: Emitter, value: Composite, selectors: Sequence[Selector], new: Sequence[Operand], span: Span
) -> Composite:
    """`value` with what is selected replaced by the components `new`; outside, unchanged."""
    axes = _known_axes(e, value.type.shape, selectors, span)
    items = []
    for old, place in zip(value.items, itertools.product(*map(range, value.type.shape)), strict=True):
        among = 0  # the position among the new components
        hit: Operand | None = TRUE
        for position, k in zip(axes, place, strict=True):
            if isinstance(position, range):
                hit = hit if k in position else None
                among = among * len(position) + (position.index(k) if k in position else 0)
            elif isinstance(position, int):
                hit = hit if position == k else None
            elif hit is not None:
                hit = e.emit("and", hit, position[k], span=span)
        items.append(old if hit is None else e.emit("select", hit, new[among], old, span=span))
    return Composite(value.type, tuple(items))


# -- what operators do


def elementwise(e: Emitter, name: str, values: Sequence[Composite], span: Span, shown: str = "") -> Composite:
    """One scalar operation on each component of values of one type."""
    check_alike(shown or name, values, span)
    items = zip(*(v.items for v in values), strict=True)
    return Composite(values[0].type, tuple(e.emit(name, *xs, span=span) for xs in items))


def check_alike(symbol: str, values: Sequence[Composite], span: Span) -> None:
    """Refuse values that are not all of one type."""
    if any(v.type is not values[0].type for v in values):
        given = ", ".join(describe(v) for v in values)
        equality = "Can't test equality for objects with different types"
        types = f"Input types must be exactly the same, got {[type_repr(v.type) for v in values]}"
        why = equality if symbol in ("==", "!=") else types
        raise KernelTypeError(f"`{symbol}` needs vectors or matrices of one type, not {given}: {why}", span)


def each(e: Emitter, symbol: str, name: str, x: Composite, nothing: None, span: Span) -> Composite:
    """A scalar operation on each component."""
    return elementwise(e, name, (x,), span)


def pairwise(e: Emitter, symbol: str, name: str, x: Composite, y: Composite, span: Span) -> Composite:
    """A scalar operation on each pair of components."""
    return elementwise(e, name, (x, y), span, symbol)


def scaled(e: Emitter, symbol: str, name: str, x: Binding, y: Binding, span: Span) -> Composite:
    """A scalar operation between each component and one scalar of their type."""
    if isinstance(x, Composite):
        other = e.scalar(y, span)
        return Composite(x.type, tuple(e.emit(name, item, other, span=span) for item in x.items))
    assert isinstance(y, Composite)
    other = e.scalar(x, span)
    return Composite(y.type, tuple(e.emit(name, other, item, span=span) for item in y.items))


def total(e: Emitter, terms: Sequence[Operand], span: Span) -> Operand:
    """The sum of one or more terms, added up from the first on."""
    result = terms[0]
    for term in terms[1:]:
        result = e.emit("add", result, term, span=span)
    return result


def product(e: Emitter, symbol: str, name: str, x: Composite, y: Composite, span: Span) -> Composite:
    """`x @ y`: matrix by matrix, matrix by vector, vector by matrix."""
    a, b = x.type, y.type
    left = (1, a.shape[0]) if a.is_vector else a.shape
    right = (b.shape[0], 1) if b.is_vector else b.shape
    if a.dtype is not b.dtype or (a.is_vector and b.is_vector) or left[1] != right[0]:
        raise KernelTypeError(f"`{symbol}` does not take ({a.name}, {b.name})", span)

    def entry(i: int, j: int) -> Operand:
        pairs = ((x.items[i * left[1] + k], y.items[k * right[1] + j]) for k in range(left[1]))
        return total(e, [e.emit("mul", *pair, span=span) for pair in pairs], span)

    items = tuple(entry(i, j) for i in range(left[0]) for j in range(right[1]))
    if a.is_vector or b.is_vector:
        return Composite(vector(len(items), a.dtype), items)
    return Composite(matrix((left[0], right[1]), a.dtype), items)


def same(e: Emitter, symbol: str, name: str, x: Composite, y: Composite, span: Span) -> Operand:
    """The truth value that all components are equal."""
    result: Operand = TRUE
    for equal in elementwise(e, "eq", (x, y), span, symbol).items:
        result = e.emit("and", result, equal, span=span)
    return result
