"""Grids, trees and meshes of arrays on a GPU: launches find what they find of arrays on the processor."""

import geometry_kernels
import numpy as np
import pytest
from forked_tests import own_process
from ptx_device import machine

import jwarp as wp
from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")


def on_both(program):
    """Assert that a program gives the same on a GPU and on the processor."""
    wanted = program("cpu")
    with machine() as device:
        found = program("cuda:0")
        assert device.launches
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert value.device == "cuda:0"
        np.testing.assert_allclose(value.numpy(), wanted[name].numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
        assert value.numpy().any(), name


def points_of(seed, n):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, 3)).astype(np.float32)


def neighbours_of(device):
    n = 40
    points = wp.array(points_of(0, n), dtype=wp.vec3, device=device)
    grid, found, after = wp.HashGrid(3, 4, 5), *(wp.zeros((n, n), dtype=int, device=device) for _ in range(2))
    grid.build(points, 0.4)
    given = [grid.id, points, 0.3, found]
    wp.launch(geometry_kernels.neighbours, n, given, device=device)
    points.assign(points_of(1, n))
    grid.build(points, 0.5)
    record = wp.launch(geometry_kernels.neighbours, n, [grid.id, points, 0.3, after], device=device, record_cmd=True)
    record.launch()
    points.assign(points_of(2, n))
    grid.build(points, 0.3)
    record.launch()
    return {"found": found, "after": after}


@own_process(seconds=300)
def test_hash_grids():
    from mock_driver import driver

    on_both(neighbours_of)
    grid, points = wp.HashGrid(3, 4, 5), wp.array(points_of(8, 1500), dtype=wp.vec3, device="cuda:0")
    here = wp.HashGrid(3, 4, 5)
    here.build(points.to("cpu"), 0.25)
    with machine():
        driver().clear()
        grid.build(points, 0.25)
        assert not [line for line in driver().log() if line.startswith("cuMemcpyDtoH")]  # nothing comes here
    np.testing.assert_array_equal(grid.point_ids.numpy(), here.point_ids)
    np.testing.assert_array_equal(grid.cell_starts.numpy(), here.cell_starts)


def boxes_of(device):
    n, m = 12, 6
    low = points_of(3, n)
    lowers, uppers = (wp.array(x, dtype=wp.vec3, device=device) for x in (low, low + 0.6))
    queries = points_of(4, m)
    lows, highs = (wp.array(x, dtype=wp.vec3, device=device) for x in (queries, queries + 0.9))
    bvh = wp.Bvh(lowers, uppers)
    made = {}
    for round in range(2):
        found = [wp.zeros((m, n), dtype=int, device=device) for _ in range(4)]
        wp.launch(geometry_kernels.boxes, m, [bvh.id, lows, highs, *found], device=device)
        made |= {f"{name} {round}": a for name, a in zip(("box", "ray", "capsule", "sphere"), found, strict=True)}
        lowers.assign(low + 0.2)
        uppers.assign(low + 0.9)
        bvh.refit()
    return made


@own_process(seconds=300)
def test_trees():
    on_both(boxes_of)


@wp.kernel
def nearest(mesh: wp.uint64, points: wp.array[wp.vec3], at: wp.array[wp.vec3], hits: wp.array[float]):
    i = wp.tid()
    query = wp.mesh_query_point(mesh, points[i], 10.0)
    if query.result:
        at[i] = wp.mesh_eval_position(mesh, query.face, query.u, query.v)
    ray = wp.mesh_query_ray(mesh, points[i], -points[i], 10.0)
    if ray.result:
        hits[i] = ray.t


def faces_of(device):
    n = 30
    corners, faces = points_of(5, n), np.random.default_rng(6).integers(0, n, (20, 3)).astype(np.int32)
    points = wp.array(corners, dtype=wp.vec3, device=device)
    mesh = wp.Mesh(points, wp.array(faces.ravel(), dtype=int, device=device))
    queries, made = wp.array(2.0 * points_of(7, 16), dtype=wp.vec3, device=device), {}
    for round in range(2):
        at, hits = wp.zeros(16, dtype=wp.vec3, device=device), wp.zeros(16, dtype=float, device=device)
        wp.launch(nearest, 16, [mesh.id, queries, at, hits], device=device)
        made |= {f"at {round}": at, f"hits {round}": hits}
        points.assign(0.5 * corners[::-1])
        mesh.refit()
    return made


@own_process(seconds=300)
def test_meshes():
    on_both(faces_of)


@own_process(seconds=300)
def test_refits_come_not_here():
    """But for the mean side. A corner that is no number, and faces that are none, are as on the processor."""
    from mock_driver import driver

    n, faces = 40, np.random.default_rng(6).integers(0, 40, (50, 3)).astype(np.int32)
    corners = points_of(5, n)
    corners[3] = np.nan
    faces[7] = (1, 99, 2)
    for moved in (points_of(9, n), corners):
        made = []
        for device in ("cpu", "cuda:0"):
            points = wp.array(points_of(5, n), dtype=wp.vec3, device=device)
            mesh = wp.Mesh(points, wp.array(faces.ravel(), dtype=int, device=device))
            tree = wp.Bvh(points, points)
            points.assign(moved)
            with machine():
                driver().clear()
                mesh.refit()
                came = [line for line in driver().log() if line.startswith("cuMemcpyDtoH")]
                assert all("bytes=4 " in line for line in came[:1]) and len(came) <= 2, came
                tree.refit()
                tree.refit()
                # After what was done there, what is done here: of points that are not contiguous, and anew.
                mesh.points = wp.array(np.repeat(moved, 2, axis=0), dtype=wp.vec3, device=device)[::2]
                mesh.points = points
                mesh.refit()
                tree.rebuild()
            parts = mesh.nodes, mesh.bounds, mesh.corners, mesh.boxes, mesh.faces, mesh.edge, tree.nodes, tree.bounds
            made.append([np.asarray(part) for part in parts])
        for found, wanted in zip(made[1], made[0], strict=True):
            np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5)


@own_process
def test_arrays_on_several_devices():
    here, there = wp.zeros(3, dtype=wp.vec3), wp.zeros(3, dtype=wp.vec3, device="cuda:1")
    told = "the arrays are on several devices, '.*' on .*, '.*' on"
    with pytest.raises(wp.LaunchError, match=f"wp.Bvh: {told}"):
        wp.Bvh(here, there)
    with pytest.raises(wp.LaunchError, match=f"wp.Mesh: {told}"):
        wp.Mesh(there, wp.zeros(3, dtype=int))
    with pytest.raises(wp.LaunchError, match=f"wp.HashGrid.build: {told}"):
        wp.HashGrid(2, 2, 2).build(there, 1.0, groups=wp.zeros(3, dtype=int))
    grid = wp.HashGrid(2, 2, 2)
    grid.build(here, 1.0)
    found = wp.zeros((3, 3), dtype=int, device="cuda:1")
    with pytest.raises(wp.LaunchError, match="parameter 'grid"):
        wp.launch(geometry_kernels.neighbours, 3, [grid.id, there, 0.3, found])
