"""Functions of whole arrays on a GPU: launches of the kernels in cuda/device."""

from __future__ import annotations

from typing import Any

from jwarp.api.device import KERNEL_NAMES, kernel_of_header, reduce_rows, scan_rows
from jwarp.arrays.array import array, array1d, array2d
from jwarp.arrays.create import empty
from jwarp.caches import cached
from jwarp.dispatch.call.call import LaunchRequest
from jwarp.dispatch.executables.array_launch import launch
from jwarp.frontend.cuda_kernel import HandwrittenKernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.types import (
    ScalarType,
    float32,
    float64,
    int32,
    int64,
    type_is_composite,
    type_size_in_bytes,
    uint32,
    uint64,
)

_CHUNK = 4096  # rows that a block adds up, at least
_MOST_CHUNKS = 1024
_KEYS = 1024  # that a block sorts, as in sorting.cuh
_BLOCK = 256


def are_contiguous_there(*arrays: array) -> bool:
    """True if the arrays, all on one device, are on a GPU and contiguous."""
    return all(a.device is not None and a.device.is_cuda and a.is_contiguous for a in arrays)


def rows_of(a: array) -> array:
    """The numbers of a contiguous array: a row for each element, with the components, which may be one."""
    flat = a if a.ndim == 1 else a.flatten()
    if not type_is_composite(flat.dtype):
        return flat.reshape((flat.size, 1))
    scalar = flat.dtype.dtype
    count = type_size_in_bytes(flat.dtype) // type_size_in_bytes(scalar)
    return flat.view(scalar).flatten().reshape((flat.size, count))


def sum_columns(rows: array, out: array) -> None:
    """Put the sums of the columns of an array (rows, columns) into the first elements of `out`, in a fixed order."""
    columns = rows.shape[1]
    sums = _chunk_sums(_sum_chunks(rows.dtype), [rows], rows.shape[0], columns, rows)
    run(reduce_rows(rows.dtype, "sum"), columns, [sums, out])


def sum_rows(rows: array, out: array) -> None:
    """Put the sum of each row into `out`, in a fixed order."""
    run(reduce_rows(rows.dtype, "sum"), rows.shape[0], [rows, out])


def inner_of(x: array, y: array, out: array) -> None:
    """Put the sum of the products of two arrays of numbers, of one axis, into `out`, in a fixed order."""
    sums = _chunk_sums(_inner_chunks(x.dtype), [x, y], x.size, 1, x)
    run(reduce_rows(x.dtype, "sum"), 1, [sums, out])


def scan_columns(rows: array, out: array, *, inclusive: bool) -> None:
    """Put the sums of each column of an array (rows, columns), up to each row, into `out`, which may be that array."""
    if out.ptr != rows.ptr:
        out.memory.copy_from(out.layout, rows.memory, rows.layout)
    count, columns = rows.shape
    sums = _chunk_sums(_sum_chunks(rows.dtype), [out], count, columns, rows)  # rows may overlap with out
    starts = empty(sums.shape, dtype=rows.dtype, device=rows.device)
    run(scan_rows(rows.dtype, True, False), columns, [sums, starts])
    run(_scan_chunks(rows.dtype, not inclusive), columns * sums.shape[1], [starts, out])


def sort_pairs(keys: array, values: array, count: int, begin: int, end: int) -> None:
    """Sort the first `count` keys by their bits from `begin` up to `end`, and the values with them.

    Equal keys stay in their order. The next `count` of both are room for the work, and hold anything after it.
    """
    order = "not_negative" if keys.dtype in (uint32, uint64) else "integers"
    order = "floats" if keys.dtype in (float32, float64) else order
    words = [a.flatten().view(_WORDS[type_size_in_bytes(a.dtype)]).flatten() for a in (keys, values)]
    kinds = words[0].dtype, words[1].dtype, order
    widths = [_KEYS << step for step in range(32) if _KEYS << step < count]
    at = count * (len(widths) % 2)  # so that the last of them writes to where the keys were
    run(_sort_chunks(*kinds), -(-count // _KEYS), [count, at, begin, end, *words])
    for width in widths:
        run(_merge_runs(*kinds), count, [count, at, count - at, width, begin, end, *words])
        at = count - at


_WORDS = {4: uint32, 8: uint64}


def run(kernel: Kernel, dims: Any, given: list[Any]) -> None:
    """Launch what no tape is to know of."""
    launch(LaunchRequest(kernel, dims, given, record_tape=False))


def _chunk_sums(kernel: HandwrittenKernel, given: list[array], count: int, columns: int, like: array) -> array:
    chunks = min(max(-(-count // _CHUNK), 1), _MOST_CHUNKS)
    sums = empty((columns, chunks), dtype=like.dtype, device=like.device)
    run(kernel, columns * chunks, [*given, sums])
    return sums


# The kernels: one for each type, made when it is first needed


@cached("scalar types")
def _sum_chunks(dtype: ScalarType) -> HandwrittenKernel:
    params = {"x": array2d(dtype=dtype), "sums": array2d(dtype=dtype)}
    return kernel_of_header("chunks.cuh", f"sum_chunks<{KERNEL_NAMES[dtype]}>", params, grid=_block_each)


@cached("scalar types")
def _inner_chunks(dtype: ScalarType) -> HandwrittenKernel:
    params = {"x": array1d(dtype=dtype), "y": array1d(dtype=dtype), "sums": array2d(dtype=dtype)}
    return kernel_of_header("chunks.cuh", f"inner_chunks<{KERNEL_NAMES[dtype]}>", params, grid=_block_each)


@cached("scalar types")
def _scan_chunks(dtype: ScalarType, exclusive: bool) -> HandwrittenKernel:
    name = f"scan_chunks<{KERNEL_NAMES[dtype]}, {'true' if exclusive else 'false'}>"
    params = {"starts": array2d(dtype=dtype), "x": array2d(dtype=dtype)}
    return kernel_of_header("chunks.cuh", name, params, grid=_block_each)


@cached("types of keys and values")
def _sort_chunks(key: ScalarType, value: ScalarType, order: str) -> HandwrittenKernel:
    name = f"sort_chunks<{KERNEL_NAMES[key]}, {KERNEL_NAMES[value]}, jw::keys_are::{order}>"
    numbers = {"count": int64, "to": int64, "begin": int32, "end": int32}
    arrays = {"keys": array1d(dtype=key), "values": array1d(dtype=value)}
    return kernel_of_header("sorting.cuh", name, {**numbers, **arrays}, outputs=2, grid=_block_each)


@cached("types of keys and values")
def _merge_runs(key: ScalarType, value: ScalarType, order: str) -> HandwrittenKernel:
    name = f"merge_runs<{KERNEL_NAMES[key]}, {KERNEL_NAMES[value]}, jw::keys_are::{order}>"
    numbers = {"count": int64, "from": int64, "to": int64, "width": int64, "begin": int32, "end": int32}
    arrays = {"keys": array1d(dtype=key), "values": array1d(dtype=value)}
    return kernel_of_header("sorting.cuh", name, {**numbers, **arrays}, outputs=2)


def _block_each(dims: tuple[int, ...]) -> int:
    return dims[0]
