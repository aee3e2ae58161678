"""`BsrMatrix`: a sparse matrix of blocks, compressed by rows, what it knows of itself, and its operators."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax

from jwarp.api.array_functions import number
from jwarp.api.launch import launch
from jwarp.arrays.array import array
from jwarp.arrays.create import empty, zeros
from jwarp.bind.pytrees import register_pytree
from jwarp.bind.trees import OfAttributes
from jwarp.caches import cached
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.kernel import kernel
from jwarp.sparse.rows import row_begin, row_end
from jwarp.types import CompositeType, ScalarType, float32, int32, matrix, type_repr

BSR_STATUS_SUCCESS = 0
BSR_STATUS_ROW_CAPACITY_EXCEEDED = 1

_MESSAGES = {
    BSR_STATUS_SUCCESS: "success",
    BSR_STATUS_ROW_CAPACITY_EXCEEDED: "a row has more blocks than it has room for",
}


_INDEX_ARRAYS = frozenset(("offsets", "columns", "row_counts"))


def _is_index_array(value: Any) -> bool:
    if isinstance(value, jax.Array):
        return value.ndim == 1
    return isinstance(value, array) and value.ndim == 1 and value.dtype is int32


# The functions that operators call, by name: set where all of them are known.
OPERATIONS: dict[str, Callable[..., Any]] = {}


class _Operators:
    """Operators of matrices and of their multiples."""

    __array_ufunc__ = None  # arrays leave operators with them to these

    def __add__(self, y: Any) -> Any:
        return OPERATIONS["bsr_axpy"](y, OPERATIONS["bsr_copy"](self))

    __radd__ = __add__

    def __sub__(self, y: Any) -> Any:
        return OPERATIONS["bsr_axpy"](y, OPERATIONS["bsr_copy"](self), alpha=-1.0)

    def __rsub__(self, x: Any) -> Any:
        return OPERATIONS["bsr_axpy"](x, OPERATIONS["bsr_copy"](self), beta=-1.0)

    def __matmul__(self, y: Any) -> Any:
        return OPERATIONS["bsr_mm"](self, y) if isinstance(y, BsrMatrix | Multiple) else OPERATIONS["bsr_mv"](self, y)

    def __rmatmul__(self, x: Any) -> Any:
        is_matrix = isinstance(x, BsrMatrix | Multiple)
        return OPERATIONS["bsr_mm"](x, self) if is_matrix else OPERATIONS["bsr_mv"](self, x, transpose=True)

    def __mul__(self, y: Any) -> Multiple:
        matrix, scale = matrix_and_scale(self)
        return Multiple(matrix, scale * y)

    __rmul__ = __mul__

    def __truediv__(self, y: Any) -> Multiple:
        return self * (1.0 / y)

    def __neg__(self) -> Multiple:
        return self * -1.0


class BsrMatrix(_Operators, OfAttributes):
    """A sparse matrix of blocks, made by functions such as `bsr_zeros` and `bsr_from_triplets`.

    The blocks of row `r` are those from `offsets[r]` to `offsets[r + 1]`; if rows have spare room, `row_counts[r]` is
    their number. The columns of a row may have any order. A matrix is a pytree with its arrays as leaves.

    Attributes:
        nrow, ncol: The numbers of rows and columns of blocks.
        nnz: An upper bound on the number of blocks. `nnz_sync` makes it exact.
        offsets: An array of int32, of at least `nrow + 1` elements.
        row_counts: An array of int32, of at least `nrow` elements, or None if rows have no spare room.
        columns: The column of each block, an array of int32.
        values: The blocks: an array of scalars or matrices.
    """

    nrow: int
    ncol: int
    nnz: int
    offsets: array
    row_counts: array | None
    columns: array
    values: array

    @classmethod
    def __class_getitem__(cls, _: Any) -> type[BsrMatrix]:
        return cls

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _INDEX_ARRAYS and not _is_index_array(value) and not (name == "row_counts" and value is None):
            raise KernelTypeError(f"BsrMatrix.{name} must be an array of int32 of one dimension, not {value!r}")
        if name == "values" and not isinstance(value, array | jax.Array):
            raise KernelTypeError(f"BsrMatrix.values must be an array of blocks, not {value!r}")
        if name in ("nrow", "ncol", "nnz"):
            value = number("BsrMatrix", name, value)
            if not 0 <= value < 2**31:
                raise LaunchError(f"BsrMatrix.{name} cannot be {value}")
        super().__setattr__(name, value)

    @property
    def dtype(self) -> Any:
        """The type of a block."""
        return self.values.dtype

    @property
    def scalar_type(self) -> Any:
        """The type of the numbers in a block."""
        return self.dtype.dtype if isinstance(self.dtype, CompositeType) else self.dtype

    @property
    def block_shape(self) -> tuple[int, int]:
        """The numbers of rows and columns in a block."""
        return self.dtype.shape if isinstance(self.dtype, CompositeType) else (1, 1)

    @property
    def block_size(self) -> int:
        """The number of numbers in a block."""
        return self.block_shape[0] * self.block_shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns of scalars."""
        return self.nrow * self.block_shape[0], self.ncol * self.block_shape[1]

    @property
    def device(self) -> Any:
        """The device of its arrays."""
        return self.offsets.device

    @property
    def requires_grad(self) -> bool:
        """True where its values have gradients."""
        return self.values.requires_grad

    @property
    def scalar_values(self) -> array:
        """A three-dimensional view of the values as numbers."""
        return scalars_of(self.values, self.block_shape)

    def uncompress_rows(self, out: array | None = None) -> array:
        """The row of each of the first `nnz` blocks; -1 for blocks that belong to no row.

        Args:
            out: An array of int32 with at least `nnz` elements that receives them. Default: a new one.

        Raises:
            KernelTypeError, LaunchError: `out` is not such an array, or is too small.
        """
        if out is None:
            out = empty(self.nnz, dtype=int32, device=self.device)
        elif not isinstance(out, array) or out.dtype is not int32 or out.ndim != 1:
            raise KernelTypeError(f"uncompress_rows: out must be an array of int32 of one dimension, not {out!r}")
        elif out.size < self.nnz:
            raise LaunchError(f"uncompress_rows: out has {out.size} elements, {self.nnz} are needed")
        list_rows(self.nrow, self.offsets, self.row_counts, self.columns, out[: self.nnz])
        return out

    def nnz_sync(self) -> int:
        """Read the exact `nnz` from `offsets`, and return it.

        Raises:
            LaunchError: A capture is open.
        """
        if self.device.is_capturing:
            raise LaunchError(
                "BsrMatrix.nnz_sync: the number of blocks is not known before the capture runs (a device-to-host "
                "readback)",
                hint="give a bound (nnz_capacity=, max_new_nnz=), or ask after the capture",
                also=RuntimeError,
            )
        offsets = self.offsets.numpy()
        if len(offsets) <= self.nrow:
            raise LaunchError(f"BsrMatrix.nnz_sync: {len(offsets)} offsets for a matrix of {self.nrow} rows")
        self.nnz = max(int(offsets[self.nrow]), 0)
        return self.nnz

    def copy_nnz_async(self) -> None:
        """Has no effect: `nnz_sync` reads the number itself. Warp has deprecated this method."""
        warnings.warn("BsrMatrix.copy_nnz_async is deprecated, call nnz_sync", DeprecationWarning, stacklevel=2)

    def notify_nnz_changed(self, nnz: int | None = None, nnz_capacity: int | None = None) -> None:
        """Report a change of `offsets` or `nnz`. Arrays that are too small are replaced by larger ones.

        Args:
            nnz: The number of blocks, or an upper bound. Default: the number in `offsets`.
            nnz_capacity: The number of blocks to have room for.
        """
        if nnz is None:
            nnz = self.nnz_sync() if nnz_capacity is None else nnz_capacity
        ensure_fits(self, nnz, nnz_capacity)

    def status(self) -> array:
        """The array of one number that operations set if a row has too little room."""
        found = vars(self).get("_status")
        if found is None:
            found = self._status = zeros(1, dtype=int32, device=self.device)
        return found

    def status_sync(self) -> int:
        """The fault of operations with `topology="padded"`, a `BSR_STATUS_…` value, until `clear_status`."""
        if vars(self).get("_status") is None:
            return BSR_STATUS_SUCCESS
        if self.device.is_capturing:
            raise LaunchError(
                "BsrMatrix.status_sync: cannot read sparse status during a live CUDA graph capture, or one of the host",
                hint="ask after the capture has run",
                also=RuntimeError,
            )
        return int(self._status.numpy()[0])

    def status_message(self) -> str:
        """`status_sync` as a message."""
        return _MESSAGES[self.status_sync()]

    def clear_status(self) -> None:
        """Reset the status."""
        if vars(self).get("_status") is not None:
            self._status.zero_()

    def transpose(self) -> BsrMatrix:
        """A transposed copy."""
        return OPERATIONS["bsr_transposed"](self)

    def __iadd__(self, y: Any) -> BsrMatrix:
        return OPERATIONS["bsr_axpy"](y, self)

    def __isub__(self, y: Any) -> BsrMatrix:
        return OPERATIONS["bsr_axpy"](y, self, alpha=-1.0)

    def __imul__(self, y: Any) -> BsrMatrix:
        return OPERATIONS["bsr_scale"](self, y)

    def __imatmul__(self, y: Any) -> BsrMatrix:
        return OPERATIONS["bsr_mm"](self, y, self)

    def __repr__(self) -> str:
        kind = type_repr(self.dtype)
        return f"BsrMatrix({self.nrow} x {self.ncol} blocks of {kind}, at most {self.nnz} of them stored)"


class Multiple(_Operators):
    """A matrix times a number, which is not computed before it is needed."""

    def __init__(self, mat: BsrMatrix, scale: Any):
        self.mat, self.scale = mat, scale

    def eval(self) -> BsrMatrix:
        """The product as a matrix."""
        return OPERATIONS["bsr_copy"](self)

    def transpose(self) -> Multiple:
        """The transposed product."""
        return Multiple(self.mat.transpose(), self.scale)

    def __getattr__(self, name: str) -> Any:
        if name in _OF_THE_MATRIX:
            return getattr(self.mat, name)
        raise AttributeError(f"a multiple of a BsrMatrix has no attribute '{name}'; eval() makes a matrix of it")


_OF_THE_MATRIX = frozenset(
    ("nrow", "ncol", "nnz", "offsets", "row_counts", "columns", "device", "requires_grad")
    + ("scalar_type", "block_shape", "block_size", "shape", "dtype")
)


def bsr_matrix_t(dtype: Any) -> type[BsrMatrix]:
    """The class of matrices with blocks of a type.

    Raises:
        KernelTypeError: Blocks are neither scalars nor matrices.
    """
    kind = {float: float32, int: int32}.get(dtype, dtype)
    is_matrix = isinstance(kind, CompositeType) and len(kind.shape) == 2 and kind == matrix(kind.shape, kind.dtype)
    if not is_matrix and not isinstance(kind, ScalarType):
        shown = type_repr(kind)
        raise KernelTypeError(
            f"BsrMatrix block type must be either warp matrix or scalar; got {shown}", also=ValueError
        )
    return _class_of(kind)


@cached(256)
def _class_of(dtype: Any) -> type[BsrMatrix]:
    return register_pytree(type(f"BsrMatrix[{type_repr(dtype)}]", (BsrMatrix,), {"block_type": dtype}))


def matrix_and_scale(A: Any) -> tuple[BsrMatrix, Any]:
    """A matrix and what it is multiplied by; a KernelTypeError for anything else."""
    if isinstance(A, Multiple):
        return A.mat, A.scale
    if isinstance(A, BsrMatrix):
        if "values" not in vars(A):
            raise LaunchError("wp.sparse: a BsrMatrix without arrays", hint="bsr_zeros makes one")
        return A, 1.0
    raise KernelTypeError(f"wp.sparse: a BsrMatrix, or a multiple of one, is needed, not {A!r}", also=ValueError)


def ensure_fits(bsr: BsrMatrix, nnz: int, capacity: int | None = None) -> None:
    """Set `nnz`, and replace arrays that are too small for it, or for `capacity`."""
    nnz = number("wp.sparse", "nnz", nnz)
    capacity = nnz if capacity is None else number("wp.sparse", "nnz_capacity", capacity)
    if nnz < 0 or capacity < nnz:
        raise LaunchError(f"wp.sparse: capacity must be at least nnz, and both not negative, got {capacity} and {nnz}")
    bsr.nnz = nnz
    if bsr.columns.size < capacity:
        bsr.columns = empty(capacity, dtype=int32, device=bsr.device)
    if bsr.values.size < capacity:
        old = bsr.values
        bsr.values = empty(capacity, dtype=old.dtype, device=old.device, requires_grad=old.requires_grad)


def scalars_of(values: array, block_shape: tuple[int, int]) -> array:
    """A view of blocks as numbers, of three dimensions."""
    if values.ndim == 3:
        return values
    flat = values.view(values.dtype.dtype) if isinstance(values.dtype, CompositeType) else values
    return flat.reshape((values.shape[0], *block_shape))


def list_rows(nrow: int, offsets: array, row_counts: array | None, columns: array, out: array) -> None:
    """Write the rows of blocks; -1 for those that belong to none."""
    out.fill_(-1)
    launch(_list_rows, (nrow, 1), [offsets, row_counts, columns, out], device=out.device, record_tape=False)


@kernel(enable_backward=False)
def _list_rows(offsets: array[int], row_counts: array[int], columns: array[int], out: array[int]) -> None:
    row, _ = tid()
    for block in range(row_begin(offsets, row), row_end(offsets, row_counts, columns, row)):
        out[block] = row
