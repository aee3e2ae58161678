"""Rigid bodies rotate by quaternions: tumbling T-handles and a chain of them, integrated by one kernel
====================================================================================================

A T-handle that spins about its middle axis flips again and again (Dzhanibekov 1985); the less it is tilted, the
longer it waits. One kernel contains all time steps of a free chain of handles, joined at their ends by stiff springs.
A single handle is a chain of one. A step rotates each body about its own axes, one after the other, each rotation
exactly (Reich 1994). So momentum is conserved up to rounding, and the error of the energy stays small. The program
checks both, and then compares a gradient through a thousand steps of the chain with finite differences, in float64.
`tumbling_map.py` batches the same kernel.

To run it::

    python examples/rigid_bodies.py               # writes rigid_bodies.png
    python examples/rigid_bodies.py --quick       # a few seconds

Needs matplotlib and tqdm. Lengths are in m, times in s; a handle weighs 1 kg.
"""

# Without postponed annotations: those of the kernel name variables.

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import drawing
import jwarp as wp
from drawing.bodies import Track, arms, draw, inverse, rotated

INERTIA = (0.2, 0.35, 0.5)  # kg m²: moments of inertia of a handle about its own axes x, y, z
REACH = 0.8  # m from the middle of a handle to the joints at its ends, along its axis x
STIFFNESS = 1.0e4  # N/m, of a joint
SPIN = 3.0  # rad/s, about the middle axis
STEP = 0.001  # s
ENERGY_TOLERANCE, MOMENTUM_TOLERANCE = 1.0e-2, 1.0e-3  # by how much they may be off, of what they were

State = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # quaternions, angular momenta, places, velocities


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


def thrown(q: np.ndarray, w: np.ndarray, speed: float = 0.0) -> State:
    """A chain with these angular velocities, whose joints are closed and whose middle moves along x."""
    arm = arms(q, REACH)
    swing = np.cross(w, arm)
    x = np.cumsum(np.concatenate([np.zeros((1, 3)), arm[:-1] + arm[1:]]), 0)
    v = np.cumsum(np.concatenate([np.zeros((1, 3)), swing[:-1] + swing[1:]]), 0)
    turning = rotated(q, INERTIA * rotated(inverse(q), w))
    return q, turning, x - x.mean(0), v - v.mean(0) + np.array([speed, 0.0, 0.0])


def energy(state: State, inertia: Any = INERTIA) -> np.ndarray:
    """Energy (J) of chains, of motion and of stretched joints."""
    q, turning, x, v = (np.asarray(a, np.float64) for a in state)
    arm = arms(q, REACH)
    gap = (x[..., 1:, :] - arm[..., 1:, :]) - (x[..., :-1, :] + arm[..., :-1, :])
    spun = rotated(inverse(q), turning)
    return 0.5 * sum((a**2).sum((-2, -1)) for a in (v, spun / np.sqrt(inertia), np.sqrt(STIFFNESS) * gap))


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


def main(quick: bool = False, out: Path = Path("rigid_bodies.png")) -> tuple[dict[float, Track], Track, tuple]:
    """Tumble, throw, check what is kept and a gradient, draw."""
    seconds = 9.0 if quick else 30.0
    tilts = drawing.progress((0.5, 0.1, 0.02), desc="handles")
    handles = {tilt: follow(handle(tilt), seconds, 0.02) for tilt in tilts}
    flying = follow(chain(5), seconds, 0.02)
    for name, track in {"handle": handles[0.5], "chain": flying}.items():
        lost, turned_away = track.energy_error.max(), track.momentum_error.max()
        print(f"{name}: energy off by {lost:.1e}, angular momentum by {turned_away:.1e}, after {track.time[-1]:g} s")
        if lost > ENERGY_TOLERANCE or turned_away > MOMENTUM_TOLERANCE:
            raise RuntimeError("too much energy or angular momentum was lost or made")
    slopes = gradient()
    print(f"through 1000 steps of the chain: gradient {slopes[0]:.9g}, difference {slopes[1]:.9g}")
    draw(handles, flying, REACH, out)
    print(f"wrote {out}")
    return handles, flying, slopes


if __name__ == "__main__":
    drawing.run(main, __doc__, "rigid_bodies.png")
