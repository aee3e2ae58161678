"""A photograph beside what a network draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from drawing import INK, titled


def draw(wanted: np.ndarray, found: np.ndarray, losses: np.ndarray, path: Path) -> None:
    """The photograph, the network's picture, and how the loss fell."""
    figure = Figure(figsize=(10, 4), dpi=120, layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.3))
    for axes, colours, title in ((left, wanted, "The photograph"), (middle, found, "The network's picture")):
        axes.imshow(np.clip(colours, 0, 1))
        axes.set_axis_off()
        titled(axes, title)
    right.semilogy(losses, color=INK)
    right.set(xlabel="step", ylabel="mean squared miss")
    right.grid(alpha=0.3)
    titled(right, "How it learns")
    figure.savefig(path)
