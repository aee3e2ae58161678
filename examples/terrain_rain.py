"""Rain on real hills: a shallow-water flood written as Warp kernels, stepped inside one jitted `lax.scan`
=======================================================================================================

Two kernels do the physics. `flow` finds how much water moves between neighbouring cells: the local inertial
equation with Manning friction of Bates, Horritt and Fewtrell (2010), "A simple inertial formulation of the
shallow water equations for efficient two-dimensional flood inundation modelling", Journal of Hydrology 387.
`settle` moves that water and adds the rain. What leaves one cell enters its neighbour, so water is lost only
over the rim of the map, and at the end the books are checked.

Then the other way round: where did it rain, when all one knows is how much water stands where an hour later? The
gradient of the misfit goes back through every step of a coarser simulation, and optax walks along it.

To run it::

    python examples/terrain_rain.py                 # writes terrain_rain.png and terrain_rain_inverse.png
    python examples/terrain_rain.py --quick         # a few seconds

Needs matplotlib, optax and tqdm. The land is matplotlib's sample elevation model, the Jacksboro fault in Tennessee.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib import cbook
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LightSource, LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from tqdm import tqdm

import jwarp as wp

GRAVITY = 9.81  # m/s²
MANNING = 0.05  # s/m^(1/3): rough, vegetated ground
FILM = 1.0e-5  # m: thinner water stays where it is
LARGEST_SHARE = 0.2  # of a cell's water that may leave through one of its four sides in one step

RAIN = 50.0e-3 / 3600.0  # m/s: a cloudburst of 50 mm per hour …
STORM = 2.0 * 3600.0  # s: … for two hours
METRES_PER_DEGREE = 111_320.0  # of latitude


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
class Terrain:
    """Ground elevation in metres, row 0 in the north, and the size of a cell in metres."""

    ground: np.ndarray
    width: float
    height: float


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
        rained = self.rained.sum(dtype=np.float64) * (rows - 2) * (columns - 2)
        return (
            float(rained),
            float(self.drained.sum(dtype=np.float64)),
            float(self.depth.sum(dtype=np.float64)),
        )

    @property
    def mass_error(self) -> float:
        """Water that is missing from the books, as a part of all the rain."""
        rained, drained, stored = self.totals()
        return abs(rained - drained - stored) / rained


def load_terrain(coarsen: int = 1) -> Terrain:
    """The Jacksboro fault, every `coarsen`-th point of it."""
    sample = cbook.get_sample_data("jacksboro_fault_dem.npz")
    latitude = np.radians((sample["ymin"] + sample["ymax"]) / 2.0)
    ground = sample["elevation"][::coarsen, ::coarsen].astype(np.float32)
    height = float(sample["dy"]) * METRES_PER_DEGREE * coarsen
    width = float(sample["dx"]) * METRES_PER_DEGREE * coarsen * float(np.cos(latitude))
    return Terrain(ground, width, height)


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
    depth, rounding, drained = wp.launch(
        settle,
        dim=shape,
        inputs=[east, south, width, height, rain, dt, wet],
        outputs=[depth, rounding, shape],
    )
    return (time + dt, depth, rounding, east, south), drained, wet


def simulate(terrain: Terrain, steps: int) -> Flood:
    """Let it rain on dry land, then let the water run: `steps` time steps in all."""
    shape = terrain.ground.shape
    tick = max(1, steps // 100)
    bar = tqdm(total=steps, desc="rain", unit=" steps")
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


# The inverse problem


@dataclass(frozen=True)
class Recovery:
    """Rain (m/s) that fell, rain that was found, and the misfit of the water at each step of the search."""

    rain: np.ndarray
    found: np.ndarray
    depth: np.ndarray  # all that the search was told
    losses: np.ndarray

    @property
    def error(self) -> float:
        """Of the rain inside the rim, as a part of its spread."""
        inside = slice(1, -1), slice(1, -1)
        off = self.found[inside] - self.rain[inside]
        return float(np.sqrt(np.mean(off**2)) / self.rain[inside].std())


def two_clouds(shape: tuple[int, int]) -> np.ndarray:
    """A storm with two centres."""
    y, x = np.meshgrid(*[np.linspace(0.0, 1.0, n) for n in shape], indexing="ij")
    first = np.exp(-((x - 0.3) ** 2 + (y - 0.35) ** 2) / 0.03)
    second = np.exp(-((x - 0.7) ** 2 / 0.02 + (y - 0.65) ** 2 / 0.05))
    return (RAIN * (0.15 + first + 0.7 * second)).astype(np.float32)


def recover(terrain: Terrain, steps: int, iterations: int) -> Recovery:
    """Find the rain from the water that stands on the land after `steps` * `steps` time steps."""
    ground, rain = jnp.asarray(terrain.ground), two_clouds(terrain.ground.shape)

    def depth_after(rain: jax.Array) -> jax.Array:
        def step(state: State, _: None) -> tuple[State, None]:
            return advance(terrain, ground, rain, state)[0], None

        # A scan of scans: the states at the start of each inner one are kept, those within are computed twice.
        @jax.checkpoint
        def stretch(state: State, _: None) -> tuple[State, None]:
            return jax.lax.scan(step, state, length=steps)

        return jax.lax.scan(stretch, dry(rain.shape), length=steps)[0][1]

    observed = jax.jit(depth_after)(rain)

    def loss(exponent: jax.Array) -> jax.Array:
        miss = (depth_after(RAIN * jnp.exp(exponent)) - observed) / observed.std()
        # Clouds are smooth: of all rains that fit, take one without needles.
        rough = sum(jnp.mean(jnp.diff(exponent, axis=axis) ** 2) for axis in (0, 1))
        return jnp.mean(miss**2) + 1.0e-3 * rough

    rate = optax.cosine_decay_schedule(0.15, iterations)
    search = optax.adam(rate)

    @jax.jit
    def improve(exponent: jax.Array, memory: optax.OptState) -> tuple[jax.Array, optax.OptState, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(exponent)
        updates, memory = search.update(gradient, memory)
        return optax.apply_updates(exponent, updates), memory, value

    exponent = jnp.full(rain.shape, -1.0)
    memory, losses = search.init(exponent), []
    bar = tqdm(range(iterations), desc="where did it rain?", unit=" gradients")
    for _ in bar:
        exponent, memory, value = improve(exponent, memory)
        losses.append(float(value))
        bar.set_postfix(loss=f"{losses[-1]:.2e}")
    return Recovery(rain, RAIN * np.exp(np.asarray(exponent)), np.asarray(observed), np.asarray(losses))


def draw_recovery(terrain: Terrain, search: Recovery, out: Path) -> None:
    """What fell, what was seen of it, what was found, and how the search went."""
    figure = Figure(figsize=(12.0, 7.4), layout="constrained")
    ((fell, seen), (found, graph)) = figure.subplots(2, 2)
    rows, columns = terrain.ground.shape
    extent = (0.0, columns * terrain.width / 1000.0, 0.0, rows * terrain.height / 1000.0)
    hour = 3.6e6  # mm/h in a m/s
    for axes, rain, title in ((fell, search.rain, "The rain that fell"), (found, search.found, "The rain found")):
        image = axes.imshow(
            rain[1:-1, 1:-1] * hour, cmap="YlGnBu", vmin=0.0, vmax=search.rain.max() * hour, extent=extent
        )
        axes.figure.colorbar(image, ax=axes, shrink=0.85).set_label("mm/h")
        axes.set_title(title, loc="left", fontweight="bold")
    image = seen.imshow(np.maximum(search.depth, 1e-3), cmap="Blues", norm=LogNorm(5e-3, 5.0), extent=extent)
    figure.colorbar(image, ax=seen, shrink=0.85, extend="both").set_label("m")
    seen.set_title("What is known: water at the end", loc="left", fontweight="bold")
    for axes in (fell, seen, found):
        axes.set(xlabel="km to the east", ylabel="km to the north")
    graph.semilogy(search.losses, color="#0b3377")
    graph.set(xlabel="gradient steps", ylabel="misfit")
    graph.set_title(f"The search; the rain is {search.error:.0%} off", loc="left", fontweight="bold")
    graph.spines[["top", "right"]].set_visible(False)
    graph.grid(alpha=0.3)
    figure.savefig(out, dpi=130)


# The pictures


def draw(terrain: Terrain, flood: Flood, out: Path) -> None:
    """A shaded map of the land under water, above a graph of what runs off the map."""
    figure = Figure(figsize=(9.0, 10.6), layout="constrained")
    map_axes, graph_axes = figure.subplots(2, 1, height_ratios=[7.0, 1.0])
    draw_map(map_axes, terrain, flood)
    draw_runoff(graph_axes, terrain, flood)
    figure.savefig(out, dpi=150)


def draw_map(axes: Axes, terrain: Terrain, flood: Flood) -> None:
    # Muted land, so that blue is water and nothing else.
    land = LinearSegmentedColormap.from_list("land", ["#6f8560", "#a9ac7c", "#cdbb92", "#e2d6bd", "#f5f1e8"])
    water = LinearSegmentedColormap.from_list("water", ["#9fd4ea", "#3f9fd0", "#1766ab", "#0b3377", "#081a45"])
    rows, columns = terrain.ground.shape
    frame = {"extent": (0.0, columns * terrain.width / 1000.0, 0.0, rows * terrain.height / 1000.0)}
    shaded = LightSource(azdeg=315, altdeg=40).shade(
        terrain.ground, land, blend_mode="soft", vert_exag=2.0, dx=terrain.width, dy=terrain.height
    )
    axes.imshow(shaded, interpolation="bilinear", **frame)

    # A logarithmic scale shows brooks as well as lakes; below 20 cm the water fades out, down to 2 cm.
    scale = LogNorm(0.05, 20.0)
    opacity = np.clip(np.log10(np.maximum(flood.depth, 0.02) / 0.02), 0.0, 0.95)
    axes.imshow(flood.depth, cmap=water, norm=scale, alpha=opacity, interpolation="nearest", **frame)
    bar = axes.figure.colorbar(ScalarMappable(scale, water), ax=axes, shrink=0.6, pad=0.02, extend="both")
    bar.set_label("water depth (m)")
    bar.set_ticks([0.05, 0.2, 1.0, 5.0, 20.0], labels=["0.05", "0.2", "1", "5", "20"])
    bar.minorticks_off()
    axes.set(xlabel="km to the east", ylabel="km to the north")
    axes.set_title(
        f"{flood.rained.sum() * 1000:.0f} mm of rain on the Jacksboro fault, "
        f"{flood.time[-1] / 3600:.1f} hours after it began",
        loc="left",
        fontsize=13,
        fontweight="bold",
    )


def draw_runoff(axes: Axes, terrain: Terrain, flood: Flood) -> None:
    hours = flood.time / 3600.0
    runoff = flood.drained * terrain.width * terrain.height / np.diff(flood.time, prepend=0.0)
    axes.fill_between(hours, runoff, color="#3f9fd0", alpha=0.5, linewidth=0.0)
    axes.plot(hours, runoff, color="#0b3377")
    raining = hours[flood.rained > 0.0][-1]
    axes.axvspan(0.0, raining, color="#9fd4ea", alpha=0.35, linewidth=0.0)
    axes.text(raining / 2.0, 0.98, "rain", transform=axes.get_xaxis_transform(), ha="center", va="top")
    axes.set(xlabel="hours", ylabel="runoff (m³/s)", xlim=(0.0, hours[-1]), ylim=(0.0, 1.15 * runoff.max()))
    axes.spines[["top", "right"]].set_visible(False)


def main(quick: bool = False, out: Path | None = None, steps: int | None = None) -> tuple[Terrain, Flood, Recovery]:
    """Simulate, check the books, draw; then find the rain of another storm, and draw that."""
    terrain = load_terrain(coarsen=4 if quick else 1)
    flood = simulate(terrain, steps or (300 if quick else 5000))
    million = terrain.width * terrain.height / 1e6
    rained, drained, stored = (depth * million for depth in flood.totals())
    print(f"rained {rained:.3f}, drained {drained:.3f}, stored {stored:.3f} million m³")
    print(f"missing from the books: {flood.mass_error:.1e} of the rain")
    out = out or Path("terrain_rain.png")
    draw(terrain, flood, out)
    print(f"wrote {out}")
    coarse = load_terrain(coarsen=16 if quick else 5)
    search = recover(coarse, *((8, 40) if quick else (14, 250)))
    print(f"misfit from {search.losses[0]:.1e} to {search.losses[-1]:.1e}; the rain found is {search.error:.0%} off")
    inverse = out.with_stem(out.stem + "_inverse")
    draw_recovery(coarse, search, inverse)
    print(f"wrote {inverse}")
    return terrain, flood, search


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a coarse map and few steps")
    parser.add_argument("--out", type=Path, help="the picture (default: terrain_rain.png)")
    parser.add_argument("--steps", type=int, help="time steps (default: 5000, quick: 300)")
    main(**vars(parser.parse_args()))
