"""`wp.Mesh`: triangles, the points of them that are closest to a place, and where rays meet them."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.api.geometry import on_gpu, tree
from jwarp.api.geometry.arrays import (
    as_command,
    brought,
    checked_array,
    common_gpu,
    content_of,
    here,
    is_here,
    is_on_gpu,
    note_trace,
    read_groups,
    refuse_ended,
    settled,
)
from jwarp.api.geometry.bvh import check_options
from jwarp.api.geometry.pytrees import as_jax, register
from jwarp.api.geometry.refits import Refitted, refit_faces, refitted_here, repeat_faces
from jwarp.api.geometry.sole_owner import is_alone, stay
from jwarp.arrays.array import array
from jwarp.arrays.commands import listeners
from jwarp.bind.compat import is_not_tracing
from jwarp.dispatch.call.cached_geometry import cached_content, struct_of
from jwarp.errors import LaunchError
from jwarp.lib.geometry.mesh import MeshArrays
from jwarp.lib.geometry.tree import BvhArrays
from jwarp.lib.geometry.wide import WIDTH, WideArrays
from jwarp.types import NAMED, Geometry, int32

LEAF_SIZE = 8
# A mesh that is refitted more often has that made ready.
SOME_REFITS = 4
VEC3 = NAMED["vec3"]
# The sources of a mesh: its points, indices and velocities, as they were given.
Given = tuple[Any, ...]


class Mesh(Geometry):
    """A mesh of triangles, which finds closest points, intersections with rays, and faces within a box.

    Pass the mesh, or `mesh.id`, to a kernel's parameter of type `wp.uint64`, for `wp.mesh_query_point`,
    `wp.mesh_query_ray` and the other queries. A mesh is a JAX pytree with arrays as leaves: it may be built inside
    `jax.jit`, also from traced points, and under `jax.vmap` each element of the batch has its own mesh. Distances,
    weights, positions and normals have derivatives with respect to the query's arguments, `points` and `velocities`;
    the choice of the face has none.

    Args:
        points: The vertices, an array of float32 and shape (n, 3). `refit` sees later changes of a NumPy array.
        indices: The indices of three points for each face, an array of int32. A face is never found if an index is out
            of range or a vertex is NaN.
        velocities: The velocity of each point, of the same shape as `points`, for `wp.mesh_eval_velocity`.
        support_winding_number: Build the data for `wp.mesh_query_point_sign_winding_number`.
        bvh_constructor: "sah", "median", "lbvh", "cubql" or None. Accepted for compatibility with Warp; there is one
            way to build a tree.
        groups: The group of each face, an array of int32. A query may ask for one group.
        bvh_leaf_size: The largest number of faces in a leaf of the tree, rounded down to a power of two, at most 16. It
            affects the time of queries. Default: 8.

    Raises:
        KernelTypeError: An array has another dtype or shape, or there is no such constructor.
        LaunchError: The number of indices is not a multiple of three, or another array has the wrong length.
    """

    items: Any

    def __init__(
        self,
        points: Any,
        indices: Any,
        velocities: Any = None,
        support_winding_number: bool = False,
        bvh_constructor: Any = None,
        groups: Any = None,
        bvh_leaf_size: int | None = None,
    ):
        size = LEAF_SIZE if bvh_leaf_size is None else int(bvh_leaf_size)
        check_options("wp.Mesh", bvh_constructor, size)
        self.leaf_size = min(1 << (size.bit_length() - 1), WIDTH)  # so that each sixteen slots have a node
        self.support_winding_number = bool(support_winding_number)
        self._points, self.indices, self._velocities = points, indices, velocities
        places, faces = self._read()
        with here(self.device):
            own = read_groups("wp.Mesh", groups, faces.shape[0] // 3)
            self._keep(places, faces, *tree.ordered(_boxes(places, faces), own, self.leaf_size))

    @property
    def points(self) -> Any:
        """The vertices. Assigning to it refits the tree."""
        return self._points

    @points.setter
    def points(self, points: Any) -> None:
        if np.shape(points) != np.shape(self._points):
            raise LaunchError(f"wp.Mesh: new points {np.shape(points)} for old ones {np.shape(self._points)}")
        as_command(self, lambda: self._move(points))

    def _move(self, points: Any) -> None:
        self._points = points
        self._refit()

    @property
    def velocities(self) -> Any:
        """The velocity of each point, or None."""
        return self._velocities

    @velocities.setter
    def velocities(self, velocities: Any) -> None:
        as_command(self, lambda: self._set_velocities(velocities))

    def _set_velocities(self, velocities: Any) -> None:
        self._velocities = velocities
        self._read()
        self.version += 1

    def refit(self) -> None:
        """Adapt the tree to the current content of `points`, which may have been written to. Faces keep their order."""
        as_command(self, self._refit)

    def _refit(self) -> None:
        given = self._points, self.indices, self._velocities
        next(way for way in _WAYS if way(self, given))

    # The ways to refit, each of which says whether it was one.

    def _refit_again(self, given: Given) -> bool:
        """As before, by one native call, where that is the same work."""
        known = self.repeat
        if not known:
            return False
        total = np.nan
        if is_not_tracing() and listeners.here.capture is None and known.fits(given) and is_alone(self, _WRITTEN):
            with contextlib.suppress(ValueError):  # of an array of NumPy's that is elsewhere by now
                known.graph()
                total = known.sides.sum()
                if total != total:  # there are corners that are no numbers, as there mostly are again
                    object.__setattr__(self, "repeat", False)
                    return False
        if total != total:
            object.__setattr__(self, "repeat", None)
            return False
        self._set_edge(total / np.float32(3 * self.items.shape[0]))
        return True

    def _refit_there(self, given: Given) -> bool:
        """On a GPU, where all is there as its kernels take it."""
        if not all(map(is_on_gpu, given[:2])) or not is_not_tracing():
            return False
        points, indices, _ = given
        are_rows = points.ndim == indices.ndim == 1 and indices.is_contiguous
        is_read = points.dtype is VEC3 and indices.dtype is int32 and points.device is self.device
        is_whole = are_rows and is_read and not self.support_winding_number and self.items.shape[0] > 0
        if not is_whole or cached_content(self) is None:
            return False
        made = struct_of(self)
        self.edge = on_gpu.refit_faces(made)
        of_tree, wide = made.bvh, made.wide
        self.nodes, self.bounds, self.items = of_tree.nodes, of_tree.bounds, of_tree.items
        self.corners, self.boxes, self.faces, self.levels = made.corners, wide.boxes, wide.faces, wide.levels
        self.version += 1
        return True

    def _refit_own(self, given: Given) -> bool:
        """In the arrays of the tree, where nobody else has them; the next ones may be repeated."""
        points, indices = self._read()
        # Its own attributes are here, too.
        if self.device is not None or not self._is_here(points, indices) or not is_alone(self, _WRITTEN):
            return False
        of_tree = tree.Tree(self.nodes, self.bounds, self.items, self.groups)
        made = Refitted(of_tree, self.corners, self.edge, (self.boxes, self.faces, self.levels), self.winding)
        edge = refit_faces(np.asarray(points), np.asarray(indices), made, self.leaf_size)
        self._set_edge(edge)
        if self.version > SOME_REFITS and self.repeat is None:
            made = made._replace(edge=edge)
            known = repeat_faces(np.asarray(points), np.asarray(indices), made, self.leaf_size, given)
            object.__setattr__(self, "repeat", known)
        return True

    def _refit_anew(self, given: Given) -> bool:
        """In other arrays."""
        points, indices = self._read()
        with here(self.device):
            self._keep(points, indices, brought(self.items), brought(self.groups))
        return True

    def _set_edge(self, edge: Any) -> None:
        object.__setattr__(self, "edge", edge)
        stay(self, ["edge"])

    def _is_here(self, *given: Any) -> bool:
        """True if everything is to be computed in host memory."""
        return is_not_tracing() and not self.support_winding_number and all(map(is_here, given))

    def _read(self) -> tuple[Any, Any]:
        """The points and the indices."""
        given = {"points": self._points, "indices": self.indices, "velocities": self._velocities}
        device = common_gpu("wp.Mesh", **given)
        if device is not self.device:
            self.device = device
        points = checked_array("wp.Mesh", "points", self._points, np.float32, (3,))
        if self._velocities is not None:
            found = checked_array("wp.Mesh", "velocities", self._velocities, np.float32, (3,))
            if found.shape != points.shape:
                raise LaunchError(f"wp.Mesh: {found.shape[0]} velocities for {points.shape[0]} points")
        indices = checked_array("wp.Mesh", "indices", self.indices, np.int32)
        if indices.shape[0] % 3:
            raise LaunchError(f"wp.Mesh: {indices.shape[0]} indices are no faces of three")
        return points, indices

    def _keep(self, points: Any, indices: Any, items: Any, groups: Any) -> None:
        if self._is_here(points, indices, items):
            made: Any = refitted_here(np.asarray(points), np.asarray(indices), items, groups, self.leaf_size)
        else:
            made = _made(points, indices, items, groups, self.leaf_size, self.support_winding_number)
            made = settled(made, self._points, self.indices)
        of_tree, self.corners, self.edge, (self.boxes, self.faces, self.levels), self.winding = made
        self.nodes, self.bounds, self.items, self.groups = of_tree
        note_trace(self)
        self.version += 1

    @property
    def arrays(self) -> Any:  # type: ignore[override]
        """The arguments for a kernel."""
        refuse_ended(self, _LEAVES)
        as_jax(self, _LEAVES)
        indices = content_of(self.indices)
        return self._given(indices if indices.ndim == 1 else indices.reshape(-1))

    @property
    def in_place(self) -> Any:
        indices = self.indices
        if type(indices) is array and indices.layout.full_shape == (indices.size,) and indices.layout.dtype == np.int32:
            return self._given(indices)
        return self.arrays

    def _given(self, indices: Any) -> Any:
        kind, of_tree = MeshArrays, BvhArrays  # type: Any, Any
        bvh = of_tree(self.nodes, self.bounds, self.items, self.groups, self.leaf_size)
        velocities = np.zeros((0, 3), np.float32) if self._velocities is None else self._velocities
        of_wide: Any = WideArrays
        wide = of_wide(self.boxes, self.faces, self.levels)
        return kind(self._points, velocities, indices, self.corners, self.edge, wide, self.winding, bvh)

    def __repr__(self) -> str:
        return f"wp.Mesh({self.items.shape[0]} faces of {np.shape(self._points)[0]} points)"


_LEAVES = (
    *("_points", "indices", "_velocities", "nodes", "bounds", "items", "groups", "corners", "edge"),
    *("boxes", "faces", "levels", "winding"),
)
# In order: what comes first costs least.
_WAYS = (Mesh._refit_again, Mesh._refit_there, Mesh._refit_own, Mesh._refit_anew)
_WRITTEN = ("nodes", "bounds", "corners", "boxes", "faces")  # by each refit
register(Mesh, _LEAVES, ("leaf_size", "support_winding_number"))


@jax.jit
def _boxes(points: jax.Array, indices: jax.Array) -> jax.Array:
    """The box of each face."""
    return _around(_corners(points, indices))


@functools.partial(jax.jit, static_argnums=(4, 5))
def _made(points: Any, indices: Any, items: Any, groups: Any, size: int, has_winding: bool) -> tuple[Any, ...]:
    """The tree of faces in an order, their corners by slots, the mean side, sixteens of them, and winding numbers."""
    corners = _corners(points, indices)
    made = tree.refitted(_around(corners), items, groups, size)
    slots = jnp.full((made.bounds.shape[0], 9), np.nan, np.float32).at[: items.shape[0]].set(corners[items])
    winding = _winding(slots, size) if has_winding else jnp.zeros((0, 8), np.float32)
    return made, slots, _mean_side(corners), tree.widened(made.nodes, slots), winding


def _corners(points: jax.Array, indices: jax.Array) -> jax.Array:
    """The corners of each face, an array (n, 9)."""
    points = jax.lax.stop_gradient(points)
    known = (indices >= 0) & (indices < points.shape[0])
    if not points.shape[0]:
        return jnp.full((indices.shape[0] // 3, 9), np.nan, np.float32)
    found = jnp.where(known[:, None], points[jnp.where(known, indices, 0)], np.nan)
    return found.reshape(-1, 9)


def _around(corners: jax.Array) -> jax.Array:
    parts = corners.reshape(-1, 3, 3)
    is_none = jnp.isnan(parts).any(1)  # XLA's reductions on processors do not keep what is no number, of 1,000 faces
    return jnp.concatenate([jnp.where(is_none, np.nan, found) for found in (parts.min(1), parts.max(1))], -1)


def _mean_side(corners: jax.Array) -> jax.Array:
    parts = corners.reshape(-1, 3, 3)
    sides = jnp.linalg.norm(parts - jnp.roll(parts, 1, axis=1), axis=-1).sum(-1)
    known = ~jnp.isnan(sides)
    return jnp.where(known, sides, 0.0).sum() / jnp.maximum(3 * known.sum(), 1).astype(np.float32)


def _winding(corners: jax.Array, size: int) -> jax.Array:
    """For each node of a tree: the middle of its area, its area times its normal, and how far its corners are away."""
    p, q, r = (corners[:, k : k + 3] for k in (0, 3, 6))
    normals = 0.5 * jnp.cross(q - p, r - p)
    known = ~jnp.isnan(normals).any(-1, keepdims=True)
    normals = jnp.where(known, normals, 0.0)
    areas = jnp.linalg.norm(normals, axis=-1, keepdims=True)
    moments = areas * jnp.where(known, (p + q + r) / 3.0, 0.0)
    low = jnp.where(known, jnp.minimum(p, jnp.minimum(q, r)), np.inf)
    high = jnp.where(known, jnp.maximum(p, jnp.maximum(q, r)), -np.inf)
    level = [x.reshape(-1, size, x.shape[-1]) for x in (normals, areas, moments, low, high)]
    found = []
    while True:
        normals, areas, moments = (x.sum(1) for x in level[:3])
        low, high = level[3].min(1), level[4].max(1)
        middle = jnp.where(areas > 0.0, moments / jnp.where(areas > 0.0, areas, 1.0), 0.5 * (low + high))
        reach = jnp.maximum(high - middle, middle - low)
        radius = jnp.linalg.norm(reach, axis=-1, keepdims=True)
        radius = jnp.where((low <= high).all(-1, keepdims=True), radius, -1.0)
        middle = jnp.where(radius < 0.0, 0.0, middle)
        found.append(jnp.concatenate([middle, normals, radius, jnp.zeros_like(radius)], -1))
        if normals.shape[0] == 1:
            break
        level = [x.reshape(-1, 2, x.shape[-1]) for x in (normals, areas, moments, low, high)]
    return jnp.concatenate([jnp.zeros((1, 8), np.float32), *reversed(found)])
