"""Small launches: what one costs inside a jitted function, and what a jitted call of one costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from contenders import JWARP, WARP, jwarp, warp
from figures import Figure, Target, at_most
from timing import Run, interleave

SIZE = 8
CHAIN = 100

Step = Callable[[jax.Array], jax.Array]


def measure(rounds: int, budget: float) -> Iterator[Figure]:
    yield _chained(rounds, budget)
    yield _single(rounds, budget)


def _steps() -> dict[str, Step]:
    steps: dict[str, Step] = {"jwarp": lambda x: jwarp.launch(JWARP.add_one, SIZE, [x], [SIZE])[0]}
    if warp is not None and WARP is not None:
        wrapped = warp.jax_kernel(WARP.add_one)
        steps["warp"] = lambda x: wrapped(x)[0]
    return steps


def _chained(rounds: int, budget: float) -> Figure:
    def chain(step: Step) -> Step:
        def chained(x: jax.Array) -> jax.Array:
            for _ in range(CHAIN):
                x = step(x)
            return x

        return chained

    x = jnp.arange(float(SIZE))
    runs = {name: _prepare(chain(step), x, np.arange(SIZE) + CHAIN) for name, step in _steps().items()}
    times = {name: time.per(CHAIN) for name, time in interleave(runs, rounds, budget).items()}
    targets = at_most("a launch", times["jwarp"].least, 0.3e-6, "us")
    return Figure(f"a launch, {CHAIN} chained in one jit", times, targets)


def _single(rounds: int, budget: float) -> Figure:
    x = jnp.arange(float(SIZE))
    runs = {name: _prepare(step, x, np.arange(SIZE) + 1) for name, step in _steps().items()}
    runs["jax"] = _prepare(lambda x: x * 3, x, np.arange(SIZE) * 3)
    times = interleave(runs, 4 * rounds, budget)
    ratio = times["jwarp"].least / times["jax"].least
    target = Target("of the time of x * 3", ratio, 1.3, "x", at_least=False)
    return Figure("one jitted call of a small launch", times, (target,), note="jax: a jitted x * 3")


def _prepare(function: Step, x: jax.Array, want: Any) -> Run:
    """The jitted function as a run, after a look at its result."""
    jitted = jax.jit(function)
    np.testing.assert_allclose(jitted(x), want)
    return lambda: jitted(x).block_until_ready()
