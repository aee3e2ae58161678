"""Where discs lie at first, their places in a letter, and pictures of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path as Outline
from matplotlib.textpath import TextPath
from scipy.optimize import linear_sum_assignment

from drawing import INK, titled


def letter(text: str, discs: int, radius: float) -> np.ndarray:
    """So many places in a letter that fills most of the box, on a lattice of triangles as wide as they fit."""
    outline = TextPath((0, 0), text, size=1.0, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    low, high = outline.vertices.min(0), outline.vertices.max(0)
    scale = 0.9 / (high - low).max()
    shape = Outline((outline.vertices - (low + high) / 2.0) * scale + 0.5, outline.codes)
    spacing = 0.08
    while True:
        rows = np.arange(0.0, 1.0, spacing * np.sqrt(0.75))
        points = np.array(
            [(x + (k % 2) * spacing / 2.0, y) for k, y in enumerate(rows) for x in np.arange(0, 1, spacing)]
        )
        inside = points[shape.contains_points(points, radius=-0.3 * radius)]
        if len(inside) >= discs:
            left_out = np.random.default_rng(0).choice(len(inside), len(inside) - discs, replace=False)
            return np.delete(inside, left_out, 0)
        spacing *= 0.995


def start_and_goal(text: str, side: int, radius: float, mixing: float = 0.012) -> tuple[np.ndarray, np.ndarray]:
    """Discs on a grid that is shaken, and for each a place in the letter: on the shortest ways, were they elsewhere.

    On the shortest ways of all nobody would meet; on these, which are elsewhere by about `mixing` (m), ways cross.
    """
    random = np.random.default_rng(1)
    grid = (np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2) + 0.5) / side
    start = grid + random.uniform(-1.0, 1.0, grid.shape) * max(0.0, 0.45 / side - radius)
    goal = letter(text, len(start), radius)
    elsewhere = start + random.normal(size=start.shape) * mixing
    ways = ((elsewhere[:, None] - goal[None]) ** 2).sum(-1)
    return start.astype(np.float32), goal[linear_sum_assignment(ways)[1]].astype(np.float32)


def draw(given: Any, found: Any, places: np.ndarray, thrown: np.ndarray, dt: float, radius: float, path: Path) -> None:
    """The discs as they fly by the velocities found, `dt` apart; the end of those thrown straight; and the search."""
    figure = Figure(figsize=(14.0, 8.6), dpi=120, layout="constrained")
    axes = figure.subplot_mosaic([["start", "early", "end"], ["loss", "late", "straight"]])

    def off(x: np.ndarray) -> str:
        return f"{np.sqrt(np.mean(np.sum((x - given.goal) ** 2, -1))) / radius:.2g} radii off"

    blocks = len(places)
    early, late = max(0, blocks // 10 - 1), max(0, blocks // 3 - 1)
    discs(radius, axes["start"], given, given.start, "At first, with the velocities that were found")
    axes["start"].quiver(*given.start.T, *found.velocity.T, color="#333333", width=0.0016, scale=12.0)
    discs(radius, axes["early"], given, places[early], f"After {(early + 1) * dt:.2f} s")
    discs(radius, axes["late"], given, places[late], f"After {(late + 1) * dt:.2f} s")
    discs(radius, axes["end"], given, places[-1], f"In the end, after {blocks * dt:.2f} s: {off(places[-1])}")
    discs(radius, axes["straight"], given, thrown, f"Thrown straight instead: {off(thrown)}")
    for name in ("end", "straight"):
        axes[name].plot(*given.goal.T, ".", color="black", markersize=1.0)
    count = np.arange(1, len(found.losses) + 1)
    axes["loss"].semilogy(count, found.losses, ".", color="#9aa5b8", label="each gradient")
    best = np.minimum.accumulate(found.losses)
    axes["loss"].semilogy(count, best, color=INK, linewidth=1.8, label="best so far")
    axes["loss"].set(xlabel="gradients", ylabel="mean squared distance (radii²)")
    axes["loss"].set_ylim(0.7 * best[-1], 1.5 * best[0])
    titled(axes["loss"], f"A simulation and its gradient take {found.seconds:.2g} s")
    axes["loss"].grid(alpha=0.3)
    axes["loss"].legend(frameon=False)
    figure.savefig(path)


def discs(radius: float, axes: Axes, given: Any, x: np.ndarray, title: str) -> None:
    """Discs in the box, coloured by where they lay at first."""
    size = np.full(len(x), 2.0 * radius)
    colours = np.stack(
        [0.15 + 0.75 * given.start[:, 0], 0.35 + 0.3 * given.start[:, 1], 0.9 - 0.7 * given.start[:, 1]], -1
    )
    axes.add_collection(
        EllipseCollection(size, size, np.zeros(len(x)), units="x", offsets=x, transOffset=axes.transData,
                          facecolors=colours, linewidths=0.0)
    )  # fmt: skip
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal", xticks=[], yticks=[])
    titled(axes, title, bare=False)
