"""Custom gradients write to arrays of the program: counters, logs and stores, once for each call."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.dispatch.tape.tape import Backward

RNG = np.random.default_rng(8)


@wp.func
def scaled(count: wp.array[int], log: wp.array[float], seen: wp.array[wp.vec2], i: int, x: float):
    return 2.0 * x


@wp.func_grad(scaled)
def adj_scaled(count: wp.array[int], log: wp.array[float], seen: wp.array[wp.vec2], i: int, x: float, adj: float):
    slot = wp.atomic_add(count, 0, 1)
    log[slot] = 3.0 * adj
    seen[i] += wp.vec2(x, adj)
    wp.adjoint[x] += 2.0 * adj


@wp.kernel
def once(count: wp.array[int], log: wp.array[float], seen: wp.array[wp.vec2], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = scaled(count, log, seen, i, x[i])


@wp.kernel
def sometimes(
    count: wp.array[int], log: wp.array[float], seen: wp.array[wp.vec2], x: wp.array[float], y: wp.array[float]
):
    i = wp.tid()
    total = wp.float32(0.0)
    if x[i] > 0.0:
        for _ in range(i):
            total += scaled(count, log, seen, i, x[i])
    y[i] = total


class Arrays:
    def __init__(self, n, size):
        self.count = wp.array([5], dtype=int)
        self.log = wp.zeros(size, dtype=float)
        self.seen = wp.array(RNG.normal(size=(n, 2)), dtype=wp.vec2)
        self.x = wp.array(RNG.normal(size=n), dtype=float, requires_grad=True)
        self.y = wp.zeros(n, dtype=float, requires_grad=True)
        self.given = [self.count, self.log, self.seen, self.x]

    def check(self, calls, adj, seen, runs=1):
        """`calls` says how often each thread calls; the counter began with 5."""
        x = self.x.numpy()
        assert self.count.numpy().tolist() == [5 + runs * calls.sum()]
        log = self.log.numpy()
        wanted = np.repeat(np.float32(3) * adj, runs * calls)
        assert not log[:5].any() and not log[5 + len(wanted) :].any()
        np.testing.assert_allclose(np.sort(log[5 : 5 + len(wanted)]), np.sort(wanted), rtol=1e-6)
        more = runs * calls[:, None] * np.stack([x, adj], 1)
        np.testing.assert_allclose(self.seen.numpy(), seen + more, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 7, 100])
def test_a_tape_runs_them_once_for_each_call(n):
    a, adj = Arrays(n, 4 * n + 9), RNG.normal(size=n).astype(np.float32)
    seen = a.seen.numpy().copy()
    with wp.Tape() as tape:
        wp.launch(once, n, a.given, [a.y])
    assert a.count.numpy().tolist() == [5]
    for runs in range(1, 5):  # also where a backward pass is known
        tape.zero()
        tape.backward(grads={a.y: wp.array(adj)})
        np.testing.assert_allclose(a.x.grad.numpy(), 2 * adj, rtol=1e-6)
        a.check(np.ones(n, int), adj, seen, runs)


def test_calls_in_branches_and_loops():
    n = 6
    a, adj = Arrays(n, 40), RNG.normal(size=n).astype(np.float32)
    seen = a.seen.numpy().copy()
    with wp.Tape() as tape:
        wp.launch(sometimes, n, a.given, [a.y])
    tape.backward(grads={a.y: wp.array(adj)})
    calls = np.where(a.x.numpy() > 0, np.arange(n), 0)
    np.testing.assert_allclose(a.x.grad.numpy(), 2 * calls * adj, rtol=1e-5)
    a.check(calls, adj, seen)


def test_adjoint_launches():
    n = 5
    a, adj = Arrays(n, 30), RNG.normal(size=n).astype(np.float32)
    seen = a.seen.numpy().copy()
    for runs in (1, 2):
        gradient = wp.zeros(n, dtype=float)
        wp.launch(
            once, n, a.given, [a.y], adj_inputs=[None, None, None, gradient], adj_outputs=[wp.array(adj)], adjoint=True
        )
        np.testing.assert_allclose(gradient.numpy(), 2 * adj, rtol=1e-6)
        a.check(np.ones(n, int), adj, seen, runs)


def test_captured_tapes():
    n = 5
    a, adj = Arrays(n, 60), RNG.normal(size=n).astype(np.float32)
    seen, upstream = a.seen.numpy().copy(), wp.array(adj)
    with wp.ScopedCapture() as capture:
        tape = wp.Tape()
        with tape:
            wp.launch(once, n, a.given, [a.y])
        tape.backward(grads={a.y: upstream})
        tape.zero()
    before = int(a.count.numpy()[0] - 5) // n
    for runs in range(before + 1, before + 5):
        wp.capture_launch(capture.graph)
        a.check(np.ones(n, int), adj, seen, runs)


def test_what_a_tape_has_kept_of_the_arrays_stays():
    n = 4
    a, adj = Arrays(n, 30), RNG.normal(size=n).astype(np.float32)
    seen = a.seen.numpy().copy()

    @wp.kernel
    def products(seen: wp.array[wp.vec2], y: wp.array[float], z: wp.array[float]):
        i = wp.tid()
        z[i] = y[i] * seen[i][0]

    z = wp.zeros(n, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(products, n, [a.seen, a.x], [z])
        wp.launch(once, n, a.given, [a.y])
    tape.backward(grads={z: wp.ones(n, dtype=float), a.y: wp.array(adj)})
    np.testing.assert_allclose(a.x.grad.numpy(), 2 * adj + seen[:, 0], rtol=1e-5)
    a.check(np.ones(n, int), adj, seen)


def test_arrays_that_overlap_are_refused():
    a = Arrays(4, 30)
    both = wp.zeros(12, dtype=float)
    given = [a.count, both[:8], a.seen, wp.array(both[4:8], dtype=float, requires_grad=True)]
    given[3] = both[6:10]
    given[3].requires_grad = True
    with wp.Tape() as tape:
        wp.launch(once, 4, given, [a.y])
    with pytest.raises(wp.LaunchError, match="'log', which it writes, overlaps 'x'"):
        tape.backward(grads={a.y: wp.ones(4, dtype=float)})
    with wp.Tape() as tape:
        wp.launch(once, 4, [a.count, a.x.grad, a.seen, a.x], [a.y])
    with pytest.raises(wp.LaunchError, match="overlaps a gradient"):
        tape.backward(grads={a.y: wp.ones(4, dtype=float)})


def test_arrays_of_jax_stay_as_they_are():
    n = 4
    count, log, seen = jnp.array([5]), jnp.zeros(30), jnp.ones((n, 2))
    adj = jnp.asarray(RNG.normal(size=n), jnp.float32)
    back = jax.vjp(lambda x: wp.jax_kernel(once)(count, log, seen, x, launch_dims=n, output_dims=n)[0], jnp.ones(n))[1]
    np.testing.assert_allclose(back(adj)[0], 2 * adj, rtol=1e-6)
    assert count.tolist() == [5] and not log.any() and (seen == 1).all()


def numpy_arrays(n, size):
    """The arguments of `once` as arrays of NumPy, and what each of them is after one adjoint launch."""
    count, log, seen = np.array([5], np.int32), np.zeros(size, np.float32), np.zeros((n, 2), np.float32)
    x, adj = (RNG.normal(size=n).astype(np.float32) for _ in range(2))
    return [count, log, seen, x], adj


def check_numpy(given, adj, runs):
    count, log, seen, x = given
    n = len(x)
    assert count.tolist() == [5 + runs * n]
    np.testing.assert_allclose(np.sort(log[5 : 5 + runs * n]), np.sort(np.repeat(3 * adj, runs)), rtol=1e-6)
    assert not log[:5].any() and not log[5 + runs * n :].any()
    np.testing.assert_allclose(seen, runs * np.stack([x, adj], 1), rtol=1e-5)


@pytest.mark.parametrize("n", [1, 7, 100])
@pytest.mark.parametrize("output, gradient", [("array", "array"), ("array", "wanted"), ("shape", "array")])
def test_adjoint_launches_on_numpy(n, output, gradient):
    """Also where a launch is repeated."""
    given, adj = numpy_arrays(n, 5 * n + 9)
    y = np.zeros(n, np.float32) if output == "array" else n
    for runs in range(1, 5):
        own = np.zeros(n, np.float32) if gradient == "array" else True
        found = wp.launch(once, n, given, [y], adj_inputs=[None, None, None, own], adj_outputs=[adj], adjoint=True)
        np.testing.assert_allclose(found[0], 2 * adj, rtol=1e-6)
        check_numpy(given, adj, runs)


def test_records_and_strided_arrays_of_numpy():
    n = 6
    given, adj = numpy_arrays(n, 60)
    holders = [np.zeros((*a.shape, 2), a.dtype) for a in given]
    for holder, a in zip(holders, given, strict=True):
        holder[..., 0] = a
    given = [holder[..., 0] for holder in holders]
    gradient = np.zeros(n, np.float32)
    record = wp.launch(
        once, n, given, [n], adj_inputs=[None, None, None, gradient], adj_outputs=[adj], adjoint=True, record_cmd=True
    )
    for runs in range(1, 5):
        record.launch()
        np.testing.assert_allclose(gradient, 2 * runs * adj, rtol=1e-6)
        check_numpy(given, adj, runs)
        assert not any(holder[..., 1].any() for holder in holders)


def test_arrays_of_numpy_that_may_not_be_written_stay():
    given, adj = numpy_arrays(4, 40)
    for k in range(3):
        given[k].flags.writeable = False
    (found,) = wp.launch(once, 4, given, [4], adj_inputs=[None, None, None, True], adj_outputs=[adj], adjoint=True)
    np.testing.assert_allclose(found, 2 * adj, rtol=1e-6)
    check_numpy(given, adj, 0)


def test_arrays_of_numpy_that_overlap_are_refused():
    """Each time: a launch that is repeated looks again."""
    given, adj = numpy_arrays(4, 40)
    y = np.zeros(4, np.float32)

    def launch(arrays, gradient):
        wp.launch(once, 4, arrays, [y], adj_inputs=[None, None, None, gradient], adj_outputs=[adj], adjoint=True)

    for _ in range(3):
        launch(given, np.zeros(4, np.float32))
        for log, x, gradient in (
            (given[3], given[3], np.zeros(4, np.float32)),
            (given[1], given[1][:4], True),
            (given[1], given[3], given[1][3:7]),
        ):
            with pytest.raises(wp.LaunchError, match="'log'"):
                launch([given[0], log, given[2], x], gradient)


def test_a_repeated_backward_pass_is_native(monkeypatch):
    """From the third time on its native steps run the side effects, and what others keep of these arrays stays."""
    slow, go_back = [], Backward._go_back
    monkeypatch.setattr(Backward, "_go_back", lambda command: (slow.append(command), go_back(command)))
    n = 7
    a, adj = Arrays(n, 200), RNG.normal(size=n).astype(np.float32)
    seen = a.seen.numpy().copy()
    upstream = wp.array(adj)
    tape = wp.Tape()
    for runs in range(1, 8):
        with tape:
            wp.launch(once, n, a.given, [a.y])
        kept = a.count.__array__().copy(), jnp.asarray(a.log.numpy()), wp.to_jax(a.seen)
        tape.backward(grads={a.y: upstream})
        a.check(np.ones(n, int), adj, seen, runs)
        np.testing.assert_allclose(a.x.grad.numpy(), 2 * adj, rtol=1e-6)
        np.testing.assert_allclose(kept[2], seen + (runs - 1) * np.stack([a.x.numpy(), adj], 1), rtol=1e-5, atol=1e-5)
        tape.reset()
        a.x.grad.zero_()
        a.y.grad.zero_()
    assert len(slow) == 2
