"""The functions of vectors and matrices: their rules, and one row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jwarp import types
from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.builtins import inverses
from jwarp.frontend.builtins.table import PYTHON_BUILTINS, Builtin, define
from jwarp.frontend.values import composites
from jwarp.frontend.values.bindings import Binding, Composite, describe
from jwarp.frontend.values.composites import Emitter, elementwise, from_rows, total
from jwarp.frontend.values.operator_table import ELEMENTWISE, binary, operator, unary
from jwarp.frontend.values.spatial import identity as without_rotation
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Operand
from jwarp.types import MATRIX, QUATERNION, VECTOR, CompositeKind, uint32
from jwarp.types.queries import no_overload

Rule = Callable[[Emitter, Sequence[Binding], Span], Binding]


def _given(args: Sequence[Binding]) -> str:
    return f"({', '.join(map(describe, args))})"


def _composites(
    name: str, args: Sequence[Binding], count: int, span: Span, kind: CompositeKind = VECTOR, floats: bool = False
) -> list[Composite]:
    """The arguments as `count` composites of one type, which is of `kind`."""
    found = [a for a in args if isinstance(a, Composite) and a.type.kind is kind]
    fits = len(args) == len(found) == count and len({a.type for a in found}) == 1
    if not fits or (floats and not found[0].type.dtype.is_float):
        what = f"a {kind.name}" if count == 1 else f"{count} {kind.plural} of one type"
        if len(found) == count > 1 and len(args) == count:
            names = [a.type.full_name for a in found]
            raise KernelTypeError(f"wp.{name} takes {what}: Input types must be exactly the same, got {names}", span)
        raise KernelTypeError(f"wp.{name} takes {what}{' of floats' if floats else ''}, got {_given(args)}", span)
    return found


def _vectors_or_quaternions(
    name: str, args: Sequence[Binding], count: int, span: Span, floats: bool = False
) -> list[Composite]:
    """The arguments as vectors or, if one is a quaternion, as quaternions."""
    is_quaternion = any(isinstance(a, Composite) and a.type.kind is QUATERNION for a in args)
    return _composites(name, args, count, span, QUATERNION if is_quaternion else VECTOR, floats)


def _vectors_of_3(name: str, args: Sequence[Binding], count: int, span: Span) -> list[Composite]:
    found = _composites(name, args, count, span)
    if found[0].type.size != 3:
        raise KernelTypeError(f"wp.{name} takes vectors of length 3, got {_given(args)}", span)
    return found


def _square(name: str, args: Sequence[Binding], span: Span, largest: int | None = None) -> Composite:
    (m,) = _composites(name, args, 1, span, kind=MATRIX, floats=largest is not None)
    rows, columns = m.type.shape
    if rows != columns or rows > (largest or rows):
        limit = f" of at most {largest} rows" if largest else ""
        raise KernelTypeError(f"wp.{name} takes a square matrix{limit}, got {_given(args)}", span)
    return m


# -- vectors


def _dot_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    x, y = _vectors_or_quaternions("dot", args, 2, span)
    return _dot(e, x, y, span)


def _dot(e: Emitter, x: Composite, y: Composite, span: Span) -> Operand:
    terms = elementwise(e, "mul", (x, y), span).items
    return total(e, terms, span) if terms else zero(x.type.dtype)


def _cross_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    x, y = _vectors_of_3("cross", args, 2, span)

    def minor(i: int, j: int) -> Operand:
        ab = e.emit("mul", x.items[i], y.items[j], span=span)
        return e.emit("sub", ab, e.emit("mul", x.items[j], y.items[i], span=span), span=span)

    return Composite(x.type, (minor(1, 2), minor(2, 0), minor(0, 1)))


def _length_sq_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    (x,) = _vectors_or_quaternions("length_sq", args, 1, span)
    return _dot(e, x, x, span)


def _length_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    (x,) = _vectors_or_quaternions("length", args, 1, span, floats=True)
    return e.emit("norm", *x.items, span=span) if x.items else zero(x.type.dtype)


def _normalize_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    """x / |x|, and zero where |x| is zero or NaN; of a quaternion the one without rotation."""
    (x,) = _vectors_or_quaternions("normalize", args, 1, span, floats=True)
    size = _length_rule(e, (x,), span)
    positive = e.emit("gt", size, zero(size.type), span=span)
    one = Const(size.type, 1.0)
    # Divided, so that vectors along an axis become exactly those of length 1. The inverse is for derivatives: a length
    # that is not zero is too large for it to overflow.
    divisor = e.emit("select", positive, size, one, span=span)
    inverse = e.emit("div", one, divisor, span=span)
    made = (e.emit("over", item, divisor, inverse, span=span) for item in x.items)
    rest = without_rotation(x.type).items if x.type.kind is QUATERNION else [zero(size.type)] * len(x.items)
    pairs = zip(made, rest, strict=True)
    return Composite(x.type, tuple(e.emit("select", positive, *pair, span=span) for pair in pairs))


def _outer_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    vectors = [a for a in args if isinstance(a, Composite) and a.type.is_vector]
    if len(args) != 2 or len(vectors) != 2 or vectors[0].type.dtype is not vectors[1].type.dtype:
        raise KernelTypeError(f"wp.outer takes two vectors with components of one type, got {_given(args)}", span)
    x, y = vectors
    items = tuple(e.emit("mul", a, b, span=span) for a in x.items for b in y.items)
    return Composite(types.matrix((x.type.size, y.type.size), x.type.dtype), items)


def _skew_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    """The matrix of the cross product with a vector."""
    (v,) = _vectors_of_3("skew", args, 1, span)
    x, y, z = v.items
    none = zero(v.type.dtype)

    def neg(item: Operand) -> Operand:
        return e.emit("neg", item, span=span)

    return Composite(types.matrix((3, 3), v.type.dtype), (none, neg(z), y, z, none, neg(x), neg(y), x, none))


def _check_components(name: str, v: Composite, span: Span) -> None:
    if not v.items:
        raise KernelTypeError(f"wp.{name} of {v.type!r}, which has no components", span)


def _extremum(name: str) -> Rule:
    """The least or greatest component of a vector, or of two vectors component by component."""

    def rule(e: Emitter, args: Sequence[Binding], span: Span) -> Binding:
        values = _composites(name, args, min(max(len(args), 1), 2), span)
        if len(values) == 2:
            return elementwise(e, name, values, span)
        _check_components(name, values[0], span)
        result = values[0].items[0]
        for item in values[0].items[1:]:
            result = e.emit(name, result, item, span=span)
        return result

    return rule


def _argument_of(name: str, better: str) -> Rule:
    """The position of the first least or greatest component, as uint32; NaNs are passed over."""

    def rule(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
        (v,) = _composites(name, args, 1, span)
        _check_components(name, v, span)
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


def _transpose_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    (m,) = _composites("transpose", args, 1, span, kind=MATRIX)
    return m.transposed


def _ddot_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    x, y = _composites("ddot", args, 2, span, kind=MATRIX)
    return _dot(e, x, y, span)


def _trace_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    m = _square("trace", args, span)
    return total(e, [row[k] for k, row in enumerate(m.rows)], span)


def _determinant_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Operand:
    return inverses.determinant(e, _square("determinant", args, span, inverses.MAX_EXPANDED).rows, span)


def _inverse_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    return inverses.inverse(e, _square("inverse", args, span, inverses.MAX_EXPANDED), span)


def _diag_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    (v,) = _composites("diag", args, 1, span)
    n, kind = v.type.size, v.type.dtype
    items = tuple(v.items[i] if i == j else zero(kind) for i in range(n) for j in range(n))
    return Composite(types.matrix((n, n), kind), items)


def _get_diag_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    m = _square("get_diag", args, span)
    return Composite(types.vector(m.type.shape[0], m.type.dtype), tuple(row[k] for k, row in enumerate(m.rows)))


def _from_cols_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    return from_rows(_composites("matrix_from_cols", args, len(args) or 1, span)).transposed


def _from_rows_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    return from_rows(_composites("matrix_from_rows", args, len(args) or 1, span))


# -- both


def _by_component(name: str, operation: str) -> Rule:
    """An operation on each pair of components of two vectors or two matrices."""

    def rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
        kind = args[0].type.kind if args and isinstance(args[0], Composite) else VECTOR
        return elementwise(e, operation, _composites(name, args, 2, span, kind), span)

    return rule


def vector_form(e: Emitter, name: str, operation: str, args: Sequence[Binding], span: Span) -> Binding:
    """Apply the scalar function `name` to vectors and matrices, where that is defined."""
    if len(args) == 2 and (operation in ("mul", "div") or operation in ELEMENTWISE):
        return binary(e, f"wp.{name}", operation, args[0], args[1], span)
    if operation in ("min", "max"):
        return _extremum(operation)(e, args, span)
    if len(args) == 1 and isinstance(args[0], Composite):
        if operator(operation, args[0], None):
            return unary(e, f"wp.{name}", operation, args[0], span)
        if operation == "abs" and args[0].type.kind.takes(operation):
            return elementwise(e, operation, (args[0],), span)
    why = no_overload(name, map(describe, args))
    raise KernelTypeError(f"wp.{name} does not take {_given(args)}: {why}", span, "apply it to each component")


# -- rows


def _row(forms: str, doc: str, rule: Rule, **details: Any) -> Builtin:
    """A builtin whose rule reads its arguments without their places."""
    return define(forms, doc, lambda ctx, args, spans, span: rule(ctx, args, span), **details)


dot = _row(
    """
    dot(a: Vector[Number, Any], b: Vector[Number, Any]) -> Number
    dot(a: Quaternion[Float], b: Quaternion[Float]) -> Float""",
    "The dot product of two vectors, or quaternions, of the same type.",
    _dot_rule,
)
ddot = _row(
    "ddot(a: Matrix[Number, Any], b: Matrix[Number, Any]) -> Number",
    "The sum of the products of the entries of two matrices of the same type.",
    _ddot_rule,
)
cross = _row(
    "cross(a: AnyVector, b: AnyVector) -> AnyVector",
    "The cross product of two vectors of length 3.",
    _cross_rule,
)
length = _row(
    "length(a: Vector[Float, Any]) -> Float\nlength(a: Quaternion[Float]) -> Float",
    "The square root of the sum of the squares of the components of a vector of floats, or of a quaternion.",
    _length_rule,
)
length_sq = _row(
    "length_sq(a: Vector[Number, Any]) -> Number\nlength_sq(a: Quaternion[Float]) -> Float",
    "The sum of the squares of the components of a vector, or of a quaternion.",
    _length_sq_rule,
)
normalize = _row(
    "normalize(a: AnyVector) -> AnyVector\nnormalize(a: AnyQuaternion) -> AnyQuaternion",
    "a / length(a). If the length is zero: a vector of zeros, or the quaternion 0, 0, 0, 1.",
    _normalize_rule,
)
outer = _row(
    "outer(a: Vector[Any, AnyMatrix], b: Vector[Any, AnyMatrix]) -> AnyMatrix",
    "The matrix of the products a[i] * b[j] of two vectors with the same component type; lengths may differ.",
    _outer_rule,
)
skew = _row(
    "skew(vec: Vector[Any, AnyMatrix]) -> AnyMatrix",
    "The skew-symmetric matrix m of a vector of length 3, with m @ x == cross(vec, x).",
    _skew_rule,
)
argmin = _row(
    "argmin(a: Vector[Any, Any]) -> uint32",
    "The index of the first smallest component. NaNs are ignored.",
    _argument_of("argmin", "lt"),
)
argmax = _row(
    "argmax(a: Vector[Any, Any]) -> uint32",
    "The index of the first largest component. NaNs are ignored.",
    _argument_of("argmax", "gt"),
)
cw_mul = _row(
    "cw_mul(a: Composite, b: Composite) -> Composite",
    "The product of two vectors or matrices of the same type, component by component.",
    _by_component("cw_mul", "mul"),
)
cw_div = _row(
    "cw_div(a: Composite, b: Composite) -> Composite",
    "The quotient of two vectors or matrices of the same type, component by component.",
    _by_component("cw_div", "div"),
)
transpose = _row(
    "transpose(a: AnyMatrix) -> AnyMatrix",
    "The matrix with rows and columns exchanged.",
    _transpose_rule,
)
trace = _row("trace(a: Matrix[Number, Any]) -> Number", "The sum of the diagonal of a square matrix.", _trace_rule)
determinant = _row(
    "determinant(a: Matrix[Float, Any]) -> Float",
    "The determinant of a square matrix of floats with at most 4 rows, by expansion along the first.",
    _determinant_rule,
)
inverse = _row(
    "inverse(a: AnyMatrix) -> AnyMatrix",
    "The inverse of a square matrix of floats with at most 4 rows, by cofactors; zero if it is singular.",
    _inverse_rule,
)
inverse_approx = _row("inverse_approx(a: AnyMatrix) -> AnyMatrix", "The same as `inverse`.", _inverse_rule)
diag = _row("diag(vec: Vector[Any, AnyMatrix]) -> AnyMatrix", "The matrix with `vec` on the diagonal.", _diag_rule)
get_diag = _row(
    "get_diag(mat: Matrix[Any, AnyVector]) -> AnyVector", "The diagonal of a square matrix.", _get_diag_rule
)
matrix_from_cols = _row(
    "matrix_from_cols(*args: Vector[Any, Any]) -> Any",
    "The matrix with these columns, vectors of the same type.",
    _from_cols_rule,
)
matrix_from_rows = _row(
    "matrix_from_rows(*args: Vector[Any, Any]) -> Any",
    "The matrix with these rows, vectors of the same type.",
    _from_rows_rule,
)
vector = _row(
    "vector(*values: Any, length: int | None = None, dtype: Any = None) -> Any",
    """A vector of `values`: none for zeros, one for all components, or one for each; or a vector to be converted.

    `length`, a constant, and `dtype`, a scalar type, follow from the values where they are left out.""",
    composites.make_vector,
    binds=True,
)
matrix = _row(
    "matrix(*values: Any, shape: tuple[int, int] | None = None, dtype: Any = None) -> Any",
    """A matrix of `values`, row by row: none for zeros, one for all, or one for each; or a matrix to be converted.

    `shape`, two constants, is left out where a matrix is given; `dtype`, a scalar type, follows from the values.""",
    composites.make_matrix,
    binds=True,
)
identity = _row(
    "identity(n: int, dtype: Any) -> Any",
    "The n by n matrix of a scalar type with ones on the diagonal and zeros elsewhere; n is a constant.",
    composites.make_identity,
    binds=True,
)

# The functions that make types make values in kernels.
PYTHON_BUILTINS[types.vector], PYTHON_BUILTINS[types.matrix] = vector, matrix
