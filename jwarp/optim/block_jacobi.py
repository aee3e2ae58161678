"""Inverses of the blocks on the diagonal of a sparse matrix, which precondition it."""

from __future__ import annotations

from typing import Any

from jwarp.api.launch import launch
from jwarp.arrays.array import array3d
from jwarp.arrays.create import empty
from jwarp.errors import LaunchError
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import abs, isfinite, max
from jwarp.frontend.kernel import kernel
from jwarp.optim.operators import LinearOperator, aslinearoperator
from jwarp.sparse.diagonals import bsr_diag, bsr_get_diag
from jwarp.sparse.matrix import BsrMatrix, scalars_of
from jwarp.types import float16, float32, float64, type_repr

# The least pivots, over the largest number of its row or block: about eps ** 0.75.
_LEAST_PIVOTS = {float16: 1e-3, float32: 1e-6, float64: 1e-12}
# Names of preconditioners: True for those of blocks that are symmetric and positive definite.
KINDS = {"block_jacobi_direct": False, "block_jacobi_sequential": True, "block_jacobi_tile": True}


def block_jacobi(A: Any, ptype: str) -> LinearOperator:
    """The operator that multiplies by the inverses of the blocks on the diagonal.

    Blocks that have none, or are not symmetric and positive definite where they must be, count as identities.

    Args:
        A: A square `BsrMatrix` with square blocks.
        ptype: One of `KINDS`.

    Raises:
        LaunchError: it is something else, or of numbers of another type than float16, float32 or float64.
    """
    if not isinstance(A, BsrMatrix):
        raise LaunchError(f"wp.optim.linear: {ptype!r} is for a BsrMatrix, not {type(A).__name__}")
    if A.block_shape[0] != A.block_shape[1]:
        raise LaunchError(f"wp.optim.linear: {ptype!r} needs square matrix blocks, not {A.block_shape}")
    if A.nrow != A.ncol:
        raise LaunchError(f"wp.optim.linear: {ptype!r} needs a square matrix, not one of shape {A.shape}")
    scalar = A.scalar_type
    if scalar not in _LEAST_PIVOTS or (ptype == "block_jacobi_tile" and scalar is float16):
        raise LaunchError(
            f"wp.optim.linear: {ptype!r} is not for numbers of {type_repr(scalar)}", hint='"block_jacobi_direct"'
        )
    blocks, size = bsr_get_diag(A), A.block_shape[0]
    inverses = empty(A.nrow, dtype=A.dtype, device=A.device)
    of_sums = float32 if scalar is float16 else scalar
    working = empty((A.nrow, size, 2 * size), dtype=of_sums, device=A.device)
    given = [scalars_of(blocks, A.block_shape), working, of_sums(_LEAST_PIVOTS[scalar]), int(KINDS[ptype])]
    into = scalars_of(inverses, A.block_shape)
    launch(_invert, (A.nrow, 1), [*given, into], device=A.device, record_tape=False)
    return aslinearoperator(bsr_diag(inverses))


@kernel(enable_backward=False)
def _invert(blocks: array3d[Any], working: array3d[Any], least: Any, is_definite: int, inverses: array3d[Any]) -> None:
    """Invert blocks by Gauss-Jordan elimination, with pivots by rows for those that need not be definite."""
    block, _ = tid()
    size = blocks.shape[1]
    is_sound = True
    for i in range(size):
        # Rows are divided by their largest number, or that on the diagonal of a definite block: pivots compare then.
        scale = abs(working.dtype(blocks[block, i, i]))
        if is_definite == 0:
            for j in range(size):
                scale = max(scale, abs(working.dtype(blocks[block, i, j])))
        elif not working.dtype(blocks[block, i, i]) > working.dtype(0.0):
            is_sound = False
        if not (scale > working.dtype(0.0) and isfinite(scale)):
            is_sound = False
            scale = working.dtype(1.0)
        for j in range(size):
            working[block, i, j] = working.dtype(blocks[block, i, j])
            working[block, i, size + j] = working.dtype(0.0)
            if is_definite != 0:
                apart = abs(working.dtype(blocks[block, i, j]) - working.dtype(blocks[block, j, i]))
                if apart > least * (scale + abs(working.dtype(blocks[block, j, j]))):
                    is_sound = False
            if not isfinite(working[block, i, j]):
                is_sound = False
        working[block, i, size + i] = working.dtype(1.0)
        for j in range(size):
            working[block, i, j] /= scale
        working[block, i, size + i] /= scale
    for i in range(size):
        best = i
        if is_definite == 0:
            for k in range(i + 1, size):
                if abs(working[block, k, i]) > abs(working[block, best, i]):
                    best = k
            if best != i:
                for j in range(2 * size):
                    kept = working[block, i, j]
                    working[block, i, j] = working[block, best, j]
                    working[block, best, j] = kept
        pivot = working[block, i, i]
        magnitude = pivot
        if is_definite == 0:
            magnitude = abs(pivot)
        if not magnitude > least:
            is_sound = False
            pivot = working.dtype(1.0)
        for j in range(2 * size):
            working[block, i, j] /= pivot
        for k in range(size):
            if k != i:
                factor = working[block, k, i]
                for j in range(2 * size):
                    working[block, k, j] -= factor * working[block, i, j]
    for i in range(size):
        for j in range(size):
            if not isfinite(inverses.dtype(working[block, i, size + j])):
                is_sound = False
    for i in range(size):
        for j in range(size):
            found = working[block, i, size + j]
            if not is_sound:
                found = working.dtype(0.0)
                if i == j:
                    found = working.dtype(1.0)
            inverses[block, i, j] = inverses.dtype(found)
