"""Equations of jaxprs: their properties, and jaxprs of their derivatives and of functions of their arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jwarp.bind import compat
from jwarp.caches import Cache
from jwarp.errors import Span
from jwarp.types import ScalarType, from_dtype


def is_literal(atom: Any) -> bool:
    """True if an operand of an equation is a number."""
    return isinstance(atom, compat.Literal)


def dtype_of(variable: Any) -> ScalarType:
    """The type of the scalars of a variable that is an array of numbers."""
    found = from_dtype(np.dtype(variable.aval.dtype))
    assert found is not None
    return found


def is_float(variable: Any) -> bool:
    """True if a variable has tangents, and is used."""
    dtype = variable.aval.dtype
    return (
        not isinstance(variable, compat.DropVar)
        and compat.key_implementation(dtype) is None
        and jax.dtypes.issubdtype(dtype, np.floating)
    )


def span_of(equation: Any) -> Span | None:
    """Where the user's code has it; None if it comes from no such code."""
    place = compat.user_place(equation)
    return None if place is None else Span(*place)


def name_of(equation: Any) -> str:
    """The name of the function that an equation calls, else of its primitive."""
    called = equation.params.get("name")
    return called if isinstance(called, str) and called else equation.primitive.name


def spec_of(variable: Any) -> jax.ShapeDtypeStruct:
    """The type of a variable, to trace a function with; of keys of random numbers, that of their numbers."""
    aval = variable.aval
    implementation = compat.key_implementation(aval.dtype)
    if implementation is not None:
        return jax.ShapeDtypeStruct((*aval.shape, *implementation.key_shape), np.uint32)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))


def places_of(equation: Any) -> list[int]:
    """The operands that are variables, each variable once."""
    found: dict[Any, int] = {}
    for k, atom in enumerate(equation.invars):
        if not is_literal(atom):
            found.setdefault(atom, k)
    return list(found.values())


def _alone(equation: Any, places: Sequence[int]) -> Callable[..., list[Any]]:
    """The equation as a function of its variables, which gives the results that are floats."""
    outvars = [v for v in equation.outvars if is_float(v)]
    return compat.function_of(equation, [equation.invars[k] for k in places], outvars)


def jvp_of(equation: Any, wanted: Sequence[int]) -> Any:
    """The jaxpr that takes all variables, and tangents of those at the places `wanted`, to tangents of the results."""
    return _kept(("jvp", tuple(wanted)), equation, lambda: _jvp(equation, wanted))


def _jvp(equation: Any, wanted: Sequence[int]) -> Any:
    places = places_of(equation)
    function, at = _alone(equation, places), [places.index(k) for k in wanted]

    def rule(args: Sequence[Any], tangents: Sequence[Any]) -> Any:
        return jax.jvp(_of_some(function, args, at), [args[k] for k in at], tangents)[1]

    specs = [spec_of(equation.invars[k]) for k in places]
    return jax.make_jaxpr(rule)(specs, [_tangent(specs[k]) for k in at])


def vjp_of(equation: Any, wanted: Sequence[int]) -> Any:
    """The jaxpr that takes all variables, and cotangents of the results, to cotangents of those at `wanted`."""
    places = places_of(equation)
    function, at = _alone(equation, places), [places.index(k) for k in wanted]

    def rule(args: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        return jax.vjp(_of_some(function, args, at), *(args[k] for k in at))[1](cotangents)

    specs = [spec_of(equation.invars[k]) for k in places]
    results = [_tangent(spec_of(v)) for v in equation.outvars if is_float(v)]
    return jax.make_jaxpr(rule)(specs, results)


def _tangent(spec: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(spec.shape, spec.dtype)


def _of_some(function: Callable[..., Any], args: Sequence[Any], at: Sequence[int]) -> Callable[..., Any]:
    def changing(*some: Any) -> Any:
        given = list(args)
        for k, x in zip(at, some, strict=True):
            given[k] = x
        return function(*given)

    return changing


def is_linear(equation: Any, at: Sequence[int]) -> bool:
    """True if an equation tests linear, on random numbers, in the variables at the places `at`."""
    places = places_of(equation)
    function = compat.function_of(equation, [equation.invars[k] for k in places], equation.outvars)
    return seems_linear(function, [spec_of(equation.invars[k]) for k in places], [places.index(k) for k in at])


def seems_linear(function: Callable[..., Sequence[Any]], specs: Sequence[Any], at: Sequence[int]) -> bool:
    """True if a function of arrays tests linear, on random numbers, in some of them."""
    rng, is_seen = np.random.default_rng(0), False

    def some(spec: Any, low: float, high: float) -> Any:
        if not jax.dtypes.issubdtype(spec.dtype, np.floating):
            return jax.numpy.asarray(rng.integers(0, 3, spec.shape), spec.dtype)
        return jax.numpy.asarray(rng.uniform(low, high, spec.shape), spec.dtype)

    with jax.ensure_compile_time_eval():
        for low, high in _RANGES:
            args = [some(spec, low, high) for spec in specs]
            sides = [[some(specs[k], -high, high) for k in at] for _ in range(2)]
            sides.append([x - 2 * y for x, y in zip(*sides, strict=True)])
            results = []
            for side in sides:
                for k, x in zip(at, side, strict=True):
                    args[k] = x
                results.append([np.asarray(y) for y in function(*args)])
            for x, y, z in zip(*results, strict=True):
                if not jax.dtypes.issubdtype(x.dtype, np.floating):
                    if (x != y).any() or (x != z).any():
                        return False
                    continue
                x, y, z = (np.asarray(each, np.float64) for each in (x, y, z))
                finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
                is_seen = is_seen or bool(finite.all())
                size = np.abs(x) + np.abs(y) + np.abs(z)
                if (np.abs(x - 2 * y - z)[finite] > _ROUNDING * size[finite]).any():
                    return False
    return is_seen


# Between which numbers arguments are tried, and how far results may be off, relative to their size.
_RANGES = ((-2.0, 2.0), (0.1, 0.9), (1.0, 3.0), (-40.0, 40.0))
_ROUNDING = 3e-2


def computed(function: Callable[..., Any], equation: Any) -> Any:
    """The jaxpr of a function of the operands of an equation and of its parameters; made once for a primitive."""

    def made() -> Any:
        return jax.make_jaxpr(functools.partial(function, **equation.params))(*map(spec_of, equation.invars))

    return _kept(("value",), equation, made)


def _kept(what: tuple[Any, ...], equation: Any, make: Callable[[], Any]) -> Any:
    """A jaxpr that depends on the primitive of an equation, its parameters and types alone."""
    if not all(isinstance(x, (int, str, type(None), np.dtype)) for x in equation.params.values()):
        return make()
    types = tuple((x.aval.shape, x.aval.dtype, is_literal(x)) for x in equation.invars)
    same = tuple(places_of(equation))  # two operands may be one variable
    params = str(sorted(equation.params.items()))
    key = (*what, equation.primitive.name, types, same, tuple(map(is_float, equation.outvars)), params)
    literals = tuple(x.val.tobytes() if hasattr(x.val, "tobytes") else x.val for x in equation.invars if is_literal(x))
    return _JAXPRS.made((*key, literals, compat.x64_enabled()), make)


_JAXPRS: Cache[tuple[Any, ...], Any] = Cache("jaxprs of primitives and their derivatives", 256)
