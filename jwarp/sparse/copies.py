"""`bsr_copy`, `bsr_assign`, `bsr_transposed` and `bsr_set_transpose`."""

from __future__ import annotations

from typing import Any

from jwarp.api.launch import launch
from jwarp.arrays.array import array, array3d
from jwarp.arrays.create import clone, empty
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.atomic import atomic_add
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import max
from jwarp.frontend.kernel import kernel
from jwarp.sparse.jax_values import scalar_of
from jwarp.sparse.matrix import BsrMatrix, matrix_and_scale, scalars_of
from jwarp.sparse.rows import bsr_block_index, bsr_row_index
from jwarp.sparse.scaling import bsr_scale
from jwarp.sparse.sorted_rows import copy_sorted, transpose_sorted
from jwarp.sparse.storage import (
    block_type_of,
    bsr_zeros,
    check_devices,
    resize,
    topology_of,
)
from jwarp.sparse.structure import (
    drop_columns_outside,
    fit_into,
    make_compact,
    scatter_entries,
    structure_of,
    sum_entries,
)
from jwarp.types import int32, type_repr, types_equal


def bsr_copy(
    A: Any,
    scalar_type: Any = None,
    block_shape: tuple[int, int] | None = None,
    structure_only: bool = False,
    topology: str = "compact",
) -> BsrMatrix:
    """A copy of a matrix, or of a multiple of one.

    Args:
        A: The matrix.
        scalar_type: The type of its numbers. Default: that of `A`.
        block_shape: The shape of its blocks. Each extent divides that of `A`, or is a multiple of it.
        structure_only: Do not copy values.
        topology: "compact" for rows without spare room, "padded" for rows with the same room.

    Raises:
        LaunchError: Blocks of this shape do not fit.
    """
    src, _ = matrix_and_scale(A)
    topology = topology_of("bsr_copy", topology, "compact padded")
    shape = src.block_shape if block_shape is None else (int(block_shape[0]), int(block_shape[1]))
    scalar = src.scalar_type if scalar_type is None else scalar_type
    nrow, ncol, parts = _split(src, shape)
    is_same = shape == tuple(src.block_shape) and types_equal(scalar, src.scalar_type)
    kind = src.dtype if is_same else block_type_of(shape, scalar)
    if topology == "padded":
        capacity = empty(nrow, dtype=int32, device=src.device)
        launch(_room_of_rows, nrow, [src.offsets, *parts, capacity], device=src.device, record_tape=False)
        most = src.nnz * parts[0] * parts[1]
        made = bsr_zeros(nrow, ncol, kind, src.device, row_capacity=capacity, nnz_capacity=most)
    else:
        made = bsr_zeros(nrow, ncol, kind, src.device)
    made.values.requires_grad = src.requires_grad
    bsr_assign(made, A, structure_only, topology)
    return made


def bsr_assign(dest: BsrMatrix, src: Any, structure_only: bool = False, topology: str | None = None) -> None:
    """Copy a matrix, or a multiple of one, to another one, whose scalar type and block shape may differ.

    Args:
        dest: The matrix to change.
        src: The matrix to copy.
        structure_only: Do not copy values.
        topology: "compact" determines the blocks of `dest` anew; "padded" does so within the room of each row
            (`status_sync` reports rows with too little room); "masked" copies only to existing blocks.

    Raises:
        LaunchError: Sizes or block shapes do not match.
    """
    source, scale = matrix_and_scale(src)
    topology = topology_of("bsr_assign", topology)
    check_devices("bsr_assign", dest.values, source.values)
    nrow, ncol, parts = _split(source, dest.block_shape)
    if topology != "compact" and (nrow, ncol) != (dest.nrow, dest.ncol):
        raise LaunchError(
            f"bsr_assign: Incompatible destination matrix size, expected ({nrow}, {ncol}), "
            f"got ({dest.nrow}, {dest.ncol})"
        )
    if dest is source:
        if not structure_only:
            bsr_scale(dest, scale)
        return
    if topology == "compact" and parts == (1, 1, 1, 1):
        resize(dest, nrow, ncol)
        if copy_sorted(dest, source, scale, structure_only):
            return
        rows, columns = source.uncompress_rows(), clone(source.columns[: source.nnz])
        drop_columns_outside(source.ncol, rows, columns)
        made = make_compact(dest, rows, columns)
        if not structure_only and source.nnz:
            sum_entries(dest, made, source.scalar_values, scale)
        return
    of_block = parts[0] * parts[1]
    count = source.nnz * of_block
    rows, columns = (empty(count, dtype=int32, device=dest.device) for _ in range(2))
    listed = [source.nrow, source.ncol, source.offsets, source.row_counts, source.columns, *parts, rows, columns]
    launch(_list_parts, (source.nnz, of_block), listed, device=dest.device, record_tape=False)
    if topology == "compact":
        resize(dest, nrow, ncol)
        make_compact(dest, rows, columns)
    elif topology == "padded":
        fit_into(dest, structure_of(dest.nrow, rows, columns))
    if structure_only:
        return
    dest.values.zero_()
    given = [scalar_of(source.scalar_type, scale), *parts, source.nrow]
    given += [source.offsets, source.row_counts, source.columns]
    to = [dest.offsets, dest.row_counts, dest.columns, rows, columns, source.scalar_values, dest.scalar_values]
    launch(_copy_parts, (source.nnz, *source.block_shape), [*given, *to], device=dest.device)


def bsr_transposed(A: Any) -> BsrMatrix:
    """A transposed copy of a matrix, or of a multiple of one."""
    src, _ = matrix_and_scale(A)
    shape = src.block_shape[::-1]
    kind = src.dtype if shape == tuple(src.block_shape) else block_type_of(shape, src.scalar_type)
    made = bsr_zeros(src.ncol, src.nrow, kind, src.device)
    made.values.requires_grad = src.requires_grad
    bsr_set_transpose(made, A)
    return made


def bsr_set_transpose(dest: BsrMatrix, src: Any, topology: str | None = None) -> None:
    """Set a matrix to the transpose of another one, or of a multiple of one.

    Args:
        dest: The matrix to change. Its blocks have the transposed shape.
        src: The matrix to transpose.
        topology: As for `bsr_assign`.

    Raises:
        KernelTypeError, LaunchError: The types or shapes of blocks do not match.
    """
    source, scale = matrix_and_scale(src)
    topology = topology_of("bsr_set_transpose", topology)
    check_devices("bsr_set_transpose", dest.values, source.values)
    if not types_equal(dest.scalar_type, source.scalar_type):
        kinds = f"{type_repr(dest.scalar_type)} and {type_repr(source.scalar_type)}"
        raise KernelTypeError(f"bsr_set_transpose: the scalar types differ, {kinds}", also=ValueError)
    shape = tuple(source.block_shape[::-1])
    if tuple(dest.block_shape) != shape:
        raise LaunchError(f"bsr_set_transpose: Destination block shape must be {shape}, got {dest.block_shape}")
    if topology != "compact" and (dest.nrow, dest.ncol) != (source.ncol, source.nrow):
        raise LaunchError(
            f"bsr_set_transpose: the destination must have {source.ncol} rows and {source.nrow} columns, "
            f"not {dest.nrow} and {dest.ncol}"
        )
    nrow, ncol, count = source.ncol, source.nrow, source.nnz
    if topology == "compact" and dest is not source and count:
        resize(dest, nrow, ncol)
        if transpose_sorted(dest, source, scale):
            return
    rows = empty(count, dtype=int32, device=dest.device)
    inside = [source.ncol, source.columns, source.uncompress_rows(), rows]
    columns = inside[2]
    launch(_rows_from_columns, count, inside, device=dest.device, record_tape=False)
    values = source.values if dest is not source else clone(source.values)
    old = scalars_of(values, source.block_shape).transpose((0, 2, 1))
    if topology == "compact":
        resize(dest, nrow, ncol)
        made = make_compact(dest, rows, columns)
        if count:
            sum_entries(dest, made, old, scale)
        return
    made = structure_of(nrow, rows, columns)
    if topology == "padded":
        fit_into(dest, made)
    scatter_entries(dest, rows, columns, old, scale, is_fresh=True, made=made)


def _split(src: BsrMatrix, shape: tuple[int, int]) -> tuple[int, int, tuple[int, int, int, int]]:
    """The size of a matrix in blocks of another shape, and the blocks of that in one of `src`, and the reverse."""
    parts: list[tuple[int, int]] = []
    for old, new, name in zip(src.block_shape, shape, ("rows", "columns"), strict=True):
        if new <= 0 or (old % new and new % old):
            raise LaunchError(
                f"wp.sparse: Incompatible dest and src block shapes; block {name} must evenly divide one another "
                f"(Got {new}, {old})"
            )
        parts.append((old // new, 1) if old >= new else (1, new // old))
    (sub_rows, whole_rows), (sub_columns, whole_columns) = parts
    if (src.nrow * sub_rows) % whole_rows or (src.ncol * sub_columns) % whole_columns:
        raise LaunchError(
            f"wp.sparse: The requested block shape {shape} does not evenly divide the source matrix of total size "
            f"{src.shape}"
        )
    nrow, ncol = src.nrow * sub_rows // whole_rows, src.ncol * sub_columns // whole_columns
    return nrow, ncol, (sub_rows, sub_columns, whole_rows, whole_columns)


@kernel(enable_backward=False)
def _list_parts(
    nrow: int,
    ncol: int,
    offsets: array[int],
    row_counts: array[int],
    columns: array[int],
    sub_rows: int,
    sub_columns: int,
    whole_rows: int,
    whole_columns: int,
    out_rows: array[int],
    out_columns: array[int],
) -> None:
    block, part = tid()
    row = bsr_row_index(offsets, nrow, block, row_counts)
    column = columns[block]
    out = block * sub_rows * sub_columns + part
    if row < 0 or column < 0 or column >= ncol:
        out_rows[out] = -1
        out_columns[out] = 0
    else:
        out_rows[out] = (row * sub_rows + part // sub_columns) // whole_rows
        out_columns[out] = (column * sub_columns + part % sub_columns) // whole_columns


@kernel
def _copy_parts(
    scale: Any,
    sub_rows: int,
    sub_columns: int,
    whole_rows: int,
    whole_columns: int,
    nrow: int,
    offsets: array[int],
    row_counts: array[int],
    columns: array[int],
    dest_offsets: array[int],
    dest_counts: array[int],
    dest_columns: array[int],
    rows: array[int],
    to_columns: array[int],
    values: array3d[Any],
    out: array3d[Any],
) -> None:
    block, i, j = tid()
    rows_of_part = values.shape[1] // sub_rows
    columns_of_part = values.shape[2] // sub_columns
    part = (i // rows_of_part) * sub_columns + j // columns_of_part
    entry = block * sub_rows * sub_columns + part
    to = bsr_block_index(rows[entry], to_columns[entry], dest_offsets, dest_columns, dest_counts)
    if to >= 0:
        row = bsr_row_index(offsets, nrow, block, row_counts)
        r = i % rows_of_part + (row % whole_rows) * values.shape[1]
        c = j % columns_of_part + (columns[block] % whole_columns) * values.shape[2]
        atomic_add(out, to, r, c, out.dtype(scale * values[block, i, j]))


@kernel(enable_backward=False)
def _rows_from_columns(nrow: int, columns: array[int], rows: array[int], out: array[int]) -> None:
    block = tid()
    row = -1
    if rows[block] >= 0 and columns[block] >= 0 and columns[block] < nrow:
        row = columns[block]
    out[block] = row


@kernel(enable_backward=False)
def _room_of_rows(
    offsets: array[int], sub_rows: int, sub_columns: int, whole_rows: int, whole_columns: int, room: array[int]
) -> None:
    row = tid()
    first = row * whole_rows // sub_rows
    last = (row * whole_rows + whole_rows - 1) // sub_rows
    room[row] = max(offsets[last + 1] - offsets[first], 0) * sub_columns
