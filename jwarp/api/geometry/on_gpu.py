"""Builds and refits what is made of arrays on a GPU, by launches there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jwarp.api import gpu_arrays
from jwarp.arrays.array import array
from jwarp.arrays.create import empty
from jwarp.lib.geometry.builders import CELLS, numbered, starts_of_cells
from jwarp.lib.geometry.refits import (
    boxes_in_slots,
    closed_nodes,
    faces_in_slots,
    leaves_around,
    level_around,
    sixteens_around,
)
from jwarp.lib.geometry.wide import WIDTH
from jwarp.types import NAMED, float32, int32


def sorted_into_cells(points: array, scale: Any, dims: tuple[int, ...]) -> tuple[array, array]:
    """The numbers of points, a contiguous array of one axis, in order of their cells, and where each cell starts."""
    count, device = points.size, points.device
    scalar = points.dtype.dtype
    cells, ids = (empty(2 * count, dtype=int32, device=device) for _ in range(2))  # the half of them is room to sort
    starts = empty(math.prod(dims) + 1, dtype=int32, device=device)
    gpu_arrays.run(CELLS[scalar], count, [points, scale.item(), *dims, cells[:count]])
    gpu_arrays.run(numbered, count, [ids[:count]])
    gpu_arrays.sort_pairs(cells, ids, count, 0, np.dtype(np.int32).itemsize * 8)
    gpu_arrays.run(starts_of_cells, starts.size, [cells[:count], starts])
    return ids[:count], starts


def refit_boxes(lowers: array, uppers: array, of_tree: Any) -> None:
    """Write to the arrays of a tree where its boxes are now."""
    count = of_tree.items.size
    if count:
        gpu_arrays.run(boxes_in_slots, count, [lowers, uppers, of_tree.items, of_tree.bounds])
        _fill_nodes(of_tree, are_boxes=False)


def refit_faces(mesh: Any) -> np.float32:
    """Write to the arrays of a mesh, which has faces, where they are now. The mean side comes back.

    `mesh` is what launches are given of it.
    """
    of_tree, wide = mesh.bvh, mesh.wide
    count, device = of_tree.items.size, mesh.points.device
    used = -(-count // WIDTH)
    sides = empty((used, WIDTH), dtype=float32, device=device)
    indices = mesh.indices.reshape((-1, 3)).view(NAMED["vec3i"])
    faces = wide.faces.reshape((-1, 9, WIDTH))
    gpu_arrays.run(
        faces_in_slots,
        (used, WIDTH),
        [mesh.points, indices, of_tree.items, mesh.corners, of_tree.bounds, faces, sides],
    )
    total = empty(1, dtype=float32, device=device)
    gpu_arrays.sum_columns(gpu_arrays.rows_of(sides), total)
    known = total.numpy()
    are_boxes = not np.isnan(known[0])
    heap = _fill_nodes(of_tree, are_boxes=are_boxes)
    boxes = wide.boxes.reshape((-1, 6, WIDTH))
    widest = max(of_tree.bounds.size // WIDTH, 1)
    gpu_arrays.run(sixteens_around, boxes.shape, [heap, widest, wide.levels, boxes])
    if not are_boxes:
        known = sides.numpy().ravel()[:count]
        known, count = known[~np.isnan(known)], int((~np.isnan(known)).sum())
    return np.float32(known.sum() / np.float32(max(3 * count, 1)))


def _fill_nodes(of_tree: Any, *, are_boxes: bool) -> array:
    """Write to the nodes of a tree with these boxes in its slots; it may be known that all of them `are_boxes`."""
    size = int(of_tree.size)
    heap = gpu_arrays.rows_of(of_tree.nodes).flatten().reshape((-1, 6))
    first, used = heap.shape[0] // 2, -(-of_tree.items.size // size)
    bounds = gpu_arrays.rows_of(of_tree.bounds).flatten().reshape((-1, size, 6))
    gpu_arrays.run(leaves_around, (used, 6), [bounds, heap[first : first + used]])
    while first > 1:
        first //= 2
        gpu_arrays.run(level_around, ((used + 1) // 2, 6), [first, used, heap])
        used = (used + 1) // 2
    if not are_boxes:
        gpu_arrays.run(closed_nodes, heap.shape[0], [heap])
    return heap
