"""Tapes through arrays in elements of arrays of structs, and through ids that kernels look up: gradients of all."""

import gc

import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(41)
H = 1e-6


@pytest.fixture(autouse=True)
def on_host():
    with wp.ScopedDevice("cpu"):
        yield


@wp.struct
class Cell:
    a: wp.array[wp.float64]
    b: wp.array2d[wp.vec3d]
    out: wp.array[wp.float64]
    k: wp.float64


@wp.struct
class Owner:
    n: int
    cell: Cell


@wp.func
def mean(a: wp.array[wp.float64]):
    total = wp.float64(0.0)
    for j in range(a.shape[0]):
        total += wp.sin(a[j]) * a[0]
    return total


@wp.kernel
def read(cells: wp.array[Cell], x: wp.array[wp.float64], y: wp.array[wp.float64]):
    i = wp.tid()
    cell = cells[i]
    row = cell.b[1]
    y[i] = mean(cell.a) * cell.k * x[i] + wp.dot(row[0], cells[i].b[0, -1]) + cell.a[99] * cell.a[-1]


@wp.kernel
def write(cells: wp.array[Cell], x: wp.array[wp.float64]):
    i = wp.tid()
    for j in range(cells[i].out.shape[0]):
        cells[i].out[j] = wp.sin(cells[i].a[j]) * x[i]
    wp.atomic_add(cells[i].out, 1, cells[i].a[0] * x[i])
    cells[i].out[2] += cells[i].a[1] * cells[i].out[0]
    cells[i].out[1000] = x[i]


@wp.kernel
def in_place(owners: wp.array[Owner], x: wp.array[wp.float64]):
    i = wp.tid()
    a = owners[i].cell.a
    for j in range(1, a.shape[0]):
        a[j] = a[j] * a[j - 1] + x[i]
    a[0] = a[0] * a[0]


@wp.kernel
def sums(cells: wp.array[Cell], y: wp.array[wp.float64]):
    i = wp.tid()
    for j in range(cells[i].out.shape[0]):
        y[i] += cells[i].out[j] * cells[i].out[j]


class Program:
    """Cells of random arrays, and a function of all numbers that they hold, which runs kernels on them."""

    def __init__(self, run, count=3):
        self.run, self.count = run, count
        self.start = [RNG.normal(size=shape) for k in range(count) for shape in ((3 + k,), (2, 2, 3), (3 + k,))]
        self.start.append(RNG.normal(size=count))
        self.arrays = [
            wp.array(x, dtype=wp.vec3d if x.ndim == 3 else wp.float64, requires_grad=True) for x in self.start
        ]
        made = [Cell(*self.arrays[3 * k : 3 * k + 3], k=1.0 + k) for k in range(count)]
        self.cells = wp.array(made, dtype=Cell)
        self.owners = wp.array([Owner(n=k, cell=cell) for k, cell in enumerate(made)], dtype=Owner)
        self.x, self.y = self.arrays[-1], wp.zeros(count, dtype=wp.float64, requires_grad=True)
        self.weights = RNG.normal(size=count)

    def value(self, start):
        for a, x in zip(self.arrays, start, strict=True):
            a.assign(x)
        self.y.zero_()
        self.run(self)
        return float(self.y.numpy() @ self.weights)

    def gradients(self):
        self.value(self.start)
        for a in self.arrays:
            a.grad.zero_()
        for a, x in zip(self.arrays, self.start, strict=True):
            a.assign(x)
        self.y.zero_()
        with wp.Tape() as tape:
            self.run(self)
        tape.backward(grads={self.y: wp.array(self.weights, dtype=wp.float64)})
        return [a.grad.numpy().copy() for a in self.arrays]

    def differences(self):
        found = [np.zeros_like(x) for x in self.start]
        for x, slope in zip(self.start, found, strict=True):
            for place in np.ndindex(x.shape):
                at = x[place]
                values = []
                for step in (H, -H):
                    x[place] = at + step
                    values.append(self.value(self.start))
                x[place] = at
                slope[place] = (values[0] - values[1]) / (2 * H)
        return found

    def check(self):
        wanted = self.differences()
        assert any(abs(w).max() > 0.1 for w in wanted)
        for _ in range(3):
            for found, slope in zip(self.gradients(), wanted, strict=True):
                np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-7)


def of_reads(p):
    wp.launch(read, p.count, inputs=[p.cells, p.x], outputs=[p.y])


def of_writes(p):
    wp.launch(write, p.count, inputs=[p.cells, p.x])
    wp.launch(sums, p.count, inputs=[p.cells], outputs=[p.y])


def of_changes_in_place(p):
    wp.launch(in_place, p.count, inputs=[p.owners, p.x])
    wp.launch(in_place, p.count, inputs=[p.owners, p.x])
    wp.launch(read, p.count, inputs=[p.cells, p.x], outputs=[p.y])


def of_writes_after(p):
    """Overwrite later what a launch read, by name, by a fill and through a descriptor."""
    wp.launch(read, p.count, inputs=[p.cells, p.x], outputs=[p.y])
    wp.copy(p.arrays[0], p.arrays[2])
    p.arrays[3].zero_()
    wp.launch(in_place, p.count, inputs=[p.owners, p.x])
    wp.launch(write, p.count, inputs=[p.cells, p.x])
    wp.launch(sums, p.count, inputs=[p.cells], outputs=[p.y])


@pytest.mark.parametrize("run", [of_reads, of_writes, of_changes_in_place, of_writes_after])
def test_gradients_are_those_of_finite_differences(run):
    Program(run).check()


@pytest.mark.parametrize("run", [of_reads, of_changes_in_place, of_writes_after])
def test_graphs_with_tapes_have_the_same_gradients(run):
    program = Program(run)
    wanted = [g.copy() for g in program.gradients()]
    kept = [wp.array(x, dtype=a.dtype) for x, a in zip(program.start, program.arrays, strict=True)]
    weights = wp.array(program.weights, dtype=wp.float64)
    with wp.ScopedCapture() as capture:
        for a, x in zip(program.arrays, kept, strict=True):
            wp.copy(a, x)
            a.grad.zero_()
        program.y.zero_()
        with wp.Tape() as tape:
            run(program)
        tape.backward(grads={program.y: weights})
    for factor in (1.0, 2.0, -1.0, 1.0):
        weights.assign(factor * program.weights)
        wp.capture_launch(capture.graph)
        for a, slope in zip(program.arrays, wanted, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), factor * slope, rtol=1e-10, atol=1e-10)


def test_gradients_go_to_views_and_add_up():
    whole = wp.array(RNG.normal(size=(6, 4)), dtype=wp.float64, requires_grad=True)
    vectors = wp.array(RNG.normal(size=(5, 2, 3)), dtype=wp.vec3d, requires_grad=True)
    cells = wp.array(
        [Cell(a=whole[:, 1], b=vectors.transpose(), k=2.0), Cell(a=whole[2], b=vectors[::2], k=1.0)], dtype=Cell
    )
    x = wp.array([0.5, -2.0], dtype=wp.float64)
    y = wp.zeros(2, dtype=wp.float64, requires_grad=True)
    whole.grad.fill_(3.0)
    with wp.Tape() as tape:
        wp.launch(read, 2, inputs=[cells, x], outputs=[y])
    tape.backward(grads={y: wp.array([1.0, 10.0], dtype=wp.float64)})
    wanted = np.full((6, 4), 3.0)
    for part, factor in ((np.s_[:, 1], 1.0), (np.s_[2], -20.0)):
        a = whole.numpy()[part]
        slope = np.cos(a) * a[0]
        slope[0] += np.sin(a).sum()
        wanted[part] += factor * slope
    np.testing.assert_allclose(whole.grad.numpy(), wanted, rtol=1e-12)
    v, slope = vectors.numpy(), np.zeros((5, 2, 3))
    for (i, j), (k, l), factor in (((0, 1), (4, 0), 1.0), ((2, 0), (0, 1), 10.0)):
        slope[i, j] += factor * v[k, l]
        slope[k, l] += factor * v[i, j]
    np.testing.assert_allclose(vectors.grad.numpy(), slope, rtol=1e-12)


def test_arrays_without_gradients_or_that_are_gone_take_none():
    program = Program(of_reads)
    wanted = program.gradients()
    program.arrays[3].requires_grad = False
    found = program.gradients() if program.arrays[3].grad is not None else None
    assert found is None
    y, weights = program.y, wp.array(program.weights, dtype=wp.float64)
    for a in program.arrays:
        if a.grad is not None:
            a.grad.zero_()
    with wp.Tape() as tape:
        of_reads(program)
    tape.backward(grads={y: weights})
    for k, (a, slope) in enumerate(zip(program.arrays, wanted, strict=True)):
        if k != 3:
            np.testing.assert_allclose(a.grad.numpy(), slope, rtol=1e-12)
    cells = wp.array([Cell(a=wp.ones(3, dtype=wp.float64), k=1.0)], dtype=Cell)
    gc.collect()
    x = wp.array([2.0], dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(read, 1, inputs=[cells, x], outputs=[y])
    later = [wp.array(RNG.normal(size=3), dtype=wp.float64, requires_grad=True) for _ in range(20)]  # perhaps there
    kept = wp.array([Cell(a=a) for a in later], dtype=Cell)
    tape.backward(grads={y: weights})
    assert not x.grad.numpy().any() and not any(a.grad.numpy().any() for a in later) and kept.size == 20


@wp.kernel
def beside(cells: wp.array[Cell], x: wp.array[wp.float64], y: wp.array[wp.float64]):
    i = wp.tid()
    y[i] = cells[i].a[0] * x[i]


def test_what_a_derivative_cannot_tell_apart_is_refused():
    program = Program(of_reads, 1)
    a, y = program.arrays[0], program.y
    with wp.Tape() as tape:
        wp.launch(beside, 1, inputs=[program.cells, a], outputs=[y])
    with pytest.raises(wp.NotDifferentiableError, match="is a parameter, or the gradient of one, and may"):
        tape.backward(grads={y: wp.ones(1, dtype=wp.float64)})
    other = wp.zeros(3, dtype=wp.float64)
    other.grad = a.grad
    program.cells.assign([Cell(a=a, out=other)])
    with wp.Tape() as tape:
        wp.launch(beside, 1, inputs=[program.cells, program.x], outputs=[y])
    with pytest.raises(wp.NotDifferentiableError, match="shares its gradient with others"):
        tape.backward(grads={y: wp.ones(1, dtype=wp.float64)})
    program = Program(of_reads, 1)
    program.y.grad.fill_(1.0)
    with pytest.raises(wp.NotDifferentiableError, match="finds arrays by numbers.*has a gradient"):
        wp.launch(beside, 1, inputs=[program.cells, program.x], outputs=[program.y], adjoint=True)


@wp.kernel
def scatter(cells: wp.array[Cell], x: wp.array[wp.float64]):
    i = wp.tid()
    cells[0].out[i // 2] = x[i] * x[i]


def test_of_threads_that_store_to_one_element_one_gets_the_gradient():
    n = 64
    out = wp.zeros(n // 2, dtype=wp.float64, requires_grad=True)
    x = wp.array(RNG.normal(size=n), dtype=wp.float64, requires_grad=True)
    cells = wp.array([Cell(out=out)], dtype=Cell)
    weights = RNG.normal(size=n // 2)
    with wp.Tape() as tape:
        wp.launch(scatter, n, inputs=[cells, x])
    tape.backward(grads={out: wp.array(weights, dtype=wp.float64)})
    pairs = (x.grad.numpy() / (2 * x.numpy())).reshape(-1, 2)
    np.testing.assert_allclose(pairs.sum(axis=1), weights, rtol=1e-12)
    assert (pairs == 0).any(axis=1).all() and not out.grad.numpy().any()


TRIANGLE = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.5]])


@wp.kernel
def on_meshes(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    mesh = ids[0] + wp.uint64(0)
    if i % 2 == 1:
        mesh = ids[1] + wp.uint64(0)
    found = wp.mesh_query_point(mesh, x[i], 100.0)
    if found.result:
        y[i] = wp.mesh_eval_position(mesh, found.face, found.u, found.v) * x[i][0]


@wp.kernel
def on_two(first: wp.uint64, second: wp.uint64, x: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    if i % 2 == 1:
        found = wp.mesh_query_point(second, x[i], 100.0)
        if found.result:
            y[i] = wp.mesh_eval_position(second, found.face, found.u, found.v) * x[i][0]
    else:
        found = wp.mesh_query_point(first, x[i], 100.0)
        if found.result:
            y[i] = wp.mesh_eval_position(first, found.face, found.u, found.v) * x[i][0]


def test_ids_that_are_looked_up_have_the_gradients_of_their_objects():
    n = 24
    corners = [wp.array((TRIANGLE * s).astype(np.float32), dtype=wp.vec3, requires_grad=True) for s in (1.0, 2.0)]
    meshes = [wp.Mesh(p, wp.array([0, 1, 2, 1, 3, 2], dtype=int)) for p in corners]
    ids = wp.array(np.array([int(m.id) for m in meshes], np.uint64), dtype=wp.uint64)
    x = wp.array(RNG.uniform(-1, 2, (n, 3)).astype(np.float32), dtype=wp.vec3, requires_grad=True)
    weights = wp.array(RNG.normal(size=(n, 3)).astype(np.float32), dtype=wp.vec3)

    def gradients(kernel, *given):
        y = wp.zeros(n, dtype=wp.vec3, requires_grad=True)
        for a in (*corners, x):
            a.grad.zero_()
        with wp.Tape() as tape:
            wp.launch(kernel, n, inputs=[*given, x], outputs=[y])
        tape.backward(grads={y: weights})
        return [a.grad.numpy().copy() for a in (*corners, x)]

    wanted = gradients(on_two, *(m.id for m in meshes))
    assert all(abs(w).max() > 0.1 for w in wanted)
    for found, slope in zip(gradients(on_meshes, ids), wanted, strict=True):
        np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-5)
    y = wp.zeros(n, dtype=wp.vec3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(on_meshes, n, inputs=[ids, x], outputs=[y])
    meshes[0].points = wp.array((TRIANGLE * 3).astype(np.float32), dtype=wp.vec3)
    wp.launch(on_meshes, n, inputs=[ids, x], outputs=[wp.zeros(n, dtype=wp.vec3)])
    with pytest.raises(wp.LaunchError, match="was built or changed since"):
        tape.backward(grads={y: weights})


def test_gradients_in_debug_mode():
    with wp.config(debug=True):
        gradients_in_place()


def gradients_in_place():
    program = Program(of_changes_in_place_alone)
    program.arrays[1].requires_grad = False
    found = program.arrays[0].grad
    assert found is not None
    with wp.Tape() as tape:
        program.run(program)
    start = program.start[0]
    tape.backward(grads={program.arrays[0]: wp.ones(3, dtype=wp.float64)})
    after = [start[0] * start[0]]
    for j in range(1, 3):
        after.append(start[j] * (start[0] if j == 1 else after[-1]) + program.start[-1][0])
    np.testing.assert_allclose(program.arrays[0].numpy(), after, rtol=1e-12)
    a0, a1, a2 = start
    wanted = [2 * a0 + a1 + a2 * a1, a0 + a2 * a0, a1 * a0 + program.start[-1][0]]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def of_changes_in_place_alone(p):
    wp.launch(in_place, p.count, inputs=[p.owners, p.x])


def test_read_only_arrays_are_found_and_not_written(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(np.arange(5, dtype=np.float64).tobytes())
    mapped = np.memmap(path, dtype=np.float64, mode="r", shape=(5,))
    a = wp.array(mapped, dtype=wp.float64, copy=False)
    cells = wp.array([Cell(a=a, out=a)], dtype=Cell)
    x, y = wp.array([2.0], dtype=wp.float64), wp.zeros(1, dtype=wp.float64)
    wp.launch(beside, 1, inputs=[cells, x, y])
    wp.launch(sums, 1, inputs=[cells, y])
    assert y.numpy()[0] == (np.arange(5) ** 2).sum()
    with pytest.raises(wp.LaunchError, match="which it may find, is read-only"):
        wp.launch(write, 1, inputs=[cells, x])
