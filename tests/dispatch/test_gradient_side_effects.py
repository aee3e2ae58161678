"""Custom gradients write to arrays of the program: counters, logs and stores, once for each call."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

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
