"""`bsr_mv`: a matrix times a vector."""

from __future__ import annotations

from typing import Any

import jax

from jwarp.api.launch import launch
from jwarp.arrays.array import array, array3d
from jwarp.arrays.create import clone, copy, empty
from jwarp.caches import cached
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.atomic import atomic_add
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import min
from jwarp.frontend.kernel import Kernel, kernel
from jwarp.sparse.jax_values import scalar_of, takes_jax_arrays
from jwarp.sparse.matrix import BsrMatrix, matrix_and_scale
from jwarp.sparse.rows import bsr_row_index, is_inside, row_begin, row_end
from jwarp.sparse.scaling import is_one, is_zero
from jwarp.sparse.storage import check_devices, launch_inside, rows_of
from jwarp.types import CompositeType, int64, type_repr, types_equal, vector


@takes_jax_arrays
def bsr_mv(
    A: Any,
    x: array,
    y: array | None = None,
    alpha: Any = 1.0,
    beta: Any = 0.0,
    transpose: bool = False,
    work_buffer: array | None = None,
    tile_size: int = 0,
) -> array:
    """Set a vector `y` to `alpha * A @ x + beta * y`.

    Args:
        A: A matrix, or a multiple of one.
        x: A vector: an array of vectors, one for each column of blocks, or an array with as many numbers, of one or two
            dimensions. It may be `y`.
        y: The vector to change. Default: a new one of zeros.
        alpha: A number.
        beta: A number. If it is 0, the content of `y` is arbitrary.
        transpose: Multiply by the transposed matrix.
        work_buffer: An array like `y`, used if `x` and `y` are the same. Default: a new one.
        tile_size: Has no effect.

    Returns:
        `y`.

    Raises:
        KernelTypeError, LaunchError: The matrix and the vectors do not match.
    """
    A, scale = matrix_and_scale(A)
    alpha = alpha * scale
    (rows, columns), nrow, ncol = A.block_shape, A.nrow, A.ncol
    if transpose:
        rows, columns, nrow, ncol = columns, rows, ncol, nrow
    if not isinstance(x, array):
        raise KernelTypeError(f"bsr_mv: x must be a wp.array, not {type(x).__name__}")
    if y is None:
        kind = A.scalar_type if rows == 1 else vector(length=rows, dtype=A.scalar_type)
        y = empty(nrow, dtype=kind, device=A.device, requires_grad=x.requires_grad or A.requires_grad)
        beta = 0.0
    check_devices("bsr_mv", A.values, x, y)
    given = _numbers(x, A.scalar_type, ncol * columns, "x")
    out = _numbers(y, A.scalar_type, nrow * rows, "y")
    if x is y or x.memory is y.memory:
        if work_buffer is None:
            given = clone(given)
        elif work_buffer.size < x.size or not types_equal(work_buffer.dtype, x.dtype):
            raise LaunchError(f"bsr_mv: work_buffer must have room for {x.size} of {type_repr(x.dtype)}")
        else:
            copy(work_buffer, x, count=x.size)
            given = _numbers(work_buffer.flatten()[: x.size], A.scalar_type, ncol * columns, "x")
    multiply(A, given, out, out, alpha, beta, transpose)
    return y


def multiply(
    A: BsrMatrix, x: array, y: array, z: array, alpha: Any, beta: Any, transpose: bool = False, record_tape: bool = True
) -> None:
    """Set `z` to `alpha * A @ x + beta * y`, all of which are arrays of numbers. `z` may be `y`, but not `x`."""
    kind, rows = A.scalar_type, A.block_shape[1 if transpose else 0]
    parts = rows_of(A)
    sizes = A.shape[::-1] if transpose else A.shape
    if (z.size, x.size) != sizes or y.size != z.size:
        raise LaunchError(f"wp.sparse: vectors of {x.size}, {y.size} and {z.size} numbers for a matrix of {A.shape}")
    if not transpose:
        is_known = int(not isinstance(alpha, jax.Array))  # others have derivatives, also where they are 0
        given = [scalar_of(kind, alpha), scalar_of(kind, beta), is_known, *parts, A.scalar_values.flatten(), A.ncol]
        given += [x, y, z]
        launch_inside(_multiplier(*A.block_shape), (z.size, 1), given, A.device, record_tape)
        return
    if is_zero(beta):
        z.zero_()
    elif y is not z or not is_one(beta):
        launch(_scale_vector, z.size, [scalar_of(kind, beta), y, z], device=A.device, record_tape=record_tape)
    if not is_zero(alpha):
        given = [scalar_of(kind, alpha), *parts, A.scalar_values, A.nrow, A.ncol, x, z]
        launch(_multiply_transposed, (A.nnz, rows), given, device=A.device, record_tape=record_tape)


def _numbers(a: Any, scalar: Any, count: int, name: str) -> array:
    """The numbers of a vector that a caller gave, in one dimension."""
    if not isinstance(a, array) or a.ndim > 2:
        raise KernelTypeError(f"bsr_mv: Incompatible '{name}' vector, {a!r}", also=ValueError)
    own = a.dtype.dtype if isinstance(a.dtype, CompositeType) else a.dtype
    if not types_equal(own, scalar):
        kinds = f"{type_repr(a.dtype)}, of numbers of another type than the matrix's {type_repr(scalar)}"
        raise KernelTypeError(f"bsr_mv: Incompatible '{name}' vector of {kinds}", also=ValueError)
    if not a.is_contiguous and (a.ndim > 1 or a.dtype is not own):
        raise LaunchError(f"bsr_mv: Incompatible '{name}' vector, which must be contiguous")
    flat = a.view(own) if a.dtype is not own else a
    if flat.size != count:
        raise LaunchError(f"bsr_mv: Incompatible '{name}' vector of {flat.size} numbers, {count} are needed")
    return flat.reshape((count,)) if flat.ndim > 1 else flat


@cached(64)
def _multiplier(rows_of_block: int, columns_of_block: int) -> Kernel:
    """The kernel for blocks of a shape."""

    @kernel
    def multiply_rows(
        alpha: Any,
        beta: Any,
        is_known: int,
        offsets: array[int],
        row_counts: array[int],
        columns: array[int],
        values: array[Any],
        ncol: int,
        x: array[Any],
        y: array[Any],
        z: array[Any],
    ) -> None:
        out, _ = tid()  # with a last extent of 1: each row is a loop of its own, as gathers of vectors are slower
        row = out // rows_of_block
        i = out % rows_of_block
        total = values.dtype(0.0)
        end = min(row_end(offsets, row_counts, columns, row), values.shape[0] // (rows_of_block * columns_of_block))
        if is_known != 0 and alpha == values.dtype(0.0):
            end = 0
        for block in range(row_begin(offsets, row), end):
            column = columns[block]
            if is_inside(column, ncol):
                at = (int64(block) * int64(rows_of_block) + int64(i)) * int64(columns_of_block)
                for j in range(columns_of_block):
                    total += values[at + int64(j)] * x[column * columns_of_block + j]
        total *= alpha
        if beta != values.dtype(0.0):
            total += beta * y[out]
        z[out] = total

    return multiply_rows


@kernel
def _multiply_transposed(
    alpha: Any,
    offsets: array[int],
    row_counts: array[int],
    columns: array[int],
    values: array3d[Any],
    nrow: int,
    ncol: int,
    x: array[Any],
    y: array[Any],
) -> None:
    block, j = tid()
    row = bsr_row_index(offsets, nrow, block, row_counts)
    if row >= 0 and is_inside(columns[block], ncol):
        total = values.dtype(0.0)
        for i in range(values.shape[1]):
            total += values[block, i, j] * x[row * values.shape[1] + i]
        atomic_add(y, columns[block] * values.shape[2] + j, alpha * total)


@kernel
def _scale_vector(beta: Any, y: array[Any], z: array[Any]) -> None:
    i = tid()
    z[i] = beta * y[i]
