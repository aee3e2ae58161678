"""Balls of triangles, and pictures of one that is found from a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drawing import INK, titled


@dataclass(frozen=True)
class Ball:
    """A ball of triangles: directions of its points, and faces."""

    ways: np.ndarray  # (points, 3)
    faces: np.ndarray  # (faces, 3)

    @staticmethod
    def of(rounds: int) -> Ball:
        """An icosahedron whose faces are cut in four, so many times."""
        golden = (1 + 5**0.5) / 2
        ways = [(0, a, b * golden) for a in (-1, 1) for b in (-1, 1)]
        ways = np.array([np.roll(way, k) for k in range(3) for way in ways], float)
        ways /= np.linalg.norm(ways, axis=1, keepdims=True)
        near = np.linalg.norm(ways[:, None] - ways, axis=-1) < 1.2
        faces = [
            (i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] and near[j, k] and near[i, k]
        ]
        faces = np.array([f if np.linalg.det(ways[list(f)]) > 0 else f[::-1] for f in faces])
        for _ in range(rounds):
            pairs = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
            sides, which = np.unique(pairs, axis=0, return_inverse=True)
            ab, bc, ca = len(ways) + which.reshape(3, -1)
            middle = ways[sides].sum(1)
            ways = np.concatenate([ways, middle / np.linalg.norm(middle, axis=1, keepdims=True)])
            a, b, c = faces.T
            faces = np.concatenate([np.stack(f, 1) for f in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))])
        return Ball(ways.astype(np.float32), faces.astype(np.int32))

    def carved(self) -> np.ndarray:
        """Heights with a spiral of ridges and a few dents."""
        x, y, z = self.ways.T
        angle, tilt = np.arctan2(y, x), np.arccos(np.clip(z, -1, 1))
        height = 1.0 + 0.045 * np.sin(3 * angle + 9 * tilt) * np.sin(tilt)
        for way in ((0.35, 0.45, 0.8), (-0.5, -0.2, 0.85), (0.2, -0.55, 0.8)):
            apart = np.linalg.norm(self.ways - np.array(way) / np.linalg.norm(way), axis=1)
            height -= 0.13 * np.exp(-((apart / 0.2) ** 2))
        return height.astype(np.float32)


def draw(ball: Ball, found: Any, seen: Callable[[Any], np.ndarray], path: Path) -> None:
    figure = Figure(figsize=(15.0, 8.4), dpi=120, layout="constrained")
    axes = figure.subplots(2, 4)

    def show(place: tuple[int, int], picture: np.ndarray, title: str) -> None:
        axes[place].imshow(np.clip(picture, 0.0, 1.0) ** 0.8)
        axes[place].axis("off")
        titled(axes[place], title)

    show((0, 0), found.target, "The picture that is given")
    rounds = len(found.losses)
    for k, at in enumerate((0, rounds // 12, rounds)):
        show((0, k + 1), seen(found.scenes[at]), "At first" if at == 0 else f"After {at} gradients")
    white = np.tile(np.float32([0.9, 0.8, 0.5]), (3, 1))  # a lamp that the search has not seen
    last = found.scenes[-1]
    show((1, 0), seen(found.wanted._replace(lamps=white)), "In other light: wanted")
    show((1, 1), seen(last._replace(lamps=white)), "In other light: found")
    draw_heights(axes[1, 2], ball, last, np.asarray(last.height - found.wanted.height))
    axes[1, 3].semilogy(np.arange(1, rounds + 1), found.losses, color=INK)
    axes[1, 3].set(xlabel="gradients", ylabel="mean squared difference")
    titled(axes[1, 3], f"A gradient takes {1e3 * found.seconds:.0f} ms")
    axes[1, 3].grid(alpha=0.3)
    figure.savefig(path)


def draw_heights(axes: Axes, ball: Ball, scene: Any, off: np.ndarray) -> None:
    """How far heights are off, of the faces that the camera sees."""
    x, y, _ = (np.asarray(scene.height)[:, None] * ball.ways + np.asarray(scene.place)).T
    a, b, c = (np.stack([x, y], 1)[ball.faces[:, k]] for k in range(3))
    u, v = b - a, c - a
    front = ball.faces[u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0] > 0]
    axes.tripcolor(x, y, front, off, cmap="RdBu", vmin=-0.1, vmax=0.1, shading="gouraud")
    axes.set(aspect="equal", xlim=(-1.24, 1.24), ylim=(-1.24, 1.24))
    axes.axis("off")
    titled(axes, "Heights: found, less wanted")
