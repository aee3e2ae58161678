"""Copies, sums and transposes in linear time, of matrices whose rows have rising columns, on the CPU.

They write new arrays, as a matrix may be its own source. The functions return False for all other matrices, and where
derivatives are wanted; the general ways are for those.
"""

from __future__ import annotations

import builtins
from typing import Any

from jwarp.api.array_functions import array_scan
from jwarp.api.launch import launch
from jwarp.arrays.array import array, array2d, array3d
from jwarp.arrays.create import copy, empty, ones, zeros
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import max, where
from jwarp.frontend.kernel import kernel
from jwarp.sparse.jax_values import scalar_of
from jwarp.sparse.matrix import BsrMatrix, ensure_fits, scalars_of
from jwarp.sparse.product_columns import first_row
from jwarp.sparse.rows import is_inside, row_begin, row_end
from jwarp.sparse.storage import launch_inside, rows_of
from jwarp.types import int32

_WORKERS = 4  # that count the columns of a transpose: each has a part of the rows


def are_sorted(*matrices: BsrMatrix) -> bool:
    """True if each row of each matrix has rising columns inside of the matrix, and nobody asks for derivatives."""
    for bsr in matrices:
        arrays = [each for each in (bsr.offsets, bsr.row_counts, bsr.columns, bsr.values) if each is not None]
        if bsr.device.is_cuda or bsr.device.is_capturing or bsr.requires_grad or bsr.values.size < bsr.columns.size:
            return False
        if any(each.memory.is_traced or not each.memory.is_known for each in arrays):
            return False
    for bsr in matrices:
        found = ones(1, dtype=int32, device=bsr.device)
        launch_inside(_check_rows, bsr.nrow, [bsr.ncol, *rows_of(bsr), found], bsr.device, record_tape=False)
        if not (found.memory.is_known and found.numpy()[0]):
            return False
    return True


def copy_sorted(dest: BsrMatrix, source: BsrMatrix, scale: Any, structure_only: bool) -> bool:
    """Set a matrix to a multiple of one whose rows are sorted and have no room to spare; `dest` has its size."""
    if dest.requires_grad or source.row_counts is not None or not are_sorted(source):
        return False
    nnz = builtins.max(int(source.offsets.numpy()[source.nrow]), 0)
    ensure_fits(dest, nnz)
    dest.row_counts = None
    copy(dest.offsets, source.offsets, count=source.nrow + 1)
    if nnz:
        copy(dest.columns, source.columns, count=nnz)
    if nnz and not structure_only:
        given = [scalar_of(source.scalar_type, scale), source.scalar_values, dest.scalar_values]
        launch(_put_multiples, (nnz, *dest.block_shape), given, device=dest.device)
    return True


def add_sorted(y: BsrMatrix, x: BsrMatrix, alpha: Any, beta: Any) -> bool:
    """Set y to `alpha * x + beta * y`, where the rows of both are sorted."""
    if not are_sorted(x, y):
        return False
    device, rows = y.device, [*rows_of(x), *rows_of(y)]
    counts, offsets = zeros(y.nrow + 1, dtype=int32, device=device), empty(y.nrow + 1, dtype=int32, device=device)
    launch_inside(_count_sums, (y.nrow, 1), [*rows, counts], device, record_tape=False)
    array_scan(counts, offsets, inclusive=False)
    nnz = int(offsets.numpy()[y.nrow])
    columns, values = empty(nnz, dtype=int32, device=device), empty(nnz, dtype=y.dtype, device=device)
    scales = [scalar_of(y.scalar_type, scale) for scale in (alpha, beta)]
    given = [*scales, *rows, x.scalar_values, y.scalar_values, offsets, columns, scalars_of(values, y.block_shape)]
    launch_inside(_put_sums, (y.nrow, 1), given, device, record_tape=False)
    _replace(y, nnz, offsets, columns, values)
    return True


def transpose_sorted(dest: BsrMatrix, source: BsrMatrix, scale: Any) -> bool:
    """Set a matrix to the transpose of one whose rows are sorted; `dest` has its size."""
    if dest.requires_grad or dest.values.memory.is_traced or not are_sorted(source):
        return False
    device, rows, nrow = source.device, rows_of(source), source.ncol
    following = zeros((nrow + 1, _WORKERS), dtype=int32, device=device)
    launch_inside(_count_columns, (_WORKERS, 1), [source.nrow, *rows, following], device, record_tape=False)
    flat, starts = following.flatten(), empty(following.size, dtype=int32, device=device)
    array_scan(flat, starts, inclusive=False)
    offsets = empty(nrow + 1, dtype=int32, device=device)
    launch(_take_offsets, nrow + 1, [starts, offsets], device=device, record_tape=False)
    nnz = int(offsets.numpy()[nrow])
    columns, values = empty(nnz, dtype=int32, device=device), empty(nnz, dtype=dest.dtype, device=device)
    given = [scalar_of(source.scalar_type, scale), source.nrow, *rows, source.scalar_values]
    given += [starts.reshape(following.shape), columns, scalars_of(values, dest.block_shape)]
    launch_inside(_put_columns, (_WORKERS, 1), given, device, record_tape=False)
    _replace(dest, nnz, offsets, columns, values)
    return True


def _replace(bsr: BsrMatrix, nnz: int, offsets: array, columns: array, values: array) -> None:
    """Give a matrix other blocks: in the arrays that it has, where they have room, as those who hold them expect."""
    bsr.row_counts = None
    copy(bsr.offsets, offsets, count=bsr.nrow + 1)
    for name, new in (("columns", columns), ("values", values)):
        own = getattr(bsr, name)
        if own.size < nnz:
            setattr(bsr, name, new)
        elif nnz:
            copy(own, new, count=nnz)
    bsr.nnz = nnz


@kernel
def _put_multiples(scale: Any, values: array3d[Any], out: array3d[Any]) -> None:
    block, i, j = tid()
    out[block, i, j] = out.dtype(scale * values[block, i, j])


@kernel(enable_backward=False)
def _check_rows(ncol: int, offsets: array[int], row_counts: array[int], columns: array[int], found: array[int]) -> None:
    row = tid()
    last = -1
    is_rising = True
    for b in range(row_begin(offsets, row), row_end(offsets, row_counts, columns, row)):
        column = columns[b]
        if column <= last:
            is_rising = False
        last = max(last, column)
    if not is_rising or last >= ncol or offsets[0] != 0:
        found[0] = 0
    if offsets[row + 1] < offsets[row] or offsets[row + 1] > columns.shape[0]:
        found[0] = 0


@kernel(enable_backward=False)
def _count_sums(
    x_offsets: array[int],
    x_counts: array[int],
    x_columns: array[int],
    y_offsets: array[int],
    y_counts: array[int],
    y_columns: array[int],
    counts: array[int],
) -> None:
    row, _ = tid()
    a, b = row_begin(x_offsets, row), row_begin(y_offsets, row)
    a_end = row_end(x_offsets, x_counts, x_columns, row)
    b_end = row_end(y_offsets, y_counts, y_columns, row)
    count = max(a_end - a, 0) + max(b_end - b, 0)
    while a < a_end and b < b_end:
        left, right = x_columns[a], y_columns[b]
        count -= where(left == right, 1, 0)
        a += where(left <= right, 1, 0)
        b += where(right <= left, 1, 0)
    counts[row] = count


@kernel(enable_backward=False)
def _put_sums(
    alpha: Any,
    beta: Any,
    x_offsets: array[int],
    x_counts: array[int],
    x_columns: array[int],
    y_offsets: array[int],
    y_counts: array[int],
    y_columns: array[int],
    x_values: array3d[Any],
    y_values: array3d[Any],
    offsets: array[int],
    columns: array[int],
    out: array3d[Any],
) -> None:
    row, _ = tid()
    a, b = row_begin(x_offsets, row), row_begin(y_offsets, row)
    a_end = row_end(x_offsets, x_counts, x_columns, row)
    b_end = row_end(y_offsets, y_counts, y_columns, row)
    for block in range(offsets[row], offsets[row + 1]):
        takes_a = a < a_end
        takes_b = b < b_end
        if takes_a and takes_b:
            takes_a, takes_b = x_columns[a] <= y_columns[b], y_columns[b] <= x_columns[a]
        column = int32(0)
        if takes_a:
            column = x_columns[a]
        else:
            column = y_columns[b]
        columns[block] = column
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                total = out.dtype(0.0)
                if takes_a:
                    total = alpha * x_values[a, i, j]
                if takes_b:
                    total += beta * y_values[b, i, j]
                out[block, i, j] = total
        a += where(takes_a, 1, 0)
        b += where(takes_b, 1, 0)


@kernel(enable_backward=False)
def _count_columns(
    nrow: int, offsets: array[int], row_counts: array[int], columns: array[int], counts: array2d[int]
) -> None:
    worker, _ = tid()
    workers = counts.shape[1]
    for row in range(first_row(nrow, worker, workers), first_row(nrow, worker + 1, workers)):
        for b in range(row_begin(offsets, row), row_end(offsets, row_counts, columns, row)):
            column = columns[b]
            if is_inside(column, counts.shape[0] - 1):
                counts[column, worker] = counts[column, worker] + 1


@kernel(enable_backward=False)
def _take_offsets(starts: array[int], offsets: array[int]) -> None:
    row = tid()
    offsets[row] = starts[row * (starts.shape[0] // offsets.shape[0])]


@kernel(enable_backward=False)
def _put_columns(
    scale: Any,
    nrow: int,
    offsets: array[int],
    row_counts: array[int],
    columns: array[int],
    values: array3d[Any],
    following: array2d[int],
    out_columns: array[int],
    out: array3d[Any],
) -> None:
    """Put the blocks of a worker's rows, in their order, to those of their columns."""
    worker, _ = tid()
    workers = following.shape[1]
    for row in range(first_row(nrow, worker, workers), first_row(nrow, worker + 1, workers)):
        for b in range(row_begin(offsets, row), row_end(offsets, row_counts, columns, row)):
            column = columns[b]
            if is_inside(column, following.shape[0] - 1):
                to = following[column, worker]
                following[column, worker] = to + 1
                out_columns[to] = row
                for i in range(values.shape[1]):
                    for j in range(values.shape[2]):
                        out[to, j, i] = out.dtype(scale * values[b, i, j])
