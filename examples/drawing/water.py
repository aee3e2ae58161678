"""Pictures of water in a tank with a pillar, as its particles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

Tank = tuple[float, float, float]
State = tuple[Any, Any]  # places and velocities

COLOURS = LinearSegmentedColormap.from_list(
    "water", ["#0b2e59", "#14508f", "#2b7cc4", "#58a8e0", "#a4d6f2", "#eef8fd", "#ffffff"]
)
TURN, TILT = np.radians(-58.0), np.radians(24.0)


def seen(x: np.ndarray, tank: Tank) -> tuple[np.ndarray, np.ndarray]:
    """Where points are in the picture, and how near they are."""
    x = x - np.array([tank[0] / 2, tank[1] / 2, 0.0])
    along = -x[:, 0] * np.sin(TURN) + x[:, 1] * np.cos(TURN)
    depth = x[:, 0] * np.cos(TURN) + x[:, 1] * np.sin(TURN)
    height = x[:, 2]
    flat = np.stack([along, height * np.cos(TILT) - depth * np.sin(TILT)], -1)
    return flat, depth * np.cos(TILT) + height * np.sin(TILT)


def paint(axes: Axes, state: State, size: float, tank: Tank, pillar: Tank, title: str) -> None:
    """The tank, the pillar, and the water by its speed, what is near over what is far."""
    corner = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)]) * tank
    flat, _ = seen(corner, tank)
    for i in range(8):
        for bit in (1, 2, 4):
            if not i & bit:
                axes.plot(*flat[[i, i | bit]].T, color="#c3ccd6", linewidth=0.9, zorder=0)
    angle, up = np.meshgrid(np.linspace(0, 2 * np.pi, 160), np.linspace(0.0, 0.7, 160))
    radius, up = pillar[2] * np.minimum(1.0, (0.7 - up) / 0.09), np.minimum(up, 0.61)  # with a lid
    around = np.stack([pillar[0] + radius * np.cos(angle), pillar[1] + radius * np.sin(angle), up], -1).reshape(-1, 3)
    x, v = map(np.asarray, state)
    inside = ((x > -0.05) & (x < np.array(tank) + 0.05)).all(1)
    x, v = x[inside], v[inside]
    light = np.where(up < 0.61, 0.62 + 0.3 * np.cos(angle - TURN + 0.9), 0.97).ravel()
    colours = np.concatenate(
        [
            COLOURS(np.clip(np.linalg.norm(v, axis=1) / 2.9, 0, 1))[:, :3],
            np.repeat(light[:, None], 3, 1) * [0.95, 0.9, 0.84],
        ]
    )
    places, near = seen(np.concatenate([x, around]), tank)
    height = np.concatenate([x[:, 2], around[:, 2] * 0 + 0.4])
    shade = 0.82 + 0.18 * np.clip(height / 0.5, 0, 1)
    order = np.argsort(near)
    axes.scatter(*places[order].T, s=size, c=np.clip(colours * shade[:, None], 0, 1)[order], linewidths=0, zorder=1)
    axes.set(aspect="equal", xlim=(-1.0, 1.0), ylim=(-0.5, 1.05))
    axes.axis("off")
    axes.set_title(title, fontsize=12, fontweight="bold", y=0.96)


def draw(states: list[State], moments: list[float], spacing: float, tank: Tank, pillar: Tank, path: Path) -> None:
    """The water at some moments."""
    figure = Figure(figsize=(15.0, 8.2), dpi=120, layout="constrained")
    for axes, moment, state in zip(figure.subplots(2, 3).ravel(), moments, states, strict=True):
        paint(axes, state, 1.21e5 * spacing**2, tank, pillar, f"{moment:.2f} s")
    figure.savefig(path)
