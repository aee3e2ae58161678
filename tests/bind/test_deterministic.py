"""`wp.config.deterministic`: atomic operations that give the same in every run, on any number of threads."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import jwarp as wp
from jwarp import _native
from jwarp.compiler.program import program_of
from jwarp.config import _from_environment

ROWS, COLUMNS = 60, 130


@wp.kernel
def places(x: wp.array2d[float], k: wp.array[float], n: wp.array[int], y: wp.array[float], last: wp.array[float]):
    i, j = wp.tid()
    v = x[i, j]
    trips = int(wp.abs(v) * 3.0)
    for t in range(trips):
        place = wp.atomic_add(n, 0, 1)
        v = v * k[0] + float(place % 7)
        if place < y.shape[0]:
            y[place] = v * k[1] * float(t + 1)
    wp.atomic_exch(last, j % 5, v)


@wp.kernel
def floats_in_order(x: wp.array2d[float], total: wp.array[float], found: wp.array[float]):
    i, j = wp.tid()
    before = wp.atomic_add(total, 0, x[i, j])
    found[(i * 7 + j) % 50] = before


def with_threads(count, function):
    _native.set_thread_limit(count, eager=count > 1)
    try:
        return [np.asarray(a) for a in jax.block_until_ready(function())]
    finally:
        _native.set_thread_limit(0)


def in_order(x, k, count):
    """The results of `places`, in float32."""
    n, y, last, one = 0, np.zeros(count, np.float32), np.zeros(5, np.float32), np.float32(1)
    for (_, j), v in np.ndenumerate(x):
        for t in range(int(np.abs(v) * np.float32(3))):
            v = np.float32(np.float64(v) * np.float64(k[0]) + n % 7)  # rounded once
            if n < count:
                y[n] = v * k[1] * (one * (t + 1))
            n += 1
        last[j % 5] = v
    return [np.array([n]), y, last]


def test_the_bits_are_those_of_threads_in_order():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, ROWS, COLUMNS)).astype(np.float32)
    k = np.array([0.6, 1.3], np.float32)

    def launch(x, k):
        return wp.launch(places, (ROWS, COLUMNS), [x, k], [1, 2000, 5])

    weights = jnp.asarray(rng.normal(size=2000), jnp.float32)

    def loss(x, k):
        return jax.vmap(launch, (0, None))(x, k)[1] @ weights

    with wp.config(deterministic=True):
        run = jax.jit(lambda x: jax.vmap(launch, (0, None))(x, k))
        slopes = jax.jit(lambda x: jax.grad(lambda x, k: loss(x, k).sum(), (0, 1))(x, k))
        batches = [with_threads(count, lambda: run(x)) for count in (1, 2, 4)]
        by_xs = [with_threads(count, lambda: slopes(x)) for count in (1, 2, 4)]
    assert all(np.any(a) for a in by_xs[0])
    for results in (batches, by_xs):
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                assert_array_equal(a, b)
    for b in range(3):
        for found, expected in zip(batches[0], in_order(x[b], k, 2000), strict=True):
            np.testing.assert_allclose(found[b], expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_repeated_threads_follow_the_others():
    """More dimensions than the kernel reads: all threads, and then all of them again."""
    with wp.config(deterministic=True):
        run = jax.jit(lambda x: wp.launch(places, (2, 70, 3), [x, jnp.ones(2)], [1, 900, 5]))
        x = jnp.asarray(np.random.default_rng(1).normal(size=(2, 70)), jnp.float32)
        results = [with_threads(count, lambda: run(x)) for count in (1, 2, 4)]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert_array_equal(a, b)
    expected = in_order(np.concatenate([x, x, x]), np.ones(2, np.float32), 900)
    for found, wanted in zip(results[0], expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_floats_that_are_read_while_they_are_added_up():
    x = jnp.asarray(np.random.default_rng(2).normal(size=(ROWS, COLUMNS)), jnp.float32)
    with wp.config(deterministic=True):
        run = jax.jit(lambda x: wp.launch(floats_in_order, x.shape, [x], [1, 50]))
        first, *others = (with_threads(count, lambda: run(x)) for count in (1, 2, 4, 4))
    assert_array_equal(first[0], np.cumsum(np.ravel(x), dtype=np.float32)[-1:])
    for other in others:
        for a, b in zip(first, other, strict=True):
            assert_array_equal(a, b)


def test_who_may_be_told(monkeypatch):
    """The setting, in its three forms, and the options of a kernel and of its module."""
    mode = wp.DeterministicMode
    assert wp.config.deterministic is mode.NOT_GUARANTEED and not mode.NOT_GUARANTEED
    for value in (True, mode.RUN_TO_RUN):
        with wp.config(deterministic=value):
            assert wp.config.deterministic is mode.RUN_TO_RUN
            assert program_of(places, wp.config.settings).kernel.order
    with wp.config(deterministic=mode.GPU_TO_GPU):
        assert program_of(places, wp.config.settings).kernel.order
    wp.config.deterministic = mode.RUN_TO_RUN
    wp.config.deterministic = False
    assert wp.config.deterministic is mode.NOT_GUARANTEED
    for value in (1, "RUN_TO_RUN", None):
        with pytest.raises(ValueError, match="wp.config.deterministic must be True, False or one of"):
            wp.config.deterministic = value
    apart = wp.kernel(module="unique", module_options={"deterministic": True})(places.python)
    assert program_of(apart, wp.config.settings).kernel.order
    assert not program_of(places, wp.config.settings).kernel.order
    with pytest.raises(wp.KernelTypeError, match="deterministic must be True, False or one of"):
        wp.kernel(module="unique", module_options={"deterministic": 3})(places.python)
    wp.set_module_options({"deterministic": mode.RUN_TO_RUN}, module="places_of_others")
    assert program_of(wp.kernel(places.python, module="places_of_others"), wp.config.settings).kernel.order
    for word, named in (("1", mode.RUN_TO_RUN), ("off", mode.NOT_GUARANTEED)):
        monkeypatch.setenv("JWARP_DETERMINISTIC", word)
        assert _from_environment().deterministic is named


@wp.kernel
def compacted(x: wp.array[float], n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    for k in range(3):
        if x[i] > float(k) * 0.4:
            place = wp.atomic_add(n, 0, 1)
            y[place] = x[i] * x[i]


def test_adjoints_apart_from_their_launch():
    """They do not know what the launch found, unless it is what every launch finds."""
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=40).astype(np.float32), rng.normal(size=120).astype(np.float32)
    expected, place = np.zeros(40), 0
    for i in range(40):
        for k in range(3):
            if x[i] > np.float32(k) * np.float32(0.4):
                expected[i] += 2 * x[i] * w[place]
                place += 1

    def functional(**options):
        made = wp.launch(compacted, 40, [jnp.asarray(x)], [1, 120], adjoint=True, adj_outputs=[None, w], **options)
        return made.launch()[0] if options else made[0]

    def in_place(**options):
        n, y, slope = np.array([0], np.int32), np.zeros(120, np.float32), np.zeros(40, np.float32)
        made = wp.launch(
            compacted, 40, [x], [n, y], adjoint=True, adj_inputs=[slope], adj_outputs=[None, w.copy()], **options
        )
        if options:
            made.launch()
        assert n[0] == 0  # the counter is not touched
        return slope

    for run in (functional, in_place):
        for options in ({}, {"record_cmd": True}):
            with pytest.raises(wp.NotDifferentiableError) as error:
                run(**options)
            assert "wp.config.deterministic = True" in str(error.value)
            assert "place = wp.atomic_add(n, 0, 1)" in str(error.value) and "^^^^" in str(error.value)
            with wp.config(deterministic=True):
                np.testing.assert_allclose(run(**options), expected, rtol=1e-6)
    assert "in one order" in wp.inspect(compacted, "ir", adjoint=True)
    wp.check_grads(compacted, 40, [jnp.asarray(x)], [1, 120], order=1)


@wp.kernel
def locked(x: wp.array[float], at: wp.array[int], lock: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    while wp.atomic_cas(lock, 0, 0, 1) == 1:
        pass
    y[at[i]] = y[at[i]] * 0.5 + x[i]
    wp.atomic_exch(lock, 0, 0)


@pytest.mark.parametrize("deterministic", [True, False])
def test_threads_that_wait_have_no_derivative(deterministic):
    x, at = jnp.ones(5), jnp.zeros(5, jnp.int32)
    with wp.config(deterministic=deterministic):

        def run(x):
            return wp.launch(locked, 5, [x, at], [1, 1])[1].sum()

        np.testing.assert_allclose(run(x), 1.9375)
        for differentiated in (jax.grad(run), lambda x: jax.jvp(run, (x,), (x,))):
            with pytest.raises(wp.NotDifferentiableError) as error:
                differentiated(x)
            assert "wait for each other" in str(error.value)
            assert "while wp.atomic_cas(lock, 0, 0, 1) == 1:" in str(error.value) and "^^^^" in str(error.value)
