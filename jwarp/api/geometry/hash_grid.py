"""`wp.HashGrid`: which points are near to a place."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.api.geometry.arrays import (
    as_command,
    checked_array,
    common_gpu,
    is_here,
    known_number,
    note_trace,
    order_of,
    read_groups,
    refuse_ended,
    settled,
)
from jwarp.api.geometry.grid_builds import cells_of, planned_build, starts_here
from jwarp.api.geometry.on_gpu import sorted_into_cells
from jwarp.api.geometry.pytrees import as_jax, register
from jwarp.api.geometry.sole_owner import is_alone, stay
from jwarp.api.launch import launch
from jwarp.arrays.rematerialised import can_be_made, is_kept
from jwarp.bind.compat import is_not_tracing
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.lib.geometry.builders import CELLS, sorted_by_cells, starts_moved, starts_of_cells
from jwarp.lib.geometry.hash_grid import KINDS
from jwarp.types import Geometry, as_type, float16, float32, float64


class HashGrid(Geometry):
    """A grid of `dim_x` by `dim_y` by `dim_z` cells, which finds the points near a position.

    `build` sorts points into cells. Pass the grid, or `grid.id`, to a kernel's parameter of type `wp.uint64`; there,
    `wp.hash_grid_query` finds neighbours. Space is unbounded: it is divided into cubes with edges of length `radius`,
    which share the cells by wrapping around along each axis.

    A grid is a JAX pytree with arrays as leaves: `build` may run inside `jax.jit`, and under `jax.vmap` each element of
    the batch has its own grid. Derivatives go through the points that a kernel reads; the choice of neighbours has
    none.

    Args:
        dim_x, dim_y, dim_z: The number of cells along each axis.
        device: Accepted for compatibility with Warp; arrays are on JAX's device.
        dtype: The type of the coordinates: `wp.float16`, `wp.float32` (the default) or `wp.float64`.

    Raises:
        KernelTypeError: A number of cells is not an integer, or `dtype` is another type.
        LaunchError: A number of cells is not positive, or there are 2^31 cells or more.
    """

    def __init__(self, dim_x: int, dim_y: int, dim_z: int, device: Any = None, dtype: Any = None):
        try:
            self.dims = (operator.index(dim_x), operator.index(dim_y), operator.index(dim_z))
        except TypeError:
            raise KernelTypeError(f"wp.HashGrid: dimensions must be integers, got {(dim_x, dim_y, dim_z)}") from None
        if min(self.dims) <= 0 or math.prod(self.dims) >= 2**31 - 1:
            raise LaunchError(
                f"wp.HashGrid: dimensions must be positive, or the cell count exceeds supported limit, got {self.dims}",
            )
        kind = float32 if dtype is None else as_type(dtype)
        if kind not in CELLS:
            raise KernelTypeError(f"wp.HashGrid: dtype must be wp.float16, wp.float32 or wp.float64, got {dtype!r}")
        self.scalar = kind.name
        nothing = np.zeros(0, np.int32)
        self.point_ids: Any = nothing
        self.cell_starts: Any = nothing
        self.groups: Any = nothing
        self.scale: Any = np.zeros((), kind.dtype)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _STATIC and name in self.__dict__:
            raise LaunchError(f"wp.HashGrid: {name} cannot be changed", hint="make another grid", also=AttributeError)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name in _STATIC:
            raise LaunchError(f"wp.HashGrid: {name} cannot be deleted", hint="make another grid", also=AttributeError)
        super().__delattr__(name)

    @property
    def dtype(self) -> Any:
        """The type of the coordinates."""
        return _SCALARS[self.scalar]

    @property
    def arrays(self) -> Any:  # type: ignore[override]
        """The arguments for a kernel."""
        refuse_ended(self, _LEAVES)
        as_jax(self, _LEAVES)
        return self.in_place

    @property
    def in_place(self) -> Any:
        kind: Any = KINDS[self.dtype]
        return kind(self.point_ids, self.cell_starts, self.groups, np.asarray(self.dims, np.int32), self.scale)

    def build(self, points: Any, radius: Any, groups: Any = None) -> None:
        """Sort points into the grid, in place of earlier ones.

        Args:
            points: An array of `dtype` and shape (n, 3); further axes in front are flattened. A coordinate that is NaN
                counts as 0, and one that is too large as that of the last cube.
            radius: The edge of a cube, ideally about the distance of the queries. It may be traced.
            groups: The group of each point, an array of int32 and shape (n,). A query may ask for one group.

        Raises:
            KernelTypeError: An array has another dtype or shape.
            LaunchError: The radius is not positive, or the number of groups differs from the number of points.
        """
        if isinstance(radius, np.ndarray):
            radius = radius[()].copy()  # a capture repeats the build with the number that it is now
        planned = functools.partial(planned_build, self, points, radius) if groups is None else None
        as_command(self, lambda: self._build(points, radius, groups), planned)

    def _build(self, points: Any, radius: Any, groups: Any) -> None:
        dtype = self.dtype.dtype
        device = common_gpu("wp.HashGrid.build", points=points, groups=groups)
        if device is not None and groups is None and self._build_there(points, radius):
            self.late, self.device = None, device
            self.version += 1
            return
        found = checked_array("wp.HashGrid.build", "points", points, dtype, (3,))
        known = known_number(radius)
        if known is not None and not 0.0 < known < math.inf:
            raise LaunchError(f"wp.HashGrid.build: the radius must be positive and finite, got {known}")
        own = _NOTHING if groups is None else read_groups("wp.HashGrid.build", groups, found.shape[0])
        if known is not None and is_not_tracing() and is_here(found) and is_here(own):
            scale = dtype.type(1) / dtype.type(known)
            if self._build_own(np.asarray(found), scale, np.asarray(own)):
                return
            self.scale = scale
            made = _built_here(np.asarray(found), self.scale, np.asarray(own), self.dims)
        else:
            self.scale = jnp.ones((), dtype) / jnp.asarray(radius, dtype)
            made = settled(_built(jnp.asarray(found), self.scale, jnp.asarray(own), self.dims), points, groups)
        self.point_ids, self.cell_starts, self.groups = made
        self.late, self.device = None, device
        note_trace(self)
        self.version += 1

    def _build_own(self, points: np.ndarray, scale: Any, groups: np.ndarray) -> bool:
        """Sort points into the arrays that the grid has, if there are as many and nobody else has these."""
        if self.late is not None or self.device is not None or is_kept(self.cell_starts):
            return False
        is_like = 0 < len(points) == len(self.point_ids) and not len(groups) + len(self.groups)
        if not is_like or not is_alone(self, _LEAVES[:2]):
            return False
        total = math.prod(self.dims)
        cells = _cells_here(points, scale, self.dims)
        written = self.point_ids, self.cell_starts
        for part in written:
            part.flags.writeable = True
        if total >= _SPARSE * len(points):
            self.point_ids[...] = np.argsort(cells, kind="stable")
            cells = cells[self.point_ids]
            launch(starts_moved, 1, [cells], [cells_of(self.cell_starts, len(cells)), self.cell_starts])
            can_be_made(self.cell_starts, functools.partial(starts_here, cells, total))
        else:
            self.cell_starts[...] = 0
            launch(sorted_by_cells, 1, [cells], [self.cell_starts, self.point_ids])
        for part in written:
            part.flags.writeable = False
        object.__setattr__(self, "scale", scale)
        stay(self, ["scale"])
        return True

    def _build_there(self, points: Any, radius: Any) -> bool:
        """Sort points on a GPU into the grid there, if they are as its kernels take them: whether they were."""
        known, dtype = known_number(radius), self.dtype.dtype
        is_row = points.size > 0 and points.ndim == 1 and points.is_contiguous
        if not is_row or points.layout.full_shape[1:] != (3,) or points.layout.dtype != dtype:
            return False
        if known is None or not 0.0 < known < math.inf:
            return False
        self.scale, self.groups = dtype.type(1) / dtype.type(known), _NOTHING
        self.point_ids, self.cell_starts = sorted_into_cells(points, self.scale, self.dims)
        return True

    def reserve(self, num_points: int, with_groups: bool = False) -> None:
        """Has no effect; accepted for compatibility with Warp."""

    def __repr__(self) -> str:
        return f"wp.HashGrid{self.dims}"


_LEAVES = ("point_ids", "cell_starts", "groups", "scale")
_STATIC = ("dims", "scalar")
register(HashGrid, _LEAVES, _STATIC)
_NOTHING = np.zeros(0, np.int32)
_NOTHING.flags.writeable = False


_SCALARS = {kind.name: kind for kind in (float16, float32, float64)}


@functools.partial(jax.jit, static_argnums=3)
def _built(points: Any, scale: Any, groups: Any, dims: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The points in order of their cells, where each cell starts, and the groups in that order."""
    count = points.shape[0]
    given = _SCALARS[points.dtype.name]
    (cells,) = launch(CELLS[given], count, [jax.lax.stop_gradient(points), scale, *dims], [count])
    total = math.prod(dims)
    if groups.shape[0]:
        numbers = jnp.arange(count, dtype=np.int32)
        cells, groups, order = jax.lax.sort((cells, groups, numbers), num_keys=2, is_stable=True)
        return order, _starts(cells, total), groups
    order, starts = jax.lax.platform_dependent(
        cells,
        cpu=lambda cells: tuple(reversed(launch(sorted_by_cells, 1, [cells], [total + 1, count]))),
        default=lambda cells: _sorted_by_xla(cells, total),
    )
    return order, starts, groups


def _sorted_by_xla(cells: Any, total: int) -> tuple[Any, Any]:
    """The points in order of their cells, and where each of so many cells starts; on a GPU XLA's sort is CUB's."""
    cells, order = jax.lax.sort((cells, jnp.arange(cells.shape[0], dtype=np.int32)), num_keys=1, is_stable=True)
    return order, _searched(cells, total)


def _searched(cells: Any, total: int) -> Any:
    """Where each of so many cells starts, by the cells of points in their order: one launch; a sum takes eight."""
    return launch(starts_of_cells, total + 1, [cells], [total + 1])[0]


def _starts(cells: Any, total: int) -> Any:
    """Where each of so many cells starts, by the cells of points in their order."""
    return jax.lax.platform_dependent(
        cells,
        cpu=lambda cells: jnp.cumsum(jnp.zeros(total + 1, np.int32).at[cells + 1].add(1), dtype=np.int32),
        default=lambda cells: _searched(cells, total),
    )


def _built_here(points: np.ndarray, scale: Any, groups: np.ndarray, dims: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """As `_built`, of arrays in host memory. What comes back is read-only."""
    count, total = len(points), math.prod(dims)
    cells = _cells_here(points, scale, dims)
    order: np.ndarray
    if total >= _SPARSE * count:
        order = order_of(cells, groups) if len(groups) else np.argsort(cells, kind="stable").astype(np.int32)
        make = functools.partial(starts_here, cells[order], total)
        starts = make()
        can_be_made(starts, make)
    else:
        starts, order = np.zeros(total + 1, np.int32), np.empty(count, np.int32)
        launch(sorted_by_cells, 1, [cells], [starts, order])
        if len(groups):
            order = order_of(cells, groups)
    made = order, starts, groups[order] if len(groups) else _NOTHING
    for part in made:
        part.flags.writeable = False
    return made


def _cells_here(points: np.ndarray, scale: Any, dims: tuple[int, ...]) -> np.ndarray:
    cells = np.zeros(len(points), np.int32)
    launch(CELLS[_SCALARS[points.dtype.name]], len(points), [points, scale.item(), *dims], [cells])
    return cells


# A grid of so many cells to a point has a row of cells that is best written as runs of one number.
_SPARSE = 8
