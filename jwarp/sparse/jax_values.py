"""JAX arrays as arguments of functions of matrices, with which results are JAX arrays, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp

from jwarp.api.dtypes import dtype_to_numpy
from jwarp.api.jax_arrays import from_jax, to_jax
from jwarp.arrays.array import array

P = ParamSpec("P")
R = TypeVar("R")


def takes_jax_arrays(function: Callable[P, R]) -> Callable[P, R]:
    """The function for JAX arrays where it takes a `wp.array`, traced ones included.

    Its arrays come back as JAX arrays then. JAX arrays do not change: what the function makes of one is returned.
    Matrices hold arrays that stand for traced values, and can be returned to JAX, whose pytrees they are.
    """

    @functools.wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> R:
        given = [*args, *named.values()]
        if not any(_is_array(each) for each in given):
            return function(*args, **named)
        found: Any = function(*map(_array_of, args), **{name: _array_of(each) for name, each in named.items()})
        return to_jax(found) if isinstance(found, array) else found

    return called


def _is_array(given: Any) -> bool:
    return isinstance(given, jax.Array) and given.ndim > 0  # numbers, such as alpha, are taken as they are


def _array_of(given: Any) -> Any:
    return from_jax(given) if _is_array(given) else given


def scalar_of(kind: Any, number: Any) -> Any:
    """A number as one of a scalar type; JAX's, which may be traced, stays one."""
    return jnp.asarray(number, dtype_to_numpy(kind)) if isinstance(number, jax.Array) else kind(number)
