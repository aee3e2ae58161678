"""Pictures of a craft that learns to land."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from drawing import INK, WARM, titled


def draw(landing: Any, start: Any, out: Path) -> None:
    """Paths of some steps, the thrust of the last, and the cost of all."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
    left.axhline(0.0, color="0.6", lw=1)
    shades = np.linspace(0.75, 0.0, len(landing.paths))
    for shade, (step, path) in zip(shades, landing.paths.items(), strict=True):
        left.plot(*np.vstack([start, path]).T, color=(shade, shade, shade), label=f"step {step}")
    *_, last = landing.paths.values()
    left.quiver(*last[::3].T, *-landing.thrust[::3].T, color=WARM, angles="xy", width=0.004, scale=60)
    left.plot(0.0, 0.0, "^", color="tab:red", ms=10, label="pad")
    left.set(xlabel="x (m)", ylabel="height (m)", aspect="equal")
    titled(left, "Paths, and the exhaust of the last")
    left.legend()
    right.semilogy(landing.costs, color=INK)
    right.set(xlabel="step", ylabel="cost")
    titled(right, "What is wrong with the landing")
    figure.savefig(out, dpi=110)
