"""Builds trees of boxes, as `jwarp.lib.geometry.tree` has them, in or out of jit."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.api.geometry.arrays import is_here, order_of
from jwarp.api.launch import launch
from jwarp.lib.geometry.builders import places_on_curve
from jwarp.lib.geometry.wide import WIDTH

EMPTY = np.array([np.inf] * 3 + [-np.inf] * 3, np.float32)


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


def ordered(boxes: Any, groups: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The order that a tree has boxes in, which is cut into leaves, and their groups in that order.

    It is that of their groups, if there are any, and then of their middles on a curve that fills space.
    """
    if not (is_here(boxes) and is_here(groups)):
        return _ordered(boxes, groups)
    own = np.asarray(groups)
    places = _places_here(boxes) if isinstance(boxes, np.ndarray) else np.asarray(_places(boxes))
    order = order_of(*([own] if len(own) else []), places)
    return jnp.asarray(order), jnp.asarray(own[order] if len(own) else own)


@jax.jit
def _places(boxes: jax.Array) -> jax.Array:
    """Where the middles of boxes are on the curve."""
    count = boxes.shape[0]
    boxes = jax.lax.stop_gradient(boxes)
    middles = 0.5 * (boxes[:, :3] + boxes[:, 3:])
    known = jnp.isfinite(middles)  # others lie anywhere
    low = jnp.min(middles, axis=0, initial=np.inf, where=known)
    extent = jnp.max(middles, axis=0, initial=-np.inf, where=known) - low
    longest = jnp.max(extent, initial=0.0, where=jnp.isfinite(extent))
    scale = jnp.where(longest > 0.0, 1024.0 / jnp.where(longest > 0.0, longest, 1.0), 0.0)
    low = jnp.where(jnp.isfinite(low), low, 0.0)
    (places,) = launch(places_on_curve, count, [boxes, *low, scale], [count])
    return places


def _places_here(boxes: np.ndarray) -> np.ndarray:
    """As `_places`, in this computer's memory."""
    with np.errstate(invalid="ignore", over="ignore"):
        middles = np.empty((3, len(boxes)), np.float32)  # as NumPy finds the least along rows of three numbers slowly
        np.add(boxes[:, :3].T, boxes[:, 3:].T, out=middles)
        middles *= np.float32(0.5)
        low, high = middles.min(1, initial=np.inf), middles.max(1, initial=-np.inf)
        if not (np.isfinite(low) & np.isfinite(high)).all():
            known = np.isfinite(middles)
            low = np.min(middles, axis=1, initial=np.inf, where=known)
            high = np.max(middles, axis=1, initial=-np.inf, where=known)
        extent = high - low
    longest = np.max(extent, initial=0.0, where=np.isfinite(extent))
    scale = float(np.float32(1024.0) / np.float32(longest)) if longest > 0.0 else 0.0
    low = np.where(np.isfinite(low), low, np.float32(0.0)).astype(np.float32)
    places = np.empty(len(boxes), np.int32)
    launch(places_on_curve, len(boxes), [boxes, *low.tolist(), scale], [places])
    return places


@jax.jit
def _ordered(boxes: jax.Array, groups: jax.Array) -> tuple[jax.Array, jax.Array]:
    places = _places(boxes)
    numbers = jnp.arange(boxes.shape[0], dtype=np.int32)
    if groups.shape[0]:
        groups, _, items = jax.lax.sort((groups, places, numbers), num_keys=2, is_stable=True)
    else:
        _, items = jax.lax.sort((places, numbers), num_keys=1, is_stable=True)
    return items, groups


@functools.partial(jax.jit, static_argnums=3)
def refitted(boxes: jax.Array, items: jax.Array, groups: jax.Array, size: int) -> Tree:
    """The tree of other boxes in the same order."""
    leaves = leaves_of(boxes.shape[0], size)
    found = jax.lax.stop_gradient(boxes)[items]
    empty = jnp.broadcast_to(EMPTY, (leaves * size - found.shape[0], 6))
    bounds = jnp.concatenate([found, empty])
    # A box with a corner that is no number meets nothing, and counts for none around it.
    parts = jnp.where(jnp.isnan(bounds).any(-1, keepdims=True), EMPTY, bounds).reshape(leaves, size, 6)
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
def widened(bounds: jax.Array, corners: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Boxes and faces in order of their slots as `jwarp.lib.geometry.wide` has them, and where its levels begin."""
    sides = corners.reshape(-1, 3, 3)
    sides = sides - jnp.roll(sides, 1, axis=1)
    area = (jnp.cross(sides[:, 0], sides[:, 1]) ** 2).sum(-1)
    squares = (sides * sides).sum((1, 2))
    known = (area >= 1.0e-12 * squares * squares) & (squares > 0.0)  # a sliver has no normal worth the name
    level = jnp.where(jnp.isnan(bounds).any(-1, keepdims=True) | ~known[:, None], EMPTY, bounds)
    faces = _in_sixteens(jnp.where(known[:, None], corners, np.nan), np.full(9, np.nan, np.float32))
    levels: list[Any] = []
    level = _merged(level)
    while not levels or level.shape[0] > 1:
        # A ray would go through a box from infinity to minus infinity. It misses a point at infinity.
        shown = jnp.where((level == EMPTY).all(-1, keepdims=True), np.float32(np.inf), level)
        levels.append(_in_sixteens(shown, np.full(6, np.inf, np.float32)))
        level = _merged(level)
    starts = np.cumsum([0, *(len(x) // (6 * WIDTH) for x in reversed(levels))])[:-1]
    return jnp.concatenate([*reversed(levels)]), faces, jnp.asarray(starts, np.int32)


def _padded(rows: Any, filled: Any) -> Any:
    missing = -rows.shape[0] % WIDTH
    return jnp.concatenate([rows, jnp.broadcast_to(filled, (missing, rows.shape[1]))]) if missing else rows


def _in_sixteens(rows: Any, filled: Any) -> Any:
    """The rows, sixteen at a time, with their first numbers in front, then the second ones."""
    rows = _padded(rows, filled)
    return rows.reshape(-1, WIDTH, rows.shape[1]).swapaxes(1, 2).reshape(-1)


def _merged(boxes: Any) -> Any:
    """The box around each sixteen."""
    parts = _padded(boxes, EMPTY).reshape(-1, WIDTH, 6)
    return jnp.concatenate([parts[..., :3].min(1), parts[..., 3:].max(1)], -1)
