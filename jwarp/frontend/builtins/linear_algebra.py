"""The functions of vectors and matrices: one row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.values.bindings import Binding, Composite, describe
from jwarp.frontend.values.composites import ELEMENTWISE, Emitter, binary, elementwise, from_rows, total
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Operand
from jwarp.types import matrix, uint32, vector

Rule = Callable[[Emitter, Sequence[Binding], Span], Binding]

# A determinant of n rows is expanded into n! products.
MAX_EXPANDED = 4


def _given(args: Sequence[Binding]) -> str:
    return f"({', '.join(map(describe, args))})"


def _composites(
    name: str, args: Sequence[Binding], count: int, span: Span, rank: int = 1, floats: bool = False
) -> list[Composite]:
    """The arguments as `count` vectors (or, for rank 2, matrices) of one type."""
    found = [a for a in args if isinstance(a, Composite) and len(a.type.shape) == rank]
    fits = len(args) == len(found) == count and len({a.type for a in found}) == 1
    if not fits or (floats and not found[0].type.dtype.is_float):
        noun = {1: ("vector", "vectors"), 2: ("matrix", "matrices")}[rank][count > 1]
        what = f"{'a' if count == 1 else count} {noun}{' of one type' if count > 1 else ''}"
        raise KernelTypeError(f"wp.{name} takes {what}{' of floats' if floats else ''}, got {_given(args)}", span)
    return found


def _vectors_of_3(name: str, args: Sequence[Binding], count: int, span: Span) -> list[Composite]:
    found = _composites(name, args, count, span)
    if found[0].type.size != 3:
        raise KernelTypeError(f"wp.{name} takes vectors of length 3, got {_given(args)}", span)
    return found


def _square(name: str, args: Sequence[Binding], span: Span, largest: int | None = None) -> Composite:
    (m,) = _composites(name, args, 1, span, rank=2, floats=largest is not None)
    rows, columns = m.type.shape
    if rows != columns or rows > (largest or rows):
        limit = f" of at most {largest} rows" if largest else ""
        raise KernelTypeError(f"wp.{name} takes a square matrix{limit}, got {_given(args)}", span)
    return m


# -- vectors


def dot(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    x, y = _composites("dot", args, 2, span)
    return _dot(e, x, y, span)


def _dot(e: Emitter, x: Composite, y: Composite, span: Span) -> Operand:
    return total(e, elementwise(e, "mul", (x, y), span).items, span)


def cross(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    x, y = _vectors_of_3("cross", args, 2, span)

    def minor(i: int, j: int) -> Operand:
        ab = e.emit("mul", x.items[i], y.items[j], span=span)
        return e.emit("sub", ab, e.emit("mul", x.items[j], y.items[i], span=span), span=span)

    return Composite(x.type, (minor(1, 2), minor(2, 0), minor(0, 1)))


def length_sq(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    (x,) = _composites("length_sq", args, 1, span)
    return _dot(e, x, x, span)


def length(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    (x,) = _composites("length", args, 1, span, floats=True)
    return e.emit("sqrt", _dot(e, x, x, span), span=span)


def normalize(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    """x / |x|, and zero where |x| is zero."""
    (x,) = _composites("normalize", args, 1, span, floats=True)
    size = length(e, (x,), span)
    positive = e.emit("gt", size, zero(size.type), span=span)
    one = Const(size.type, 1.0)
    # One division for all components. A length that is not zero is too large for its inverse to overflow.
    inverse = e.emit("div", one, e.emit("select", positive, size, one, span=span), span=span)
    scale = e.emit("select", positive, inverse, zero(size.type), span=span)
    return Composite(x.type, tuple(e.emit("mul", item, scale, span=span) for item in x.items))


def outer(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    vectors = [a for a in args if isinstance(a, Composite) and a.type.is_vector]
    if len(args) != 2 or len(vectors) != 2 or vectors[0].type.dtype is not vectors[1].type.dtype:
        raise KernelTypeError(f"wp.outer takes two vectors with components of one type, got {_given(args)}", span)
    x, y = vectors
    items = tuple(e.emit("mul", a, b, span=span) for a in x.items for b in y.items)
    return Composite(matrix((x.type.size, y.type.size), x.type.dtype), items)


def skew(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    """The matrix of the cross product with a vector."""
    (v,) = _vectors_of_3("skew", args, 1, span)
    x, y, z = v.items
    none = zero(v.type.dtype)

    def neg(item: Operand) -> Operand:
        return e.emit("neg", item, span=span)

    return Composite(matrix((3, 3), v.type.dtype), (none, neg(z), y, z, none, neg(x), neg(y), x, none))


def extremum(name: str) -> Rule:
    """The least or greatest component of a vector, or of two vectors component by component."""

    def rule(e: Emitter, args: Sequence[Binding], span: Span) -> Binding:
        values = _composites(name, args, min(max(len(args), 1), 2), span)
        if len(values) == 2:
            return elementwise(e, name, values, span)
        result = values[0].items[0]
        for item in values[0].items[1:]:
            result = e.emit(name, result, item, span=span)
        return result

    return rule


def argument_of(name: str, better: str) -> Rule:
    """The position of the first least or greatest component, as uint32; NaNs are passed over."""

    def rule(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
        (v,) = _composites(name, args, 1, span)
        best, position = v.items[0], Const(uint32, 0)
        place: Operand = position
        for k, item in enumerate(v.items[1:], 1):
            wins = e.emit(better, item, best, span=span)
            if v.type.dtype.is_float:
                number, unset = e.emit("eq", item, item, span=span), e.emit("ne", best, best, span=span)
                wins = e.emit("or", wins, e.emit("and", number, unset, span=span), span=span)
            best = e.emit("select", wins, item, best, span=span)
            place = e.emit("select", wins, Const(uint32, k), place, span=span)
        return place

    return rule


# -- matrices


def transpose(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    (m,) = _composites("transpose", args, 1, span, rank=2)
    return m.transposed


def ddot(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    x, y = _composites("ddot", args, 2, span, rank=2)
    return _dot(e, x, y, span)


def trace(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    m = _square("trace", args, span)
    return total(e, [row[k] for k, row in enumerate(m.rows)], span)


def determinant(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    return _determinant(e, _square("determinant", args, span, MAX_EXPANDED).rows, span)


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
    m = _square("inverse", args, span, MAX_EXPANDED)
    n, one = m.type.shape[0], Const(m.type.dtype, 1.0)
    cofactors = []
    for i in range(n):
        for j in range(n):
            minor = _determinant(e, _without(m.rows, i, j), span) if n > 1 else one
            cofactors.append(e.emit("neg", minor, span=span) if (i + j) % 2 else minor)
    first = [e.emit("mul", m.items[k], cofactors[k], span=span) for k in range(n)]
    det = total(e, first, span)
    singular = e.emit("eq", det, zero(det.type), span=span)
    scale = e.emit("div", one, e.emit("select", singular, one, det, span=span), span=span)
    scale = e.emit("select", singular, zero(det.type), scale, span=span)
    items = tuple(e.emit("mul", cofactors[j * n + i], scale, span=span) for i in range(n) for j in range(n))
    return Composite(m.type, items)


def diag(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    (v,) = _composites("diag", args, 1, span)
    n, kind = v.type.size, v.type.dtype
    items = tuple(v.items[i] if i == j else zero(kind) for i in range(n) for j in range(n))
    return Composite(matrix((n, n), kind), items)


def get_diag(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    m = _square("get_diag", args, span)
    return Composite(vector(m.type.shape[0], m.type.dtype), tuple(row[k] for k, row in enumerate(m.rows)))


def matrix_from_cols(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    return from_rows(_composites("matrix_from_cols", args, len(args) or 1, span)).transposed


def matrix_from_rows(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    return from_rows(_composites("matrix_from_rows", args, len(args) or 1, span))


# -- both


def by_component(name: str, operation: str) -> Rule:
    """An operation on each pair of components of two vectors or two matrices."""

    def rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
        rank = len(args[0].type.shape) if args and isinstance(args[0], Composite) else 1
        return elementwise(e, operation, _composites(name, args, 2, span, rank), span)

    return rule


def vector_form(e: Emitter, name: str, operation: str, args: Sequence[Binding], span: Span) -> Binding:
    """What the scalar function `name` is for vectors and matrices, where it is anything."""
    if len(args) == 2 and (operation in ("mul", "div") or operation in ELEMENTWISE):
        return binary(e, f"wp.{name}", operation, args[0], args[1], span)
    if operation in ("min", "max"):
        return extremum(operation)(e, args, span)
    if operation in ("neg", "not", "abs") and len(args) == 1 and isinstance(args[0], Composite):
        return elementwise(e, operation, (args[0],), span)
    raise KernelTypeError(f"wp.{name} does not take {_given(args)}", span, "apply it to each component")


FUNCTIONS: dict[str, tuple[str, Rule]] = {
    "dot": ("dot(x, y): sum of the products of the components", dot),
    "ddot": ("ddot(a, b): sum of the products of the entries of two matrices", ddot),
    "cross": ("cross(x, y): cross product of two vectors of length 3", cross),
    "length": ("length(x): square root of the sum of squares", length),
    "length_sq": ("length_sq(x): sum of squares", length_sq),
    "normalize": ("normalize(x): x / length(x), zero where the length is zero", normalize),
    "outer": ("outer(x, y): matrix of the products x[i] * y[j]", outer),
    "skew": ("skew(v): matrix m with m @ x == cross(v, x)", skew),
    "argmin": ("argmin(v): position of the first least component, as uint32", argument_of("argmin", "lt")),
    "argmax": ("argmax(v): position of the first greatest component, as uint32", argument_of("argmax", "gt")),
    "transpose": ("transpose(m): rows and columns exchanged", transpose),
    "trace": ("trace(m): sum of the diagonal", trace),
    "determinant": ("determinant(m): by expansion along the first row, up to 4 by 4", determinant),
    "inverse": ("inverse(m): by cofactors, up to 4 by 4; zero where m is singular", inverse),
    "inverse_approx": ("inverse_approx(m): the same as inverse(m)", inverse),
    "diag": ("diag(v): matrix with v on the diagonal", diag),
    "get_diag": ("get_diag(m): the diagonal of m", get_diag),
    "matrix_from_cols": ("matrix_from_cols(…): matrix with the given columns", matrix_from_cols),
    "matrix_from_rows": ("matrix_from_rows(…): matrix with the given rows", matrix_from_rows),
    "cw_mul": ("cw_mul(x, y): product component by component", by_component("cw_mul", "mul")),
    "cw_div": ("cw_div(x, y): quotient component by component", by_component("cw_div", "div")),
}
