"""Rays and meshes on the PTX machine, where each thread goes its own way, against the search for processors."""

import functools

import numpy as np
import pytest
from ptx_running import PtxKernel

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.lib.geometry.mesh import MeshArrays

pytestmark = pytest.mark.usefixtures("compiler")


@wp.kernel
def rays(
    mesh: MeshArrays, start: wp.array[wp.vec3], way: wp.array[wp.vec3], far: wp.array[float],
    face: wp.array[int], t: wp.array[float], count: wp.array[int],
):  # fmt: skip
    i = wp.tid()
    query = wp.mesh_query_ray(mesh, start[i], way[i], far[i])
    face[i] = wp.where(query.result, query.face, -1)
    t[i] = query.t
    count[i] = wp.mesh_query_ray_count_intersections(mesh, start[i], way[i])


def ball(n):
    """Corners and faces of a closed surface of n x n cells, whose corners are multiples of 1 / 64."""
    u, v = np.meshgrid(np.arange(n) * (2 * np.pi / n), np.linspace(0.1, np.pi - 0.1, n), indexing="ij")
    corners = np.stack([np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)], -1).reshape(-1, 3)
    a, b = (x.ravel() for x in np.meshgrid(np.arange(n), np.arange(n - 1), indexing="ij"))
    p, q, r, s = a * n + b, (a + 1) % n * n + b, (a + 1) % n * n + b + 1, a * n + b + 1
    return np.round(corners * 64) / 64, np.stack([p, q, r, p, r, s], -1).ravel()


@functools.cache
def made():
    return PtxKernel(rays.ir(), "flat fast", block=32)


def leaves(mesh, params):
    """The arguments of a kernel for a mesh, parameter by parameter."""
    for p in params[: len(params) - 6]:
        yield np.asarray(functools.reduce(getattr, p.name.split(".")[1:], mesh.in_place), p.dtype.dtype)


@pytest.mark.parametrize("size", [1, 8])
def test_rays_meet_what_they_meet_on_processors(size):
    kernel, rng = made(), np.random.default_rng(size)
    corners, faces = ball(9)
    faces[:3] = len(corners)  # of one, the numbers are outside
    mesh = wp.Mesh(corners.astype(np.float32), faces.astype(np.int32), bvh_leaf_size=size)
    start = rng.normal(size=(96, 3)) * 2
    way = corners[rng.integers(0, len(corners), 96)] - start  # through corners, which faces share
    way[:32] = 0.3 * rng.normal(size=(32, 3)) - start[:32]
    start[32:64] = np.round(rng.uniform(-0.8, 0.8, (32, 3)) * 4) / 4
    way[32:64] = np.eye(3)[rng.integers(0, 3, 32)] * rng.choice([-1, 1], (32, 1))  # along axes, and sides of boxes
    start[0], way[1], way[2] = np.nan, 0.0, np.nan
    far = np.where(np.arange(96) % 5, 1e6, 0.5)
    args = [*leaves(mesh, kernel.kernel.params), *(x.astype(np.float32) for x in (start, way, far))]
    args += [np.zeros(96, np.int32), np.zeros(96, np.float32), np.zeros(96, np.int32)]
    found, right = (x[-3:] for x in (kernel.run((96,), args), run(kernel.kernel, (96,), args)))
    # Where several faces are met at one place, it is one of them.
    np.testing.assert_array_equal(found[1], right[1])
    np.testing.assert_array_equal(found[2], right[2])
    np.testing.assert_array_equal(found[0] < 0, right[0] < 0)
    np.testing.assert_array_equal(found[0][:32], right[0][:32])
    assert np.isfinite(found[1]).all() and (right[0] >= 0).sum() > 40 and (right[0] < 0).sum() > 10
