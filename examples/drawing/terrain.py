"""The land that it rains on, and pictures of it under water."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import cbook
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LightSource, LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure

from drawing import titled

METRES_PER_DEGREE = 111_320.0  # of latitude


@dataclass(frozen=True)
class Terrain:
    """Ground elevation in metres, row 0 in the north, and the size of a cell in metres."""

    ground: np.ndarray
    width: float
    height: float


def load_terrain(coarsen: int = 1) -> Terrain:
    """The Jacksboro fault, every `coarsen`-th point of it."""
    sample = cbook.get_sample_data("jacksboro_fault_dem.npz")
    latitude = np.radians((sample["ymin"] + sample["ymax"]) / 2.0)
    ground = sample["elevation"][::coarsen, ::coarsen].astype(np.float32)
    height = float(sample["dy"]) * METRES_PER_DEGREE * coarsen
    width = float(sample["dx"]) * METRES_PER_DEGREE * coarsen * float(np.cos(latitude))
    return Terrain(ground, width, height)


def draw(terrain: Terrain, flood: Any, out: Path) -> None:
    """A shaded map of the land under water, above a graph of what runs off the map."""
    figure = Figure(figsize=(9.0, 10.6), layout="constrained")
    map_axes, graph_axes = figure.subplots(2, 1, height_ratios=[7.0, 1.0])
    draw_map(map_axes, terrain, flood)
    draw_runoff(graph_axes, terrain, flood)
    figure.savefig(out, dpi=150)


def draw_map(axes: Axes, terrain: Terrain, flood: Any) -> None:
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
    fell, hours = flood.rained.sum() * 1000, flood.time[-1] / 3600
    titled(axes, f"{fell:.0f} mm of rain on the Jacksboro fault, {hours:.1f} hours after it began", bare=False)


def draw_runoff(axes: Axes, terrain: Terrain, flood: Any) -> None:
    hours = flood.time / 3600.0
    runoff = flood.drained * terrain.width * terrain.height / np.diff(flood.time, prepend=0.0)
    axes.fill_between(hours, runoff, color="#3f9fd0", alpha=0.5, linewidth=0.0)
    axes.plot(hours, runoff, color="#0b3377")
    raining = hours[flood.rained > 0.0][-1]
    axes.axvspan(0.0, raining, color="#9fd4ea", alpha=0.35, linewidth=0.0)
    axes.text(raining / 2.0, 0.98, "rain", transform=axes.get_xaxis_transform(), ha="center", va="top")
    axes.set(xlabel="hours", ylabel="runoff (m³/s)", xlim=(0.0, hours[-1]), ylim=(0.0, 1.15 * runoff.max()))
    axes.spines[["top", "right"]].set_visible(False)


def draw_recovery(terrain: Terrain, search: Any, out: Path) -> None:
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
        titled(axes, title, bare=False)
    image = seen.imshow(np.maximum(search.depth, 1e-3), cmap="Blues", norm=LogNorm(5e-3, 5.0), extent=extent)
    figure.colorbar(image, ax=seen, shrink=0.85, extend="both").set_label("m")
    titled(seen, "What is known: water at the end", bare=False)
    for axes in (fell, seen, found):
        axes.set(xlabel="km to the east", ylabel="km to the north")
    graph.semilogy(search.losses, color="#0b3377")
    graph.set(xlabel="gradient steps", ylabel="misfit")
    titled(graph, f"The search; the rain is {search.error:.0%} off", bare=False)
    graph.spines[["top", "right"]].set_visible(False)
    graph.grid(alpha=0.3)
    figure.savefig(out, dpi=130)
