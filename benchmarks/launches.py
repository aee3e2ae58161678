"""Small launches and their adjoints: what one costs in a jitted function, as a jitted call, eagerly, and in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from contenders import JWARP, WARP, jwarp, warp
from figures import Figure, Target, at_most, faster
from timing import Run, Time, interleave

SIZE = 8
CHAIN = 100

Step = Callable[[jax.Array], jax.Array]


@jwarp.kernel
def plus_one(x: jwarp.array[float], y: jwarp.array[float]):
    """As `add_one`, with gradients."""
    i = jwarp.tid()
    y[i] = x[i] + 1.0


def measure(rounds: int, budget: float) -> Iterator[Figure]:
    yield _chained(rounds, budget)
    yield _single(rounds, budget)
    yield _eager(rounds, budget)
    yield _replayed(rounds, budget)
    yield _in_place(rounds, budget)
    yield _eager_adjoint(rounds, budget)
    yield _in_place_adjoint(rounds, budget)


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


def _eager(rounds: int, budget: float) -> Figure:
    """Launches outside of jit, one after the other; the last one is waited for."""
    x = jnp.arange(float(SIZE))
    runs: dict[str, Callable[[], jax.Array]] = {name: partial(step, x) for name, step in _steps().items()}
    runs["jax"] = lambda: x * 3

    def repeated(run: Callable[[], jax.Array]) -> Run:
        return lambda: [run() for _ in range(CHAIN)][-1].block_until_ready()

    measured = {name: repeated(run) for name, run in runs.items()}
    times = {name: time.per(CHAIN) for name, time in interleave(measured, rounds, budget).items()}
    ratio = times["jwarp"].least / times["jax"].least
    target = Target("of the time of x * 3", ratio, 3.0, "x", at_least=False)
    return Figure("an eager launch on a JAX array", times, (target,), note="jax: an eager x * 3")


def _replayed(rounds: int, budget: float) -> Figure:
    """Records of a launch on arrays in place; a turn runs each of them many times."""
    x, y = np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32)
    runs: dict[str, Run] = {"jwarp": jwarp.launch(JWARP.add_one, SIZE, [x], [y], record_cmd=True).launch}
    if warp is not None and WARP is not None:
        there = warp.array(x, dtype=float, device="cpu"), warp.zeros(SIZE, dtype=float, device="cpu")
        runs["warp"] = warp.launch(
            WARP.add_one, SIZE, inputs=[there[0]], outputs=[there[1]], device="cpu", record_cmd=True
        ).launch
    times = {name: time.per(CHAIN) for name, time in interleave(_many(runs), rounds, budget).items()}
    np.testing.assert_array_equal(y, x + 1)
    return Figure("a recorded launch in place", times, faster(times, "warp", 2))


def _in_place(rounds: int, budget: float) -> Figure:
    x, y = np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32)
    runs: dict[str, Run] = {"jwarp": lambda: jwarp.launch(JWARP.add_one, SIZE, [x], [y])}
    if warp is not None and WARP is not None:
        there = warp.array(x, dtype=float, device="cpu"), warp.zeros(SIZE, dtype=float, device="cpu")
        runs["warp"] = lambda: warp.launch(WARP.add_one, SIZE, inputs=[there[0]], outputs=[there[1]], device="cpu")
    times = {name: time.per(CHAIN) for name, time in interleave(_many(runs), rounds, budget).items()}
    np.testing.assert_array_equal(y, x + 1)
    return Figure("a launch in place", times, faster(times, "warp", 1))


def _eager_adjoint(rounds: int, budget: float) -> Figure:
    """Adjoint launches outside of jit, beside the launches that they are adjoints of."""
    x, cotangent = jnp.arange(float(SIZE)), jnp.full(SIZE, 3.0)
    inputs = [x]

    def forward() -> jax.Array:
        return jwarp.launch(plus_one, SIZE, inputs, [SIZE])[0]

    def adjoint() -> jax.Array:
        return jwarp.launch(plus_one, SIZE, inputs, [SIZE], adjoint=True, adj_outputs=[cotangent])[0]

    def repeated(run: Callable[[], jax.Array]) -> Run:
        return lambda: [run() for _ in range(CHAIN)][-1].block_until_ready()

    np.testing.assert_array_equal(adjoint(), cotangent)
    runs = {"forward": repeated(forward), "jwarp": repeated(adjoint)}
    times = {name: time.per(CHAIN) for name, time in interleave(runs, rounds, budget).items()}
    return _beside_forward("an eager adjoint launch on JAX arrays", times)


def _in_place_adjoint(rounds: int, budget: float) -> Figure:
    x, y, cotangent, gradient = (np.full(SIZE, k, np.float32) for k in range(4))
    inputs, outputs = [x], [y]

    def adjoint() -> None:
        jwarp.launch(plus_one, SIZE, inputs, outputs, adjoint=True, adj_inputs=[gradient], adj_outputs=[cotangent])

    adjoint()
    np.testing.assert_array_equal(gradient, np.full(SIZE, 5))
    runs: dict[str, Run] = {"forward": lambda: jwarp.launch(plus_one, SIZE, inputs, outputs), "jwarp": adjoint}
    times = {name: time.per(CHAIN) for name, time in interleave(_many(runs), rounds, budget).items()}
    return _beside_forward("an adjoint launch in place", times)


def _beside_forward(name: str, times: dict[str, Time]) -> Figure:
    ratio = times["jwarp"].least / times["forward"].least
    target = Target("of the time of the launch", ratio, 3.0, "x", at_least=False)
    return Figure(name, {"jwarp": times["jwarp"]}, (target,))


def _many(runs: dict[str, Run]) -> dict[str, Run]:
    def repeat(run: Run) -> Run:
        def repeated() -> None:
            for _ in range(CHAIN):
                run()

        return repeated

    return {name: repeat(run) for name, run in runs.items()}


def _prepare(function: Step, x: jax.Array, want: Any) -> Run:
    """The jitted function as a run, after a look at its result."""
    jitted = jax.jit(function)
    np.testing.assert_allclose(jitted(x), want)
    return lambda: jitted(x).block_until_ready()
