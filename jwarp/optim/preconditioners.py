"""`preconditioner`: operators close to the inverse of a matrix, by its diagonal, its blocks or its sparsity."""

from __future__ import annotations

from typing import Any

from jwarp.api.launch import launch
from jwarp.arrays.array import array, array2d
from jwarp.arrays.create import empty
from jwarp.errors import LaunchError
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import abs, where
from jwarp.frontend.kernel import kernel
from jwarp.optim.block_jacobi import KINDS, block_jacobi
from jwarp.optim.fsai import FSAI
from jwarp.optim.operators import LinearOperator, aslinearoperator, check_matrix, numbers
from jwarp.sparse.diagonals import bsr_get_diag
from jwarp.sparse.matrix import BsrMatrix, scalars_of
from jwarp.types import vector


def preconditioner(A: array | BsrMatrix | LinearOperator, ptype: str = "diag") -> LinearOperator | None:
    """A cheap operator that approximates the inverse of a matrix.

    Args:
        A: A dense array, a diagonal, or a sparse matrix, as for `aslinearoperator`.
        ptype: "diag" for the inverse of the diagonal; "diag_abs" for the inverse of its absolute values, where zeros
            count as ones; "block_jacobi_direct" for the inverses of the diagonal blocks of a square `BsrMatrix`;
            "block_jacobi_sequential" and "block_jacobi_tile" for symmetric positive definite diagonal blocks; "fsai"
            for an `FSAI`; "id" for None. Blocks that cannot be inverted count as identities.

    Raises:
        LaunchError: The matrix is a `LinearOperator`, `ptype` does not apply to it, or there is no such `ptype`.
        KernelTypeError: `A` is not a matrix, or has numbers of another type.
    """
    if ptype == "id":
        return None
    if ptype == "fsai":
        return FSAI(A)  # type: ignore[arg-type]  # which says what it needs
    if ptype in KINDS and (not isinstance(A, BsrMatrix) or A.block_size > 1 or A.nrow != A.ncol):
        return block_jacobi(A, ptype)
    if ptype not in ("diag", "diag_abs", *KINDS):
        known = ", ".join(("diag", "diag_abs", *KINDS, "fsai", "id"))
        raise LaunchError(f"wp.optim.linear: there is no preconditioner {ptype!r}", hint=f"one of {known}")
    if isinstance(A, LinearOperator):
        raise LaunchError(
            "wp.optim.linear: the diagonal of an operator is not known",
            hint="give the array, or a LinearOperator of your own that multiplies by the inverse of the diagonal",
        )
    if isinstance(A, BsrMatrix):
        return aslinearoperator(_inverse_sparse_diagonal(A, ptype == "diag_abs"))
    check_matrix(A)
    if A.ndim == 2 and A.shape[0] != A.shape[1]:
        raise LaunchError(f"wp.optim.linear: a matrix of shape {A.shape} has no inverse")
    inverse = empty(A.shape[:1], dtype=A.dtype, device=A.device)
    shown = A if A.ndim == 2 else numbers(A).reshape((-1, 1))
    flat = numbers(inverse)
    launch(_inverse_diagonal, flat.size, [shown, flat, int(ptype == "diag_abs")], record_tape=False)
    return aslinearoperator(inverse)


def _inverse_sparse_diagonal(A: BsrMatrix, is_absolute: bool) -> array:
    (rows, columns), count = A.block_shape, A.shape[0]
    if rows != columns or A.nrow != A.ncol:
        raise LaunchError(f"wp.optim.linear: a matrix of shape {A.shape}, of blocks {A.block_shape}, has no diagonal")
    blocks = scalars_of(bsr_get_diag(A), A.block_shape).reshape((count, columns))
    inverse = empty(count, dtype=A.scalar_type, device=A.device)
    launch(_inverse_diagonal, count, [blocks, inverse, int(is_absolute)], record_tape=False)
    return inverse if rows == 1 else inverse.reshape((A.nrow, rows)).view(vector(length=rows, dtype=A.scalar_type))


@kernel(enable_backward=False)
def _inverse_diagonal(A: array2d[Any], inverse: array[Any], is_absolute: int) -> None:
    i = tid()
    j = i % A.shape[1]  # of a matrix, of blocks below each other, or of numbers
    found = A[i, j]
    if is_absolute == 1:
        found = abs(found)
    inverse[i] = where(
        found == A.dtype(0.0), A.dtype(1.0), A.dtype(1.0) / where(found == A.dtype(0.0), A.dtype(1.0), found)
    )
