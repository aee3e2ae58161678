"""`wp.Bvh`: which of many boxes meet a box, a ray or a sphere."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jwarp.api.geometry import tree
from jwarp.api.geometry.arrays import (
    as_command,
    checked_array,
    is_here,
    note_trace,
    read_groups,
    refuse_ended,
    settled,
)
from jwarp.api.geometry.pytrees import as_jax, register
from jwarp.api.geometry.refits import boxes_refitted_here
from jwarp.bind.compat import is_not_tracing
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.lib.geometry.tree import BvhArrays
from jwarp.types import Geometry

CONSTRUCTORS = ("sah", "median", "lbvh", "cubql")


class Bvh(Geometry):
    """A tree of boxes that says which of them meet a box, a ray, a capsule or a sphere.

    It is passed to kernels for a parameter `wp.uint64`, itself or as `bvh.id`, where `wp.bvh_query_aabb` and its kin
    look for boxes. It is a JAX pytree whose leaves are arrays: it may be built inside `jax.jit`, and under `jax.vmap`
    there is a tree for each element of the batch. Which boxes meet has no derivative.

    Args:
        lowers, uppers: The corners of the boxes, arrays of float32 and shape (n, 3). Of NumPy arrays, `refit` sees what
            has been written to them since.
        constructor: "sah", "median", "lbvh", "cubql" or None: accepted so that Warp code ports, as there is one way.
        groups: The group of each box, an array of int32 with n elements: a query may ask for one group.
        leaf_size: How many boxes there are in a leaf, which changes how long queries take, and the order of results.

    Raises:
        KernelTypeError: an array has another dtype or shape, or the constructor is another one.
        LaunchError: there are not as many of each, or the leaf size is below 1.
    """

    def __init__(self, lowers: Any, uppers: Any, constructor: Any = None, groups: Any = None, leaf_size: int = 1):
        self.lowers, self.uppers = lowers, uppers
        check_options("wp.Bvh", constructor, leaf_size)
        self.leaf_size = int(leaf_size)
        boxes = self._boxes()
        self._keep(boxes, *tree.ordered(boxes, read_groups("wp.Bvh", groups, boxes.shape[0])))

    def refit(self) -> None:
        """Let the tree be of what `lowers` and `uppers` are now, which may have been written to, or replaced.

        Raises:
            LaunchError: there are more or fewer boxes than before.
        """
        as_command(self, self._refit)

    def _refit(self) -> None:
        boxes = self._boxes()
        if boxes.shape[0] != self.items.shape[0]:
            raise LaunchError(f"wp.Bvh.refit: {boxes.shape[0]} boxes in a tree of {self.items.shape[0]}")
        self._keep(boxes, self.items, self.groups)

    def rebuild(self, constructor: Any = None) -> None:
        """Build the tree anew of what `lowers` and `uppers` are now; groups stay with their boxes."""
        check_options("wp.Bvh.rebuild", constructor, self.leaf_size)
        as_command(self, self._rebuild)

    def _rebuild(self) -> None:
        boxes = self._boxes()
        if boxes.shape[0] != self.items.shape[0]:
            raise LaunchError(f"wp.Bvh.rebuild: {boxes.shape[0]} boxes in a tree of {self.items.shape[0]}")
        groups = jnp.asarray(self.groups)
        if groups.shape[0]:
            groups = jnp.zeros_like(groups).at[self.items].set(groups)
        self._keep(boxes, *tree.ordered(boxes, groups))

    def _boxes(self) -> Any:
        lowers = checked_array("wp.Bvh", "lowers", self.lowers, np.float32, (3,))
        uppers = checked_array("wp.Bvh", "uppers", self.uppers, np.float32, (3,))
        if lowers.shape != uppers.shape:
            raise LaunchError(f"wp.Bvh: {lowers.shape[0]} lower corners and {uppers.shape[0]} upper ones")
        if is_not_tracing() and is_here(lowers) and is_here(uppers):
            return np.concatenate([lowers, uppers], -1)
        return jnp.concatenate([lowers, uppers], -1)

    def _keep(self, boxes: Any, items: Any, groups: Any) -> None:
        if isinstance(boxes, np.ndarray) and is_here(items):
            made = boxes_refitted_here(boxes, items, groups, self.leaf_size)
        else:
            made = settled(tree.refitted(boxes, items, groups, self.leaf_size), self.lowers, self.uppers)
        self.nodes, self.bounds, self.items, self.groups = made
        note_trace(self)
        self.version += 1

    @property
    def arrays(self) -> Any:  # type: ignore[override]
        """What a kernel is given."""
        refuse_ended(self, _LEAVES)
        as_jax(self, _LEAVES)
        return self.in_place

    @property
    def in_place(self) -> Any:
        kind: Any = BvhArrays
        return kind(self.nodes, self.bounds, self.items, self.groups, self.leaf_size)

    def __repr__(self) -> str:
        return f"wp.Bvh({self.items.shape[0]} boxes)"


def check_options(where: str, constructor: Any, leaf_size: Any) -> None:
    """Refuse constructors that there are not, and leaves of nothing."""
    name = getattr(constructor, "name", constructor)
    if name is not None and (not isinstance(name, str) or name.lower() not in CONSTRUCTORS):
        raise KernelTypeError(
            f"{where}: the constructor must be {', '.join(CONSTRUCTORS)} or None, got {constructor!r}"
        )
    if leaf_size < 1:
        raise LaunchError(f"{where}: the leaf size must be at least 1, got {leaf_size}")


_LEAVES = ("lowers", "uppers", "nodes", "bounds", "items", "groups")
register(Bvh, _LEAVES, ("leaf_size",))
