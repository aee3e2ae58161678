"""Elementary functions over a large array: jwarp's own vector code against XLA's and the C library's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from contenders import jwarp, numba_kernels
from figures import Figure, Target
from jax.scipy import special
from kernels import elementwise
from timing import Run, Time, interleave

SIZE = 1 << 18
BOUND = 1.5


@dataclass(frozen=True)
class Function:
    """One function under its names, and the range of its arguments."""

    name: str
    xla: Callable[..., Any]
    low: float = -10.0
    high: float = 10.0
    arity: int = 1


FUNCTIONS = (
    Function("sqrt", jnp.sqrt, 0.0),
    Function("sin", jnp.sin),
    Function("cos", jnp.cos),
    Function("tan", jnp.tan),
    Function("asin", jnp.arcsin, -1.0, 1.0),
    Function("acos", jnp.arccos, -1.0, 1.0),
    Function("atan", jnp.arctan),
    Function("exp", jnp.exp),
    Function("log", jnp.log, 0.01),
    Function("log2", jnp.log2, 0.01),
    Function("log10", jnp.log10, 0.01),
    Function("sinh", jnp.sinh),
    Function("cosh", jnp.cosh),
    Function("tanh", jnp.tanh),
    Function("cbrt", jnp.cbrt),
    Function("erf", special.erf, -4.0, 4.0),
    Function("erfc", special.erfc, -4.0, 4.0),
    Function("erfinv", special.erfinv, -0.99, 0.99),
    Function("pow", jnp.power, 0.01, 5.0, arity=2),
    Function("atan2", jnp.arctan2, arity=2),
)


def measure(rounds: int, budget: float, with_numba: bool) -> Iterator[Figure]:
    """A figure for each function; numba takes a second to compile each."""
    for function in FUNCTIONS:
        yield _measure(function, rounds, budget, with_numba)
        jax.clear_caches()


def _measure(function: Function, rounds: int, budget: float, with_numba: bool) -> Figure:
    rng = np.random.default_rng(0)
    arguments = [rng.uniform(function.low, function.high, SIZE).astype(np.float32) for _ in range(function.arity)]
    kernel = elementwise(jwarp, getattr(jwarp, function.name), function.arity)
    on_device = [jnp.asarray(x) for x in arguments]

    def launch(*x: jax.Array) -> jax.Array:
        return jwarp.launch(kernel, SIZE, list(x), [SIZE])[0]

    runs: dict[str, Run] = {}
    for name, computed in (("jwarp", launch), ("jax", function.xla)):
        runs[name] = partial(_run, jax.jit(computed), on_device)
    np.testing.assert_allclose(runs["jwarp"](), runs["jax"](), rtol=1e-3, atol=1e-5)
    by_numba = numba_kernels.elementwise(function.name) if with_numba and numba_kernels else None
    if by_numba is not None:
        runs["numba"] = partial(by_numba, *arguments, np.zeros(SIZE, np.float32))
    times = interleave(runs, rounds, budget)
    return Figure(f"{function.name}, 2^18 float32", times, (_target(times),))


def _run(jitted: Callable[..., jax.Array], arguments: list[jax.Array]) -> jax.Array:
    return jitted(*arguments).block_until_ready()


def _target(times: dict[str, Time]) -> Target:
    best = min((who for who in times if who != "jwarp"), key=lambda who: times[who].least)
    return Target(f"of {best}'s time", times["jwarp"].least / times[best].least, BOUND, "x", at_least=False)
