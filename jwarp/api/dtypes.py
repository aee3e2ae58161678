"""Converts between jwarp's scalar types and devices and those of NumPy and JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.config import surface
from jwarp.devices import CPU, Device, DeviceError, DeviceLike, get_device
from jwarp.errors import KernelTypeError
from jwarp.types import ScalarType, as_scalar, bfloat16, from_dtype


def _scalar_of(where: str, dtype: Any) -> ScalarType:
    try:
        found = from_dtype(np.dtype(dtype))
    except TypeError:
        found = None
    if found is None:
        raise KernelTypeError(f"{where}: there is no scalar type for {dtype!r}")
    return found


def _dtype_of(where: str, kind: Any) -> np.dtype:
    scalar = as_scalar(kind)
    if scalar is None:
        raise KernelTypeError(f"{where}: {kind!r} is no scalar type")
    return scalar.dtype


def dtype_from_numpy(numpy_dtype: Any) -> ScalarType:
    """The scalar type that corresponds to a NumPy dtype or scalar class; a KernelTypeError if there is none."""
    return _scalar_of("wp.dtype_from_numpy", numpy_dtype)


def dtype_to_numpy(warp_dtype: Any) -> type:
    """NumPy's scalar class for a scalar type; a KernelTypeError for other types.

    In whole programs of Warp's, `wp.bfloat16` has that of its bits, as there.
    """
    found = _dtype_of("wp.dtype_to_numpy", warp_dtype).type
    return np.uint16 if surface.is_warps and found is bfloat16.dtype.type else found


def dtype_from_jax(jax_dtype: Any) -> ScalarType:
    """The scalar type that corresponds to a JAX dtype; a KernelTypeError if there is none."""
    return _scalar_of("wp.dtype_from_jax", jax_dtype)


def dtype_to_jax(warp_dtype: Any) -> Any:
    """JAX's scalar type, such as `jnp.float32`, for a scalar type; a KernelTypeError for other types."""
    name = _dtype_of("wp.dtype_to_jax", warp_dtype).name
    return getattr(jnp, "bool_" if name == "bool" else name)


def device_from_jax(jax_device: Any) -> Device:
    """The device that corresponds to a JAX device.

    Raises:
        LaunchError: It is not a CPU.
    """
    if jax_device.platform != "cpu":
        raise DeviceError(f"wp.device_from_jax: arrays of jwarp do not live on {jax_device}")
    return CPU


def device_to_jax(warp_device: DeviceLike) -> Any:
    """JAX's first device of the same kind; a LaunchError if there is none."""
    get_device(warp_device)
    return jax.devices("cpu")[0]
