"""From entries, each with a row and a column, to the rows of a matrix: which blocks there are, and of which entries.

Entries of a row are found by a count and a scan; each row is sorted by columns, then by the entries' numbers, so that
what comes out is the same on any number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jwarp.api.array_functions import array_scan
from jwarp.api.launch import launch
from jwarp.arrays.array import array, array3d
from jwarp.arrays.create import clone, empty, zeros
from jwarp.errors import LaunchError
from jwarp.frontend.builtins.atomic import atomic_add
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import min
from jwarp.frontend.kernel import kernel
from jwarp.sparse.matrix import BSR_STATUS_ROW_CAPACITY_EXCEEDED, BsrMatrix, ensure_fits
from jwarp.sparse.rows import row_begin
from jwarp.sparse.storage import give_row_counts
from jwarp.types import int32


@dataclass(frozen=True)
class Structure:
    """The blocks that entries make.

    Attributes:
        offsets: Where each row begins among the blocks.
        columns: The column of each block.
        ends: Where the entries of each block end in `order`.
        order: The entries, those of a block next to each other, in their order.
    """

    offsets: array
    columns: array
    ends: array
    order: array


def structure_of(
    nrow: int,
    rows: array,
    columns: array,
    into: tuple[array, array] | None = None,
    entries: tuple[array, array] | None = None,
) -> Structure:
    """The blocks of entries.

    Args:
        nrow: The number of rows.
        rows: The row of each entry; -1 for none, which is left out.
        columns: The column of each, not negative where there is a row.
        into: Arrays for the offsets and columns, which may be read by what made `rows` and `columns`.
        entries: Arrays for the ends and the order.
    """
    count, device = rows.size, rows.device
    if count >= 2**31 - 1:
        raise LaunchError(f"wp.sparse: {count} entries are more than int32 counts")

    def numbers(size: int) -> array:
        return empty(size, dtype=int32, device=device)

    offsets, found = into or (numbers(nrow + 1), numbers(count))
    ends, order = entries or (numbers(count), numbers(count))
    counts, starts, distinct = zeros(nrow + 1, dtype=int32, device=device), numbers(nrow + 1), numbers(nrow + 1)
    keys, spare_keys, spare = numbers(count), numbers(count), numbers(count)
    launch(_count_entries, count, [rows, counts], device=device, record_tape=False)
    array_scan(counts, starts, inclusive=False)
    launch(_put_entries, count, [rows, columns, clone(starts), keys, order], device=device, record_tape=False)
    sorting = [nrow, starts, keys, order, spare_keys, spare, distinct]
    launch(_sort_rows, nrow + 1, sorting, device=device, record_tape=False)
    array_scan(distinct, offsets if offsets.size == nrow + 1 else offsets[: nrow + 1], inclusive=False)
    launch(_list_blocks, nrow, [starts, keys, offsets, found, ends], device=device, record_tape=False)
    return Structure(offsets, found, ends, order)


def make_compact(dest: BsrMatrix, rows: array, columns: array, entries: tuple[array, array] | None = None) -> Structure:
    """Give a matrix the blocks of entries, and rows without room to spare. Its values hold anything then."""
    ensure_fits(dest, rows.size)
    made = structure_of(dest.nrow, rows, columns, (dest.offsets, dest.columns), entries)
    dest.row_counts = None
    return made


def fit_into(dest: BsrMatrix, made: Structure) -> None:
    """Give a matrix blocks within the room that its rows have. Where it is too small, the status says so."""
    given = [made.offsets, made.columns, dest.offsets, give_row_counts(dest), dest.columns, dest.status()]
    launch(_fit_rows, dest.nrow, given, device=dest.device, record_tape=False)


def sum_entries(dest: BsrMatrix, made: Structure, values: array, scale: Any = 1.0) -> None:
    """Set the blocks of a matrix, which have just been made, to the sums of their entries' values."""
    gather_entries(dest, dest.nnz, made.ends, made.order, values, scale)


def gather_entries(dest: BsrMatrix, count: int, ends: array, order: array, values: array, scale: Any = 1.0) -> None:
    """Set the first `count` blocks of a matrix to sums of entries' values."""
    given = [dest.nrow, dest.offsets, ends, order, values, dest.scalar_type(scale)]
    launch(_sum_entries, (count, *dest.block_shape), [*given, dest.scalar_values], device=dest.device)


@kernel(enable_backward=False)
def _count_entries(rows: array[int], counts: array[int]) -> None:
    row = rows[tid()]
    if row >= 0:
        atomic_add(counts, row, 1)


@kernel(enable_backward=False)
def _put_entries(
    rows: array[int], columns: array[int], following: array[int], keys: array[int], order: array[int]
) -> None:
    entry = tid()
    row = rows[entry]
    if row >= 0:
        place = atomic_add(following, row, 1)
        keys[place] = columns[entry]
        order[place] = entry


_RUN = 16  # rows are sorted by insertion up to this length, and merged from there on


@kernel(enable_backward=False)
def _sort_rows(
    nrow: int,
    starts: array[int],
    keys: array[int],
    order: array[int],
    spare_keys: array[int],
    spare: array[int],
    distinct: array[int],
) -> None:
    """Sort the entries of each row by columns, then by their numbers, and count the columns."""
    row = tid()
    if row == nrow:
        distinct[row] = 0
        return
    begin = starts[row]
    end = starts[row + 1]
    first = begin
    while first < end:
        last = min(first + _RUN, end)
        for i in range(first + 1, last):
            key = keys[i]
            entry = order[i]
            j = i - 1
            while j >= first and (keys[j] > key or (keys[j] == key and order[j] > entry)):
                keys[j + 1] = keys[j]
                order[j + 1] = order[j]
                j -= 1
            keys[j + 1] = key
            order[j + 1] = entry
        first = last
    width = _RUN
    while width < end - begin:
        low = begin
        while low < end:
            middle = min(low + width, end)
            high = min(middle + width, end)
            a = low
            b = middle
            for i in range(low, high):
                takes_a = b >= high
                if a < middle and b < high:
                    takes_a = keys[a] < keys[b] or (keys[a] == keys[b] and order[a] < order[b])
                source = b
                if takes_a:
                    source = a
                    a += 1
                else:
                    b += 1
                spare_keys[i] = keys[source]
                spare[i] = order[source]
            low = high
        for i in range(begin, end):
            keys[i] = spare_keys[i]
            order[i] = spare[i]
        width *= 2
    count = 0
    for i in range(begin, end):
        if i == begin or keys[i] != keys[i - 1]:
            count += 1
    distinct[row] = count


@kernel(enable_backward=False)
def _list_blocks(
    starts: array[int], keys: array[int], offsets: array[int], columns: array[int], ends: array[int]
) -> None:
    row = tid()
    block = offsets[row] - 1
    last = -1
    for i in range(starts[row], starts[row + 1]):
        column = keys[i]
        if column != last:
            block += 1
            columns[block] = column
            last = column
        ends[block] = i + 1


@kernel(enable_backward=False)
def _fit_rows(
    offsets: array[int],
    columns: array[int],
    dest_offsets: array[int],
    dest_counts: array[int],
    dest_columns: array[int],
    status: array[int],
) -> None:
    row = tid()
    begin = row_begin(dest_offsets, row)
    room = min(dest_offsets[row + 1], dest_columns.shape[0]) - begin
    count = offsets[row + 1] - offsets[row]
    if count > room:
        status[0] = BSR_STATUS_ROW_CAPACITY_EXCEEDED
        count = room
    for i in range(count):
        dest_columns[begin + i] = columns[offsets[row] + i]
    dest_counts[row] = count


@kernel
def _sum_entries(
    nrow: int,
    offsets: array[int],
    ends: array[int],
    order: array[int],
    values: array3d[Any],
    scale: Any,
    out: array3d[Any],
) -> None:
    block, i, j = tid()
    if block < offsets[nrow]:
        first = 0
        if block > 0:
            first = ends[block - 1]
        total = values[order[first], i, j]
        for k in range(first + 1, ends[block]):
            total += values[order[k], i, j]
        out[block, i, j] = scale * total
