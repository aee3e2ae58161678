"""Graphs with tapes after something has changed that their native steps were found for: they follow, and bits agree."""

import gc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp
from jwarp.dispatch.tape.launch_entry import LaunchEntry

N = 6


@wp.kernel
def scaled(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * k


@wp.kernel
def weighted(x: wp.array[float], y: wp.array[float], loss: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * y[i] * y[i])


@pytest.fixture
def backs(monkeypatch):
    """How often Python went back through a launch."""
    calls, back = [], LaunchEntry.go_back
    monkeypatch.setattr(LaunchEntry, "go_back", lambda *args: calls.append(args) or back(*args))
    return calls


def random(seed):
    return np.random.default_rng(seed).uniform(0.5, 1.5, N)


class Program:
    """The loss is sum(x y^2) with y = k sin(x)."""

    def __init__(self, k=1.5, kernel=scaled):
        self.x, self.y = (wp.array(random(s), dtype=float, requires_grad=True) for s in (0, 1))
        self.loss = wp.zeros(1, dtype=float, requires_grad=True)
        self.tape, self.k, self.kernel = wp.Tape(), k, kernel
        with wp.ScopedCapture() as capture:
            self.loss.zero_()
            self.tape.zero()
            with self.tape:
                wp.launch(self.kernel, N, inputs=[self.x, self.k], outputs=[self.y])
                wp.launch(weighted, N, inputs=[self.x, self.y], outputs=[self.loss])
            self.tape.backward(self.loss)
        self.graph = capture.graph

    def run(self, seed):
        self.x.assign(random(seed))
        wp.capture_launch(self.graph)

    def slope(self):
        """The gradient of x, by differences in double."""
        x, step = self.x.numpy().astype(np.float64), 1e-6

        def loss(x):
            return np.sum(x * (self.k * np.sin(x)) ** 2)

        return np.array([(loss(x + e) - loss(x - e)) / (2 * step) for e in step * np.eye(N)])

    def check(self, seed, grad=None):
        self.run(seed)
        assert_allclose((self.x.grad if grad is None else grad).numpy(), self.slope(), rtol=1e-4)


@pytest.fixture
def program():
    """One whose graph is native."""
    made = Program()
    for seed in range(4):
        made.check(seed)
    return made


def test_gradient_arrays_are_exchanged(program):
    x, y = program.x, program.y
    for seed in range(4):
        first, second = x.grad, y.grad
        x.grad, y.grad = second, first
        program.check(seed, grad=second)


def test_a_gradient_of_an_array_that_is_only_read_on_the_way_is_exchanged(program, backs):
    program.check(4)
    assert not backs
    old = program.x.grad
    kept = old.numpy().copy()
    program.x.grad = wp.zeros(N, dtype=float)
    program.tape.gradients.clear()
    for seed in (5, 6, 7):
        program.check(seed)
    assert_array_equal(old.numpy(), kept)  # nothing writes there any more


def test_requires_grad_is_toggled(program):
    program.y.requires_grad = False
    for seed in (4, 5, 6):
        program.run(seed)
        direct = program.y.numpy().astype(np.float64) ** 2  # what y tells of x is not followed
        assert_allclose(program.x.grad.numpy(), direct, rtol=1e-5)
    program.y.requires_grad = True
    for seed in (7, 8, 9):
        program.check(seed)


def test_retain_grad_is_set(program):
    program.check(4)
    program.y.retain_grad = True
    for seed in (5, 6, 7):
        program.check(seed)
        x, y = program.x.numpy(), program.y.numpy()
        assert_allclose(program.y.grad.numpy(), 2 * x * y, rtol=1e-5)
    program.y.retain_grad = False
    for seed in (8, 9):
        program.check(seed)
        assert not program.y.grad.numpy().any()


def test_gradients_that_the_tape_has_met_are_changed(program):
    program.tape.gradients.clear()
    program.x.grad.fill_(100.0)
    wp.capture_launch(program.graph)  # zero() knows of no gradient
    assert_allclose(program.x.grad.numpy(), program.slope() + 100.0, rtol=1e-4)
    for seed in (5, 6, 7):
        program.check(seed)


def test_settings_change(program):
    """Launches keep those that they were captured with; steps are found anew for what asks for others."""
    for changed in ({"debug": True}, {"max_unroll": 4}):
        before = program.graph._tapes._known
        with wp.config(**changed):
            program.check(4)
            program.check(5)
            assert program.graph._tapes._known is not before
        program.x.assign(np.full(N, np.inf))
        wp.capture_launch(program.graph)
        assert np.isnan(program.y.numpy()).all()


def test_arrays_are_freed_and_made_again_where_they_were():
    """A tape outside of a graph, whose backward pass is repeated natively for the arrays that it was found for."""
    tape, places = wp.Tape(), set()
    for seed in range(12):
        x = wp.array(random(seed), dtype=float, requires_grad=True)
        y = wp.zeros(N, dtype=float, requires_grad=True)
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        places.add(x.memory.start)
        with tape:
            wp.launch(scaled, N, inputs=[x, 1.5], outputs=[y])
            wp.launch(weighted, N, inputs=[x, y], outputs=[loss])
        tape.backward(loss)
        of = x.numpy().astype(np.float64)
        wanted = 2.25 * (np.sin(of) ** 2 + 2 * of * np.sin(of) * np.cos(of))
        assert_allclose(x.grad.numpy(), wanted, rtol=1e-4)
        tape.reset()
        tape.gradients.clear()
        del x, y, loss
        gc.collect()
    assert len(places) < 12  # some place was taken again


def test_a_graph_outlives_its_arrays_names():
    program = Program()
    x, seen = program.x, program.loss
    del program.y
    for seed in range(5):
        program.x = x
        program.x.assign(random(seed))
        wp.capture_launch(program.graph)
        others = [wp.zeros(N, dtype=float, requires_grad=True) for _ in range(4)]  # in memory that is free
        [other.fill_(7.0) for other in others]
        assert_allclose(x.grad.numpy(), program.slope(), rtol=1e-4)
        assert seen.numpy()[0] > 0


def test_a_kernel_is_defined_again():
    def defined(factor):
        @wp.kernel
        def made(x: wp.array[float], k: float, y: wp.array[float]):
            i = wp.tid()
            y[i] = wp.sin(x[i]) * k * wp.static(factor)

        return made

    first = Program(k=1.5, kernel=defined(1.0))
    for seed in range(4):
        first.check(seed)
    second = Program(k=1.5, kernel=defined(2.0))
    for seed in range(4):
        first.check(seed)  # its launches are of the kernel that they were made with
        second.run(seed)
        second.k = 3.0
        assert_allclose(second.x.grad.numpy(), second.slope(), rtol=1e-4)
        second.k = 1.5


def test_an_array_is_exposed_and_written_between_runs(program):
    seen = program.x.numpy()
    for seed in (4, 5, 6):
        seen[:] = random(seed)
        wp.capture_launch(program.graph)
        assert_allclose(program.x.grad.numpy(), program.slope(), rtol=1e-4)
        wanted = program.slope()
        seen[:] = 3.0
        program.tape.zero()
        program.tape.backward(program.loss)  # of what x held when it was read
        assert_allclose(program.x.grad.numpy(), wanted, rtol=1e-4)


def test_replayed_runs_have_the_bits_of_the_first_one():
    one, bits = Program(), []
    for _ in range(5):
        one.run(0)
        bits.append([a.numpy().copy() for a in (one.y, one.loss, one.x.grad, one.y.grad)])
    for others in bits[1:]:
        for first, other in zip(bits[0], others, strict=True):
            assert_array_equal(first, other)


def test_versions_of_arrays_that_only_the_graph_writes():
    """A tape that recorded an array before, and kept nothing of it, hears that a native run has written to it."""
    program = Program()
    later, out = wp.Tape(), wp.zeros(1, dtype=float)
    for seed in range(4):
        program.check(seed)
    with later:
        wp.launch(weighted, N, inputs=[program.y, program.y], outputs=[out])
    out.requires_grad = True  # later than the launch: nothing was kept
    program.check(5)
    with pytest.raises(wp.LaunchError, match="has been written since"):
        later.backward(out)
