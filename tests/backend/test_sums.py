"""Arrays that a kernel adds to: compiled code against the interpreter, and the same bits on any threads.

Annotations are not postponed here, as some name a variable.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled_variants import TARGETS, VARIANTS, Compiled
from op_kernels import same

import jwarp as wp
from jwarp import _native
from jwarp.analysis.sums import apart_of, sums_of, weight_of
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.ir.nodes import written_params

BINS = 13


def scattered(dtype):
    @wp.kernel
    def kernel(x: wp.array[dtype], bins: wp.array[int], total: wp.array[dtype]):
        i = wp.tid()
        wp.atomic_add(total, bins[i], x[i])

    return kernel


def scattered_by_some(dtype):
    @wp.kernel
    def kernel(x: wp.array[dtype], bins: wp.array[int], total: wp.array[dtype]):
        i = wp.tid()
        if bins[i] % 3 != 0:
            wp.atomic_add(total, bins[i], x[i])
            if i % 50 == 7:
                total[i % 4] -= x[i]

    return kernel


def into_one(dtype):
    @wp.kernel
    def kernel(x: wp.array[dtype], bins: wp.array[int], total: wp.array[dtype]):
        i = wp.tid()
        total[-2] += x[i]
        if bins[i] > 4:
            total[1] += x[i]
        for k in range(bins[0]):
            total[k] += x[i]

    return kernel


def into_the_same_by_chance(dtype):
    @wp.kernel
    def kernel(x: wp.array[dtype], bins: wp.array[int], total: wp.array[dtype]):
        i = wp.tid()
        wp.atomic_add(total, bins[i // 100], x[i])

    return kernel


def own_and_neighbours(dtype):
    @wp.kernel
    def kernel(x: wp.array[dtype], bins: wp.array[int], total: wp.array[dtype]):
        i = wp.tid()
        total[i] += x[i]
        if bins[i] > 0:
            total[i + 1] += x[i]
        if i > 0:
            total[i - 1] -= x[i]

    return kernel


KERNELS = (scattered, scattered_by_some, into_one, into_the_same_by_chance, own_and_neighbours)
DTYPES = (wp.float32, wp.float64, wp.float16, wp.bfloat16, wp.int8, wp.uint16, wp.int32, wp.uint64)


@pytest.fixture
def random():
    return np.random.default_rng(31)


@pytest.fixture(params=[1, 2, 8])
def threads(request):
    _native.set_thread_limit(request.param, eager=True)
    yield request.param
    _native.set_thread_limit(0)


def cpu_kernel(kernel) -> CpuKernel:
    settings = Settings(cache_dir="")
    return CpuKernel(kernel.ir(settings), settings)


def variants_for(dtype, step):
    """Not every processor has conversions of float16."""
    return [v for v in VARIANTS[::step] if dtype is not wp.float16 or TARGETS[v.target].half]


def assert_as_interpreted(kernel, dims, arguments, variants=VARIANTS):
    made = cpu_kernel(kernel)
    assert made.summary.sums.keys() == set(written_params(made.kernel))
    expected = run(made.kernel, dims, arguments)
    for k, variant in enumerate(variants):
        results = Compiled(made, variant).run(dims, arguments, threads=1 + k % 3)
        assert all(map(same, results, expected)), str(variant)


@pytest.mark.parametrize("build", KERNELS, ids=lambda build: build.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_every_way_to_compile(build, dtype, random):
    """Sums of small integers are exact, so that their order does not show."""
    size = 411
    x = random.integers(1, 3, size).astype(dtype.dtype)
    if dtype.is_float:
        x *= random.choice([-1, 1], size).astype(x.dtype)
    bins = random.integers(-BINS - 5, BINS + 5, size).astype(np.int32)
    bins[0] = 3
    total = random.integers(0, 50, size if build is own_and_neighbours else BINS).astype(dtype.dtype)
    step = 1 if dtype is wp.float32 else 5
    assert_as_interpreted(build(dtype), (size,), [x, bins, total], variants_for(dtype, step))


def test_two_dimensions_and_vectors(random):
    @wp.kernel
    def kernel(
        points: wp.array2d[wp.vec3],
        cells: wp.array2d[int],
        momentum: wp.array2d[wp.vec3],
        inertia: wp.array[wp.mat22],
    ):
        i, j = wp.tid()
        p = points[i, j]
        wp.atomic_add(momentum, cells[i, j], j % 3, p)
        inertia[cells[i, j]] += wp.mat22(p[0], p[1], p[2], 1.0)

    dims = (9, 70)
    arguments = [
        random.integers(-8, 8, (*dims, 3)).astype(np.float32),
        random.integers(-9, 9, dims).astype(np.int32),
        random.integers(-8, 8, (7, 3, 3)).astype(np.float32),
        random.integers(-8, 8, (7, 2, 2)).astype(np.float32),
    ]
    assert_as_interpreted(kernel, dims, arguments)


@wp.kernel
def statistics(
    x: wp.array2d[float],
    bins: wp.array2d[int],
    total: wp.array[float],
    by_bin: wp.array[float],
    by_column: wp.array[wp.vec2],
):
    i, j = wp.tid()
    v = wp.sin(x[i, j])
    total[0] += v
    wp.atomic_add(by_bin, bins[i, j], v)
    wp.atomic_add(by_column, j, wp.vec2(v, v * v))


@pytest.mark.parametrize("shape", [(1, 30_011), (257, 331), (5000, 3), (0, 4)])
@pytest.mark.parametrize("batch", [None, 3, 70])
def test_threads_do_not_change_a_bit(shape, batch, random):
    shape = (shape[0] // (batch or 1), shape[1])
    shapes = shape if batch is None else (batch, *shape)
    x = random.normal(size=shapes).astype(np.float32)
    bins = random.integers(0, BINS, shapes).astype(np.int32)
    start = random.normal(size=() if batch is None else batch).astype(np.float32)[..., None]

    def launch(x, bins, start):
        return tuple(wp.launch(statistics, shape, [x, bins], [start, BINS, shape[1]]))

    launch = jax.jit(launch if batch is None else jax.vmap(launch))
    results = {}
    try:
        for threads in (1, 2, 8):
            _native.set_thread_limit(threads, eager=True)
            results[threads] = list(map(np.asarray, launch(x, bins, start)))
        _native.set_thread_limit(0)
        results[0] = list(map(np.asarray, launch(x, bins, start)))
    finally:
        _native.set_thread_limit(0)
    for other in (0, 2, 8):
        assert all(map(same, results[1], results[other]))
    v = np.sin(x.astype(float))
    total, by_bin, by_column = results[1]
    np.testing.assert_allclose(total[..., 0], start[..., 0] + v.sum((-2, -1)), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(by_column[..., 0], v.sum(-2), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(by_column[..., 1], (v * v).sum(-2), rtol=1e-4, atol=1e-3)
    for b in range(BINS):
        np.testing.assert_allclose(by_bin[..., b], np.where(bins == b, v, 0).sum((-2, -1)), rtol=1e-4, atol=1e-3)


def test_sums_of_many_are_accurate(random):
    """One float32 that counted up to 2^24 by ones would stay there."""

    @wp.kernel
    def count(total: wp.array[float]):
        total[0] += 1.0

    (total,) = wp.launch(count, 20_000_000, [], [1])
    assert abs(float(total[0]) - 20_000_000) <= 2


@wp.kernel
def compact(x: wp.array[float], kept: wp.array[int], count: wp.array[int], total: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.0:
        slot = wp.atomic_add(count, 0, 1)
        kept[slot] = i
        wp.atomic_add(total, 0, x[i])


def test_a_sum_next_to_a_counter(random, threads):
    """The counter stays atomic."""
    x = random.normal(size=5003).astype(np.float32)
    kept, count, total = map(np.asarray, wp.launch(compact, len(x), [x], [len(x), 1, 1]))
    positive = np.flatnonzero(x > 0)
    assert count[0] == len(positive)
    np.testing.assert_array_equal(np.sort(kept[: count[0]]), positive)
    np.testing.assert_allclose(total[0], x[positive].sum(), rtol=1e-5)


@wp.kernel
def extremes(
    x: wp.array[int],
    least: wp.array[int],
    most: wp.array[int],
    union: wp.array[int],
    common: wp.array[int],
    parity: wp.array[int],
    summed: wp.array[int],
    seen: wp.array[int],
):
    i = wp.tid()
    if x[i] % 5 != 0:
        wp.atomic_min(least, 1, x[i])
        wp.atomic_max(most, -1, x[i])
        wp.atomic_or(union, 0, x[i])
        wp.atomic_and(common, 0, x[i] | 9)
        wp.atomic_xor(parity, 2, x[i])
        wp.atomic_min(least, 7, x[i])
        wp.atomic_add(summed, 1, x[i])
        seen[i] = summed[0]


def test_one_element_for_all_threads(random, threads):
    """Combined within a vector first, wherever nobody asks for the value before."""
    size = 777
    x = random.integers(-(10**6), 10**6, size).astype(np.int32)
    starts = [np.full(3, start, np.int32) for start in (5, -5, 0, -1, 0, 6)]
    results = wp.launch(extremes, size, [x], [*map(jnp.asarray, starts), size])
    expected = run(extremes.ir(), (size,), [x, *starts, np.zeros(size, np.int32)])[1:]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(result), wanted)


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64, wp.float16, wp.bfloat16, wp.uint8], ids=repr)
def test_extremes_of_one_element(dtype, random):
    @wp.kernel
    def kernel(x: wp.array[dtype], least: wp.array[dtype], most: wp.array[dtype]):
        i = wp.tid()
        if i % 3 == 0:
            wp.atomic_min(least, 0, x[i])
            wp.atomic_max(most, 0, x[i])

    made = cpu_kernel(kernel)
    assert not made.summary.sums
    for special in (False, True):
        x = random.integers(3, 200, 300).astype(dtype.dtype)
        if special and dtype.is_float:
            x[33] = np.nan
        arguments = [x, np.full(1, 90, dtype.dtype), np.full(1, 90, dtype.dtype)]
        expected = run(made.kernel, (300,), arguments)
        for variant in variants_for(dtype, 3):
            assert all(map(same, Compiled(made, variant).run((300,), arguments), expected)), str(variant)


def test_which_arrays_are_sums():
    @wp.kernel
    def kernel(
        only_added: wp.array[float],
        subtracted: wp.array[float],
        also_read: wp.array[float],
        also_stored: wp.array[float],
        old_value_used: wp.array[float],
        maximum: wp.array[float],
        only_read: wp.array[float],
        shape_read: wp.array[float],
    ):
        i = wp.tid()
        for _ in range(only_added.shape[0]):
            wp.atomic_add(only_added, i, 1.0)
        subtracted[i] -= only_read[i]
        shape_read[subtracted.shape[0]] += also_read[i + 1]
        also_read[i] += 1.0
        also_stored[i] += 1.0
        also_stored[0] = 2.0
        only_added[0] += wp.atomic_add(old_value_used, 0, 1.0)
        wp.atomic_max(maximum, i, 1.0)

    names = {kernel.ir().params[p].name for p in sums_of(kernel.ir())}
    assert names == {"only_added", "subtracted", "shape_read"}


def test_the_first_coordinate_tells_elements_apart():
    @wp.kernel
    def kernel(
        rows: wp.array2d[float],
        other_rows: wp.array2d[float],
        columns: wp.array2d[float],
        vectors: wp.array2d[wp.vec3],
        below: wp.array[float],
        scaled: wp.array[float],
        single: wp.array[float],
        j: int,
    ):
        a, b = wp.tid()
        rows[a, b // 2] += 1.0
        rows[a, j] += 2.0
        other_rows[a, 0] += 1.0
        other_rows[a + 1, 0] += 1.0
        columns[b, a] += 1.0
        vectors[j, a + 3] += wp.vec3(1.0, 2.0, 3.0)
        below[a - 1] += 1.0
        scaled[a * 8 + b] += 1.0
        single[b] += 1.0

    ir = kernel.ir()
    found = {ir.params[p].name: apart_of(ir, p) for p in sums_of(ir)}
    expected = {"rows": 1, "other_rows": 0, "columns": 1, "vectors": 1, "below": 0, "scaled": 8, "single": 0}
    assert found == expected


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("shape", [(300, 40), (64, 17)])
def test_rows_that_threads_add_to(threads, shape):
    """Of NumPy arrays in place, and of JAX arrays; the longer dimension has the lanes of vectors or the other one."""

    @wp.kernel
    def histogram(place: wp.array2d[wp.int32], x: wp.array2d[float], total: wp.array2d[float]):
        a, b = wp.tid()
        for k in range(3):
            wp.atomic_add(total, a, place[a, b] + k, x[a, b])

    random = np.random.default_rng(5)
    place = random.integers(-9, 12, shape).astype(np.int32)
    x, total = random.normal(size=shape).astype(np.float32), random.normal(size=(shape[0], 9)).astype(np.float32)
    expected = total.astype(float)
    for k in range(3):
        at = place + k
        at = np.where(at < 0, at + 9, at)
        a, b = np.nonzero((at >= 0) & (at < 9))
        np.add.at(expected, (a, at[a, b]), x[a, b])
    _native.set_thread_limit(threads, eager=threads > 1)
    (out,) = wp.launch(histogram, shape, [jnp.asarray(place), jnp.asarray(x)], [jnp.asarray(total)])
    wp.launch(histogram, shape, [place, x], [total])
    _native.set_thread_limit(0)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-5)


def test_long_kernels_weigh_more():
    @wp.kernel
    def short(x: wp.array[float]):
        x[0] += 1.0

    @wp.kernel
    def long(x: wp.array[float], n: int):
        for _ in range(1000):
            for _ in range(n):
                if n > 3:
                    x[0] += 1.0

    assert 1 <= weight_of(short.ir()) < 100
    assert weight_of(long.ir()) > 1000 * 20
