"""The parts of a Krylov iteration: numbers of each system, kernels on vectors, and the loop around them.

Everything an iteration needs stays in arrays, so that it can be captured. Rows of the array `s` are numbers, its
columns are systems. A system whose residual is small enough stays as it is: its row GO is 0.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from jwarp.api.capture import capture_while
from jwarp.api.launch import launch
from jwarp.arrays.array import array, array2d
from jwarp.arrays.create import zeros
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.atomic import atomic_add
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import max, sqrt, where
from jwarp.frontend.func import func
from jwarp.frontend.kernel import kernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.optim.implicit import solve_implicitly
from jwarp.optim.operators import LinearOperator, aslinearoperator, numbers, scalar_of
from jwarp.types import ScalarType, float16, float32, float64, int32

# Rows of `s`: the square of the residual, the square of the tolerance, whether the system goes on, what an iteration
# hands to the next one, that of the last one, and further products.
RR, TOL, GO, NEW, OLD, PQ, TS, TT = range(8)
ROWS = 8

# The element types of vectors, the type of their products, and the default of the relative tolerance.
_KINDS: dict[ScalarType, tuple[ScalarType, float]] = {
    float16: (float32, 1e-3),
    float32: (float32, 1e-6),
    float64: (float64, 1e-12),
}


class LinearSolverState:
    """A solver with its arrays, which calls use again.

    Attributes:
        cycle: The number of iterations that are done at once.
        is_symmetric: True if it is for symmetric matrices.
    """

    cycle = 1
    is_symmetric = False

    def __init__(
        self,
        A: Any,
        b: array,
        x: array,
        tol: float | None = None,
        atol: float | None = None,
        maxiter: float | None = 0,
        M: Any = None,
        callback: Callable[..., Any] | Kernel | None = None,
        check_every: int = 10,
        use_cuda_graph: bool = True,
    ):
        self.A, self.M = aslinearoperator(A), None if M is None else aslinearoperator(M)
        self.b, self.x = b, x
        for name, given in (("b", b), ("x", x)):
            if not isinstance(given, array) or scalar_of(given.dtype) not in _KINDS:
                raise KernelTypeError(
                    f"wp.optim.linear: '{name}' must be an array of float16, float32 or float64, or of vectors of them,"
                    f" got {given!r}"
                )
        _check_alike(self.A, self.M, b, x)
        scalar = scalar_of(b.dtype)
        self._wide, default = _KINDS[scalar]
        self.tol, self.atol = _tolerances(tol, atol, default)
        self.default_tol = default
        self.least = default**3  # whose square is a number, too
        self.count = numbers(b).size
        self.maxiter = int(maxiter or self.count)
        self.callback, self.check_every = callback, int(check_every)
        self._allocate_all()

    def another(self, A: LinearOperator, b: array, x: array, M: LinearOperator | None) -> LinearSolverState:
        """A solver with the same options for another system of the same size, with arrays of its own."""
        made = copy.copy(self)
        made.A, made.b, made.x, made.M = A, b, x, M
        made._allocate_all()
        return made

    def _allocate_all(self) -> None:
        device = self.b.device
        self.s = zeros((ROWS, self.A.batch_count), dtype=self._wide, device=device)
        self.done, self.goes_on = (zeros(1, dtype=int32, device=device) for _ in range(2))
        self.of = zeros(0 if self.A.batch_offsets is None else self.count, dtype=int32, device=device)
        self.r = self.vector()
        self._allocate()

    def __call__(self, A: Any = None, b: array | None = None, x: array | None = None, M: Any = None) -> Any:
        """Solve, with what is given in the place of what the solver was made with.

        Returns:
            The number of iterations, the norm of the residual and the tolerance, as `cg` does.

        Raises:
            LaunchError: something has another shape, type or device.
        """
        kept = self.A, self.b, self.x, self.M
        try:
            if A is not None:
                self.A = aslinearoperator(A)
            if M is not None:
                self.M = aslinearoperator(M)
            self.b, self.x = self.b if b is None else b, self.x if x is None else x
            if self.A.batch_count != self.s.shape[1] or any(
                (new.shape, new.dtype) != (old.shape, old.dtype) for new, old in ((self.b, kept[1]), (self.x, kept[2]))
            ):
                raise LaunchError(
                    "wp.optim.linear: a solver is called again with arrays of the shapes and types it has"
                )
            _check_alike(self.A, self.M, self.b, self.x)
            return self._solve()
        finally:
            self.A, self.b, self.x, self.M = kept

    # Methods that each solver defines.

    def _allocate(self) -> None:
        """Make the arrays that it needs."""

    def _begin(self) -> None:
        """Find the residual, and all that the first iteration asks for."""
        raise NotImplementedError("use CG, CR, BiCGSTAB or GMRES")

    def _iterate(self) -> None:
        """Do `cycle` iterations."""
        raise NotImplementedError

    # Helpers of the solvers.

    def vector(self) -> array:
        """A new array as the right-hand side is one; zeros, since operators may add `0 * y` of it to a product."""
        return zeros(self.b.shape, dtype=self.b.dtype, device=self.b.device)

    def on(self, kernel: Kernel, *vectors: array) -> None:
        """Launch a kernel of `s`, the system of each number, and the numbers of vectors."""
        launch(kernel, self.count, [self.s, self.of, *map(numbers, vectors)], record_tape=False)

    def dot(self, row: int, a: array, b: array) -> None:
        """Add the products of two vectors to a row, which is zero before."""
        launch(_dot, self.count, [self.s, self.of, row, numbers(a), numbers(b)], record_tape=False)

    def shift(self) -> None:
        """Begin an iteration: note who goes on, and clear what is added to."""
        launch(_shift, self.s.shape[1], [self.s], record_tape=False)

    def precondition(self, r: array, z: array) -> array:
        """M @ r, in z; r itself where there is no M."""
        if self.M is None:
            return r
        self.M.matvec(r, z, z, alpha=1.0, beta=0.0)
        return z

    def residual(self) -> None:
        """Store b - A @ x, and its square."""
        self.A.matvec(self.x, self.b, self.r, alpha=-1.0, beta=1.0)
        self.shift()
        self.dot(RR, self.r, self.r)

    def _solve(self) -> Any:
        if self.b.memory.is_traced or self.x.memory.is_traced:
            return solve_implicitly(self)
        if self.check_every <= 0:
            return self.solve_to_the_end()
        self._start()
        return self._by_checks()

    def solve_to_the_end(self) -> tuple[array, array, array]:
        """Solve without a look at the residual on the way.

        Returns:
            The number of iterations, and for each system the squares of the residual and of the tolerance.
        """
        self._start()
        return self._to_the_end()

    def _start(self) -> None:
        if self.A.batch_offsets is not None:
            launch(_systems, self.count, [self.A.batch_offsets, self.of], record_tape=False)
        self.s.zero_()
        self.dot(TOL, self.b, self.b)
        wide = self.s.layout.dtype.type
        given = [self.s, wide(self.tol), wide(self.atol), wide(self.least)]
        launch(_tolerance, self.s.shape[1], given, record_tape=False)
        self._begin()

    def _by_checks(self) -> tuple[int, float, float]:
        done = 0
        residual, tolerance = self._reported(done)
        while done < self.maxiter and residual > tolerance:
            until = min(done + self.check_every, self.maxiter)
            while done < until:
                self._iterate()
                done += self.cycle
            residual, tolerance = self._reported(done)
        return done, residual, tolerance

    def _reported(self, done: int) -> tuple[float, float]:
        """The residual and the tolerance of the system that is furthest from its own."""
        known = self.s.numpy()[:2].astype(np.float64)
        worst = (
            int(np.argmax(known[RR] - known[TOL])) if self.s.shape[1] == 1 else int(np.argmax(known[RR] / known[TOL]))
        )
        residual, tolerance = float(np.sqrt(known[RR, worst])), float(np.sqrt(known[TOL, worst]))
        if self.callback is not None:
            if isinstance(self.callback, Kernel):
                raise KernelTypeError("wp.optim.linear: the callback is a kernel, which check_every=0 is for")
            self.callback(done, residual, tolerance)
        return residual, tolerance

    def _to_the_end(self) -> tuple[array, array, array]:
        squares = self.s[RR], self.s[TOL]
        if self.callback is not None and not isinstance(self.callback, Kernel):
            raise KernelTypeError("wp.optim.linear: with check_every=0, or while JAX traces, the callback is a kernel")

        def ask(more: int) -> None:
            launch(_count, 1, [self.s, self.done, self.goes_on, more, self.maxiter], record_tape=False)
            if self.callback is not None:
                launch(self.callback, 1, [self.done, *squares], record_tape=False)

        def body() -> None:
            self._iterate()
            ask(self.cycle)

        self.done.zero_()
        ask(0)
        capture_while(self.goes_on, body)
        return self.done, *squares


def _tolerances(tol: float | None, atol: float | None, default: float) -> tuple[float, float]:
    if tol is None:
        tol = default if atol is None else atol
    return tol, tol if atol is None else atol


def _check_alike(A: LinearOperator, M: LinearOperator | None, b: array, x: array) -> None:
    """Refuse vectors and operators that do not fit each other."""
    if (b.shape, b.dtype, b.device) != (x.shape, x.dtype, x.device):
        raise LaunchError(
            f"wp.optim.linear: b has the shape {b.shape} of {b.dtype!r} on {b.device}, and x has {x.shape} of "
            f"{x.dtype!r} on {x.device}"
        )
    scalar = scalar_of(b.dtype)
    for name, given in (("A", A), ("M", M)):
        if given is None:
            continue
        if given.scalar_type is not scalar or given.device != b.device:
            raise LaunchError(
                f"wp.optim.linear: {name} is of {given.scalar_type} on {given.device}, and b of {scalar} on {b.device}"
            )
        if len(given.shape) == 2 and given.shape[0] != given.shape[1]:
            raise LaunchError(f"wp.optim.linear: {name} has the shape {given.shape}, and must be square")
        if given.shape[0] not in (b.shape[0], numbers(b).size):
            raise LaunchError(f"wp.optim.linear: {name} has the shape {given.shape}, and b has {b.shape}")


# -- kernels of all solvers: `s` has the numbers of each system, `of` the system of each number of the vectors


@func
def system_of(of: array[int], i: int) -> int:
    """The system of a number, -1 for none."""
    found = 0
    if of.shape[0] > 0:
        found = of[i]
    return found


@kernel(enable_backward=False)
def _systems(offsets: array[int], of: array[int]) -> None:
    i = tid()
    found = -1
    for k in range(offsets.shape[0] - 1):
        if i >= offsets[k] and i < offsets[k + 1]:
            found = k
    of[i] = found


@kernel(enable_backward=False)
def _tolerance(s: array2d[Any], tol: Any, atol: Any, least: Any) -> None:
    k = tid()
    found = max(max(atol, tol * sqrt(s[TOL, k])), least)
    s[TOL, k] = found * found


@kernel(enable_backward=False)
def _shift(s: array2d[Any]) -> None:
    k = tid()
    s[GO, k] = where(s[RR, k] > s[TOL, k], s.dtype(1.0), s.dtype(0.0))
    s[OLD, k] = s[NEW, k]
    s[RR, k] = s.dtype(0.0)
    s[NEW, k] = s.dtype(0.0)
    s[PQ, k] = s.dtype(0.0)
    s[TS, k] = s.dtype(0.0)
    s[TT, k] = s.dtype(0.0)


@kernel(enable_backward=False)
def _dot(s: array2d[Any], of: array[int], row: int, a: array[Any], b: array[Any]) -> None:
    i = tid()
    if of.shape[0] == 0:
        atomic_add(s, row, 0, s.dtype(a[i]) * s.dtype(b[i]))
    elif of[i] >= 0:
        atomic_add(s, row, of[i], s.dtype(a[i]) * s.dtype(b[i]))


@kernel(enable_backward=False)
def _count(s: array2d[Any], done: array[int], goes_on: array[int], more: int, most: int) -> None:
    done[0] = done[0] + more
    found = 0
    for k in range(s.shape[1]):
        if s[RR, k] > s[TOL, k] and done[0] < most:
            found = 1
    goes_on[0] = found
