"""Kernels that look ids up are read once: later processes know from the store that they need all memory."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import jwarp as wp
from jwarp.frontend import kernel as kernels

N = 4


def defined():
    """A kernel that calculates which mesh it asks, so that ids are looked up when it runs."""

    @wp.kernel
    def nearest(ids: wp.array[wp.uint64], which: wp.array[int], out: wp.array[float]):
        i = wp.tid()
        mesh = ids[which[i]] + wp.uint64(0)
        found = wp.mesh_query_point_no_sign(mesh, wp.vec3(float(i), 0.0, 1.0), 100.0)
        out[i] = wp.length(wp.mesh_eval_position(mesh, found.face, found.u, found.v) - wp.vec3(float(i), 0.0, 1.0))

    return nearest


def defined_for_numbers():
    """The same but that it asks no mesh."""

    @wp.kernel
    def nearest(ids: wp.array[wp.uint64], which: wp.array[int], out: wp.array[float]):
        i = wp.tid()
        out[i] = float(ids[which[i]] % wp.uint64(7))

    return nearest


@pytest.fixture
def reads(monkeypatch):
    """The kernels whose source was lowered."""
    found, lower = [], kernels.lower_kernel_source
    monkeypatch.setattr(kernels, "lower_kernel_source", lambda *a, **named: found.append(a) or lower(*a, **named))
    return found


def mesh_at(height):
    points = np.array([[-50, -50, height], [50, -50, height], [0, 80, height]], np.float32)
    return wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array([0, 1, 2], dtype=int))


def asked(kernel, *meshes):
    out = wp.zeros(N, dtype=float)
    ids = wp.array([mesh.id for mesh in meshes], dtype=wp.uint64)
    wp.launch(kernel, N, inputs=[ids, wp.array(np.arange(N) % len(meshes), dtype=int)], outputs=[out])
    return out.numpy()


def test_the_store_says_that_a_kernel_looks_ids_up(tmp_path, reads):
    low, high = mesh_at(0.0), mesh_at(-2.0)
    with wp.config(cache_dir=str(tmp_path)):
        for count in (2, 0, 0):  # without all memory, in vain, and with it
            before = len(reads)
            assert_array_equal(asked(defined(), low, high), [1.0, 3.0, 1.0, 3.0])
            assert len(reads) - before == count
        numbers = asked(defined_for_numbers(), low, high)
        assert_array_equal(numbers, [float(int(mesh.id) % 7) for mesh in (low, high, low, high)])


def test_without_a_store_it_is_read_anew(reads):
    with wp.config(cache_dir=""):
        for _ in range(2):
            before = len(reads)
            assert_array_equal(asked(defined(), mesh_at(0.0)), np.ones(N))
            assert len(reads) - before == 2
