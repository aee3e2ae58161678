"""Pictures of double pendulums and their twins, and of what it costs to swing them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drawing import INK, WARM, titled


def draw(found: Any, tracks: list[Any], hair: float, apart: float, path: Path) -> None:
    figure = Figure(figsize=(12.5, 6.4), dpi=120, layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.25, 1.0], wspace=0.06)
    draw_map(left.subplots(), found, tracks, apart)
    rows = right.subplots(len(tracks), sharex=True)
    for letter, axes, one in zip("ABC", rows, tracks, strict=True):
        draw_track(axes, one, letter, hair)
    titled(rows[0], "Three of them beside their twins")
    rows[0].legend(loc="lower left", ncols=2, frameon=False, fontsize=9)
    rows[-1].set(xlabel="time (s)", xlim=(0.0, found.seconds))
    right.supylabel("angle of the lower arm (turns)", fontsize="medium")
    figure.savefig(path)


def draw_map(axes: Axes, found: Any, tracks: list[Any], apart: float) -> None:
    parted = np.ma.masked_greater(found.together, 0.999 * found.seconds)
    extent = (found.lower[0], found.lower[-1], found.drag[0], found.drag[-1])
    axes.set_facecolor("#dfe7ee")
    image = axes.imshow(parted, origin="lower", aspect="auto", extent=extent, cmap="inferno_r", interpolation="nearest")
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02)
    bar.set_label(f"time until the twins are {apart:g} rad apart (s); light grey: not in {found.seconds:g} s")
    for letter, one in zip("ABC", tracks, strict=True):
        axes.plot(one.lower, one.drag, "o", color="white", markeredgecolor=INK, markersize=15)
        axes.text(one.lower, one.drag, letter, color=INK, ha="center", va="center", fontweight="bold", fontsize=9)
    axes.set(xlabel="length of the lower arm (m), upper arm: 1 m", ylabel="air drag (1/s)")
    titled(axes, f"How long {found.together.size:,} double pendulums stay with their twins", bare=False)


def draw_track(axes: Axes, one: Any, letter: str, hair: float) -> None:
    turns = one.angles / (2.0 * np.pi)
    axes.plot(one.time, turns[0], color=INK, linewidth=1.6, label="pendulum")
    axes.plot(
        one.time, turns[1], color=WARM, linewidth=1.6, linestyle=(0, (3, 1.5)), label=f"twin, {hair:g} rad beside"
    )
    axes.text(
        0.99, 0.94, f"{letter}: {one.lower:g} m, drag {one.drag:g}/s",
        transform=axes.transAxes, ha="right", va="top", fontweight="bold", color=INK,
    )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.margins(y=0.3)


def draw_costs(costs: dict[str, float], title: str, path: Path) -> None:
    """A bar for the time of each way."""
    figure = Figure(figsize=(9.0, 2.6), dpi=120, layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(list(costs), [1e3 * cost for cost in costs.values()], color=[INK, INK, WARM])
    axes.bar_label(bars, fmt="%.1f ms", padding=4)
    axes.invert_yaxis()
    axes.set(xlabel="ms", xmargin=0.15)
    titled(axes, title)
    figure.savefig(path)
