"""`bsr_zeros` and `bsr_set_zero`, the room that matrices have, and what their functions check alike."""

from __future__ import annotations

from typing import Any

from jwarp.api.array_functions import array_scan, number
from jwarp.api.launch import launch
from jwarp.arrays.array import array
from jwarp.arrays.create import copy, empty
from jwarp.config import config
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import max, min
from jwarp.frontend.kernel import kernel
from jwarp.sparse.matrix import BsrMatrix, bsr_matrix_t, scalars_of
from jwarp.types import int32, matrix, type_repr, types_equal


def bsr_zeros(
    rows_of_blocks: int,
    cols_of_blocks: int,
    block_type: Any,
    device: Any = None,
    *,
    topology: str | None = None,
    row_capacity: int | array | None = None,
    nnz_capacity: int | None = None,
) -> BsrMatrix:
    """A new matrix without blocks.

    Args:
        rows_of_blocks, cols_of_blocks: Its size in blocks.
        block_type: The type of a block: a scalar type or a matrix type.
        device: The device of its arrays.
        topology: "compact" for contiguous rows, "padded" for rows with spare room. Default: "padded" if `row_capacity`
            is given.
        row_capacity: The number of blocks that a row has room for: a number, or an array of int32 with one for each
            row.
        nnz_capacity: The number of blocks that the matrix has room for, at least what the rows need. Without it, the
            sum of an array `row_capacity` is read.

    Raises:
        KernelTypeError, LaunchError: Blocks are neither scalars nor matrices, or a number or array does not match.
    """
    policy = topology_of("bsr_zeros", topology or ("compact" if row_capacity is None else "padded"), "compact padded")
    made = bsr_matrix_t(block_type)()
    made.nrow, made.ncol, made.nnz = _size(rows_of_blocks), _size(cols_of_blocks), 0
    made.row_counts = None
    made.offsets = empty(made.nrow + 1, dtype=int32, device=device)
    made.columns = empty(0, dtype=int32, device=device)
    made.values = empty(0, dtype=type(made).block_type, device=device)  # type: ignore[attr-defined]
    _empty_rows(made, policy, row_capacity, nnz_capacity, keeps_room=False)
    return made


def bsr_set_zero(
    bsr: BsrMatrix,
    rows_of_blocks: int | None = None,
    cols_of_blocks: int | None = None,
    *,
    topology: str = "compact",
    row_capacity: int | array | None = None,
    nnz_capacity: int | None = None,
) -> None:
    """Set a matrix to zero.

    Args:
        bsr: The matrix.
        rows_of_blocks, cols_of_blocks: Its new size; the one that it has where they are left out.
        topology: "compact" forgets blocks and room, "padded" forgets the blocks of all rows, whose room stays, and
            "masked" keeps the blocks, which become zero.
        row_capacity: With "padded": as for `bsr_zeros`; the room that there is where it is left out.
        nnz_capacity: As for `bsr_zeros`.

    Raises:
        KernelTypeError, LaunchError: a number or array does not fit.
    """
    topology = topology_of("bsr_set_zero", topology)
    if row_capacity is not None and topology != "padded":
        raise LaunchError("bsr_set_zero: row_capacity requires topology='padded'")
    if topology == "masked":
        if rows_of_blocks is not None or cols_of_blocks is not None:
            raise LaunchError("bsr_set_zero: Cannot resize a matrix with topology='masked'")
        bsr.values.zero_()
        return
    keeps_room = topology == "padded" and row_capacity is None
    old_rows, old_offsets = bsr.nrow, bsr.offsets
    resize(bsr, rows_of_blocks, cols_of_blocks)
    if keeps_room and bsr.nrow > old_rows:
        if bsr.offsets is not old_offsets:
            copy(bsr.offsets, old_offsets, count=old_rows + 1)
        launch(_add_empty_rows, bsr.nrow - old_rows, [old_rows, bsr.offsets], device=bsr.device, record_tape=False)
    _empty_rows(bsr, topology, row_capacity, nnz_capacity, keeps_room)


def _empty_rows(bsr: BsrMatrix, topology: str, capacity: Any, nnz_capacity: int | None, keeps_room: bool) -> None:
    where = "wp.sparse"
    if nnz_capacity is not None and number(where, "nnz_capacity", nnz_capacity) < 0:
        raise LaunchError(f"{where}: nnz_capacity must be nonnegative, not {nnz_capacity}")
    if capacity is not None and topology != "padded":
        raise LaunchError(f"{where}: row_capacity requires topology='padded'")
    nnz: int | None = 0
    if topology == "compact":
        bsr.offsets.zero_()
        bsr.row_counts = None
    else:
        if isinstance(capacity, array):
            if capacity.shape != (bsr.nrow,):
                raise LaunchError(f"{where}: row_capacity must have shape ({bsr.nrow},), got {capacity.shape}")
            if capacity.dtype is not int32:
                raise KernelTypeError(f"{where}: row_capacity must be of int32, not {type_repr(capacity.dtype)}")
            bsr.offsets[:1].zero_()
            array_scan(capacity, bsr.offsets[1 : bsr.nrow + 1], inclusive=True)
            nnz = None
        elif capacity is not None:
            if number(where, "row_capacity", capacity) < 0:
                raise LaunchError(f"{where}: row_capacity must be nonnegative, not {capacity}")
            nnz = bsr.nrow * int(capacity)
            if nnz >= 2**31:
                raise LaunchError(f"{where}: {bsr.nrow} rows of {capacity} blocks are more than int32 counts")
            launch(_spread, bsr.nrow + 1, [int(capacity), bsr.offsets], device=bsr.device, record_tape=False)
        elif keeps_room:
            nnz = bsr.nnz
        else:
            bsr.offsets.zero_()
        give_row_counts(bsr).zero_()
        bsr.status()
    bsr.notify_nnz_changed(nnz, nnz_capacity)


def resize(bsr: BsrMatrix, rows_of_blocks: int | None = None, cols_of_blocks: int | None = None) -> None:
    """Give a matrix another size. Offsets are longer where needed, and hold anything then."""
    if rows_of_blocks is not None:
        bsr.nrow = _size(rows_of_blocks)
    if cols_of_blocks is not None:
        bsr.ncol = _size(cols_of_blocks)
    if bsr.offsets.size < bsr.nrow + 1:
        bsr.offsets = empty(bsr.nrow + 1, dtype=int32, device=bsr.device)


def give_row_counts(bsr: BsrMatrix) -> array:
    """The numbers of blocks of rows, as an array: one is made for a matrix that has no room to spare."""
    if bsr.row_counts is None or bsr.row_counts.size < bsr.nrow:
        counts = empty(bsr.nrow, dtype=int32, device=bsr.device)
        launch(_count_rows, bsr.nrow, [bsr.offsets, bsr.row_counts, counts], device=bsr.device, record_tape=False)
        bsr.row_counts = counts
    return bsr.row_counts


def topology_of(where: str, topology: str | None, known: str = "compact masked padded") -> str:
    """The policy that a caller chose, "compact" for None."""
    if topology is not None and topology not in known.split():
        raise LaunchError(f"{where}: Unsupported topology policy: {topology}", hint=f"one of {known}")
    return topology or "compact"


def block_type_of(shape: tuple[int, int], scalar: Any) -> Any:
    """The type of blocks of a shape: a scalar type for (1, 1)."""
    return scalar if tuple(shape) == (1, 1) else matrix(shape=tuple(shape), dtype=scalar)


def rows_of(bsr: BsrMatrix) -> list[array | None]:
    """The arrays that say where the blocks of rows are, with an element for each row.

    Raises:
        LaunchError: an array that a caller set has too few.
    """
    for name, each, size in (("offsets", bsr.offsets, bsr.nrow + 1), ("row_counts", bsr.row_counts, bsr.nrow)):
        if each is not None and (each.ndim != 1 or each.size < size):
            raise LaunchError(f"wp.sparse: {name} of a matrix of {bsr.nrow} rows have {each.size} elements, not {size}")
    return [bsr.offsets, bsr.row_counts, bsr.columns]


def launch_inside(kernel: Any, dim: Any, inputs: list[Any], device: Any, record_tape: bool = True) -> None:
    """Launch a kernel that never leaves its arrays, whatever is in them, without tests of that by the compiler."""
    with config(bounds="unchecked"):
        launch(kernel, dim, inputs, device=device, record_tape=record_tape)


def check_devices(where: str, *arrays: array) -> None:
    """A LaunchError for arrays on several devices."""
    if len({str(each.device) for each in arrays}) > 1:
        raise LaunchError(f"{where}: all arguments must reside on the same device")


def blocks_of(where: str, values: Any, bsr: BsrMatrix) -> array:
    """Blocks that a caller gave for a matrix, as numbers of three dimensions."""
    if not isinstance(values, array):
        raise KernelTypeError(f"{where}: values must be a wp.array, not {type(values).__name__}")
    if not values.is_contiguous:
        raise LaunchError(f"{where}: Values array must be contiguous")
    if values.ndim == 1:
        if not types_equal(values.dtype, bsr.dtype):
            kinds = f"{type_repr(values.dtype)} and {type_repr(bsr.dtype)}"
            raise KernelTypeError(f"{where}: values must be of the matrix's block type, got {kinds}", also=ValueError)
    elif values.ndim != 3:
        raise LaunchError(f"{where}: values must have 1 or 3 dimensions, got {values.ndim}")
    elif tuple(values.shape[1:]) != tuple(bsr.block_shape):
        raise LaunchError(f"{where}: blocks of values, {values.shape[1:]}, differ from those of {bsr.block_shape}")
    elif not types_equal(values.dtype, bsr.scalar_type):
        kinds = f"{type_repr(values.dtype)} and {type_repr(bsr.scalar_type)}"
        raise KernelTypeError(f"{where}: values must be of the matrix's scalar type, got {kinds}", also=ValueError)
    return scalars_of(values, bsr.block_shape)


def _size(given: Any) -> int:
    size = number("wp.sparse", "the number of rows or columns", given)
    if not 0 <= size < 2**31 - 1:
        raise LaunchError(f"wp.sparse: a matrix cannot have {size} rows or columns of blocks")
    return size


@kernel(enable_backward=False)
def _spread(capacity: int, offsets: array[int]) -> None:
    row = tid()
    offsets[row] = row * capacity


@kernel(enable_backward=False)
def _add_empty_rows(old_rows: int, offsets: array[int]) -> None:
    i = tid()
    offsets[old_rows + 1 + i] = offsets[old_rows]


@kernel(enable_backward=False)
def _count_rows(offsets: array[int], old: array[int], counts: array[int]) -> None:
    row = tid()
    count = max(offsets[row + 1] - offsets[row], 0)
    if old:
        count = 0
        if row < old.shape[0]:
            count = min(max(old[row], 0), max(offsets[row + 1] - offsets[row], 0))
    counts[row] = count
