"""Counterparts of NVIDIA Warp's objects in kernels: each is found by its name, or built from the same parts.

Warp is never imported here, and none of its code runs: its objects are known by their classes, and only looked at.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar, get_args, get_origin

from jwarp.caches import Cache
from jwarp.config import surface
from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.canonicalise import reads
from jwarp.frontend.foreign.functions import function_of
from jwarp.frontend.lowering.derivatives import grad
from jwarp.types import (
    SCALARS,
    Reference,
    Struct,
    StructType,
    array_type,
    indexedarray,
    struct,
    tile,
    tile_stack,
    unchecked,
)

PACKAGE = "warp"


@reads
def counterpart(thing: Any) -> Any:
    """jwarp's counterpart of an object of Warp's; other objects are what they are."""
    if PACKAGE not in sys.modules or surface.is_warps:  # the package of that name is jwarp
        return thing
    rule = _rules.made(type(thing), lambda: _rule_for(type(thing)))
    return thing if rule is None else rule(thing)


def is_of_warp(kind: type) -> bool:
    """True if a class belongs to the package itself, and not to a program that ships with it."""
    return kind.__module__.startswith(f"{PACKAGE}._src.")


def _rule_for(kind: type) -> Callable[[Any], Any] | None:
    """The rule for objects of the class `kind`, or of the one that it extends."""
    for base in kind.__mro__:
        if base in _OF_PYTHON:
            return _OF_PYTHON[base]
        if is_of_warp(base) and base.__name__ in _OF_WARP:
            return _OF_WARP[base.__name__]
    if is_of_warp(kind) or any(hasattr(base, _HINT) for base in kind.__mro__):
        return _value
    return None


_rules: Cache[type, Callable[[Any], Any] | None] = Cache("kinds of objects that kernels name", 1024)


def named(name: str) -> Any:
    """The object that jwarp has under a name of Warp's.

    Raises:
        AttributeError: it has nothing, saying whether that is to come.
    """
    return getattr(sys.modules[__name__.partition(".")[0]], name)


def _by_name(thing: Any) -> Any:
    """jwarp's function or type of the name that one of Warp's has; others are what they are."""
    if is_of_warp(thing):
        with contextlib.suppress(AttributeError):
            return named(getattr(thing, "_wp_public_name_", thing.__name__))
    return thing


# -- types


_HINT = "_wp_generic_type_hint_"  # which vectors, matrices and so on have, as types and as values


def _module(module: types.ModuleType) -> Any:
    own = sys.modules[__name__.partition(".")[0]]
    return {PACKAGE: own, f"{PACKAGE}.types": own.types}.get(module.__name__, module)


def _type(kind: type) -> Any:
    if hasattr(kind, _HINT):
        return _composite(kind)
    if any(is_of_warp(base) and base.__name__ == "StructInstance" for base in kind.__mro__):
        return counterpart(kind._cls)  # type: ignore[attr-defined]
    if is_of_warp(kind) and kind.__name__ in SCALARS:
        return SCALARS[kind.__name__]
    return _by_name(kind)


def _composite(kind: Any) -> Any:
    """A type of vectors, matrices, quaternions or transformations."""
    *shape, dtype = map(counterpart, kind._wp_type_params_)
    family = getattr(kind, _HINT).__name__
    maker = named("types")
    if family == "Vector":
        return maker.vector(shape[0], dtype)
    if family == "Matrix":
        return maker.matrix(tuple(shape), dtype)
    return getattr(maker, family.lower())(dtype)


def _array(annotation: Any) -> Any:
    """The type of an array parameter, from an annotation or an array."""
    return array_type(counterpart(annotation.dtype), annotation.ndim)


def _indexed_array(annotation: Any) -> Any:
    """The type of a parameter that is an indexed array."""
    return indexedarray(dtype=counterpart(annotation.dtype), ndim=annotation.ndim)


def _tile(annotation: Any) -> Any:
    return tile(dtype=counterpart(annotation.dtype), shape=annotation.shape)


def _type_var(variable: TypeVar) -> Any:
    """One whose constraints are jwarp's types."""
    if variable.__module__.startswith(f"{PACKAGE}._src."):
        return getattr(named("types"), variable.__name__, variable)
    wanted = tuple(map(counterpart, variable.__constraints__))
    if wanted == variable.__constraints__:
        return variable
    return _type_vars.made((variable.__name__, wanted), lambda: TypeVar(variable.__name__, *wanted))


_type_vars: Cache[tuple, Any] = Cache("type variables of Warp's", 1024)


def _generic(alias: Any) -> Any:
    """`tuple[…]`, where a function says its results."""
    if get_origin(alias) is not tuple:
        return alias
    return types.GenericAlias(tuple, tuple(map(counterpart, get_args(alias))))


# -- values


def _value(value: Any) -> Any:
    """A number, vector or the like."""
    kind = type(value)
    made = counterpart(kind)
    if made is kind:
        return value
    if hasattr(kind, _HINT):
        return made(*_components(value))
    return made(value.value) if hasattr(value, "value") else value


def _components(value: Any) -> Iterator[Any]:
    """The numbers of a vector or the like. NumPy would take those of half precision for the integers of their bits."""
    for item in value:
        if hasattr(type(item), _HINT):
            yield from _components(item)
        else:
            yield getattr(item, "value", item)


def _struct_value(value: Any) -> Struct:
    """A struct with the same values of its fields."""
    kind: StructType = counterpart(value._cls)
    return unchecked(kind, {name: getattr(value, name) for name in kind.fields})


# -- structs


def _struct(definition: Any) -> Any:
    """A struct of the same fields, whose methods are those of Warp's class."""
    found = _structs.get(definition)
    return _structs.setdefault(definition, _struct_of(definition)) if found is None else found


# One for each struct of Warp's that is alive.
_structs: weakref.WeakKeyDictionary[Any, StructType] = weakref.WeakKeyDictionary()


def _struct_of(definition: Any) -> Any:
    fields = {name: counterpart(var.type) for name, var in definition.vars.items()}
    kept = {name: counterpart(x) for name, x in vars(definition.cls).items() if type(x).__name__ == "Function"}
    about = {"__module__": definition.cls.__module__, "__qualname__": definition.cls.__qualname__}
    try:
        return struct(type(definition.cls.__name__, (), {"__annotations__": fields, **about, **kept}))
    except KernelTypeError as error:
        d = error.diagnostic
        raise KernelTypeError(d.message, _place_of(definition.cls), d.hint) from None


def _place_of(kind: type) -> Span:
    """The place where a class is defined, as far as it is known."""
    try:
        return Span(inspect.getsourcefile(kind) or kind.__module__, inspect.getsourcelines(kind)[1])
    except (OSError, TypeError):
        return Span(kind.__module__, 0)


def _function(function: Any) -> Any:
    return named(function.key) if function.is_builtin() else function_of(function)


# The conversion of objects of each class: of Python's, and of Warp's by name.
_OF_PYTHON: dict[type, Callable[[Any], Any]] = {
    types.ModuleType: _module,
    type: _type,
    TypeVar: _type_var,
    types.GenericAlias: _generic,
    type(ClassVar[int]): _generic,  # what `typing.Tuple[…]` is, too
    types.FunctionType: _by_name,
}
_OF_WARP: dict[str, Callable[[Any], Any]] = {
    "Function": _function,
    "GradWrapper": lambda made: grad(_function(made.func)),
    "Struct": _struct,
    "StructInstance": _struct_value,
    "array": _array,
    "_ArrayAnnotation": _array,
    "Reference": lambda annotation: Reference(counterpart(annotation.value_type)),
    "indexedarray": _indexed_array,
    "_IndexedArrayAnnotation": _indexed_array,
    "tile": _tile,
    "tile_stack": lambda made: tile_stack(capacity=made.capacity, dtype=counterpart(made.dtype)),
}
