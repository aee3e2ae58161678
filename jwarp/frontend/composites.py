"""Vectors and matrices in kernels: taken apart into scalars, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.bindings import Binding, Composite, Number, as_operand, describe
from jwarp.ir.builder import TRUE, zero
from jwarp.ir.nodes import Const, Operand
from jwarp.types import CompositeType, ScalarType, matrix, uint32, vector

COMPONENTS = {"x": 0, "y": 1, "z": 2, "w": 3}


class Emitter(Protocol):
    """What the rules below need of the lowering."""

    def emit(self, name: str, *args: Operand, span: Span, attr: Any = None, type: Any = None) -> Operand: ...
    def scalar(self, binding: Binding, span: Span, role: str = "value") -> Operand: ...


Rule = Callable[[Emitter, Sequence[Binding], Span], Binding]


# -- construction


def construct(e: Emitter, type: CompositeType, args: Sequence[Binding], span: Span) -> Composite:
    """`type(…)`: nothing, one value for all components, all components, a vector, or column vectors."""
    if not args:
        return Composite(type, (zero(type.dtype),) * type.size)
    if len(args) == 1 and isinstance(args[0], Composite):
        return convert(e, type, args[0], span)
    if all(isinstance(a, Composite) for a in args):
        return from_columns(type, [a for a in args if isinstance(a, Composite)], span)
    scalars = [component(e, type.dtype, a, span) for a in args]
    if len(scalars) == 1:
        return Composite(type, (scalars[0],) * type.size)
    if len(scalars) != type.size:
        raise KernelTypeError(f"{type.name} has {type.size} components, {len(scalars)} values given", span)
    return Composite(type, tuple(scalars))


def component(e: Emitter, kind: ScalarType, binding: Binding, span: Span) -> Operand:
    """One value as a component of type `kind`; literals convert, values must have the type."""
    if isinstance(binding, Number):
        if isinstance(binding.value, float) and not kind.is_float:
            raise KernelTypeError(f"a component of type {kind} cannot be {binding.value}", span)
        return binding.as_type(kind, span)
    scalar = e.scalar(binding, span, "component")
    if scalar.type is not kind:
        raise KernelTypeError(f"the components have type {kind}, this value is {scalar.type}", span, "convert it")
    return scalar


def convert(e: Emitter, type: CompositeType, value: Composite, span: Span) -> Composite:
    """A vector or matrix of the same shape with components of another type."""
    if value.type.shape != type.shape:
        raise KernelTypeError(f"{describe(value)} cannot become {type.name}", span)
    cast = tuple(e.emit("cast", x, span=span, type=type.dtype) for x in value.items)
    return Composite(type, cast)


def from_columns(type: CompositeType, columns: Sequence[Composite], span: Span) -> Composite:
    if type.is_vector or len(columns) != type.shape[1] or any(c.type.shape != type.shape[:1] for c in columns):
        given = ", ".join(describe(c) for c in columns)
        raise KernelTypeError(f"{type.name} cannot be made of {given}", span)
    return from_rows(type.transposed, columns, span).transposed


def from_rows(type: CompositeType, rows: Sequence[Composite], span: Span) -> Composite:
    if any(r.type.dtype is not type.dtype for r in rows):
        raise KernelTypeError(f"the vectors must hold {type.dtype}", span)
    return Composite(type, tuple(x for row in rows for x in row.items))


# -- components


def index_of(e: Emitter, binding: Binding, length: int, span: Span) -> int | Operand:
    """An index as a known position, or as a value."""
    operand = as_operand(binding, span)
    if operand is None or not operand.type.is_int:
        raise KernelTypeError(f"a component index must be an integer, not {describe(binding)}", span)
    if not isinstance(operand, Const):
        return operand
    if not -length <= operand.value < length:
        raise CompileError(f"index {operand.value} is outside 0 to {length - 1}", span)
    return operand.value % length


def read(e: Emitter, value: Composite, indices: Sequence[Binding], span: Span) -> Binding:
    """`v[i]`, `m[i, j]`, or the row `m[i]`."""
    shape = value.type.shape
    if len(indices) > len(shape):
        raise KernelTypeError(f"{describe(value)} takes {len(shape)} index(es), {len(indices)} given", span)
    first = index_of(e, indices[0], shape[0], span)
    rows = value.rows
    if len(indices) < len(shape):
        columns = [[row[k] for row in rows] for k in range(shape[1])]
        return Composite(vector(shape[1], value.type.dtype), tuple(pick(e, c, first, span) for c in columns))
    if len(indices) == 1:
        return pick(e, value.items, first, span)
    second = index_of(e, indices[1], shape[1], span)
    return pick(e, [pick(e, row, second, span) for row in rows], first, span)


def pick(e: Emitter, items: Sequence[Operand], index: int | Operand, span: Span) -> Operand:
    """The item at `index`; outside, zero."""
    if isinstance(index, int):
        return items[index]
    chosen: Operand = zero(items[0].type)
    for k in reversed(range(len(items))):
        chosen = e.emit("select", is_at(e, index, k, len(items), span), items[k], chosen, span=span)
    return chosen


def is_at(e: Emitter, index: Operand, position: int, length: int, span: Span) -> Operand:
    """Whether a computed index names `position`, counted from either end."""

    def equals(number: int) -> Operand:
        return e.emit("eq", index, Const(index.type, number), span=span)

    if index.type.kind == "uint":
        return equals(position)
    return e.emit("or", equals(position), equals(position - length), span=span)


def replace(e: Emitter, value: Composite, indices: Sequence[Binding], new: Binding, span: Span) -> Composite:
    """`value` with the component (or row) at `indices` replaced; outside, unchanged."""
    shape, kind = value.type.shape, value.type.dtype
    if len(indices) > len(shape):
        raise KernelTypeError(f"{describe(value)} takes {len(shape)} index(es), {len(indices)} given", span)
    places = [index_of(e, i, n, span) for i, n in zip(indices, shape, strict=False)]
    if len(indices) < len(shape):
        row = new if isinstance(new, Composite) else None
        if row is None or row.type.shape != shape[1:] or row.type.dtype is not kind:
            raise KernelTypeError(f"a row of {describe(value)} cannot be {describe(new)}", span)
        news = list(row.items)
        places.append(-1)
    else:
        scalar = e.scalar(new, span, "component")
        if scalar.type is not kind:
            raise KernelTypeError(f"components of {describe(value)} cannot be {scalar.type}", span, "convert the value")
        news = [scalar] * value.type.size
    items = []
    for flat, old in enumerate(value.items):
        position = (*divmod(flat, shape[-1]),) if len(shape) == 2 else (flat,)
        hit: Operand = TRUE
        for place, at, length in zip(places, position, shape, strict=True):
            if place == -1:
                continue
            known = isinstance(place, int)
            same = Const(TRUE.type, place == at) if known else is_at(e, place, at, length, span)  # type: ignore[arg-type]
            hit = e.emit("and", hit, same, span=span)
        value_here = news[position[-1]] if places[-1] == -1 else news[flat]
        items.append(e.emit("select", hit, value_here, old, span=span))
    return Composite(value.type, tuple(items))


# -- operators


def elementwise(e: Emitter, name: str, values: Sequence[Composite], span: Span) -> Composite:
    """One scalar operation on each component of values of one type."""
    first = values[0].type
    if any(v.type is not first for v in values):
        given = ", ".join(describe(v) for v in values)
        raise KernelTypeError(f"`{name}` needs vectors or matrices of one type, got {given}", span)
    items = zip(*(v.items for v in values), strict=True)
    return Composite(first, tuple(e.emit(name, *xs, span=span) for xs in items))


def scaled(e: Emitter, name: str, x: Binding, y: Binding, span: Span) -> Composite:
    """A scalar operation between each component and one scalar."""
    value = x if isinstance(x, Composite) else y
    assert isinstance(value, Composite)
    other = component(e, value.type.dtype, y if value is x else x, span)
    pairs = ((item, other) if value is x else (other, item) for item in value.items)
    return Composite(value.type, tuple(e.emit(name, *pair, span=span) for pair in pairs))


def total(e: Emitter, terms: Sequence[Operand], span: Span) -> Operand:
    result = terms[0]
    for term in terms[1:]:
        result = e.emit("add", result, term, span=span)
    return result


def product(e: Emitter, x: Composite, y: Composite, span: Span) -> Binding:
    """`x @ y`: matrix by matrix, matrix by vector, vector by matrix."""
    a, b = x.type, y.type
    left = (1, a.shape[0]) if a.is_vector else a.shape
    right = (b.shape[0], 1) if b.is_vector else b.shape
    if a.dtype is not b.dtype or (a.is_vector and b.is_vector) or left[1] != right[0]:
        raise KernelTypeError(f"`@` does not take ({a.name}, {b.name})", span)

    def entry(i: int, j: int) -> Operand:
        pairs = ((x.items[i * left[1] + k], y.items[k * right[1] + j]) for k in range(left[1]))
        return total(e, [e.emit("mul", *pair, span=span) for pair in pairs], span)

    items = tuple(entry(i, j) for i in range(left[0]) for j in range(right[1]))
    if a.is_vector or b.is_vector:
        return Composite(vector(len(items), a.dtype), items)
    return Composite(matrix((left[0], right[1]), a.dtype), items)


def binary(e: Emitter, symbol: str, name: str, x: Binding, y: Binding, span: Span) -> Binding:
    """A binary operator of which at least one side is a vector or matrix."""
    if isinstance(x, Composite) and isinstance(y, Composite):
        if name == "matmul" or (name == "mul" and not (x.type.is_vector and y.type.is_vector)):
            return product(e, x, y, span)
        if name in ("add", "sub", "mod", "and", "or", "xor", "shl", "shr"):
            return elementwise(e, name, (x, y), span)
    elif name in ("mul", "div"):
        return scaled(e, name, x, y, span)
    hint = "wp.cw_mul multiplies component by component, wp.dot sums" if name == "mul" else ""
    raise KernelTypeError(f"`{symbol}` does not take ({describe(x)}, {describe(y)})", span, hint)


def equal(e: Emitter, x: Composite, y: Composite, span: Span) -> Operand:
    """Whether all components are equal."""
    result: Operand = TRUE
    for same in elementwise(e, "eq", (x, y), span).items:
        result = e.emit("and", result, same, span=span)
    return result


# -- functions: one row each


def _vectors(name: str, args: Sequence[Binding], count: int, span: Span, length: int | None = None) -> list[Composite]:
    found = [a for a in args if isinstance(a, Composite) and (length is None or a.type.shape == (length,))]
    if len(args) != count or len(found) != count or len({a.type for a in found}) > 1:
        what = "vectors or matrices" if length is None else f"vectors of length {length}"
        given = ", ".join(map(describe, args))
        raise KernelTypeError(f"wp.{name} takes {count} {what} of one type, got ({given})", span)
    return found


def dot(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    x, y = _vectors("dot", args, 2, span)
    return total(e, elementwise(e, "mul", (x, y), span).items, span)


def cross(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    x, y = _vectors("cross", args, 2, span, length=3)

    def minor(i: int, j: int) -> Operand:
        ab = e.emit("mul", x.items[i], y.items[j], span=span)
        return e.emit("sub", ab, e.emit("mul", x.items[j], y.items[i], span=span), span=span)

    return Composite(x.type, (minor(1, 2), minor(2, 0), minor(0, 1)))


def length_sq(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    (x,) = _vectors("length_sq", args, 1, span)
    return dot(e, (x, x), span)


def length(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    return e.emit("sqrt", length_sq(e, args, span), span=span)


def normalize(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    """x / |x|, and zero where |x| is zero."""
    (x,) = _vectors("normalize", args, 1, span)
    size = length(e, (x,), span)
    positive = e.emit("gt", size, zero(size.type), span=span)
    divisor = e.emit("select", positive, size, Const(size.type, 1.0), span=span)
    items = (e.emit("div", item, divisor, span=span) for item in x.items)
    return Composite(x.type, tuple(e.emit("select", positive, i, zero(i.type), span=span) for i in items))


def outer(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    x, y = args if len(args) == 2 else (None, None)
    if not (isinstance(x, Composite) and isinstance(y, Composite) and x.type.is_vector and y.type.is_vector):
        raise KernelTypeError("wp.outer takes two vectors", span)
    items = tuple(e.emit("mul", a, b, span=span) for a in x.items for b in y.items)
    return Composite(matrix((len(x.items), len(y.items)), x.type.dtype), items)


def transpose(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    return _matrix("transpose", args, span).transposed


def _matrix(name: str, args: Sequence[Binding], span: Span, square: bool = False) -> Composite:
    m = args[0] if len(args) == 1 else None
    if not isinstance(m, Composite) or m.type.is_vector or (square and m.type.shape[0] != m.type.shape[1]):
        given = ", ".join(map(describe, args))
        raise KernelTypeError(f"wp.{name} takes a{' square' if square else ''} matrix, got ({given})", span)
    return m


def trace(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    m = _matrix("trace", args, span, square=True)
    return total(e, [row[k] for k, row in enumerate(m.rows)], span)


def determinant(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    m = _matrix("determinant", args, span, square=True)
    return _determinant(e, m.rows, span)


def _determinant(e: Emitter, rows: Sequence[Sequence[Operand]], span: Span) -> Operand:
    """Laplace's expansion along the first row."""
    if len(rows) == 1:
        return rows[0][0]
    result: Operand | None = None
    for k, factor in enumerate(rows[0]):
        term = e.emit("mul", factor, _determinant(e, _without(rows, 0, k), span), span=span)
        result = term if result is None else e.emit("sub" if k % 2 else "add", result, term, span=span)
    assert result is not None
    return result


def _without(rows: Sequence[Sequence[Operand]], row: int, column: int) -> list[list[Operand]]:
    return [[x for j, x in enumerate(r) if j != column] for i, r in enumerate(rows) if i != row]


def inverse(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    """The adjugate over the determinant; zero where the determinant is zero."""
    m = _matrix("inverse", args, span, square=True)
    n = m.type.shape[0]
    if n > 4:
        raise KernelTypeError("wp.inverse takes matrices up to 4 by 4", span)
    cofactors = []
    for i in range(n):
        for j in range(n):
            minor = _determinant(e, _without(m.rows, i, j), span) if n > 1 else Const(m.type.dtype, 1.0)
            cofactors.append(e.emit("neg", minor, span=span) if (i + j) % 2 else minor)
    first = [e.emit("mul", m.items[k], cofactors[k], span=span) for k in range(n)]
    det = total(e, first, span)
    singular = e.emit("eq", det, zero(det.type), span=span)
    one = Const(det.type, 1.0)
    scale = e.emit("div", one, e.emit("select", singular, one, det, span=span), span=span)
    scale = e.emit("select", singular, zero(det.type), scale, span=span)
    items = tuple(e.emit("mul", cofactors[j * n + i], scale, span=span) for i in range(n) for j in range(n))
    return Composite(m.type, items)


def diag(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    (v,) = _vectors("diag", args, 1, span)
    n, kind = v.type.size, v.type.dtype
    items = tuple(v.items[i] if i == j else zero(kind) for i in range(n) for j in range(n))
    return Composite(matrix((n, n), kind), items)


def get_diag(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    m = _matrix("get_diag", args, span, square=True)
    return Composite(vector(m.type.shape[0], m.type.dtype), tuple(row[k] for k, row in enumerate(m.rows)))


def skew(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    """The matrix of the cross product with a vector."""
    (v,) = _vectors("skew", args, 1, span, length=3)
    x, y, z = v.items
    none = zero(v.type.dtype)

    def neg(item: Operand) -> Operand:
        return e.emit("neg", item, span=span)

    return Composite(matrix((3, 3), v.type.dtype), (none, neg(z), y, z, none, neg(x), neg(y), x, none))


def cw_mul(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    return elementwise(e, "mul", _vectors("cw_mul", args, 2, span), span)


def cw_div(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    return elementwise(e, "div", _vectors("cw_div", args, 2, span), span)


def ddot(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    return dot(e, args, span)


def extremum(name: str) -> Rule:
    """The least or greatest component of a vector, or of two vectors component by component."""

    def rule(e: Emitter, args: Sequence[Binding], span: Span) -> Binding:
        values = _vectors(name, args, len(args), span)
        if len(values) == 2:
            return elementwise(e, name, values, span)
        result = values[0].items[0]
        for item in values[0].items[1:]:
            result = e.emit(name, result, item, span=span)
        return result

    return rule


def argument_of(name: str, better: str) -> Rule:
    """The position of the first least or greatest component, as uint32."""

    def rule(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
        (v,) = _vectors(name, args, 1, span)
        best, place = v.items[0], Const(uint32, 0)
        position: Operand = place
        for k, item in enumerate(v.items[1:], 1):
            wins = e.emit(better, item, best, span=span)
            best = e.emit("select", wins, item, best, span=span)
            position = e.emit("select", wins, Const(uint32, k), position, span=span)
        return position

    return rule


def matrix_from_cols(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    rows = matrix_from_rows(e, args, span)
    return rows.transposed


def matrix_from_rows(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    vectors = _vectors("matrix_from_rows", args, len(args) or 1, span)
    return from_rows(matrix((len(vectors), vectors[0].type.size), vectors[0].type.dtype), vectors, span)


FUNCTIONS: dict[str, tuple[str, Rule]] = {
    "dot": ("dot(x, y): sum of the products of the components", dot),
    "ddot": ("ddot(a, b): sum of the products of the entries of two matrices", ddot),
    "cross": ("cross(x, y): cross product of two vectors of length 3", cross),
    "length": ("length(x): square root of the sum of squares", length),
    "length_sq": ("length_sq(x): sum of squares", length_sq),
    "normalize": ("normalize(x): x / length(x), zero where the length is zero", normalize),
    "outer": ("outer(x, y): matrix of the products x[i] * y[j]", outer),
    "transpose": ("transpose(m): rows and columns exchanged", transpose),
    "trace": ("trace(m): sum of the diagonal", trace),
    "determinant": ("determinant(m): by expansion along the first row", determinant),
    "inverse": ("inverse(m): by cofactors, up to 4 by 4; zero where m is singular", inverse),
    "diag": ("diag(v): matrix with v on the diagonal", diag),
    "get_diag": ("get_diag(m): the diagonal of m", get_diag),
    "skew": ("skew(v): matrix m with m @ x == cross(v, x)", skew),
    "cw_mul": ("cw_mul(x, y): product component by component", cw_mul),
    "cw_div": ("cw_div(x, y): quotient component by component", cw_div),
    "argmin": ("argmin(v): position of the first least component, as uint32", argument_of("argmin", "lt")),
    "argmax": ("argmax(v): position of the first greatest component, as uint32", argument_of("argmax", "gt")),
    "matrix_from_cols": ("matrix_from_cols(…): matrix with the given columns", matrix_from_cols),
    "matrix_from_rows": ("matrix_from_rows(…): matrix with the given rows", matrix_from_rows),
}
