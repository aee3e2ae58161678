"""Block diagonals: `bsr_diag`, `bsr_get_diag`, `bsr_set_diag`, and identities."""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.api.launch import launch
from jwarp.arrays.array import array, array3d
from jwarp.arrays.create import copy, zeros
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import min
from jwarp.frontend.kernel import kernel
from jwarp.sparse.jax_values import scalar_of, takes_jax_arrays
from jwarp.sparse.matrix import BsrMatrix, ensure_fits, matrix_and_scale, scalars_of
from jwarp.sparse.rows import row_begin, row_end
from jwarp.sparse.storage import bsr_zeros, check_devices, resize
from jwarp.types import CompositeType, matrix, type_repr, types_equal


@takes_jax_arrays
def bsr_get_diag(A: Any, out: array | None = None) -> array:
    """The diagonal blocks of a matrix, or of a multiple of one; zero where there is no block.

    Args:
        A: The matrix.
        out: An array of blocks that receives them. Default: a new one.

    Raises:
        KernelTypeError, LaunchError: `out` has another type, or is too small.
    """
    src, scale = matrix_and_scale(A)
    count = src.nrow if src.nrow < src.ncol else src.ncol
    if out is None:
        out = zeros(count, dtype=src.dtype, device=src.device, requires_grad=src.requires_grad)
    else:
        if not isinstance(out, array) or not types_equal(out.dtype, src.dtype) or out.ndim != 1:
            raise KernelTypeError(f"bsr_get_diag: out must be of {type_repr(src.dtype)}, not {out!r}", also=ValueError)
        check_devices("bsr_get_diag", src.values, out)
        if out.shape[0] < count:
            raise LaunchError(f"bsr_get_diag: out must be of length at least {count}, got {out.shape[0]}")
        out.zero_()
    given = [scalar_of(src.scalar_type, scale), src.offsets, src.row_counts, src.columns, src.scalar_values]
    launch(_diagonal, (count, *src.block_shape), [*given, scalars_of(out, src.block_shape)], device=src.device)
    return out


@takes_jax_arrays
def bsr_set_diag(A: BsrMatrix, diag: Any, rows_of_blocks: int | None = None, cols_of_blocks: int | None = None) -> None:
    """Set a matrix to a block-diagonal matrix.

    Args:
        A: The matrix.
        diag: The blocks: an array, one block that is repeated, or None for arbitrary values.
        rows_of_blocks, cols_of_blocks: The size; one of them suffices. Default: the size of an array `diag`, or the
            present size.

    Raises:
        KernelTypeError, LaunchError: `diag` has another type, or too few blocks.
    """
    nrow, ncol = _size(diag, rows_of_blocks, cols_of_blocks)
    count = min_of(A.nrow if nrow is None else nrow, A.ncol if ncol is None else ncol)
    if isinstance(diag, array):
        if not types_equal(diag.dtype, A.dtype) or diag.ndim != 1:
            raise KernelTypeError(f"bsr_set_diag: diag must be of {type_repr(A.dtype)}, not {diag!r}", also=ValueError)
        if diag.size < count:
            raise LaunchError(f"bsr_set_diag: diag has {diag.size} blocks, {count} are needed")
        check_devices("bsr_set_diag", A.values, diag)
    resize(A, nrow, ncol)
    ensure_fits(A, count)
    launch(_set_diagonal, A.nrow + 1, [count, A.offsets, A.columns], device=A.device, record_tape=False)
    A.row_counts = None
    if isinstance(diag, array):
        if count:
            copy(A.values, diag, count=count)
    elif diag is not None:
        A.values.fill_(diag)


@takes_jax_arrays
def bsr_diag(
    diag: Any = None,
    rows_of_blocks: int | None = None,
    cols_of_blocks: int | None = None,
    block_type: Any = None,
    device: Any = None,
) -> BsrMatrix:
    """A new block-diagonal matrix.

    Args:
        diag, rows_of_blocks, cols_of_blocks: As for `bsr_set_diag`.
        block_type: The type of the blocks, if `diag` is None.
        device: The device of its arrays, if `diag` is not an array.

    Raises:
        KernelTypeError, LaunchError: Size or type is missing, or blocks are neither scalars nor matrices.
    """
    nrow, ncol = _size(diag, rows_of_blocks, cols_of_blocks)
    if nrow is None or ncol is None:
        raise LaunchError("bsr_diag: rows_of_blocks or cols_of_blocks must be given unless diag is an array")
    if isinstance(diag, array):
        block_type, device = diag.dtype, diag.device
    elif block_type is None:
        if diag is None:
            raise LaunchError("bsr_diag: diag or block_type must be given")
        block_type = type(diag)
        if not isinstance(block_type, CompositeType) and len(getattr(diag, "shape", ())) == 2:
            block_type = matrix(shape=diag.shape, dtype=diag.dtype)
    made = bsr_zeros(nrow, ncol, block_type, device)
    if isinstance(diag, array):
        made.values.requires_grad = diag.requires_grad
    bsr_set_diag(made, diag, nrow, ncol)
    return made


def bsr_set_identity(A: BsrMatrix, rows_of_blocks: int | None = None) -> None:
    """Set a matrix to the identity.

    Args:
        A: The matrix, with square blocks.
        rows_of_blocks: Its new size in blocks.

    Raises:
        LaunchError: Blocks are not square.
    """
    rows, columns = A.block_shape
    if rows != columns:
        raise LaunchError(f"bsr_set_identity: blocks of shape {A.block_shape} are not square")
    one = A.dtype(np.eye(rows)) if isinstance(A.dtype, CompositeType) else A.scalar_type(1.0)
    bsr_set_diag(A, one, rows_of_blocks, rows_of_blocks)


def bsr_identity(rows_of_blocks: int, block_type: Any, device: Any = None) -> BsrMatrix:
    """A new identity matrix.

    Args:
        rows_of_blocks: Its size in blocks.
        block_type: The type of the blocks, which are square.
        device: The device of its arrays.

    Raises:
        LaunchError: Blocks are not square.
    """
    made = bsr_zeros(rows_of_blocks, rows_of_blocks, block_type, device)
    bsr_set_identity(made)
    return made


def min_of(a: int, b: int) -> int:
    """The smaller one of two numbers; `min` is a function of kernels here."""
    return a if a < b else b


def _size(diag: Any, rows: int | None, columns: int | None) -> tuple[int | None, int | None]:
    if rows is None and columns is None and isinstance(diag, array):
        return diag.shape[0], diag.shape[0]
    return (columns if rows is None else rows), (rows if columns is None else columns)


@kernel
def _diagonal(
    scale: Any,
    offsets: array[int],
    row_counts: array[int],
    columns: array[int],
    values: array3d[Any],
    out: array3d[Any],
) -> None:
    row, i, j = tid()
    total = values.dtype(0.0)
    for block in range(row_begin(offsets, row), row_end(offsets, row_counts, columns, row)):
        if columns[block] == row:
            total += values[block, i, j]
    out[row, i, j] = scale * total


@kernel(enable_backward=False)
def _set_diagonal(count: int, offsets: array[int], columns: array[int]) -> None:
    row = tid()
    offsets[row] = min(row, count)
    if row < count:
        columns[row] = row
