"""The columns of each row of a product: how many there are, and which, from the lowest on.

Each worker has a part of the rows. To count, it writes the row's number at each column that comes; to list, it marks
columns as bits, in whatever order they come, and goes through these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.arrays.array import array, array2d
from jwarp.arrays.create import zeros
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import bit_count, max, min, where
from jwarp.frontend.func import func
from jwarp.frontend.kernel import kernel
from jwarp.sparse.matrix import BSR_STATUS_ROW_CAPACITY_EXCEEDED, BsrMatrix
from jwarp.sparse.rows import is_inside, row_begin, row_end, row_room
from jwarp.sparse.storage import launch_inside, rows_of
from jwarp.types import int32, int64, uint32

# The words of marks of all workers together, unless one needs more: each has a bit for each column. On GPUs 16 times
# as many.
_WORDS = 2**20
# The numbers of blocks by column, of all workers together, unless one needs more.
PLACES = 2**22


def count_columns(z: BsrMatrix, x: BsrMatrix, y: BsrMatrix, old: BsrMatrix | None, counts: array) -> None:
    """Count the columns of each row."""
    if z.device.is_cuda:  # whose many workers would need too much memory
        find_columns(z, x, y, old, None, counts)
        return
    workers = workers_of(PLACES, y.ncol, z.nrow, z.device)
    seen = zeros((workers, y.ncol), dtype=int32, device=z.device)
    given = [z.nrow, *rows_of(x), y.nrow, y.ncol, *rows_of(y), *_rows_or_none(old), seen, counts]
    launch_inside(_count_each, (workers, 1), given, z.device, record_tape=False)


def _rows_or_none(bsr: BsrMatrix | None) -> list[array | None]:
    return [None, None, None] if bsr is None else rows_of(bsr)


def find_columns(
    z: BsrMatrix, x: BsrMatrix, y: BsrMatrix, old: BsrMatrix | None, offsets: array | None, counts: array
) -> None:
    """Count the columns of each row, and write them where `offsets` says how much room there is."""
    words = (y.ncol + 31) // 32
    workers = workers_of(_WORDS, words, z.nrow, z.device)
    marks, groups = (zeros((workers, size), dtype=uint32, device=z.device) for size in (words, (words + 31) // 32))
    left, right = [z.nrow, *rows_of(x)], [y.nrow, y.ncol, *rows_of(y)]
    third = _rows_or_none(old)
    rows_of(z)
    status = None if offsets is None or z.row_counts is None else z.status()
    given = [*left, *right, *third, marks, groups, offsets, z.columns, counts, status]
    launch_inside(_list_columns, (workers, 1), given, z.device, record_tape=False)


def workers_of(words: int, of_worker: int, nrow: int, device: Any) -> int:
    """The number of workers that have so many words together."""
    return int(np.clip((words << 4 if device.is_cuda else words) // (of_worker + 1), 8, nrow + 1))


@func
def first_row(nrow: int, worker: int, workers: int) -> int:
    """The first row of a worker's part."""
    return int(int64(nrow) * int64(worker) // int64(workers))


@func
def _lowest(bits: uint32) -> int:
    """The number of the lowest bit that is set."""
    return bit_count(bits ^ (bits - uint32(1))) - 1


@func
def _mark_row(
    offsets: array[int],
    counts: array[int],
    columns: array[int],
    row: int,
    ncol: int,
    marks: array2d[uint32],
    groups: array2d[uint32],
    worker: int,
    least: int,
    most: int,
) -> tuple[int, int]:
    """Set the bits of a row's columns and of their words, and return the least and the greatest column so far."""
    for b in range(row_begin(offsets, row), row_end(offsets, counts, columns, row)):
        column = columns[b]
        if is_inside(column, ncol):
            word = column >> 5
            marks[worker, word] = marks[worker, word] | (uint32(1) << uint32(column & 31))
            groups[worker, word >> 5] = groups[worker, word >> 5] | (uint32(1) << uint32(word & 31))
            least = min(least, column)
            most = max(most, column)
    return least, most


@func
def _count_row(
    offsets: array[int],
    counts: array[int],
    columns: array[int],
    row: int,
    ncol: int,
    seen: array2d[int],
    worker: int,
    mark: int,
    count: int,
) -> int:
    """The count and those columns of a row that are not marked, which are then."""
    for b in range(row_begin(offsets, row), row_end(offsets, counts, columns, row)):
        column = columns[b]
        if is_inside(column, ncol):
            count += where(seen[worker, column] == mark, 0, 1)
            seen[worker, column] = mark
    return count


@kernel(enable_backward=False)
def _count_each(
    nrow: int,
    x_offsets: array[int],
    x_counts: array[int],
    x_columns: array[int],
    y_nrow: int,
    y_ncol: int,
    y_offsets: array[int],
    y_counts: array[int],
    y_columns: array[int],
    old_offsets: array[int],
    old_counts: array[int],
    old_columns: array[int],
    seen: array2d[int],
    counts: array[int],
) -> None:
    worker, _ = tid()
    workers = seen.shape[0]
    for row in range(first_row(nrow, worker, workers), first_row(nrow, worker + 1, workers)):
        mark = row + 1
        count = 0
        for b in range(row_begin(x_offsets, row), row_end(x_offsets, x_counts, x_columns, row)):
            inner = x_columns[b]
            if is_inside(inner, y_nrow):
                count = _count_row(y_offsets, y_counts, y_columns, inner, y_ncol, seen, worker, mark, count)
        if old_offsets:
            count = _count_row(old_offsets, old_counts, old_columns, row, y_ncol, seen, worker, mark, count)
        counts[row] = count


@kernel(enable_backward=False)
def _list_columns(
    nrow: int,
    x_offsets: array[int],
    x_counts: array[int],
    x_columns: array[int],
    y_nrow: int,
    y_ncol: int,
    y_offsets: array[int],
    y_counts: array[int],
    y_columns: array[int],
    old_offsets: array[int],
    old_counts: array[int],
    old_columns: array[int],
    marks: array2d[uint32],
    groups: array2d[uint32],
    offsets: array[int],
    columns: array[int],
    counts: array[int],
    status: array[int],
) -> None:
    worker, _ = tid()
    workers = marks.shape[0]
    for row in range(first_row(nrow, worker, workers), first_row(nrow, worker + 1, workers)):
        least = y_ncol
        most = -1
        for b in range(row_begin(x_offsets, row), row_end(x_offsets, x_counts, x_columns, row)):
            inner = x_columns[b]
            if is_inside(inner, y_nrow):
                least, most = _mark_row(
                    y_offsets, y_counts, y_columns, inner, y_ncol, marks, groups, worker, least, most
                )
        if old_offsets:
            least, most = _mark_row(
                old_offsets, old_counts, old_columns, row, y_ncol, marks, groups, worker, least, most
            )
        first = 0
        room = 0
        if offsets:
            first = row_begin(offsets, row)
            room = row_room(offsets, columns, row)
        count = 0
        for group in range(least >> 10, (most >> 10) + 1):
            words = groups[worker, group]
            groups[worker, group] = uint32(0)
            while words != uint32(0):
                word = (group << 5) + _lowest(words)
                words = words & (words - uint32(1))
                bits = marks[worker, word]
                marks[worker, word] = uint32(0)
                if offsets:
                    while bits != uint32(0) and count < room:
                        columns[first + count] = (word << 5) + _lowest(bits)
                        count += 1
                        bits = bits & (bits - uint32(1))
                count += bit_count(bits)
        if offsets and count > room:
            count = room
            if status:
                status[0] = BSR_STATUS_ROW_CAPACITY_EXCEEDED
        counts[row] = count
