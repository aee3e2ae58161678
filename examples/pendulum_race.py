"""One loop, three ways: a kernel under `jax.vmap`, a kernel with a thread per pendulum, and `jax.numpy`
=====================================================================================================

The pendulums are those of `pendulum_batch.py`. A kernel for one pendulum takes numbers, and `jax.vmap` makes it one
launch. A kernel for all pendulums takes arrays, and each thread integrates one pendulum. Both become the same code.
In `jax.numpy`, the loop is a `lax.fori_loop` over arrays, which go through memory in every step. The three agree, and
are timed in turn.

To run it::

    python examples/pendulum_race.py               # writes pendulum_race.png
    python examples/pendulum_race.py --quick       # few pendulums, few steps

Needs matplotlib and tqdm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import drawing
import jwarp as wp
from drawing.pendulums import draw_costs
from pendulum_batch import APART, GRAVITY, STEP, swing_batch, swing_twins, twins


@wp.kernel
def swing_all(
    one: wp.vec4,
    two: wp.vec4,
    lower: wp.array[float],
    drag: wp.array[float],
    dt: float,
    steps: int,
    one_after: wp.array[wp.vec4],
    two_after: wp.array[wp.vec4],
    together: wp.array[float],
):
    """The same for a thread to each pendulum."""
    i = wp.tid()
    one_after[i], two_after[i], together[i] = swing_twins(one, two, lower[i], drag[i], dt, steps)


swing_all_fn = wp.jax_kernel(swing_all, num_outputs=3)


def motion_jnp(state, lower, drag):
    upper_angle, lower_angle, upper_speed, lower_speed = state
    between = upper_angle - lower_angle
    sine, cosine = jnp.sin(between), jnp.cos(between)
    whirl, lower_whirl = upper_speed**2, lower_speed**2 * lower
    inertia = 4.0 - 2.0 * cosine * cosine
    pull = 3.0 * GRAVITY * jnp.sin(upper_angle) + GRAVITY * jnp.sin(between - lower_angle)
    upper_gain = -(pull + 2.0 * sine * (lower_whirl + whirl * cosine)) / inertia
    push = 2.0 * whirl + 2.0 * GRAVITY * jnp.cos(upper_angle) + lower_whirl * cosine
    lower_gain = 2.0 * sine * push / (lower * inertia)
    return jnp.stack([upper_speed, lower_speed, upper_gain - drag * upper_speed, lower_gain - drag * lower_speed])


def advance_jnp(state, lower, drag, dt):
    k1 = motion_jnp(state, lower, drag)
    k2 = motion_jnp(state + 0.5 * dt * k1, lower, drag)
    k3 = motion_jnp(state + 0.5 * dt * k2, lower, drag)
    k4 = motion_jnp(state + dt * k3, lower, drag)
    return state + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


@partial(jax.jit, static_argnums=5)
@partial(jax.vmap, in_axes=(None, None, 0, 0, None, None))
def swing_jnp(one, two, lower, drag, dt, steps):
    def step(k, carried):
        one, two, together = carried
        one, two = advance_jnp(one, lower, drag, dt), advance_jnp(two, lower, drag, dt)
        parted = jnp.abs(one - two)[:2].max() > APART
        return one, two, jnp.where(parted, jnp.minimum(together, (k + 1) * dt), together)

    return jax.lax.fori_loop(0, steps, step, (one, two, jnp.float32(steps * dt)))


def measure(count: int, steps: int, rounds: int) -> dict[str, float]:
    """Seconds for `steps` steps of `count` pairs of twins, the median of runs in turns."""
    random = np.random.default_rng(1)
    lower = jnp.asarray(random.uniform(0.3, 2.0, count), jnp.float32)
    drag = jnp.asarray(random.uniform(0.0, 0.3, count), jnp.float32)
    args = (*twins(), lower, drag, STEP, steps)
    ways: dict[str, Callable] = {
        "kernel of one pendulum, jax.vmap": swing_batch,
        "kernel of all, a thread to each": swing_all_fn,
        "jax.numpy, fori_loop, jax.vmap": swing_jnp,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in drawing.progress(range(rounds + 1), desc="measure", unit=" rounds"):
        for name, way in ways.items():
            start = time.perf_counter()
            jax.block_until_ready(way(*args))
            if number:  # the first round compiles
                seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(taken)) for name, taken in seconds.items()}


def main(quick: bool = False, out: Path = Path("pendulum_race.png")) -> dict[str, float]:
    """Measure, report, draw."""
    count, steps = (256, 40) if quick else (10_000, 300)
    costs = measure(count, steps, rounds=1 if quick else 5)
    for name, cost in costs.items():
        print(f"{name + ':':<34}{cost * 1e3:8.1f} ms for {steps} steps")
    draw_costs(costs, f"{steps} steps of {count:,} pendulums and their twins", out)
    print(f"wrote {out}")
    return costs


if __name__ == "__main__":
    drawing.run(main, __doc__, "pendulum_race.png")
