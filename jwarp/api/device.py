"""`wp.device`: JAX functions of the kernels that the headers in cuda/device are for.

On a GPU each is one launch of CUDA C++; on the CPU, and for its derivatives' formulas, JAX's own operations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jwarp.api.cuda_kernel import cuda_kernel
from jwarp.api.launch import launch
from jwarp.arrays.array import array1d, array2d
from jwarp.caches import cached
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.cuda_kernel import HandwrittenKernel
from jwarp.launching.handwritten import MAX_GRID
from jwarp.types import ScalarType, float32, float64, from_dtype, int32, int64, uint32, uint64

__all__ = ["reduce", "scan", "scatter_add", "segmented_sum"]

# The types that have atomics and shuffles.
KERNEL_NAMES: dict[ScalarType, str] = {
    float32: "float",
    float64: "double",
    int32: "int",
    int64: "long long",
    uint32: "unsigned",
    uint64: "unsigned long long",
}
_BLOCK, _WARP = 256, 32
# Every GPU gives a block that much shared memory without being asked.
_SHARED = 48 * 1024
_SCATTER_BLOCKS = 512


def reduce(x: Any, op: str = "sum") -> jax.Array:
    """The sum, `max` or `min` along the last axis, with the same bits in every run.

    Where several elements are the extremum, they share its gradient. NaNs win.

    Raises:
        KernelTypeError: `x` has elements of another type than 32- and 64-bit floats and integers.
        LaunchError: there is no such operation, or nothing to take the extremum of.
    """
    if op not in _JAX_REDUCTIONS:
        raise LaunchError(f"wp.device.reduce: op must be sum, max or min, got {op!r}")
    x, dtype = _array("wp.device.reduce", x)
    if op != "sum" and x.shape[-1] == 0:
        raise LaunchError(f"wp.device.reduce: there is no {op} of no elements, got {x.dtype}{list(x.shape)}")
    *shape, columns = x.shape
    rows = x.reshape(math.prod(shape), columns)
    return _launched(reduce_rows(dtype, op), rows.shape[0], [rows], rows.shape[0]).reshape(shape)


def scan(x: Any, *, exclusive: bool = False, reverse: bool = False) -> jax.Array:
    """Sums along the last axis up to each element, with it or, if `exclusive`, without; from the end if `reverse`.

    Raises:
        KernelTypeError: `x` has elements of another type than 32- and 64-bit floats and integers.
    """
    x, dtype = _array("wp.device.scan", x)
    *shape, columns = x.shape
    rows = x.reshape(math.prod(shape), columns)
    return _launched(scan_rows(dtype, bool(exclusive), bool(reverse)), rows.shape[0], [rows], rows.shape).reshape(
        x.shape
    )


def segmented_sum(x: Any, offsets: Any) -> jax.Array:
    """The sums of `x[offsets[i]:offsets[i + 1]]` for each i, along the first axis of `x`.

    `offsets` are int32 and ascend; rows before the first and from the last on count nowhere. With the same bits in
    every run.

    Raises:
        KernelTypeError: `x` has elements of another type than 32- and 64-bit floats and integers, or `offsets`
            has other elements than int32.
        LaunchError: `offsets` is empty, or has not one axis.
    """
    x, dtype = _array("wp.device.segmented_sum", x)
    offsets = _indices("wp.device.segmented_sum: offsets", offsets)
    if offsets.shape[0] == 0:
        raise LaunchError("wp.device.segmented_sum: offsets must have one more entry than there are segments, got none")
    columns = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    count = offsets.shape[0] - 1
    found = _launched(_segmented_sum(dtype), count, [columns, offsets], (count, columns.shape[1]))
    return found.reshape(count, *x.shape[1:])


def scatter_add(values: Any, indices: Any, size: int) -> jax.Array:
    """An array of `size` rows, to whose row `indices[i]` each `values[i]` was added.

    Rows whose index is outside 0 … size - 1 are dropped, as are negative ones. On a GPU each block adds up in shared
    memory where that holds all sums; floats are added in an order that is not fixed.

    Raises:
        KernelTypeError: `values` have elements of another type than 32- and 64-bit floats and integers, or `indices`
            has other elements than int32.
        LaunchError: there is not one index for each of the values, or `size` is no such number.
    """
    where = "wp.device.scatter_add"
    values, dtype = _array(where, values)
    indices = _indices(f"{where}: indices", indices)
    if indices.shape[0] != values.shape[0]:
        raise LaunchError(f"{where}: there are {values.shape[0]} values, and {indices.shape[0]} indices")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 2**31:
        raise LaunchError(f"{where}: size must be an int from 0 to 2**31 - 1, got {size!r}")
    columns = values.reshape(values.shape[0], math.prod(values.shape[1:]))
    in_shared = size * columns.shape[1] * (dtype.bits // 8) <= _SHARED
    kernel = _scatter_add(dtype, in_shared)
    # The sums are a dimension of the launch, as shared memory depends on their number.
    dims = (columns.shape[0], size, columns.shape[1])
    found = _launched(kernel, dims, [columns, indices], (size, columns.shape[1]))
    return found.reshape(size, *values.shape[1:])


# Checks of the functions' arguments


def _array(where: str, x: Any) -> tuple[Any, ScalarType]:
    x = jnp.asarray(x)
    dtype = from_dtype(x.dtype) if not jnp.issubdtype(x.dtype, jax.dtypes.extended) else None
    if dtype not in KERNEL_NAMES:
        raise KernelTypeError(f"{where}: expected floats or integers of 32 or 64 bits, got {x.dtype}{list(x.shape)}")
    if x.ndim == 0:
        raise LaunchError(f"{where}: expected an array, got a number")
    return x, dtype


def _indices(where: str, x: Any) -> Any:
    x = jnp.asarray(x)
    if x.dtype != jnp.int32:
        raise KernelTypeError(f"{where} must be int32, got {x.dtype}{list(x.shape)}", hint="convert with astype")
    if x.ndim != 1:
        raise LaunchError(f"{where} must have one axis, got {x.dtype}{list(x.shape)}")
    return x


def _launched(kernel: HandwrittenKernel, dims: Any, inputs: list[Any], shape: Any) -> Any:
    return launch(kernel, dims, inputs, [shape])[0]


# The kernels: one for each type, made when it is first needed


def kernel_of_header(
    header: str, name: str, params: dict[str, Any], *, outputs: int = 1, **keywords: Any
) -> HandwrittenKernel:
    """A kernel in a header of cuda/device, whose last parameters, so many, are its outputs."""
    written = list(params)[-outputs:]
    return cuda_kernel(f'#include "jwarp/{header}"\n', f"jw::{name}", params, outputs=written, **keywords)


_JAX_REDUCTIONS: dict[str, Callable] = {"sum": jnp.sum, "max": jnp.max, "min": jnp.min}


@cached("scalar types")
def reduce_rows(dtype: ScalarType, op: str) -> HandwrittenKernel:
    """The kernel that reduces each row of an array."""
    compute = _JAX_REDUCTIONS[op]

    def adjoint(x: Any, adj_y: Any, *, outputs: Any) -> Any:
        if op == "sum":
            return jnp.broadcast_to(adj_y[:, None], x.shape)
        attains = (x == outputs[0][:, None]).astype(x.dtype)
        return attains * (adj_y / attains.sum(-1))[:, None]

    return kernel_of_header(
        "rows.cuh",
        f"reduce_rows<{KERNEL_NAMES[dtype]}, jw::{op}>",
        {"x": array2d(dtype=dtype), "y": array1d(dtype=dtype)},
        grid=lambda dims: dims[0],
        cpu=lambda x: compute(x, -1).astype(x.dtype),
        adjoint=adjoint,
    )


@cached("scalar types")
def scan_rows(dtype: ScalarType, exclusive: bool, reverse: bool) -> HandwrittenKernel:
    """The kernel that sums up along each row of an array."""

    def cpu(x: Any) -> Any:
        found = jax.lax.cumsum(x, axis=1, reverse=reverse)
        if not exclusive:
            return found
        # Not the difference, which rounds.
        side = ((0, 0), (0, 1)) if reverse else ((0, 0), (1, 0))
        padded = jnp.pad(found, side)
        return padded[:, 1:] if reverse else padded[:, :-1]

    return kernel_of_header(
        "rows.cuh",
        f"scan_rows<{KERNEL_NAMES[dtype]}, {_bool(exclusive)}, {_bool(reverse)}>",
        {"x": array2d(dtype=dtype), "y": array2d(dtype=dtype)},
        grid=lambda dims: dims[0],
        cpu=cpu,
        adjoint=lambda x, adj_y: scan(adj_y, exclusive=exclusive, reverse=not reverse),
    )


def _segments_of(offsets: Any, rows: int) -> Any:
    """The segment of each row; one that there is not for rows of none."""
    found = jnp.searchsorted(offsets, jnp.arange(rows, dtype=jnp.int32), side="right") - 1
    return jnp.where(found < 0, offsets.shape[0], found)


def _by_warps(dims: tuple[int, ...]) -> int:
    return -(-dims[0] // (_BLOCK // _WARP))


@cached("scalar types")
def _segmented_sum(dtype: ScalarType) -> HandwrittenKernel:
    def cpu(x: Any, offsets: Any) -> Any:
        count = offsets.shape[0] - 1
        return jax.ops.segment_sum(x, _segments_of(offsets, x.shape[0]), count, mode="drop")

    def adjoint(x: Any, offsets: Any, adj_sums: Any) -> Any:
        spread = _spread_segments(dtype)
        return _launched(spread, adj_sums.shape[0], [adj_sums, offsets], x.shape), None

    return kernel_of_header(
        "segments.cuh",
        f"segmented_sum<{KERNEL_NAMES[dtype]}>",
        {"x": array2d(dtype=dtype), "offsets": array1d(dtype=int32), "sums": array2d(dtype=dtype)},
        grid=_by_warps,
        cpu=cpu,
        adjoint=adjoint,
    )


@cached("scalar types")
def _spread_segments(dtype: ScalarType) -> HandwrittenKernel:
    def cpu(values: Any, offsets: Any, *, output_shapes: Any) -> Any:
        rows = output_shapes[0][0]
        return values.at[_segments_of(offsets, rows)].get(mode="fill", fill_value=0)

    return kernel_of_header(
        "segments.cuh",
        f"spread_segments<{KERNEL_NAMES[dtype]}>",
        {"values": array2d(dtype=dtype), "offsets": array1d(dtype=int32), "x": array2d(dtype=dtype)},
        grid=_by_warps,
        cpu=cpu,
        adjoint=lambda values, offsets, adj_x: (segmented_sum(adj_x, offsets), None),
    )


def _inside(indices: Any, size: int) -> Any:
    """The indices; for JAX, negative ones count from the end, here they are outside."""
    return jnp.where(indices < 0, size, indices)


@cached("scalar types")
def _scatter_add(dtype: ScalarType, in_shared: bool) -> HandwrittenKernel:
    def cpu(values: Any, indices: Any, *, output_shapes: Any) -> Any:
        start = jnp.zeros(output_shapes[0], values.dtype)
        return start.at[_inside(indices, start.shape[0])].add(values, mode="drop")

    def grid(dims: tuple[int, ...]) -> int:
        rows, size, columns = dims
        blocks = -(-rows * columns // _BLOCK)
        if not in_shared:
            return min(blocks, MAX_GRID[0])
        # A block should have more to add than sums to hand over.
        return max(1, min(blocks, _SCATTER_BLOCKS, rows // max(1, size)))

    def adjoint(values: Any, indices: Any, adj_sums: Any) -> Any:
        return _launched(_take_rows(dtype), values.shape, [adj_sums, indices], values.shape), None

    return kernel_of_header(
        "segments.cuh",
        f"scatter_add<{KERNEL_NAMES[dtype]}, {_bool(in_shared)}>",
        {"values": array2d(dtype=dtype), "indices": array1d(dtype=int32), "sums": array2d(dtype=dtype)},
        grid=grid,
        shared_bytes=lambda dims: dims[1] * dims[2] * (dtype.bits // 8) if in_shared else 0,
        cpu=cpu,
        adjoint=adjoint,
    )


@cached("scalar types")
def _take_rows(dtype: ScalarType) -> HandwrittenKernel:
    def cpu(table: Any, indices: Any) -> Any:
        return table.at[_inside(indices, table.shape[0])].get(mode="fill", fill_value=0)

    return kernel_of_header(
        "segments.cuh",
        f"take_rows<{KERNEL_NAMES[dtype]}>",
        {"table": array2d(dtype=dtype), "indices": array1d(dtype=int32), "rows": array2d(dtype=dtype)},
        cpu=cpu,
        adjoint=lambda table, indices, adj_rows: (scatter_add(adj_rows, indices, table.shape[0]), None),
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"


def kernels() -> dict[str, Callable[[ScalarType], HandwrittenKernel]]:
    """Every kernel of this module by a name, for who compiles them all."""
    found: dict[str, Callable[[ScalarType], HandwrittenKernel]] = {}
    for op in _JAX_REDUCTIONS:
        found[f"reduce {op}"] = functools.partial(reduce_rows, op=op)
    for exclusive in (False, True):
        for reverse in (False, True):
            name = f"scan{' exclusive' if exclusive else ''}{' reverse' if reverse else ''}"
            found[name] = functools.partial(scan_rows, exclusive=exclusive, reverse=reverse)
    for in_shared in (False, True):
        found[f"scatter_add{' in shared memory' if in_shared else ''}"] = functools.partial(
            _scatter_add, in_shared=in_shared
        )
    return {**found, "segmented_sum": _segmented_sum, "spread_segments": _spread_segments, "take_rows": _take_rows}
