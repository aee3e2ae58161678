"""`bsr_scale`: multiples of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.api.launch import launch
from jwarp.arrays.array import array3d
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.kernel import kernel
from jwarp.sparse.jax_values import scalar_of
from jwarp.sparse.matrix import BsrMatrix, matrix_and_scale


def bsr_scale(x: Any, alpha: Any) -> BsrMatrix:
    """Multiply a matrix, or the matrix of a multiple, by a number.

    Args:
        x: The matrix, which is changed. For a multiple, its factor is applied, too.
        alpha: The number. With 0, all values become 0, even if they were NaN.

    Returns:
        The matrix.
    """
    found, scale = matrix_and_scale(x)
    alpha = alpha * scale
    if not is_one(alpha) and found.nnz:
        if is_zero(alpha):
            found.values.zero_()
        else:
            shape = (found.nnz, *found.block_shape)
            launch(_scale, shape, [scalar_of(found.scalar_type, alpha), found.scalar_values], device=found.device)
    return found


def is_zero(number: Any) -> bool:
    """True for a number that is known and 0; False for one that JAX traces."""
    return (isinstance(number, int | float | np.number) and number == 0) or getattr(number, "value", None) == 0


def is_one(number: Any) -> bool:
    """True for a number that is known and 1."""
    return isinstance(number, int | float | np.number) and number == 1


@kernel
def _scale(alpha: Any, values: array3d[Any]) -> None:
    block, i, j = tid()
    values[block, i, j] = alpha * values[block, i, j]
