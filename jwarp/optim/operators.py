"""Matrices as functions that multiply: dense, diagonal and sparse ones, and those of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jwarp.api.launch import launch
from jwarp.arrays.array import array, array2d
from jwarp.arrays.create import clone
from jwarp.devices import get_device
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.kernel import kernel
from jwarp.sparse.matrix import BsrMatrix
from jwarp.sparse.vectors import multiply as multiply_sparse
from jwarp.types import CompositeType, ScalarType, int32

# The product: matvec(x, y, z, alpha=, beta=) stores alpha * (A @ x) + beta * y in z.
Matvec = Callable[..., None]


class LinearOperator:
    """A matrix A that is defined by its product with vectors.

    Args:
        shape: The numbers of rows and columns.
        dtype: The type of its elements: a scalar type, or that of its vectors or blocks.
        device: The device of vectors.
        matvec: Called as `matvec(x, y, z, alpha=…, beta=…)`. It stores `alpha * (A @ x) + beta * y` in z. x, y and z
            are arrays of the same shape and type, and z may be y. If `beta` is 0, y has zeros
            or an earlier product.
        batch_offsets: For B systems, the start of each among the components of the vectors: an ascending array of int32
            and shape (B + 1,). None for one system. Components from the last offset on belong to no system and do not
            change.
        max_batch_length: The largest number of unknowns of a system. Has no effect.

    Raises:
        LaunchError: `max_batch_length` is given without `batch_offsets`.
        KernelTypeError: `batch_offsets` is not an array of int32.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        device: Any,
        matvec: Matvec,
        batch_offsets: array | None = None,
        max_batch_length: int | None = None,
    ):
        if max_batch_length is not None and batch_offsets is None:
            raise LaunchError("wp.optim.linear: max_batch_length is given, and no batch_offsets")
        if batch_offsets is not None and not (isinstance(batch_offsets, array) and batch_offsets.dtype is int32):
            raise KernelTypeError(f"wp.optim.linear: batch_offsets must be an array of int32, got {batch_offsets!r}")
        self.shape, self.dtype, self.device = shape, dtype, get_device(device)
        self.matvec, self.batch_offsets, self.max_batch_length = matvec, batch_offsets, max_batch_length

    @property
    def scalar_type(self) -> Any:
        """The type of the components of its elements."""
        return scalar_of(self.dtype)

    @property
    def batch_count(self) -> int:
        """The number of systems."""
        return 1 if self.batch_offsets is None else self.batch_offsets.shape[0] - 1


def aslinearoperator(
    A: array | BsrMatrix | LinearOperator, batch_offsets: array | None = None, max_batch_length: int | None = None
) -> LinearOperator:
    """The operator of a matrix.

    Args:
        A: A dense array of shape (n, m); an array of shape (n,) of numbers or vectors, whose components are the
            diagonal; a sparse matrix; or an operator, which is returned unchanged.
        batch_offsets, max_batch_length: As for `LinearOperator`.

    Raises:
        KernelTypeError: `A` is none of these.

    Example:
        >>> operator = wp.optim.linear.aslinearoperator(wp.array(numpy_matrix, dtype=float))
    """
    if isinstance(A, LinearOperator):
        return A
    if isinstance(A, BsrMatrix):
        given: BsrMatrix = A

        def product(x: array, y: array, z: array, alpha: Any, beta: Any) -> None:
            apart = clone(numbers(x)) if x is z else numbers(x)
            multiply_sparse(given, apart, numbers(y), numbers(z), alpha, beta, record_tape=False)

        return LinearOperator(A.shape, A.dtype, A.device, product, batch_offsets, max_batch_length)
    check_matrix(A)
    multiply = _dense if A.ndim == 2 else _diagonal

    def matvec(x: array, y: array, z: array, alpha: Any, beta: Any) -> None:
        _multiply(multiply, A, x, y, z, alpha, beta)

    return LinearOperator(A.shape, A.dtype, A.device, matvec, batch_offsets, max_batch_length)


def scalar_of(kind: Any) -> ScalarType:
    """The type of the components of an element."""
    return kind.dtype if isinstance(kind, CompositeType) else kind


def numbers(a: array) -> array:
    """The components of an array, along one dimension."""
    return (a.view(a.dtype.dtype) if isinstance(a.dtype, CompositeType) else a).flatten()


def check_matrix(A: Any) -> None:
    """A KernelTypeError unless it is an array that is a matrix, or a diagonal."""
    is_array = isinstance(A, array) and A.device is not None
    if not is_array or A.ndim > 2 or (A.ndim == 2 and isinstance(A.dtype, CompositeType)):
        shown = f"an array of {A.dtype!r} and {A.ndim} dimensions" if is_array else type(A).__name__
        raise KernelTypeError(
            f"wp.optim.linear: a matrix is an array of numbers of two dimensions, one of one dimension for a diagonal, "
            f"a BsrMatrix or a LinearOperator, not {shown}",
            hint="a LinearOperator multiplies by any other matrix",
        )


def _multiply(multiply: Any, A: array, x: array, y: array, z: array, alpha: Any, beta: Any) -> None:
    scale = A.layout.dtype.type
    vectors = [numbers(x), numbers(y), numbers(z)]
    matrix = A if A.ndim == 2 else numbers(A)
    launch(multiply, vectors[2].size, [matrix, *vectors, scale(alpha), scale(beta)], record_tape=False)


@kernel
def _dense(A: array2d[Any], x: array[Any], y: array[Any], z: array[Any], alpha: Any, beta: Any) -> None:
    i = tid()
    total = A.dtype(0.0)
    for j in range(A.shape[1]):
        total += A[i, j] * x[j]
    total *= alpha
    if beta != A.dtype(0.0):
        total += beta * y[i]
    z[i] = total


@kernel
def _diagonal(A: array[Any], x: array[Any], y: array[Any], z: array[Any], alpha: Any, beta: Any) -> None:
    i = tid()
    total = alpha * A[i] * x[i]
    if beta != A.dtype(0.0):
        total += beta * y[i]
    z[i] = total
