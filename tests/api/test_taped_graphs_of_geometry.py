"""Graphs with tapes that build grids and refit meshes themselves: a tape goes back through those of the run."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp
from jwarp.dispatch.executables.array_launch import ArrayLaunch

N, H, STEPS = 40, 0.4, 3


@wp.kernel
def energy(grid: wp.uint64, x: wp.array[wp.vec3], h: float, e: wp.array[float]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], h):
        d = wp.length_sq(x[j] - x[i])
        if d < h * h:
            wp.atomic_add(e, 0, (h * h - d) * (h * h - d))


@wp.kernel
def move(x: wp.array[wp.vec3], d: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = x[i] + d[i]


@wp.kernel
def heights(mesh: wp.uint64, x: wp.array[wp.vec3], e: wp.array[float]):
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, x[i], wp.vec3(0.0, 0.0, -1.0), 10.0)
    if hit.result:
        wp.atomic_add(e, 0, hit.t * hit.t)


def energy_of(x, d):
    """The energies of all steps, and their gradient, in float64."""
    total, grad = 0.0, np.zeros((N, 3))
    for step in range(STEPS):
        apart = (x + step * d)[:, None] - (x + step * d)
        near = np.maximum(H * H - (apart**2).sum(-1), 0)
        total += (near**2).sum()
        grad -= 8 * (near[..., None] * apart).sum(1)
    return total, grad


class Moving:
    """Points that move in steps, in each of which a grid is built of where they are."""

    def __init__(self, cells, groups=None):
        rng = np.random.default_rng(cells)
        self.d = rng.normal(size=(N, 3)).astype(np.float32) * 0.2
        self.points = [wp.zeros(N, dtype=wp.vec3, requires_grad=True) for _ in range(STEPS + 1)]
        self.e = wp.zeros(1, dtype=float, requires_grad=True)
        self.grid = wp.HashGrid(cells, cells, cells)
        self.groups, self.moves, self.rng = groups, wp.array(self.d, dtype=wp.vec3), rng
        self.tape = wp.Tape()

    def begin(self):
        self.points[0].assign(self.rng.random((N, 3)).astype(np.float32))

    def forward(self):
        self.e.zero_()
        for x, y in zip(self.points[:-1], self.points[1:], strict=True):
            self.grid.build(x, H, groups=self.groups)
            wp.launch(energy, N, [self.grid.id, x, H, self.e])
            wp.launch(move, N, [x, self.moves, y])

    def both(self):
        self.tape = wp.Tape()
        with self.tape:
            self.forward()
        self.tape.backward(self.e)

    def check(self):
        value, grad = energy_of(self.points[0].numpy().astype(float), self.d.astype(float))
        assert_allclose(self.e.numpy()[0], value, rtol=1e-5)
        assert_allclose(self.points[0].grad.numpy(), grad, rtol=1e-4, atol=1e-5)
        assert np.abs(grad).max() > 0.1
        self.tape.zero()


@pytest.mark.parametrize("cells", [4, 32])  # more points than cells, and fewer
def test_a_tape_goes_back_through_the_grids_that_its_graph_built(cells):
    of = Moving(cells)
    with wp.ScopedCapture() as capture:
        of.both()
    for _ in range(4):
        of.begin()
        wp.capture_launch(capture.graph)
        of.check()


def test_a_graph_of_a_grid_in_a_tape_outside():
    of = Moving(32, groups=wp.zeros(N, dtype=int))
    with wp.ScopedCapture() as capture:
        of.forward()
    for _ in range(3):
        of.begin()
        of.tape = wp.Tape()
        with of.tape:
            wp.capture_launch(capture.graph)
        of.tape.backward(of.e)
        of.check()


def test_grids_that_a_tape_needs_are_no_copies_of_many_cells():
    of = Moving(64)
    of.begin()
    of.both()
    of.check()
    with wp.ScopedCapture() as capture:
        of.both()
    wp.capture_launch(capture.graph)
    of.check()
    tracemalloc.start()
    try:
        for _ in range(2):
            wp.capture_launch(capture.graph)
            of.check()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    one_grid = 4 * 64**3
    assert held < 1.5 * one_grid


def test_a_grid_built_outside_of_a_graph_is_read_where_it_was_built():
    of = Moving(16)
    e, x = of.e, of.points[0]
    of.begin()
    of.grid.build(x, H)
    with wp.ScopedCapture() as capture:
        e.zero_()
        wp.launch(energy, N, [of.grid.id, x, H, e])
    for run in range(6):
        if run in (1, 4, 5):
            of.begin()
            of.grid.build(x, H)
        wp.capture_launch(capture.graph)
        apart = x.numpy().astype(float)[:, None] - x.numpy()
        assert_allclose(e.numpy()[0], (np.maximum(H * H - (apart**2).sum(-1), 0) ** 2).sum(), rtol=1e-5)


def test_a_tape_goes_back_through_the_mesh_that_its_graph_refitted():
    rng = np.random.default_rng(3)
    corners = wp.array([[-9, -9, 0], [9, -9, 0], [0, 9, 0]], dtype=wp.vec3, requires_grad=True)
    mesh = wp.Mesh(corners, wp.array([0, 1, 2], dtype=int))
    x = wp.zeros(N, dtype=wp.vec3, requires_grad=True)
    e = wp.zeros(1, dtype=float, requires_grad=True)

    def both():
        mesh.refit()
        tape = wp.Tape()
        with tape:
            e.zero_()
            wp.launch(heights, N, [mesh.id, x, e])
        tape.backward(e)
        return tape

    with wp.ScopedCapture() as capture:
        tape = both()
    for level in (0.5, -2.0, 1.0):
        z = rng.uniform(1.5, 2.0, N)
        x.assign(np.stack([*rng.uniform(-1, 1, (2, N)), z], axis=1))
        corners.assign([[-9, -9, level], [9, -9, level], [0, 9, level]])
        wp.capture_launch(capture.graph)
        assert_allclose(e.numpy()[0], ((z - level) ** 2).sum(), rtol=1e-5)
        assert_allclose(x.grad.numpy()[:, 2], 2 * (z - level), rtol=1e-4)
        tape.zero()


def test_native_graphs_stay_native_where_a_grid_stays(monkeypatch):
    of, calls = Moving(16), []
    of.begin()
    of.grid.build(of.points[0], H)
    with wp.ScopedCapture() as capture:
        of.e.zero_()
        wp.launch(energy, N, [of.grid.id, of.points[0], H, of.e])
    wp.capture_launch(capture.graph)
    run = ArrayLaunch.run
    monkeypatch.setattr(ArrayLaunch, "run", lambda self: calls.append(self) or run(self))
    wp.capture_launch(capture.graph)
    assert not calls
    of.grid.build(of.points[0], H)
    for _ in range(4):
        wp.capture_launch(capture.graph)
    assert len(calls) == 1
