"""Lowers `wp.grad(f)(x, …)`: the gradient of what a function gives by its arguments, built where it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.caches import Cache
from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins.table import PYTHON_BUILTINS, Builtin
from jwarp.frontend.canonicalise import canonical
from jwarp.frontend.context import Context
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.arguments import Arguments
from jwarp.frontend.lowering.indexed_composites import scalars_only
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    PythonRef,
    StructArray,
    StructValue,
    as_operand,
    bind_python,
    describe,
    flatten,
)
from jwarp.ir.builder import Builder, zero
from jwarp.ir.nodes import Gradient, Node, Operand, Value


class GradientOf:
    """The value of `wp.grad(f)`: a function of the arguments of `f`, for kernels."""

    def __init__(self, function: Any):
        self.function = function
        self.__name__ = f"grad({function.name})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise KernelTypeError(f"wp.{self.__name__} can only be called inside a kernel", hint="outside: jax.grad")

    def __repr__(self) -> str:
        return f"wp.{self.__name__}"


def grad(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of a function of the kernel language, as a function for kernels: `wp.grad(f)(x, y)`.

    It takes the arguments of `function` and returns one gradient, with the type of the argument, for each argument that
    is not a function; a tuple if there are several. The gradient of an integer is zero; that of an array cannot be
    read. If there are vectors, matrices or several results, it is the gradient of the sum of all their components.
    Gradients defined by `@wp.func_grad` are used. Unlike in Warp, derivatives of a kernel go through it; they are
    second derivatives.

    Args:
        function: A `@wp.func` or a builtin. It writes to no arrays except its own local arrays, and uses no tiles.

    Raises:
        KernelTypeError: `function` is neither a `@wp.func` nor a builtin.
        NotDifferentiableError: At the use: an operation in `function` has no exact derivative.

    Example:
        >>> dx, dy = wp.grad(wp.atan2)(x, y)
    """
    function = canonical(function)
    if not isinstance(function, (Func, Builtin)):
        raise KernelTypeError(f"wp.grad needs a function of the kernel language, not {function!r}")
    return _known.made(function, lambda: GradientOf(function))


class NoGradient:
    """Stands for the gradient of an array, which a name may have and nothing can read."""


NO_GRADIENT = NoGradient()

# One for each function, so that a name may stand for it on both sides of a branch.
_known: Cache[Any, GradientOf] = Cache("gradients of functions", "functions that kernels name")


def _lower_grad(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    given = args[0].object if len(args) == 1 and isinstance(args[0], PythonRef) else None
    function = PYTHON_BUILTINS.get(given, given) if isinstance(given, Callable) else given  # type: ignore[arg-type]
    if not isinstance(function, (Func, Builtin)):
        shown = describe(args[0]) if len(args) == 1 else f"{len(args)} arguments"
        raise KernelTypeError(f"wp.grad takes a function of the kernel language, not {shown}", span)
    return PythonRef(grad(function))


PYTHON_BUILTINS[grad] = Builtin("grad(f: Callable[..., Any]) -> Callable[..., Any]", "", _lower_grad)

# From the nodes that make results of parameters, the gradients of the sum of the results, built by the builder; the
# parameters stand for the operands given with them.
Differentiate = Callable[
    [Builder, Sequence[Node], Sequence[tuple[Value, Operand]], Sequence[Operand], Sequence[Gradient], "Differentiated"],
    Sequence[Operand],
]


@dataclass(frozen=True)
class Differentiated:
    """The function whose gradient is taken, and where that is.

    `own` are the numbers of its local arrays; `twin` gives that of a new one like the one of a number.
    """

    name: str
    span: Span
    own: range
    twin: Callable[[int], int]


_installed: list[Differentiate] = []


def install(differentiate: Differentiate) -> None:
    """Let `differentiate`, of a layer above, make the gradients."""
    _installed.append(differentiate)


def call_gradient(ctx: Context, gradient: GradientOf, given: Arguments) -> Binding:
    """Lower a call of `wp.grad(f)`."""
    function, span = gradient.function, given.span
    values, spans = _in_order(function, given)
    inputs: list[tuple[Value, Operand]] = []
    inner = [_with_inputs(value, inputs, span) for value in values]
    first = ctx.first_local + len(ctx.locals)
    only_values, ctx.only_values = ctx.only_values, False
    with ctx.builder.block() as nodes, scalars_only(ctx):
        result = ctx.apply(PythonRef(function), inner, spans, span)
        scalars = flatten(result, span)
    ctx.only_values = only_values
    if result == () or scalars is None:
        what = "nothing" if result == () else describe(result)
        raise CompileError(f"`{function.name}` gives {what}, which has no gradient", span, "return numbers or vectors")
    own = range(first, ctx.first_local + len(ctx.locals))
    about = Differentiated(function.name, span, own, lambda number: ctx.another_local(number, span))
    totals = list(_installed[-1](ctx.builder, nodes, inputs, scalars, ctx.gradients, about))
    made = tuple(_gradient(value, totals) for value in values if not isinstance(value, PythonRef))
    return made[0] if len(made) == 1 else made


def _in_order(function: Func | Builtin, given: Arguments) -> tuple[list[Binding], list[Span]]:
    """The arguments in order of the parameters, with those that are left out, and where they are written."""
    if isinstance(function, Func):
        for overload in function.overloads:
            try:
                bound = overload.signature.bind(*given.values, **given.named).arguments
            except TypeError:
                continue
            parameters = overload.signature.parameters
            values = [
                bound[name] if name in bound else bind_python(p.default, name, given.span)
                for name, p in parameters.items()
            ]
            written = [*given.spans, *given.named_spans.values()]
            return values, [*written, *([given.span] * (len(values) - len(written)))]
    if given.named:
        raise KernelTypeError(f"wp.grad({function.name}) takes no such arguments", given.span, "give them in order")
    return list(given.values), list(given.spans)


def _with_inputs(binding: Binding, inputs: list[tuple[Value, Operand]], span: Span) -> Binding:
    """The argument with each float in it a value of its own, which goes to `inputs` with what it stands for."""
    if isinstance(binding, Composite):
        return Composite(binding.type, tuple(_input(x, inputs) for x in binding.items))
    if isinstance(binding, StructValue):
        return StructValue(binding.type, tuple(_with_inputs(item, inputs, span) for item in binding.items))
    if isinstance(binding, tuple):
        return tuple(_with_inputs(item, inputs, span) for item in binding)
    scalar = as_operand(binding, span)
    return binding if scalar is None else _input(scalar, inputs)


def _input(x: Operand, inputs: list[tuple[Value, Operand]]) -> Operand:
    if not x.type.is_float:
        return x
    made = Value(x.type)
    inputs.append((made, x))
    return made


def _gradient(binding: Binding, totals: list[Operand]) -> Binding:
    """The gradient of an argument, in the argument's structure; `totals` are consumed from the front."""
    if isinstance(binding, Composite):
        return Composite(binding.type, tuple(_total(x.type, totals) for x in binding.items))
    if isinstance(binding, StructValue):
        return StructValue(binding.type, tuple(_gradient(item, totals) for item in binding.items))
    if isinstance(binding, tuple):
        return tuple(_gradient(item, totals) for item in binding)
    if isinstance(binding, (ArrayRef, StructArray)):
        return PythonRef(NO_GRADIENT)
    kind = getattr(binding, "type", None)
    return binding if kind is None else _total(kind, totals)


def _total(kind: Any, totals: list[Operand]) -> Operand:
    return totals.pop(0) if kind.is_float else zero(kind)
