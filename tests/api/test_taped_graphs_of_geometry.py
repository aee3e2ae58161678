"""Graphs with tapes that build grids and refit meshes themselves: a tape goes back through those of the run."""

import copy
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.tape.launch_entry import LaunchEntry

N, H, STEPS = 40, 0.4, 3


@pytest.fixture
def backs(monkeypatch):
    """How often Python went back through a launch."""
    calls, back = [], LaunchEntry.go_back
    monkeypatch.setattr(LaunchEntry, "go_back", lambda *args: calls.append(args) or back(*args))
    return calls


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


@wp.kernel
def pulls(grid: wp.uint64, x: wp.array[wp.vec3], w: wp.array[float], h: float, e: wp.array[float]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], h):
        d = wp.length_sq(x[j] - x[i])
        if d < h * h:
            wp.atomic_add(e, 0, w[i] * w[j] * (h * h - d))


def test_graphs_on_grids_that_stay_are_native_until_these_are_built_anew(backs):
    rng = np.random.default_rng(5)
    x = wp.array(rng.random((N, 3)).astype(np.float32), dtype=wp.vec3, requires_grad=True)
    w, e = wp.zeros(N, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    grid = wp.HashGrid(8, 8, 8)
    grid.build(x, H)

    def both():
        tape = wp.Tape()
        with tape:
            e.zero_()
            wp.launch(pulls, N, [grid.id, x, w, H, e])
        tape.backward(e)
        return tape

    def gradients(run):
        for a in (x, w, e):
            a.grad.zero_()
        run()
        return [a.numpy().copy() for a in (x.grad, w.grad, e)]

    with wp.ScopedCapture() as capture:
        both()
    native = []
    for run in range(10):
        w.assign(rng.uniform(0.5, 1.5, N).astype(np.float32))
        if run == 5:
            x.assign(rng.random((N, 3)).astype(np.float32))
            grid.build(x, H)
        before = len(backs)
        found = gradients(lambda: wp.capture_launch(capture.graph))
        native.append(len(backs) == before)
        for one, other in zip(found, gradients(both), strict=True):
            np.testing.assert_array_equal(one, other)
        assert all(np.abs(part).max() > 0.1 for part in found)
    assert native == [False, False, True, True, True, False, False, True, True, True]


@wp.kernel
def heights_by_ids(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], e: wp.array[float]):
    i = wp.tid()
    hit = wp.mesh_query_ray(ids[i % 2], x[i], wp.vec3(0.0, 0.0, -1.0), 10.0)
    if hit.result:
        wp.atomic_add(e, 0, hit.t * hit.t)


def flat(height, requires_grad=False):
    points = np.array([[-5, -5, height], [5, -5, height], [0, 9, height]], np.float32)
    return wp.Mesh(wp.array(points, dtype=wp.vec3, requires_grad=requires_grad), wp.array(np.arange(3, dtype=np.int32)))


def test_graphs_that_look_meshes_up_are_native_and_see_what_ids_name_by_then(backs):
    meshes = [flat(0.0), flat(-1.0), flat(-3.0)]
    ids = wp.array(np.array([int(m.id) for m in meshes[:2]], np.uint64))
    x = wp.array(np.random.default_rng(1).random((N, 3)).astype(np.float32), dtype=wp.vec3, requires_grad=True)
    e = wp.zeros(1, dtype=float, requires_grad=True)

    def both():
        tape = wp.Tape()
        with tape:
            e.zero_()
            wp.launch(heights_by_ids, N, [ids, x, e])
        tape.backward(e)

    with wp.ScopedCapture() as capture:
        both()
    native = []
    for run in range(6):
        x.assign(np.random.default_rng(run).random((N, 3)).astype(np.float32))
        if run == 3:
            ids.assign(np.array([int(m.id) for m in meshes[1:]], np.uint64))
        x.grad.zero_()
        before = len(backs)
        wp.capture_launch(capture.graph)
        native.append(len(backs) == before)
        t = x.numpy()[:, 2] - np.where(np.arange(N) % 2, -1.0 if run < 3 else -3.0, 0.0 if run < 3 else -1.0)
        assert_allclose(e.numpy()[0], (t * t).sum(), rtol=1e-5)
        assert_allclose(x.grad.numpy()[:, 2], 2 * t, rtol=1e-5)
    assert native[-1], native
    graded = flat(2.0, requires_grad=True)  # which ids may name from now on
    ids.assign(np.array([int(graded.id), int(meshes[0].id)], np.uint64))
    x.grad.zero_()
    wp.capture_launch(capture.graph)
    t = x.numpy()[:, 2] - np.where(np.arange(N) % 2, 0.0, 2.0)
    is_hit = t > 0.0
    assert is_hit[1::2].all() and not is_hit[::2].any()  # the new mesh is above all of them
    assert_allclose(x.grad.numpy()[:, 2], 2 * t * is_hit, rtol=1e-5)
    graded.points.assign(graded.points.numpy() - np.array([0, 0, 4], np.float32))
    graded.refit()
    x.grad.zero_()
    wp.capture_launch(capture.graph)
    t = x.numpy()[:, 2] - np.where(np.arange(N) % 2, 0.0, -2.0)
    assert_allclose(x.grad.numpy()[:, 2], 2 * t, rtol=1e-5)
    assert_allclose(graded.points.grad.numpy()[:, 2].sum(), -2 * t[::2].sum(), rtol=1e-5)


@wp.kernel
def neighbours(grid: wp.uint64, x: wp.array[wp.vec3], h: float, order: wp.array[int], found: wp.array[int]):
    i = wp.tid()
    order[i] = wp.hash_grid_point_id(grid, i)
    for j in wp.hash_grid_query(grid, x[i], h):
        found[i] = found[i] * 31 + j


@pytest.fixture
def eager_builds(monkeypatch):
    """How often Python built a grid."""
    calls, build = [], wp.HashGrid._build
    monkeypatch.setattr(wp.HashGrid, "_build", lambda *args: calls.append(args) or build(*args))
    return calls


@pytest.mark.parametrize("count", [1, 7, 300])
@pytest.mark.parametrize(("cells", "dtype"), [((2, 3, 1), wp.vec3), ((40, 30, 50), wp.vec3), ((16, 16, 16), wp.vec3d)])
def test_builds_in_graphs_are_native_and_leave_what_eager_builds_do(cells, dtype, count, eager_builds):
    scalar = wp.float64 if dtype is wp.vec3d else wp.float32
    rng = np.random.default_rng(count)
    many, few = wp.zeros(count, dtype=dtype), wp.zeros(max(count // 2, 1), dtype=dtype)
    grid, other = wp.HashGrid(*cells, dtype=scalar), wp.HashGrid(*cells, dtype=scalar)
    with wp.ScopedCapture() as capture:
        grid.build(many, 0.7)
        grid.build(few, 0.2)
        grid.build(many, 0.3)
    for run in range(5):
        many.assign(rng.normal(size=(count, 3)) * 10 ** (run - 2.0))
        few.assign(rng.normal(size=(len(few), 3)))
        eager_builds.clear()
        wp.capture_launch(capture.graph)
        assert len(eager_builds) == (3 if run < 2 else 0)
        other.build(many, 0.3)
        for name in ("point_ids", "cell_starts", "groups", "scale"):
            np.testing.assert_array_equal(getattr(grid, name), getattr(other, name))
        assert not grid.cell_starts.flags.writeable


def test_what_a_graph_built_stays_as_it_was_for_those_who_have_read_it(eager_builds):
    rng = np.random.default_rng(8)
    points, grid = wp.zeros(N, dtype=wp.vec3), wp.HashGrid(20, 20, 20)
    results = [wp.zeros(N, dtype=int) for _ in range(2)]
    with wp.ScopedCapture() as capture:
        grid.build(points, H)
        wp.launch(neighbours, N, [grid.id, points, H, *results])
    seen = []
    for _ in range(6):
        points.assign(rng.random((N, 3)).astype(np.float32))
        for a in results:
            a.zero_()
        wp.capture_launch(capture.graph)
        built = [a.numpy().copy() for a in results]
        for a in results:
            a.zero_()
        wp.launch(neighbours, N, [grid.id, points, H, *results])  # on the grid that the graph has left
        for one, a in zip(built, results, strict=True):
            np.testing.assert_array_equal(one, a.numpy())
        seen.append((grid.point_ids, grid.cell_starts, built[0], copy.copy(grid), points.numpy().copy()))
    for order, starts, expected, own, at in seen:
        np.testing.assert_array_equal(order, expected)
        assert starts[-1] == N
        for a in results:
            a.zero_()
        wp.launch(neighbours, N, [own.id, wp.array(at, dtype=wp.vec3), H, *results])
        np.testing.assert_array_equal(results[0].numpy(), expected)
    assert len(eager_builds) == 2


def test_native_builds_are_what_python_does_bit_for_bit(backs, eager_builds):
    graph, plain = (Moving(cells) for cells in (24, 24))
    with wp.ScopedCapture() as capture:
        graph.both()
    for run in range(5):
        graph.begin()
        plain.points[0].assign(graph.points[0])
        plain.both()
        eager_builds.clear(), backs.clear()
        wp.capture_launch(capture.graph)
        assert bool(eager_builds) == bool(backs) == (run < 2)
        for a, b in zip([*graph.points, graph.e], [*plain.points, plain.e], strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
            np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())
        graph.check()
        plain.check()


def test_a_tape_goes_back_once_more_through_the_grids_of_the_latest_run():
    of = Moving(24)
    with wp.ScopedCapture() as capture:
        of.both()
    for _ in range(5):
        of.begin()
        wp.capture_launch(capture.graph)
        first = of.points[0].grad.numpy().copy()
        of.tape.zero()
        of.tape.backward(of.e)
        np.testing.assert_array_equal(of.points[0].grad.numpy(), first)
        of.check()


def test_a_launch_before_the_build_in_a_graph_sees_the_grid_of_the_run_before():
    rng = np.random.default_rng(4)
    points, grid = wp.zeros(N, dtype=wp.vec3), wp.HashGrid(20, 20, 20)
    results = [wp.zeros(N, dtype=int) for _ in range(2)]
    points.assign(rng.random((N, 3)).astype(np.float32))
    grid.build(points, H)
    with wp.ScopedCapture() as capture:
        wp.launch(neighbours, N, [grid.id, points, H, *results])
        grid.build(points, H)
    for _ in range(5):
        before = np.array(grid.point_ids)
        points.assign(rng.random((N, 3)).astype(np.float32))
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(results[0].numpy(), before)


def test_two_graphs_build_one_grid_in_turn():
    rng = np.random.default_rng(4)
    both = [wp.zeros(N, dtype=wp.vec3) for _ in range(2)]
    grid, graphs = wp.HashGrid(20, 20, 20), []
    for points in both:
        with wp.ScopedCapture() as capture:
            grid.build(points, H)
        graphs.append(capture.graph)
    other = wp.HashGrid(20, 20, 20)
    for run in range(12):
        k = int(rng.integers(2))
        both[k].assign(rng.random((N, 3)).astype(np.float32))
        wp.capture_launch(graphs[k])
        if run % 3 == 0:
            continue
        other.build(both[k], H)
        np.testing.assert_array_equal(np.asarray(grid.point_ids), other.point_ids)
        if run % 4 == 0:
            grid.build(both[1 - k], H)


def test_graphs_whose_grid_has_a_number_see_it_as_it_is_then():
    rng = np.random.default_rng(4)
    points, grid = wp.zeros(N, dtype=wp.vec3), wp.HashGrid(20, 20, 20)
    ids, results = wp.zeros(1, dtype=wp.uint64), [wp.zeros(N, dtype=int) for _ in range(2)]
    with wp.ScopedCapture() as capture:
        grid.build(points, H)
        wp.launch(neighbours, N, [grid.id, points, H, *results])
    for run in range(7):
        if run == 4:
            ids.assign(np.array([int(grid.id)], np.uint64))
            with wp.ScopedCapture() as capture:
                grid.build(points, H)
                wp.launch(neighbours_by_ids, N, [ids, points, H, *results])
        points.assign(rng.random((N, 3)).astype(np.float32))
        for a in results:
            a.zero_()
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(results[0].numpy(), np.asarray(grid.point_ids))


@wp.kernel
def neighbours_by_ids(
    ids: wp.array[wp.uint64], x: wp.array[wp.vec3], h: float, order: wp.array[int], found: wp.array[int]
):
    i = wp.tid()
    order[i] = wp.hash_grid_point_id(ids[0], i)
    for j in wp.hash_grid_query(ids[0], x[i], h):
        found[i] = found[i] * 31 + j


@wp.kernel
def put(where: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[where[i]] = 1.0


@pytest.mark.parametrize("order", ["pb", "bp", "bpb", "bpbl"])
def test_where_a_kernel_fails_the_grid_is_what_was_built_last(order):
    """`b` is a build, of one array and then of another, `p` a kernel that fails in some runs, and `l` uses the grid."""
    rng = np.random.default_rng(5)
    points, grid = [wp.zeros(N, dtype=wp.vec3) for _ in range(2)], wp.HashGrid(20, 20, 20)
    other, where, out = wp.HashGrid(20, 20, 20), wp.zeros(2, dtype=int), wp.zeros(2, dtype=float)
    results = [wp.zeros(N, dtype=int) for _ in range(2)]

    def commands():
        builds = iter(points)
        for command in order:
            if command == "b":
                yield grid.build, [next(builds), H]
            elif command == "p":
                yield wp.launch, [put, 2, [where, out]]
            else:
                yield wp.launch, [neighbours, N, [grid.id, points[-1], H, *results]]

    with wp.config(bounds="error"):
        with wp.ScopedCapture() as capture:
            for function, arguments in commands():
                function(*arguments)
        built = None
        for run in range(8):
            for each in points:
                each.assign(rng.random((N, 3)).astype(np.float32))
            fails = run in (3, 4, 6)
            where.assign([0, 7 if fails else 1])
            if run > 5:  # by what is no part of the graph
                built = rng.random((N, 3)).astype(np.float32)
                grid.build(wp.array(built, dtype=wp.vec3), H)
            if fails:
                with pytest.raises(RuntimeError, match="put"):
                    wp.capture_launch(capture.graph)
            else:
                wp.capture_launch(capture.graph)
            done = order[: order.index("p")] if fails else order
            built = points[done.count("b") - 1].numpy().copy() if "b" in done else built
            other.build(wp.array(built, dtype=wp.vec3), H)
            np.testing.assert_array_equal(np.asarray(grid.point_ids), other.point_ids)
            np.testing.assert_array_equal(np.asarray(grid.cell_starts), other.cell_starts)


@wp.struct
class Weights:
    a: wp.array[float]


@wp.kernel
def weighted(w: wp.array[Weights], x: wp.array[float], e: wp.array[float]):
    i = wp.tid()
    e[0] += w[0].a[i] * x[i] * x[i]


def test_a_tape_of_a_graph_goes_back_through_what_the_last_run_found():
    rng, w = np.random.default_rng(4), Weights()
    w.a = wp.array(rng.random(N).astype(np.float32))
    ws = wp.array([w], dtype=Weights)
    x = wp.array(rng.random(N).astype(np.float32), requires_grad=True)
    e, tape = wp.zeros(1, dtype=float, requires_grad=True), wp.Tape()
    with wp.ScopedCapture() as capture:
        tape.reset()
        with tape:
            e.zero_()
            wp.launch(weighted, N, [ws, x, e])
    for _ in range(6):
        w.a.assign(rng.random(N).astype(np.float32))
        x.assign(rng.random(N).astype(np.float32))
        wp.capture_launch(capture.graph)
        expected = 2 * w.a.numpy() * x.numpy()
        w.a.zero_()  # the tape has kept it
        x.grad.zero_()
        e.grad.fill_(1.0)
        tape.backward()
        assert_allclose(x.grad.numpy(), expected, rtol=1e-5)
