"""The rows of a factor of an `FSAI`: which columns they have, and their values, each row by itself.

A row's columns are kept in the order in which it grew, from the diagonal on: pivots of a later factorization are then
those by which the columns were found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.api.launch import launch
from jwarp.arrays.array import array, array2d
from jwarp.arrays.create import clone, empty, zeros
from jwarp.errors import LaunchError
from jwarp.frontend.builtins.atomic import atomic_add
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import abs, isfinite, max, min, sqrt
from jwarp.frontend.func import func
from jwarp.frontend.kernel import kernel
from jwarp.sparse.copies import bsr_assign, bsr_copy
from jwarp.sparse.matrix import BsrMatrix
from jwarp.sparse.rows import bsr_block_index, bsr_row_index
from jwarp.types import float16, float32, int32

# Elements of the working memory of all workers together, unless one needs more.
_ELEMENTS = 2**20
_ELEMENTS_ON_GPUS = 2**24

# Places in `status`.
_MOVED, _DIAGONAL, _FAILED, _RAISED = range(4)


class Rows:
    """The rows that are found and computed, before they become those of a factor.

    Attributes:
        supports: The columns of each row in the order in which it grew, of shape (n, width).
        found: How many there are, of shape (n,); `sizes`, how many the factor has.
        values: Their values, of shape (n, width).
        status, ready, pattern_status: As `FSAI` has them.
    """

    def __init__(
        self,
        A: BsrMatrix,
        kind: Any,
        *,
        width: int,
        step: int,
        tolerance: float,
        floor: float,
        regularizes: bool,
        compares: bool,
    ):
        count, device = A.shape[0], A.device
        self.regularizes = regularizes
        self.may_fail = compares or not regularizes
        self.published = False
        self._alike = _what_is_alike(A)
        self._blocks = (clone(A.offsets[: A.nrow + 1]), clone(A.columns[: A.nnz])) if compares else ()
        # The entries of the matrix, in rows in which columns rise.
        self._entries = bsr_copy(A, block_shape=(1, 1))
        self._numbers = float32 if A.scalar_type is float16 else A.scalar_type
        self._tolerance, self._floor, self._step = tolerance, floor, step
        self._scale = empty(count, dtype=self._numbers, device=device)
        self.supports = empty((count, width), dtype=int32, device=device)
        self.values = empty((count, width), dtype=kind, device=device)
        self.found, self.sizes = (empty(count, dtype=int32, device=device) for _ in range(2))
        self.status, self.pattern_status, self.ready = (zeros(size, dtype=int32, device=device) for size in (4, 3, 1))
        of_worker = width * width + 2 * width + step
        most = (_ELEMENTS_ON_GPUS if device.is_cuda else _ELEMENTS) // of_worker
        workers = int(np.clip(most, 1, count + 1))
        self._working = empty((workers, of_worker), dtype=self._numbers, device=device)
        self._cursors = empty((workers, width + step), dtype=int32, device=device)

    def set_identity(self) -> None:
        """Give each row a one on the diagonal."""
        given = [self.supports, self.found, self.sizes, self.values]
        launch(_set_identity, self.sizes.size, given, device=self.sizes.device, record_tape=False)

    def prepare(self, A: BsrMatrix) -> None:
        """Take the values of a matrix, and compare where its blocks are."""
        if _what_is_alike(A) != self._alike:
            raise LaunchError(
                "FSAI.update: a matrix of the original shape, dtype, device and number of blocks is needed"
            )
        self.status.zero_()
        if self._blocks:
            offsets, columns = self._blocks
            for old, new, ends in ((offsets, A.offsets, None), (columns, A.columns, offsets)):
                launch(_compare, old.size, [old, new, ends, self.status], device=A.device, record_tape=False)
        bsr_assign(self._entries, A, topology="masked")
        given = [*self._matrix(), self._scale, self.status]
        launch(_scale_diagonal, self._scale.size, given, device=A.device, record_tape=False)

    def select(self) -> None:
        """Find the columns of rows, unless that was done."""
        launch(_reset, 1, [self.ready, self.pattern_status], device=self.ready.device, record_tape=False)
        numbers = [self._numbers(self._tolerance), self._numbers(self._floor), self._step, self.ready]
        given = [*self._matrix(), self._scale, *numbers, self._working, self._cursors]
        into = [self.supports, self.found, self.pattern_status]
        launch(_select, (self._working.shape[0], 1), [*given, *into], device=self.ready.device, record_tape=False)

    def fit(self) -> None:
        """Compute the values of the columns that were found."""
        numbers = [self._numbers(self._floor), int(self.regularizes)]
        given = [*self._matrix(), self._scale, *numbers, self.supports, self.found, self._working]
        into = [self.values, self.status]
        launch(_fit, (self._working.shape[0], 1), [*given, *into], device=self.ready.device, record_tape=False)

    def accept(self) -> None:
        """Let the factor have as many columns as were found, unless their values are refused."""
        given = [self.status, int(self.regularizes), self.found, self.sizes]
        launch(_accept, self.sizes.size, given, device=self.ready.device, record_tape=False)

    def pack(self, factor: BsrMatrix) -> None:
        """Write columns and values to a factor that has its offsets, unless they are refused."""
        given = [self.supports, self.sizes, self.values, self.status, int(self.regularizes)]
        into = [factor.offsets, factor.columns, factor.values]
        launch(_pack, self.sizes.size, [*given, *into], device=factor.device, record_tape=False)

    def make_ready(self) -> None:
        """Keep the columns that were found from now on, unless their values are refused."""
        given = [self.status, int(self.regularizes), self.ready, self.pattern_status]
        launch(_make_ready, 1, given, device=self.ready.device, record_tape=False)

    def check_diagonal(self) -> None:
        """A LaunchError unless the diagonal is positive and finite."""
        if self.status.numpy()[_DIAGONAL]:
            raise LaunchError("FSAI: a matrix with finite positive diagonals is needed")

    def check_pattern(self) -> int:
        """The number of rows that ended early; a LaunchError where values cannot be stored."""
        if self.status.numpy()[_FAILED]:
            raise LaunchError(
                "FSAI: the factor has no finite entries with a positive diagonal, in the type it is kept in"
            )
        return int(self.pattern_status.numpy()[1])

    def check(self) -> None:
        """A LaunchError for an update that was refused."""
        moved, diagonal, failed, _ = self.status.numpy()
        if moved:
            raise LaunchError(
                "FSAI.update: blocks are elsewhere than in the matrix that it was made of: another sparsity",
                hint="make another FSAI",
            )
        if (diagonal or failed) and not self.regularizes:
            raise LaunchError("FSAI.update: finite positive diagonals and SPD local matrices are needed")

    def _matrix(self) -> list[array]:
        return [self._entries.offsets, self._entries.columns, self._entries.scalar_values.flatten()]


def _what_is_alike(A: BsrMatrix) -> tuple[Any, ...]:
    return A.shape, A.dtype, str(A.device), A.row_counts is None


@kernel(enable_backward=False)
def _set_identity(supports: array2d[int], found: array[int], sizes: array[int], values: array2d[Any]) -> None:
    row = tid()
    supports[row, 0] = row
    values[row, 0] = values.dtype(1.0)
    found[row] = 1
    sizes[row] = 1


@kernel(enable_backward=False)
def _compare(old: array[int], new: array[int], ends: array[int], status: array[int]) -> None:
    i = tid()
    count = old.shape[0]
    if ends:
        count = ends[ends.shape[0] - 1]
    if i < count and (i >= new.shape[0] or old[i] != new[i]):
        atomic_add(status, 0, 1)


@kernel(enable_backward=False)
def _scale_diagonal(
    offsets: array[int], columns: array[int], values: array[Any], scale: array[Any], status: array[int]
) -> None:
    row = tid()
    at = bsr_block_index(row, row, offsets, columns)
    found = scale.dtype(0.0)
    if at >= 0:
        found = scale.dtype(values[at])
    if found > scale.dtype(0.0) and isfinite(found):
        scale[row] = scale.dtype(1.0) / sqrt(found)
    else:
        scale[row] = scale.dtype(0.0)
        atomic_add(status, 1, 1)


@kernel(enable_backward=False)
def _reset(ready: array[int], pattern_status: array[int]) -> None:
    if ready[0] == 0:
        pattern_status[1] = 0
        pattern_status[2] = 0


@func
def _add_pivot(
    offsets: array[int],
    columns: array[int],
    values: array[Any],
    scale: array[Any],
    supports: array2d[int],
    row: int,
    size: int,
    column: int,
    working: array2d[Any],
    worker: int,
) -> Any:
    """Write the next row of a Cholesky factor, but for its pivot, whose square is returned.

    The factor is that of the rows and columns `supports[row]` of the matrix that is scaled to a unit diagonal.
    """
    width = supports.shape[1]
    square = scale.dtype(1.0)
    for p in range(size):
        at = bsr_block_index(column, supports[row, p], offsets, columns)
        total = scale.dtype(0.0)
        if at >= 0:
            total = scale.dtype(values[at]) * scale[column] * scale[supports[row, p]]
        for q in range(p):
            total -= working[worker, p * width + q] * working[worker, size * width + q]
        total /= working[worker, p * width + p]
        working[worker, size * width + p] = total
        square -= total * total
    return square


@func
def _add_solution(working: array2d[Any], worker: int, width: int, size: int, pivot: Any) -> int:
    """Write a pivot, and one more element of the solution of `factor @ v = e[0]`."""
    working[worker, size * width + size] = pivot
    total = working.dtype(0.0)
    if size == 0:
        total = working.dtype(1.0)
    for p in range(size):
        total -= working[worker, size * width + p] * working[worker, width * width + p]
    working[worker, width * width + size] = total / pivot
    return size + 1


@func
def _solve_transposed(working: array2d[Any], worker: int, width: int, size: int) -> Any:
    """Solve `factor.T @ z = v`, and return `z[0]`."""
    v = width * width
    z = v + width
    for back in range(size):
        p = size - 1 - back
        total = working[worker, v + p]
        for q in range(p + 1, size):
            total -= working[worker, q * width + p] * working[worker, z + q]
        working[worker, z + p] = total / working[worker, p * width + p]
    return working[worker, z]


@kernel(enable_backward=False)
def _select(
    offsets: array[int],
    columns: array[int],
    values: array[Any],
    scale: array[Any],
    tolerance: Any,
    floor: Any,
    step: int,
    ready: array[int],
    working: array2d[Any],
    cursors: array2d[int],
    supports: array2d[int],
    found: array[int],
    pattern_status: array[int],
) -> None:
    """Grow the columns of rows by those before the diagonal where residuals are largest.

    Columns are looked through by a merge of the rows of the columns that there are, each of which has a cursor.
    """
    worker, _ = tid()
    if ready[0] != 0:
        return
    width = supports.shape[1]
    z = width * width + width
    scores = z + width
    for row in range(worker, scale.shape[0], working.shape[0]):
        supports[row, 0] = row
        size = _add_solution(working, worker, width, 0, scale.dtype(1.0))
        working[worker, z] = scale.dtype(1.0)
        grows = scale[row] > scale.dtype(0.0)
        while grows and size < width:
            limit = min(step, width - size)
            count = 0
            for p in range(size):
                cursors[worker, p] = offsets[supports[row, p]]
            merges = True
            while merges:
                column = row
                for p in range(size):
                    at = cursors[worker, p]
                    if at < offsets[supports[row, p] + 1]:
                        column = min(column, columns[at])
                merges = column < row
                if merges:
                    is_new = True
                    residual = scale.dtype(0.0)
                    for p in range(size):
                        at = cursors[worker, p]
                        if at < offsets[supports[row, p] + 1] and columns[at] == column:
                            residual += scale.dtype(values[at]) * scale[supports[row, p]] * working[worker, z + p]
                            cursors[worker, p] = at + 1
                        if supports[row, p] == column:
                            is_new = False
                    score = abs(residual * scale[column])
                    if is_new and score > scale.dtype(0.0):
                        place = count
                        while place > 0 and working[worker, scores + max(place, 1) - 1] < score:
                            if place < limit:
                                working[worker, scores + place] = working[worker, scores + place - 1]
                                cursors[worker, width + place] = cursors[worker, width + place - 1]
                            place -= 1
                        if place < limit:
                            working[worker, scores + place] = score
                            cursors[worker, width + place] = column
                            count = min(count + 1, limit)
            before = working[worker, z]
            grows = count > 0
            for c in range(count):
                if grows:
                    column = cursors[worker, width + c]
                    square = _add_pivot(offsets, columns, values, scale, supports, row, size, column, working, worker)
                    if square > floor and isfinite(square):
                        supports[row, size] = column
                        size = _add_solution(working, worker, width, size, sqrt(square))
                    else:
                        atomic_add(pattern_status, 1, 1)
                        grows = False
            after = _solve_transposed(working, worker, width, size)
            if tolerance > scale.dtype(0.0) and scale.dtype(1.0) - before / after <= tolerance:
                grows = False
        found[row] = size


@kernel(enable_backward=False)
def _fit(
    offsets: array[int],
    columns: array[int],
    values: array[Any],
    scale: array[Any],
    floor: Any,
    regularizes: int,
    supports: array2d[int],
    found: array[int],
    working: array2d[Any],
    out: array2d[Any],
    status: array[int],
) -> None:
    worker, _ = tid()
    width = supports.shape[1]
    for row in range(worker, scale.shape[0], working.shape[0]):
        count = found[row]
        size = _add_solution(working, worker, width, 0, scale.dtype(1.0))
        is_valid = True
        is_raised = False
        while size < count:
            square = _add_pivot(
                offsets, columns, values, scale, supports, row, size, supports[row, size], working, worker
            )
            if not isfinite(square):
                is_valid = False
                square = scale.dtype(1.0)
            elif square <= floor:
                square = floor
                is_raised = True
            size = _add_solution(working, worker, width, size, sqrt(square))
        norm = sqrt(_solve_transposed(working, worker, width, size))
        for p in range(count):
            value = out.dtype(working[worker, width * width + width + p] / norm * scale[supports[row, p]])
            out[row, p] = value
            if not isfinite(value) or (p == 0 and not value > out.dtype(0.0)):
                is_valid = False
        if is_raised and regularizes == 0:
            is_valid = False
        if not is_valid:
            atomic_add(status, 2, 1)
            if regularizes != 0:
                alone = out.dtype(scale[row])
                if not (isfinite(alone) and alone > out.dtype(0.0)):
                    alone = out.dtype(1.0)
                for p in range(1, count):
                    out[row, p] = out.dtype(0.0)
                out[row, 0] = alone
        elif is_raised:
            atomic_add(status, 3, 1)


@func
def _is_accepted(status: array[int], regularizes: int) -> bool:
    return status[0] == 0 and (regularizes != 0 or (status[1] == 0 and status[2] == 0))


@kernel(enable_backward=False)
def _accept(status: array[int], regularizes: int, found: array[int], sizes: array[int]) -> None:
    row = tid()
    if _is_accepted(status, regularizes):
        sizes[row] = found[row]


@kernel(enable_backward=False)
def _make_ready(status: array[int], regularizes: int, ready: array[int], pattern_status: array[int]) -> None:
    if ready[0] == 0:
        pattern_status[2] = status[2]
        if _is_accepted(status, regularizes):
            ready[0] = 1


@kernel(enable_backward=False)
def _pack(
    supports: array2d[int],
    sizes: array[int],
    values: array2d[Any],
    status: array[int],
    regularizes: int,
    offsets: array[int],
    columns: array[int],
    out: array[Any],
) -> None:
    row = tid()
    if _is_accepted(status, regularizes):
        for p in range(sizes[row]):
            place = offsets[row]
            for q in range(sizes[row]):
                if supports[row, q] < supports[row, p]:
                    place += 1
            columns[place] = supports[row, p]
            out[place] = values[row, p]


@kernel(enable_backward=False)
def list_transposed(offsets: array[int], columns: array[int], rows: array[int], of_columns: array[int]) -> None:
    """Write which rows and columns the entries of a matrix have in its transpose; -1 for rows of none."""
    entry = tid()
    row = bsr_row_index(offsets, offsets.shape[0] - 1, entry)
    rows[entry] = -1
    of_columns[entry] = row
    if row >= 0:
        rows[entry] = columns[entry]


@kernel(enable_backward=False)
def transpose_values(offsets: array[int], order: array[int], values: array[Any], out: array[Any]) -> None:
    entry = tid()
    if entry < offsets[offsets.shape[0] - 1]:
        out[entry] = values[order[entry]]


@kernel(enable_backward=False)
def apply_factor(
    alpha: Any,
    beta: Any,
    offsets: array[int],
    columns: array[int],
    values: array[Any],
    x: array[Any],
    y: array[Any],
    z: array[Any],
) -> None:
    """Set `z` to `alpha * factor @ x + beta * y`, with sums of the type of `alpha`."""
    row, _ = tid()
    total = type(alpha)(0.0)
    if alpha != type(alpha)(0.0):
        for entry in range(offsets[row], offsets[row + 1]):
            total += type(alpha)(values[entry]) * type(alpha)(x[columns[entry]])
        total *= alpha
    if beta != type(alpha)(0.0):
        total += beta * type(alpha)(y[row])
    z[row] = z.dtype(total)
