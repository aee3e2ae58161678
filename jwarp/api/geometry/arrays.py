"""Reads what grids, trees and meshes are built of: arrays of points, indices and groups."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.commands import listeners, submit
from jwarp.arrays.memory import HostMemory, place_of_caller
from jwarp.bind.compat import is_not_tracing
from jwarp.bind.control import is_foreign
from jwarp.devices import Device
from jwarp.dispatch.tape.geometry_changes import GeometryChange, Planned
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import Geometry


def read_array(where: str, name: str, value: Any, dtype: Any, components: tuple[int, ...] = ()) -> jax.Array:
    """As `checked_array`, as JAX has it."""
    return jax.numpy.asarray(checked_array(where, name, value, dtype, components))


def checked_array(where: str, name: str, value: Any, dtype: Any, components: tuple[int, ...] = ()) -> Any:
    """An array of one axis of numbers or vectors; further axes in front are made one.

    What may be written to later is that itself, for a use that ends before.

    Raises:
        KernelTypeError: it is no array, or one of another dtype or shape of its elements.
        LaunchError: a capture is open, which would not do it again.
    """
    if listeners.here.capture is not None:
        raise LaunchError(
            f"{where}: trees and meshes are not made in a capture, which would not make them again",
            hint="make them before the capture; refit() and build() are captured",
        )
    is_own = type(value) is array and type(value.memory) is HostMemory and is_not_tracing()
    value = value.host() if is_own else content_of(value)
    if not isinstance(value, (jax.Array, np.ndarray)):
        if not hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
            raise KernelTypeError(f"{where}: '{name}' must be an array, got {type(value).__name__}")
        value = np.asarray(value)
    rank = len(components)
    if value.dtype != dtype:
        raise KernelTypeError(f"{where}: '{name}' must be of {np.dtype(dtype)}, got {value.dtype}{list(value.shape)}")
    if value.ndim <= rank or value.shape[value.ndim - rank :] != components:
        wanted, shown = ", ".join(["n", *map(str, components)]), f"{value.dtype}{list(value.shape)}"
        raise KernelTypeError(f"{where}: '{name}' must have the shape ({wanted}), got {shown}")
    return value if value.ndim == rank + 1 else value.reshape(-1, *components)


def as_command(
    owner: Geometry, change: Callable[[], None], planned: Callable[[dict[Any, Any]], Planned | None] | None = None
) -> None:
    """Build or refit something: now, or, while a capture is open, whenever what was captured runs.

    `planned` gives steps that do the same, as `GeometryChange` has them.

    Raises, as it runs:
        LaunchError: it is no part of the function of `wp.functionalize` that JAX traces.
    """

    def run() -> None:
        if not is_not_tracing() and is_foreign(owner):
            file, line = place_of_caller()
            raise LaunchError(
                f"{owner!r} is built or changed at {file}:{line} while JAX traces a function that it is no part of",
                hint="pass it as an argument of wp.functionalize, alone or in an object, or make it inside of the"
                " function",
            )
        change()

    submit(GeometryChange(owner, run, planned))


def note_trace(owner: Geometry) -> None:
    """Note where something is built, while JAX traces."""
    if not is_not_tracing():
        owner.traced_at = place_of_caller()


def refuse_ended(owner: Geometry, leaves: Sequence[str]) -> None:
    """Refuse something whose arrays, the attributes `leaves`, are of a function that JAX traces no longer.

    Raises:
        LaunchError: it is such.
    """
    if owner.traced_at is None or not is_not_tracing():
        return
    if any(isinstance(getattr(owner, name), jax.core.Tracer) for name in leaves):
        file, line = owner.traced_at
        raise LaunchError(
            f"{owner!r} was built at {file}:{line} in a function that JAX traced, and is used after that has ended",
            hint="return it from that function, as it is a pytree, or build it anew",
        )


def content_of(value: Any) -> Any:
    """The current content of an array, as a JAX or NumPy array; other values unchanged."""
    if isinstance(value, (jax.Array, np.ndarray)):
        return value
    if is_on_gpu(value):
        return value.host()
    if hasattr(value, "__jax_array__"):
        return value.__jax_array__()
    return value.host() if isinstance(value, array) else value


def is_on_gpu(value: Any) -> bool:
    """True for a `wp.array` in the memory of a GPU."""
    return isinstance(value, array) and value.device is not None and value.device.is_cuda


def common_gpu(where: str, **given: Any) -> Device | None:
    """The GPU that arrays of jwarp's are on, None where they are not.

    Raises:
        LaunchError: they are on several devices.
    """
    found = {name: value.device for name, value in given.items() if isinstance(value, array) and value.device}
    if len(set(map(str, found.values()))) > 1:
        listed = ", ".join(f"'{name}' on {device}" for name, device in found.items())
        raise LaunchError(f"{where}: the arrays are on several devices, {listed}", hint="a.to(device) is a copy there")
    return next((device for device in found.values() if device.is_cuda and is_not_tracing()), None)


def here(device: Device | None) -> contextlib.AbstractContextManager[Any]:
    """Have JAX compute on the host, even from arrays on a GPU."""
    if device is None:
        return contextlib.nullcontext()
    try:
        return jax.default_device(jax.devices("cpu")[0])
    except RuntimeError:  # JAX_PLATFORMS leaves it out
        return contextlib.nullcontext()


def brought(part: Any) -> Any:
    """A part of a tree or mesh in host memory, where it was on a GPU; read-only, as those made here are."""
    if not is_on_gpu(part):
        return part
    found = np.array(part.host())
    found.flags.writeable = False
    return found


def settled(made: Any, *given: Any) -> Any:
    """Wait for a result that was computed from mutable arrays, so that these may be written to."""
    return made if all(isinstance(x, jax.Array) or x is None for x in given) else jax.block_until_ready(made)


def is_here(value: Any) -> bool:
    """True if an array's content is known, and all of it is in host memory."""
    if not isinstance(value, jax.Array):
        return isinstance(value, np.ndarray)
    is_known = not isinstance(value, jax.core.Tracer) and value.is_fully_addressable
    return is_known and {device.platform for device in value.devices()} == {"cpu"}


def read_groups(where: str, groups: Any, count: int) -> jax.Array:
    """The group of each thing; no elements where there are no groups.

    Raises:
        KernelTypeError: they are no array of int32.
        LaunchError: there are more or fewer of them than things.
    """
    if groups is None:
        return jax.numpy.zeros(0, np.int32)
    found = read_array(where, "groups", groups, np.int32)
    if found.shape[0] != count:
        raise LaunchError(f"{where}: {found.shape[0]} groups for {count}")
    return found


def fixed(value: Any) -> bool:
    """True for a NumPy array that nobody can write to, so that a JAX array may replace it."""
    return type(value) is np.ndarray and not value.flags.writeable and value.base is None


def known_number(value: Any) -> float | None:
    """A number as Python has it, None where JAX traces it."""
    return None if isinstance(value, jax.core.Tracer) else float(value)


def order_of(*keys: np.ndarray) -> np.ndarray:
    """The order of what has these keys, arrays of int32, the first of which counts most; of equal ones, as they are.

    NumPy sorts 16 bits at a time, several times as fast as XLA sorts.
    """
    order = np.arange(len(keys[0]), dtype=np.int32)
    for key in reversed(keys):
        bits = key.view(np.uint32) ^ np.uint32(1 << 31 if len(key) and key.min() < 0 else 0)
        for part in (bits.astype(np.uint16), (bits >> np.uint32(16)).astype(np.uint16)):
            if part.any():
                order = order[np.argsort(part[order], kind="stable")]
    return order
