"""A dam breaks: fifty thousand particles of water find their neighbours by a hash grid
====================================================================================

A column of water is released, runs through a tank and hits a pillar. The water consists of particles that carry mass
(smoothed particle hydrodynamics: Monaghan 1992, "Smoothed Particle Hydrodynamics", Annual Review of Astronomy and
Astrophysics 30). A step builds a `wp.HashGrid`, and two kernels visit the neighbours of each particle: `densities`
sums up their mass, and `pushes` computes the forces of pressure and viscosity. The fluid is weakly compressible
(Becker and Teschner 2007, "Weakly compressible SPH for free surface flows").

A step is a JAX function that builds its grid, and a run is a `lax.scan` inside `jax.jit`. So it could be batched over
tanks, and differentiated.

To run it::

    python examples/dam_break.py               # writes dam_break.png
    python examples/dam_break.py --quick       # fewer particles, a few seconds

Needs matplotlib. Lengths are in m, times in s.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import drawing
import jwarp as wp
from drawing.water import draw

TANK = (1.8, 0.6, 0.8)  # along x, across, and up
COLUMN = (0.6, 0.6, 0.55)  # of water at first
PILLAR = (1.15, 0.3, 0.09)  # where it stands, and its radius
DENSITY = 1000.0  # kg / m³
SOUND = 16.0  # m / s: about six times as fast as the water gets
VISCOSITY = 0.025  # artificial, without a unit
STIFFNESS = 3.0e4  # 1 / s², of walls
GRAVITY = 9.81


@wp.func
def weight(q: float) -> float:
    """Wendland's kernel of the distance over its reach, which is 1 in the middle and 0 from the reach on."""
    rest = wp.max(1.0 - q, 0.0)
    return rest * rest * rest * rest * (1.0 + 4.0 * q)


@wp.func
def slope(q: float) -> float:
    """The derivative of the weight."""
    rest = wp.max(1.0 - q, 0.0)
    return -20.0 * q * rest * rest * rest


@wp.kernel
def densities(grid: wp.uint64, x: wp.array[wp.vec3], reach: float, scale: float, density: wp.array[float]):
    """How dense the water is about each particle, in densities of water at rest."""
    i = wp.hash_grid_point_id(grid, wp.tid())
    p = x[i]
    total = 0.0
    for j in wp.hash_grid_query(grid, p, reach):
        total += weight(wp.length(p - x[j]) / reach)
    density[i] = scale * total


@wp.func
def pressure(density: float) -> float:
    """Over the density of water at rest: Tait's equation, and nothing where water is thin."""
    square = density * density
    return wp.max(SOUND * SOUND / 7.0 * (square * square * square * density - 1.0), 0.0)


@wp.kernel
def pushes(
    grid: wp.uint64,
    x: wp.array[wp.vec3],
    v: wp.array[wp.vec3],
    density: wp.array[float],
    reach: float,
    scale: float,
    push: wp.array[wp.vec3],
):
    """The acceleration of each particle by its neighbours."""
    i = wp.hash_grid_point_id(grid, wp.tid())
    p = x[i]
    own = pressure(density[i]) / (density[i] * density[i])
    total = wp.vec3()
    for j in wp.hash_grid_query(grid, p, reach):
        apart = p - x[j]
        distance = wp.length(apart)
        if distance < reach and distance > 1.0e-7:
            along = apart / distance
            other = pressure(density[j]) / (density[j] * density[j])
            closing = wp.min(wp.dot(v[i] - v[j], along), 0.0)
            friction = -VISCOSITY * SOUND * closing * 2.0 / (density[i] + density[j])
            total -= (scale / reach * slope(distance / reach) * (own + other + friction)) * along
    push[i] = total


@wp.func
def walls(x: wp.vec3) -> wp.vec3:
    """What the tank and the pillar do to a particle that is in them."""
    push = wp.vec3()
    for axis in range(3):
        push[axis] = wp.max(-x[axis], 0.0) - wp.max(x[axis] - TANK[axis], 0.0)
    away = wp.vec3(x[0] - PILLAR[0], x[1] - PILLAR[1], 0.0)
    push += wp.max(PILLAR[2] - wp.length(away), 0.0) * wp.normalize(away)
    return STIFFNESS * push


@wp.kernel
def move(push: wp.array[wp.vec3], dt: float, x: wp.array[wp.vec3], v: wp.array[wp.vec3]):
    """A step of the semi-implicit Euler method, in place; walls take speed away."""
    i = wp.tid()
    hard = walls(x[i])
    damped = wp.where(wp.length_sq(hard) > 0.0, 1.0 - 25.0 * dt, 1.0)
    faster = v[i] * damped + dt * (push[i] + hard - wp.vec3(0.0, 0.0, GRAVITY))
    v[i] = faster
    x[i] += dt * faster


State = tuple[jax.Array, jax.Array]  # places and velocities


@dataclass(frozen=True)
class Water:
    """How it is cut into particles."""

    spacing: float

    @property
    def reach(self) -> float:
        """How far a particle has neighbours."""
        return 2.3 * self.spacing

    @property
    def dt(self) -> float:
        """A step, in which sound gets through a third of the reach."""
        return 0.33 * self.reach / SOUND

    @property
    def scale(self) -> float:
        """What makes the density of particles on a lattice that of water at rest: a volume over that of the kernel."""
        lattice = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 3), -1).reshape(-1, 3) * self.spacing / self.reach
        q = np.minimum(np.linalg.norm(lattice, axis=1), 1.0)
        return float(1.0 / ((1 - q) ** 4 * (1 + 4 * q)).sum())

    def at_rest(self) -> State:
        """The column, on a lattice that is shaken a little."""
        axes = [np.arange(0.5 * self.spacing, length, self.spacing) for length in COLUMN]
        x = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
        x += np.random.default_rng(0).uniform(-0.02, 0.02, x.shape) * self.spacing
        return jnp.asarray(x, jnp.float32), jnp.zeros(x.shape, jnp.float32)

    def step(self, state: State, _: None = None) -> tuple[State, None]:
        """One step."""
        x, v = state
        n = x.shape[0]
        grid = wp.HashGrid(*(int(length / self.reach) + 2 for length in TANK))
        grid.build(x, self.reach)
        (density,) = wp.launch(densities, n, [grid.id, x, self.reach, self.scale], [n])
        (push,) = wp.launch(pushes, n, [grid.id, x, v, density, self.reach, self.scale], [n])
        return wp.launch(move, n, [push, self.dt], [x, v]), None


@partial(jax.jit, static_argnums=(0, 2))
def simulate(water: Water, state: State, steps: int) -> State:
    """So many steps."""
    return jax.lax.scan(water.step, state, length=steps)[0]


def main(quick: bool = False, out: Path = Path("dam_break.png")) -> list[State]:
    """Run, report, draw."""
    water = Water(spacing=0.06 if quick else 0.0158)
    moments = [0.0, 0.25, 0.45, 0.65, 0.9, 1.3]
    states, begun, done = [water.at_rest()], time.perf_counter(), 0
    for first, last in drawing.progress(list(itertools.pairwise(moments)), desc="water", unit=" pictures"):
        steps = round((last - first) / water.dt)
        states.append(jax.block_until_ready(simulate(water, states[-1], steps)))
        done += steps
    seconds, (x, v) = time.perf_counter() - begun, states[-1]
    n, fastest = x.shape[0], float(jnp.linalg.norm(v, axis=1).max())
    print(f"{n} particles, {done} steps in {seconds:.1f} s: {1e9 * seconds / done / n:.0f} ns for a step of a particle")
    if not fastest < SOUND:
        raise RuntimeError("the water is faster than sound in it: take shorter steps")
    draw(states, moments, water.spacing, TANK, PILLAR, out)
    print(f"wrote {out}")
    return states


if __name__ == "__main__":
    drawing.run(main, __doc__, "dam_break.png")
