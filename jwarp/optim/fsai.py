"""`FSAI`: sparse approximate inverses of matrices in factored form, whose sparsity is found from their values."""

from __future__ import annotations

from typing import Any

from jwarp.api.array_functions import array_scan
from jwarp.api.launch import launch
from jwarp.arrays.array import array
from jwarp.arrays.create import clone, empty
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.optim.fsai_rows import Rows, apply_factor, list_transposed, transpose_values
from jwarp.optim.operators import LinearOperator, numbers
from jwarp.sparse.matrix import BsrMatrix
from jwarp.sparse.storage import bsr_zeros
from jwarp.sparse.structure import structure_of
from jwarp.types import float16, float32, float64, int32, type_repr, types_equal

_PIVOT_FLOORS = {float16: 1e-3, float32: 1e-6, float64: 1e-12}


class FSAI(LinearOperator):
    """A sparse approximate inverse `G.T @ G` of a matrix that is symmetric and positive definite.

    `G` is lower triangular. Its row `i` has entries in columns `S`, where `i` is the last one of `S`, such that
    `G[i, S]` is `z / sqrt(z[i])` for `A[S, S] @ z = e[i]`. `S` is grown from `[i]` by those columns before `i` in
    which the residual of that equation is largest, for the matrix that is scaled to a unit diagonal.
    Source: C. Janna, M. Ferronato, "Adaptive pattern research for block FSAI preconditioning", SIAM J. Sci. Comput.
    33 (2011), 3357-3380, https://doi.org/10.1137/100810368.

    It is an operator for `M=` of `cg` and `cr`. Nothing of it has derivatives.

    Args:
        A: A `BsrMatrix` of shape (n, n) with square blocks, of float16, float32 or float64, with both triangles. That
            it is symmetric and positive definite is not checked.
        max_row_size: The most entries of a row of `G`, from 1 to 64; with 1 the diagonal is inverted.
        kap_tolerance: A row grows no further once a step lessens `1 / z[i]` by no more than this part of it; in
            [0, 1), where 0 is for rows that grow as long as they can.
        pivot_floor: A row ends before a pivot of its Cholesky factorization that is no greater, in (0, 1); 1e-3 for
            float16, 1e-6 for float32 and 1e-12 for float64 where it is left out.
        factor_dtype: The type of the numbers of `G`: that of `A`, or float32 for a matrix of float64.
        reuse_pattern: `update` is going to be called. The matrix must have rows without room to spare.
        max_step_size: The most columns that a row grows by at once, from 1 to 64.
        regularize_refit: `update` keeps going where rows fail: pivots are raised to `pivot_floor`, and rows that have
            no factorization for another reason, or no positive diagonal, become diagonal.
        validate_topology: `update` refuses matrices with other blocks than those of `A`. Without it, it is up to the
            caller that they are the same; values of other ones would be taken for them.
        defer_pattern: The columns of `G` are found by the first `update` that succeeds, which can be captured; values
            of `A` are not read before. Until then the operator is the identity.

    Attributes:
        G: The factor, a `BsrMatrix` of numbers in which columns rise.
        GT: Its transpose.
        truncated_rows: How many rows ended before a pivot that was too small; None with `defer_pattern`.
        source: The matrix of the last `update` that succeeded.
        update_status: An array of four int32, of the last update: how many blocks are elsewhere, how many entries of
            the diagonal are not positive and finite, how many rows had no factorization, and of how many pivots were
            raised. None without `reuse_pattern`.
        pattern_ready: An array of one int32, which is 1 once columns were found; None without `defer_pattern`.
        pattern_status: An array of three int32, of which the second is how many rows ended before a pivot that was too
            small, and the third how many had no finite entries or no positive diagonal; None without `defer_pattern`.

    Raises:
        KernelTypeError: the matrix is of numbers of another type.
        LaunchError: the matrix is not square, its diagonal or `G` is not positive and finite, or an option has a value
            that it cannot have.

    Example:
        >>> M = wp.optim.linear.FSAI(A, max_row_size=16, reuse_pattern=True)
        >>> wp.optim.linear.cg(A, b, x, M=M)
        >>> A.values.assign(new_values)
        >>> wp.optim.linear.cg(A, b, x, M=M.update())
    """

    def __init__(
        self,
        A: BsrMatrix,
        max_row_size: int = 8,
        kap_tolerance: float = 1e-3,
        pivot_floor: float | None = None,
        factor_dtype: Any = None,
        reuse_pattern: bool = False,
        max_step_size: int = 1,
        regularize_refit: bool = False,
        validate_topology: bool = True,
        defer_pattern: bool = False,
    ):
        _check_matrix(A)
        scalar = A.scalar_type
        floor = _PIVOT_FLOORS[scalar] if pivot_floor is None else pivot_floor
        kind = {None: scalar, float: float32}.get(factor_dtype, factor_dtype)
        for name, size in (("max_row_size", max_row_size), ("max_step_size", max_step_size)):
            if not isinstance(size, int) or not 1 <= size <= 64:
                raise LaunchError(f"FSAI: {name} is a whole number from 1 to 64, not {size!r}")
        if not 0 <= kap_tolerance < 1:
            raise LaunchError(f"FSAI: kap_tolerance is in [0, 1), not {kap_tolerance!r}")
        if not 0 < floor < 1:
            raise LaunchError(f"FSAI: pivot_floor is in (0, 1), not {floor!r}")
        if not types_equal(kind, scalar) and not (types_equal(scalar, float64) and types_equal(kind, float32)):
            raise LaunchError(
                f"FSAI: factor_dtype is that of the matrix, {type_repr(scalar)}, or float32 for float64, not {kind!r}"
            )
        if reuse_pattern and A.row_counts is not None:
            raise LaunchError(
                "FSAI: reuse_pattern is for compact matrices, whose rows have no room to spare",
                hint="bsr_compress(A, prune_numerical_zeros=False)",
            )
        if defer_pattern and not reuse_pattern:
            raise LaunchError("FSAI: defer_pattern needs reuse_pattern=True")
        super().__init__(A.shape, A.dtype, A.device, self._multiply)
        self.max_row_size, self.max_step_size, self.factor_dtype = max_row_size, max_step_size, kind
        self.source = A
        limits = {"width": max_row_size, "step": max_step_size, "tolerance": kap_tolerance, "floor": floor}
        rows = Rows(A, kind, **limits, regularizes=regularize_refit, compares=reuse_pattern and validate_topology)
        self._refit = rows if reuse_pattern else None
        self.truncated_rows: int | None = None
        self.update_status = rows.status if reuse_pattern else None
        self.pattern_ready = rows.ready if defer_pattern else None
        self.pattern_status = rows.pattern_status if defer_pattern else None
        self.G, self.GT = (_empty_factor(A.shape[0], rows.values.size, kind, A.device) for _ in range(2))
        rows.set_identity()
        if defer_pattern:
            self._publish(rows)
            return
        rows.prepare(A)
        rows.check_diagonal()
        rows.select()
        rows.fit()
        self.truncated_rows = rows.check_pattern()
        self._publish(rows)
        rows.make_ready()
        rows.published = True
        for each in (self.G, self.GT):  # and no more memory than they need
            count = each.nnz_sync()
            each.columns, each.values = clone(each.columns[:count]), clone(each.values[:count])
            self._order = clone(self._order[:count])

    def update(self, A: BsrMatrix | None = None) -> FSAI:
        """Compute `G` for other values of the matrix. Where that fails, it stays as it is.

        In a capture nothing is raised: `update_status` says how it went.

        Args:
            A: A matrix with the blocks that the first one has; the last one, with the values that it has now, where it
                is left out.

        Returns:
            The operator.

        Raises:
            LaunchError: it was made without `reuse_pattern`, the matrix is another one, its blocks are elsewhere, or
                rows have no factorization.
        """
        if self._refit is None:
            raise LaunchError("FSAI.update: it needs reuse_pattern=True when it is made")
        A = self.source if A is None else A
        if not isinstance(A, BsrMatrix):
            raise LaunchError(f"FSAI.update: a BSR matrix is needed, not {A!r}")
        rows = self._refit
        rows.prepare(A)
        is_capturing = A.device.is_capturing
        finds_pattern = self.pattern_ready is not None and (is_capturing or not rows.published)
        if finds_pattern:
            rows.select()
        rows.fit()
        if finds_pattern:
            self._publish(rows)
            rows.make_ready()
        else:
            rows.pack(self.G)
            self._transpose()
        if not is_capturing:
            if rows.may_fail:
                rows.check()
            if not rows.published:
                rows.published = bool(rows.ready.numpy()[0])
        self.source = A
        return self

    def _publish(self, rows: Rows) -> None:
        """Give the factors the columns that were found and their values, unless these are refused."""
        G, GT = self.G, self.GT
        rows.accept()
        if G.nrow:
            array_scan(rows.sizes, G.offsets[1:], inclusive=True)
        rows.pack(G)
        listed = [empty(G.columns.size, dtype=int32, device=G.device) for _ in range(2)]
        launch(list_transposed, G.columns.size, [G.offsets, G.columns, *listed], device=G.device, record_tape=False)
        self._order = structure_of(G.nrow, *listed, into=(GT.offsets, GT.columns)).order
        self._transpose()

    def _transpose(self) -> None:
        given = [self.G.offsets, self._order, self.G.values, self.GT.values]
        launch(transpose_values, self._order.size, given, device=self.G.device, record_tape=False)

    def _multiply(self, x: array, y: array, z: array, alpha: Any, beta: Any) -> None:
        kind = self.scalar_type
        of_sums = float32 if kind is float16 else kind
        between = empty(self.shape[0], dtype=of_sums, device=self.device)
        for factor, (a, b, c), scale, rest in (
            (self.G, (numbers(x), between, between), 1.0, 0.0),
            (self.GT, (between, numbers(y), numbers(z)), alpha, beta),
        ):
            given = [of_sums(scale), of_sums(rest), factor.offsets, factor.columns, factor.values, a, b, c]
            launch(apply_factor, (self.shape[0], 1), given, device=self.device, record_tape=False)


def _check_matrix(A: Any) -> None:
    if not isinstance(A, BsrMatrix) or A.shape[0] != A.shape[1] or A.block_shape[0] != A.block_shape[1]:
        raise LaunchError(f"FSAI: a square BsrMatrix with square blocks is needed, not {A!r}")
    if A.scalar_type not in _PIVOT_FLOORS:
        raise KernelTypeError(
            f"FSAI: a matrix of float16, float32 or float64 is needed, not {type_repr(A.scalar_type)}"
        )


def _empty_factor(size: int, capacity: int, kind: Any, device: Any) -> BsrMatrix:
    made = bsr_zeros(size, size, kind, device)
    made.notify_nnz_changed(nnz=capacity)
    return made
