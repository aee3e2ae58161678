"""`wp.utils.array_scan`, `array_sum`, `array_inner` and `array_cast`, and what functions of whole arrays share.

Each is one command: it runs at once, or when a capture is replayed. Arrays that stand for values of JAX are computed
by JAX, and others by NumPy; the content of those on a GPU is copied here and back.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jwarp.api import gpu_arrays
from jwarp.api.launch import launch
from jwarp.arrays.array import array
from jwarp.arrays.commands import submit
from jwarp.arrays.create import copy, empty
from jwarp.arrays.writes import Computation
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.lib.casts import CASTS
from jwarp.types import float32, float64, int32, int64, type_is_composite, type_repr, types_equal


def content(a: array) -> Any:
    """The current content of an array, with components of elements as the last axes: a NumPy or JAX array."""
    return a.memory.read(a.layout)


def library(value: Any) -> Any:
    """The library that computes with a value: `numpy`, or `jax.numpy`."""
    return np if isinstance(value, np.ndarray) else jnp


def replace(a: array, value: Any) -> None:
    """Replace the first elements of a contiguous array, those that `value` has."""
    flat = a if a.ndim == 1 else a.flatten()
    a.memory.write(flat[: value.shape[0]].layout, value)


def taken(a: array, count: int | None = None) -> np.ndarray | None:
    """The gradient of the first elements of a contiguous array, which becomes zero, as they were overwritten.

    One of no gradient has None.
    """
    if a.grad is None:
        return None
    grad = a.grad if count is None else a.grad.flatten()[:count]
    found = np.array(content(grad))
    grad.memory.write(grad.layout, np.zeros((), found.dtype))
    return found


def give(a: array, gradient: Any, count: int | None = None) -> None:
    """Add to the gradient of an array, or of the first elements of a contiguous one, if it has one."""
    if a.grad is not None:
        grad = a.grad if count is None else a.grad.flatten()[:count]
        grad.memory.write(grad.layout, content(grad) + gradient.reshape(grad.layout.full_shape))


def number(where: str, name: str, value: Any) -> int:
    """An integer that a caller gave; a LaunchError for anything else."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise LaunchError(f"{where}: {name} must be an integer, not {value!r}", also=TypeError) from None


def have_same_device(where: str, **arrays: Any) -> None:
    """A KernelTypeError for what is no array, and a LaunchError for arrays on several devices."""
    for name, each in arrays.items():
        if not isinstance(each, array) or each.device is None:
            raise KernelTypeError(f"{where}: {name} must be a wp.array, not {type(each).__name__}")
    if len({str(each.device) for each in arrays.values()}) > 1:
        raise LaunchError(f"{where}: the arrays are on several devices")


def array_scan(in_array: array, out_array: array, inclusive: bool = True) -> None:
    """Cumulative sums, inclusive or exclusive, in the order of the elements.

    Args:
        in_array: Elements of int32, int64, float32 or float64, or vectors of these, which are summed by component.
        out_array: An array of the same type and size. It may be `in_array`.
        inclusive: Whether the sum includes the element itself.

    Raises:
        KernelTypeError: The arrays have other types.
        LaunchError: The sizes differ, or an array of several dimensions is not contiguous.
    """
    where = "wp.utils.array_scan"
    have_same_device(where, in_array=in_array, out_array=out_array)
    if in_array.size != out_array.size:
        sizes = f"({in_array.size} vs {out_array.size})"
        raise LaunchError(f"{where}: In and out array storage sizes do not match {sizes}")
    scalar = in_array.dtype.dtype if type_is_composite(in_array.dtype) else in_array.dtype
    if not types_equal(in_array.dtype, out_array.dtype):
        types = f"({type_repr(in_array.dtype)} vs {type_repr(out_array.dtype)})"
        raise KernelTypeError(f"{where}: In and out array data types do not match {types}")
    if scalar not in (int32, int64, float32, float64):
        raise KernelTypeError(f"{where}: Unsupported data type: {type_repr(in_array.dtype)}")
    _check_contiguous(where, in_array, out_array)
    components = in_array.layout.full_shape[in_array.ndim :]

    def scan() -> None:
        if in_array.size and gpu_arrays.are_contiguous_there(in_array, out_array):
            rows = gpu_arrays.rows_of(in_array), gpu_arrays.rows_of(out_array)
            return gpu_arrays.scan_columns(*rows, inclusive=inclusive)
        given = content(in_array).reshape(-1, *components)
        xp = library(given)
        sums = xp.cumsum(given, axis=0, dtype=given.dtype)
        if not inclusive:
            sums = xp.concatenate([xp.zeros_like(sums[:1]), sums[:-1]])
        return replace(out_array, sums)

    def back(_: Any) -> None:
        gradient = taken(out_array)
        if gradient is not None:
            given = gradient.reshape(-1, *components)
            sums = np.cumsum(given[::-1], axis=0)[::-1]
            give(in_array, sums if inclusive else sums - given)

    made_by = array_scan, [in_array, out_array, inclusive]
    submit(Computation(where, scan, [out_array], back, given=[in_array], made_by=made_by))


def array_sum(values: array, out: array | None = None, value_count: int | None = None, axis: int | None = None) -> Any:
    """The sum of all elements, of the first `value_count`, or along one axis, which then has extent 1.

    Args:
        values: Elements of float32 or float64, or composites of these, which are summed by component.
        out: Receives the sums: an array of one element, or of the shape of `values` with extent 1 along the axis.
        value_count: The number of elements. Default: all.
        axis: The axis to sum along. Default: all elements.

    Returns:
        `out` if it is given. Otherwise a new array, or, without an axis, the sum as a NumPy value.

    Raises:
        KernelTypeError: The arrays have other types.
        LaunchError: `out` has another shape, or there is no such axis.
    """

    def on_gpu(count: int, axis: int | None, result: array) -> bool:
        numbers = gpu_arrays.rows_of(values).flatten()
        length = values.size if axis is None else values.shape[axis]
        if not axis:
            gpu_arrays.sum_columns(numbers.reshape((length, -1))[:count], gpu_arrays.rows_of(result).flatten())
        elif axis == values.ndim - 1 and count == length and not type_is_composite(values.dtype):
            gpu_arrays.sum_rows(numbers.reshape((-1, length)), result.flatten())
        else:
            return False
        return True

    return _reduced(array_sum, [values], values.dtype, out, value_count, axis, lambda x: x, lambda g, x: [g], on_gpu)


def array_inner(a: array, b: array, out: array | None = None, count: int | None = None, axis: int | None = None) -> Any:
    """The inner product of all elements, of the first `count`, or along one axis, which then has extent 1.

    Args:
        a: Elements of float32 or float64, or composites of these: the products of all components are summed.
        b: An array of the same type and shape.
        out: Receives the products, of the scalar type: an array of one element, or of the shape of `a` with extent 1
            along the axis.
        count: The number of elements. Default: all.
        axis: The axis to sum along. Default: all elements.

    Returns:
        `out` if it is given. Otherwise a new array, or, without an axis, the product as a NumPy value.

    Raises:
        KernelTypeError: The arrays have other types.
        LaunchError: The shapes differ, `out` has another shape, or there is no such axis.
    """
    where = "wp.utils.array_inner"
    have_same_device(where, a=a, b=b)
    if not types_equal(a.dtype, b.dtype):
        types = f"({type_repr(a.dtype)} vs {type_repr(b.dtype)})"
        raise KernelTypeError(f"{where}: A and b array data types do not match {types}")
    if a.shape != b.shape:
        raise LaunchError(f"array_inner() arguments must have the same shape, got {a.shape} and {b.shape}")
    scalar = a.dtype.dtype if type_is_composite(a.dtype) else a.dtype
    components = tuple(range(a.ndim, len(a.layout.full_shape)))

    def back(gradient: Any, x: Any, y: Any) -> list[Any]:
        scales = gradient.reshape(*gradient.shape, *[1] * len(components))
        return [scales * y, scales * x]

    def on_gpu(count: int, axis: int | None, result: array) -> bool:
        x, y = (gpu_arrays.rows_of(each) for each in (a, b))
        if axis is None:
            gpu_arrays.inner_of(x[:count].flatten(), y[:count].flatten(), result)
        return axis is None

    combined = lambda x, y: (x * y).sum(axis=components)  # noqa: E731
    return _reduced(array_inner, [a, b], scalar, out, count, axis, combined, back, on_gpu)


def _reduced(
    function: Callable[..., Any],
    arrays: Sequence[array],
    dtype: Any,
    out: array | None,
    count: int | None,
    axis: int | None,
    combined: Callable[..., Any],
    back: Callable[..., list[Any]],
    on_gpu: Callable[[int, int | None, array], bool],
) -> Any:
    """Sum over all elements or along an axis what `combined` makes of the contents of arrays, for a public function.

    `back` makes the gradients of the contents of that of what is summed. `on_gpu` does it by launches, for a count, an
    axis and a result, and says whether it did.
    """
    where = f"wp.utils.{function.__name__}"
    names = dict(zip(("values",) if len(arrays) == 1 else ("a", "b"), arrays, strict=True))
    have_same_device(where, **names)
    first = arrays[0]
    scalar = first.dtype.dtype if type_is_composite(first.dtype) else first.dtype
    if scalar not in (float32, float64):
        why = f"Unsupported data type: {type_repr(first.dtype)}"
        raise KernelTypeError(f"{where}: elements must be of float32 or float64. {why}")
    if axis is not None:
        axis = number(where, "axis", axis)
        if not -first.ndim <= axis < first.ndim:
            raise LaunchError(f"{where}() axis {axis} is out of bounds for {first.ndim} dimensions", also=IndexError)
        axis %= first.ndim
    count = number(where, "count", (first.size if axis is None else first.shape[axis]) if count is None else count)
    if not 0 <= count <= (first.size if axis is None else first.shape[axis]):
        raise LaunchError(f"{where}: there are no {count} elements to sum")
    shape = (1,) if axis is None else (*first.shape[:axis], 1, *first.shape[axis + 1 :])
    result = empty(shape, dtype=dtype, device=first.device) if out is None else out
    have_same_device(where, out=result, **names)
    if not types_equal(result.dtype, dtype):
        raise KernelTypeError(
            f"{where}: out is of {type_repr(result.dtype)}: out array should have type {type_repr(dtype)}"
        )
    if result.shape != shape:
        raise LaunchError(f"{where}: out has shape {result.shape}: out array should have shape {shape}")
    ndim = first.ndim
    chosen = (slice(0, count),) if axis is None else (slice(None),) * axis + (slice(0, count),)

    def reduce() -> None:
        if count and gpu_arrays.are_contiguous_there(*arrays, result) and on_gpu(count, axis, result):
            return
        made = combined(*map(content, arrays))
        if axis is None:
            made = made.reshape(-1, *made.shape[ndim:])
        result.memory.write(result.layout, made[chosen].sum(axis=axis or 0, keepdims=True))

    def go_back(contents: Sequence[Any]) -> None:
        gradient = taken(result)
        if gradient is None:
            return
        components = gradient.shape[result.ndim :]
        whole = np.zeros((first.size, *components) if axis is None else (*first.shape, *components), gradient.dtype)
        whole[chosen] = gradient  # the same for all that went into a sum
        shaped = whole.reshape(*first.shape, *components)
        for each, given in zip(arrays, back(shaped, *contents), strict=True):
            give(each, given)

    made_by = function, [*arrays, result, count, axis]
    submit(Computation(where, reduce, [result], go_back, arrays, made_by=made_by))
    return result.numpy()[0] if out is None and axis is None else result


def array_cast(in_array: array, out_array: array, count: int | None = None) -> None:
    """Convert the elements of an array to another type: all elements, or the first `count` of a one-dimensional array.

    It is a launch, with derivatives. If dimensions or components differ, all numbers are converted in order.

    Raises:
        LaunchError: The shapes differ, `count` is too large, or `count` is given for several dimensions.
    """
    where = "wp.utils.array_cast"
    have_same_device(where, in_array=in_array, out_array=out_array)
    if in_array.ndim != out_array.ndim or _components(in_array) != _components(out_array):
        length = int(np.prod(_components(in_array)))
        in_array, out_array = _numbers(in_array), _numbers(out_array)
        count = None if count is None else number(where, "count", count) * length
    count = in_array.size if count is None else number(where, "count", count)
    if in_array.ndim > 1 and count < in_array.size:
        raise LaunchError(f"{where}: Partial cast is not supported for arrays with more than one dimension")
    if in_array.ndim > 1 and in_array.shape != out_array.shape:
        raise LaunchError(f"{where}: Array shapes do not match ({in_array.shape} vs {out_array.shape})")
    if not 0 <= count <= min(in_array.size, out_array.size):
        raise LaunchError(
            f"{where}: Cast count ({count}) exceeds the input size ({in_array.size}) or output size ({out_array.size})"
        )
    if types_equal(in_array.dtype, out_array.dtype):
        copy(out_array, in_array, count=count)
    elif count:
        launch(CASTS[in_array.ndim], count if in_array.ndim == 1 else in_array.shape, [out_array, in_array])


def _components(a: array) -> tuple[int, ...]:
    return a.dtype.shape if type_is_composite(a.dtype) else ()


def _numbers(a: array) -> array:
    """All numbers of an array, in a row."""
    flat = a.flatten()
    return flat.view(flat.dtype.dtype).flatten() if type_is_composite(flat.dtype) else flat


def _check_contiguous(where: str, *arrays: array) -> None:
    if any(each.ndim != 1 and not each.is_contiguous for each in arrays):
        raise LaunchError(f"{where}: arrays of several dimensions must be contiguous")
