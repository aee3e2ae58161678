"""Rain on real hills: a shallow-water flood written as Warp kernels, stepped inside one jitted `lax.scan`
=======================================================================================================

Two kernels compute the physics. `flow` computes the flow of water between neighbouring cells, by the local inertial
equation with Manning friction of Bates, Horritt and Fewtrell (2010), "A simple inertial formulation of the shallow
water equations for efficient two-dimensional flood inundation modelling", Journal of Hydrology 387. `settle` moves
the water and adds the rain. Water that leaves one cell enters its neighbour, so it is lost only at the border of the
map. At the end, the program checks the balance.

To run it::

    python examples/terrain_rain.py                 # writes terrain_rain.png
    python examples/terrain_rain.py --quick         # a few seconds

Needs matplotlib and tqdm. The land is matplotlib's sample elevation model, the Jacksboro fault in Tennessee. Where it
rained is found from the water in `find_the_rain.py`.
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
from drawing.terrain import Terrain, draw, load_terrain

GRAVITY = 9.81  # m/s²
MANNING = 0.05  # s/m^(1/3): rough, vegetated ground
FILM = 1.0e-5  # m: thinner water stays where it is
LARGEST_SHARE = 0.2  # of a cell's water that may leave through one of its four sides in one step

RAIN = 50.0e-3 / 3600.0  # m/s: a cloudburst of 50 mm per hour …
STORM = 2.0 * 3600.0  # s: … for two hours


@wp.func
def discharge(
    flux: float, ground: float, depth: float, next_ground: float, next_depth: float, length: float, dt: float
) -> float:
    """The new flow (m²/s) from a cell to the next one, `length` metres on, given the flow before."""
    surface = ground + depth
    next_surface = next_ground + next_depth
    stream = wp.max(surface, next_surface) - wp.max(ground, next_ground)  # depth of what can flow
    if stream < FILM:
        return 0.0
    slope = (next_surface - surface) / length
    pushed = flux - GRAVITY * stream * slope * dt
    # Friction acts on the new flow: moved + friction * moved * |moved| = pushed. (On the old one, as in the
    # paper, thin films flutter.)
    friction = GRAVITY * MANNING * MANNING * dt / wp.pow(stream, 7.0 / 3.0)
    moved = 2.0 * pushed / (1.0 + wp.sqrt(1.0 + 4.0 * friction * wp.abs(pushed)))
    # No cell gives away more than it has: depths stay positive without ever inventing water.
    share = LARGEST_SHARE * length / dt
    return wp.max(-share * next_depth, wp.min(moved, share * depth))


@wp.kernel
def flow(
    ground: wp.array2d[float],
    depth: wp.array2d[float],
    width: float,
    height: float,
    dt: float,
    east: wp.array2d[float],
    south: wp.array2d[float],
):
    """Flow out of each cell through its east and its south side; in and out."""
    i, j = wp.tid()
    here = ground[i, j]
    water = depth[i, j]
    if j + 1 < ground.shape[1]:
        east[i, j] = discharge(east[i, j], here, water, ground[i, j + 1], depth[i, j + 1], width, dt)
    if i + 1 < ground.shape[0]:
        south[i, j] = discharge(south[i, j], here, water, ground[i + 1, j], depth[i + 1, j], height, dt)


@wp.kernel
def settle(
    east: wp.array2d[float],
    south: wp.array2d[float],
    width: float,
    height: float,
    rain: wp.array2d[float],
    dt: float,
    wet: float,
    depth: wp.array2d[float],
    rounding: wp.array2d[float],
    drained: wp.array2d[float],
):
    """Move the water and let it rain (m/s) for `wet` seconds; the rim stays dry and drains what it gets."""
    i, j = wp.tid()
    gain = rounding[i, j] - dt * east[i, j] / width - dt * south[i, j] / height
    if j > 0:
        gain = gain + dt * east[i, j - 1] / width
    if i > 0:
        gain = gain + dt * south[i - 1, j] / height
    if i == 0 or j == 0 or i + 1 == depth.shape[0] or j + 1 == depth.shape[1]:
        drained[i, j] = gain
    else:
        # A step adds micrometres to metres: keep what float32 rounds off for the next step (Kahan's sum).
        before = depth[i, j]
        added = gain + wet * rain[i, j]
        after = before + added
        rounding[i, j] = added - (after - before)
        depth[i, j] = after


@dataclass(frozen=True)
class Flood:
    """Water depth at the end; and for each step the time, the rain and the runoff. Metres, seconds."""

    depth: np.ndarray
    time: np.ndarray
    rained: np.ndarray  # onto each cell inside the rim
    drained: np.ndarray  # out of all cells of the rim together

    def totals(self) -> tuple[float, float, float]:
        """Rained, drained and stored water, as a depth summed over cells."""
        rows, columns = self.depth.shape
        rained, drained, stored = (float(x.sum(dtype=np.float64)) for x in (self.rained, self.drained, self.depth))
        return rained * (rows - 2) * (columns - 2), drained, stored

    @property
    def mass_error(self) -> float:
        """Water that is missing from the books, as a part of all the rain."""
        rained, drained, stored = self.totals()
        return abs(rained - drained - stored) / rained


State = tuple[jax.Array, ...]  # time, depth, what depths have rounded off, flow to the east and to the south


def dry(shape: tuple[int, ...]) -> State:
    """Before the first drop."""
    return (jnp.float32(0.0), *[jnp.zeros(shape)] * 4)


def advance(terrain: Terrain, ground: jax.Array, rain: jax.Array, state: State) -> tuple[State, jax.Array, jax.Array]:
    """One time step: the next state, what left the map, and for how long it rained."""
    time, depth, rounding, east, south = state
    shape, width, height = ground.shape, terrain.width, terrain.height
    # The fastest wave must not cross a cell in one step. The step is a choice: no gradient goes through it.
    deepest = jax.lax.stop_gradient(jnp.maximum(depth.max(), 1.0))
    dt = 0.7 * min(width, height) / jnp.sqrt(GRAVITY * deepest)
    wet = jnp.where(time < STORM, dt, 0.0)
    east, south = wp.launch(flow, dim=shape, inputs=[ground, depth, width, height, dt], outputs=[east, south])
    # The first two outputs start from what they were, the last one, given by its shape, from zeros.
    given, outputs = [east, south, width, height, rain, dt, wet], [depth, rounding, shape]
    depth, rounding, drained = wp.launch(settle, dim=shape, inputs=given, outputs=outputs)
    return (time + dt, depth, rounding, east, south), drained, wet


def simulate(terrain: Terrain, steps: int) -> Flood:
    """Let it rain on dry land, then let the water run: `steps` time steps in all."""
    shape = terrain.ground.shape
    tick = max(1, steps // 100)
    bar = drawing.progress(total=steps, desc="rain", unit=" steps")
    show_tick = partial(jax.debug.callback, partial(bar.update, tick))

    rain = jnp.full(shape, RAIN)

    @jax.jit
    def run(ground):
        def step(state, number):
            state, drained, wet = advance(terrain, ground, rain, state)
            jax.lax.cond((number + 1) % tick == 0, show_tick, lambda: None)
            return state, (state[0], RAIN * wet, drained.sum())

        return jax.lax.scan(step, dry(shape), jnp.arange(steps))

    (_, depth, *_), (time, rained, drained) = run(jnp.asarray(terrain.ground))
    flood = Flood(*(np.asarray(x) for x in (depth, time, rained, drained)))
    jax.effects_barrier()
    bar.update(steps - bar.n)
    bar.close()
    return flood


def main(quick: bool = False, out: Path = Path("terrain_rain.png")) -> tuple[Terrain, Flood]:
    """Simulate, check the books, draw."""
    terrain = load_terrain(coarsen=4 if quick else 1)
    flood = simulate(terrain, 300 if quick else 5000)
    million = terrain.width * terrain.height / 1e6
    rained, drained, stored = (depth * million for depth in flood.totals())
    print(f"rained {rained:.3f}, drained {drained:.3f}, stored {stored:.3f} million m³")
    print(f"missing from the books: {flood.mass_error:.1e} of the rain")
    draw(terrain, flood, out)
    print(f"wrote {out}")
    return terrain, flood


if __name__ == "__main__":
    drawing.run(main, __doc__, "terrain_rain.png")
