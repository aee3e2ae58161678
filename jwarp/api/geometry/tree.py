"""Builds trees of boxes, as `jwarp.lib.geometry.tree` has them, in or out of jit."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.api.geometry.arrays import is_here, order_of
from jwarp.api.launch import launch
from jwarp.bind.compat import is_not_tracing
from jwarp.lib.geometry.builders import in_halves, places_on_curve
from jwarp.lib.geometry.wide import WIDTH

EMPTY = np.array([np.inf] * 3 + [-np.inf] * 3, np.float32)
# In place of a box with a corner that is no number: no box, ray or ball meets it, not an infinite one either.
NO_BOX = np.array([np.nan] * 3 + [-np.inf] * 3, np.float32)


class Tree(NamedTuple):
    """The arrays of a tree. `bounds` has the boxes in order of their slots, those of slots without anything too."""

    nodes: Any
    bounds: Any
    items: Any
    groups: Any


def leaves_of(count: int, size: int) -> int:
    """How many leaves a tree of so many boxes has, with `size` of them in each: a power of two."""
    leaves = 1
    while leaves * size < count:
        leaves *= 2
    return leaves


def ordered(boxes: Any, groups: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """The order that a tree has boxes in, which is cut into leaves of `size`, and their groups in that order.

    It is that of their groups, if there are any. Boxes of one group are halved, and halved again, on processors; on
    GPUs, their middles are in the order of a curve that fills space.
    """
    if not (is_not_tracing() and is_here(boxes) and is_here(groups)):
        return _ordered(boxes, groups, size)
    own = np.asarray(groups)
    first = order_of(own) if len(own) else np.arange(len(boxes), dtype=np.int32)
    middles, order = np.empty(3 * len(boxes), np.float32), np.empty(len(boxes), np.int32)
    of_first = own[first] if len(own) else own
    launch(in_halves, 1, [np.asarray(boxes), first, of_first, size], [middles, order])
    return jnp.asarray(order), jnp.asarray(own[order] if len(own) else own)


@functools.partial(jax.jit, static_argnums=2)
def _ordered(boxes: jax.Array, groups: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    count = boxes.shape[0]
    boxes = jax.lax.stop_gradient(boxes)
    order = jax.lax.platform_dependent(
        boxes, groups, cpu=functools.partial(_in_halves, size=size, count=count), default=_on_curve
    )
    return order, groups[order] if groups.shape[0] else groups


def _in_halves(boxes: jax.Array, groups: jax.Array, size: int, count: int) -> jax.Array:
    first = jnp.argsort(groups, stable=True).astype(np.int32) if groups.shape[0] else jnp.arange(count, dtype=np.int32)
    own = groups[first] if groups.shape[0] else groups
    return launch(in_halves, 1, [boxes, first, own, size], [3 * count, count])[1]


def _on_curve(boxes: jax.Array, groups: jax.Array) -> jax.Array:
    numbers = jnp.arange(boxes.shape[0], dtype=np.int32)
    keys = (groups, _places(boxes)) if groups.shape[0] else (_places(boxes),)
    return jax.lax.sort((*keys, numbers), num_keys=len(keys), is_stable=True)[-1]


def _places(boxes: jax.Array) -> jax.Array:
    """Where the middles of boxes are on the curve."""
    count = boxes.shape[0]
    middles = 0.5 * (boxes[:, :3] + boxes[:, 3:])
    known = jnp.isfinite(middles)  # others lie anywhere
    low = jnp.min(middles, axis=0, initial=np.inf, where=known)
    extent = jnp.max(middles, axis=0, initial=-np.inf, where=known) - low
    longest = jnp.max(extent, initial=0.0, where=jnp.isfinite(extent))
    scale = jnp.where(longest > 0.0, 1024.0 / jnp.where(longest > 0.0, longest, 1.0), 0.0)
    low = jnp.where(jnp.isfinite(low), low, 0.0)
    (places,) = launch(places_on_curve, count, [boxes, *low, scale], [count])
    return places


@functools.partial(jax.jit, static_argnums=3)
def refitted(boxes: jax.Array, items: jax.Array, groups: jax.Array, size: int) -> Tree:
    """The tree of other boxes in the same order."""
    leaves = leaves_of(boxes.shape[0], size)
    found = jax.lax.stop_gradient(boxes)[items]
    found = jnp.where(jnp.isnan(found).any(-1, keepdims=True), NO_BOX, found)
    empty = jnp.broadcast_to(EMPTY, (leaves * size - found.shape[0], 6))
    bounds = jnp.concatenate([found, empty])
    parts = jnp.where(jnp.isnan(bounds), EMPTY, bounds).reshape(leaves, size, 6)
    level = jnp.concatenate([parts[..., :3].min(1), parts[..., 3:].max(1)], -1)
    levels = [level]
    while level.shape[0] > 1:
        pairs = level.reshape(-1, 2, 6)
        level = jnp.concatenate([pairs[..., :3].min(1), pairs[..., 3:].max(1)], -1)
        levels.append(level)
    heap = jnp.concatenate([jnp.broadcast_to(EMPTY, (1, 6)), *reversed(levels)])
    # A ray would go through a box from infinity to minus infinity. It misses a point at infinity.
    heap = jnp.where((heap == EMPTY).all(-1, keepdims=True), np.float32(np.inf), heap)
    return Tree(heap.reshape(leaves, 12), bounds, items, groups)


@jax.jit
def widened(nodes: jax.Array, corners: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Boxes and faces in order of their slots as `jwarp.lib.geometry.wide` has them, and where its levels begin.

    Boxes are those of the tree's nodes that are around sixteen slots, around sixteen times as many, and so on."""
    sides = corners.reshape(-1, 3, 3)
    sides = sides - jnp.roll(sides, 1, axis=1)
    area = (jnp.cross(sides[:, 0], sides[:, 1]) ** 2).sum(-1)
    squares = (sides * sides).sum((1, 2))
    known = area >= 1.0e-12 * squares * squares  # a sliver has no normal worth the name; a point is none (`is_sliver`)
    faces = _in_sixteens(jnp.where(known[:, None], corners, np.nan), np.full(9, np.nan, np.float32))
    heap = nodes.reshape(-1, 6)
    count = max(len(corners) // WIDTH, 1)
    levels: list[Any] = []
    while not levels or count > 1:
        levels.append(_in_sixteens(heap[count : 2 * count], np.full(6, np.inf, np.float32)))
        count = -(-count // WIDTH)
    starts = np.cumsum([0, *(len(x) // (6 * WIDTH) for x in reversed(levels))])[:-1]
    return jnp.concatenate([*reversed(levels)]), faces, jnp.asarray(starts, np.int32)


def _padded(rows: Any, filled: Any) -> Any:
    missing = -rows.shape[0] % WIDTH
    return jnp.concatenate([rows, jnp.broadcast_to(filled, (missing, rows.shape[1]))]) if missing else rows


def _in_sixteens(rows: Any, filled: Any) -> Any:
    """The rows, sixteen at a time, with their first numbers in front, then the second ones."""
    rows = _padded(rows, filled)
    return rows.reshape(-1, WIDTH, rows.shape[1]).swapaxes(1, 2).reshape(-1)
