"""Values outside kernels in whole programs of Warp: `==` is a bool, components are numbers of Python, operators Warp's.

The values stay what they are elsewhere, arrays and numbers of NumPy. Only their methods differ, in the whole process.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types.composites import OPERATE, TRANSFORM, Composite, CompositeType, CompositeValue, plain_operator
from jwarp.types.queries import type_repr
from jwarp.types.scalars import (
    NATIVE,
    NUMBER_CLASSES,
    SCALARS,
    ScalarType,
    bfloat16,
    bool_,
    float32,
    int32,
    number,
)

_NUMBERS = (bool, int, float, np.generic)
# Where a number stands with a composite, it is each of the components of another one.
_REPEATING = ("add", "sub", "mod")
_PLAIN = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv}


def install() -> None:
    """Give the values of this process Warp's methods."""
    for kind in SCALARS.values():
        if kind not in (bool_, bfloat16):  # which cannot be derived from
            NUMBER_CLASSES[kind] = _number_class(kind)
    NATIVE.update((float32, int32, bool_))
    for name, method in _METHODS.items():
        setattr(CompositeValue, name, method)


# -- composites


def _getitem(self: CompositeValue, key: Any) -> Any:
    _check_key(self, key)
    found = np.ndarray.__getitem__(self, key)
    if isinstance(found, np.ndarray):
        return found.copy()
    return number(_type(self).dtype, found) if isinstance(self, Composite) else found


def _type(value: Any) -> CompositeType:
    """The type of a composite."""
    found: Any = type(value)
    assert isinstance(found, CompositeType)
    return found


def _check_key(self: CompositeValue, key: Any) -> None:
    """Refuse what selects no component, row or part, with the class of error that Warp has for it."""
    if type(key) is int or type(key) is slice:
        return
    keys = key if isinstance(key, tuple) and self.ndim == 2 else (key,)
    if not all(isinstance(k, slice) or hasattr(k, "__index__") for k in keys):
        raise KeyError(f"Invalid key {key!r}, expected {'int or pair of ints,' if self.ndim == 2 else 'int'} or slice")
    if isinstance(key, tuple) and len(key) != 2:
        raise KeyError(f"Invalid key, expected one or two indices, got {len(key)}")


def _row(self: CompositeValue, r: int) -> Any:
    """The row `r` of a matrix, a copy."""
    return self[operator.index(r)]


def _col(self: CompositeValue, c: int) -> Any:
    """The column `c` of a matrix, a copy."""
    return self[:, operator.index(c)]


def _set_row(self: CompositeValue, r: int, v: Any) -> None:
    """Set the row `r` of a matrix to a number, or to as many as it has columns."""
    self[operator.index(r)] = v


def _set_col(self: CompositeValue, c: int, v: Any) -> None:
    """Set the column `c` of a matrix to a number, or to as many as it has rows."""
    self[:, operator.index(c)] = v


def _setitem(self: CompositeValue, key: Any, value: Any) -> None:
    _check_key(self, key)
    if isinstance(self, Composite):
        dtype = _type(self).dtype
        try:
            given = np.asarray(value if not isinstance(value, (list, tuple)) else [*map(_plain, value)])
            fits = given.dtype.kind in ("biu" if dtype.is_int else "biuf") or given.dtype == dtype.dtype
        except (TypeError, ValueError):
            fits = False
        several = np.ndim(np.asarray(self)[key]) > 0
        wrong = next((x for x in value if np.ndim(x)), None) if several and isinstance(value, (list, tuple)) else None
        if wrong is not None and isinstance(wrong, Composite) and np.ndim(wrong) >= np.ndim(np.asarray(self)[key]):
            wanted, got = f"a slice from a sequence of `{dtype}` values", type_repr(_type(wrong))
            raise KernelTypeError(f"Expected to assign {wanted} but got `{got}` instead")
        if not fits:
            raise KernelTypeError(f"Expected to assign a `{dtype}` value but got `{type(value).__name__}` instead")
        value = given.astype(dtype.dtype)
    shown = np.asarray(self)
    try:
        shown[key] = value
    except ValueError:  # NumPy's, for extents that do not fit
        raise LaunchError(
            f"components of shape {np.shape(shown[key])} of a {type_repr(_type(self))} cannot be set to values of shape"
            f" {np.shape(value)}: Can only assign sequence of same size"
        ) from None


def _eq(self: CompositeValue, other: object) -> bool:
    """True for something of the same extents whose components are equal, of whatever type."""
    try:
        given = np.asarray(other)
    except ValueError:  # no extents of its own
        return False
    return given.shape == self.shape and bool((np.asarray(self) == given).all())


def _repr(self: CompositeValue) -> str:
    if not isinstance(self, Composite):
        return repr(np.asarray(self))
    rows = [f"[{', '.join(map(repr, row))}]" for row in (self if self.ndim == 2 else (self,))]
    return f"{type_repr(type(self))}({rows[0] if self.ndim == 1 else '[' + ', '.join(rows) + ']'})"


def _str(self: CompositeValue) -> str:
    rows = [f"[{', '.join(map(str, row))}]" for row in (self if self.ndim == 2 else (self,))]
    return rows[0] if self.ndim == 1 else "[" + ",\n ".join(rows) + "]"


def _ordered(self: CompositeValue, other: Any) -> Any:
    return NotImplemented


def _plain(value: Any) -> Any:
    """A value as NumPy has it, with NumPy's own operators."""
    if isinstance(value, np.generic):
        return value.dtype.type(value)
    return np.asarray(value) if isinstance(value, CompositeValue) else value


def _ufunc(self: CompositeValue, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
    """NumPy's functions take composites for arrays, as they take Warp's, and give arrays."""
    if "out" in named:
        named["out"] = tuple(map(_plain, named["out"]))
    return getattr(ufunc, method)(*map(_plain, inputs), **named)


def _function(self: CompositeValue, function: Any, types: Any, given: Any, named: dict[str, Any]) -> Any:
    return function(*_plain_parts(given), **{name: _plain_parts(x) for name, x in named.items()})


def _plain_parts(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(_plain_parts, value))
    return _plain(value)


def _between(name: str, x: Any, y: Any) -> Any:
    """The value of an operator of kernels between composites and numbers; NotImplemented for anything else."""
    composite = x if isinstance(x, Composite) else y if isinstance(y, Composite) else None
    sides = []
    for side in (x, y):
        if isinstance(side, np.ndarray) and not isinstance(side, Composite):
            return plain_operator(name)(_plain(x), _plain(y))
        if not isinstance(side, (*_NUMBERS, Composite)):
            return NotImplemented
        if composite is not None and not isinstance(side, Composite):
            side = _of_components(composite, side)
            if name in _REPEATING and _type(composite).kind.repeats and not isinstance(side, Composite):
                side = type(composite)(side)
        sides.append(side)
    if composite is not None and _is_plain(name, sides, type(composite)):
        return np.asarray(_PLAIN[name](*map(_plain, sides))).view(type(composite))
    if composite is None:
        typed = next((side for side in sides if isinstance(side, np.generic)), None)
        sides = [_typed_as(typed, side) for side in sides]
    return OPERATE[0](name, *sides)


def _of_components(composite: Composite, x: Any) -> Any:
    """A number of Python's with a composite, which has the type of the components."""
    dtype = _type(composite).dtype
    if type(x) is int or (type(x) is float and dtype.is_float):
        return dtype.dtype.type(x)
    return x


def _typed_as(typed: Any, x: Any) -> Any:
    """A number of Python's with one of a scalar type, which has its type if that takes it."""
    if typed is None or isinstance(x, np.generic) or (isinstance(x, float) and typed.dtype.kind != "f"):
        return x
    return typed.dtype.type(x)


def _is_plain(name: str, sides: list[Any], kind: Any) -> bool:
    """True where NumPy's operator is that of kernels: floats by component."""
    if name not in _PLAIN or not kind.dtype.is_float or kind.kind is TRANSFORM:
        return False
    if any(side.dtype != kind.dtype.dtype for side in sides):
        return False
    both = all(isinstance(side, Composite) for side in sides)
    return type(sides[0]) is type(sides[1]) and name in ("add", "sub") if both else True


def _operators(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The methods of an operator: with the value on the left, and on the right."""

    def left(self: Any, other: Any) -> Any:
        return _between(name, self, other)

    def right(self: Any, other: Any) -> Any:
        return _between(name, other, self)

    return left, right


def _neg(self: Any) -> Any:
    return np.negative(np.asarray(self)).view(type(self))


def _pos(self: Any) -> Any:
    return np.array(self).view(type(self))


_SYMBOLS = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "mod": "mod"}
_OPERATORS = {
    f"__{side}{python}__": method
    for python, name in _SYMBOLS.items()
    for side, method in zip(("", "r"), _operators(name), strict=True)
}
_MATMUL = dict(zip(("__matmul__", "__rmatmul__"), _operators("mul"), strict=True))
_METHODS: dict[str, Any] = {
    **_OPERATORS,
    **_MATMUL,
    # `v += w` makes another value of the name, and leaves the one that there was.
    **{f"__i{python}__": _OPERATORS[f"__{python}__"] for python in _SYMBOLS},
    "__imatmul__": _MATMUL["__matmul__"],
    "__neg__": _neg, "__pos__": _pos,
    "get_row": _row, "get_col": _col, "set_row": _set_row, "set_col": _set_col,
    "__getitem__": _getitem, "__setitem__": _setitem,
    "__eq__": _eq, "__ne__": lambda self, other: not _eq(self, other), "__hash__": None,
    "__lt__": _ordered, "__le__": _ordered, "__gt__": _ordered, "__ge__": _ordered,
    "__bool__": lambda self: True, "__bytes__": lambda self: self.tobytes(), "__repr__": _repr, "__str__": _str,
    "__array_ufunc__": _ufunc, "__array_function__": _function,
}  # fmt: skip


# -- numbers


def _number_class(kind: ScalarType) -> Any:
    """The class of the numbers that a scalar type makes: NumPy's, with operators of kernels."""
    base = kind.dtype.type

    def make(cls: Any, value: Any = 0) -> Any:
        if kind.is_int:
            value = int(value)
            if not kind.min <= value <= kind.max:  # as an assignment in C keeps of it
                value = (value - kind.min) % (1 << kind.bits) + kind.min
        return base.__new__(cls, value)

    content = {
        **_OPERATORS,
        "__new__": make,
        "__slots__": (),
        "__neg__": lambda self: number(kind, np.negative(base(self))),
        "__pos__": lambda self: number(kind, base(self)),
        "__repr__": lambda self: f"{kind.name}({self})",
        "value": property(lambda self: self.item()),
        "__module__": "jwarp",
    }
    if kind.is_float:
        content |= dict(zip(("__pow__", "__rpow__"), _operators("pow"), strict=True))
    else:
        content |= {"__pow__": _ordered, "__rpow__": _ordered}
    return type(kind.name, (base,), content)
