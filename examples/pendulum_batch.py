"""Ten thousand double pendulums: one kernel swings one of them, `jax.vmap` swings them all
========================================================================================

Each pendulum has a twin, released a hair's breadth beside it. On the left, the picture shows for every length of the
lower arm and every air drag how long the twins stay together; on the right, the twins of three of these pendulums.
A kernel holds the whole integration (Runge-Kutta of fourth order), as it would be written for one pendulum, and takes
its parameters as numbers; `jax.jit(jax.vmap(…))` makes one launch of it for the whole map. Before it draws, the
program checks that no energy is lost without drag, and measures what the same costs in plain jax.numpy. Last it fits
one pendulum: from where the bobs are seen ten times in a second, gradients through the kernel's loop find the length of
the lower arm and the drag.

To run it::

    python examples/pendulum_batch.py               # writes pendulum_batch.png
    python examples/pendulum_batch.py --quick       # a few seconds

Needs matplotlib and tqdm. Both bobs weigh 1 kg and the upper arm is 1 m long.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tqdm import tqdm

import jwarp as wp

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


swing_fn = wp.jax_kernel(swing, num_outputs=3, launch_dims=1)
swing_all_fn = wp.jax_kernel(swing_all, num_outputs=3)


@partial(jax.jit, static_argnums=5)
@partial(jax.vmap, in_axes=(None, None, 0, 0, None, None))
def swing_batch(one, two, lower, drag, dt, steps):
    """Twins of different pendulums, swung by one launch."""
    one, two, together = swing_fn(one, two, lower, drag, dt, steps)
    return one[0], two[0], together[0]


# The same in jax.numpy


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


# What is computed


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
    for number in tqdm(range(rounds + 1), desc="measure", unit=" rounds", leave=False):
        for name, way in ways.items():
            start = time.perf_counter()
            jax.block_until_ready(way(*args))
            if number:  # the first round compiles
                seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(taken)) for name, taken in seconds.items()}


# One pendulum, fitted


@dataclass(frozen=True)
class Fit:
    """Length (m) and drag (1/s) of a pendulum, what was found of them, and the misfit (rad²) before each step."""

    true: np.ndarray
    found: np.ndarray
    misfits: np.ndarray


def fit(true: tuple[float, float] = (1.1, 0.12), guess: tuple[float, float] = (0.9, 0.02), steps: int = 30) -> Fit:
    """Find `true` from the states seen ten times in a second, by Gauss and Newton's method."""
    one, two = twins()

    def seen(parameters: jax.Array) -> jax.Array:
        """Angles and speeds at each time."""

        def launch(state, _):
            state = swing_fn(state, two, *parameters, STEP, 20)[0][0]
            return state, state

        return jax.lax.scan(launch, one, length=10)[1]

    observed = jax.jit(seen)(jnp.array(true))

    def misfit(parameters: jax.Array) -> jax.Array:
        return jnp.mean((seen(parameters) - observed) ** 2)

    @jax.jit
    def improve(parameters):
        value, slope = jax.value_and_grad(misfit)(parameters)
        jacobian = jax.jacfwd(seen)(parameters).reshape(-1, 2)
        bend = 2.0 * jacobian.T @ jacobian / jacobian.shape[0]
        return parameters - jnp.linalg.solve(bend + 1.0e-6 * jnp.eye(2), slope), value

    parameters, misfits = jnp.array(guess), []
    for _ in range(steps):
        parameters, value = improve(parameters)
        misfits.append(float(value))
    return Fit(np.array(true), np.asarray(parameters), np.array(misfits))


# The picture

INK, TWIN = "#20304f", "#e8743b"


def draw(found: Survey, tracks: list[Track], path: Path) -> None:
    figure = Figure(figsize=(12.5, 6.4), dpi=120, layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.25, 1.0], wspace=0.06)
    draw_map(left.subplots(), found, tracks)
    rows = right.subplots(len(tracks), sharex=True)
    for letter, axes, one in zip("ABC", rows, tracks, strict=True):
        draw_track(axes, one, letter)
    rows[0].set_title("Three of them beside their twins", loc="left", fontsize=13, fontweight="bold")
    rows[0].legend(loc="lower left", ncols=2, frameon=False, fontsize=9)
    rows[-1].set(xlabel="time (s)", xlim=(0.0, found.seconds))
    right.supylabel("angle of the lower arm (turns)", fontsize="medium")
    figure.savefig(path)


def draw_map(axes: Axes, found: Survey, tracks: list[Track]) -> None:
    parted = np.ma.masked_greater(found.together, found.seconds - STEP)
    extent = (found.lower[0], found.lower[-1], found.drag[0], found.drag[-1])
    axes.set_facecolor("#dfe7ee")
    image = axes.imshow(parted, origin="lower", aspect="auto", extent=extent, cmap="inferno_r", interpolation="nearest")
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02)
    bar.set_label(f"time until the twins are {APART:g} rad apart (s); light grey: not in {found.seconds:g} s")
    for letter, one in zip("ABC", tracks, strict=True):
        axes.plot(one.lower, one.drag, "o", color="white", markeredgecolor=INK, markersize=15)
        axes.text(one.lower, one.drag, letter, color=INK, ha="center", va="center", fontweight="bold", fontsize=9)
    axes.set(xlabel="length of the lower arm (m), upper arm: 1 m", ylabel="air drag (1/s)")
    axes.set_title(
        f"How long {found.together.size:,} double pendulums stay with their twins",
        loc="left",
        fontsize=13,
        fontweight="bold",
    )


def draw_track(axes: Axes, one: Track, letter: str) -> None:
    turns = one.angles / (2.0 * np.pi)
    axes.plot(one.time, turns[0], color=INK, linewidth=1.6, label="pendulum")
    axes.plot(
        one.time, turns[1], color=TWIN, linewidth=1.6, linestyle=(0, (3, 1.5)), label=f"twin, {HAIR:g} rad beside"
    )
    axes.text(
        0.99, 0.94, f"{letter}: {one.lower:g} m, drag {one.drag:g}/s",
        transform=axes.transAxes, ha="right", va="top", fontweight="bold", color=INK,
    )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.margins(y=0.3)


def main(quick: bool = False, out: Path | None = None) -> tuple[Survey, list[Track], Fit]:
    """Simulate, check the energy, measure, fit one pendulum, draw."""
    side, seconds = (16, 4.0) if quick else (100, 20.0)
    found = survey(side, seconds)
    print(f"energy without drag: {found.energy_error:.1e} off after {seconds:g} s, allowed {ENERGY_TOLERANCE:g}")
    if found.energy_error > ENERGY_TOLERANCE:
        raise RuntimeError("too much energy was lost or made")
    steps = 40 if quick else 300
    costs = measure(side * side, steps, rounds=1 if quick else 5)
    for name, cost in costs.items():
        print(f"{name + ':':<34}{cost * 1e3:8.1f} ms for {steps} steps")
    fitted = fit()
    (length, drag), (lower, slowed) = fitted.found, fitted.true
    print(f"one pendulum fitted: {length:.4f} m and drag {drag:.4f}/s; it has {lower:g} m and {slowed:g}/s")
    tracks = [track(lower, drag, seconds) for lower, drag in ((0.7, 0.02), (1.2, 0.05), (1.6, 0.2))]
    out = out or Path("pendulum_batch.png")
    draw(found, tracks, out)
    print(f"wrote {out}")
    return found, tracks, fitted


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few pendulums and a short time")
    parser.add_argument("--out", type=Path, help="the picture (default: pendulum_batch.png)")
    main(**vars(parser.parse_args()))
