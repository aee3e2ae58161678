"""`bsr_axpy`: sums of matrices."""

from __future__ import annotations

from typing import Any

from jwarp.api.launch import launch
from jwarp.arrays.array import array3d
from jwarp.arrays.create import clone, copy, empty
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.kernel import kernel
from jwarp.sparse.copies import bsr_assign
from jwarp.sparse.jax_values import scalar_of
from jwarp.sparse.matrix import BsrMatrix, matrix_and_scale, scalars_of
from jwarp.sparse.scaling import bsr_scale, is_zero
from jwarp.sparse.sorted_rows import add_sorted
from jwarp.sparse.storage import bsr_zeros, check_devices, topology_of
from jwarp.sparse.structure import (
    drop_columns_outside,
    fit_into,
    make_compact,
    scatter_entries,
    structure_of,
    sum_entries,
)
from jwarp.types import int32, type_repr, types_equal


class bsr_axpy_work_arrays:
    """Has no effect: memory comes from a pool."""


def bsr_axpy(
    x: Any,
    y: BsrMatrix | None = None,
    alpha: Any = 1.0,
    beta: Any = 1.0,
    work_arrays: bsr_axpy_work_arrays | None = None,
    topology: str | None = None,
) -> BsrMatrix:
    """Set a matrix `y` to `alpha * x + beta * y`.

    Args:
        x: A matrix, or a multiple of one.
        y: The matrix to change. Default: a new one of zeros. It may be `x`.
        alpha, beta: Numbers.
        work_arrays: Has no effect.
        topology: "compact" determines the blocks of `y` anew; "padded" does so within the room of each row
            (`status_sync` reports rows with too little room); "masked" keeps the existing blocks.

    Returns:
        `y`.

    Raises:
        KernelTypeError, LaunchError: Blocks or sizes of the matrices differ.
    """
    x, scale = matrix_and_scale(x)
    alpha = alpha * scale
    topology = topology_of("bsr_axpy", topology)
    if y is None:
        if topology != "compact":
            raise LaunchError(f"bsr_axpy: with topology={topology!r}, y must be given")
        y = bsr_zeros(x.nrow, x.ncol, x.dtype, x.device)
        y.values.requires_grad = x.requires_grad
        beta = 0.0
    if not isinstance(y, BsrMatrix):
        raise KernelTypeError(f"bsr_axpy: y must be a BsrMatrix, not {y!r}", also=ValueError)
    check_devices("bsr_axpy", x.values, y.values)
    if tuple(x.block_shape) != tuple(y.block_shape) or not types_equal(x.scalar_type, y.scalar_type):
        kinds = f"{type_repr(x.dtype)} and {type_repr(y.dtype)}"
        raise KernelTypeError(f"bsr_axpy: Matrices must have the same block type, got {kinds}", also=ValueError)
    if (x.nrow, x.ncol) != (y.nrow, y.ncol):
        raise LaunchError(
            f"bsr_axpy: Matrices must have the same number of rows and columns, got ({x.nrow}, {x.ncol}) and "
            f"({y.nrow}, {y.ncol})"
        )
    if x is y:
        return bsr_scale(y, alpha + beta)
    if is_zero(alpha) or x.nnz == 0:
        return bsr_scale(y, beta)
    if (is_zero(beta) or y.nnz == 0) and topology != "masked":
        bsr_assign(y, x * alpha, topology=topology)
        return y
    if topology == "masked":
        if is_zero(beta):
            y.values.zero_()
        else:
            bsr_scale(y, beta)
        scatter_entries(y, x.uncompress_rows(), x.columns, x.scalar_values, alpha)
        return y
    if topology == "compact" and add_sorted(y, x, alpha, beta):
        return y
    old, count = y.nnz, x.nnz + y.nnz
    rows, columns = (empty(count, dtype=int32, device=y.device) for _ in range(2))
    y.uncompress_rows(rows[:old])
    x.uncompress_rows(rows[old:])
    copy(columns, y.columns, count=old)
    copy(columns, x.columns, dest_offset=old, count=x.nnz)
    drop_columns_outside(y.ncol, rows, columns)
    if topology == "padded":
        values = scalars_of(clone(y.values[:old]), y.block_shape)
        fit_into(y, structure_of(y.nrow, rows, columns))
        scatter_entries(y, rows[:old], columns[:old], values, beta, is_fresh=True)
        scatter_entries(y, rows[old:], columns[old:], x.scalar_values, alpha)
        return y
    has_grad = x.requires_grad or y.requires_grad
    values = scalars_of(empty(count, dtype=y.dtype, device=y.device, requires_grad=has_grad), y.block_shape)
    for first, each, scale in ((0, y, beta), (old, x, alpha)):
        given = [scalar_of(each.scalar_type, scale), first, each.scalar_values, values]
        launch(_put_multiples, (each.nnz, *each.block_shape), given, device=y.device)
    sum_entries(y, make_compact(y, rows, columns), values)
    return y


@kernel
def _put_multiples(scale: Any, first: int, values: array3d[Any], out: array3d[Any]) -> None:
    block, i, j = tid()
    out[first + block, i, j] = scale * values[block, i, j]
