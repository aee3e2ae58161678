"""Works out what trees and meshes hold from where their boxes and points are, in this computer's memory."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from jwarp.api.geometry.tree import Tree, leaves_of
from jwarp.api.launch import launch
from jwarp.lib.geometry.refits import boxes_around, boxes_in_slots, faces_in_slots, sixteens_around
from jwarp.lib.geometry.wide import WIDTH


class Refitted(NamedTuple):
    """The tree of a mesh's faces, their corners by slots, the mean side, sixteens of them, and winding numbers."""

    tree: Tree
    corners: Any
    edge: Any
    wide: tuple[Any, Any, Any]
    winding: Any


def boxes_refitted_here(boxes: np.ndarray, items: Any, groups: Any, size: int) -> Tree:
    """The tree of boxes in the order `items`. Its arrays are read-only."""
    order = np.asarray(items)
    leaves = leaves_of(len(order), size)
    bounds, clean = (np.empty((leaves * size, 6), np.float32) for _ in range(2))
    launch(boxes_in_slots, leaves * size, [boxes, order], [bounds, clean])
    nodes = _nodes_around(clean, leaves, size)
    bounds.flags.writeable = False
    return Tree(nodes, bounds, items, groups)


def _nodes_around(clean: np.ndarray, leaves: int, size: int) -> np.ndarray:
    """The nodes of a tree with these boxes in its slots; read-only."""
    nodes = np.full((leaves, 12), np.inf, np.float32)
    heap = nodes.reshape(2 * leaves, 6)
    launch(boxes_around, 3, [clean, size], [heap])
    _hide(heap[:, :3], heap[:, 3:])
    nodes.flags.writeable = False
    return nodes


def refitted_here(points: np.ndarray, indices: np.ndarray, items: Any, groups: Any, size: int) -> Refitted:
    """What a mesh without winding numbers holds, whose faces come in the order `items`. Its arrays are read-only."""
    order = np.asarray(items)
    leaves = leaves_of(len(order), size)
    slots = leaves * size
    corners, sides, counts = np.empty((slots, 9), np.float32), np.empty(slots, np.float32), np.empty(slots, np.int32)
    bounds, clean, solid = (np.empty((slots, 6), np.float32) for _ in range(3))
    faces = np.full(-(-slots // WIDTH) * 9 * WIDTH, np.nan, np.float32)
    launch(faces_in_slots, slots, [points, indices, order], [corners, bounds, clean, solid, faces, sides, counts])
    edge = np.float32(sides.sum(dtype=np.float64) / max(int(counts.sum()), 1))
    nodes = _nodes_around(clean, leaves, size)
    levels = [-(-slots // WIDTH)]
    while levels[-1] > 1:
        levels.append(-(-levels[-1] // WIDTH))
    widths = [-(-count // WIDTH) for count in reversed(levels[:-1] or levels)]
    starts = np.array(list(itertools.accumulate([0, *widths[:-1]])), np.int32)
    boxes = np.full(sum(widths) * 6 * WIDTH, np.inf, np.float32)
    launch(sixteens_around, 3, [solid, starts], [boxes])
    parts = boxes.reshape(-1, 6, WIDTH)
    _hide(parts[:, :3], parts[:, 3:])
    for made in (bounds, corners, boxes, faces, starts):
        made.flags.writeable = False
    tree = Tree(nodes, bounds, items, groups)
    return Refitted(tree, corners, edge, (boxes, faces, starts), np.zeros((0, 8), np.float32))


def _hide(low: np.ndarray, high: np.ndarray) -> None:
    """Put boxes of nothing at infinity: a ray would go through one from infinity to minus infinity."""
    high[(low == np.inf) & (high == -np.inf)] = np.inf
