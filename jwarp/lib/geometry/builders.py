"""Kernels that grids, trees and meshes are built with."""

from __future__ import annotations

from jwarp.arrays.array import array
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.kernel import kernel
from jwarp.lib.geometry.hash_grid import cell_of
from jwarp.types import NAMED, float16, float32, float64, int32

vec3, vec3h, vec3d, vec3i = NAMED["vec3"], NAMED["vec3h"], NAMED["vec3d"], NAMED["vec3i"]


@kernel
def cells_of_points(points: array[vec3], scale: float32, dims: vec3i, cells: array[int32]):
    """The cell of each point."""
    i = tid()
    cells[i] = cell_of(points[i], scale, dims)


@kernel
def cells_of_points_h(points: array[vec3h], scale: float16, dims: vec3i, cells: array[int32]):
    """The cell of each point in half precision."""
    i = tid()
    cells[i] = cell_of(points[i], scale, dims)


@kernel
def cells_of_points_d(points: array[vec3d], scale: float64, dims: vec3i, cells: array[int32]):
    """The cell of each point in double precision."""
    i = tid()
    cells[i] = cell_of(points[i], scale, dims)


CELLS = {float16: cells_of_points_h, float32: cells_of_points, float64: cells_of_points_d}
