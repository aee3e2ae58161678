"""Runs a kernel's Python source thread by thread; shares no code with the compiler or the interpreter."""

from __future__ import annotations

import ast
import builtins
import functools
import math
import types
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

_INTS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}
_FLOATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}


def _wrap(type_: str, value: int) -> int:
    sign, bits = _INTS[type_]
    value &= (1 << bits) - 1
    return value - (1 << bits) if not sign and value >> (bits - 1) else value


def _round(type_: str, value: Any) -> Any:
    """A float of any type as one of `type_`; 16-bit types by way of float32."""
    if type_ in ("float16", "bfloat16"):
        value = np.float32(value)
    return _FLOATS[type_](value)


class Number:
    """A scalar of the kernel language: `value` is a bool, an int or a NumPy float."""

    def __init__(self, type_: str, value: Any):
        self.type, self.value = type_, value

    def __bool__(self) -> bool:
        return bool(self.value != 0)

    def __repr__(self) -> str:
        return f"{self.type}({self.value})"

    __hash__ = None  # type: ignore[assignment]


class Literal(Number):
    """A number in the source, which keeps its full precision until it is combined with a type."""

    def __init__(self, raw: bool | int | float):
        self.raw = raw
        if isinstance(raw, bool):
            super().__init__("bool", raw)
        elif isinstance(raw, int):
            super().__init__("int32", raw)
        else:
            super().__init__("float32", np.float32(raw))

    def __neg__(self) -> Literal:
        return Literal(-self.raw)


def _arithmetic(x: Number, y: Number, on_ints: Callable, on_floats: Callable) -> Number:
    assert x.type == y.type != "bool", (x, y)
    if x.type in _INTS:
        return Number(x.type, _wrap(x.type, on_ints(x.type, x.value, y.value)))
    a, b = x.value, y.value
    if x.type in ("float16", "bfloat16"):
        a, b = np.float32(a), np.float32(b)
    return Number(x.type, _round(x.type, on_floats(a, b)))


def _div(type_: str, x: int, y: int) -> int:
    if y == 0:
        return -1
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _mod(type_: str, x: int, y: int) -> int:
    return x if y == 0 else x - y * _div(type_, x, y)


def _shift_left(type_: str, x: int, y: int) -> int:
    return x << y if 0 <= y < _INTS[type_][1] else 0


def _shift_right(type_: str, x: int, y: int) -> int:
    return x >> (y if 0 <= y < _INTS[type_][1] else 64)


def _min(x: Any, y: Any) -> Any:
    if x != x or y != y:  # of a number and NaN the number
        return y if x != x else x
    return x if x < y or (x == y and np.signbit(x)) else y


def _no_floats(*args: Any) -> Any:
    raise TypeError("an operation of integers")


_OPERATORS: dict[str, tuple[Callable, Callable]] = {
    "add": (lambda t, x, y: x + y, lambda x, y: x + y),
    "sub": (lambda t, x, y: x - y, lambda x, y: x - y),
    "mul": (lambda t, x, y: x * y, lambda x, y: x * y),
    "truediv": (_div, lambda x, y: x / y),
    "floordiv": (lambda t, x, y: x // y if y else -1, lambda x, y: np.floor(x / y)),
    "mod": (_mod, np.fmod),
    "and": (lambda t, x, y: x & y, _no_floats),
    "or": (lambda t, x, y: x | y, _no_floats),
    "xor": (lambda t, x, y: x ^ y, _no_floats),
    "lshift": (_shift_left, _no_floats),
    "rshift": (_shift_right, _no_floats),
}
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def _define_operators() -> None:
    for name, rules in _OPERATORS.items():
        setattr(Number, f"__{name}__", lambda x, y, rules=rules: _arithmetic(x, y, *rules))
    for name in _COMPARISONS:

        def compare(x: Number, y: Number, name: str = name) -> Number:
            assert x.type == y.type, (x, y)
            return Number("bool", bool(getattr(x.value, f"__{name}__")(y.value)))

        setattr(Number, f"__{name}__", compare)
    for name, on_int, on_float in [
        ("neg", lambda v: -v, lambda v: -v),
        ("invert", lambda v: ~v, _no_floats),
        ("abs", abs, abs),
    ]:

        def unary(x: Number, on_int: Callable = on_int, on_float: Callable = on_float) -> Number:
            is_int = x.type in _INTS
            return Number(x.type, _wrap(x.type, on_int(x.value)) if is_int else on_float(x.value))

        setattr(Number, f"__{name}__", unary)


_literal_negation = Literal.__neg__
_define_operators()
Literal.__neg__ = _literal_negation  # type: ignore[method-assign]


def convert(type_: str, x: Number) -> Number:
    """`wp.type(x)`."""
    value = x.raw if isinstance(x, Literal) else x.value
    if type_ == "bool":
        return Number("bool", bool(value != 0))
    if type_ in _FLOATS:
        if isinstance(value, int):  # NumPy rounds a Python int twice
            value = np.array(value, np.uint64 if value > 1 << 62 else np.int64)
            value = value.astype(np.float64 if type_ == "float64" else np.float32)
        return Number(type_, _round(type_, value))
    if isinstance(value, (bool, int)):
        return Number(type_, _wrap(type_, int(value)))
    sign, bits = _INTS[type_]
    low, high = (0, (1 << bits) - 1) if sign else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    value = float(value)
    if value != value:
        return Number(type_, 0)
    if math.isinf(value):
        return Number(type_, high if value > 0 else low)
    return Number(type_, builtins.min(builtins.max(int(value), low), high))


class Array:
    """An array argument or a local array, or a view of one; `data` is changed in place.

    `axes` says of each axis of `data` which places the view shows, or the one that an index has taken.
    """

    has_left = False  # whether some access was outside its array

    def __init__(self, data: np.ndarray, axes: tuple[range | int | None, ...] | None = None):
        self.data = data
        self.axes = tuple(range(n) for n in data.shape) if axes is None else axes
        self.type = "bool" if data.dtype == bool else data.dtype.name

    @property
    def shape(self) -> tuple[Number, ...]:
        return tuple(Number("int32", len(axis)) for axis in self.axes if isinstance(axis, range))

    def _selected(self, index: Any) -> tuple[range | int | None, ...]:
        """The axes after brackets; None where an index is outside."""
        items = iter(index if isinstance(index, tuple) else (index,))
        return tuple(
            self._taken(axis, next(items, slice(None))) if isinstance(axis, range) else axis for axis in self.axes
        )

    @staticmethod
    def _taken(axis: range, item: Number | slice) -> range | int | None:
        if isinstance(item, slice):
            bounds = [None if x is None else x if isinstance(x, int) else x.value for x in (item.start, item.stop)]
            step = 1 if item.step is None else item.step if isinstance(item.step, int) else item.step.value
            return axis[slice(*bounds, step)] if step else range(0)
        place = item.value + len(axis) if item.value < 0 else item.value
        return axis[place] if 0 <= place < len(axis) else None

    def _find(self, axes: tuple[range | int | None, ...]) -> tuple[int, ...] | None:
        if None in axes:
            Array.has_left = True
            return None
        return axes  # type: ignore[return-value]

    def __getitem__(self, index: Any) -> Number | Array:
        axes = self._selected(index)
        if any(isinstance(axis, range) for axis in axes):
            return Array(self.data, axes)
        place = self._find(axes)
        value = self.data.dtype.type(0) if place is None else self.data[place]
        return Number(self.type, value if self.type in _FLOATS else value.item())

    def __setitem__(self, index: Any, value: Number) -> None:
        assert value.type == self.type, (value, self.type)
        place = self._find(self._selected(index))
        if place is not None:
            self.data[place] = value.value


def _range(*bounds: Number) -> Iterator[Number]:
    lo, hi = (Literal(0), bounds[0]) if len(bounds) == 1 else bounds[:2]
    step = bounds[2] if len(bounds) == 3 else Literal(1)
    kind = next((b.type for b in (*bounds, lo, step) if not isinstance(b, Literal)), "int32")
    stride = step.value
    if stride:
        for value in builtins.range(lo.value, hi.value, stride):
            yield Number(kind, value)


def _float_function(function: Callable) -> Callable:
    def apply(x: Number) -> Number:
        value = np.float32(x.value) if x.type in ("float16", "bfloat16") else x.value
        return Number(x.type, _round(x.type, function(value)))

    return apply


def _half_away(x: Any) -> Any:
    if not np.isfinite(x):
        return x
    exact = Fraction(float(x))
    whole = math.floor(abs(exact) + Fraction(1, 2))
    return np.copysign(type(x)(whole), x)


def _where(condition: Number, x: Number, y: Number) -> Number:
    return x if condition else y


class _Types(types.SimpleNamespace):
    """Stands for the module `jwarp` in a kernel's source."""

    def __init__(self) -> None:
        super().__init__(coordinates=())
        for name in (*_INTS, *_FLOATS, "bool"):
            setattr(self, name, functools.partial(convert, name))
        for name, function in [("sqrt", np.sqrt), ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc)]:
            setattr(self, name, _float_function(function))
        self.rint, self.round = _float_function(np.rint), _float_function(_half_away)
        self.where = _where
        self.min = lambda x, y: _arithmetic(x, y, lambda t, a, b: builtins.min(a, b), _min)
        self.max = lambda x, y: _arithmetic(x, y, lambda t, a, b: builtins.max(a, b), lambda a, b: -_min(-a, -b))
        self.kernel = self.func = lambda function: function

    def zeros(self, shape: Any, dtype: Any) -> Array:
        extents = [n.value for n in (shape if isinstance(shape, tuple) else (shape,))]
        (name,) = dtype.args
        return Array(np.zeros(extents, _FLOATS.get(name, name)))

    empty = zeros

    def tid(self) -> Any:
        numbers = tuple(Number("int32", c) for c in self.coordinates)
        return numbers if len(numbers) > 1 else numbers[0]


class _Rewriter(ast.NodeTransformer):
    """Gives numbers and `not` the meaning that they have in kernels."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, (bool, int, float)):
            return node
        return ast.Call(ast.Name("Literal", ast.Load()), [node], [])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return ast.Call(ast.Name("opposite", ast.Load()), [node.operand], [])
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        # The axis of a shape is Python's own index.
        if isinstance(node.value, ast.Attribute):
            return node
        return self.generic_visit(node)


def run_threads(source: str, dims: tuple[int, ...], arguments: tuple) -> tuple[list[np.ndarray], bool]:
    """Run `kernel` of `source` for each thread, in row-major order.

    Gives the arrays afterwards, and whether all accesses were inside them.
    """
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import)]
    code = compile(ast.fix_missing_locations(_Rewriter().visit(tree)), "<threads>", "exec")
    wp = _Types()
    names = {"wp": wp, "Literal": Literal, "range": _range, "min": wp.min, "max": wp.max, "int": wp.int32}
    names |= {"opposite": lambda x: Number("bool", not x), "len": lambda a: a.shape[0]}
    exec(code, names)
    bound = []
    for value in arguments:
        if np.ndim(value):
            bound.append(Array(np.array(value)))
        else:
            type_ = "bool" if value.dtype == bool else value.dtype.name
            bound.append(Number(type_, value if type_ in _FLOATS else value.item()))
    Array.has_left = False
    with np.errstate(all="ignore"):
        for wp.coordinates in np.ndindex(*dims):
            names["kernel"](*bound)
    arrays = [a for a in bound if isinstance(a, Array)]
    return [a.data for a in arrays], not Array.has_left
