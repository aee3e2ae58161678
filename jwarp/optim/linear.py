"""`wp.optim.linear`: solutions of systems of linear equations by iterations, by Warp's names and arguments."""

from __future__ import annotations

from typing import Any

from jwarp.arrays.array import array
from jwarp.optim.fsai import FSAI as FSAI
from jwarp.optim.gmres import GMRES as GMRES
from jwarp.optim.krylov import LinearSolverState as LinearSolverState
from jwarp.optim.operators import LinearOperator as LinearOperator
from jwarp.optim.operators import aslinearoperator as aslinearoperator
from jwarp.optim.preconditioners import preconditioner as preconditioner
from jwarp.optim.solvers import CG as CG
from jwarp.optim.solvers import CR as CR
from jwarp.optim.solvers import BiCGSTAB as BiCGSTAB


def cg(
    A: Any,
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Any = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    run: bool = True,
    *,
    restart: int | None = None,
) -> Any:
    """Solve A @ x = b by conjugate gradients, for a matrix that is symmetric and positive definite.

    Tapes record nothing of it. Under `wp.functionalize`, the solution is an implicit function of `A` and `b`:
    derivatives take one more solution, and are those of an exact one.

    Args:
        A: An array of shape (n, n), one of shape (n,) for a diagonal, or a `LinearOperator`, which may have several
            systems: these are solved together, each until its own residual is small enough.
        b: The right-hand side, an array of n numbers, float16, float32 or float64, or of vectors with n in all.
        x: Where to begin, an array as `b`, and where the solution is found afterwards.
        tol: The norm of the residual that is small enough, over the norm of `b`.
        atol: The norm that is small enough anyway. Where one of the two is left out it is the other one, where both
            are, they are 1e-12 for float64, 1e-6 for float32 and 1e-3 for float16.
        maxiter: The most iterations; 0 for as many as there are numbers.
        M: What is close to the inverse of `A`, such as `preconditioner(A)`.
        callback: Called as `callback(iterations, residual, tolerance)` before the first iteration and at each check.
            With `check_every=0` it is a kernel, launched with one thread on three arrays after each iteration.
        check_every: The number of iterations after which the residual is looked at. With 0, nothing is read on the way:
            the solver can be captured, and arrays come back. So they do while JAX traces, whatever is given.
        use_cuda_graph: Has no effect here.
        run: False for a `CG` to be called later.
        restart: After so many iterations, the residual is found anew, and the search begins again; None for never.

    Returns:
        The number of iterations, the norm of the residual and the norm that is small enough; of several systems those
        of the one that is furthest from it. With `check_every=0` arrays: the number, of shape (1,), and for each system
        the squares of the residual and of the tolerance. A `CG` where `run` is False.

    Raises:
        KernelTypeError, LaunchError: the matrix and the vectors do not fit each other.

    Example:
        >>> x = wp.zeros_like(b)
        >>> iterations, residual, tolerance = wp.optim.linear.cg(A, b, x, tol=1e-5, M=wp.optim.linear.preconditioner(A))
    """
    made = CG(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, restart=restart)
    return made() if run else made


def cr(
    A: Any,
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Any = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    run: bool = True,
    *,
    restart: int | None = None,
) -> Any:
    """Solve A @ x = b by conjugate residuals, for a symmetric matrix; the residual never grows on the way.

    Args:
        A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, run, restart: As for `cg`.

    Returns:
        As `cg`; a `CR` where `run` is False.

    Raises:
        KernelTypeError, LaunchError: the matrix and the vectors do not fit each other.
    """
    made = CR(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, restart=restart)
    return made() if run else made


def bicgstab(
    A: Any,
    b: array,
    x: array,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Any = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    is_left_preconditioner: bool = False,
    run: bool = True,
) -> Any:
    """Solve A @ x = b by the stabilized method of biconjugate gradients, for any square matrix.

    Args:
        A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, run: As for `cg`.
        is_left_preconditioner: Whether M @ A is what is close to the identity, not A @ M.

    Returns:
        As `cg`; a `BiCGSTAB` where `run` is False.

    Raises:
        KernelTypeError, LaunchError: the matrix and the vectors do not fit each other.
    """
    named = {"is_left_preconditioner": is_left_preconditioner}
    made = BiCGSTAB(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, **named)
    return made() if run else made


def gmres(
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
    run: bool = True,
) -> Any:
    """Solve A @ x = b by generalized minimal residuals, for any square matrix.

    Args:
        A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, run: As for `cg`. So many iterations as
            `restart` says are always done at once.
        restart: The number of vectors of a basis that are kept, after which another one begins.
        is_left_preconditioner: Whether M @ A is what is close to the identity, not A @ M.

    Returns:
        As `cg`; a `GMRES` where `run` is False.

    Raises:
        KernelTypeError, LaunchError: the matrix and the vectors do not fit each other.
    """
    made = GMRES(A, b, x, tol, atol, restart, maxiter, M, callback, check_every, use_cuda_graph, is_left_preconditioner)
    return made() if run else made
