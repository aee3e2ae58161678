"""Threads that tape, capture and name devices at the same time: each has its own listeners."""

import os
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threads import at_once

import jwarp as wp

ROUNDS = int(os.environ.get("JWARP_THREADS_OF_TAPES", "60"))
THREADS = 6


@wp.kernel
def scale_add(x: wp.array[float], y: wp.array[float], a: float):
    i = wp.tid()
    y[i] += a * x[i] * x[i]


def in_threads(count, work):
    """Run work(number) in so many threads at once, which take turns all the time; their results in order."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        return at_once(count, work)
    finally:
        sys.setswitchinterval(interval)


def pair(seed, n=8):
    """An array of random numbers and one to add to, both with gradients."""
    x = np.random.default_rng(seed).uniform(0.5, 1.5, n).astype(np.float32)
    return wp.array(x, requires_grad=True), wp.zeros(n, dtype=float, requires_grad=True), x


def launch(x, y, a):
    wp.launch(scale_add, x.shape[0], [x, y, a])


def test_threads_that_tape_at_once():
    def work(number):
        wrong = 0
        for k in range(ROUNDS):
            x, y, content = pair(number)
            a = 0.25 * (k % 7 + number)
            with wp.Tape() as tape:
                launch(x, y, a)
                launch(x, y, a + 1.0)
            y.grad.fill_(1.0)
            tape.backward()
            wrong += len(tape.launches) != 2 or not np.allclose(x.grad.numpy(), 2 * (2 * a + 1) * content, rtol=1e-5)
        return wrong

    assert in_threads(THREADS, work) == [0] * THREADS


def test_threads_that_tape_the_same_arrays():
    """Arrays that are only read may be on the tapes of all threads."""
    x, _, content = pair(3)
    outputs = [pair(number)[1] for number in range(4)]

    def work(number):
        y = outputs[number]
        for _ in range(ROUNDS):
            with wp.Tape() as tape:
                launch(x, y, 1.0 + number)
            assert [entry.values[2] for entry in tape.launches] == [1.0 + number]

    in_threads(4, work)
    for number, y in enumerate(outputs):
        np.testing.assert_allclose(y.numpy(), ROUNDS * (1.0 + number) * content**2, rtol=1e-4)


def while_another_thread(work):
    """Run a function in another thread until it ends."""
    in_threads(1, lambda _: work())


def test_launches_of_other_threads_are_on_no_tape():
    x, y, content = pair(1)
    other_x, other_y, _ = pair(2)
    with wp.Tape() as tape:
        launch(x, y, 2.0)
        while_another_thread(lambda: (launch(other_x, other_y, 1.0), wp.copy(other_x, other_y), other_y.zero_()))
    assert len(tape.launches) == 1
    y.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * content, rtol=1e-6)
    assert not other_x.grad.numpy().any()


def test_a_tape_inside_of_another():
    def work(number):
        for _ in range(ROUNDS // 4):
            x, y, content = pair(number)
            with wp.Tape() as outer:
                launch(x, y, 1.0)
                with wp.Tape() as inner:
                    launch(x, y, 2.0)
                launch(x, y, 3.0)
            assert (len(outer.launches), len(inner.launches)) == (3, 1)
            y.grad.fill_(1.0)
            inner.backward()
            np.testing.assert_allclose(x.grad.numpy(), 4 * content, rtol=1e-5)
            x.grad.zero_()
            y.grad.fill_(1.0)
            outer.backward()
            np.testing.assert_allclose(x.grad.numpy(), 12 * content, rtol=1e-5)

    in_threads(4, work)


def test_a_tape_may_be_ended_by_another_thread():
    x, y, content = pair(1)
    tape = wp.Tape()
    tape.__enter__()
    launch(x, y, 2.0)
    while_another_thread(lambda: (launch(x, y, 5.0), tape.__exit__(None, None, None)))
    launch(x, y, 7.0)
    assert len(tape.launches) == 1 and not tape.is_open
    y.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * content, rtol=1e-6)


def test_a_thread_that_ends_while_it_tapes():
    """Nobody listens any more: launches are as quick as before, and the tape has what it heard of."""
    from jwarp.arrays.commands import LISTENING

    x, y, _ = pair(1)
    tape, before = wp.Tape(), set(LISTENING)
    while_another_thread(lambda: (tape.__enter__(), launch(x, y, 2.0)))
    launch(x, y, 3.0)
    assert len(tape.launches) == 1
    end = time.monotonic() + 10
    while LISTENING - before and time.monotonic() < end:  # what is of a thread goes a little after it
        time.sleep(0.001)
    assert not LISTENING - before
    tape.__exit__(None, None, None)


def test_captures_of_threads():
    def work(number):
        x, y, content = pair(number)
        launch(x, y, 0.0)
        for k in range(ROUNDS // 4):
            y.zero_()
            with wp.ScopedCapture() as capture:
                assert wp.get_device("cpu").is_capturing
                launch(x, y, 1.0 + number)
                launch(x, y, 2.0 + k)
            assert not y.numpy().any() and len(capture.graph.commands) == 2
            wp.capture_launch(capture.graph)
            np.testing.assert_allclose(y.numpy(), (3.0 + number + k) * content**2, rtol=1e-5)

    in_threads(4, work)


def test_a_capture_ends_in_its_thread():
    x, y, content = pair(1)
    wp.capture_begin()
    try:
        launch(x, y, 2.0)

        def other():
            assert not wp.get_device("cpu").is_capturing
            with pytest.raises(wp.LaunchError, match="no capture has begun"):
                wp.capture_end()
            launch(x, y, 1.0)

        while_another_thread(other)
    finally:
        graph = wp.capture_end()
    np.testing.assert_allclose(y.numpy(), content**2, rtol=1e-6)
    wp.capture_launch(graph)
    np.testing.assert_allclose(y.numpy(), 3 * content**2, rtol=1e-6)


def test_taped_graphs_of_threads():
    """The contents that tapes of graphs keep are copied for the thread that runs the graph, and for no other."""

    def work(number):
        x, y, content = pair(number)
        a, b = 1.0 + number, 2.0 + number
        with wp.ScopedCapture() as capture:
            y.zero_()
            with wp.Tape() as tape:
                launch(x, y, a)
                launch(y, y, b)
                launch(x, y, a)
            y.grad.fill_(1.0)
            tape.backward()
        once = a * content**2
        wanted = 2 * a * content * (1 + 2 * b * once) + 2 * a * content
        for _ in range(ROUNDS // 4):
            x.grad.zero_()
            wp.capture_launch(capture.graph)
            np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-4)

    in_threads(4, work)


def test_a_scoped_device_is_one_of_its_thread(monkeypatch):
    from jwarp import devices

    class Another(devices.Device):
        pass

    one, two = Another("one", 0, "one"), Another("two", 1, "two")
    barrier = threading.Barrier(2)

    def work(number):
        barrier.wait(60)
        with wp.ScopedDevice((one, two)[number]):
            barrier.wait(60)
            assert wp.get_device() is (one, two)[number]
            if number:
                wp.set_device(one)  # inside of the scope, and of this thread alone
            barrier.wait(60)
            assert wp.get_device() is one
        assert wp.get_device() == "cpu"

    in_threads(2, work)
    assert wp.get_device() == "cpu"


def test_loops_that_threads_trace_at_once():
    def work(number):
        def program(x):
            y, count = wp.zeros(8, dtype=float), wp.full(1, 3, dtype=int)

            def body():
                made = wp.zeros(8, dtype=float)  # which belongs to this loop
                launch(x, made, 1.0 + number)
                launch(made, y, 1.0)
                wp.launch(fewer, 1, inputs=[count])

            wp.capture_while(count, body)
            return y

        content = np.random.default_rng(number).uniform(0.5, 1.5, 8).astype(np.float32)
        for _ in range(3):
            run = wp.functionalize(program)  # which is traced anew
            found = jax.jit(lambda x, run=run: wp.to_jax(run(wp.from_jax(x))[0]))(jnp.asarray(content))
            np.testing.assert_allclose(found, 3 * ((1.0 + number) * content**2) ** 2, rtol=1e-5)

    in_threads(4, work)


@wp.kernel
def fewer(count: wp.array[int]):
    count[0] -= 1
