"""An id of a grid, tree, mesh or volume that is known is not 0; other arithmetic on it is refused with a way out."""

import numpy as np
import pytest

import jwarp as wp


@wp.func
def none_of(id: wp.uint64) -> bool:
    return id == wp.uint64(0)


@wp.kernel
def compared(mesh: wp.uint64, grid: wp.uint64, found: wp.array[int]):
    if mesh == wp.uint64(0):
        found[0] = 1
    if mesh != wp.uint64(0):
        found[1] = 1
    if mesh:
        found[2] = 1
    if not grid:
        found[3] = 1
    found[4] = 1 if grid != 0 and mesh else 0
    found[5] = int(none_of(grid))
    found[6] = 3 if mesh else 4


@wp.kernel
def masked(mesh: wp.uint64, low: wp.array[wp.uint64]):
    low[0] = mesh & wp.uint64(7)


@wp.kernel
def same(mesh: wp.uint64, grid: wp.uint64, found: wp.array[int]):
    found[0] = int(mesh == grid)


def a_mesh():
    corners = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    return wp.Mesh(wp.array(corners, dtype=wp.vec3, device="cpu"), wp.array([0, 1, 2], dtype=int, device="cpu"))


def test_ids_are_compared_with_0():
    mesh, grid = a_mesh(), wp.HashGrid(4, 4, 4, device="cpu")
    grid.build(mesh.points, 1.0)
    for ids, expected in (((mesh.id, grid.id), [0, 1, 1, 0, 1, 0, 3]), ((0, 0), [1, 0, 0, 1, 0, 1, 4])):
        found = np.zeros(7, np.int32)
        wp.launch(compared, 1, [*ids, found])
        assert found.tolist() == expected


@pytest.mark.parametrize("kernel", [masked, same])
def test_other_uses_of_the_number_are_refused(kernel):
    mesh = a_mesh()
    args = [mesh.id, np.zeros(1, np.uint64)] if kernel is masked else [mesh.id, mesh.id, np.zeros(1, np.int32)]
    with pytest.raises(wp.KernelTypeError, match="must be a scalar, not the id of a wp.Mesh") as error:
        wp.launch(kernel, 1, args)
    assert "wp.array([mesh.id], dtype=wp.uint64)" in str(error.value)
