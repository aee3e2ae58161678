"""Solutions of linear systems as implicit functions, while JAX traces: their derivatives take one more solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax

from jwarp.api.jax_arrays import from_jax, to_jax
from jwarp.arrays.array import array
from jwarp.arrays.create import empty_like, zeros_like
from jwarp.optim.operators import LinearOperator

Product = Callable[[jax.Array], jax.Array]


class Solver(Protocol):
    """A solver with its system."""

    A: LinearOperator
    M: LinearOperator | None
    b: array
    x: array
    is_symmetric: bool

    def another(self, A: LinearOperator, b: array, x: array, M: LinearOperator | None) -> Solver:
        """A solver with the same options for another system of the same size."""
        ...

    def solve_to_the_end(self) -> tuple[array, array, array]:
        """Solve; the number of iterations, and the squares of residuals and tolerances."""
        ...


def solve_implicitly(solver: Solver) -> tuple[array, array, array]:
    """Solve as `solver` does, by `jax.lax.custom_linear_solve`: derivatives are those of an exact solution.

    A tangent is a solution with the same matrix, a gradient one with its transpose. The iterations solve for the change
    of `x`, from zero on; the tolerance is relative to the first residual.
    """
    b, x = solver.b, solver.x

    def solve(_: Product, right: jax.Array) -> tuple[jax.Array, Any]:
        return _solution(solver, solver.A, solver.M, right)

    def solve_transposed(product: Product, right: jax.Array) -> tuple[jax.Array, Any]:
        matrix = _operator(product, solver.A)
        near = solver.M and _operator(_transpose(_product(solver.M, b), right), solver.M)
        return _solution(solver, matrix, near, right)

    residual = empty_like(b)
    solver.A.matvec(x, b, residual, alpha=-1.0, beta=1.0)
    change, report = jax.lax.custom_linear_solve(
        _product(solver.A, b),
        to_jax(residual),
        solve,
        solve if solver.is_symmetric else solve_transposed,
        symmetric=solver.is_symmetric,
        has_aux=True,
    )
    x.assign(to_jax(x) + change)
    done, residuals, tolerances = (from_jax(each) for each in report)
    return done, residuals, tolerances


def _solution(solver: Solver, A: LinearOperator, M: LinearOperator | None, right: jax.Array) -> Any:
    b = from_jax(right, dtype=solver.b.dtype)
    again = solver.another(A, b, zeros_like(b), M)
    report = again.solve_to_the_end()
    return to_jax(again.x), [to_jax(each) for each in report]


def _product(operator: LinearOperator, like: array) -> Product:
    """The product with an operator as a function of JAX values."""

    def product(values: jax.Array) -> jax.Array:
        made = empty_like(like)
        operator.matvec(from_jax(values, dtype=like.dtype), made, made, alpha=1.0, beta=0.0)
        return to_jax(made)

    return product


def _transpose(product: Product, like: jax.Array) -> Product:
    return lambda values: jax.linear_transpose(product, like)(values)[0]


def _operator(product: Product, like: LinearOperator) -> LinearOperator:
    """A function of JAX values as an operator of the size of another one."""

    def matvec(x: array, y: array, z: array, alpha: Any, beta: Any) -> None:
        scaled = alpha * product(to_jax(x))
        z.assign(scaled if not beta else scaled + beta * to_jax(y))

    return LinearOperator(like.shape, like.dtype, like.device, matvec, like.batch_offsets)
