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
    """Solve A @ x = b by conjugate gradients, for a symmetric positive definite matrix.

    Tapes do not record it. Under `wp.functionalize`, the solution is an implicit function of `A` and `b`: derivatives
    need one more solution, and are those of an exact solution.

    Args:
        A: An array of shape (n, n), an array of shape (n,) for a diagonal matrix, or a `LinearOperator`. The latter may
            have several systems, which are solved together, each until its own residual is small enough.
        b: The right-hand side: an array of n numbers of float16, float32 or float64, or of vectors with n components in
            all.
        x: The initial guess, an array like `b`. It receives the solution.
        tol: The tolerance of the norm of the residual, relative to the norm of `b`.
        atol: The absolute tolerance. If only one of the two is given, the other has the same value. Default of both:
            1e-12 for float64, 1e-6 for float32 and 1e-3 for float16.
        maxiter: The largest number of iterations. 0: the number of unknowns.
        M: An approximate inverse of `A`, such as `preconditioner(A)`.
        callback: Called as `callback(iterations, residual, tolerance)` before the first iteration and at each check.
            With `check_every=0`, it is a kernel that is launched with one thread on three arrays after each iteration.
        check_every: The number of iterations between checks of the residual. With 0, nothing is read back: the solver
            can be captured, and returns arrays. It also does so while JAX traces.
        use_cuda_graph: Has no effect.
        run: False returns a `CG` to be called later.
        restart: The number of iterations after which the residual is recomputed and the search restarts. Default:
            never.

    Returns:
        The number of iterations, the norm of the residual and the absolute tolerance; for several systems, those of the
        one that is furthest from its tolerance. With `check_every=0`, arrays: the number of iterations, of shape (1,),
        and for each system the squares of the residual and of the tolerance. A `CG` if `run` is False.

    Raises:
        KernelTypeError, LaunchError: The matrix and the vectors do not match.

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
    """Solve A @ x = b by conjugate residuals, for a symmetric matrix. The residual never grows.

    Args:
        A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, run, restart: As for `cg`.

    Returns:
        As for `cg`; a `CR` if `run` is False.

    Raises:
        KernelTypeError, LaunchError: The matrix and the vectors do not match.
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
    """Solve A @ x = b by the stabilised biconjugate gradient method, for any square matrix.

    Args:
        A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, run: As for `cg`.
        is_left_preconditioner: Whether M @ A, instead of A @ M, approximates the identity.

    Returns:
        As for `cg`; a `BiCGSTAB` if `run` is False.

    Raises:
        KernelTypeError, LaunchError: The matrix and the vectors do not match.
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
    """Solve A @ x = b by the generalised minimal residual method, for any square matrix.

    Args:
        A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, run: As for `cg`. The residual is checked
            at multiples of `restart` iterations.
        restart: The number of basis vectors, after which the method restarts.
        is_left_preconditioner: Whether M @ A, instead of A @ M, approximates the identity.

    Returns:
        As for `cg`; a `GMRES` if `run` is False.

    Raises:
        KernelTypeError, LaunchError: The matrix and the vectors do not match.
    """
    made = GMRES(A, b, x, tol, atol, restart, maxiter, M, callback, check_every, use_cuda_graph, is_left_preconditioner)
    return made() if run else made
