"""The solvers: conjugate gradients and residuals, and the stabilized method of biconjugate gradients."""

from __future__ import annotations

from typing import Any

from jwarp.arrays.array import array, array2d
from jwarp.arrays.create import copy
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.atomic import atomic_add
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.func import func
from jwarp.frontend.kernel import kernel
from jwarp.optim.krylov import GO, NEW, OLD, PQ, RR, TS, TT, LinearSolverState, system_of


class _Restarted(LinearSolverState):
    """A solver that may find the residual anew after so many iterations."""

    def __init__(self, *args: Any, restart: int | None = None, **named: Any):
        if restart is not None and (not isinstance(restart, int) or isinstance(restart, bool)):
            raise KernelTypeError(f"wp.optim.linear: restart must be an int or None, got {restart!r}")
        if restart is not None and restart <= 0:
            raise LaunchError(f"wp.optim.linear: restart must be positive, got {restart}")
        self._restart = restart
        super().__init__(*args, **named)
        self.cycle = restart or 1

    def _iterate(self) -> None:
        for _ in range(self.cycle):
            self._step()
        if self._restart is not None:
            self._begin()

    def _step(self) -> None:
        raise NotImplementedError


class CG(_Restarted):
    """The method of conjugate gradients, with its arrays: called, it solves. Its arguments are those of `cg`.

    Hestenes and Stiefel, 1952; with a preconditioner as in Saad, Iterative Methods for Sparse Linear Systems, 2003,
    algorithm 9.1.
    """

    is_symmetric = True

    def _allocate(self) -> None:
        self.p, self.q, self._z = self.vector(), self.vector(), self.vector()

    def _begin(self) -> None:
        self.residual()
        self.z = self.precondition(self.r, self._z)
        copy(self.p, self.z)
        self.dot(NEW, self.r, self.z)

    def _step(self) -> None:
        self.shift()
        self.A.matvec(self.p, self.q, self.q, alpha=1.0, beta=0.0)
        self.dot(PQ, self.p, self.q)
        self.on(_move, self.p, self.q, self.x, self.r)
        self.z = self.precondition(self.r, self._z)
        self.dot(NEW, self.r, self.z)
        self.on(_turn, self.z, self.p)


class CR(_Restarted):
    """The method of conjugate residuals, with its arrays: called, it solves. Its arguments are those of `cr`.

    Stiefel, 1955, as in Saad, 2003, algorithm 6.20, for the system that the preconditioner has been applied to.
    """

    is_symmetric = True

    def _allocate(self) -> None:
        self.p, self.q, self._z, self._y, self.w = (self.vector() for _ in range(5))

    def _begin(self) -> None:
        self.residual()
        self.z = self.precondition(self.r, self._z)
        copy(self.p, self.z)
        self.A.matvec(self.z, self.w, self.w, alpha=1.0, beta=0.0)
        copy(self.q, self.w)
        self.dot(NEW, self.z, self.w)

    def _step(self) -> None:
        self.shift()
        y = self.precondition(self.q, self._y)
        self.dot(PQ, self.q, y)
        self.on(_move, self.p, self.q, self.x, self.r)
        if self.z is not self.r:
            self.on(_follow, y, self.z)
        self.A.matvec(self.z, self.w, self.w, alpha=1.0, beta=0.0)
        self.dot(NEW, self.z, self.w)
        self.on(_turn, self.z, self.p)
        self.on(_turn, self.w, self.q)


class BiCGSTAB(LinearSolverState):
    """The stabilized method of biconjugate gradients, with its arrays: called, it solves as `bicgstab`.

    Van der Vorst, 1992, who has the preconditioner on either side, too; as in Saad, 2003, algorithm 7.7.
    """

    def __init__(self, *args: Any, is_left_preconditioner: bool = False, **named: Any):
        self.is_left = is_left_preconditioner
        super().__init__(*args, **named)

    def _allocate(self) -> None:
        self.first, self.p, self.v, self.t, self._y, self._z, self._u = (self.vector() for _ in range(7))

    def _begin(self) -> None:
        self.residual()
        copy(self.first, self.r)
        copy(self.p, self.r)
        self.dot(NEW, self.r, self.first)

    def _iterate(self) -> None:
        self.shift()
        y = self.precondition(self.p, self._y)
        self.A.matvec(y, self.v, self.v, alpha=1.0, beta=0.0)
        self.dot(PQ, self.v, self.first)
        self.on(_halve, self.v, self.r)
        z = self.precondition(self.r, self._z)
        self.A.matvec(z, self.t, self.t, alpha=1.0, beta=0.0)
        # By which step is the residual the least: the one, or what the preconditioner makes of it.
        u, s = (self.precondition(self.t, self._u), z) if self.is_left else (self.t, self.r)
        self.dot(TS, u, s)
        self.dot(TT, u, u)
        self.on(_whole, y, z, self.t, self.first, self.x, self.r)
        self.on(_turn_twice, self.r, self.v, self.p)


# -- kernels: `s` has the numbers of each system, `of` the system of each number of the vectors


@func
def _over(s: array2d[Any], over: int, under: int, k: int):
    """A quotient; 0 for a system that stays, and where there is none."""
    found = s.dtype(0.0)
    if s[GO, k] > s.dtype(0.0) and s[under, k] != s.dtype(0.0):
        found = s[over, k] / s[under, k]
    return found


@kernel(enable_backward=False)
def _move(s: array2d[Any], of: array[int], p: array[Any], q: array[Any], x: array[Any], r: array[Any]) -> None:
    """Take the step along p that q = A @ p says, and add up the squares of the residual."""
    i = tid()
    k = system_of(of, i)
    if k >= 0:
        step = _over(s, OLD, PQ, k)
        x[i] = x.dtype(s.dtype(x[i]) + step * s.dtype(p[i]))
        left = s.dtype(r[i]) - step * s.dtype(q[i])
        r[i] = r.dtype(left)
        atomic_add(s, RR, k, left * left)


@kernel(enable_backward=False)
def _follow(s: array2d[Any], of: array[int], y: array[Any], z: array[Any]) -> None:
    """Keep z = M @ r, given y = M @ q."""
    i = tid()
    k = system_of(of, i)
    if k >= 0:
        z[i] = z.dtype(s.dtype(z[i]) - _over(s, OLD, PQ, k) * s.dtype(y[i]))


@kernel(enable_backward=False)
def _turn(s: array2d[Any], of: array[int], z: array[Any], p: array[Any]) -> None:
    """The next direction: z, and as much of the last one as makes them conjugate."""
    i = tid()
    k = system_of(of, i)
    if k >= 0:
        p[i] = p.dtype(s.dtype(z[i]) + _over(s, NEW, OLD, k) * s.dtype(p[i]))


@kernel(enable_backward=False)
def _halve(s: array2d[Any], of: array[int], v: array[Any], r: array[Any]) -> None:
    """The residual after the first half of a step."""
    i = tid()
    k = system_of(of, i)
    if k >= 0:
        r[i] = r.dtype(s.dtype(r[i]) - _over(s, OLD, PQ, k) * s.dtype(v[i]))


@kernel(enable_backward=False)
def _whole(
    s: array2d[Any],
    of: array[int],
    y: array[Any],
    z: array[Any],
    t: array[Any],
    first: array[Any],
    x: array[Any],
    r: array[Any],
) -> None:
    """Both halves of a step for x, and the second one for the residual, of which products are added up."""
    i = tid()
    k = system_of(of, i)
    if k >= 0:
        step, further = _over(s, OLD, PQ, k), _over(s, TS, TT, k)
        x[i] = x.dtype(s.dtype(x[i]) + step * s.dtype(y[i]) + further * s.dtype(z[i]))
        left = s.dtype(r[i]) - further * s.dtype(t[i])
        r[i] = r.dtype(left)
        atomic_add(s, RR, k, left * left)
        atomic_add(s, NEW, k, left * s.dtype(first[i]))


@kernel(enable_backward=False)
def _turn_twice(s: array2d[Any], of: array[int], r: array[Any], v: array[Any], p: array[Any]) -> None:
    """The next direction of BiCGSTAB."""
    i = tid()
    k = system_of(of, i)
    if k >= 0:
        step, further = _over(s, OLD, PQ, k), _over(s, TS, TT, k)
        back = s.dtype(0.0)
        if further != s.dtype(0.0):
            back = _over(s, NEW, OLD, k) * step / further
        p[i] = p.dtype(s.dtype(r[i]) + back * (s.dtype(p[i]) - further * s.dtype(v[i])))
