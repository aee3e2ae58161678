"""`bsr_mm`: products of matrices.

Which blocks a product has is found first. Then each of them is a sum over a row of the left factor.
"""

from __future__ import annotations

from typing import Any

from jwarp.api.array_functions import array_scan, number
from jwarp.api.launch import launch
from jwarp.arrays.array import array, array2d, array3d
from jwarp.arrays.create import clone, copy, empty, zeros
from jwarp.caches import cached
from jwarp.config import config
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.atomic import atomic_add
from jwarp.frontend.builtins.control import static, tid
from jwarp.frontend.builtins.prints import printf
from jwarp.frontend.builtins.scalar import max, min
from jwarp.frontend.kernel import Kernel, kernel
from jwarp.sparse.jax_values import scalar_of
from jwarp.sparse.matrix import BsrMatrix, ensure_fits, matrix_and_scale
from jwarp.sparse.product_columns import PLACES, count_columns, find_columns, first_row, workers_of
from jwarp.sparse.rows import find_column, is_inside, row_begin, row_end
from jwarp.sparse.scaling import bsr_scale, is_zero
from jwarp.sparse.storage import (
    block_type_of,
    bsr_zeros,
    check_devices,
    give_row_counts,
    launch_inside,
    rows_of,
    topology_of,
)
from jwarp.sparse.structure import scatter_entries
from jwarp.types import int32, types_equal


class bsr_mm_work_arrays:
    """The blocks of a product, which `bsr_mm` finds, for `reuse_topology=True`."""

    offsets: array | None = None
    columns: array | None = None


def bsr_mm(
    x: Any,
    y: Any,
    z: BsrMatrix | None = None,
    alpha: Any = 1.0,
    beta: Any = 0.0,
    work_arrays: bsr_mm_work_arrays | None = None,
    reuse_topology: bool = False,
    tile_size: int = 0,
    max_new_nnz: int | None = None,
    topology: str | None = None,
    *,
    nnz_max: int | None = None,
) -> BsrMatrix:
    """Set a matrix `z` to `alpha * x @ y + beta * z`.

    Args:
        x, y: Matrices, or multiples of matrices.
        z: The matrix to change. Default: a new one of zeros. It may be `x` or `y`.
        alpha, beta: Numbers.
        work_arrays: Stores the blocks of the product for `reuse_topology`.
        reuse_topology: Use the blocks in `work_arrays`, without determining them again.
        tile_size: Has no effect.
        max_new_nnz: An upper bound on the number of new blocks. With it nothing is read back, so the product can be
            captured. Excess blocks are dropped, with a printed warning.
        nnz_max: An upper bound on the number of blocks of `z`, like `max_new_nnz`, except that excess blocks are an
            error when the program runs.
        topology: "compact" determines the blocks of `z` anew; "padded" does so within the room of each row
            (`status_sync` reports rows with too little room); "masked" computes the existing blocks only.

    Returns:
        `z`.

    Raises:
        KernelTypeError, LaunchError: Blocks or sizes do not match, or the number of blocks is unknown in a capture or
            while JAX traces.
        RuntimeError: There are more blocks than `nnz_max`.
    """
    if nnz_max is not None and (max_new_nnz is not None or topology not in (None, "compact") or reuse_topology):
        raise LaunchError("bsr_mm: nnz_max is for compact products that are made anew, without max_new_nnz")
    x, x_scale = matrix_and_scale(x)
    y, y_scale = matrix_and_scale(y)
    alpha = alpha * x_scale * y_scale
    topology = topology_of("bsr_mm", topology)
    if reuse_topology and topology != "compact":
        raise LaunchError("bsr_mm: reuse_topology is only supported with topology='compact'")
    if z is None:
        if topology != "compact":
            raise LaunchError(f"bsr_mm: with topology={topology!r}, z must be given")
        kind = block_type_of((x.block_shape[0], y.block_shape[1]), x.scalar_type)
        z = bsr_zeros(x.nrow, y.ncol, kind, x.device)
        z.values.requires_grad = x.requires_grad or y.requires_grad
        beta = 0.0
    _check_factors(x, y, z)
    if is_zero(alpha) or x.nnz == 0 or y.nnz == 0:
        return bsr_scale(z, beta)
    is_aliased = z is x or z is y
    if topology == "masked":
        if is_aliased:
            raise LaunchError("bsr_mm: topology='masked' is not supported for aliased inputs")
        if is_zero(beta):
            z.values.zero_()
        else:
            bsr_scale(z, beta)
        _add_products(z, x, y, alpha)
        return z
    # The content of z before: as a summand, and perhaps as a factor.
    old = _kept(z) if is_aliased or not is_zero(beta) else z
    x, y = old if x is z else x, old if y is z else y
    with_old = not is_zero(beta) and z.nnz > 0
    rows = old.uncompress_rows() if with_old else None
    if topology == "padded":
        give_row_counts(z)
        find_columns(z, x, y, old if with_old else None, z.offsets, z.row_counts)
    else:
        _find_blocks(z, x, y, old if with_old else None, work_arrays, reuse_topology, max_new_nnz, nnz_max)
    z.values.zero_()
    if rows is not None:
        scatter_entries(z, rows, old.columns, old.scalar_values, beta)
    _add_products(z, x, y, alpha)
    return z


def _check_factors(x: BsrMatrix, y: BsrMatrix, z: Any) -> None:
    if not isinstance(z, BsrMatrix):
        raise KernelTypeError(f"bsr_mm: z must be a BsrMatrix, not {z!r}", also=ValueError)
    check_devices("bsr_mm", x.values, y.values, z.values)
    if not (types_equal(x.scalar_type, y.scalar_type) and types_equal(x.scalar_type, z.scalar_type)):
        kinds = f"{x.scalar_type}, {y.scalar_type} and {z.scalar_type}"
        raise KernelTypeError(f"bsr_mm: Matrices must have the same scalar type, got {kinds}", also=ValueError)
    (a, b), (c, d) = x.block_shape, y.block_shape
    if b != c or (a, d) != tuple(z.block_shape):
        shapes = f"({x.block_shape}, {y.block_shape}) and ({z.block_shape})"
        raise LaunchError(f"bsr_mm: Incompatible block sizes for matrix multiplication, got {shapes}")
    if x.nrow != z.nrow or z.ncol != y.ncol or x.ncol != y.nrow:
        sizes = f"({x.nrow}, {x.ncol}) and ({y.nrow}, {y.ncol}) for ({z.nrow}, {z.ncol})"
        raise LaunchError(f"bsr_mm: Incompatible number of rows/columns for matrix multiplication, got {sizes}")


def _kept(z: BsrMatrix) -> BsrMatrix:
    """A copy of a matrix as it lies in memory."""
    made = type(z)()
    made.nrow, made.ncol, made.nnz = z.nrow, z.ncol, z.nnz
    made.offsets = clone(z.offsets)
    made.row_counts = None if z.row_counts is None else clone(z.row_counts)
    made.columns, made.values = clone(z.columns), clone(z.values)
    return made


def _find_blocks(
    z: BsrMatrix,
    x: BsrMatrix,
    y: BsrMatrix,
    old: BsrMatrix | None,
    work: bsr_mm_work_arrays | None,
    reuses: bool,
    most_new: int | None,
    most: int | None,
) -> None:
    """Give the product the blocks that it needs."""
    if reuses:
        if work is None or work.offsets is None or work.columns is None:
            raise LaunchError("bsr_mm: reuse_topology needs the work_arrays of an earlier product")
        if work.offsets.size != z.nrow + 1:
            raise LaunchError(f"bsr_mm: work_arrays are of a product of {work.offsets.size - 1} rows, not {z.nrow}")
        ensure_fits(z, work.columns.size)
        z.row_counts = None
        copy(z.offsets, work.offsets, count=z.nrow + 1)
        if work.columns.size:
            copy(z.columns, work.columns, count=work.columns.size)
        return
    for name, bound in (("nnz_max", most), ("max_new_nnz", most_new)):
        if bound is not None and number("bsr_mm", name, bound) < 0:
            raise LaunchError(f"bsr_mm: {name} is the number of blocks at most, not {bound}")
    counts = zeros(z.nrow + 1, dtype=int32, device=z.device)
    count_columns(z, x, y, old, counts)
    offsets = empty(z.nrow + 1, dtype=int32, device=z.device)
    array_scan(counts, offsets, inclusive=False)
    if most is not None:
        nnz, limited = number("bsr_mm", "nnz_max", most), empty(z.nrow + 1, dtype=int32, device=z.device)
        if not (z.device.is_cuda or z.device.is_capturing) and offsets.memory.is_known:
            found = int(offsets.numpy()[z.nrow])
            if found > nnz:
                hint = f"give nnz_max={found} or more, or none where nothing is captured or traced"
                raise LaunchError(f"bsr_mm: the product has {found} blocks, more than nnz_max={nnz}", hint=hint)
        with config(bounds="error"):  # and nothing is lost
            launch(_bsr_mm_checks_nnz_max, z.nrow + 1, [nnz, offsets, limited], device=z.device, record_tape=False)
        offsets = limited
    elif most_new is not None:
        nnz = number("bsr_mm", "max_new_nnz", most_new) + (0 if old is None else old.nnz)
        launch(_limit, z.nrow + 1, [nnz, offsets], device=z.device, record_tape=False)
    elif z.device.is_capturing or not offsets.memory.is_known:
        raise LaunchError(
            "bsr_mm: the number of blocks of a product is not known while a capture is made, or JAX traces",
            hint="give nnz_max= or max_new_nnz=, or topology='masked' or 'padded'",
            also=RuntimeError,
        )
    else:
        nnz = int(offsets.numpy()[z.nrow])
    z.row_counts = None
    copy(z.offsets, offsets, count=z.nrow + 1)
    ensure_fits(z, nnz)
    find_columns(z, x, y, old, z.offsets, counts)
    if work is not None:
        work.offsets, work.columns = offsets, clone(z.columns[:nnz])


def _add_products(z: BsrMatrix, x: BsrMatrix, y: BsrMatrix, alpha: Any) -> None:
    left = [*rows_of(x), x.scalar_values]
    right = [y.nrow, *rows_of(y), y.scalar_values]
    given = [scalar_of(z.scalar_type, alpha), *left, *right, *rows_of(z)]
    is_of_scalars = z.block_size == 1 and x.block_size == 1
    has_derivative = any(each.requires_grad or each.values.memory.is_traced for each in (x, y, z))
    if has_derivative or z.device.is_cuda:
        shape = (1, 1, z.nrow) if is_of_scalars else (z.nrow, *z.block_shape)
        launch(_multiplier(is_of_scalars), shape, [*given, z.scalar_values], device=z.device)
        return
    workers = workers_of(PLACES, z.ncol, z.nrow, z.device)
    places = empty((workers, z.ncol), dtype=int32, device=z.device)
    launch_inside(_multiplier_in_turn(is_of_scalars), (workers, 1), [*given, z.nrow, places, z.scalar_values], z.device)


@kernel(enable_backward=False)
def _limit(most: int, offsets: array[int]) -> None:
    row = tid()
    if offsets[row] > most:
        if row == offsets.shape[0] - 1:
            printf("bsr_mm: the product has %d blocks, max_new_nnz is exceeded: only %d are kept\n", offsets[row], most)
        offsets[row] = most


@kernel(enable_backward=False)
def _bsr_mm_checks_nnz_max(nnz_max: int, offsets: array[int], nnz_max_exceeded: array[int]) -> None:
    row = tid()
    # More blocks than nnz_max: the index is then outside of the array, which is an error here. It tells its name.
    nnz_max_exceeded[row + max(offsets[row] - nnz_max, 0) * nnz_max_exceeded.shape[0]] = offsets[row]


@cached(2)
def _multiplier_in_turn(is_of_scalars: bool) -> Kernel:
    """The kernel of which each thread does many rows, and finds blocks by a list: quicker on few cores."""

    @kernel(enable_backward=False)
    def multiply_in_turn(
        alpha: Any,
        x_offsets: array[int],
        x_counts: array[int],
        x_columns: array[int],
        x_values: array3d[Any],
        y_nrow: int,
        y_offsets: array[int],
        y_counts: array[int],
        y_columns: array[int],
        y_values: array3d[Any],
        offsets: array[int],
        row_counts: array[int],
        columns: array[int],
        nrow: int,
        places: array2d[int],
        out: array3d[Any],
    ) -> None:
        """Add products to the blocks of rows, each of which a worker lists by column: what is found there is tested."""
        worker, _ = tid()
        ncol = places.shape[1]
        workers = places.shape[0]
        for row in range(first_row(nrow, worker, workers), first_row(nrow, worker + 1, workers)):
            first = row_begin(offsets, row)
            end = min(row_end(offsets, row_counts, columns, row), out.shape[0])
            for back in range(first, end):
                block = end - 1 - (back - first)  # so that the first one of a column is found
                if is_inside(columns[block], ncol):
                    places[worker, columns[block]] = block
            for b in range(
                row_begin(x_offsets, row), min(row_end(x_offsets, x_counts, x_columns, row), x_values.shape[0])
            ):
                inner = x_columns[b]
                if is_inside(inner, y_nrow):
                    inner_end = min(row_end(y_offsets, y_counts, y_columns, inner), y_values.shape[0])
                    for c in range(row_begin(y_offsets, inner), inner_end):
                        column = y_columns[c]
                        if is_inside(column, ncol):
                            block = places[worker, column]
                            if block >= first and block < end and columns[block] == column:
                                if static(is_of_scalars):
                                    product = x_values[b, 0, 0] * y_values[c, 0, 0]
                                    out[block, 0, 0] = out[block, 0, 0] + alpha * product
                                    continue
                                for i in range(out.shape[1]):
                                    for j in range(out.shape[2]):
                                        total = out.dtype(0.0)
                                        for k in range(x_values.shape[2]):
                                            total += x_values[b, i, k] * y_values[c, k, j]
                                        out[block, i, j] = out[block, i, j] + alpha * total

    return multiply_in_turn


@cached(2)
def _multiplier(is_of_scalars: bool) -> Kernel:
    """The kernel whose last coordinate, that of the lanes of a vector, is a row, or else a column of a block."""

    @kernel
    def multiply_rows(
        alpha: Any,
        x_offsets: array[int],
        x_counts: array[int],
        x_columns: array[int],
        x_values: array3d[Any],
        y_nrow: int,
        y_offsets: array[int],
        y_counts: array[int],
        y_columns: array[int],
        y_values: array3d[Any],
        offsets: array[int],
        row_counts: array[int],
        columns: array[int],
        out: array3d[Any],
    ) -> None:
        row, i, j = tid()
        if static(is_of_scalars):
            i, j, row = tid()
        first = row_begin(offsets, row)
        end = row_end(offsets, row_counts, columns, row)
        for b in range(row_begin(x_offsets, row), row_end(x_offsets, x_counts, x_columns, row)):
            inner = x_columns[b]
            if is_inside(inner, y_nrow):
                for c in range(row_begin(y_offsets, inner), row_end(y_offsets, y_counts, y_columns, inner)):
                    block = find_column(columns, first, end, y_columns[c])
                    if block >= 0:
                        total = out.dtype(0.0)
                        for k in range(x_values.shape[2]):
                            total += x_values[b, i, k] * y_values[c, k, j]
                        atomic_add(out, block, i, j, alpha * total)

    return multiply_rows
