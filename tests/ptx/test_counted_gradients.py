"""Values and gradients of launches whose threads count: on a GPU, no thread does more where there are more of them."""

import numpy as np
import pytest
from forked_tests import own_process

import jwarp as wp
from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")

PAIRS = 4  # with each point that follows


@wp.kernel
def compacted(x: wp.array[float], count: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.0:
        y[wp.atomic_add(count, 0, 1)] = x[i] * x[i]


@wp.kernel
def find_contacts(x: wp.array[float], count: wp.array[int], depth: wp.array[float]):
    i = wp.tid()
    for k in range(PAIRS):
        j = i + k + 1
        if j < x.shape[0]:
            d = 0.5 - wp.abs(x[i] - x[j])
            if d > 0.0:
                place = wp.atomic_add(count, 0, 1)
                if place < depth.shape[0]:
                    depth[place] = d


@wp.kernel
def push(count: wp.array[int], depth: wp.array[float], force: wp.array[float]):
    i = wp.tid()
    if i < count[0]:
        force[i] = depth[i] * depth[i]


@wp.kernel
def by_cell(x: wp.array[float], cell: wp.array[int], count: wp.array[int], y: wp.array2d[float]):
    i = wp.tid()
    place = wp.atomic_add(count, cell[i], 1)
    if place < y.shape[1]:
        y[cell[i], place] = x[i] * x[i]


@wp.kernel
def linked(x: wp.array[float], cell: wp.array[int], head: wp.array[int], following: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    before = wp.atomic_exch(head, cell[i], i + 1)
    following[i] = before
    y[i] = x[i] * x[i] * float(before)


@wp.kernel
def claimed(x: wp.array[float], cell: wp.array[int], owner: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if wp.atomic_cas(owner, cell[i], 0, i + 1) == 0:
        y[cell[i]] = wp.sin(x[i])


@wp.kernel
def from_free_list(x: wp.array[float], free: wp.array[int], left: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.0:
        top = wp.atomic_sub(left, 0, 1) - 1
        if top >= 0:
            y[free[top]] = x[i] * x[i]


@wp.kernel
def rows_of_worlds(x: wp.array2d[float], count: wp.array[int], rows: wp.array2d[float]):
    world, i = wp.tid()
    if x[world, i] > 0.0:
        row = wp.atomic_add(count, world, 1)
        if row < rows.shape[1]:
            rows[world, row] = x[world, i] * x[world, i]


def programs(n):
    """Functions of n floats, by name."""
    import jax.numpy as jnp

    rng = np.random.default_rng(n)
    cell = rng.integers(0, n // 2, n, np.int32)
    free = rng.permutation(n).astype(np.int32)

    def contacts(x):
        count, depth = wp.launch(find_contacts, n, [x], [1, 2 * n])
        return wp.launch(push, 2 * n, [count, depth], [2 * n])[0]

    def rows(x):
        return wp.launch(rows_of_worlds, (n // 16, 16), [x.reshape(-1, 16)], [n // 16, (n // 16, 12)])[1]

    return {
        "compaction": lambda x: wp.launch(compacted, n, [x], [1, n])[1],
        "contacts": contacts,
        "counters of cells": lambda x: wp.launch(by_cell, n, [x, cell], [n // 2, (n // 2, 4)])[1],
        "heads of lists": lambda x: wp.launch(linked, n, [x, cell], [n // 2, n, n])[2],
        "first to claim": lambda x: wp.launch(claimed, n, [x, cell], [n // 2, n // 2])[1],
        "free list": lambda x: wp.launch(from_free_list, n, [x, free], [jnp.full(1, n, jnp.int32), n])[1],
        "rows of worlds": rows,
    }


N, GROWTH = 128, 1.6


@own_process(seconds=300)
def test_no_thread_does_more_where_there_are_more():
    import jax
    import jax.numpy as jnp
    from ptx_xla import DEVICE, on_cuda

    if jax.__version_info__ > (0, 10, 2):
        # XLA for processors ends the process at a cumsum that these versions have lowered for CUDA; it is not counted.
        jnp.cumsum = lambda x, dtype: jax.lax.associative_scan(jnp.add, x.astype(dtype))

    def steps(name, n):
        """The instructions of the busiest thread of each launch, in all; the values are those of a processor."""
        x = np.random.default_rng(1).uniform(-1, 1, n).astype(np.float32)

        def both(x):
            y, back = jax.vjp(programs(n)[name], x)
            return y, back(jnp.cos(jnp.arange(y.size, dtype=jnp.float32)).reshape(y.shape))[0]

        first = len(DEVICE.counts)
        found, expected = on_cuda(both, x), jax.jit(both)(x)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        return sum(counts.busiest for counts in DEVICE.counts[first:])

    grown = {name: steps(name, 4 * N) / steps(name, N) for name in programs(N)}
    print(grown)
    assert max(grown.values()) <= GROWTH, grown
