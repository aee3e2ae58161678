"""`wp.to_jax` and `wp.from_jax`: between mutable arrays and JAX arrays, which never change."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jwarp.arrays.array import array
from jwarp.arrays.content import elements_of
from jwarp.bind.pytrees import around
from jwarp.bind.traced_memory import Shaped, value_of
from jwarp.errors import KernelTypeError
from jwarp.types import ArrayType


def to_jax(a: array) -> jax.Array:
    """The current content of an array as a JAX array. The components of vectors and matrices are the last axes.

    Raises:
        KernelTypeError: `a` is not an array, or has a 64-bit type and `jax_enable_x64` is off.
    """
    if not isinstance(a, array) or a.device is None:
        raise KernelTypeError(f"wp.to_jax: expected an array, got {type(a).__name__}")
    return value_of(a.memory, a.layout)


def from_jax(jax_array: jax.Array, dtype: Any = None) -> array:
    """A mutable array that starts with the content of a JAX array. The JAX array does not change.

    Args:
        jax_array: The value, which may be traced.
        dtype: The type of the elements. Default: that of the array. The components of vectors and matrices are the last
            axes.

    Raises:
        KernelTypeError, LaunchError: The value cannot be elements of `dtype`.
    """
    value = jnp.asarray(jax_array)
    element, shaped = elements_of(Shaped(value), Any if dtype is None else dtype, None)
    return around(jnp.reshape(value, shaped.shape), element)


def annotated(value: Any, kind: ArrayType, where: str) -> array:
    """An array that begins as a value of JAX or NumPy, for a parameter that is annotated `kind`.

    Raises:
        KernelTypeError: it has another dtype or rank, or its type has 64 bits, and these are off in JAX; `where` begins
            the sentence.
    """
    if value.dtype != kind.dtype.dtype or value.ndim != kind.ndim or value.shape[kind.dims :] != kind.components:
        raise KernelTypeError(f"{where}: expected {kind!r}, got {value.dtype}{list(value.shape)}")
    made = jnp.asarray(value)
    if made.dtype != value.dtype:
        raise KernelTypeError(
            f"{where}: expected {kind!r}, but 64-bit types are off in JAX (jax_enable_x64 is False)",
            hint='turn them on with jax.config.update("jax_enable_x64", True)',
        )
    return around(made, kind.element)
