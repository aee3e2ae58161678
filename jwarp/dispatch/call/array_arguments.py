"""Arrays that change as the arguments of a launch: which values they are, and whether they fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.struct_array import StructArray
from jwarp.caches import Cache
from jwarp.dispatch.call import checks
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.nodes import Param
from jwarp.launching import arguments, geometry, grouping
from jwarp.launching.geometry import BlockDim
from jwarp.types import Struct, array_of, indexedarray
from jwarp.wire import Role


def holds_arrays(values: Any) -> bool:
    """Whether some of the values of a call, a list or a dict, is an array that changes or has one inside."""
    if type(values) not in (list, tuple):
        values = values.values() if isinstance(values, Mapping) else ()
    for value in values:
        kind = type(value)
        if kind is array:
            return True
        if kind in _PLAIN:
            continue
        if kind is StructArray:
            return True
        if isinstance(value, Struct):
            if holds_arrays([getattr(value, name) for name in type(value).fields]):
                return True
        elif isinstance(value, indexedarray):
            if type(value.data) is array:
                return True
        elif isinstance(value, dict) and holds_arrays(value):
            return True
    return False


_PLAIN = {int, float, bool, type(None), np.ndarray, tuple, list}


def host_of(given: array) -> np.ndarray:
    """An array's elements as NumPy sees them.

    Raises:
        LaunchError: it stands for a value that JAX traces.
    """
    return given.host() if isinstance(given.memory, HostMemory) else given.memory.expose(given.layout)


_TYPES: Cache[tuple[Any, int], Any] = Cache("types of arrays", 1024)


def _type_of(value: array) -> Any:
    """The type of parameters that an array can be given for."""
    return _TYPES.made((value.dtype, value.ndim), lambda: array_of(value.dtype, value.ndim))


def check_array(kernel: str, param: Param, value: array) -> None:
    """Refuse an array of another type than the parameter's."""
    if value.device is not None and (_type_of(value) == param.type or (value.is_untyped and _fits(value, param.type))):
        return
    where = f"kernel '{kernel}', parameter '{param.name}': expected {param.type!r}"
    if value.device is None:
        raise KernelTypeError(f"{where}, got the annotation {value!r}, which holds nothing")
    own = _type_of(value)
    if own != param.type:
        hint = f"make it with dtype=wp.{param.dtype}"
        if own.dtype == param.dtype:
            hint = "a.view(dtype) shows the same bytes as elements of another type, a.reshape(…) in another shape"
        raise KernelTypeError(f"{where}, got {own!r}, {value.memory.made_at}", hint=hint)


def _fits(value: array, kind: Any) -> bool:
    """Whether the elements of an array are those of a type, or its last axes the components of such."""
    try:
        seen = value.layout.seen_as(kind.element)
    except (KernelTypeError, LaunchError, AttributeError):  # or the parameter is no array
        return False
    like = len(seen.shape), seen.full_shape, seen.dtype
    return like == (kind.dims, value.layout.full_shape, value.layout.dtype)


def check_value(kernel: Kernel, index: int, value: Any) -> None:
    """Refuse a value with arrays of other types than those of a parameter as it is written, by its number."""
    parameter = kernel.signature[index]
    leaves = grouping.flatten(kernel.name, parameter.name, parameter.type, value)
    for p, leaf in zip(kernel.groups[index], leaves, strict=True):
        if type(leaf) is array:
            check_array(kernel.name, kernel.params[p], leaf)
        elif (fault := checks.check_part(kernel.params[p], leaf, Role.READ)) is not None:
            arguments.raise_faults(kernel.name, [fault])


def matched_values(kernel: Kernel, inputs: Any, outputs: Any) -> tuple[Any, ...]:
    """What is given for each parameter as it is written.

    Raises:
        LaunchError: counts or names do not fit.
    """
    return arguments.match(kernel.name, kernel.signature, (), inputs, () if outputs is None else outputs).values


def read_block_dim(block_dim: Any, kernel_name: str) -> BlockDim | None:
    """`block_dim` as Warp takes it: what is not positive is left out."""
    if isinstance(block_dim, int) and not isinstance(block_dim, bool) and block_dim <= 0:
        return None
    return geometry.read_block_dim(block_dim, kernel_name)
