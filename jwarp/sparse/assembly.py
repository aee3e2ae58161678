"""`bsr_from_triplets`, `bsr_set_from_triplets` and `bsr_compress`: matrices of entries, which are summed."""

from __future__ import annotations

from typing import Any

from jwarp.api.launch import launch
from jwarp.arrays.array import array, array3d
from jwarp.arrays.create import clone, empty
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.kernel import kernel
from jwarp.sparse.jax_values import takes_jax_arrays
from jwarp.sparse.mapping import BsrTripletMap
from jwarp.sparse.matrix import BsrMatrix, scalars_of
from jwarp.sparse.storage import block_type_of, blocks_of, bsr_set_zero, bsr_zeros, check_devices, topology_of
from jwarp.sparse.structure import fit_into, make_compact, scatter_entries, structure_of, sum_entries
from jwarp.types import int32, type_repr


@takes_jax_arrays
def bsr_from_triplets(
    rows_of_blocks: int,
    cols_of_blocks: int,
    rows: array,
    columns: array,
    values: array,
    prune_numerical_zeros: bool = True,
) -> BsrMatrix:
    """Assemble a matrix from entries, each with a row, a column and a block. Entries at the same position are summed.

    Args:
        rows_of_blocks, cols_of_blocks: The size of the matrix in blocks.
        rows, columns: The positions of the entries, arrays of int32. Entries outside the matrix are left out.
        values: The blocks: a one-dimensional array of blocks, or a three-dimensional array of numbers.
        prune_numerical_zeros: Leave out entries that are zero.

    Returns:
        A matrix whose `nnz` is the number of entries. `nnz_sync` counts its blocks.

    Raises:
        KernelTypeError, LaunchError: The arrays do not match.

    Example:
        >>> A = wp.sparse.bsr_from_triplets(n, n, rows, columns, values)
        >>> y = A @ x
    """
    if not isinstance(values, array):
        raise KernelTypeError(f"bsr_from_triplets: values must be a wp.array, not {type(values).__name__}")
    kind = block_type_of(values.shape[1:], values.dtype) if values.ndim == 3 else values.dtype
    made = bsr_zeros(rows_of_blocks, cols_of_blocks, kind, device=values.device)
    made.values.requires_grad = values.requires_grad
    bsr_set_from_triplets(made, rows, columns, values, prune_numerical_zeros=prune_numerical_zeros)
    return made


@takes_jax_arrays
def bsr_set_from_triplets(
    dest: BsrMatrix,
    rows: array,
    columns: array,
    values: array | None = None,
    count: array | None = None,
    prune_numerical_zeros: bool = True,
    topology: str | None = None,
    build_mapping: BsrTripletMap | bool | None = None,
) -> BsrTripletMap | None:
    """Set a matrix to the sum of entries, in place of its earlier content.

    Args:
        dest: The matrix.
        rows, columns, prune_numerical_zeros: As for `bsr_from_triplets`.
        values: The blocks of the entries. Without them, only the positions of blocks are determined, and values are
            arbitrary.
        count: The number of entries, an array of one int32. Default: all.
        topology: "compact" determines the blocks anew; "padded" does so within the room of each row (`status_sync`
            reports rows with too little room); "masked" sums into the existing blocks and leaves out other entries.
        build_mapping: True for a new `BsrTripletMap`, or a map to be rebuilt, for `bsr_set_from_mapped_values`.

    Returns:
        The map, if one was asked for.

    Raises:
        KernelTypeError, LaunchError: The arrays do not match, or a map is asked for with other policies.
    """
    where = "bsr_set_from_triplets"
    topology = topology_of(where, topology)
    if not (build_mapping is None or isinstance(build_mapping, bool | BsrTripletMap)):
        raise KernelTypeError(f"{where}: build_mapping must be a bool or a BsrTripletMap, not {build_mapping!r}")
    mapping = BsrTripletMap(device=dest.device) if build_mapping is True else build_mapping or None
    if mapping is not None and topology != "compact":
        raise LaunchError(f'{where}: build_mapping requires topology="compact"')
    if mapping is not None and prune_numerical_zeros:
        raise LaunchError(f"{where}: build_mapping requires prune_numerical_zeros=False")
    _check_entries(where, rows, columns, count)
    given = None if values is None else blocks_of(where, values, dest)
    if values is not None and values.shape[0] != rows.shape[0]:
        raise LaunchError(f"{where}: {values.shape[0]} values for {rows.shape[0]} rows")
    check_devices(where, dest.offsets, rows, columns, *(each for each in (values, count) if each is not None))
    if mapping is not None:
        check_devices(where, rows, mapping._storage[0])
    if rows.size == 0:
        bsr_set_zero(dest, topology=topology)
    kept = empty(rows.size, dtype=int32, device=dest.device)
    given_entries = [dest.nrow, dest.ncol, rows, columns, count, kept]
    launch(_choose_entries, rows.size, given_entries, device=dest.device, record_tape=False)
    if prune_numerical_zeros and given is not None and given.memory.is_known:
        launch(_leave_out_zeros, rows.size, [given, kept], device=dest.device, record_tape=False)
    if topology == "masked":
        scatter_entries(dest, kept, columns, given, is_fresh=True)
    elif topology == "padded":
        made = structure_of(dest.nrow, kept, columns)
        fit_into(dest, made)
        if given is not None:
            scatter_entries(dest, kept, columns, given, is_fresh=True, made=made)
    else:
        entries = None if mapping is None else mapping._room_for(rows.size)
        made = make_compact(dest, kept, columns, entries)
        if given is not None and rows.size:
            sum_entries(dest, made, given)
        if mapping is not None:
            mapping._bind(dest, rows.size)
    return mapping


def bsr_compress(
    src: BsrMatrix,
    prune_numerical_zeros: bool = True,
    inplace: bool = False,
    topology: str | None = None,
    structure_only: bool = False,
) -> BsrMatrix:
    """Sort the columns of each row, sum blocks at the same position, and remove those outside the matrix.

    Args:
        src: The matrix, which is changed. Its columns may have any order.
        prune_numerical_zeros: Remove blocks that are zero.
        inplace: Has no effect.
        topology: "compact" leaves rows no spare room; "padded" keeps their room.
        structure_only: Determine the blocks, and leave the values as they are.

    Returns:
        The matrix.

    Raises:
        KernelTypeError: `src` is not a matrix.
    """
    if not isinstance(src, BsrMatrix):
        raise KernelTypeError(f"bsr_compress() requires a concrete BsrMatrix, not {src!r}", also=ValueError)
    topology = topology_of("bsr_compress", topology, "compact padded")
    count = src.nnz
    rows, columns = src.uncompress_rows(), clone(src.columns[:count], requires_grad=False)
    old = None if structure_only else scalars_of(clone(src.values[:count]), src.block_shape)
    kept = empty(count, dtype=int32, device=src.device)
    listed = [src.nrow, src.ncol, rows, columns, None, kept]
    launch(_choose_entries, count, listed, device=src.device, record_tape=False)
    if prune_numerical_zeros and old is not None and old.memory.is_known:
        launch(_leave_out_zeros, count, [old, kept], device=src.device, record_tape=False)
    if topology == "compact":
        made = make_compact(src, kept, columns)
        if old is not None and count:
            sum_entries(src, made, old)
    else:
        made = structure_of(src.nrow, kept, columns)
        fit_into(src, made)
        if old is not None:
            scatter_entries(src, kept, columns, old, is_fresh=True, made=made)
    return src


def _check_entries(where: str, rows: Any, columns: Any, count: Any) -> None:
    for name, each in (("rows", rows), ("columns", columns), ("count", count)):
        if each is None and name == "count":
            continue
        if not isinstance(each, array) or each.ndim != 1:
            raise KernelTypeError(f"{where}: {name} must be an array of int32 of one dimension, not {each!r}")
    if rows.dtype is not int32 or columns.dtype is not int32:
        raise KernelTypeError(f"{where}: Rows and columns arrays must be of type int32")
    if rows.shape != columns.shape:
        raise LaunchError(f"{where}: rows and columns must have the same length, got {rows.size} and {columns.size}")
    if count is not None and count.dtype is not int32:
        raise KernelTypeError(f"{where}: count must be of int32, not {type_repr(count.dtype)}")
    if count is not None and count.shape != (1,):
        raise LaunchError(f"{where}: count must have one element, not {count.shape}")


@kernel(enable_backward=False)
def _choose_entries(
    nrow: int, ncol: int, rows: array[int], columns: array[int], count: array[int], kept: array[int]
) -> None:
    """Write the rows of entries that are inside of the matrix, and -1 for others."""
    entry = tid()
    row = rows[entry]
    column = columns[entry]
    if row < 0 or row >= nrow or column < 0 or column >= ncol:
        row = -1
    if count and entry >= count[0]:
        row = -1
    kept[entry] = row


@kernel(enable_backward=False)
def _leave_out_zeros(values: array3d[Any], kept: array[int]) -> None:
    entry = tid()
    is_zero = True
    for i in range(values.shape[1]):
        for j in range(values.shape[2]):
            if values[entry, i, j] != values.dtype(0.0):
                is_zero = False
    if is_zero:
        kept[entry] = -1
