"""Derivatives of kernels that use what atomic operations on integers find, against Python that runs them in order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counter_kernels import (
    CELLS,
    KERNELS,
    F,
    M,
    N,
    compacted,
    counted_by_cell,
    first_wins,
    free_list,
    in_python,
    in_turn,
    point,
    several_places,
)
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp
from jwarp.analysis.thread_order import awaited
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.program import program_of


@pytest.fixture(autouse=True)
def double_precision(x64):
    yield


each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
WEIGHTS = np.random.default_rng(7).normal(size=M)


def loss(kernel, x, cell, trips, n, y):
    _, after = wp.launch(kernel, N, [x, cell, trips], [n, y])
    return jnp.sum(jnp.sin(after) * WEIGHTS)


def loss_in_python(kernel, x, cell, trips, n, y):
    return np.sum(np.sin(in_python(kernel, x, cell, trips, n, y)[1]) * WEIGHTS)


def slopes(kernel, at):
    """Differences of fourth order by each element of x."""
    x, *rest = at
    h = 1e-4
    found = []
    for e in np.eye(N):
        steps = [loss_in_python(kernel, x + k * h * e, *rest) for k in (-2, -1, 1, 2)]
        found.append(np.dot(steps, (1, -8, 8, -1)) / (12 * h))
    return np.array(found)


@each_kernel
def test_threads_take_places_in_their_order(kernel):
    """In a deterministic launch, eagerly, compiled, in place, and in the interpreter."""
    at = point(1)
    expected = in_python(kernel, *at)
    x, cell, trips, n, y = map(jnp.asarray, at)
    with wp.config(deterministic=True):
        found = [wp.launch(kernel, N, [x, cell, trips], [n, y])]
        found.append(jax.jit(lambda x: wp.launch(kernel, N, [x, cell, trips], [n, y]))(x))
        found.append(wp.launch(kernel, N, at[:3], [a.copy() for a in at[3:]]))
        found.append(run(program_of(kernel, wp.config.settings).kernel, (N,), at)[3:])
    for arrays in found:
        for array, wanted in zip(arrays, expected, strict=True):
            assert_allclose(array, wanted, rtol=1e-12)


# Those whose derivatives a scan tells what operations find: in the order of the threads, whatever the settings say.
SCANNED = [compacted, several_places, counted_by_cell, free_list, first_wins]
each_order = pytest.mark.parametrize(
    "kernel, deterministic",
    [(kernel, True) for kernel in KERNELS] + [(kernel, False) for kernel in SCANNED],
    ids=lambda x: getattr(x, "name", str(x)),
)


@each_order
def test_gradients(kernel, deterministic):
    """In both modes, eagerly and compiled, and for a batch."""
    at = point(2)
    x, *rest = map(jnp.asarray, at)
    expected = slopes(kernel, at)

    def value(x):
        return loss(kernel, x, *rest)

    with wp.config(deterministic=deterministic):
        assert_allclose(jax.grad(value)(x), expected, rtol=1e-6, atol=1e-7)
        found, by_x = jax.jit(jax.value_and_grad(value))(x)
        assert_allclose(found, loss_in_python(kernel, *at), rtol=1e-12)
        assert_allclose(by_x, expected, rtol=1e-6, atol=1e-7)
        assert_allclose(jax.jvp(value, (x,), (x,))[1], np.dot(expected, at[0]), rtol=1e-6, atol=1e-7)
        more = jnp.stack([x, -x, 0.5 * x])
        by_each = jax.jit(jax.vmap(jax.grad(value)))(more)
    for row, one in zip(by_each, more, strict=True):
        assert_allclose(row, slopes(kernel, (np.asarray(one), *at[1:])), rtol=1e-6, atol=1e-7)


def differences(function, x, d, h):
    """Differences of fourth order along `d`."""
    return sum(c * function(x + k * h * d) for k, c in zip((-2, -1, 1, 2), (1, -8, 8, -1), strict=True)) / (12 * h)


@each_kernel
def test_gradients_of_the_order_that_the_launch_had(kernel):
    """Many threads: the value that comes with the gradient, and that of a batch, moves as the gradient says."""
    rng = np.random.default_rng(6)
    count = 70
    cell, trips = rng.integers(0, CELLS, count, np.int32), rng.integers(0, 4, count, np.int32)
    n = np.where(np.arange(8 + count) == 6, 15, 0).astype(np.int32)
    rest = [jnp.asarray(a) for a in (cell, trips, n, rng.normal(size=100))]
    weights = jnp.asarray(rng.normal(size=100))

    def value(x):
        return jnp.sum(jnp.sin(wp.launch(kernel, count, [x, *rest[:2]], rest[2:])[1]) * weights)

    both = jax.jit(jax.vmap(jax.value_and_grad(value)))
    x, d = (
        jnp.asarray(rng.uniform(0.1, 1, (2, count)) * rng.choice([-1, 1], (2, count))),
        jnp.asarray(rng.normal(size=(2, count))),
    )
    slope = jnp.sum(both(x)[1] * d, axis=1)
    assert_allclose(slope, differences(lambda x: both(x)[0], x, d, 2e-5), rtol=1e-5, atol=1e-6)
    assert_allclose(jax.vmap(lambda x, d: jax.jvp(value, (x,), (d,))[1])(x, d), slope, rtol=1e-9, atol=1e-10)


@each_kernel
def test_second_derivatives(kernel):
    at = point(3)
    x, *rest = map(jnp.asarray, at)

    def value(x):
        return loss(kernel, x, *rest)

    slope = jax.grad(value)
    for d in jnp.asarray(np.random.default_rng(3).normal(size=(2, N))):
        forward = jax.jvp(slope, (x,), (d,))[1]
        assert_allclose(forward, differences(slope, x, d, 2e-5), rtol=1e-5, atol=1e-5)
        assert_allclose(jax.grad(lambda x, d=d: jnp.vdot(slope(x), d))(x), forward, rtol=1e-9, atol=1e-10)
        assert_allclose(jax.grad(lambda x, d=d: jax.jvp(value, (x,), (d,))[1])(x), forward, rtol=1e-9, atol=1e-10)


# Several launches


@wp.kernel
def link(x: wp.array[F], cell: wp.array[int], head: wp.array[int], following: wp.array[int], v: wp.array[F]):
    i = wp.tid()
    v[i] = x[i] * x[i]
    following[i] = wp.atomic_exch(head, cell[i], i + 1)


@wp.kernel
def walk_lists(head: wp.array[int], following: wp.array[int], v: wp.array[F], y: wp.array[F]):
    c = wp.tid()
    total = F(0.0)
    i = head[c]
    while i > 0:
        total = total * F(0.5) + wp.sin(v[i - 1])
        i = following[i - 1]
    y[c] = total


@wp.kernel
def best_key(key: wp.array[int], cell: wp.array[int], best: wp.array[int]):
    i = wp.tid()
    wp.atomic_min(best, cell[i], key[i])


@wp.kernel
def take_best(x: wp.array[F], key: wp.array[int], cell: wp.array[int], best: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    if best[cell[i]] == key[i]:
        y[cell[i]] = x[i] * x[i]


@wp.kernel
def count(cell: wp.array[int], counts: wp.array[int]):
    wp.atomic_add(counts, cell[wp.tid()], 1)


@wp.kernel
def fill(x: wp.array[F], cell: wp.array[int], start: wp.array[int], filled: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    place = start[cell[i]] + wp.atomic_add(filled, cell[i], 1)
    y[place] = wp.sin(x[i]) * F(1 + place)


def lists(x, cell):
    head, following, v = wp.launch(link, N, [x, cell], [CELLS, N, N])
    return wp.launch(walk_lists, CELLS, [head, following, v], [CELLS])[0]


def argmin(x, cell):
    key = jnp.asarray(np.random.default_rng(5).permutation(N), jnp.int32)
    (best,) = wp.launch(best_key, N, [key, cell], [jnp.full(CELLS, 1000, jnp.int32)])
    return wp.launch(take_best, N, [x, key, cell, best], [CELLS])[0]


def sorted_by_cell(x, cell):
    (counts,) = wp.launch(count, N, [cell], [CELLS])
    start = jnp.cumsum(counts, dtype=jnp.int32) - counts
    return wp.launch(fill, N, [x, cell, start], [CELLS, N])[1]


def lists_by_hand(x, cell):
    y = []
    for c in range(CELLS):
        total = 0.0
        for i in np.flatnonzero(cell == c)[::-1]:
            total = total * 0.5 + jnp.sin(x[i] * x[i])
        y.append(total)
    return jnp.stack(y)


def argmin_by_hand(x, cell):
    key = np.random.default_rng(5).permutation(N)
    of = [np.flatnonzero(cell == c) for c in range(CELLS)]
    return jnp.stack([x[i[np.argmin(key[i])]] ** 2 if i.size else 0.0 for i in of])


def sorted_by_hand(x, cell):
    return jnp.sin(x[np.argsort(cell, kind="stable")]) * np.arange(1.0, N + 1)


@pytest.mark.parametrize(
    "pipeline, by_hand",
    [(lists, lists_by_hand), (argmin, argmin_by_hand), (sorted_by_cell, sorted_by_hand)],
    ids=lambda f: f.__name__,
)
def test_pipelines(pipeline, by_hand):
    """In order where derivatives read what was counted, and in any order that the launch had otherwise."""
    x, cell, *_ = point(4)
    with wp.config(deterministic=True):
        assert_allclose(pipeline(jnp.asarray(x), jnp.asarray(cell)), by_hand(x, cell), rtol=1e-12)

        def value(f, x):
            y = f(x, jnp.asarray(cell) if f is pipeline else cell)
            return jnp.sum(jnp.sin(y) * WEIGHTS[: y.size])

        scanned = jax.jit(
            lambda x: jax.lax.scan(lambda s, _: (s + value(pipeline, x * jnp.cos(s)), None), 0.1, None, 3)[0]
        )
        kept = jax.checkpoint(lambda x: value(pipeline, jnp.sin(x)))

        def scanned_by_hand(x):
            s = 0.1
            for _ in range(3):
                s += value(by_hand, x * jnp.cos(s))
            return s

        x = jnp.asarray(x)
        assert_allclose(jax.grad(scanned)(x), jax.grad(scanned_by_hand)(x), rtol=1e-10)
        assert_allclose(jax.grad(kept)(x), jax.grad(lambda x: value(by_hand, jnp.sin(x)))(x), rtol=1e-10)


@wp.kernel
def spread_out(x: wp.array[F], n: wp.array[int], y: wp.array[F]):
    """A counter whose value is read again by what is differentiated: no order could be guessed."""
    i = wp.tid()
    place = wp.atomic_add(n, 0, 1)
    y[i] = x[i] * F(place)


def test_what_the_launch_found_is_what_its_derivative_sees():
    """Also where the places are results: the gradient belongs to the values that came out with it."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=5000))

    @jax.jit
    def both(x):
        y, back = jax.vjp(lambda x: wp.launch(spread_out, x.size, [x], [1, x.size])[1], x)
        return y, back(jnp.ones(x.size))[0]

    y, slope = both(x)
    assert_allclose(slope, y / x, rtol=1e-12)
    assert_array_equal(np.sort(np.rint(y / x)), np.arange(x.size))


# Kernels whose threads wait for each other


@wp.func
def acquire(lock: wp.array[int], at: int):
    while wp.atomic_cas(lock, at, 0, 1) == 1:
        pass


@wp.kernel
def locked(cell: wp.array[int], lock: wp.array[int], total: wp.array[int]):
    """A lock for each cell, around a sum that is not atomic."""
    i = wp.tid()
    acquire(lock, cell[i])
    total[cell[i]] = total[cell[i]] * 3 % 1009 + i
    wp.atomic_exch(lock, cell[i], 0)


@wp.kernel
def locked_by_flag(cell: wp.array[int], lock: wp.array[int], total: wp.array[int]):
    i = wp.tid()
    waits = bool(True)  # noqa: UP018
    while waits:
        if wp.atomic_exch(lock, cell[i], 1) == 0:
            waits = False
    total[cell[i]] = total[cell[i]] * 3 % 1009 + i
    lock[cell[i]] = 0


@wp.kernel
def not_waiting(cell: wp.array[int], lock: wp.array[int], total: wp.array[int]):
    """Threads that take work until there is none, and one that tries again until it alone has changed an element."""
    i = wp.tid()
    while wp.atomic_add(lock, 0, 1) < 100:
        before = total[cell[i]]
        while wp.atomic_cas(total, cell[i], before, before + 1) != before:
            before = total[cell[i]]
    wp.atomic_add(lock, 1, 1)


@pytest.mark.parametrize("kernel", [locked, locked_by_flag, in_turn], ids=lambda kernel: kernel.name)
def test_threads_that_wait_for_others(kernel):
    rng = np.random.default_rng(2)
    cell = rng.integers(0, 2, (2, 100), np.int32)
    expected = np.zeros((2, 2), np.int32)
    for row, cells in zip(expected, cell, strict=True):
        for i, c in enumerate(cells):
            row[c] = row[c] * 3 % 1009 + i
    lock, total = np.zeros((2, 2), np.int32), np.zeros((2, 2), np.int32)
    assert awaited(kernel.ir()) is not None
    _, found = jax.vmap(lambda cell: wp.launch(kernel, 100, [cell], [2, 2]))(jnp.asarray(cell))
    assert_array_equal(found, expected)
    wp.launch(kernel, 100, [cell[0]], [lock[0], total[0]])
    assert_array_equal(total[0], expected[0])
    assert_array_equal(run(kernel.ir(), (100,), (cell[1], lock[1], total[1]))[-1], expected[1])


def test_loops_that_go_on_by_themselves_run_in_step():
    assert awaited(not_waiting.ir()) is None
    lock, total = wp.launch(not_waiting, 50, [jnp.zeros(50, jnp.int32)], [2, 2])
    assert_array_equal(total, [100, 0])
    assert_array_equal(lock, [150, 50])


@wp.kernel
def relaxed(cell: wp.array[int], error: wp.array[float], steps: wp.array[int]):
    """Each iteration changes what its condition looks at, at a place that no other thread has, which nobody knows."""
    i = wp.tid()
    c = cell[i]
    error[c] = float(1 + i)
    while error[c] > 0.5:
        error[c] = error[c] * 0.5
        steps[i] = steps[i] + 1
    while error[c] > 0.01:
        error[c] -= 0.125


def test_loops_that_change_what_they_look_at_wait_for_nobody():
    assert awaited(relaxed.ir()) is None and not program_of(relaxed, wp.config.settings).gpu_kernel.order
    cell = np.random.default_rng(3).permutation(50).astype(np.int32)
    _, steps = wp.launch(relaxed, 50, [jnp.asarray(cell)], [50, 50])
    assert_array_equal(steps, np.ceil(np.log2(1 + np.arange(50))) + 1)


# Kernels with tiles: blocks run in order, and the lanes of one statement


@wp.kernel
def places_of_lanes(x: wp.array[F], n: wp.array[int], y: wp.array[F]):
    i, _ = wp.tid()
    v = wp.untile(wp.tile_load(x, shape=64, offset=(i * 64,)))
    place = wp.atomic_add(n, 0, 1)
    if v > F(0.0):
        other = wp.atomic_add(n, 1, 1)
    else:
        other = wp.atomic_sub(n, 1, 2)
    y[place] = v * v * F(other)


@wp.kernel
def places_of_lanes_in_loops(x: wp.array[F], n: wp.array[int], trips: wp.array[int], y: wp.array[F]):
    i, j = wp.tid()
    v = wp.untile(wp.tile_load(x, shape=64, offset=(i * 64,)))
    s = F(0.0)
    for _ in range(trips[i]):
        s += v * F(wp.atomic_add(n, 0, 1))
    y[i * 64 + j] = s * s


def test_blocks_run_in_order():
    x = np.random.default_rng(0).normal(size=192)

    def run(x):
        return wp.launch_tiled(places_of_lanes, [3], [x], [2, 192], block_dim=64)

    y, back = jax.vjp(lambda x: run(x)[1], jnp.asarray(x))
    with wp.config(deterministic=True):
        n, again = run(jnp.asarray(x))
    assert_array_equal(y, again)
    assert n[0] == 192
    assert_allclose(back(jnp.ones(192))[0], 2 * y / x, rtol=1e-12)


def test_places_of_lanes_in_loops_are_not_kept():
    def run(x):
        trips = jnp.asarray([2, 0, 3], jnp.int32)
        return wp.launch_tiled(
            places_of_lanes_in_loops, [3], {"x": x, "trips": trips}, {"n": 1, "y": 192}, block_dim=64
        )["y"]

    x = jnp.asarray(np.random.default_rng(0).normal(size=192))
    y, slope = jax.jvp(run, (x,), (x,))
    assert_allclose(slope, 2 * y, rtol=1e-12)
    with pytest.raises(wp.NotDifferentiableError) as error:
        jax.grad(lambda x: run(x).sum())(x)
    assert "a kernel with tiles uses what atomic operations find" in str(error.value)
    assert "s += v * F(wp.atomic_add(n, 0, 1))" in str(error.value) and "^^^^" in str(error.value)
    assert "help: count in a launch of its own" in str(error.value)
