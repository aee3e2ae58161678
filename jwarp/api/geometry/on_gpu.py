"""Builds and refits what is made of arrays on a GPU, by launches there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jwarp.api import gpu_arrays
from jwarp.arrays.array import array
from jwarp.arrays.create import empty
from jwarp.dispatch.arrays import launch
from jwarp.lib.geometry.builders import CELLS, numbered, starts_of_cells
from jwarp.types import int32


def sorted_into_cells(points: array, scale: Any, dims: tuple[int, ...]) -> tuple[array, array]:
    """The numbers of points, a contiguous array of one axis, in order of their cells, and where each cell starts."""
    count, device = points.size, points.device
    scalar = points.dtype.dtype
    cells, ids = (empty(2 * count, dtype=int32, device=device) for _ in range(2))  # the half of them is room to sort
    starts = empty(math.prod(dims) + 1, dtype=int32, device=device)
    _run(CELLS[scalar], count, [points, scale.item(), *dims, cells[:count]])
    _run(numbered, count, [ids[:count]])
    gpu_arrays.sort_pairs(cells, ids, count, 0, np.dtype(np.int32).itemsize * 8)
    _run(starts_of_cells, starts.size, [cells[:count], starts])
    return ids[:count], starts


def _run(kernel: Any, dims: Any, given: list[Any]) -> None:
    launch(kernel, dims, given, None, None, record_tape=False)
