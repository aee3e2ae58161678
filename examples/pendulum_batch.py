"""Ten thousand double pendulums: one kernel integrates one of them, `jax.vmap` integrates all
===========================================================================================

Each pendulum has a twin that starts at a slightly different angle. The left picture shows for each length of the
lower arm and each air drag how long the twins stay together. On the right are the twins of three of these pendulums.
The kernel contains the whole integration (Runge-Kutta of fourth order) of one pendulum, with numbers as parameters.
`jax.jit(jax.vmap(…))` makes it one launch for the whole map. Before it draws, the program checks that energy is
conserved without drag. The next two lessons use the same kernel: `fit_pendulum.py` finds a pendulum by gradients, and
`pendulum_race.py` compares the cost with `jax.numpy`.

To run it::

    python examples/pendulum_batch.py               # writes pendulum_batch.png
    python examples/pendulum_batch.py --quick       # a few seconds

Needs matplotlib and tqdm. Both bobs weigh 1 kg and the upper arm is 1 m long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import drawing
import jwarp as wp
from drawing.pendulums import draw

GRAVITY = 9.81  # m/s²
RELEASE = (2.2, 2.2, 0.0, 0.0)  # angles (rad) from hanging down, and their speeds (rad/s): at rest
HAIR = 1.0e-4  # rad: how far beside its twin a pendulum is released
APART = 1.0  # rad: where twins count as parted
STEP = 0.005  # s
ENERGY_TOLERANCE = 1.0e-3  # of the energy that a pendulum can turn into motion


@wp.func
def motion(state: wp.vec4, lower: float, drag: float) -> wp.vec4:
    """How angles and speeds change; `drag` slows each bob by that part of its velocity in a second."""
    upper_angle, lower_angle, upper_speed, lower_speed = state[0], state[1], state[2], state[3]
    between = upper_angle - lower_angle
    sine, cosine = wp.sin(between), wp.cos(between)
    whirl = upper_speed * upper_speed
    lower_whirl = lower_speed * lower_speed * lower
    inertia = 4.0 - 2.0 * cosine * cosine  # 3 - cos(2 * between)
    pull = 3.0 * GRAVITY * wp.sin(upper_angle) + GRAVITY * wp.sin(between - lower_angle)
    upper_gain = -(pull + 2.0 * sine * (lower_whirl + whirl * cosine)) / inertia
    push = 2.0 * whirl + 2.0 * GRAVITY * wp.cos(upper_angle) + lower_whirl * cosine
    lower_gain = 2.0 * sine * push / (lower * inertia)
    return wp.vec4(upper_speed, lower_speed, upper_gain - drag * upper_speed, lower_gain - drag * lower_speed)


@wp.func
def advance(state: wp.vec4, lower: float, drag: float, dt: float) -> wp.vec4:
    """One step of the classical Runge-Kutta method."""
    k1 = motion(state, lower, drag)
    k2 = motion(state + 0.5 * dt * k1, lower, drag)
    k3 = motion(state + 0.5 * dt * k2, lower, drag)
    k4 = motion(state + dt * k3, lower, drag)
    return state + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


@wp.func
def distance(x: wp.vec4, y: wp.vec4) -> float:
    """The larger one of the differences between the angles."""
    return wp.max(wp.abs(x[0] - y[0]), wp.abs(x[1] - y[1]))


@wp.func
def swing_twins(one: wp.vec4, two: wp.vec4, lower: float, drag: float, dt: float, steps: int):
    """Both after `steps` steps, and the time (s) they stayed together."""
    together = float(steps) * dt
    for step in range(steps):
        one = advance(one, lower, drag, dt)
        two = advance(two, lower, drag, dt)
        if distance(one, two) > APART:
            together = wp.min(together, float(step + 1) * dt)
    return one, two, together


@wp.kernel
def swing(
    one: wp.vec4,
    two: wp.vec4,
    lower: float,
    drag: float,
    dt: float,
    steps: int,
    one_after: wp.array[wp.vec4],
    two_after: wp.array[wp.vec4],
    together: wp.array[float],
):
    """One pendulum and its twin; everything is a number or a vector."""
    i = wp.tid()
    one_after[i], two_after[i], together[i] = swing_twins(one, two, lower, drag, dt, steps)


swing_fn = wp.jax_kernel(swing, num_outputs=3, launch_dims=1)


@partial(jax.jit, static_argnums=5)
@partial(jax.vmap, in_axes=(None, None, 0, 0, None, None))
def swing_batch(one, two, lower, drag, dt, steps):
    """Twins of different pendulums, swung by one launch."""
    one, two, together = swing_fn(one, two, lower, drag, dt, steps)
    return one[0], two[0], together[0]


@dataclass(frozen=True)
class Survey:
    """For each drag (rows, 1/s) and length of the lower arm (columns, m): how long twins stay together (s)."""

    lower: np.ndarray
    drag: np.ndarray
    together: np.ndarray
    seconds: float  # that were simulated
    energy_error: float  # without drag, of the energy that can become motion


@dataclass(frozen=True)
class Track:
    """The angle (rad) of the lower arm over time (s), of a pendulum and of its twin."""

    lower: float
    drag: float
    time: np.ndarray
    angles: np.ndarray  # (2, times)


def twins() -> tuple[jax.Array, jax.Array]:
    """How a pendulum is released, and its twin."""
    return jnp.array(RELEASE), jnp.array(RELEASE) + jnp.array([HAIR, 0.0, 0.0, 0.0])


def energy(state: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Energy (J) above that of a pendulum at rest."""
    upper_angle, lower_angle, upper_speed, lower_speed = np.moveaxis(np.asarray(state, np.float64), -1, 0)
    moving = upper_speed**2 + 0.5 * (lower * lower_speed) ** 2
    moving = moving + lower * upper_speed * lower_speed * np.cos(upper_angle - lower_angle)
    lifted = 2.0 * (1.0 - np.cos(upper_angle)) + lower * (1.0 - np.cos(lower_angle))
    return moving + GRAVITY * lifted


def survey(side: int, seconds: float) -> Survey:
    """Swing the twins of `side` * `side` pendulums."""
    lower = np.linspace(0.3, 2.0, side, dtype=np.float32)
    drag = np.linspace(0.0, 0.3, side, dtype=np.float32)
    every_drag, every_lower = (x.ravel() for x in np.meshgrid(drag, lower, indexing="ij"))
    one_after, _, together = swing_batch(*twins(), every_lower, every_drag, STEP, round(seconds / STEP))
    first = energy(np.array(RELEASE), lower)
    error = np.abs(energy(one_after[:side], lower) / first - 1.0).max()  # the first row has no drag
    return Survey(lower, drag, np.asarray(together).reshape(side, side), seconds, float(error))


def track(lower: float, drag: float, seconds: float) -> Track:
    """Follow one pendulum and its twin: a scan over launches of a few steps each."""
    steps = 4

    @jax.jit
    def run(one, two):
        def launch(pair, _):
            one, two, _ = swing_fn(*pair, lower, drag, STEP, steps)
            return (one[0], two[0]), (one[0, 1], two[0, 1])

        return jax.lax.scan(launch, (one, two), length=round(seconds / STEP) // steps)[1]

    angles = np.stack(run(*twins()))
    return Track(lower, drag, steps * STEP * np.arange(1, angles.shape[1] + 1), angles)


def main(quick: bool = False, out: Path = Path("pendulum_batch.png")) -> tuple[Survey, list[Track]]:
    """Simulate, check the energy, draw."""
    side, seconds = (24, 12.0) if quick else (100, 20.0)
    found = survey(side, seconds)
    print(f"energy without drag: {found.energy_error:.1e} off after {seconds:g} s, allowed {ENERGY_TOLERANCE:g}")
    if found.energy_error > ENERGY_TOLERANCE:
        raise RuntimeError("too much energy was lost or made")
    three = drawing.progress([(0.7, 0.02), (1.2, 0.05), (1.6, 0.2)], desc="tracks")
    tracks = [track(lower, drag, seconds) for lower, drag in three]
    draw(found, tracks, HAIR, APART, out)
    print(f"wrote {out}")
    return found, tracks


if __name__ == "__main__":
    drawing.run(main, __doc__, "pendulum_batch.png")
