"""Sixteen thousand T-handles tumble in one launch: a map of their final orientation
=================================================================================

The kernel is that of `rigid_bodies.py`, written for one chain of handles. `jax.vmap` over angular momenta and moments
of inertia makes it one launch for all handles of the map. The initial tilt grows upwards, and the middle moment of
inertia grows to the right. In JAX, quaternions are arrays of four numbers.

To run it::

    python examples/tumbling_map.py               # writes tumbling_map.png
    python examples/tumbling_map.py --quick       # a few seconds

Needs matplotlib and tqdm.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import drawing
from drawing.bodies import draw_survey, rotated
from rigid_bodies import INERTIA, SPIN, STEP, energy, tumble


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


def main(quick: bool = False, out: Path = Path("tumbling_map.png")) -> Survey:
    """Tumble, check the energy, draw."""
    side, seconds = (16, 6.0) if quick else (128, 20.0)
    found = survey(side, seconds)
    steps, off = round(seconds / STEP), found.energy_error
    print(f"{side * side} handles, {steps} steps: {found.cost:.2f} s; energy off by {off:.1e}")
    draw_survey(found, out)
    print(f"wrote {out}")
    return found


if __name__ == "__main__":
    drawing.run(main, __doc__, "tumbling_map.png")
