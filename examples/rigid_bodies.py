"""Rigid bodies turn by quaternions: T-handles that tumble in space, and a chain of them, integrated by one kernel
===============================================================================================================

A T-handle that spins about its middle axis turns over, again and again (Dzhanibekov 1985); the less it is tilted, the
longer it waits. One kernel holds all time steps of a free chain of handles, joined at their ends by stiff springs; a
handle is a chain of one. It is written for one chain, and `jax.vmap` tumbles thousands by one launch, for the map at
the left of the picture. At the right are handles that turn over, a chain thrown with a twist, and how well energy and
angular momentum are kept. A step turns each body about its own axes, one after the other, each turn exactly (Reich
1994), so momentum is kept to rounding, and the error of the energy stays small. Last the program checks a gradient
through a thousand steps of the chain against finite differences, in float64.

To run it::

    python examples/rigid_bodies.py               # writes rigid_bodies.png
    python examples/rigid_bodies.py --quick       # a few seconds

Needs matplotlib and tqdm. Lengths are in m, times in s; a handle weighs 1 kg.
"""

# Without postponed annotations: those of the kernel name variables.

import argparse
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from tqdm import tqdm

import jwarp as wp

INERTIA = (0.2, 0.35, 0.5)  # kg m²: moments of inertia of a handle about its own axes x, y, z
REACH = 0.8  # m from the middle of a handle to the joints at its ends, along its axis x
STIFFNESS = 1.0e4  # N/m, of a joint
SPIN = 3.0  # rad/s, about the middle axis
STEP = 0.001  # s
ENERGY_TOLERANCE, MOMENTUM_TOLERANCE = 1.0e-2, 1.0e-3  # by how much they may be off, of what they were


@functools.cache
def tumble(real: Any = wp.float32) -> Callable[..., tuple[jax.Array, ...]]:
    """The JAX function that moves a free chain of handles for some steps.

    It takes quaternions, angular momenta, places and velocities of all handles, in the frame of the room, and gives
    them afterwards; then the moments of inertia of each, the time step, and how many steps.
    """
    vec3, quat = wp.types.vector(3, real), wp.types.quaternion(real)
    reach = vec3(REACH, 0.0, 0.0)
    stiffness, half = wp.constant(real(STIFFNESS)), wp.constant(real(0.5))

    @wp.func
    def turned_about(axis: int, q: quat, turning: vec3, inertia: vec3, dt: real):
        """After a turn about one of the body's own axes, which leaves the angular momentum as it is."""
        direction = vec3()
        direction[axis] = real(1.0)
        rate = wp.quat_rotate_inv(q, turning)[axis] / inertia[axis]
        return q * wp.quat_from_axis_angle(direction, rate * dt)

    @wp.func
    def turned(q: quat, turning: vec3, inertia: vec3, dt: real):
        """After a time step without forces."""
        q = turned_about(0, q, turning, inertia, half * dt)
        q = turned_about(1, q, turning, inertia, half * dt)
        q = turned_about(2, q, turning, inertia, dt)
        q = turned_about(1, q, turning, inertia, half * dt)
        return wp.normalize(turned_about(0, q, turning, inertia, half * dt))

    @wp.kernel
    def advance(
        q: wp.array[quat],
        turning: wp.array[vec3],
        x: wp.array[vec3],
        v: wp.array[vec3],
        inertia: vec3,
        dt: real,
        steps: int,
    ):
        """One chain: half a push by the joints, then by turns motion and a push, and half a push again."""
        bodies = q.shape[0]
        for step in range(steps + 1):
            push = dt
            if step == 0 or step == steps:
                push = half * dt
            for i in range(bodies - 1):
                ahead = wp.quat_rotate(q[i], reach)
                behind = wp.quat_rotate(q[i + 1], -reach)
                impulse = push * stiffness * (x[i + 1] + behind - x[i] - ahead)
                v[i] = v[i] + impulse
                v[i + 1] = v[i + 1] - impulse
                turning[i] = turning[i] + wp.cross(ahead, impulse)
                turning[i + 1] = turning[i + 1] - wp.cross(behind, impulse)
            if step < steps:
                for i in range(bodies):
                    x[i] = x[i] + dt * v[i]
                    q[i] = turned(q[i], turning[i], inertia, dt)

    return wp.jax_kernel(advance, num_outputs=4, in_out_argnames=["q", "turning", "x", "v"], launch_dims=1)


# -- what is computed

State = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # what `tumble` takes and gives


def rotated(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Vectors turned by quaternions."""
    u, w = q[..., :3], q[..., 3:]
    return v + 2.0 * np.cross(u, np.cross(u, v) + w * v)


def inverse(q: np.ndarray) -> np.ndarray:
    """Quaternions that turn back."""
    return q * np.array([-1.0, -1.0, -1.0, 1.0])


def arms(q: np.ndarray) -> np.ndarray:
    """From the middle of each body to the joint ahead."""
    return rotated(q, np.array([REACH, 0.0, 0.0]) * np.ones_like(q[..., :3]))


def thrown(q: np.ndarray, w: np.ndarray, speed: float = 0.0) -> State:
    """A chain with these angular velocities, whose joints are closed and whose middle moves along x."""
    arm = arms(q)
    swing = np.cross(w, arm)
    x = np.cumsum(np.concatenate([np.zeros((1, 3)), arm[:-1] + arm[1:]]), 0)
    v = np.cumsum(np.concatenate([np.zeros((1, 3)), swing[:-1] + swing[1:]]), 0)
    turning = rotated(q, INERTIA * rotated(inverse(q), w))
    return q, turning, x - x.mean(0), v - v.mean(0) + np.array([speed, 0.0, 0.0])


def energy(state: State, inertia: Any = INERTIA) -> np.ndarray:
    """Energy (J) of chains, of motion and of stretched joints."""
    q, turning, x, v = (np.asarray(a, np.float64) for a in state)
    arm = arms(q)
    gap = (x[..., 1:, :] - arm[..., 1:, :]) - (x[..., :-1, :] + arm[..., :-1, :])
    spun = rotated(inverse(q), turning)
    return 0.5 * sum((a**2).sum((-2, -1)) for a in (v, spun / np.sqrt(inertia), np.sqrt(STIFFNESS) * gap))


@dataclass(frozen=True)
class Track:
    """The motion of a chain: over time (s) its quaternions, places, energy (J) and angular momentum (J s)."""

    time: np.ndarray
    q: np.ndarray  # (times, bodies, 4)
    x: np.ndarray  # (times, bodies, 3)
    energy: np.ndarray
    momentum: np.ndarray  # (times, 3)

    @property
    def energy_error(self) -> np.ndarray:
        """How far the energy is off, of what it was."""
        return np.abs(self.energy / self.energy[0] - 1.0)

    @property
    def momentum_error(self) -> np.ndarray:
        """The same for the angular momentum."""
        return np.linalg.norm(self.momentum - self.momentum[0], axis=1) / np.linalg.norm(self.momentum[0])

    @property
    def upright(self) -> np.ndarray:
        """The cosine between the first body's middle axis and the angular momentum."""
        axis = rotated(self.q[:, 0], np.array([0.0, 1.0, 0.0]) * np.ones((len(self.time), 3)))
        return axis @ self.momentum[0] / np.linalg.norm(self.momentum[0])


@functools.partial(jax.jit, static_argnums=(1, 2))
def frames(state: tuple[jax.Array, ...], steps: int, count: int) -> tuple[jax.Array, ...]:
    """The states of a chain after every so many steps: a scan over launches."""

    def launch(state: tuple[jax.Array, ...], _: None) -> tuple:
        state = tumble()(*state, INERTIA, STEP, steps)
        return state, state

    return jax.lax.scan(launch, state, length=count)[1]


def follow(state: State, seconds: float, frame: float) -> Track:
    """See a chain once in each `frame` seconds."""
    steps, first = round(frame / STEP), tuple(jnp.asarray(a, jnp.float32) for a in state)
    pairs = zip(first, frames(first, steps, round(seconds / frame)), strict=True)
    seen = [np.concatenate([np.asarray(a)[None], np.asarray(b)]).astype(np.float64) for a, b in pairs]
    q, turning, x, v = seen
    momentum = (np.cross(x, v) + turning).sum(1)
    return Track(steps * STEP * np.arange(len(q)), q, x, energy((q, turning, x, v)), momentum)


def handle(tilt: float) -> State:
    """A handle that spins about an axis that is tilted from its middle axis."""
    return thrown(np.array([[0.0, 0.0, 0.0, 1.0]]), SPIN * np.array([[np.sin(tilt), np.cos(tilt), 0.0]]))


def chain(bodies: int) -> State:
    """A bent chain that whirls like a baton, each body with a twist of its own, and flies along."""
    bend = 0.35 * np.arange(bodies)
    q = np.stack([np.zeros(bodies), np.zeros(bodies), np.sin(bend / 2.0), np.cos(bend / 2.0)], -1)
    w = np.array([0.4, 0.3, 1.6]) + np.outer(np.linspace(-1.0, 1.0, bodies), [3.0, 0.8, -0.5])
    return thrown(q, w, speed=5.0)


@dataclass(frozen=True)
class Survey:
    """For each tilt (rows, rad) and middle moment of inertia (columns, kg m²): which way up a handle ends."""

    tilt: np.ndarray
    middle: np.ndarray
    upright: np.ndarray
    seconds: float  # that were simulated
    energy_error: float
    cost: float  # seconds that it took


def survey(side: int, seconds: float) -> Survey:
    """Tumble `side` * `side` handles by one launch."""
    tilt, middle = np.geomspace(0.02, 1.0, side), np.linspace(INERTIA[0] + 0.01, INERTIA[2] - 0.01, side)
    tilts, middles = (a.ravel() for a in np.meshgrid(tilt, middle, indexing="ij"))
    inertia = np.stack([np.full_like(middles, INERTIA[0]), middles, np.full_like(middles, INERTIA[2])], -1)
    turning = inertia * SPIN * np.stack([np.sin(tilts), np.cos(tilts), np.zeros_like(tilts)], -1)
    q, none = jnp.array([[0.0, 0.0, 0.0, 1.0]]), jnp.zeros((1, 3))
    given = jnp.asarray(turning[:, None], jnp.float32), jnp.asarray(inertia, jnp.float32)
    run = jax.jit(jax.vmap(lambda t, i: tumble()(q, t, none, none, i, STEP, round(seconds / STEP))))
    compiled = run.lower(*given).compile()
    start = time.perf_counter()
    ends = jax.block_until_ready(compiled(*given))
    cost = time.perf_counter() - start
    first = energy((q, given[0], none, none), inertia[:, None])
    error = np.abs(energy(ends, inertia[:, None]) / first - 1.0).max()
    axis = rotated(np.asarray(ends[0])[:, 0], np.array([0.0, 1.0, 0.0]) * np.ones_like(turning))
    upright = (axis * turning).sum(1) / np.linalg.norm(turning, axis=1)
    return Survey(tilt, middle, upright.reshape(side, side), seconds, float(error), cost)


def gradient(bodies: int = 5, steps: int = 1000) -> tuple[float, float]:
    """How the place of the last body changes with all angular momenta: by a gradient, and by a difference."""
    with jax.enable_x64(True):
        q, turning, x, v = (jnp.asarray(a) for a in chain(bodies))
        direction = jnp.asarray(np.random.default_rng(0).normal(size=turning.shape))

        def place(turning):
            return tumble(wp.float64)(q, turning, x, v, INERTIA, STEP, steps)[2][-1].sum()

        slope = (jax.grad(place)(turning) * direction).sum()
        h = 1e-6
        return float(slope), float((place(turning + h * direction) - place(turning - h * direction)) / (2.0 * h))


# -- the picture

COLOURS = ("#20304f", "#e8743b", "#3f8f6b")


def draw(found: Survey, handles: dict[float, Track], flying: Track, path: Path) -> None:
    figure = Figure(figsize=(13.5, 7.2), dpi=120, layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.0, 1.25], wspace=0.04)
    draw_map(left.subplots(), found)
    top, middle, bottom = right.subplots(3, height_ratios=[1.0, 1.5, 1.0])
    for colour, (tilt, track) in zip(COLOURS, handles.items(), strict=True):
        top.plot(track.time, track.upright, color=colour, linewidth=1.5, label=f"tilted by {tilt:g} rad")
    top.set(xlabel="time (s)", ylabel="which way up", ylim=(-1.15, 1.8), yticks=[-1, 0, 1], xlim=(0.0, track.time[-1]))
    titled(top, "A handle turns over, again and again")
    top.legend(loc="upper right", ncols=3, frameon=False, fontsize=9)
    draw_chain(middle, flying)
    draw_drifts(bottom, {"handle": track, "chain": flying})
    figure.savefig(path)


def titled(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=12, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)


def draw_map(axes: Axes, found: Survey) -> None:
    image = axes.pcolormesh(found.middle, found.tilt, found.upright, cmap="RdBu", vmin=-1.0, vmax=1.0, rasterized=True)
    axes.set(yscale="log", xlabel="middle moment of inertia (kg m²)", ylabel="tilt at first (rad)")
    axes.set_title(f"Which way up {found.upright.size:,} handles are after {found.seconds:g} s", loc="left",
                   fontsize=12, fontweight="bold")  # fmt: skip
    bar = axes.figure.colorbar(image, ax=axes, location="bottom", pad=0.02, aspect=40)
    bar.set_label("cosine between the middle axis and the angular momentum")


def draw_chain(axes: Axes, track: Track) -> None:
    """The chain seen from above, in the first seconds: the bars of its handles, and their heads."""
    every = max(1, round(0.6 / (track.time[1] - track.time[0])))
    last = min(len(track.time), round(8.0 / (track.time[1] - track.time[0])))
    for number in range(0, last, every):
        q, x = track.q[number], track.x[number]
        head = rotated(q, np.array([0.0, 0.3, 0.0]) * np.ones_like(x))
        bars = np.stack([x - arms(q), x + arms(q)], 1)[..., :2]
        heads = np.stack([x - head, x + head], 1)[..., :2]
        shade = 0.1 + 0.8 * number / last
        axes.add_collection(LineCollection(bars, colors=[colormaps["plasma"](shade)], linewidths=2.4, capstyle="round"))
        axes.add_collection(LineCollection(heads, colors=[colormaps["plasma"](shade)], linewidths=1.2))
        axes.plot(
            *(x + arms(q))[:-1, :2].T, "o", color="white", markeredgecolor=colormaps["plasma"](shade), markersize=3
        )
    axes.autoscale()
    axes.set(aspect="equal", xlabel="m")
    titled(axes, f"A chain of {track.q.shape[1]} flies by: seen every 0.6 s")


def draw_drifts(axes: Axes, tracks: dict[str, Track]) -> None:
    for colour, (name, track) in zip(COLOURS, tracks.items(), strict=False):
        axes.semilogy(track.time[1:], track.energy_error[1:] + 1e-9, color=colour, label=f"{name}: energy")
        label = f"{name}: angular momentum{'' if track.momentum_error.any() else ' (exact)'}"
        axes.semilogy(track.time[1:], track.momentum_error[1:] + 1e-9, color=colour, linestyle=":", label=label)
    axes.set(xlabel="time (s)", ylabel="part that is off", ylim=(1e-8, 1e-1))
    axes.grid(axis="y", alpha=0.3)
    titled(axes, "What should stay, stays (float32)")
    axes.legend(loc="upper right", ncols=2, frameon=False, fontsize=9)


def main(quick: bool = False, out: Path | None = None) -> tuple[Survey, dict[float, Track], Track, tuple[float, float]]:
    """Tumble, throw, check what is kept and a gradient, draw."""
    side, seconds = (16, 6.0) if quick else (128, 20.0)
    found = survey(side, seconds)
    steps, off = round(seconds / STEP), found.energy_error
    print(f"{side * side} handles, {steps} steps: {found.cost:.2f} s; energy off by {off:.1e}")
    tilts = tqdm((0.5, 0.1, 0.02), desc="handles", leave=False)
    handles = {tilt: follow(handle(tilt), 1.5 * seconds, 0.02) for tilt in tilts}
    flying = follow(chain(5), 1.5 * seconds, 0.02)
    for name, track in {"handle": handles[0.5], "chain": flying}.items():
        lost, turned_away = track.energy_error.max(), track.momentum_error.max()
        print(f"{name}: energy off by {lost:.1e}, angular momentum by {turned_away:.1e}, after {track.time[-1]:g} s")
        if lost > ENERGY_TOLERANCE or turned_away > MOMENTUM_TOLERANCE:
            raise RuntimeError("too much energy or angular momentum was lost or made")
    slopes = gradient()
    print(f"through 1000 steps of the chain: gradient {slopes[0]:.9g}, difference {slopes[1]:.9g}")
    out = out or Path("rigid_bodies.png")
    draw(found, handles, flying, out)
    print(f"wrote {out}")
    return found, handles, flying, slopes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few handles and a short time")
    parser.add_argument("--out", type=Path, help="the picture (default: rigid_bodies.png)")
    main(**vars(parser.parse_args()))
