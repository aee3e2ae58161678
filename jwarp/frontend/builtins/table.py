"""Builtins as rows: a signature, a docstring, and the rule that lowers a call to IR."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.builtins.signatures import Described, first_fitting
from jwarp.frontend.context import Context
from jwarp.frontend.values.bindings import Binding, bind_python
from jwarp.ir.evaluate import evaluate
from jwarp.ir.nodes import Operand
from jwarp.ir.ops import OPS
from jwarp.types import NAMED, PYTHON_SCALARS, SCALARS, CompositeValue, from_dtype, number
from jwarp.types.queries import no_function

Lower = Callable[[Context, list[Any], list[Span], Span], Binding]


@dataclass(frozen=True)
class Reading:
    """How the arguments of a call are read."""

    names: bool = True  # whether they may be given by name
    constants: tuple[type, ...] = ()  # of which types Python constants may be among them, which are no values
    texts: int = 0  # how many come first that are constant texts, None for anything else

    @property
    def has_values_only(self) -> bool:
        return not self.constants and not self.texts


@dataclass(frozen=True, eq=False, repr=False)
class Builtin(Described):
    """A function of the kernel language.

    Outside kernels it may be called with numbers and composites, and with arrays where it is a plain scalar function.
    """

    lower: Lower
    operation: str = ""
    binds: bool = False  # whether `lower` takes one argument for each parameter, also for those left out
    outside: str = ""  # what to use instead outside kernels
    host: Callable[..., Any] | None = None  # what a call outside kernels is
    reading: Reading = Reading()

    def arguments(
        self, args: list[Binding], spans: list[Span], named: dict[str, Binding], places: dict[str, Span], span: Span
    ) -> tuple[list[Any], list[Span]]:
        """Bind the arguments of `lower`, in order, with their places. Errors point at `span`."""
        if self.binds:
            try:
                bound = first_fitting(self.each_form, args, named)
            except TypeError as error:
                raise KernelTypeError(f"wp.{self.name}: {error}", span) from None
            given = set(bound.arguments)
            bound.apply_defaults()
            left_out = {name: d for name, d in bound.arguments.items() if name not in given and isinstance(d, _VALUES)}
            bound.arguments |= {name: bind_python(default, name, span) for name, default in left_out.items()}
            return list(bound.arguments.values()), spans
        if not named:
            return args, spans
        order = self._in_order(len(args), list(named), span)
        return [*args, *(named[name] for name in order)], [*spans, *(places[name] for name in order)]

    def _in_order(self, positional: int, named: Sequence[str], span: Span) -> Sequence[str]:
        """The names `named` in the order of the parameters, after so many arguments without a name."""
        for form in self.named_forms:
            rest = form[positional:]
            if positional <= len(form) and len(rest) == len(named) and {*rest} == {*named}:
                return rest
        given = ", ".join((*("…" for _ in range(positional)), *(f"{name}=…" for name in named)))
        shown = " or ".join(f"({', '.join(form)})" for form in self.named_forms)
        raise KernelTypeError(
            f"wp.{self.name} does not take the arguments ({given})",
            span,
            f"its parameters are {shown}" if shown else "give the arguments in order",
        )

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self.host is not None:
            return self.host(*args, **named)
        if self.outside:
            raise KernelTypeError(f"wp.{self.name} can only be called inside a kernel", hint=self.outside)
        if not self.operation or named or any(isinstance(a, CompositeValue) for a in args):
            return OUTSIDE["call"](self, args, named)
        arrays = tuple(np.asarray(a, _python_dtype(a)) for a in args)
        kinds = tuple(kind for a in arrays if (kind := from_dtype(a.dtype)) is not None)
        row = OPS[self.operation]
        fits = len(kinds) == len(args) == row.arity and all(kind.kind in row.kinds for kind in kinds)
        result = row.result(kinds) if fits and row.result is not None else None
        if result is None:
            given = ", ".join(str(a.dtype) for a in arrays)
            raise KernelTypeError(f"wp.{self.name} does not take ({given}): {no_function(self.name, args)}")
        return number(result, evaluate(self.operation, arrays, result)[()])


# Of the defaults, those that stand for values or types. None says that an argument is left out.
_VALUES = (bool, int, float, type)


def _python_dtype(value: Any) -> Any:
    kind = PYTHON_SCALARS.get(type(value))
    return kind.dtype if kind else None


# The effect of calls and operators outside kernels. The rules of calls, which are above the table, set it.
OUTSIDE: dict[str, Callable[..., Any]] = {}

Row = TypeVar("Row", bound=Builtin)

BUILTINS: dict[str, Builtin] = {}

# Python's own functions, and those that make types, mean the kernel language's function of that name.
PYTHON_BUILTINS: dict[Any, Builtin] = {}

# The names of Python's functions that stand for rows of the same name.
_SHARED = {"abs", "min", "max", "round", "pow", "len", "range", "print"}


def define(forms: str, doc: str, lower: Lower, **details: Any) -> Builtin:
    """A row of the table: its signatures, one in each line, what it does, and its lowering."""
    return added(Builtin(forms, doc, lower, **details))


def added(row: Row) -> Row:
    """Make a builtin one of the public names, and what Python's function of its name means in kernels."""
    BUILTINS[row.name] = row
    if row.name in _SHARED:
        PYTHON_BUILTINS[getattr(builtins, row.name)] = row
    return row


@dataclass(frozen=True, eq=False, repr=False)
class LibraryFunction(Described):
    """A function that is written in the kernel language itself: a `@wp.func` instead of a lowering."""

    function: Any


LIBRARY: dict[str, LibraryFunction] = {}


def library(forms: str) -> Callable[[Any], Any]:
    """Make a `@wp.func` of jwarp's own one of the public names; of overloads, the last one says all forms."""

    def described(function: Any) -> Any:
        row = LibraryFunction(forms, function.__doc__, function)
        function.outside = lambda *args, **named: OUTSIDE["call"](function, args, named)
        LIBRARY[row.name] = row
        function.__doc__ = row.__doc__  # for `help`
        for overload in getattr(function, "defined", (function,)):
            overload.described = row
        return function

    return described


def public(name: str) -> Any:
    """The function or type of the kernel language that the package has by this name; None if there is none."""
    row = LIBRARY.get(name)
    return row.function if row else BUILTINS.get(name) or NAMED.get(name) or SCALARS.get(name)


def check_count(name: str, args: Sequence[Any], expected: tuple[int, ...], span: Span) -> None:
    """Refuse other numbers of arguments with a KernelTypeError."""
    if len(args) not in expected:
        numbers = " or ".join(str(n) for n in expected)
        raise KernelTypeError(f"wp.{name} takes {numbers} argument(s), {len(args)} given", span)


def check_same(name: str, values: tuple[Operand, ...], span: Span) -> None:
    """Refuse scalars of several types with a KernelTypeError."""
    if len({v.type for v in values}) > 1:
        types = ", ".join(v.type.name for v in values)
        raise KernelTypeError(f"wp.{name} needs values of one type, got {types}", span, "convert one of them")
