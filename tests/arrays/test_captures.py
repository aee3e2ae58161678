"""Captures: what is put into a graph runs when that is launched, again and again."""

from __future__ import annotations

import numpy as np
import pytest

import jwarp as wp


@wp.kernel
def stepped(x: wp.array[float], s: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = y[i] + s * x[i]


@wp.kernel
def squared(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def counted(n: wp.array[int], go: wp.array[int]):
    n[0] += 1
    go[0] = wp.where(n[0] < 5, 1, 0)


def test_a_graph_runs_what_was_captured():
    x, y = wp.array(np.arange(6.0), dtype=float), wp.zeros(6)
    with wp.ScopedCapture() as capture:
        between = wp.zeros(6)  # zeros each time
        wp.launch(stepped, 6, [x, 2.0], [between])
        wp.copy(y[::2], between.reshape((3, 2))[:, 1])
        y[1:3].fill_(7.0)
        wp.launch(stepped, 3, [x, 1.0, y])
    assert y.numpy().tolist() == [0] * 6 and len(capture.graph.commands) == 5
    for _ in range(2):
        wp.capture_launch(capture.graph)
        assert y.numpy().tolist() == [2, 8, 9, 0, 10, 0]
    x.fill_(1.0)
    wp.capture_launch(capture.graph)
    assert y.numpy().tolist() == [3, 8, 8, 0, 2, 0]


def test_records_are_captured_as_they_are():
    x, y = wp.ones(3), wp.zeros(3)
    record = wp.launch(stepped, 3, [x, 2.0, y], record_cmd=True)
    wp.capture_begin()
    record.launch()
    record.set_param_by_name("s", 10.0)
    record.launch()
    graph = wp.capture_end()
    assert y.numpy().tolist() == [0] * 3
    wp.capture_launch(graph)
    assert y.numpy().tolist() == [12] * 3
    with wp.ScopedCapture() as outer:
        wp.capture_launch(graph)
        wp.copy(x, y)
    wp.capture_launch(outer.graph)
    assert x.numpy().tolist() == [24] * 3


@pytest.mark.parametrize("captured", [False, True])
def test_loops_and_branches(captured):
    n, go, y, flag = wp.zeros(1, dtype=int), wp.ones(1, dtype=int), wp.zeros(2), wp.ones(1, dtype=int)

    def body(scale):
        wp.launch(counted, 1, [n, go])
        wp.launch(stepped, 2, [wp.ones(2), scale, y])

    def program():
        wp.capture_while(go, body, scale=2.0)
        wp.capture_if(flag, lambda: y[0:1].fill_(5.0), on_false=lambda: y[1:2].zero_())

    if captured:
        with wp.ScopedCapture() as capture:
            program()
        assert n.numpy()[0] == 0
        program = lambda: wp.capture_launch(capture.graph)  # noqa: E731
    program()
    assert n.numpy()[0] == 5 and y.numpy().tolist() == [5, 10]
    flag.zero_()
    program()
    assert n.numpy()[0] == 5 and y.numpy().tolist() == [5, 0]


def test_what_is_kept_is_kept_when_a_graph_writes():
    x = wp.ones(2)
    with wp.ScopedCapture() as capture:
        x.fill_(3.0)
    kept, version = x.memory.keep(x.layout), x.memory.version
    wp.capture_launch(capture.graph)
    assert kept.array().tolist() == [1, 1] and x.memory.version > version


def test_refused():
    y = wp.zeros(4)
    with pytest.raises(wp.LaunchError, match="no capture"):
        wp.capture_end()
    with pytest.raises(wp.KernelTypeError, match="expected a graph"):
        wp.capture_launch(None)
    with pytest.raises(wp.KernelTypeError, match="one int32"):
        wp.capture_while(y, lambda: None)
    with pytest.raises(wp.KernelTypeError, match="function or a graph"), wp.ScopedCapture():
        wp.capture_if(wp.ones(1, dtype=int), 3)
    with pytest.raises(wp.KernelTypeError, match="expected array"), wp.ScopedCapture() as failed:
        wp.launch(stepped, 2, [y.view(int), 1.0, y])
    assert failed.graph is None
    with wp.ScopedCapture(), pytest.raises(wp.LaunchError, match="begun already"):
        wp.capture_begin()
    assert not wp.get_device().is_capturing
    wp.launch(stepped, 4, [wp.ones(4), 1.0, y])
    assert y.numpy().tolist() == [1] * 4


def test_a_tape_and_what_overwrites_its_arrays_in_one_capture():
    x, y = wp.array([1.0, 2.0], dtype=float, requires_grad=True), wp.zeros(2, requires_grad=True)
    with wp.ScopedCapture() as capture:
        with wp.Tape() as tape:
            wp.launch(squared, 2, inputs=[x], outputs=[y])
        x.fill_(100.0)
        tape.backward(grads={y: wp.ones(2)})
    for _ in range(2):
        x.assign([1.0, 2.0])
        x.grad.zero_()
        wp.capture_launch(capture.graph)
        assert x.grad.numpy().tolist() == [2, 4]


def test_parameters_of_a_record_that_change_after_it_was_captured():
    x, y = wp.array([1.0, 2.0], dtype=float), wp.zeros(2)
    record = wp.launch(stepped, 2, inputs=[x, 2.0], outputs=[y], record_cmd=True)
    with wp.ScopedCapture() as capture:
        record.launch()
    record.set_param_by_name("s", 5.0)
    wp.capture_launch(capture.graph)
    assert y.numpy().tolist() == [2, 4]
    record.launch()
    assert y.numpy().tolist() == [7, 14]


def test_all_that_a_graph_may_hold():
    """Scans, adjoints, tapes, records, graphs and Python's commands, in loops and branches: as without a capture."""

    def program(x, y, n, go, odd):
        record = wp.launch(squared, 4, inputs=[x], outputs=[y], record_cmd=True)
        adjoint = wp.launch(squared, 4, inputs=[x], outputs=[y], adjoint=True, record_cmd=True)

        def scanned():
            wp.utils.array_scan(y, y)
            y[:2].assign(wp.clone(y[2:]))

        def body():
            wp.launch(counted, 1, inputs=[n, go])
            record.launch()
            wp.capture_if(odd, on_true=scanned, on_false=lambda: y.fill_(0.5))
            wp.copy(x[:2], y[2:])

        def all_of_it():
            n.zero_()
            go.fill_(1)
            wp.capture_while(go, body)
            with wp.Tape() as tape:
                wp.launch(squared, 4, inputs=[x], outputs=[y])
                wp.utils.array_scan(y, y)
            tape.backward(grads={y: wp.ones(4, dtype=float)})
            y.grad.fill_(2.0)
            adjoint.launch()

        return all_of_it

    def arrays():
        x, y = wp.array([0.1, 0.2, 0.3, 0.4], dtype=float, requires_grad=True), wp.zeros(4, requires_grad=True)
        return x, y, wp.zeros(1, dtype=int), wp.ones(1, dtype=int), wp.array([1], dtype=int)

    eager, captured = arrays(), arrays()
    run = program(*eager)
    with wp.ScopedCapture() as inner:
        program(*captured)()
    with wp.ScopedCapture() as outer:
        wp.capture_launch(inner.graph)
    for branch in (1, 0, 1):
        for a in (eager, captured):
            a[4].fill_(branch)
        run()
        wp.capture_launch(outer.graph)
        for one, other in zip(eager, captured, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
        np.testing.assert_array_equal(eager[0].grad.numpy(), captured[0].grad.numpy())
        assert eager[0].grad.numpy().any() and eager[2].numpy()[0] == 5


def test_fills_and_copies_of_any_strides():
    rng = np.random.default_rng(0)
    make = (
        lambda: wp.array(rng.normal(size=(4, 6, 5)), dtype=float),
        lambda: wp.array(rng.normal(size=(3, 4, 3)), dtype=wp.vec3),
        lambda: wp.array(rng.normal(size=(2, 70, 90)), dtype=wp.float64),
    )
    cuts = (slice(None), slice(1, None), slice(None, None, 2), slice(0, 1))
    for _ in range(60):
        a = make[rng.integers(3)]()
        cut = [cuts[k] for k in rng.integers(len(cuts), size=a.ndim)]
        value = wp.vec3(1.5, -2.0, 3.0) if a.dtype is wp.vec3 else 2.5
        b = wp.clone(a)
        with wp.ScopedCapture() as capture:
            a[tuple(cut)].fill_(value)
            wp.copy(b[tuple(cut)], a[tuple(cut)])
        wanted = a.numpy().copy()
        wanted[tuple(cut)] = value
        copied = b.numpy().copy()
        copied[tuple(cut)] = value
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(a.numpy(), wanted)
        np.testing.assert_array_equal(b.numpy(), copied)
