"""Solutions of linear systems as implicit functions, while JAX traces: their derivatives take one more solution."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from jwarp.api.jax_arrays import from_jax, to_jax
from jwarp.arrays.array import array
from jwarp.arrays.create import zeros_like
from jwarp.bind.control import bounded
from jwarp.bind.traced_memory import Scope
from jwarp.optim.operators import LinearOperator

Product = Callable[[jax.Array], jax.Array]


class Solver(Protocol):
    """A solver with its system."""

    A: LinearOperator
    M: LinearOperator | None
    b: array
    x: array
    tol: float
    atol: float
    default_tol: float
    is_symmetric: bool

    def another(self, A: LinearOperator, b: array, x: array, M: LinearOperator | None) -> Solver:
        """A solver with the same options for another system of the same size."""
        ...

    def solve_to_the_end(self) -> tuple[array, array, array]:
        """Solve; the number of iterations, and the squares of residuals and tolerances."""
        ...


def solve_implicitly(solver: Solver) -> tuple[array, array, array]:
    """Solve as `solver` does; derivatives are those of an exact solution, by `jax.lax.custom_linear_solve`.

    A tangent is a solution with the same matrix, a gradient one with its transpose. What the iterations find is a
    constant x; the change that is added to it is zero, and has the derivatives: A change = b - A x - (what that is).
    """
    b, x = solver.b, solver.x
    start, product = to_jax(x), _inside(_product(solver.A, b))

    def solve(_: Product, right: jax.Array) -> tuple[jax.Array, Any]:
        again = solver.another(solver.A, from_jax(right, dtype=b.dtype), from_jax(start, dtype=b.dtype), solver.M)
        report = again.solve_to_the_end()
        return to_jax(again.x), [to_jax(each) for each in report]

    def solve_transposed(product: Product, right: jax.Array) -> jax.Array:
        near = solver.M and _operator(_transpose(_product(solver.M, b), right), solver.M)
        return _scaled(solver, _operator(product, solver.A), near, product, right)

    # This is a constant, but its loops are nothing to take derivatives of.
    found, report = jax.lax.custom_linear_solve(product, to_jax(b), _inside(solve), has_aux=True)
    found = jax.lax.stop_gradient(found)
    left = to_jax(b) - product(found)
    scaled = partial(_scaled, solver, solver.A, solver.M)
    change = jax.lax.custom_linear_solve(
        product,
        left - jax.lax.stop_gradient(left),
        _inside(scaled),
        _inside(scaled if solver.is_symmetric else solve_transposed),
        symmetric=solver.is_symmetric,
    )
    x.assign(found + change)
    done, residuals, tolerances = (from_jax(each) for each in report)
    return done, residuals, tolerances


def _inside(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which may write to arrays from outside that are no part of its result, with loops of any length."""

    def run(*args: Any) -> Any:
        with Scope("a linear solver"), bounded(None):
            return function(*args)

    return run


def _scaled(solver: Solver, A: LinearOperator, M: LinearOperator | None, _: Product, right: jax.Array) -> jax.Array:
    """The solution for any size of the right-hand side: derivatives are linear in it."""
    size = jnp.max(jnp.abs(right))
    size = jnp.where(size > 0, size, 1)
    b = from_jax(right / size, dtype=solver.b.dtype)
    again = solver.another(A, b, zeros_like(b), M)
    again.tol, again.atol = again.tol or again.default_tol, 0.0
    again.solve_to_the_end()
    return to_jax(again.x) * size


def _product(operator: LinearOperator, like: array) -> Product:
    """The product with an operator as a function of JAX values."""

    def product(values: jax.Array) -> jax.Array:
        made = zeros_like(like)
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
