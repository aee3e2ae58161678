"""Computes the arrays of trees and meshes from their boxes and points, in host memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from jwarp.api.geometry.refit_replays import Repeat, repeat_of
from jwarp.api.geometry.tree import EMPTY, Tree, leaves_of
from jwarp.api.launch import launch
from jwarp.lib.geometry.refits import boxes_in_slots, faces_in_slots, leaves_around, nodes_around, sixteens_around
from jwarp.lib.geometry.wide import WIDTH


class Refitted(NamedTuple):
    """The tree of a mesh's faces, their corners by slots, the mean side, sixteens of them, and winding numbers."""

    tree: Tree
    corners: Any
    edge: Any
    wide: tuple[Any, Any, Any]
    winding: Any


def boxes_refitted_here(lowers: np.ndarray, uppers: np.ndarray, items: Any, groups: Any, size: int) -> Tree:
    """The tree of boxes in the order `items`. Its arrays are read-only."""
    tree = Tree(*_empty_tree(len(items), size), items, groups)
    refit_boxes(lowers, uppers, tree, size)
    return tree


def refitted_here(points: np.ndarray, indices: np.ndarray, items: Any, groups: Any, size: int) -> Refitted:
    """The arrays of a mesh without winding numbers whose faces are in the order `items`. They are read-only."""
    nodes, bounds = _empty_tree(len(items), size)
    slots = len(bounds)
    corners = np.empty((slots, 9), np.float32)
    corners[len(items) :] = np.nan
    levels = [-(-slots // WIDTH)]
    faces = np.full(levels[0] * 9 * WIDTH, np.nan, np.float32)
    while levels[-1] > 1:
        levels.append(-(-levels[-1] // WIDTH))
    widths = [-(-count // WIDTH) for count in reversed(levels[:-1] or levels)]
    starts = np.array(list(itertools.accumulate([0, *widths[:-1]])), np.int32)
    boxes = np.full(sum(widths) * 6 * WIDTH, np.inf, np.float32)
    _open((corners, faces, starts, boxes), False)
    tree = Tree(nodes, bounds, items, groups)
    made = Refitted(tree, corners, np.float32(0.0), (boxes, faces, starts), np.zeros((0, 8), np.float32))
    return made._replace(edge=refit_faces(points, indices, made, size))


def refit_boxes(lowers: np.ndarray, uppers: np.ndarray, tree: Tree, size: int) -> None:
    """Write to a tree's arrays where its boxes are now."""
    order = np.asarray(tree.items)
    if len(order):
        _open(tree[:2], True)
        launch(boxes_in_slots, len(order), [lowers, uppers, order], [tree.bounds])
        _fill_nodes(tree, size)
        _open(tree[:2], False)


def refit_faces(points: np.ndarray, indices: np.ndarray, made: Refitted, size: int) -> Any:
    """Write to a mesh's arrays where its faces are now. The mean side comes back."""
    tree, corners, _, (boxes, faces, starts), _ = made
    order = np.asarray(tree.items)
    used = -(-len(order) // WIDTH)
    if not used:
        return np.float32(0.0)
    sides = np.empty((used, WIDTH), np.float32)
    written = tree.nodes, tree.bounds, corners, boxes, faces
    _open(written, True)
    given = [points, indices.reshape(-1, 3), order]
    launch(faces_in_slots, (used, WIDTH), given, [corners, tree.bounds, faces.reshape(-1, 9, WIDTH), sides])
    total = sides.sum()
    _fill_nodes(tree, size, are_boxes=total == total)
    wide = boxes.reshape(-1, 6, WIDTH)
    widest = max(len(tree.bounds) // WIDTH, 1)
    launch(sixteens_around, (len(wide), 6, WIDTH), [tree.nodes.reshape(-1, 6), widest, starts], [wide])
    _open(written, False)
    if total == total:
        return total / np.float32(3 * len(order))
    known = sides.ravel()[: len(order)]
    known = known[~np.isnan(known)]
    return known.sum() / np.float32(max(3 * len(known), 1))


def repeat_faces(points: np.ndarray, indices: np.ndarray, made: Refitted, size: int, given: Any) -> Repeat | None:
    """The replay of `refit_faces` for corners that are all numbers; `given` are the arrays of the mesh."""
    tree, corners, _, (boxes, faces, starts), _ = made
    order = np.asarray(tree.items)
    used, leaves = -(-len(order) // WIDTH), -(-len(order) // size)
    if not used:
        return None
    sides = np.empty((used, WIDTH), np.float32)
    written = tree.nodes, tree.bounds, corners, boxes, faces
    _open(written, True)
    nodes, bounds, corners = tree.nodes.reshape(-1, 6), tree.bounds.view(), corners.view()
    lowest, by_leaf = nodes[len(tree.nodes) :][:leaves], bounds.reshape(-1, size, 6)
    wide, sixteens = boxes.reshape(-1, 6, WIDTH), faces.reshape(-1, 9, WIDTH)
    widest = max(len(bounds) // WIDTH, 1)
    launches = (
        (faces_in_slots, (used, WIDTH), [points, indices.reshape(-1, 3), order], [corners, bounds, sixteens, sides]),
        (leaves_around, (leaves, 6), [by_leaf], [lowest]),
        (nodes_around, 6, [leaves], [nodes]),
        (sixteens_around, (len(wide), 6, WIDTH), [nodes, widest, starts], [wide]),
    )
    found = repeat_of(given, launches, (nodes, bounds, corners, lowest, by_leaf, wide, sixteens), sides)
    _open(written, False)
    return found


def _open(arrays: Iterable[np.ndarray], is_open: bool) -> None:
    """Let arrays be written to, or no longer."""
    for array in arrays:
        array.flags.writeable = is_open


def _empty_tree(count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The nodes and the boxes of a tree of so many, those of nothing as they stay; read-only."""
    leaves = leaves_of(count, size)
    nodes, bounds = np.full((leaves, 12), np.inf, np.float32), np.empty((leaves * size, 6), np.float32)
    bounds[count:] = EMPTY
    nodes.flags.writeable = bounds.flags.writeable = False
    return nodes, bounds


def _fill_nodes(tree: Tree, size: int, are_boxes: bool = False) -> None:
    """Write to the nodes of a tree with these boxes in its slots; it may be known that all of them `are_boxes`."""
    heap = tree.nodes.reshape(-1, 6)
    used = -(-len(tree.items) // size)
    leaves = heap[len(tree.nodes) :][:used]
    launch(leaves_around, (used, 6), [tree.bounds.reshape(-1, size, 6)], [leaves])
    launch(nodes_around, 6, [used], [heap])
    if not are_boxes and (leaves[:, 3] == -np.inf).any():
        # A ray would go through a box from infinity to minus infinity. It misses a point at infinity.
        heap[(heap == EMPTY).all(1)] = np.inf
