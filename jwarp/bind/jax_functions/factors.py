"""Formulas in jax.numpy for the factors of small matrices: eigenvalues, singular values, QR.

Jacobi's method makes sweeps until one finds nothing left to do. Derivatives are those that JAX has for the primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# Rows or columns, at most, and how often all pairs of these are made orthogonal: Jacobi's method ends quadratically,
# and takes more than ten sweeps only of matrices that are made for that.
MAX_SIZE, MAX_SWEEPS = 8, 30

Rows = list[list[Any]]


def eigh(a: Any, *, lower: bool, subset_by_index: Any, sort_eigenvalues: bool, **_: Any) -> tuple[Any, Any]:
    """Eigenvectors as columns, and eigenvalues in ascending order, of a symmetric matrix: cyclic Jacobi.

    G. Golub and C. Van Loan, "Matrix Computations", 4th edition, section 8.5.
    """
    n = _size(a)
    if subset_by_index not in (None, (0, n)):
        raise NotImplementedError("some of the eigenvalues")
    own = [
        [a[..., max(i, j), min(i, j)] if lower else a[..., min(i, j), max(i, j)] for j in range(n)] for i in range(n)
    ]

    small = jnp.finfo(a.dtype).eps * jnp.sqrt(sum(_dot(row, row) for row in own))

    def sweep(a: Rows, v: Rows) -> Any:
        again: Any = False
        for p, q in _pairs(n):
            again = again | (jnp.abs(a[p][q]) > small)
            c, s = _rotation(a[p][p], a[q][q], a[p][q])
            for rows in (a, v):
                for row in rows:
                    row[p], row[q] = c * row[p] - s * row[q], s * row[p] + c * row[q]
            above, below = a[p], a[q]
            a[p] = [c * x - s * y for x, y in zip(above, below, strict=True)]
            a[q] = [s * x + c * y for x, y in zip(above, below, strict=True)]
        return again

    a, v = _swept(sweep, own, _identity(n, a))
    columns = [[row[j] for row in v] for j in range(n)]
    values, columns = _sorted([a[j][j] for j in range(n)], columns, lambda x, y: x > y)
    return _matrix(columns, True), jnp.stack(values, -1)


def svd(a: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, **_: Any) -> tuple[Any, ...]:
    """Singular values in descending order, and the orthogonal matrices on both sides: one-sided Jacobi.

    G. Golub and C. Van Loan, section 8.6.3. The columns that it leaves are orthogonal and sorted, so that their QR
    factors are the left vectors and a diagonal, whatever the rank.
    """
    if subset_by_index is not None:
        raise NotImplementedError("some of the singular values")
    _size(a)
    m, n = a.shape[-2:]
    if m < n:
        turned = jnp.swapaxes(a, -1, -2)
        values, *sides = svd(turned, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=None)
        return (values, *(jnp.swapaxes(x, -1, -2) for x in sides[::-1]))
    small = jnp.finfo(a.dtype).eps

    def sweep(w: Rows, v: Rows) -> Any:
        again: Any = False
        for p, q in _pairs(n):
            first, second, between = _dot(w[p], w[p]), _dot(w[q], w[q]), _dot(w[p], w[q])
            again = again | (jnp.abs(between) > small * jnp.sqrt(first) * jnp.sqrt(second))
            c, s = _rotation(first, second, between)
            for columns in (w, v):
                left, right = columns[p], columns[q]
                columns[p] = [c * x - s * y for x, y in zip(left, right, strict=True)]
                columns[q] = [s * x + c * y for x, y in zip(left, right, strict=True)]
        return again

    w, v = _swept(sweep, [[a[..., i, j] for i in range(m)] for j in range(n)], _identity(n, a))
    lengths = [_dot(column, column) for column in w]
    joined = _sorted(lengths, [x + y for x, y in zip(w, v, strict=True)], lambda x, y: x < y)[1]
    q, r = qr(_matrix([x[:m] for x in joined], True), pivoting=False, full_matrices=full_matrices)
    diagonal = [r[..., j, j] for j in range(n)]
    values = jnp.stack([jnp.abs(x) for x in diagonal], -1)
    if not compute_uv:
        return (values,)
    signs = [jnp.where(x < 0, -1.0, 1.0).astype(a.dtype) for x in diagonal]
    count = m if full_matrices else n
    left = [[q[..., i, j] * (signs[j] if j < n else 1) for i in range(m)] for j in range(count)]
    return values, _matrix(left, True), _matrix([x[m:] for x in joined], False)


def qr(a: Any, *, pivoting: bool, full_matrices: bool, **_: Any) -> tuple[Any, Any]:
    """The orthogonal and the upper triangular factor, by Householder's reflections, with the signs of LAPACK's."""
    if pivoting:
        raise NotImplementedError("exchanged columns")
    _size(a)
    m, n = a.shape[-2:]
    count = min(m, n)
    r = [[a[..., i, j] for j in range(n)] for i in range(m)]
    reflections = []
    for j in range(count):
        x = [r[i][j] for i in range(j, m)]
        below = _dot(x[1:], x[1:]) if x[1:] else jnp.zeros_like(x[0])
        is_done = below == 0
        length = jnp.sqrt(jnp.where(is_done, 1, x[0] * x[0] + below))
        beta = jnp.where(x[0] < 0, length, -length)
        tau = jnp.where(is_done, 0, (beta - x[0]) / beta)
        scale = jnp.where(is_done, 1, x[0] - beta)
        v = [jnp.ones_like(x[0]), *(y / scale for y in x[1:])]
        reflections.append((v, tau))
        _reflect(r, v, tau, j)
    width = m if full_matrices else count
    q = [[jnp.full_like(a[..., 0, 0], float(i == j)) for j in range(width)] for i in range(m)]
    for j in range(count)[::-1]:
        _reflect(q, *reflections[j], j)
    upper = [[r[i][j] if i <= j else jnp.zeros_like(r[i][j]) for j in range(n)] for i in range(width)]
    return _matrix(q, False), _matrix(upper, False)


def _reflect(rows: Rows, v: list[Any], tau: Any, first: int) -> None:
    """Apply 1 - tau v v^T to the rows from `first` on."""
    for j in range(len(rows[0])):
        amount = tau * _dot(v, [row[j] for row in rows[first:]])
        for x, row in zip(v, rows[first:], strict=True):
            row[j] = row[j] - amount * x


def _swept(sweep: Callable[[Rows, Rows], Any], first: Rows, second: Rows) -> tuple[Rows, Rows]:
    """Rows, or columns, after sweeps that change them in place, until one says that it has found nothing to do."""

    def step(state: Any) -> Any:
        count, _, *parts = state
        first, second = ([list(row) for row in part] for part in parts)
        again = jnp.any(jnp.asarray(sweep(first, second)))
        return count + 1, again, first, second

    start = (jnp.int32(0), jnp.bool_(True), first, second)
    _, _, first, second = jax.lax.while_loop(lambda state: state[1] & (state[0] < MAX_SWEEPS), step, start)
    return first, second


def _size(a: Any) -> int:
    size = max(a.shape[-2:])
    if size > MAX_SIZE or min(a.shape[-2:]) < 1:
        raise NotImplementedError(f"a matrix of {a.shape[-2]} x {a.shape[-1]}, and kernels factor {MAX_SIZE} at most")
    return size


def _pairs(n: int) -> list[tuple[int, int]]:
    return [(p, q) for p in range(n) for q in range(p + 1, n)]


def _identity(n: int, a: Any) -> Rows:
    return [[jnp.full_like(a[..., 0, 0], float(i == j)) for j in range(n)] for i in range(n)]


def _dot(x: list[Any], y: list[Any]) -> Any:
    total = x[0] * y[0]
    for a, b in zip(x[1:], y[1:], strict=True):
        total = total + a * b
    return total


def _rotation(first: Any, second: Any, between: Any) -> tuple[Any, Any]:
    """Cosine and sine of the smaller angle that makes `between` zero."""
    is_done = between == 0
    ratio = (second - first) / jnp.where(is_done, 1, 2 * between)
    tangent = jnp.where(ratio < 0, -1, 1) / (jnp.abs(ratio) + jnp.sqrt(ratio * ratio + 1))
    tangent = jnp.where(is_done, 0, tangent)
    cosine = 1 / jnp.sqrt(tangent * tangent + 1)
    return cosine, tangent * cosine


def _sorted(
    values: list[Any], columns: list[list[Any]], is_wrong: Callable[[Any, Any], Any]
) -> tuple[list[Any], list[list[Any]]]:
    """Values, and the columns that belong to them, whose neighbours change places where their order `is_wrong`."""
    values, columns = list(values), list(columns)
    for end in range(len(values) - 1, 0, -1):
        for k in range(end):
            change = is_wrong(values[k], values[k + 1])

            def chosen(x: Any, y: Any, change: Any = change) -> tuple[Any, Any]:
                return jnp.where(change, y, x), jnp.where(change, x, y)

            values[k], values[k + 1] = chosen(values[k], values[k + 1])
            pairs = [chosen(x, y) for x, y in zip(columns[k], columns[k + 1], strict=True)]
            columns[k], columns[k + 1] = [x for x, _ in pairs], [y for _, y in pairs]
    return values, columns


def _matrix(parts: Rows, are_columns: bool) -> Any:
    """The matrix of rows, or of columns."""
    return jnp.stack([jnp.stack(part, -1) for part in parts], -1 if are_columns else -2)


FUNCTIONS: dict[str, Callable[..., Any]] = {"eigh": eigh, "svd": svd, "qr": qr}
