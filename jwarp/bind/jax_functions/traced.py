"""Primitives that are computed by others: by JAX's own functions for them, or by formulas written in jax.numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jwarp.bind import compat
from jwarp.bind.jax_functions import factors, special
from jwarp.bind.jax_functions.derivatives import by_rule
from jwarp.bind.jax_functions.equations import computed
from jwarp.bind.jax_functions.forms import Form, NotLinear
from jwarp.bind.jax_functions.lowering import Lowering, Scalars, flat, primitive

# Special functions that JAX computes by functions in jax.numpy.
_IN_PYTHON = ("igamma", "igammac", "igamma_grad_a", "regularized_incomplete_beta", "bessel_i0e")
# Those that JAX has no derivative of, by some of their arguments: it is that of how they are computed.
_AS_COMPUTED = ("zeta", "polygamma", "igamma_grad_a")


def _computed_by(name: str, function: Callable[..., Any]) -> None:
    """Give a primitive a row: what `function` of its arguments makes, with the derivative that JAX has for it."""

    @primitive(name)
    def rule(low: Lowering, equation: Any, *args: Scalars) -> list[Scalars]:
        def value(*args: Scalars) -> list[Scalars]:
            return low.closed(computed(function, equation), args, foreign=True)

        is_plain = name in _AS_COMPUTED or any(isinstance(x, Form) for x in flat(args))
        return value(*args) if is_plain else by_rule(low, equation, args, value)


def _in_python(name: str) -> Callable[..., Any]:
    return lambda *args, **params: compat.computed_in_python(name)(*args)


for _name in _IN_PYTHON:
    _computed_by(_name, _in_python(_name))
for _name, _function in (special.FUNCTIONS | factors.FUNCTIONS).items():
    _computed_by(_name, _function)


@primitive("custom_linear_solve")
def _solved(low: Lowering, equation: Any, *args: Scalars) -> list[Scalars]:
    """By its `solve`; its derivative is that of the equation solved."""
    lengths, jaxprs = equation.params["const_lengths"], equation.params["jaxprs"]
    first = lengths.matvec + lengths.vecmat
    consts, b = list(args[first : first + lengths.solve]), args[first + lengths.solve + lengths.transpose_solve :]

    def solve(*b: Scalars) -> list[Scalars]:
        return low.closed(jaxprs.solve, [*consts, *b])

    if not any(isinstance(x, Form) for array in args for x in array.flat):
        return by_rule(low, equation, args, lambda *_: solve(*b))
    if any(isinstance(x, Form) for array in args[: -len(b)] for x in array.flat):
        raise NotLinear
    found = solve(*b)
    if low.order <= 0:
        return found
    # The factors that `solve` has may be known as numbers alone, while the coefficients of forms have derivatives by
    # the matrix: of A x = b, that is dx = solve(db - dA x). This is the derivative of solve(b - A x) at fixed x.
    assert low.order == 1
    consts = [low.each(low.undifferentiated, x) for x in consts]
    fixed = [low.each(low.undifferentiated, x) for x in found]
    products = low.closed(jaxprs.matvec, [*args[: lengths.matvec], *fixed])
    left = [low.each(lambda x, y: low.op("sub", x, y), *pair) for pair in zip(b, products, strict=True)]
    changes = solve(*left)
    return [low.each(lambda x, y: low.op("follow", x, y), *pair) for pair in zip(found, changes, strict=True)]
