"""A mesh to measure queries on."""

from __future__ import annotations

import numpy as np


def bumpy_ball(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A mesh of 4 rows^2 triangles in no order."""
    v, u = np.meshgrid(
        np.linspace(0, np.pi, rows + 1), np.linspace(0, 2 * np.pi, 2 * rows, endpoint=False), indexing="ij"
    )
    r = 1 + 0.2 * np.sin(5 * u) * np.sin(v) ** 2 + 0.1 * np.cos(9 * v)
    points = np.stack([r * np.cos(u) * np.sin(v), r * np.sin(u) * np.sin(v), r * np.cos(v)], -1).reshape(-1, 3)
    i, j = (x.ravel() for x in np.mgrid[:rows, : 2 * rows])
    a, b, c, d = (k * 2 * rows + m % (2 * rows) for k, m in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)))
    faces = np.concatenate([np.stack([a, b, c], -1), np.stack([a, c, d], -1)])
    return points.astype(np.float32), np.random.default_rng(2).permutation(faces).astype(np.int32).ravel()
