"""The grid step of a material-point method, and how each cell of the grid would like to change
============================================================================================

A material-point method transfers the mass and the momentum of its particles to a grid. This kernel is the step on the
grid: velocity is momentum divided by mass, gravity acts for one time step, and velocities that point out of the box
are set to zero. Gravity and the time step are plain numbers without gradients: `argnums` names only mass and
momentum. The loss is the distance of the velocities from given ones. Its gradients are compared with the closed form.

To run it::

    python examples/grid_gravity.py                 # writes grid_gravity.png
    python examples/grid_gravity.py --quick         # a small grid

Needs matplotlib.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import jwarp as wp

GRAVITY = -9.81  # m/s², along y
STEP = 0.02  # s
EMPTY = 1.0e-6  # kg: a cell with less has no velocity
WALL = 3  # cells at each side of the box that nothing may fly out of


@wp.kernel
def grid_step(
    mass: wp.array3d[float],
    momentum: wp.array3d[wp.vec3],
    gravity: float,
    dt: float,
    velocity: wp.array3d[wp.vec3],
):
    i, j, k = wp.tid()
    if mass[i, j, k] > EMPTY:
        v = momentum[i, j, k] / mass[i, j, k] + wp.vec3(0.0, gravity * dt, 0.0)
        if i < WALL and v[0] < 0.0:
            v[0] = 0.0
        if i >= mass.shape[0] - WALL and v[0] > 0.0:
            v[0] = 0.0
        if j < WALL and v[1] < 0.0:
            v[1] = 0.0
        if j >= mass.shape[1] - WALL and v[1] > 0.0:
            v[1] = 0.0
        if k < WALL and v[2] < 0.0:
            v[2] = 0.0
        if k >= mass.shape[2] - WALL and v[2] > 0.0:
            v[2] = 0.0
        velocity[i, j, k] = v


@dataclass(frozen=True)
class Grid:
    """Mass (kg) and momentum (kg m/s) of each cell, and the velocity (m/s) that is wanted there."""

    mass: np.ndarray
    momentum: np.ndarray
    wanted: np.ndarray


@dataclass(frozen=True)
class Gradients:
    """Of the loss, for what the cells hold."""

    mass: np.ndarray
    momentum: np.ndarray


def blob(side: int) -> Grid:
    """A round, turning heap of stuff that should fly to the right."""
    place = (np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1) + 0.5) / side - 0.5
    place = place + np.array([0.12, 0.1, 0.0])
    radius = np.linalg.norm(place, axis=-1)
    mass = np.where(radius < 0.38, np.exp(-((radius / 0.2) ** 2)), 0.0)
    turning = 4.0 * np.stack([-place[..., 1], place[..., 0], 0.3 * np.sin(9.0 * place[..., 0])], -1)
    wanted = np.broadcast_to([0.6, 0.0, 0.0], turning.shape)
    grid = Grid(mass, mass[..., None] * turning, wanted)
    return Grid(*(x.astype(np.float32) for x in vars(grid).values()))


def loss(mass: jax.Array, momentum: jax.Array, gravity: float, dt: float, wanted: jax.Array) -> jax.Array:
    """Half the squared miss, over all cells that hold something."""
    (velocity,) = wp.launch(grid_step, mass.shape, [mass, momentum, gravity, dt], [mass.shape])
    miss = jnp.where((mass > EMPTY)[..., None], velocity - wanted, 0.0)
    return 0.5 * jnp.sum(miss**2)


def gradients(grid: Grid) -> Gradients:
    """By the adjoint of the kernel; None for the two numbers, so to speak."""
    found = jax.jit(jax.grad(loss, argnums=(0, 1)))(grid.mass, grid.momentum, GRAVITY, STEP, grid.wanted)
    return Gradients(*(np.asarray(x) for x in found))


def closed_form(grid: Grid) -> Gradients:
    """The same by hand, in double precision: v = p / m + g dt where no wall stops it."""
    mass, momentum, wanted = (x.astype(np.float64) for x in (grid.mass, grid.momentum, grid.wanted))
    filled = mass > EMPTY
    safe = np.where(filled, mass, 1.0)[..., None]
    velocity = momentum / safe + np.array([0.0, GRAVITY * STEP, 0.0])
    free = np.broadcast_to(filled[..., None], velocity.shape).copy()
    for axis in range(3):
        index = np.indices(mass.shape)[axis]
        out = ((index < WALL) & (velocity[..., axis] < 0.0)) | (
            (index >= mass.shape[axis] - WALL) & (velocity[..., axis] > 0.0)
        )
        free[..., axis] &= ~out
    pull = np.where(free, velocity - wanted, 0.0)
    return Gradients(-(pull * momentum).sum(-1) / safe[..., 0] ** 2, pull / safe)


def error(found: Gradients, expected: Gradients) -> float:
    """The largest difference, relative to the largest gradient of its kind."""
    pairs = ((found.mass, expected.mass), (found.momentum, expected.momentum))
    return max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in pairs)


# The picture


def draw(grid: Grid, found: Gradients, path: Path) -> None:
    figure = Figure(figsize=(13.0, 4.8), dpi=130, layout="constrained")
    left, middle, right = figure.subplots(1, 3, sharey=True)
    middle_slice = grid.mass.shape[2] // 2
    mass, momentum = grid.mass[:, :, middle_slice], grid.momentum[:, :, middle_slice]
    show(left, np.where(mass > EMPTY, mass, np.nan), "mass (kg), and its momentum", "viridis", None)
    arrows(left, momentum, "white")
    slope = found.mass[:, :, middle_slice] * mass
    bound = float(np.abs(slope).max())
    show(middle, np.where(mass > EMPTY, -slope, np.nan), "what more mass would save of the loss", "RdBu_r", bound)
    push = -found.momentum[:, :, middle_slice] * mass[..., None]
    strength = np.linalg.norm(push[..., :2], axis=-1)
    show(right, np.where(mass > EMPTY, strength, np.nan), "which way more momentum would help", "magma", None)
    arrows(right, push, "white")
    left.set_ylabel("cells upwards (y)")
    figure.suptitle(
        f"One grid step of {grid.mass.size:,} cells, the slice in the middle: what makes it fly to the right",
        fontsize=13,
        fontweight="bold",
    )
    figure.savefig(path)


def show(axes: Axes, values: np.ndarray, title: str, colours: str, bound: float | None) -> None:
    limits = {} if bound is None else {"vmin": -bound, "vmax": bound}
    axes.set_facecolor("#e8ebef")
    image = axes.imshow(values.T, origin="lower", cmap=colours, interpolation="nearest", **limits)
    axes.figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
    side = values.shape[0]
    walls = {"fill": False, "edgecolor": "#596273", "linestyle": (0, (4, 3)), "linewidth": 1.2}
    axes.add_patch(Rectangle((WALL - 0.5, WALL - 0.5), side - 2 * WALL, side - 2 * WALL, **walls))
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("cells to the right (x)")


def arrows(axes: Axes, field: np.ndarray, colour: str) -> None:
    apart = max(1, field.shape[0] // 16)
    x, y = np.meshgrid(*[np.arange(apart // 2, n, apart) for n in field.shape[:2]], indexing="ij")
    u, v = field[x, y, 0], field[x, y, 1]
    shown = np.hypot(u, v) > 0.03 * np.hypot(u, v).max()
    axes.quiver(x[shown], y[shown], u[shown], v[shown], color=colour, pivot="mid", width=0.006)


def main(quick: bool = False, out: Path | None = None) -> tuple[Grid, Gradients, float]:
    """Take gradients, check them, draw."""
    grid = blob(24 if quick else 64)
    found = gradients(grid)
    off = error(found, closed_form(grid))
    print(f"gradients of {grid.mass.size:,} cells are within {off:.1e} of the closed form")
    out = out or Path("grid_gravity.png")
    draw(grid, found, out)
    print(f"wrote {out}")
    return grid, found, off


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small grid")
    parser.add_argument("--out", type=Path, help="the picture (default: grid_gravity.png)")
    main(**vars(parser.parse_args()))
