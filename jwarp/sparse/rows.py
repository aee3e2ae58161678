"""Where rows begin and end, and which block is where: functions of kernels."""

from __future__ import annotations

from jwarp.arrays.array import array
from jwarp.frontend.builtins.scalar import max, min
from jwarp.frontend.func import func
from jwarp.types import uint32


@func
def is_inside(column: int, ncol: int) -> bool:
    """True for one of `ncol` columns. Blocks of no column, such as -1, count as none."""
    return uint32(column) < uint32(ncol)


@func
def row_begin(offsets: array[int], row: int) -> int:
    """The first block of a row; 0 for offsets that are none."""
    return max(offsets[row], 0)


@func
def row_room(offsets: array[int], columns: array[int], row: int) -> int:
    """For how many blocks a row has room inside of the array; 0 for offsets that are none."""
    begin = row_begin(offsets, row)
    end = max(min(offsets[row + 1], columns.shape[0]), begin)  # so that no difference is too large for an int
    return end - begin


@func
def row_end(offsets: array[int], row_counts: array[int], columns: array[int], row: int) -> int:
    """Where the blocks of a row end: inside of the array, whatever offsets and counts say, and before the next row."""
    end = min(offsets[row + 1], columns.shape[0])
    if row_counts:
        end = row_begin(offsets, row) + min(row_counts[row], row_room(offsets, columns, row))
    return end


@func
def bsr_row_index(offsets: array[int], row_count: int, block_index: int) -> int:
    """The row of a block, or -1 if it is in none.

    Args:
        offsets: Those of a matrix.
        row_count: Its number of rows.
        block_index: The block.
    """
    low = 0
    high = row_count
    if block_index < 0 or block_index >= offsets[row_count]:
        high = -1
    while low + 1 < high:
        middle = (low + high) // 2
        if offsets[middle] <= block_index:
            low = middle
        else:
            high = middle
    row = low
    if high <= 0:
        row = -1
    return row


@func
def bsr_row_index(offsets: array[int], row_count: int, block_index: int, row_counts: array[int]) -> int:  # noqa: F811
    """The row of a block, or -1 if it is in none, or in the room that a row has to spare.

    Args:
        offsets, row_count, block_index: As without `row_counts`.
        row_counts: How many blocks rows have, or None where they have no room to spare.
    """
    row = bsr_row_index(offsets, row_count, block_index)
    if row_counts and row >= 0:  # noqa: SIM102 - there may be no row_counts
        if block_index - row_begin(offsets, row) >= row_counts[row]:
            row = -1
    return row


@func
def find_column(columns: array[int], begin: int, end: int, column: int) -> int:
    """A block of a column between two blocks, or -1. It is found at once where columns rise, else by a look at each."""
    low = begin
    high = end
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    found = -1
    if low < end and columns[low] == column:
        found = low
    else:
        for block in range(begin, end):
            if found < 0 and columns[block] == column:
                found = block
    return found


@func
def bsr_block_index(row: int, col: int, bsr_offsets: array[int], bsr_columns: array[int]) -> int:
    """The index of the block in a row and a column, or -1 if there is none; fastest where columns rise.

    Args:
        row, col: Where it is.
        bsr_offsets, bsr_columns: Those of a matrix.
    """
    found = -1
    if row >= 0:
        found = find_column(bsr_columns, max(bsr_offsets[row], 0), min(bsr_offsets[row + 1], bsr_columns.shape[0]), col)
    return found


@func
def bsr_block_index(  # noqa: F811
    row: int, col: int, bsr_offsets: array[int], bsr_columns: array[int], bsr_row_counts: array[int]
) -> int:
    """The index of the block in a row and a column, or -1 if there is none, of a matrix with room to spare.

    Args:
        row, col, bsr_offsets, bsr_columns: As without `bsr_row_counts`.
        bsr_row_counts: How many blocks rows have, or None where they have no room to spare.
    """
    found = -1
    if row >= 0:
        end = row_end(bsr_offsets, bsr_row_counts, bsr_columns, row)
        found = find_column(bsr_columns, row_begin(bsr_offsets, row), end, col)
    return found
