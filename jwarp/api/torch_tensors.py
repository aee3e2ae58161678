"""Mutable arrays from PyTorch's tensors, and back, without copies: `wp.from_torch`, `wp.to_torch` and their kin."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from jwarp.api.dlpack import from_dlpack
from jwarp.api.streams import Stream, get_stream
from jwarp.arrays.array import array
from jwarp.arrays.content import read_element
from jwarp.arrays.memory import shown_by
from jwarp.arrays.view import components_of, scalar_of
from jwarp.devices import CPU, Device, DeviceError, DeviceLike, get_device
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import ScalarType, StructType, as_scalar, bfloat16
from jwarp.types.scalars import SCALARS, bool_

# PyTorch has few operations on these: tensors of the signed type of the same width stand for them.
_SIGNED = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}
_BY_NAME = {scalar.dtype.name: scalar for scalar in SCALARS.values()}


def _torch(where: str) -> Any:
    """PyTorch, which only those who give tensors, or ask for some, need."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise LaunchError(f"{where}: PyTorch is not installed", hint="pip install torch") from None


def from_torch(
    t: Any,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: Any = None,
    return_ctype: bool = False,
    retain_grad: bool = False,
) -> array:
    """An array in the memory of a PyTorch tensor. Each sees what the other writes.

    Args:
        t: The tensor, in host memory or on a GPU.
        dtype: The type of the elements. Default: that of the tensor. The components of vectors and matrices are the
            last axes. Integers and booleans can be viewed as other types of the same width.
        requires_grad: Whether the array has a gradient. Default: as the tensor. The gradient is shared with the tensor,
            which gets one of zeros if it has none.
        grad: The gradient to use instead, a tensor or an array.
        return_ctype: Let launches use the last axes as components if a parameter has vectors or matrices. The result is
            an array in any case.
        retain_grad: Whether backward passes keep the gradient of overwritten content.

    Raises:
        KernelTypeError: `t` is not such a tensor, or its elements do not have this type.
        LaunchError: The components of an element are not contiguous.

    Example:
        >>> x = wp.from_torch(torch.rand(10, 3, requires_grad=True), dtype=wp.vec3)
    """
    given = getattr(t, "dtype", None)
    if not hasattr(t, "detach") or given is None:
        raise KernelTypeError(f"wp.from_torch: expected a tensor of PyTorch, got {type(t).__name__}")
    wanted = dtype_from_torch(given) if dtype is None else read_element(dtype)
    made = _shown(t.detach(), given, wanted)
    if requires_grad if requires_grad is not None else t.requires_grad or grad is not None:
        if grad is None:
            grad = t.grad
        if grad is None:
            made.requires_grad = True
            assert made.grad is not None
            t.grad = to_torch(made.grad, requires_grad=False)
        else:
            made.grad = grad if isinstance(grad, array) else from_torch(grad, wanted, requires_grad=False)
        made.retain_grad = retain_grad
    if return_ctype:
        made.is_untyped = True
    return made


def _shown(t: Any, given: Any, wanted: Any) -> array:
    """The memory of a tensor without a gradient, as elements of a type."""
    scalar: Any = wanted if isinstance(wanted, StructType) else scalar_of(wanted)
    if not _is_seen_as(dtype_from_torch(given), scalar):
        raise KernelTypeError(f"wp.from_torch: elements of {given} cannot be seen as {wanted!r}")
    components, extents = components_of(wanted), tuple(t.shape)
    if t.ndim == len(components):
        t = t[None]  # a single element
    if t.device.type != "cpu":
        made = from_dlpack(t)
        memory, layout = made.memory, made.layout
    else:
        try:
            bits = t.view(_torch("wp.from_torch").int16) if scalar is bfloat16 else t
            shown = bits.numpy()
        except (TypeError, RuntimeError) as error:  # it is sparse, or its elements are worked out as they are read
            raise KernelTypeError(f"wp.from_torch: {error}") from None
        shown = shown if shown.dtype == scalar.dtype else shown.view(scalar.dtype)
        axes = max(shown.ndim - len(components), 0)
        is_whole = shown.flags.c_contiguous and shown.shape[axes:] == components
        memory, layout = shown_by(shown, wanted if is_whole else scalar)
    try:
        layout = layout if layout.element is wanted else layout.seen_as(wanted)
    except (KernelTypeError, LaunchError) as error:
        what = f"a tensor of shape {extents} cannot be seen as {wanted!r}"
        raise type(error)(f"wp.from_torch: {what}: {error}") from None
    return array.of(memory, layout)


def _is_seen_as(source: ScalarType, scalar: Any) -> bool:
    """True if elements of one type can be viewed as another: integers and booleans as integers of their width."""
    if source is scalar:
        return True
    if not isinstance(scalar, ScalarType) or source.is_float or scalar.is_float or scalar is bool_:
        return False
    return source.dtype.itemsize == scalar.dtype.itemsize


def to_torch(a: array, requires_grad: bool | None = None) -> Any:
    """A PyTorch tensor in the memory of an array. Each sees what the other writes.

    The components of vectors and matrices are the last axes.

    Args:
        a: The array.
        requires_grad: Whether the tensor shares the gradient of the array. Default: as the array.

    Raises:
        KernelTypeError: `a` is not an array, or is an array of structs.
        LaunchError: The array is read-only (as JAX's are), or PyTorch is not installed.
    """
    if not isinstance(a, array) or a.device is None or isinstance(a.dtype, StructType):
        what = f"one of {a.dtype!r}" if isinstance(a, array) else type(a).__name__
        raise KernelTypeError(f"wp.to_torch: expected an array of numbers, vectors or matrices, got {what}")
    torch = _torch("wp.to_torch")
    made = _tensor(torch, a)
    wanted = a.requires_grad if requires_grad is None else requires_grad
    made.requires_grad = wanted
    if wanted and a.grad is not None:
        made.grad = _tensor(torch, a.grad)
    return made


def _tensor(torch: Any, a: array) -> Any:
    if not a.memory.device.is_cpu:
        return torch.from_dlpack(a)
    shown = a.numpy()
    if not shown.flags.writeable:
        raise LaunchError(
            f"wp.to_torch: {a.memory.made_at} is read-only, and tensors of PyTorch are not",
            hint="wp.to_torch(wp.clone(a)) is a tensor in memory of its own",
        )
    if shown.dtype == bfloat16.dtype:
        return torch.from_numpy(shown.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(shown)


def dtype_from_torch(torch_dtype: Any) -> ScalarType:
    """The scalar type that corresponds to a PyTorch dtype; a KernelTypeError if there is none."""
    found = _BY_NAME.get(str(torch_dtype).removeprefix("torch."))
    if found is None:
        raise KernelTypeError(f"wp.dtype_from_torch: there is no scalar type for {torch_dtype!r}")
    return found


def dtype_to_torch(warp_dtype: Any) -> Any:
    """The PyTorch dtype for a scalar type. Unsigned integers of more than 8 bits become signed ones.

    Raises:
        KernelTypeError: The argument is not a scalar type.
        LaunchError: PyTorch is not installed.
    """
    scalar = as_scalar(warp_dtype)
    if scalar is None:
        raise KernelTypeError(f"wp.dtype_to_torch: {warp_dtype!r} is no scalar type")
    name = scalar.dtype.name
    return getattr(_torch("wp.dtype_to_torch"), _SIGNED.get(name, name))


def device_from_torch(torch_device: Any) -> Device:
    """The device that corresponds to a PyTorch device, or to its name.

    Raises:
        LaunchError: Arrays cannot be on this device.
    """
    kind, _, number = str(torch_device).partition(":")
    if kind not in ("cpu", "cuda"):
        raise DeviceError(f"wp.device_from_torch: arrays of jwarp do not live on {torch_device}")
    return CPU if kind == "cpu" else get_device(f"cuda:{number}" if number else "cuda")


def stream_from_torch(stream_or_device: Any = None) -> Stream:
    """The stream of a GPU's arrays, which is also PyTorch's default stream.

    Args:
        stream_or_device: PyTorch's stream or device, or None for the current device.

    Raises:
        LaunchError: It is another stream than the default one, or not that of a GPU.
    """
    if getattr(stream_or_device, "cuda_stream", 0):
        raise DeviceError(
            "wp.stream_from_torch: work on arrays is in one order, on CUDA's default stream",
            hint="torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())",
        )
    given = getattr(stream_or_device, "device", stream_or_device)
    return get_stream(get_device() if given is None else device_from_torch(given))


def device_to_torch(warp_device: DeviceLike) -> str:
    """PyTorch's name of a device, "cpu" or "cuda:0"; a LaunchError if there is no such device."""
    return str(get_device(warp_device))
