"""Kernels that query grids, meshes and volumes, for jwarp's compiler and for Warp's own."""

# Annotations here are evaluated where they stand, as they name types of the module that is passed in.
# ruff: noqa: UP018, RUF046

from functools import partial
from types import SimpleNamespace
from typing import Any


def define(wp: Any, **options: Any) -> SimpleNamespace:
    """The kernels as `wp` compiles them; `wp` is the module jwarp or warp, the options are those of its decorator."""
    kernel = partial(wp.kernel, **{"enable_backward": False, **options})

    @kernel
    def density(grid: wp.uint64, x: wp.array(dtype=wp.vec3), reach: float, out: wp.array(dtype=float)):
        i = wp.hash_grid_point_id(grid, wp.tid())
        p = x[i]
        query = wp.hash_grid_query(grid, p, reach)
        total = float(0.0)
        j = int(0)
        while wp.hash_grid_query_next(query, j):
            rest = reach * reach - wp.length_sq(x[j] - p)
            if rest > 0.0:
                total += rest * rest * rest
        out[i] = total

    @kernel
    def closest(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        q = wp.mesh_query_point_no_sign(mesh, x[i], 1.0e6)
        out[i] = wp.length(wp.mesh_eval_position(mesh, q.face, q.u, q.v) - x[i])

    @kernel
    def cast(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), way: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        q = wp.mesh_query_ray(mesh, x[i], way[i], 1.0e6)
        out[i] = q.t

    @kernel
    def sample(volume: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = wp.volume_sample_f(volume, x[i], wp.Volume.LINEAR)

    @kernel
    def sample_grad(volume: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        slopes = wp.vec3()
        out[i] = wp.volume_sample_grad_f(volume, x[i], wp.Volume.LINEAR, slopes) + wp.length(slopes)

    return SimpleNamespace(density=density, closest=closest, cast=cast, sample=sample, sample_grad=sample_grad)
