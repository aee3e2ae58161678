"""Points of a spiral with several arms, and pictures of networks that tell them apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drawing import INK, WARM, titled

Points = tuple[np.ndarray, np.ndarray]  # places, and the arm of each


def spiral(arms: int, points: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Points of a spiral with several arms, and which arm each is of."""
    random = np.random.default_rng(seed)
    arm = random.integers(0, arms, points)
    radius = np.sqrt(random.uniform(0.02, 1.0, points))
    angle = 2.0 * np.pi * arm / arms + 4.5 * radius + random.normal(scale=0.3, size=points)
    place = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return place.astype(np.float32), arm.astype(np.int32)


COLOURS = np.array([[0.91, 0.45, 0.23], [0.16, 0.47, 0.71], [0.36, 0.64, 0.33], [0.56, 0.38, 0.66]])


def draw(found: Any, points: Points, believed: Callable, path: Path) -> None:
    figure = Figure(figsize=(12.0, 5.6), dpi=120, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.0, 1.1])
    draw_arms(left, found, points, believed)
    steps = np.arange(found.losses.shape[1])
    for losses in found.losses:
        right.semilogy(steps, losses, color=INK, alpha=0.35, linewidth=1.0)
    right.semilogy(steps, found.losses.mean(0), color=WARM, linewidth=2.2, label="mean of all")
    right.set_xlabel("step")
    right.set_ylabel("mean cross-entropy (nats)")
    right.set_xlim(0, len(steps) - 1)
    right.grid(alpha=0.25, which="both")
    right.legend(frameon=False)
    count = found.losses.shape[0]
    titled(right, f"{count} networks learn at once")
    figure.savefig(path)


def draw_arms(axes: Axes, found: Any, points: Points, believed: Callable) -> None:
    side = np.linspace(-1.15, 1.15, 300, dtype=np.float32)
    x, y = np.meshgrid(side, side)
    belief = np.asarray(believed(np.stack([x.ravel(), y.ravel()], axis=1)))
    # White where the networks do not know.
    certain = np.clip((belief.max(1) - 1.0 / belief.shape[1]) / (1.0 - 1.0 / belief.shape[1]), 0.0, 1.0)[:, None]
    image = 1.0 - 0.55 * certain * (1.0 - COLOURS[belief.argmax(1)])
    axes.imshow(image.reshape(300, 300, 3), origin="lower", extent=(-1.15, 1.15, -1.15, 1.15), interpolation="bilinear")
    places, arms = points
    axes.scatter(*places.T, s=7, color=COLOURS[arms], edgecolors="white", linewidths=0.3)
    titled(axes, f"Which arm is it? {found.accuracy:.1%} of unseen points", bare=False)
    axes.set(xticks=[], yticks=[])
