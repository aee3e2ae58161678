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
from jwarp.caches import cached
from jwarp.errors import LaunchError
from jwarp.frontend.builtins.atomic import atomic_add
from jwarp.frontend.builtins.control import static, tid
from jwarp.frontend.builtins.scalar import min
from jwarp.frontend.func import func
from jwarp.frontend.kernel import Kernel, kernel
from jwarp.sparse.jax_values import scalar_of
from jwarp.sparse.matrix import BSR_STATUS_ROW_CAPACITY_EXCEEDED, BsrMatrix, ensure_fits, list_rows
from jwarp.sparse.rows import bsr_block_index, is_inside, row_begin, row_room
from jwarp.sparse.storage import give_row_counts, launch_inside, rows_of
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
    if columns.size < count:
        raise LaunchError(f"wp.sparse: {columns.size} columns for {count} rows")
    if count >= 2**31 - 1:
        raise LaunchError(f"wp.sparse: {count} entries are more than int32 counts")

    def numbers(size: int) -> array:
        return empty(size, dtype=int32, device=device)

    offsets, found = into or (numbers(nrow + 1), numbers(count))
    ends, order = entries or (numbers(count), numbers(count))
    counts, starts, distinct = zeros(nrow + 1, dtype=int32, device=device), numbers(nrow + 1), numbers(nrow + 1)
    keys, spare_keys, spare = numbers(count), numbers(count), numbers(count)
    launch_inside(_count_entries, count, [nrow, rows, counts], device, record_tape=False)
    array_scan(counts, starts, inclusive=False)
    launch_inside(_put_entries, count, [nrow, rows, columns, clone(starts), keys, order], device, record_tape=False)
    sorting = [nrow, starts, keys, order, spare_keys, spare, distinct]
    launch_inside(_sort_rows, (nrow + 1, 1), sorting, device, record_tape=False)
    array_scan(distinct, offsets if offsets.size == nrow + 1 else offsets[: nrow + 1], inclusive=False)
    launch_inside(_list_blocks, (nrow, 1), [starts, keys, offsets, found, ends], device, record_tape=False)
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


def drop_columns_outside(ncol: int, rows: array, columns: array) -> None:
    """Set the rows of entries of no column of the matrix to -1."""
    launch(_drop_columns_outside, rows.size, [ncol, columns, rows], device=rows.device, record_tape=False)


def sum_entries(dest: BsrMatrix, made: Structure, values: array, scale: Any = 1.0) -> None:
    """Set the blocks of a matrix, which have just been made, to the sums of their entries' values."""
    offsets, _, _ = rows_of(dest)
    if dest.values.size < dest.nnz:
        raise LaunchError(f"wp.sparse: {dest.values.size} values for {dest.nnz} blocks")
    gather_entries(offsets, dest.nrow, made.ends, made.order, values, scale, dest.scalar_values[: dest.nnz])


def gather_entries(
    offsets: array,
    nrow: int,
    ends: array,
    order: array,
    values: array,
    scale: Any,
    out: array,
    is_new: bool = True,
) -> None:
    """Set blocks to sums of entries' values, in the order of the entries.

    Where arrays say what was just found, `is_new`, they lead to no place outside of others.
    """
    if values.shape[0] < order.size or values.shape[1:] != out.shape[1:]:
        raise LaunchError(f"wp.sparse: blocks of shape {values.shape} for {order.size} entries and {out.shape}")
    given = [nrow, offsets, ends, order, values, scalar_of(values.dtype, scale), out]
    is_of_scalars = out.shape[1:] == (1, 1)  # and then blocks are along the last dimension, that of lanes
    shape = (1, 1, out.shape[0]) if is_of_scalars else out.shape
    (launch_inside if is_new else launch)(_summed(is_of_scalars), shape, given, device=out.device)


def scatter_entries(
    dest: BsrMatrix,
    rows: array,
    columns: array,
    values: array | None,
    scale: Any = 1.0,
    is_fresh: bool = False,
    made: Structure | None = None,
) -> None:
    """Add entries to the blocks that a matrix has, which are zero at first if `is_fresh`; others are left out.

    Those of one block are summed first, in their order, so that rounding is the same on any number of cores.
    `made` is the structure of the entries, where it is known.
    """
    if is_fresh:
        dest.values.zero_()
    if values is None or not rows.size:
        return
    made = structure_of(dest.nrow, rows, columns) if made is None else made
    shape, device = (rows.size, *dest.block_shape), dest.device
    sums = zeros(shape, dtype=values.dtype, device=device, requires_grad=values.requires_grad)
    gather_entries(made.offsets, dest.nrow, made.ends, made.order, values, scale, sums)
    of_sums = empty(rows.size, dtype=int32, device=device)
    list_rows(dest.nrow, made.offsets, None, made.columns, of_sums)
    given = [of_sums, made.columns, sums, dest.offsets, dest.row_counts, dest.columns, dest.scalar_values]
    launch(_add_sums, shape, given, device=device)


@kernel(enable_backward=False)
def _drop_columns_outside(ncol: int, columns: array[int], rows: array[int]) -> None:
    entry = tid()
    if not is_inside(columns[entry], ncol):
        rows[entry] = -1


@kernel(enable_backward=False)
def _count_entries(nrow: int, rows: array[int], counts: array[int]) -> None:
    row = rows[tid()]
    if is_inside(row, nrow):
        atomic_add(counts, row, 1)


@kernel(enable_backward=False)
def _put_entries(
    nrow: int, rows: array[int], columns: array[int], following: array[int], keys: array[int], order: array[int]
) -> None:
    entry = tid()
    row = rows[entry]
    if is_inside(row, nrow):
        place = atomic_add(following, row, 1)
        keys[place] = columns[entry]
        order[place] = entry


_RUN = 16  # rows are sorted by insertion up to this length, and merged from there on


@func
def _comes_first(keys: array[int], order: array[int], a: int, b: int) -> bool:
    return keys[a] < keys[b] or (keys[a] == keys[b] and order[a] < order[b])


@func
def _sorted_until(keys: array[int], order: array[int], begin: int, end: int) -> int:
    """Where the entries from `begin` on are no longer sorted."""
    at = begin + 1
    while at < end and _comes_first(keys, order, at - 1, at):
        at += 1
    return min(at, end)


@func
def _merge(
    keys: array[int], order: array[int], low: int, middle: int, high: int, spare_keys: array[int], spare: array[int]
) -> None:
    """Merge two sorted runs of entries."""
    a = low
    b = middle
    for i in range(low, high):
        takes_a = b >= high
        if a < middle and b < high:
            takes_a = _comes_first(keys, order, a, b)
        source = b
        if takes_a:
            source = a
            a += 1
        else:
            b += 1
        spare_keys[i] = keys[source]
        spare[i] = order[source]
    for i in range(low, high):
        keys[i] = spare_keys[i]
        order[i] = spare[i]


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
    row, _ = tid()
    if row == nrow:
        distinct[row] = 0
        return
    begin = starts[row]
    end = starts[row + 1]
    # Rows that came sorted, as those of a matrix, stay, and those that came one after the other are merged.
    middle = _sorted_until(keys, order, begin, end)
    if middle < end and _sorted_until(keys, order, middle, end) == end:
        _merge(keys, order, begin, middle, end, spare_keys, spare)
        middle = end
    first = begin
    if middle >= end:
        first = end
    width = _RUN
    if middle >= end:
        width = end - begin
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
    while width < end - begin:
        low = begin
        while low < end:
            middle = min(low + width, end)
            high = min(middle + width, end)
            _merge(keys, order, low, middle, high, spare_keys, spare)
            low = high
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
    row, _ = tid()
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
    room = row_room(dest_offsets, dest_columns, row)
    count = offsets[row + 1] - offsets[row]
    if count > room:
        status[0] = BSR_STATUS_ROW_CAPACITY_EXCEEDED
        count = room
    for i in range(count):
        dest_columns[begin + i] = columns[offsets[row] + i]
    dest_counts[row] = count


@kernel
def _add_sums(
    rows: array[int],
    columns: array[int],
    values: array3d[Any],
    offsets: array[int],
    row_counts: array[int],
    dest_columns: array[int],
    out: array3d[Any],
) -> None:
    entry, i, j = tid()
    if rows[entry] >= 0:
        block = bsr_block_index(rows[entry], columns[entry], offsets, dest_columns, row_counts)
        if block >= 0:
            atomic_add(out, block, i, j, values[entry, i, j])


@cached(2)
def _summed(is_of_scalars: bool) -> Kernel:
    @kernel
    def sum_entries(
        nrow: int,
        offsets: array[int],
        ends: array[int],
        order: array[int],
        values: array3d[Any],
        scale: Any,
        out: array3d[Any],
    ) -> None:
        block, i, j = tid()
        if static(is_of_scalars):
            i, j, block = tid()
        if block < offsets[nrow]:
            first = 0
            if block > 0:
                first = ends[block - 1]
            total = values[order[first], i, j]
            for k in range(first + 1, ends[block]):
                total += values[order[k], i, j]
            out[block, i, j] = out.dtype(scale * total)

    return sum_entries
