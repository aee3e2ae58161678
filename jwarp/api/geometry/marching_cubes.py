"""`wp.MarchingCubes`: the surface on which a field on a grid has some value, as triangles."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.api.array_functions import give, replace, taken
from jwarp.api.geometry.arrays import content_of
from jwarp.api.geometry.cubes import CORNERS, EDGES, cases
from jwarp.arrays.array import array
from jwarp.arrays.commands import listeners, submit
from jwarp.arrays.create import empty
from jwarp.arrays.writes import Computation
from jwarp.caches import cached
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import NAMED, int32


class _Table:
    """An attribute of a class that is made when it is asked for."""

    def __init__(self, make: Callable[[], tuple[int, ...]]):
        self.make = make

    def __get__(self, instance: Any, owner: type) -> tuple[int, ...]:
        return self.make()


class MarchingCubes:
    """Surfaces of fields on a grid, by marching cubes (Lorensen and Cline, 1987).

    `extract` returns the surface of one field. As in Warp, an object keeps the size of the grid and the last surface,
    `verts` and `indices`. Vertices lie on the edges of cells, between a node below the threshold and a node that is
    not, in the order of the edges' nodes. Their positions have derivatives of all orders with respect to the field and
    the threshold; the set of triangles has none. A tape records surfaces of arrays with a gradient; their vertices have
    a gradient, too. Normals point to where the field is greater.

    Args:
        nx, ny, nz: The number of the grid's nodes along each axis.
        lower, upper: The positions of the first and the last node. Default: their indices.
        domain_bounds_lower_corner, domain_bounds_upper_corner: Older names of these.
    """

    CUBE_CORNER_OFFSETS = CORNERS
    EDGE_TO_CORNERS = EDGES
    CASE_TO_TRI_RANGE = _Table(lambda: tuple(itertools.accumulate((3 * len(found) for found in cases()), initial=0)))
    TRI_LOCAL_INDICES = _Table(lambda: tuple(edge for found in cases() for triangle in found for edge in triangle))

    def __init__(
        self,
        nx: int,
        ny: int,
        nz: int,
        lower: Any = None,
        upper: Any = None,
        *,
        domain_bounds_lower_corner: Any = None,
        domain_bounds_upper_corner: Any = None,
    ):
        self.resize(nx, ny, nz)
        self.lower = domain_bounds_lower_corner if lower is None else lower
        self.upper = domain_bounds_upper_corner if upper is None else upper
        self.verts: Any = None
        self.indices: Any = None

    def resize(self, nx: int, ny: int, nz: int) -> None:
        """Change the numbers of nodes of the grid."""
        self.nx, self.ny, self.nz = nx, ny, nz

    def surface(self, field: Any, threshold: Any) -> None:
        """Set `verts` and `indices` to the surface of a field, as `extract` returns them.

        Raises:
            KernelTypeError: The field is not a float32 array with three axes.
            LaunchError: The field has another size than the object.
        """
        if np.shape(field) != (self.nx, self.ny, self.nz):
            raise LaunchError(
                f"wp.MarchingCubes.surface: a field {list(np.shape(field))} on {[self.nx, self.ny, self.nz]} nodes"
            )
        self.verts, self.indices = self.extract(field, threshold, lower=self.lower, upper=self.upper)

    @classmethod
    def extract(
        cls,
        field: Any,
        threshold: Any = 0.0,
        *,
        lower: Any = None,
        upper: Any = None,
        max_verts: int | None = None,
        max_tris: int | None = None,
    ) -> tuple[Any, ...]:
        """The vertices, an array of shape (n, 3), and the indices of three vertices for each triangle, a flat array.

        The results are of the same kind as the field: JAX arrays, or `wp.array`s of `wp.vec3` and `wp.int32`. While JAX
        traces, sizes must be known: `max_verts` and `max_tris` set them, and the actual numbers of vertices and
        triangles are a third and a fourth result. These may exceed the sizes. Unused elements are zeros, which are
        triangles without an area.

        Args:
            field: An array of float32 with three axes, each with at least two nodes.
            threshold: The value of the field on the surface. It may be traced.
            lower, upper: The positions of the first and the last node. Default: their indices.
            max_verts, max_tris: The sizes of the results; None if the field is not traced.

        Raises:
            KernelTypeError: The field is not such an array.
            LaunchError: The field is traced and the sizes are missing, only one size is given, or a capture is open.
        """
        if isinstance(field, array) and listeners.here.capture is not None:
            raise LaunchError(
                "wp.MarchingCubes: a capture is open, and how many triangles there will be is not known",
                hint="end the capture before, and begin another one after it",
            )
        values = _read(field)
        least = jnp.zeros(3, np.float32) if lower is None else jnp.asarray(np.asarray(lower), np.float32)
        most = jnp.asarray(np.subtract(values.shape, 1) if upper is None else np.asarray(upper), np.float32)
        given = values, jnp.asarray(threshold, np.float32), least, most
        if (max_verts is None) != (max_tris is None):
            raise LaunchError("wp.MarchingCubes.extract: max_verts and max_tris go together")
        is_traced = any(isinstance(x, jax.core.Tracer) for x in given)
        if max_verts is not None and max_tris is not None:
            made = _extracted(*given, int(max_verts), int(max_tris))
            return (
                made if is_traced or not isinstance(field, array) else (*_as_arrays(field, given, *made[:2]), *made[2:])
            )
        if is_traced:
            raise LaunchError(
                "wp.MarchingCubes.extract: the field is traced, and how many triangles there are is not known",
                hint="say how many there may be: max_verts=…, max_tris=…; how many there are are further results",
            )
        counts = tuple(int(n) for n in _counted(*given[:2]))
        room = [max(1, 1 << (n - 1).bit_length()) for n in counts]  # so that few programs serve all surfaces
        verts, indices, *_ = _extracted(*given, *room)
        verts, indices = verts[: counts[0]], indices[: 3 * counts[1]]
        return _as_arrays(field, given, verts, indices) if isinstance(field, array) else (verts, indices)

    @staticmethod
    def extract_surface_marching_cubes(
        field: Any, threshold: Any = 0.0, domain_bounds_lower_corner: Any = None, domain_bounds_upper_corner: Any = None
    ) -> tuple[Any, ...]:
        """`extract` by its older name."""
        return MarchingCubes.extract(
            field, threshold, lower=domain_bounds_lower_corner, upper=domain_bounds_upper_corner
        )


def _as_arrays(field: array, given: tuple[Any, ...], verts: Any, indices: Any) -> tuple[array, array]:
    """The surface as mutable arrays; a tape that is open goes back from the vertices to the field."""
    made = empty(len(verts), dtype=NAMED["vec3"], requires_grad=field.requires_grad)

    def back(contents: Sequence[Any]) -> None:
        gradient = taken(made)
        if gradient is None or not len(verts):
            return
        values = jnp.asarray(np.array(contents[0]))  # of what was kept, which others may use again
        room = 1 << (len(verts) - 1).bit_length()
        of_verts = jnp.zeros((room, 3), np.float32).at[: len(verts)].set(gradient)
        (slope,) = jax.vjp(lambda f: _extracted(f, *given[1:], room, 1)[0], values)[1](of_verts)
        give(field, np.asarray(slope))

    submit(Computation("wp.MarchingCubes", lambda: replace(made, np.asarray(verts)), [made], back, [field]))
    return made, array(indices, dtype=int32)


def _read(field: Any) -> Any:
    value = content_of(field)
    if not isinstance(value, (jax.Array, np.ndarray)):
        raise KernelTypeError(f"wp.MarchingCubes: the field must be an array, got {type(field).__name__}")
    if value.dtype != np.float32 or value.ndim != 3 or min(value.shape) < 2:
        raise KernelTypeError(
            "wp.MarchingCubes: the field must be of float32, with three axes of two nodes or more, got "
            f"{value.dtype}{list(value.shape)}"
        )
    return jnp.asarray(value)


@cached("one")
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """How many triangles each case has, and the edges that their corners are on."""
    known = cases()
    sizes = np.array([len(found) for found in known], np.int32)
    edges = np.zeros((256, sizes.max(), 3), np.int32)
    for case, found in enumerate(known):
        edges[case, : len(found)] = np.array(found, np.int32).reshape(-1, 3)
    return sizes, edges


# Of each edge: its first node, and the axis that it goes along.
_FIRST = np.array([CORNERS[a] for a, _ in EDGES], np.int32)
_AXES = np.array([int(np.argmax(np.subtract(CORNERS[b], CORNERS[a]))) for a, b in EDGES], np.int32)


def _crossed(field: Any, threshold: Any) -> Any:
    """The truth values that the surface lies between each node and its neighbour, for each axis."""
    above = field >= threshold
    found = []
    for axis in range(3):
        after = jnp.concatenate([jax.lax.slice_in_dim(above, 1, None, axis=axis)] + [
            jax.lax.slice_in_dim(above, -1, None, axis=axis)
        ], axis)  # fmt: skip
        found.append(above != after)
    return jnp.stack(found, -1)


def _cases(field: Any, threshold: Any) -> Any:
    """The case of each cell."""
    above = (field >= threshold).astype(np.int32)
    cells = [n - 1 for n in field.shape]
    parts = (jax.lax.dynamic_slice(above, corner, cells) << k for k, corner in enumerate(CORNERS))
    return functools.reduce(jnp.add, parts).reshape(-1)


@jax.jit
def _counted(field: Any, threshold: Any) -> tuple[Any, Any]:
    """How many vertices and triangles there are."""
    return _crossed(field, threshold).sum(), jnp.asarray(_tables()[0])[_cases(field, threshold)].sum()


@functools.partial(jax.jit, static_argnums=(4, 5))
def _extracted(
    field: Any, threshold: Any, lower: Any, upper: Any, max_verts: int, max_tris: int
) -> tuple[Any, Any, Any, Any]:
    shape = field.shape
    crossed = _crossed(jax.lax.stop_gradient(field), jax.lax.stop_gradient(threshold))
    number = jnp.cumsum(crossed.reshape(-1), dtype=np.int32).reshape(crossed.shape) - 1
    (edges,) = jnp.nonzero(crossed.reshape(-1), size=max_verts, fill_value=0)
    node = jnp.stack(jnp.unravel_index(edges // 3, shape), -1)
    way = jnp.eye(3, dtype=node.dtype)[edges % 3]
    here, there = (field[tuple(jnp.moveaxis(x, -1, 0))] for x in (node, node + way))
    apart = jnp.where(there == here, 1.0, there - here)
    share = jnp.clip((threshold - here) / apart, 0.0, 1.0)
    spacing = (upper - lower) / (np.asarray(shape, np.float32) - 1.0)
    verts = lower + spacing * (node.astype(np.float32) + share[:, None] * way.astype(np.float32))
    vertex_count = crossed.sum()
    verts = jnp.where((jnp.arange(max_verts) < vertex_count)[:, None], verts, 0.0)

    case_of, edges_of = _cases(jax.lax.stop_gradient(field), jax.lax.stop_gradient(threshold)), _tables()[1]
    sizes = jnp.asarray(_tables()[0])[case_of]
    ends = jnp.cumsum(sizes, dtype=np.int32)
    numbers = jnp.arange(max_tris, dtype=np.int32)
    cell = jnp.minimum(jnp.searchsorted(ends, numbers, side="right"), case_of.shape[0] - 1)
    local = numbers - (ends - sizes)[cell]
    own = jnp.asarray(edges_of)[case_of[cell], jnp.clip(local, 0, edges_of.shape[1] - 1)]
    first = jnp.stack(jnp.unravel_index(cell, [n - 1 for n in shape]), -1)[:, None] + jnp.asarray(_FIRST)[own]
    found = number[first[..., 0], first[..., 1], first[..., 2], jnp.asarray(_AXES)[own]]
    # A vertex for which there was no room stands for the first one.
    indices = jnp.where((numbers < ends[-1])[:, None] & (found < max_verts).all(-1, keepdims=True), found, 0)
    return verts, indices.reshape(-1), vertex_count, ends[-1]
