"""GMRES: the method of generalized minimal residuals, begun anew after so many iterations."""

from __future__ import annotations

from typing import Any

from jwarp.api.launch import launch
from jwarp.arrays.array import array, array2d, array3d
from jwarp.arrays.create import copy, zeros
from jwarp.arrays.view import components_of
from jwarp.errors import LaunchError
from jwarp.frontend.builtins.atomic import atomic_add
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import sqrt
from jwarp.frontend.kernel import kernel
from jwarp.optim.krylov import GO, PQ, LinearSolverState, system_of
from jwarp.optim.operators import numbers


class GMRES(LinearSolverState):
    """The method of generalized minimal residuals, with its arrays: called, it solves, as `gmres` does.

    Saad and Schultz, 1986: a basis of the Krylov space is made orthogonal, twice, as rounding leaves something of the
    other vectors the first time; rotations of Givens keep what multiplying does to it triangular.
    """

    def __init__(
        self,
        A: Any,
        b: array,
        x: array,
        tol: float | None = None,
        atol: float | None = None,
        restart: int = 31,
        maxiter: float | None = 0,
        M: Any = None,
        callback: Any = None,
        check_every: int = 31,
        use_cuda_graph: bool = True,
        is_left_preconditioner: bool = False,
    ):
        if restart <= 0:
            raise LaunchError(f"wp.optim.linear: restart must be positive, got {restart}")
        self._restart, self.is_left = int(restart), is_left_preconditioner
        super().__init__(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph)

    def _allocate(self) -> None:
        size = self.cycle = min(self._restart, self.maxiter)
        device, systems = self.b.device, self.s.shape[1]
        self.basis = zeros((size + 1, self.count), dtype=numbers(self.b).dtype, device=device)
        self.vectors = [
            (row if row.dtype is self.b.dtype else row.reshape((-1, *components_of(self.b.dtype))).view(self.b.dtype))
            .reshape(self.b.shape)
            for row in (self.basis[j] for j in range(size + 1))
        ]  # fmt: skip
        self.w, self._z = self.vector(), self.vector()
        # A times the basis, a column for each vector, made triangular by rotations; and intermediate products.
        self.h = zeros((size + 1, size, systems), dtype=self._wide, device=device)
        self.rotations = zeros((2, size, systems), dtype=self._wide, device=device)
        self.g, self.products = (zeros((size + 1, systems), dtype=self._wide, device=device) for _ in range(2))

    def _begin(self) -> None:
        self.residual()

    def _iterate(self) -> None:
        self.shift()
        self.h.zero_()
        start = self.precondition(self.r, self._z) if self.is_left else self.r
        copy(self.vectors[0], start)
        self.dot(PQ, start, start)
        self._normalize(0)
        for j in range(self.cycle):
            self._extend(j)
        launch(_solve, self.s.shape[1], [self.h, self.g], record_tape=False)
        given = [self.of, self.basis, self.g, numbers(self.w)]
        launch(_combine, self.count, given, record_tape=False)
        step = self.w if self.is_left else self.precondition(self.w, self._z)
        launch(_add, self.count, [self.s, self.of, numbers(step), numbers(self.x)], record_tape=False)
        self._begin()

    def _extend(self, j: int) -> None:
        """Make the next vector of the basis."""
        v = self.vectors[j]
        if self.is_left:
            self.A.matvec(v, self._z, self._z, alpha=1.0, beta=0.0)
            copy(self.w, self.precondition(self._z, self.w))
        else:
            self.A.matvec(self.precondition(v, self._z), self.w, self.w, alpha=1.0, beta=0.0)
        for _ in range(2):
            self.products.zero_()
            launch(
                _project, (j + 1, self.count), [self.of, self.basis, numbers(self.w), self.products], record_tape=False
            )
            given = [self.of, self.basis, self.products, j + 1, numbers(self.w)]
            launch(_subtract, self.count, given, record_tape=False)
            launch(_note, self.s.shape[1], [self.s, self.h, self.products, j], record_tape=False)
        copy(self.vectors[j + 1], self.w)
        self.dot(PQ, self.w, self.w)
        launch(_rotate, self.s.shape[1], [self.s, self.h, self.rotations, self.g, j], record_tape=False)
        self._normalize(j + 1)

    def _normalize(self, j: int) -> None:
        launch(_scale, self.count, [self.s, self.of, self.basis, j], record_tape=False)
        if j == 0:
            launch(_first, self.s.shape[1], [self.s, self.g], record_tape=False)


@kernel(enable_backward=False)
def _scale(s: array2d[Any], of: array[int], basis: array2d[Any], j: int) -> None:
    i = tid()
    k = system_of(of, i)
    scaled = s.dtype(0.0)
    if k >= 0 and s[PQ, k] > s.dtype(0.0):
        scaled = s.dtype(basis[j, i]) / sqrt(s[PQ, k])
    basis[j, i] = basis.dtype(scaled)


@kernel(enable_backward=False)
def _first(s: array2d[Any], g: array2d[Any]) -> None:
    """The right-hand side for the coefficients; 0 for systems that stay as they are."""
    k = tid()
    for j in range(g.shape[0]):
        g[j, k] = g.dtype(0.0)
    if s[GO, k] > s.dtype(0.0):
        g[0, k] = sqrt(s[PQ, k])


@kernel(enable_backward=False)
def _project(of: array[int], basis: array2d[Any], w: array[Any], products: array2d[Any]) -> None:
    j, i = tid()
    k = system_of(of, i)
    if k >= 0:
        atomic_add(products, j, k, products.dtype(basis[j, i]) * products.dtype(w[i]))


@kernel(enable_backward=False)
def _subtract(of: array[int], basis: array2d[Any], products: array2d[Any], count: int, w: array[Any]) -> None:
    i = tid()
    k = system_of(of, i)
    if k >= 0:
        left = products.dtype(w[i])
        for j in range(count):
            left -= products[j, k] * products.dtype(basis[j, i])
        w[i] = w.dtype(left)


@kernel(enable_backward=False)
def _note(s: array2d[Any], h: array3d[Any], products: array2d[Any], j: int) -> None:
    k = tid()
    s[PQ, k] = s.dtype(0.0)
    for row in range(j + 1):
        h[row, j, k] = h[row, j, k] + products[row, k]


@kernel(enable_backward=False)
def _rotate(s: array2d[Any], h: array3d[Any], rotations: array3d[Any], g: array2d[Any], j: int) -> None:
    """Turn a new column as those before, and once more so that its last element is 0."""
    k = tid()
    for row in range(j):
        upper, lower = h[row, j, k], h[row + 1, j, k]
        h[row, j, k] = rotations[0, row, k] * upper + rotations[1, row, k] * lower
        h[row + 1, j, k] = rotations[0, row, k] * lower - rotations[1, row, k] * upper
    below = sqrt(s[PQ, k])
    length = sqrt(h[j, j, k] * h[j, j, k] + below * below)
    cosine, sine = s.dtype(1.0), s.dtype(0.0)
    if length > s.dtype(0.0):
        cosine = h[j, j, k] / length
        sine = below / length
    rotations[0, j, k] = cosine
    rotations[1, j, k] = sine
    h[j, j, k] = length
    g[j + 1, k] = -sine * g[j, k]
    g[j, k] = cosine * g[j, k]


@kernel(enable_backward=False)
def _solve(h: array3d[Any], g: array2d[Any]) -> None:
    """The coefficients of the basis, in the place of the right-hand side."""
    k = tid()
    for back in range(h.shape[1]):
        j = h.shape[1] - 1 - back
        total = g[j, k]
        for column in range(j + 1, h.shape[1]):
            total -= h[j, column, k] * g[column, k]
        found = g.dtype(0.0)
        if h[j, j, k] != g.dtype(0.0):
            found = total / h[j, j, k]
        g[j, k] = found


@kernel(enable_backward=False)
def _combine(of: array[int], basis: array2d[Any], g: array2d[Any], w: array[Any]) -> None:
    i = tid()
    k = system_of(of, i)
    total = g.dtype(0.0)
    if k >= 0:
        for j in range(basis.shape[0] - 1):
            total += g[j, k] * g.dtype(basis[j, i])
    w[i] = w.dtype(total)


@kernel(enable_backward=False)
def _add(s: array2d[Any], of: array[int], step: array[Any], x: array[Any]) -> None:
    i = tid()
    k = system_of(of, i)
    if k >= 0 and s[GO, k] > s.dtype(0.0):
        x[i] = x.dtype(s.dtype(x[i]) + s.dtype(step[i]))
