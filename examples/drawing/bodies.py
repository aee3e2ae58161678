"""Pictures of rigid bodies that tumble, and what NumPy has to know of quaternions for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from drawing import INK, WARM, titled

COLOURS = (INK, WARM, "#3f8f6b")


def rotated(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Vectors turned by quaternions."""
    u, w = q[..., :3], q[..., 3:]
    return v + 2.0 * np.cross(u, np.cross(u, v) + w * v)


def inverse(q: np.ndarray) -> np.ndarray:
    """Quaternions that turn back."""
    return q * np.array([-1.0, -1.0, -1.0, 1.0])


def arms(q: np.ndarray, reach: float) -> np.ndarray:
    """From the middle of each body along its axis x."""
    return rotated(q, np.array([reach, 0.0, 0.0]) * np.ones_like(q[..., :3]))


@dataclass(frozen=True)
class Track:
    """The motion of a chain: over time (s) its quaternions, places, energy (J) and angular momentum (J s)."""

    time: np.ndarray
    q: np.ndarray  # (times, bodies, 4)
    x: np.ndarray  # (times, bodies, 3)
    energy: np.ndarray
    momentum: np.ndarray  # (times, 3)

    @property
    def energy_error(self) -> np.ndarray:
        """How far the energy is off, of what it was."""
        return np.abs(self.energy / self.energy[0] - 1.0)

    @property
    def momentum_error(self) -> np.ndarray:
        """The same for the angular momentum."""
        return np.linalg.norm(self.momentum - self.momentum[0], axis=1) / np.linalg.norm(self.momentum[0])

    @property
    def upright(self) -> np.ndarray:
        """The cosine between the first body's middle axis and the angular momentum."""
        axis = rotated(self.q[:, 0], np.array([0.0, 1.0, 0.0]) * np.ones((len(self.time), 3)))
        return axis @ self.momentum[0] / np.linalg.norm(self.momentum[0])


def draw(handles: dict[float, Track], flying: Track, reach: float, path: Path) -> None:
    """Handles that turn over, a chain that flies by, and how well is kept what should be."""
    figure = Figure(figsize=(9.0, 8.4), dpi=120, layout="constrained")
    top, middle, bottom = figure.subplots(3, height_ratios=[1.0, 1.5, 1.0])
    for colour, (tilt, track) in zip(COLOURS, handles.items(), strict=True):
        top.plot(track.time, track.upright, color=colour, linewidth=1.5, label=f"tilted by {tilt:g} rad")
    top.set(xlabel="time (s)", ylabel="which way up", ylim=(-1.15, 1.8), yticks=[-1, 0, 1], xlim=(0.0, track.time[-1]))
    titled(top, "A handle turns over, again and again")
    top.legend(loc="upper right", ncols=3, frameon=False, fontsize=9)
    draw_chain(middle, flying, reach)
    draw_drifts(bottom, {"handle": track, "chain": flying})
    figure.savefig(path)


def draw_survey(found: Any, path: Path) -> None:
    """The map of all handles."""
    figure = Figure(figsize=(7.4, 7.2), dpi=120, layout="constrained")
    draw_map(figure.subplots(), found)
    figure.savefig(path)


def draw_map(axes: Axes, found: Any) -> None:
    image = axes.pcolormesh(found.middle, found.tilt, found.upright, cmap="RdBu", vmin=-1.0, vmax=1.0, rasterized=True)
    axes.set(yscale="log", xlabel="middle moment of inertia (kg m²)", ylabel="tilt at first (rad)")
    titled(axes, f"Which way up {found.upright.size:,} handles are after {found.seconds:g} s", bare=False)
    bar = axes.figure.colorbar(image, ax=axes, location="bottom", pad=0.02, aspect=40)
    bar.set_label("cosine between the middle axis and the angular momentum")


def draw_chain(axes: Axes, track: Track, reach: float) -> None:
    """The chain seen from above, in the first seconds: the bars of its handles, and their heads."""
    every = max(1, round(0.6 / (track.time[1] - track.time[0])))
    last = min(len(track.time), round(8.0 / (track.time[1] - track.time[0])))
    for number in range(0, last, every):
        q, x = track.q[number], track.x[number]
        arm = arms(q, reach)
        head = rotated(q, np.array([0.0, 0.3, 0.0]) * np.ones_like(x))
        bars = np.stack([x - arm, x + arm], 1)[..., :2]
        heads = np.stack([x - head, x + head], 1)[..., :2]
        shade = 0.1 + 0.8 * number / last
        axes.add_collection(LineCollection(bars, colors=[colormaps["plasma"](shade)], linewidths=2.4, capstyle="round"))
        axes.add_collection(LineCollection(heads, colors=[colormaps["plasma"](shade)], linewidths=1.2))
        axes.plot(*(x + arm)[:-1, :2].T, "o", color="white", markeredgecolor=colormaps["plasma"](shade), markersize=3)
    axes.autoscale()
    axes.set(aspect="equal", xlabel="m")
    titled(axes, f"A chain of {track.q.shape[1]} flies by: seen every 0.6 s")


def draw_drifts(axes: Axes, tracks: dict[str, Track]) -> None:
    for colour, (name, track) in zip(COLOURS, tracks.items(), strict=False):
        axes.semilogy(track.time[1:], track.energy_error[1:] + 1e-9, color=colour, label=f"{name}: energy")
        label = f"{name}: angular momentum{'' if track.momentum_error.any() else ' (exact)'}"
        axes.semilogy(track.time[1:], track.momentum_error[1:] + 1e-9, color=colour, linestyle=":", label=label)
    axes.set(xlabel="time (s)", ylabel="part that is off", ylim=(1e-8, 1e-1))
    axes.grid(axis="y", alpha=0.3)
    titled(axes, "What should stay, stays (float32)")
    axes.legend(loc="upper right", ncols=2, frameon=False, fontsize=9)
