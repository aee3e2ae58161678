"""Graphs with tapes: their gradients are right in each run, those that run natively and those that cannot."""

import gc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp
from jwarp.dispatch.tape.launch_entry import LaunchEntry

N = 5


@wp.kernel
def bent(x: wp.array[float], k: float):
    i = wp.tid()
    x[i] = wp.sin(x[i]) * k


@wp.kernel
def product(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    z[i] = x[i] * y[i]


@wp.kernel
def squares(x: wp.array[float], loss: wp.array[float]):
    wp.atomic_add(loss, 0, x[wp.tid()] * x[wp.tid()])


@wp.kernel
def dot(x: wp.array[float], y: wp.array[float], loss: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * y[i])


@wp.kernel
def looked_up(x: wp.array[float], at: wp.array[int], z: wp.array[float]):
    i = wp.tid()
    z[i] = x[at[i]] * x[at[i]]


@wp.kernel
def descend(x: wp.array[float], g: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] - 0.1 * g[i]


def new(seed=None, n=N):
    if seed is None:
        return wp.zeros(n, dtype=float, requires_grad=True)
    return wp.array(np.random.default_rng(seed).uniform(0.5, 1.5, n), dtype=float, requires_grad=True)


@pytest.fixture
def backs(monkeypatch):
    """How often Python went back through a launch."""
    calls, back = [], LaunchEntry.go_back
    monkeypatch.setattr(LaunchEntry, "go_back", lambda *args: calls.append(args) or back(*args))
    return calls


def slope(x, k):
    """Of sum((sin(x) k)**2 sin(x) k ...): the program of `Bent`, by differences in double."""

    def f(x):
        y = k * np.sin(x)
        z = np.concatenate([[x[0]], y[1:]])
        return np.sum((z * y) ** 2)

    step = 1e-6
    return np.array([(f(x + e) - f(x - e)) / (2 * step) for e in step * np.eye(len(x))])


class Bent:
    """A program that overwrites what it read, by launches and a copy."""

    def __init__(self):
        self.x, self.y, self.z, self.loss = new(0), new(), new(), new(n=1)
        self.tape = wp.Tape()

    def forward(self, k=2.0):
        wp.copy(self.y, self.x)
        wp.launch(bent, N, inputs=[self.y, k])
        wp.copy(self.z, self.y)
        wp.copy(self.z, self.x, count=1)
        wp.launch(product, N, inputs=[self.z, self.y], outputs=[self.z])
        wp.launch(squares, N, inputs=[self.z, self.loss])

    def all(self):
        self.loss.zero_()
        self.tape.zero()
        with self.tape:
            self.forward()
        self.tape.backward(self.loss)


def run(graph, program, seed, k=2.0):
    """Launch a graph for another input; whether gradients are right."""
    x = np.random.default_rng(seed).uniform(0.5, 1.5, N)
    program.x.assign(x)
    wp.capture_launch(graph)
    assert_allclose(program.x.grad.numpy(), slope(x, k), rtol=2e-4)


def test_gradients_are_found_without_python(backs):
    program = Bent()
    with wp.ScopedCapture() as capture:
        program.all()
    for k in range(6):
        run(capture.graph, program, k)
        assert len(backs) == 3 * min(k + 1, 2)


def test_a_training_step(backs):
    """The trained parameters change in the graph, after the tape has read them."""
    program = Bent()
    with wp.ScopedCapture() as capture:
        program.all()
        wp.launch(descend, N, inputs=[program.x, program.x.grad])
    x = program.x.numpy().astype(np.float64)
    for _ in range(6):
        wp.capture_launch(capture.graph)
        x -= 0.1 * slope(x, 2.0)
        assert_allclose(program.x.numpy(), x, rtol=1e-3)
    assert len(backs) == 6


@pytest.mark.parametrize("write", ["fill", "launch", "numpy", "view"])
def test_the_tape_of_a_graph_goes_back_again(write):
    program = Bent()
    seen = program.x.numpy() if write == "view" else None
    with wp.ScopedCapture() as capture:
        program.all()
    for k in range(5):
        run(capture.graph, program, k)
        x = program.x.numpy().astype(np.float64)
        if write == "fill":
            program.x.fill_(7.0)
        elif write == "launch":
            wp.launch(bent, N, inputs=[program.x, 3.0])
        elif write == "numpy":
            program.x.numpy()[:] = 5.0
        else:
            seen[:] = 5.0
        program.y.zero_()
        program.tape.zero()
        program.tape.backward(program.loss)
        assert_allclose(program.x.grad.numpy(), slope(x, 2.0), rtol=2e-4)


def test_what_others_keep_of_arrays_that_a_graph_writes():
    program, other, loss = Bent(), wp.Tape(), new(n=1)
    with wp.ScopedCapture() as capture:
        program.all()
    for k in range(5):
        program.y.fill_(float(k))
        with other:
            wp.launch(squares, N, inputs=[program.y, loss])
        run(capture.graph, program, k)
        program.y.grad.zero_()
        other.backward(loss)
        assert_allclose(program.y.grad.numpy(), 2.0 * k)
        other.reset()


def test_arguments_of_a_record_change():
    x, y, loss = new(0), new(), new(n=1)
    record = wp.launch(bent, N, inputs=[y, 2.0], record_cmd=True)
    tape = wp.Tape()
    with wp.ScopedCapture() as capture:
        tape.zero()
        with tape:
            wp.copy(y, x)
            record.launch()
            wp.launch(squares, N, inputs=[y, loss])
        tape.backward(loss)
    for k in (2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 0.5):
        record.set_param_by_name("k", k)
        wp.capture_launch(capture.graph)
        wanted = 4.0 * np.sin(2 * x.numpy().astype(np.float64))  # the graph has what the record had then
        assert_allclose(x.grad.numpy(), wanted, rtol=1e-5)


def test_gradients_are_replaced():
    program = Bent()
    with wp.ScopedCapture() as capture:
        program.all()
    for k in range(8):
        if k in (3, 5):
            program.y.grad = wp.zeros(N, dtype=float)
        if k == 6:
            program.y.grad = None
        if k < 6:
            run(capture.graph, program, k)
    wp.capture_launch(capture.graph)
    assert program.x.grad.numpy()[0] and not program.x.grad.numpy()[1:].any()  # through z alone


def test_an_outer_tape_hears_of_it():
    program, outer = Bent(), wp.Tape()
    with wp.ScopedCapture() as capture:
        program.all()
    for k in range(4):
        run(capture.graph, program, k)
    with outer:
        wp.capture_launch(capture.graph)
    program.tape.zero()
    outer.backward(program.loss)
    assert_allclose(program.x.grad.numpy(), slope(program.x.numpy().astype(np.float64), 2.0), rtol=2e-4)


def test_functions_that_go_back_run_each_time():
    x, y, calls = new(0), new(), []
    tape = wp.Tape()
    with wp.ScopedCapture() as capture:
        with tape:
            tape.record_func(lambda: calls.append(1), [x])
            wp.launch(product, N, inputs=[x, x], outputs=[y])
        tape.backward(grads={y: wp.ones(N, dtype=float)})
    for _ in range(5):
        tape.zero()
        wp.capture_launch(capture.graph)
    assert len(calls) == 5
    assert_allclose(x.grad.numpy(), 2 * x.numpy(), rtol=1e-6)


def test_gradients_of_views_that_overlap():
    """Each is added to what the other one left, also where one of them is not contiguous."""
    x, y = new(0, 6), new(n=3)
    tape = wp.Tape()
    with wp.ScopedCapture() as capture:
        tape.zero()
        with tape:
            wp.launch(product, 3, inputs=[x[2:5], x[::2]], outputs=[y])
        tape.backward(grads={y: wp.ones(3, dtype=float)})
    first = x.numpy()
    wanted = np.zeros(6)
    wanted[2:5] += first[::2]
    wanted[::2] += first[2:5]
    for _ in range(4):
        wp.capture_launch(capture.graph)
        assert_allclose(x.grad.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("written", ["array", "record"])
def test_what_was_recorded_before_the_graph_is_another_thing_each_time(written):
    """The graph goes back, and the program records anew, or writes what the tape kept, between its launches."""
    x, y, loss, tape = new(0), new(1), new(n=1), wp.Tape()

    def record(*inputs):
        with tape:
            wp.launch(dot, N, inputs=inputs, outputs=[loss])

    first = x.numpy().copy()
    record(x, y)
    with wp.ScopedCapture() as capture:
        tape.zero()
        tape.backward(loss)
    for k in range(6):
        if written == "record" and k > 2:
            tape.reset()
            record(y, y)
        elif k > 2:
            x.fill_(float(k))
        wp.capture_launch(capture.graph)
        assert_allclose(y.grad.numpy(), 2 * y.numpy() if written == "record" and k > 2 else first, rtol=1e-6)


def test_a_tape_goes_back_before_it_records():
    x, y, loss, tape = new(0), new(1), new(n=1), wp.Tape()
    with wp.ScopedCapture() as capture:
        tape.zero()
        tape.backward(loss)
        with tape:
            wp.launch(dot, N, inputs=[x, y], outputs=[loss])
    before = np.zeros(N)
    for k in range(6):
        now = np.random.default_rng(k).normal(size=N)
        x.assign(now)
        wp.capture_launch(capture.graph)
        assert_allclose(y.grad.numpy(), before, rtol=1e-6)
        before = now


@pytest.mark.parametrize("is_loop", [False, True])
def test_what_the_tape_kept_is_overwritten_in_some_runs(is_loop):
    x, y, other, loss, tape = new(0), new(1), new(2), new(n=1), wp.Tape()
    condition = wp.zeros(1, dtype=int)

    def overwrite():
        wp.copy(x, other)
        condition.zero_()

    with wp.ScopedCapture() as capture:
        tape.zero()
        with tape:
            wp.launch(dot, N, inputs=[x, y], outputs=[loss])
        (wp.capture_while if is_loop else wp.capture_if)(condition, overwrite)
        tape.backward(loss)
    for k in range(6):
        now = np.random.default_rng(k).normal(size=N)
        x.assign(now)
        condition.fill_(int(k > 3))
        wp.capture_launch(capture.graph)
        assert_allclose(y.grad.numpy(), now, rtol=1e-6)


def test_gradients_that_are_replaced_are_cleared_like_others():
    x, y, tape = new(0), new(), wp.Tape()
    with wp.ScopedCapture() as capture:
        tape.zero()
        with tape:
            wp.launch(product, N, inputs=[x, x], outputs=[y])
        tape.backward(grads={y: wp.ones(N, dtype=float)})
    for k in range(9):
        if k in (3, 5):
            x.grad = wp.zeros(N, dtype=float)
        wp.capture_launch(capture.graph)
        assert_allclose(x.grad.numpy(), 2 * x.numpy(), rtol=1e-6)


@pytest.fixture
def debugging():
    with wp.config(debug=True):
        yield


@pytest.mark.usefixtures("debugging")
def test_a_kernel_fails_in_a_graph_with_a_tape():
    """The tape records no longer then, and the next run is right."""
    x, z, at, tape = new(0), new(), wp.zeros(N, dtype=int), wp.Tape()
    with wp.ScopedCapture() as capture:
        tape.zero()
        with tape:
            wp.launch(looked_up, N, inputs=[x, at], outputs=[z])
        tape.backward(grads={z: wp.ones(N, dtype=float)})
    for k in range(8):
        at.fill_(N if k in (1, 5, 6) else 2)
        if k in (1, 5, 6):
            with pytest.raises(RuntimeError, match="index outside of `x`"):
                wp.capture_launch(capture.graph)
            count = len(tape.launches)
            wp.launch(bent, N, inputs=[z, 1.0])
            assert len(tape.launches) == count
        else:
            wp.capture_launch(capture.graph)
            wanted = np.zeros(N)
            wanted[2] = 2 * N * x.numpy()[2]
            assert_allclose(x.grad.numpy(), wanted, rtol=1e-5)


@wp.kernel
def maybe(x: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    if z:
        z[i] = x[i]


def test_launches_that_are_given_none_of_what_they_write_are_native(backs):
    x, y, z, loss = new(3), new(4), new(), new(n=1)

    def both():
        tape = wp.Tape()
        with tape:
            loss.zero_()
            wp.launch(maybe, N, [x], [None])
            wp.launch(product, N, [x, y], [z])
            wp.launch(dot, N, [z, x], [loss])
        tape.backward(loss)

    with wp.ScopedCapture() as capture:
        both()
    for run in range(4):
        x.assign(np.random.default_rng(run).uniform(0.5, 1.5, N).astype(np.float32))
        x.grad.zero_(), y.grad.zero_(), z.grad.zero_()
        before = len(backs)
        wp.capture_launch(capture.graph)
        assert (len(backs) == before) is (run > 1)
        found = x.numpy().astype(float)
        assert_allclose(x.grad.numpy(), 2 * found * y.numpy(), rtol=1e-5)
        assert_allclose(y.grad.numpy(), found**2, rtol=1e-5)


def test_zero_is_seen_by_who_kept_the_gradients_and_counts_for_new_ones():
    x, y, z, loss = new(3), new(4), new(), new(n=1)
    tape = wp.Tape()
    for run in range(5):
        with tape:
            wp.launch(product, N, [x, y], [z])
            wp.launch(dot, N, [z, x], [loss])
        tape.backward(loss)
        assert np.abs(x.grad.numpy()).min() > 0.1
        kept = x.grad.memory.keep(x.grad.layout)
        before = x.grad.numpy().copy()
        if run == 3:
            y.grad = wp.ones(N, dtype=float)
            tape.gradients[y] = y.grad
        version = y.grad.memory.version
        tape.zero()
        assert_allclose(np.asarray(kept.array()), before)
        assert y.grad.memory.version != version
        assert not any(a.grad.numpy().any() for a in (x, y, z, loss))
        tape.launches.clear()


def test_a_copy_on_a_captured_tape_leaves_gradients_to_the_tape():
    def arrays():
        return [wp.array(np.arange(1.0, 4.0), dtype=float, requires_grad=True) for _ in range(3)]

    def frame(a, y, b, tape):
        with tape:
            wp.launch(squared_of_copy, 3, [a], [y])
            wp.copy(b, y)
        tape.backward()

    graphed = arrays()
    with wp.ScopedCapture() as capture:
        frame(*graphed, wp.Tape())
    for k in range(4):
        eager = arrays()
        for a, y, b in (graphed, eager):
            a.assign(np.arange(1.0, 4.0, dtype=np.float32) * (k + 1))
            a.grad.zero_(), y.grad.zero_(), b.grad.fill_(k + 1.0)
        frame(*eager, wp.Tape())
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(eager[0].grad.numpy(), 2 * (k + 1) ** 2 * np.arange(1.0, 4.0))
        for ours, other in zip(graphed, eager, strict=True):
            np.testing.assert_array_equal(ours.grad.numpy(), other.grad.numpy())
    wp.copy(graphed[2], graphed[1])  # outside of tapes a copy takes gradients along, also after the capture
    np.testing.assert_array_equal(graphed[2].grad.numpy(), graphed[1].grad.numpy())


@wp.kernel
def squared_of_copy(a: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = a[i] * a[i]


@wp.kernel
def gathered(x: wp.array[float], limit: float, count: wp.array[int], at: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if x[i] > limit:
        slot = wp.atomic_add(count, 0, 1)
        at[slot] = i
        y[slot] = x[i] * x[i]


@wp.kernel
def weighted(y: wp.array[float], count: wp.array[int], e: wp.array[float]):
    i = wp.tid()
    if i < count[0]:
        wp.atomic_add(e, 0, y[i] * float(i + 1))


def test_graphs_whose_launches_count_are_native_and_go_back_in_the_same_order(backs):
    n = 300
    x, e, rng = new(0, n), wp.zeros(1, dtype=float, requires_grad=True), np.random.default_rng(0)
    count, at, y = wp.zeros(1, dtype=int), wp.zeros(n, dtype=int), new(n=n)

    def both():
        tape = wp.Tape()
        with tape:
            count.zero_()
            e.zero_()
            wp.launch(gathered, n, [x, 0.9], [count, at, y])
            wp.launch(weighted, n, [y, count], [e])
        tape.backward(e)
        return tape

    with wp.ScopedCapture() as capture:
        tape = both()
    for run in range(5):
        values = rng.uniform(0.5, 1.5, n).astype(np.float32)
        x.assign(values)
        backs.clear()
        wp.capture_launch(capture.graph)
        assert bool(backs) == (run < 2)
        found, grad = count.numpy()[0], np.zeros(n)
        order = at.numpy()[:found]
        assert sorted(order) == list(np.flatnonzero(values > 0.9))
        grad[order] = 2.0 * values[order] * (np.arange(found) + 1)
        assert_allclose(e.numpy()[0], (values[order].astype(float) ** 2 * (np.arange(found) + 1)).sum(), rtol=1e-5)
        assert_allclose(x.grad.numpy(), grad, rtol=1e-5)
        tape.zero()


@pytest.mark.parametrize("runs", [1, 2, 3, 5])
def test_what_the_tape_of_a_graph_keeps_outlives_the_graph(runs):
    x, y, e = new(1), new(2), wp.zeros(1, dtype=float, requires_grad=True)

    def both():
        tape = wp.Tape()
        with tape:
            e.zero_()
            wp.launch(dot, N, [x, y], [e])
        tape.backward(e)
        return tape

    with wp.ScopedCapture() as capture:
        tape = both()
    for run in range(runs):
        x.assign(np.arange(N) + run)
        wp.capture_launch(capture.graph)
        tape.zero()
    del capture
    gc.collect()
    x.zero_()
    y.fill_(7.0)
    tape.backward(e)
    assert_allclose(y.grad.numpy(), np.arange(N) + runs - 1)
    assert_allclose(x.grad.numpy(), np.random.default_rng(2).uniform(0.5, 1.5, N), rtol=1e-6)
