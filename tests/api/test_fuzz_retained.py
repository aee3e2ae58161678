"""Random programs with an array that has `retain_grad`: what it keeps of gradients is the sum over all it held."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzz_profiles import LONG, check_seeds
from taped_kernels import Array, N, accumulate, assert_contents, bend, evens, multiply

import jwarp as wp


@wp.kernel
def curved(x: Array, y: Array):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i] + x[i]


class Retained:
    """Two arrays and one with `retain_grad`, and the same as values: whatever overwrites the last one adds a zero.

    The gradients of these zeros, where something was overwritten, and that of what was there first are what it retains.
    """

    def __init__(self, contents):
        self.arrays = [wp.array(x, dtype=wp.float64, requires_grad=True) for x in contents]
        self.arrays[2].retain_grad = True
        self.steps, self.masks = [], []

    def then(self, target, by, overwritten=None):
        """A step that overwrites elements of an array; those `overwritten` count where it is the last one."""
        self.steps.append((target, by))
        is_counted = overwritten is not None and target == 2
        self.masks.append(np.where(overwritten, 1.0, 0.0) * np.ones(N) if is_counted else np.zeros(N))

    def after(self, values, zeros):
        for (target, by), zero, mask in zip(self.steps, zeros, self.masks, strict=True):
            values = list(values)
            values[target] = by(values) + zero * mask
        return values


def retained_step(r, both):
    a, b, c = (r.randrange(3) for _ in range(3))
    k, everywhere = r.uniform(-1, 1), np.ones(N, bool)
    first, count = r.randrange(3), r.randrange(1, 4)
    cut = slice(first, first + count)
    x, y, z = (both.arrays[n] for n in (a, b, c))
    kind = r.randrange(10)
    if kind == 0 and c not in (a, b):
        wp.launch(multiply, N, inputs=[x, y], outputs=[z])
        both.then(c, lambda v: v[a] * v[b], everywhere)
    elif kind == 1 and a != b:
        wp.launch(accumulate, N, inputs=[x, k, y])
        both.then(b, lambda v: v[b] + k * v[a] ** 2)
    elif kind == 2 and a != b:
        wp.launch(evens, N, inputs=[x, y])
        even = np.arange(N) % 2 == 0
        both.then(b, lambda v: jnp.where(even, v[a] ** 2, v[b]), even)
    elif kind == 3 and a != b:
        wp.launch(curved, N, inputs=[x, y])
        both.then(b, lambda v: v[a] ** 3 + v[a], everywhere)
    elif kind == 4:
        x.fill_(k)
        both.then(a, lambda v: jnp.full(N, k), everywhere)
    elif kind == 5:
        x[cut].fill_(k)  # views retain nothing
        both.then(a, lambda v: v[a].at[cut].set(k))
    elif kind == 6:
        (wp.copy if r.random() < 0.5 else wp.array.assign)(x, y)
        both.then(a, lambda v: v[b], everywhere)
    elif kind == 7 and a != b:
        wp.launch(multiply, count, inputs=[x[cut], x[cut]], outputs=[y[cut]])
        both.then(b, lambda v: v[b].at[cut].set(v[a][cut] ** 2))
    elif kind == 8 and a != 2:
        wp.launch(bend, N, inputs=[x, k])
        both.then(a, lambda v: jnp.sin(v[a]) + k * v[a] ** 2)
    elif kind == 9 and a != b:
        wp.utils.array_scan(x, y, inclusive=True)
        both.then(b, lambda v: jnp.cumsum(v[a]), everywhere)


def check_retained(seed):
    """Check the gradient of an array with `retain_grad` after a random program, recorded or in a graph."""
    r, make = random.Random(seed), np.random.default_rng(seed)
    contents, weights = ([make.uniform(-1, 1, N) for _ in range(3)] for _ in range(2))
    both, tape = Retained(contents), wp.Tape()
    seeds = [wp.array(w, dtype=wp.float64) for w in weights]

    def back():
        tape.backward(grads=dict(zip(both.arrays, seeds, strict=True)))

    run = None
    if r.random() < 0.5:
        with tape:
            for _ in range(r.randrange(1, 9)):
                retained_step(r, both)
    else:
        with wp.ScopedCapture() as capture:
            with tape:
                for _ in range(r.randrange(1, 9)):
                    retained_step(r, both)
            back()
        run = capture.graph
    zeros = [jnp.zeros(N) for _ in both.steps]
    wanted, pull = jax.vjp(both.after, list(map(jnp.asarray, contents)), zeros)
    gradients, versions = pull(list(map(jnp.asarray, weights)))
    gradients[2] = gradients[2] + sum(g * mask for g, mask in zip(versions, both.masks, strict=True))
    for _ in range(3):
        tape.zero()
        for a in both.arrays:
            a.grad.zero_()
        if run is None:
            back()
        else:
            for a, x in zip(both.arrays, contents, strict=True):
                a.assign(x)
            wp.capture_launch(run)
        assert_contents(both.arrays, wanted)
        for a, g in zip(both.arrays, gradients, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), g, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_retained_gradients_of_random_programs():
    for seed in range(60):
        try:
            check_retained(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.skipif(not LONG, reason="the long profile")
@pytest.mark.usefixtures("x64")
def test_retained_gradients_of_many_random_programs():
    check_seeds(check_retained)


@pytest.mark.usefixtures("x64")
def test_what_reads_and_overwrites_an_array_that_retains_is_refused():
    for change in (
        lambda x, y: wp.utils.array_scan(x, x),
        lambda x, y: wp.utils.radix_sort_pairs(y, x, 3),
        lambda x, y: wp.launch(bend, N, inputs=[x, 0.5]),
    ):
        x, y = (wp.array(np.arange(6.0), dtype=wp.float64, requires_grad=True) for _ in range(2))
        x.retain_grad, tape = True, wp.Tape()
        with tape:
            change(x, y)
        with pytest.raises(wp.LaunchError, match="has retain_grad, and is both read and overwritten"):
            tape.backward(grads={x: wp.ones(N, dtype=wp.float64)})
