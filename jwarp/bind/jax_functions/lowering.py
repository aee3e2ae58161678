"""Lowers a jaxpr to IR of scalars: arrays of known shape are taken apart, and each primitive has a row in one table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jwarp.bind import compat
from jwarp.bind.jax_functions.equations import is_literal, name_of, span_of
from jwarp.bind.jax_functions.forms import Form, NotLinear, Scalar, linear_op
from jwarp.bind.jax_functions.parts import (
    COMPLEX_TYPES,
    Complex,
    ComplexType,
    Key,
    Parts,
    cast_complex,
    complex_constant,
    complex_op,
)
from jwarp.errors import CompileError, JwarpError, Span
from jwarp.frontend.context import Context, UsesTiles
from jwarp.ir.builder import nearest, zero
from jwarp.ir.evaluate import as_constant
from jwarp.ir.nodes import Const, Operand
from jwarp.types import ScalarType, from_dtype

# An array of a traced function: a NumPy array of the scalars, or of what has several parts, in its shape.
Scalars = np.ndarray


# How many scalar operations one call may become, and how many numbers of arrays from outside it may have.
MAX_OPERATIONS = 30_000
MAX_CONSTANTS = 4096

Rule = Callable[..., Any]
# The rules of primitives, by name. A rule takes the lowering, the equation and the arrays, and gives an array, or
# a list of arrays where the primitive has several results.
PRIMITIVES: dict[str, Rule] = {}
# Those that kernels cannot have: why not, and what to do instead.
REFUSED: dict[str, tuple[str, str]] = {
    "debug_callback": ("calls Python while the kernel runs", "print with wp.printf or print(…) in the kernel"),
    "debug_print": ("prints", "print with wp.printf or print(…) in the kernel"),
    "io_callback": ("calls Python while the kernel runs", "do it outside of the kernel"),
    "pure_callback": ("calls Python while the kernel runs", "do it outside of the kernel, and pass what it gives"),
}


def primitive(*names: str) -> Callable[[Rule], Rule]:
    """Make the function below the rule for the primitives of these names."""

    def entered(rule: Rule) -> Rule:
        PRIMITIVES.update(dict.fromkeys(names, rule))
        return rule

    return entered


def scalar_type(dtype: Any, what: str, span: Span) -> Any:
    """The type of the kernel language for a dtype of JAX's, or a ComplexType.

    Raises:
        CompileError: there is none.
    """
    is_key = compat.key_implementation(dtype) is not None
    found = None if is_key else COMPLEX_TYPES.get(np.dtype(dtype)) or from_dtype(np.dtype(dtype))
    if found is None:
        raise CompileError(f"{what} has dtype {dtype}, which kernels do not know", span, "use integers or floats")
    return found


class Lowering:
    """The lowering of one call, where the builder of the kernel is."""

    def __init__(self, ctx: Context, name: str, span: Span):
        """`name` is that of the function, `span` where the kernel calls it."""
        self.ctx, self.name, self.call = ctx, name, span
        self.build = ctx.builder
        # How many derivatives of what is built may be taken: rules of JAX give slopes, and slopes of these.
        self.order = 2
        self.count = 0
        self.counts: Counter[tuple[str, Span]] = Counter()  # the operations of each line's primitives
        self.at_hand = "", span
        # Arrays of the thread's own that hold certain scalars, and the blocks in which these were stored.
        self.tables: dict[tuple[Operand, ...], tuple[Any, list[Any]]] = {}
        self.span = span
        self.is_trial = False  # whether what is built tells only whether a loop is linear
        self.of_tangents = False  # whether it is a rule that is given tangents
        self.is_foreign = False  # whether the jaxpr at hand is of code that is not the user's, which has no lines

    # -- jaxprs

    def run(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Scalars]) -> list[Scalars]:
        """The results of a jaxpr."""
        env: dict[Any, Scalars] = {}
        for variable, const in zip(jaxpr.constvars, consts, strict=True):
            env[variable] = const if _is_lowered(const) else self.constant(const)
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Scalars:
            return self.constant(atom.val, atom.aval.dtype) if is_literal(atom) else env[atom]

        for equation in _needed(jaxpr):
            with self.at(equation):
                found = self.equation(equation, [read(x) for x in equation.invars])
            env.update(zip(equation.outvars, found, strict=True))
        return [read(x) for x in jaxpr.outvars]

    def closed(self, closed: Any, args: Sequence[Scalars], foreign: bool = False) -> list[Scalars]:
        """The results of a jaxpr with its constants; a `foreign` one is no code of the user's."""
        before, self.is_foreign = (
            self.is_foreign,
            self.is_foreign or foreign or compat.in_library(compat.traced_file(closed.jaxpr)),
        )
        try:
            return self.run(closed.jaxpr, closed.consts, args)
        finally:
            self.is_foreign = before

    def equation(self, equation: Any, args: list[Scalars]) -> list[Scalars]:
        """The results of one equation.

        Raises:
            CompileError: its primitive has no row.
        """
        name = equation.primitive.name
        rule = PRIMITIVES.get(name)
        if rule is None:
            reason, way_out = REFUSED.get(name, ("kernels do not have", "write this part in the kernel language"))
            what = f"`{name}` of JAX {reason}" if name in REFUSED else f"`{name}` is a primitive of JAX that {reason}"
            raise self.error(what, way_out)
        try:
            found = rule(self, equation, *args)
        except (JwarpError, NotLinear, UsesTiles):
            raise
        except Exception as error:  # parameters of a primitive that its rule does not know
            raise self.error(
                f"`{name}` of JAX is used in a way that kernels do not have: {type(error).__name__}: {error}"
            ) from error
        return found if isinstance(found, list) else [found]

    @contextmanager
    def at(self, equation: Any) -> Iterator[None]:
        """Stamp what is built inside with the line of the user's that the equation is of."""
        before, builder_before, at_hand = self.span, self.build.span, self.at_hand
        if not self.is_foreign:
            self.span = span_of(equation) or before
            self.at_hand = name_of(equation), self.span
        self.build.span = self.span
        try:
            yield
        finally:
            self.span, self.build.span, self.at_hand = before, builder_before, at_hand

    def error(self, message: str, way_out: str = "") -> CompileError:
        """The error for what the function does at the line at hand."""
        return CompileError(f"`{self.name}`: {message}", self.span, way_out)

    def too_many(self) -> CompileError:
        """The error for a call of too many operations, at the line that most of them are of."""
        (name, span), most = self.counts.most_common(1)[0]
        whose = f", {most} of them for `{name}` here" if name else ""
        return CompileError(
            f"`{self.name}`: it takes more than {MAX_OPERATIONS} operations on scalars{whose}",
            span,
            "kernels are for functions of few numbers: apply larger ones outside, to arrays",
        )

    # -- scalars

    def op(self, name: str, *args: Scalar, type: ScalarType | None = None, attr: str | None = None) -> Any:
        """An operation of the IR on scalars."""
        self.count += 1
        self.counts[self.at_hand] += 1
        if self.count > MAX_OPERATIONS:
            raise self.too_many()
        for x in args:
            if isinstance(x, Complex):
                return complex_op(self, name, args)
            if isinstance(x, Form):
                return linear_op(self.build, name, args, type)
        if self.of_tangents and name == "mul" and any(isinstance(x, Const) and x == zero(x.type) for x in args):
            return zero(args[0].type)  # the tangent of a constant, times anything
        return self.build.op(name, *args, attr=attr, type=type)  # type: ignore[arg-type]

    def cast(self, x: Scalar, type: Any) -> Any:
        """A conversion, nothing where it is of that type."""
        if isinstance(type, ComplexType):
            return cast_complex(self, x, type)
        return x if x.type is type else self.op("cast", x, type=type)

    def number(self, type: Any, value: float) -> Any:
        """The constant of a type that is nearest to a number."""
        if isinstance(type, ComplexType):
            return complex_constant(type, value)
        return nearest(type, value) if type.is_float else Const(type, value)

    def where(self, condition: Scalar, x: Any, y: Any) -> Any:
        """One of two values."""
        if isinstance(x, Parts) and isinstance(y, Parts):
            return type(x)(tuple(self.where(condition, *pair) for pair in zip(x.numbers, y.numbers, strict=True)))
        return self.op("select", condition, x, y)

    def undifferentiated(self, x: Scalar) -> Any:
        """The value, whose derivative is zero."""
        if isinstance(x, Complex):
            return Complex(tuple(map(self.undifferentiated, x.numbers)))
        return self.op("follow", x, zero(x.type)) if isinstance(x.type, ScalarType) and x.type.is_float else x

    def sloped(self, value: Scalar, *slopes: tuple[Scalar, Scalar], author: str | None = None) -> Any:
        """A value whose derivative by each of some others is given, and zero by all else.

        `author` is the function that says so, where second derivatives may depend on their order.
        """
        if isinstance(value, (Form, Const)) or not value.type.is_float:
            return value
        for x, _ in slopes:
            if isinstance(x, Form):
                return value
        found = self.undifferentiated(value)
        if self.order <= 0:
            return found
        for x, slope in slopes:
            if not isinstance(x, Const) and x.type.is_float:
                found = self.op("slope", found, self.cast(x, value.type), slope, attr=author)
        return found

    @contextmanager
    def derived(self, order: int) -> Iterator[None]:
        """Limit the order of derivatives that may be taken of what is built inside."""
        before, self.order = self.order, min(order, self.order)
        try:
            yield
        finally:
            self.order = before

    # -- arrays

    def constant(self, value: Any, dtype: Any = None) -> Scalars:
        """A number or array from outside."""
        if isinstance(value, compat.Tracer):
            raise self.error("a value that JAX traces elsewhere is used in it", "pass it as an argument")
        implementation = compat.key_implementation(getattr(value, "dtype", None)) if dtype is None else None
        if implementation is not None:
            numbers = self.constant(compat.numbers_of_key(value))
            return filled(value.shape, (Key(tuple(row)) for row in numbers.reshape(-1, numbers.shape[-1])))
        array = np.asarray(value)
        kind = scalar_type(array.dtype if dtype is None else dtype, "a number from outside", self.span)
        array = array.astype(kind.dtype)
        if isinstance(kind, ComplexType):
            return filled(array.shape, (complex_constant(kind, complex(x)) for x in array.flat))
        return filled(array.shape, (as_constant(x, kind) for x in array.flat))

    def each(self, rule: Callable[..., Scalar], *arrays: Scalars) -> Scalars:
        """Apply `rule` to the scalars at each place."""
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
        flat = [np.broadcast_to(x, shape).flat for x in arrays]
        return filled(shape, (rule(*scalars) for scalars in zip(*flat, strict=True)))


def filled(shape: tuple[int, ...], scalars: Any) -> Scalars:
    """The array of a shape with these scalars, row by row."""
    made = np.empty(math.prod(shape), object)
    for k, x in enumerate(scalars):
        made[k] = x
    return made.reshape(shape)


def single(x: Any) -> Scalars:
    """The array of no dimensions that is one scalar."""
    return filled((), (x,))


def one(array: Scalars) -> Any:
    """The scalar that an array of no dimensions is."""
    return array[()]


def flat(arrays: Sequence[Scalars]) -> list[Operand]:
    """The scalars of arrays, in order."""
    return [part for array in arrays for x in array.flat for part in (x.numbers if isinstance(x, Parts) else (x,))]


def alike(arrays: Sequence[Scalars], scalars: Sequence[Any]) -> list[Scalars]:
    """Arrays of the shapes of others, of scalars that are used up from the front."""
    left = iter(scalars)

    def made(x: Any) -> Any:
        return type(x)(tuple(next(left) for _ in x.numbers)) if isinstance(x, Parts) else next(left)

    return [filled(array.shape, map(made, array.flat)) for array in arrays]


def _is_lowered(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


def _needed(jaxpr: Any) -> list[Any]:
    """The equations whose results, or effects, are needed."""
    needed = {x for x in jaxpr.outvars if not is_literal(x)}
    found = []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or not needed.isdisjoint(equation.outvars):
            found.append(equation)
            needed.update(x for x in equation.invars if not is_literal(x))
    return found[::-1]
