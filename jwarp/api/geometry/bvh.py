"""`wp.Bvh`: which of many boxes meet a box, a ray or a sphere."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jwarp.api.geometry import on_gpu, tree
from jwarp.api.geometry.arrays import (
    as_command,
    brought,
    checked_array,
    common_gpu,
    here,
    is_here,
    is_on_gpu,
    note_trace,
    read_groups,
    refuse_ended,
    settled,
)
from jwarp.api.geometry.pytrees import as_jax, register
from jwarp.api.geometry.refits import boxes_refitted_here, refit_boxes
from jwarp.api.geometry.sole_owner import is_alone, stay
from jwarp.bind.compat import is_not_tracing
from jwarp.dispatch.call.cached_geometry import cached_content, struct_of
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.lib.geometry.tree import BvhArrays
from jwarp.types import NAMED, Geometry

VEC3 = NAMED["vec3"]
CONSTRUCTORS = ("sah", "median", "lbvh", "cubql")


class Bvh(Geometry):
    """A tree of boxes, which finds the boxes that intersect a box, a ray, a capsule or a sphere.

    Pass the tree, or `bvh.id`, to a kernel's parameter of type `wp.uint64`, for `wp.bvh_query_aabb` and the other
    queries. A tree is a JAX pytree with arrays as leaves: it may be built inside `jax.jit`, and under `jax.vmap` each
    element of the batch has its own tree. The choice of boxes has no derivative.

    Args:
        lowers, uppers: The corners of the boxes, arrays of float32 and shape (n, 3). `refit` sees later changes of
            NumPy arrays.
        constructor: "sah", "median", "lbvh", "cubql" or None. Accepted for compatibility with Warp; there is one way to
            build a tree.
        groups: The group of each box, an array of int32 and shape (n,). A query may ask for one group.
        leaf_size: The number of boxes in a leaf. It affects the time of queries and the order of results.

    Raises:
        KernelTypeError: An array has another dtype or shape, or there is no such constructor.
        LaunchError: The numbers of corners or groups differ, or the leaf size is below 1.
    """

    def __init__(self, lowers: Any, uppers: Any, constructor: Any = None, groups: Any = None, leaf_size: int = 1):
        self.device = common_gpu("wp.Bvh", lowers=lowers, uppers=uppers, groups=groups)
        self.lowers, self.uppers = lowers, uppers
        check_options("wp.Bvh", constructor, leaf_size)
        self.leaf_size = int(leaf_size)
        corners = self._corners()
        boxes = _joined(*corners)
        with here(self.device):
            self._keep(*corners, *tree.ordered(boxes, read_groups("wp.Bvh", groups, boxes.shape[0]), self.leaf_size))

    def refit(self) -> None:
        """Adapt the tree to the current content of `lowers` and `uppers`, which may have been written to or replaced.

        Raises:
            LaunchError: The number of boxes has changed.
        """
        as_command(self, self._refit)

    def _refit(self) -> None:
        if self._is_there():
            made = struct_of(self)
            on_gpu.refit_boxes(self.lowers, self.uppers, made)
            self.nodes, self.bounds, self.items = made.nodes, made.bounds, made.items
            self.version += 1
            return None
        lowers, uppers = self._corners()
        if lowers.shape[0] != self.items.shape[0]:
            raise LaunchError(f"wp.Bvh.refit: {lowers.shape[0]} boxes in a tree of {self.items.shape[0]}")
        is_own = self.device is None and _are_here(lowers, uppers, self.items)
        if not is_own or not is_alone(self, _WRITTEN):
            with here(self.device):
                return self._keep(lowers, uppers, brought(self.items), brought(self.groups))
        of_tree = tree.Tree(self.nodes, self.bounds, self.items, self.groups)
        refit_boxes(np.asarray(lowers), np.asarray(uppers), of_tree, self.leaf_size)
        stay(self, [])
        return None

    def rebuild(self, constructor: Any = None) -> None:
        """Build the tree again from the current content of `lowers` and `uppers`. Boxes keep their groups."""
        check_options("wp.Bvh.rebuild", constructor, self.leaf_size)
        as_command(self, self._rebuild)

    def _rebuild(self) -> None:
        lowers, uppers = self._corners()
        if lowers.shape[0] != self.items.shape[0]:
            raise LaunchError(f"wp.Bvh.rebuild: {lowers.shape[0]} boxes in a tree of {self.items.shape[0]}")
        with here(self.device):
            groups = jnp.asarray(brought(self.groups))
            if groups.shape[0]:
                groups = jnp.zeros_like(groups).at[brought(self.items)].set(groups)
            self._keep(lowers, uppers, *tree.ordered(_joined(lowers, uppers), groups, self.leaf_size))

    def _is_there(self) -> bool:
        """True if all arrays are on a GPU, in the form that kernels take."""
        given = self.lowers, self.uppers
        is_known = all(map(is_on_gpu, given)) and is_not_tracing() and self.items.shape[0] > 0
        are_alike = is_known and all(a.ndim == 1 and a.shape == self.items.shape and a.dtype is VEC3 for a in given)
        return are_alike and cached_content(self) is not None

    def _corners(self) -> tuple[Any, Any]:
        lowers = checked_array("wp.Bvh", "lowers", self.lowers, np.float32, (3,))
        uppers = checked_array("wp.Bvh", "uppers", self.uppers, np.float32, (3,))
        if lowers.shape != uppers.shape:
            raise LaunchError(f"wp.Bvh: {lowers.shape[0]} lower corners and {uppers.shape[0]} upper ones")
        return lowers, uppers

    def _keep(self, lowers: Any, uppers: Any, items: Any, groups: Any) -> None:
        if _are_here(lowers, uppers, items):
            made = boxes_refitted_here(np.asarray(lowers), np.asarray(uppers), items, groups, self.leaf_size)
        else:
            made = tree.refitted(_joined(lowers, uppers), items, groups, self.leaf_size)
            made = settled(made, self.lowers, self.uppers)
        self.nodes, self.bounds, self.items, self.groups = made
        note_trace(self)
        self.version += 1

    @property
    def arrays(self) -> Any:  # type: ignore[override]
        """The arguments for a kernel."""
        refuse_ended(self, _LEAVES)
        as_jax(self, _LEAVES)
        return self.in_place

    @property
    def in_place(self) -> Any:
        kind: Any = BvhArrays
        return kind(self.nodes, self.bounds, self.items, self.groups, self.leaf_size)

    def __repr__(self) -> str:
        return f"wp.Bvh({self.items.shape[0]} boxes)"


def _joined(lowers: Any, uppers: Any) -> Any:
    """The boxes with these corners."""
    return (np if _are_here(lowers, uppers) else jnp).concatenate([lowers, uppers], -1)


def _are_here(*given: Any) -> bool:
    return is_not_tracing() and all(map(is_here, given))


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
_WRITTEN = ("nodes", "bounds")  # by each refit
register(Bvh, _LEAVES, ("leaf_size",))
