"""The functions that kernels may call: one row each, saying which IR they become."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jwarp import types
from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins import linear_algebra
from jwarp.frontend.context import Context
from jwarp.frontend.tiles import operators
from jwarp.frontend.values import composites
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    Number,
    PythonRef,
    StructArray,
    StructValue,
    TileRef,
    describe,
    flatten,
    rebuild,
)
from jwarp.ir.builder import zero
from jwarp.ir.evaluate import evaluate
from jwarp.ir.nodes import Const, Operand
from jwarp.ir.operation import ANY, FLOAT, NUMBER, Kinds
from jwarp.ir.ops import OPS
from jwarp.types import MAX_DIMS, PYTHON_SCALARS, ArrayType, CompositeType, ScalarType, as_scalar, bool_, from_dtype


@dataclass(frozen=True)
class Builtin:
    """A function of the kernel language.

    Outside kernels it may be called with NumPy values where it is a plain scalar function.
    """

    name: str
    doc: str
    lower: Callable[[Context, list[Any], list[Span], Span], Binding]
    operation: str = ""
    signature: inspect.Signature | None = None  # where arguments may be left out or given by name
    outside: str = ""  # what to use instead outside kernels

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.doc)  # what help() shows

    def arguments(self, args: list[Binding], named: dict[str, Binding], span: Span) -> list[Any]:
        """What `lower` takes: the arguments in order, one for each parameter of the signature."""
        if self.signature is None:
            return args
        try:
            bound = self.signature.bind(*args, **named)
        except TypeError as error:
            raise KernelTypeError(f"wp.{self.name}: {error}", span) from None
        bound.apply_defaults()
        return list(bound.arguments.values())

    def __call__(self, *args: Any, **named: Any) -> Any:
        if not self.operation or named:
            raise KernelTypeError(f"wp.{self.name} can only be called inside a kernel", hint=self.outside)
        arrays = tuple(np.asarray(a, _python_dtype(a)) for a in args)
        kinds = tuple(kind for a in arrays if (kind := from_dtype(a.dtype)) is not None)
        row = OPS[self.operation]
        fits = builtins.len(kinds) == builtins.len(args) == row.arity
        result = row.result(kinds) if fits and row.result is not None else None
        if result is None:
            raise KernelTypeError(f"wp.{self.name} does not take ({', '.join(str(a.dtype) for a in arrays)})")
        return evaluate(self.operation, arrays, result)[()]

    def __repr__(self) -> str:
        return f"wp.{self.name}"


def _python_dtype(value: Any) -> Any:
    kind = PYTHON_SCALARS.get(type(value))
    return kind.dtype if kind else None


BUILTINS: dict[str, Builtin] = {}


def _define(name: str, doc: str, lower: Callable, operation: str = "") -> Builtin:
    BUILTINS[name] = Builtin(name, doc, lower, operation)
    return BUILTINS[name]


def check_count(name: str, args: list, expected: tuple[int, ...], span: Span) -> None:
    if builtins.len(args) not in expected:
        numbers = " or ".join(str(n) for n in expected)
        raise KernelTypeError(f"wp.{name} takes {numbers} argument(s), {builtins.len(args)} given", span)


def _check_same(name: str, values: tuple[Operand, ...], span: Span) -> None:
    if builtins.len({v.type for v in values}) > 1:
        types = ", ".join(v.type.name for v in values)
        raise KernelTypeError(f"wp.{name} needs values of one type, got {types}", span, "convert one of them")


def _elementwise(name: str, operation: str | None = None) -> Builtin:
    """A builtin that is one operation on scalars of one type."""
    row = OPS[operation or name]

    def lower(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
        assert row.arity is not None
        if any(isinstance(a, TileRef) for a in args):
            return _of_tiles(caller, name, row.name, args, span)
        if any(isinstance(a, Composite) for a in args):
            return linear_algebra.vector_form(caller, name, row.name, args, span)
        check_count(name, args, (row.arity,), span)
        scalars = [caller.scalar(a, s, f"argument of wp.{name}") for a, s in zip(args, spans, strict=True)]
        return caller.emit(row.name, *scalars, span=span)

    return _define(name, row.doc, lower, row.name)


def _of_tiles(caller: Context, name: str, operation: str, args: list[Binding], span: Span) -> Binding:
    """The operators between tiles, by name."""
    match args:
        case [TileRef() as x] if operation == "neg":
            return operators.negated(caller, x, span)
        case [x, y] if operation in (*operators.IN_PLACE, *operators.SCALED):
            return operators.binary(caller, f"wp.{name}", operation, x, y, span)
    raise KernelTypeError(
        f"wp.{name} does not take tiles", span, f"wp.tile_map(wp.{name}, …) applies it to each element"
    )


add, sub, mul = (_elementwise(n) for n in ("add", "sub", "mul"))
div, floordiv, mod = (_elementwise(n) for n in ("div", "floordiv", "mod"))
div_approx = _elementwise("div_approx", "div")
min, max = _elementwise("min"), _elementwise("max")
pow, atan2, fma = (_elementwise(n) for n in ("pow", "atan2", "fma"))
neg, abs, sqrt = (_elementwise(n) for n in ("neg", "abs", "sqrt"))
sin, cos, tan = (_elementwise(n) for n in ("sin", "cos", "tan"))
asin, acos, atan = (_elementwise(n) for n in ("asin", "acos", "atan"))
exp, log, log2, log10 = (_elementwise(n) for n in ("exp", "log", "log2", "log10"))
sinh, cosh, tanh = (_elementwise(n) for n in ("sinh", "cosh", "tanh"))
erf, erfc, erfinv, erfcinv = (_elementwise(n) for n in ("erf", "erfc", "erfinv", "erfcinv"))
cbrt, copysign, bit_count = (_elementwise(n) for n in ("cbrt", "copysign", "bit_count"))
floor, ceil, trunc = (_elementwise(n) for n in ("floor", "ceil", "trunc"))
round, rint = _elementwise("round"), _elementwise("rint")
bit_and, bit_or = _elementwise("bit_and", "and"), _elementwise("bit_or", "or")
bit_xor, invert = _elementwise("bit_xor", "xor"), _elementwise("invert", "not")
lshift, rshift = _elementwise("lshift", "shl"), _elementwise("rshift", "shr")


def _lower_clamp(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("clamp", args, (3,), span)
    x, low, high = (caller.scalar(a, s, "argument of wp.clamp") for a, s in zip(args, spans, strict=True))
    _check_same("clamp", (x, low, high), span)
    return caller.emit("min", caller.emit("max", low, x, span=span), high, span=span)


clamp = _define("clamp", "clamp(x, low, high): the value between low and high nearest to x", _lower_clamp)


@dataclass(frozen=True)
class _Steps:
    """Emits the operations that a builtin is made of; Python numbers among them have `type`."""

    caller: Context
    type: ScalarType
    span: Span

    def __call__(self, name: str, *args: Operand | float) -> Operand:
        operands = [Number(a).as_type(self.type, self.span) if isinstance(a, (int, float)) else a for a in args]
        return self.caller.emit(name, *operands, span=self.span)


@dataclass(frozen=True)
class _VectorForm:
    """A scalar builtin on components: how many arguments are vectors or matrices, what joins the results."""

    leading: int
    reduction: str = ""


_EACH, _PAIRS = _VectorForm(1), _VectorForm(2)
_ANY, _ALL = _VectorForm(1, "or"), _VectorForm(1, "and")


def _composed(
    name: str, arity: int, kinds: Kinds, doc: str, steps: Callable[..., Operand], form: _VectorForm | None = None
) -> Builtin:
    """A builtin that is a few operations on scalars of one type."""

    def lower(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
        check_count(name, args, (arity,), span)
        if isinstance(args[0], Composite) and form is not None:
            return by_component(form, caller, args[0].type, args, spans, span)
        scalars = tuple(caller.scalar(a, s, f"argument of wp.{name}") for a, s in zip(args, spans, strict=True))
        _check_same(name, scalars, span)
        type = scalars[0].type
        if type.kind not in kinds:
            hint = "it is for floats: convert with float(x)" if kinds == FLOAT else ""
            raise KernelTypeError(f"wp.{name} does not take {type.name}", span, hint)
        return steps(_Steps(caller, type, span), *scalars)

    def by_component(
        form: _VectorForm, caller: Context, kind: CompositeType, args: list[Binding], spans: list[Span], span: Span
    ) -> Binding:
        if any(not isinstance(a, Composite) or a.type is not kind for a in args[: form.leading]):
            given = ", ".join(map(describe, args))
            raise KernelTypeError(
                f"wp.{name} takes {form.leading} vectors or matrices of one type, got ({given})", span
            )
        columns = [a.items if isinstance(a, Composite) else [a] * kind.size for a in args]
        items = [caller.scalar(lower(caller, list(xs), spans, span), span, "") for xs in zip(*columns, strict=True)]
        if not form.reduction:
            return Composite(kind, tuple(items))
        return functools.reduce(lambda x, y: caller.emit(form.reduction, x, y, span=span), items)

    return _define(name, doc, lower)


def _lerp(do: _Steps, a: Operand, b: Operand, t: Operand) -> Operand:
    return do("add", do("mul", a, do("sub", 1, t)), do("mul", b, t))


def _smoothstep(do: _Steps, a: Operand, b: Operand, x: Operand) -> Operand:
    # At a itself the part is 0, also where a and b are the same.
    part = do("select", do("eq", x, a), 0, do("div", do("sub", x, a), do("sub", b, a)))
    part = do("min", do("max", part, 0), 1)
    return do("mul", do("mul", part, part), do("sub", 3, do("mul", 2, part)))


sign, pos, unot, step, nonzero, degrees, radians, frac, isnan, isinf, isfinite, lerp, smoothstep = (
    _composed(*row)
    for row in (
        ("sign", 1, NUMBER, "-1 where x < 0, else 1", lambda do, x: do("select", do("lt", x, 0), -1, 1), _EACH),
        ("pos", 1, NUMBER, "x itself", lambda do, x: x, _EACH),
        ("unot", 1, ANY, "whether x is zero or False", lambda do, x: do("eq", x, False)),
        ("step", 1, NUMBER, "1 where x < 0, else 0", lambda do, x: do("select", do("lt", x, 0), 1, 0)),
        ("nonzero", 1, NUMBER, "0 where x is 0, else 1", lambda do, x: do("select", do("eq", x, 0), 0, 1)),
        ("degrees", 1, FLOAT, "x radians in degrees", lambda do, x: do("mul", x, 180.0 / math.pi)),
        ("radians", 1, FLOAT, "x degrees in radians", lambda do, x: do("mul", x, math.pi / 180.0)),
        ("frac", 1, FLOAT, "x - trunc(x)", lambda do, x: do("sub", x, do("trunc", x))),
        ("isnan", 1, FLOAT, "whether x is NaN", lambda do, x: do("ne", x, x), _ANY),
        ("isinf", 1, FLOAT, "whether x is infinite", lambda do, x: do("eq", do("abs", x), math.inf), _ANY),
        ("isfinite", 1, FLOAT, "whether x is finite", lambda do, x: do("lt", do("abs", x), math.inf), _ALL),
        ("lerp", 3, FLOAT, "lerp(a, b, t): a * (1 - t) + b * t", _lerp, _PAIRS),
        (
            "smoothstep",
            3,
            FLOAT,
            "smoothstep(a, b, x): smooth rise from 0 at a to 1 at b, p * p * (3 - 2 * p) of the clamped part p",
            _smoothstep,
        ),
    )
)


def _lower_where(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("where", args, (3,), span)
    condition = caller.condition(args[0], spans[0])
    if isinstance(args[1], Composite) and isinstance(args[2], Composite) and args[1].type is args[2].type:
        pairs = builtins.zip(args[1].items, args[2].items, strict=True)
        return Composite(args[1].type, tuple(caller.emit("select", condition, *p, span=span) for p in pairs))
    x, y = (caller.scalar(args[k], spans[k], "argument of wp.where") for k in (1, 2))
    _check_same("where", (x, y), span)
    return caller.emit("select", condition, x, y, span=span)


def _lower_select(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("select", args, (3,), span)
    return _lower_where(caller, [args[0], args[2], args[1]], [spans[0], spans[2], spans[1]], span)


where = _define("where", "where(condition, x, y): x where the condition holds, else y", _lower_where)
select = _define("select", "select(condition, y, x): x where the condition holds, else y", _lower_select)


def _lower_follow(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    x, y = (flatten(a, span) or [] for a in args)
    return rebuild(args[0], [caller.emit("follow", a, b, span=span) for a, b in zip(x, y, strict=True)])


def _lower_fixed(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    parts = flatten(args[0], span) or []
    return rebuild(args[0], [caller.emit("follow", x, zero(x.type), span=span) for x in parts])


# For the library: values that one way computes well, and another way differentiates well.
fixed = Builtin("fixed", "fixed(x): x, as a constant for derivatives", _lower_fixed)
follow = Builtin("follow", "follow(x, y): x, with the derivative of y", _lower_follow)


def _composite(name: str) -> Builtin:
    """A builtin on vectors and matrices."""
    doc, rule = linear_algebra.FUNCTIONS[name]
    return _define(name, doc, lambda caller, args, spans, span: rule(caller, args, span))


dot, ddot, cross, outer = (_composite(n) for n in ("dot", "ddot", "cross", "outer"))
length, length_sq, normalize = (_composite(n) for n in ("length", "length_sq", "normalize"))
transpose, trace, determinant = (_composite(n) for n in ("transpose", "trace", "determinant"))
inverse, inverse_approx = _composite("inverse"), _composite("inverse_approx")
diag, get_diag, skew = (_composite(n) for n in ("diag", "get_diag", "skew"))
cw_mul, cw_div = _composite("cw_mul"), _composite("cw_div")
argmin, argmax = _composite("argmin"), _composite("argmax")
matrix_from_cols, matrix_from_rows = _composite("matrix_from_cols"), _composite("matrix_from_rows")


def _made(name: str, rule: linear_algebra.Rule, doc: str, parameters: Callable) -> Builtin:
    """A builtin that makes a vector or matrix of the type that its arguments ask for."""
    signature = inspect.signature(parameters)
    BUILTINS[name] = Builtin(name, doc, lambda caller, args, spans, span: rule(caller, args, span), signature=signature)
    return BUILTINS[name]


vector, matrix, identity = (
    _made(
        "vector",
        composites.make_vector,
        "vector(*values, length, dtype): a vector; what is left out follows from the values",
        lambda *values, length=None, dtype=None: None,
    ),
    _made(
        "matrix",
        composites.make_matrix,
        "matrix(*values, shape, dtype): a matrix, row by row",
        lambda *values, shape=None, dtype=None: None,
    ),
    _made(
        "identity",
        composites.make_identity,
        "identity(n, dtype): the matrix with ones on the diagonal",
        lambda n, dtype: None,
    ),
)


def _lower_cast(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("cast", args, (2,), span)
    wanted = args[1].object if isinstance(args[1], PythonRef) else None
    if isinstance(args[0], Composite) and isinstance(wanted, CompositeType) and args[0].type.is_like(wanted):
        part = PythonRef(wanted.dtype)
        items = (caller.scalar(_lower_cast(caller, [item, part], spans, span), span) for item in args[0].items)
        return Composite(wanted, tuple(items))
    target = as_scalar(wanted)
    value = caller.scalar(args[0], spans[0], "first argument of wp.cast")
    if target is None or target is bool_ or value.type is bool_ or target.bits != value.type.bits:
        raise KernelTypeError(
            "wp.cast keeps the bits, so it needs a numeric type of the same width as the value",
            span,
            "to convert the value, call the type: wp.float32(x)",
        )
    return caller.emit("bitcast", value, span=span, type=target)


cast = _define("cast", "cast(x, dtype): the bits of x read as dtype, of the same width", _lower_cast)


def _atomic(name: str, operation: str, doc: str) -> Builtin:
    """A builtin that changes an element of an array in one indivisible step."""
    count = 2 if operation == "cas" else 1

    def lower(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
        array = args[0] if args else None
        if not isinstance(array, ArrayRef):
            hint = (
                f"name a field: {array.name}.{next(iter(array.type.struct.fields))}"
                if type(array) is StructArray
                else ""
            )
            raise KernelTypeError(
                f"the first argument of wp.{name} must be an array of numbers, vectors or matrices"
                + (f", not {describe(array)}" if array is not None else ""),
                spans[0] if spans else span,
                hint,
            )
        check_count(name, args, (1 + array.type.dims + count,), span)
        indices, values = args[1:-count], args[-count:]
        if name == "atomic_sub":
            values = [composites.negated(caller, values[0], span)]
        return caller.atomic(operation, array, indices, values, spans[1:], span)

    return _define(name, f"{name}(a, indices…, {doc}; gives what the element held before", lower)


atomic_add, atomic_sub = (
    _atomic("atomic_add", "add", "value): add to an element"),
    _atomic("atomic_sub", "add", "value): subtract from an element"),
)
atomic_min, atomic_max = (
    _atomic("atomic_min", "min", "value): store the smaller of the two"),
    _atomic("atomic_max", "max", "value): store the larger of the two"),
)
atomic_and, atomic_or, atomic_xor = (
    _atomic("atomic_and", "and", "value): bitwise and"),
    _atomic("atomic_or", "or", "value): bitwise or"),
    _atomic("atomic_xor", "xor", "value): bitwise exclusive or"),
)
atomic_exch = _atomic("atomic_exch", "exch", "value): store the value")
atomic_cas = _atomic("atomic_cas", "cas", "expected, value): store the value where the element holds what is expected")


def _lower_len(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("len", args, (1,), span)
    match args[0]:
        case ArrayRef() as array:
            return caller.extent(array, 0, span)
        case StructArray(first=array):
            return caller.extent(array, 0, span)
        case tuple() as items:
            return Number(builtins.len(items))
        case Composite(type=kind):
            return Number(kind.shape[0])
        case TileRef(shape=shape):
            return Number(shape[0])
    raise KernelTypeError(f"len() needs an array, a vector or a matrix, not {describe(args[0])}", spans[0])


len = _define("len", "len(a): extent of the first dimension of array a, vector a or matrix a", _lower_len)


def _lower_type(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("type", args, (1,), span)
    return PythonRef(
        args[0].type if isinstance(args[0], (Composite, StructValue)) else caller.scalar(args[0], spans[0]).type
    )


# Python's function, so not among the names of the package.
_TYPE = Builtin("type", "type(x): the type of a number, a vector, a matrix or a struct, to be called", _lower_type)


def _lower_zeros(caller: Context, args: list[Any], spans: list[Span], span: Span) -> Binding:
    shape, dtype = args
    extents = [_constant_extent(n, span) for n in (shape if isinstance(shape, tuple) else (shape,))]
    if not 1 <= builtins.len(extents) <= MAX_DIMS:
        raise CompileError(f"a local array has 1 to {MAX_DIMS} dimensions, not {builtins.len(extents)}", span)
    wanted = float if dtype is None else dtype.object if isinstance(dtype, PythonRef) else None
    element = wanted if isinstance(wanted, CompositeType) else as_scalar(wanted)
    if element is None:
        raise KernelTypeError(
            f"the dtype of a local array must be a scalar, vector or matrix type, not {describe(dtype)}",
            span,
            "wp.zeros(shape=4, dtype=float)",
        )
    return caller.local_array(ArrayType(element, builtins.len(extents)), tuple(extents), span)


def _constant_extent(binding: Binding, span: Span) -> int:
    value = binding.value if isinstance(binding, (Number, Const)) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CompileError(
            "the shape of a local array must be a positive constant integer, or a tuple of them",
            span,
            "write a number, a captured constant or wp.static(…); an array whose shape varies is a parameter",
        )
    return value


def _local_array(name: str) -> Builtin:
    doc = f"{name}(shape, dtype=float): an array of this thread's own, all zeros; the shape is constant"
    signature = inspect.signature(lambda shape, dtype=None: None)
    outside = f"outside kernels arrays are NumPy's or JAX's: jnp.{name}(…)"
    BUILTINS[name] = Builtin(name, doc, _lower_zeros, signature=signature, outside=outside)
    return BUILTINS[name]


# What an element holds that nothing was stored to is zero after either.
zeros, empty = _local_array("zeros"), _local_array("empty")


def _lower_tid(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("tid", args, (0,), span)
    return caller.tid(1, span)


tid = _define("tid", "tid(): this thread's coordinate(s) in the launch, as one int32 or 2 to 4 of them", _lower_tid)


def _only_in_for(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    raise CompileError("range() can only stand in a for statement", span)


range = _define("range", "range([start,] stop [, step]): the integers of a for statement", _only_in_for)


def _reads_its_call(caller: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    raise AssertionError("texts are read from the call itself")


printf = _define(
    "printf",
    "printf(format, numbers…): write text to the standard output for each thread, formatted as in C",
    _reads_its_call,
)
print = _define(
    "print",
    "print(values…): write a line with texts, numbers, vectors and matrices for each thread",
    _reads_its_call,
)


def static(value: Any) -> Any:
    """Evaluate an expression in Python when the kernel is built: `wp.static(a + 1)`.

    Outside kernels it gives its argument. Names of the kernel itself are not visible, but for
    variables of unrolled loops.
    """
    return value


def constant(value: Any) -> Any:
    """Mark a number, a vector or a matrix as a constant for kernels; gives it back unchanged."""
    if not isinstance(value, (bool, int, float, np.generic, types.CompositeValue)):
        raise TypeError(f"wp.constant takes a number, a bool, a vector or a matrix, not {type(value).__name__}")
    return value


# Python's own functions, and those that make types, mean the kernel language's function of that name.
PYTHON_BUILTINS: dict[Any, Builtin] = {
    getattr(builtins, name): BUILTINS[name] for name in ("abs", "min", "max", "round", "pow", "len", "range", "print")
} | {types.vector: vector, types.matrix: matrix, type: _TYPE}
