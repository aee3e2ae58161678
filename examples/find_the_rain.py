"""Where did it rain? A gradient through every step of a flood finds the rain from the water on the land
=====================================================================================================

The flood is that of `terrain_rain.py`, on a coarser map. Known is only how much water stands in each cell, some time
after the start of a storm whose rain differs from place to place. The gradient of the misfit with respect to the rain
on each cell goes back through every step, and optax minimises the misfit. The steps are a `lax.scan` of scans with
`jax.checkpoint` around the inner ones, so that few states have to be stored.

To run it::

    python examples/find_the_rain.py                 # writes find_the_rain.png
    python examples/find_the_rain.py --quick         # a few seconds

Needs matplotlib, optax and tqdm.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import drawing
from drawing.terrain import Terrain, draw_recovery, load_terrain
from terrain_rain import RAIN, State, advance, dry


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
    bar = drawing.progress(range(iterations), desc="where did it rain?", unit=" gradients")
    for _ in bar:
        exponent, memory, value = improve(exponent, memory)
        losses.append(float(value))
        bar.set_postfix(loss=f"{losses[-1]:.2e}", refresh=False)
    return Recovery(rain, RAIN * np.exp(np.asarray(exponent)), np.asarray(observed), np.asarray(losses))


def main(quick: bool = False, out: Path = Path("find_the_rain.png")) -> Recovery:
    """Search, report, draw."""
    terrain = load_terrain(coarsen=16 if quick else 5)
    search = recover(terrain, *((8, 40) if quick else (14, 250)))
    print(f"misfit from {search.losses[0]:.1e} to {search.losses[-1]:.1e}; the rain found is {search.error:.0%} off")
    draw_recovery(terrain, search, out)
    print(f"wrote {out}")
    return search


if __name__ == "__main__":
    drawing.run(main, __doc__, "find_the_rain.png")
