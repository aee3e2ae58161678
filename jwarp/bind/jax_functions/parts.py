"""Elements of traced arrays that are several scalars: keys of random numbers, complex numbers and their arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jwarp.ir.builder import nearest, zero
from jwarp.ir.nodes import Const
from jwarp.types import ScalarType, float32, float64


@dataclass(frozen=True, eq=False)
class Parts:
    """One element, as the scalars that it is made of."""

    numbers: tuple[Any, ...]


class Key(Parts):
    """A key of random numbers."""


@dataclass(frozen=True)
class ComplexType:
    """The type of complex numbers whose parts have the type `part`."""

    part: ScalarType
    name: str
    kind: str = "complex"
    is_float: bool = False
    is_int: bool = False

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.name)


COMPLEX_TYPES = {
    np.dtype("complex64"): ComplexType(float32, "complex64"),
    np.dtype("complex128"): ComplexType(float64, "complex128"),
}


class Complex(Parts):
    """A complex number: its real and its imaginary part."""

    @property
    def type(self) -> ComplexType:
        kind = float64 if self.numbers[0].type is float64 else float32
        return next(t for t in COMPLEX_TYPES.values() if t.part is kind)


def complex_constant(kind: ComplexType, value: complex) -> Complex:
    """The constant of a type that is nearest to a complex number."""
    return Complex((nearest(kind.part, value.real), nearest(kind.part, value.imag)))


def is_zero(x: Any) -> bool:
    """True if a scalar is the constant zero, which need not be added."""
    return isinstance(x, Const) and x.value == 0.0


def plus(low: Any, x: Any, y: Any) -> Any:
    """The sum of two scalars, of which a constant zero is left out."""
    return y if is_zero(x) else x if is_zero(y) else low.op("add", x, y)


def minus(low: Any, x: Any, y: Any) -> Any:
    return x if is_zero(y) else low.op("neg", y) if is_zero(x) else low.op("sub", x, y)


def times(low: Any, x: Any, y: Any) -> Any:
    return x if is_zero(x) else y if is_zero(y) else low.op("mul", x, y)


def _parts(x: Any) -> tuple[Any, Any]:
    return x.numbers if isinstance(x, Complex) else (x, zero(x.type))


def _product(low: Any, x: Any, y: Any) -> Complex:
    (a, b), (c, d) = _parts(x), _parts(y)
    real = minus(low, times(low, a, c), times(low, b, d))
    return Complex((real, plus(low, times(low, a, d), times(low, b, c))))


def _quotient(low: Any, x: Any, y: Any) -> Complex:
    (a, b), (c, d) = _parts(x), _parts(y)
    if is_zero(d):
        return Complex((low.op("div", a, c), b if is_zero(b) else low.op("div", b, c)))
    size = plus(low, times(low, c, c), low.op("mul", d, d))
    real = plus(low, times(low, a, c), times(low, b, d))
    return Complex(tuple(low.op("div", x, size) for x in (real, minus(low, times(low, b, c), times(low, a, d)))))


def _size(low: Any, x: Complex) -> Any:
    a, b = x.numbers
    return low.op("sqrt", plus(low, times(low, a, a), times(low, b, b)))


def _exponential(low: Any, x: Complex) -> Complex:
    a, b = x.numbers
    size = low.number(a.type, 1) if is_zero(a) else low.op("exp", a)
    return Complex((low.op("mul", size, low.op("cos", b)), low.op("mul", size, low.op("sin", b))))


def _logarithm(low: Any, x: Complex) -> Complex:
    a, b = x.numbers
    return Complex((low.op("log", _size(low, x)), low.op("atan2", b, a)))


def _same(low: Any, x: Any, y: Any) -> Any:
    (a, b), (c, d) = _parts(x), _parts(y)
    return low.op("and", low.op("eq", a, c), low.op("eq", b, d))


def _of_parts(rule: Callable[..., Any]) -> Callable[..., Complex]:
    return lambda low, *args: Complex(tuple(rule(low, *pair) for pair in zip(*map(_parts, args), strict=True)))


# The rules of operations of the IR on complex numbers.
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": _of_parts(plus),
    "sub": _of_parts(minus),
    "neg": _of_parts(lambda low, x: low.op("neg", x)),
    "follow": _of_parts(lambda low, x, y: low.op("follow", x, y)),
    "mul": _product,
    "div": _quotient,
    "abs": _size,
    "exp": _exponential,
    "log": _logarithm,
    "eq": _same,
    "ne": lambda low, x, y: low.op("not", _same(low, x, y)),
}


def complex_op(low: Any, name: str, args: tuple[Any, ...]) -> Any:
    """An operation on operands of which some are complex.

    Raises:
        CompileError: complex numbers have no such operation here.
    """
    rule = _ARITHMETIC.get(name)
    if rule is None:
        raise low.error(
            f"`{low.at_hand[0]}` of complex numbers",
            "sums, products, quotients, `abs`, `exp`, `log` and Fourier transforms are there; take the parts of others",
        )
    return rule(low, *args)


def cast_complex(low: Any, x: Any, kind: ComplexType) -> Complex:
    """A number as a complex one of a type."""
    a, b = _parts(x)
    return Complex((low.cast(a, kind.part), low.cast(b, kind.part)))
