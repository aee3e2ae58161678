"""Atomic operations: compiled code against NumPy and the interpreter, with colliding threads.

Annotations are not postponed here, as some name a variable.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp import _native
from jwarp.backend.interpreter.machine import run

pytestmark = pytest.mark.quick

THREADS, BINS = 1003, 17


@wp.kernel
def combine(
    bins: wp.array[int],
    values: wp.array[int],
    total: wp.array[int],
    least: wp.array[int],
    greatest: wp.array[int],
    conjunction: wp.array[int],
    union: wp.array[int],
    parity: wp.array[int],
):
    i = wp.tid()
    b = bins[i]
    v = values[i]
    wp.atomic_add(total, b, v)
    wp.atomic_sub(total, 0, 1)
    wp.atomic_min(least, b, v)
    wp.atomic_max(greatest, b, v)
    wp.atomic_and(conjunction, b, v)
    wp.atomic_or(union, b, v)
    wp.atomic_xor(parity, b, v)


@wp.kernel
def compact(values: wp.array[float], kept: wp.array[int], count: wp.array[int]):
    i = wp.tid()
    if values[i] > 0.0:
        slot = wp.atomic_add(count, 0, 1)
        kept[slot] = i


@wp.kernel
def claim(bins: wp.array[int], owner: wp.array[int], found: wp.array[int]):
    i = wp.tid()
    found[i] = wp.atomic_cas(owner, bins[i], 0, i + 1)


@wp.kernel
def sum_floats(bins: wp.array[int], values: wp.array[float], total: wp.array[float], peak: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(total, bins[i], values[i])
    wp.atomic_max(peak, -1, values[i])


@wp.kernel
def sum_vectors(bins: wp.array[int], points: wp.array[wp.vec3], total: wp.array[wp.vec3]):
    i = wp.tid()
    wp.atomic_add(total, bins[i], points[i])


@wp.kernel
def exchange(value: wp.array[float], cell: wp.array[float], before: wp.array[float]):
    i = wp.tid()
    before[i] = wp.atomic_exch(cell, i // 2, value[i])


@pytest.fixture(params=[1, 2, 8])
def threads(request):
    _native.set_thread_limit(request.param, eager=True)
    yield request.param
    _native.set_thread_limit(0)


@pytest.fixture
def random():
    return np.random.default_rng(11)


def test_integers_combine_whatever_the_order(random, threads):
    bins = random.integers(0, BINS, THREADS).astype(np.int32)
    values = random.integers(-(1 << 30), 1 << 30, THREADS).astype(np.int32)
    starts = [0, 1 << 30, -(1 << 30), -1, 0, 0]
    given = [jnp.full(BINS, start, jnp.int32) for start in starts]
    results = [np.asarray(r) for r in wp.launch(combine, THREADS, [bins, values], given)]
    expected = [np.full(BINS, start, np.int32) for start in starts]
    with np.errstate(over="ignore"):
        np.add.at(expected[0], bins, values)
        expected[0][0] -= THREADS
    for result, function in zip(
        expected[1:], (np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor), strict=True
    ):
        function.at(result, bins, values)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_a_counter_gives_every_thread_a_slot_of_its_own(random, threads):
    values = random.normal(size=THREADS).astype(np.float32)
    kept, count = map(np.asarray, wp.launch(compact, THREADS, [values], [THREADS, 1]))
    positive = np.flatnonzero(values > 0)
    assert count[0] == len(positive)
    np.testing.assert_array_equal(np.sort(kept[: count[0]]), positive)
    assert not kept[count[0] :].any()


def test_only_the_first_thread_of_a_bin_claims_it(random, threads):
    bins = random.integers(0, BINS, THREADS).astype(np.int32)
    owner, found = map(np.asarray, wp.launch(claim, THREADS, [bins], [BINS, THREADS]))
    for b in range(BINS):
        winners = np.flatnonzero((bins == b) & (found == 0))
        assert len(winners) == 1 and owner[b] == winners[0] + 1
        assert set(found[bins == b]) <= {0, owner[b]}


def test_floats_and_negative_indices(random, threads):
    bins = random.integers(-BINS, BINS, THREADS).astype(np.int32)
    values = random.normal(size=THREADS).astype(np.float32)
    total, peak = map(np.asarray, wp.launch(sum_floats, THREADS, [bins, values], [BINS, 3]))
    expected = np.zeros(BINS)
    np.add.at(expected, bins, values)
    np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(peak, [0, 0, values.max()])


def test_an_element_outside_is_left_alone(random):
    bins = random.integers(-3 * BINS, 3 * BINS, THREADS).astype(np.int32)
    values = np.ones(THREADS, np.float32)
    total, _ = map(np.asarray, wp.launch(sum_floats, THREADS, [bins, values], [BINS, 1]))
    inside = bins[(bins >= -BINS) & (bins < BINS)]
    np.testing.assert_array_equal(total, np.bincount(inside % BINS, minlength=BINS))


def test_vectors_component_by_component(random, threads):
    bins = random.integers(0, BINS, THREADS).astype(np.int32)
    points = random.normal(size=(THREADS, 3)).astype(np.float32)
    (total,) = wp.launch(sum_vectors, THREADS, [bins, points], [BINS])
    expected = np.zeros((BINS, 3))
    np.add.at(expected, bins, points)
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-5)


def test_an_exchange_gives_what_was_there(random):
    value = random.normal(size=10).astype(np.float32)
    start = random.normal(size=5).astype(np.float32)
    cell, before = map(np.asarray, wp.launch(exchange, 10, [value], [jnp.asarray(start), 10]))
    for pair in range(5):
        both = {2 * pair, 2 * pair + 1}
        last = next(i for i in both if value[i] == cell[pair])
        (first,) = both - {last}
        assert before[first] == start[pair] and before[last] == value[first]


@pytest.mark.parametrize("kernel", [compact, claim, exchange], ids=lambda k: k.name)
def test_one_thread_after_the_other_as_interpreted(kernel, random):
    """On one CPU thread the lanes go in order, as in the interpreter."""
    arrays = {
        "values": random.normal(size=64).astype(np.float32),
        "value": random.normal(size=64).astype(np.float32),
        "bins": random.integers(0, 9, 64).astype(np.int32),
    }
    inputs = [arrays[p.name] for p in kernel.params if p.name in arrays]
    outputs = [p for p in kernel.params if p.name not in arrays]
    starts = [np.zeros(64, p.type.dtype.dtype) for p in outputs]
    _native.set_thread_limit(1)
    compiled = wp.launch(kernel, 64, inputs, [64 for _ in outputs])
    _native.set_thread_limit(0)
    interpreted = run(kernel.ir(), (64,), [*inputs, *starts])[len(inputs) :]
    for x, y in zip(compiled, interpreted, strict=True):
        np.testing.assert_array_equal(x, y)


def test_what_does_not_fit_is_refused_by_name():
    @wp.kernel
    def adds_an_int(total: wp.array[float]):
        wp.atomic_add(total, 0, 1)

    @wp.kernel
    def combines_floats(total: wp.array[float]):
        wp.atomic_or(total, 0, 1.0)

    @wp.kernel
    def has_no_index(total: wp.array[float]):
        wp.atomic_add(total, 1.0)

    @wp.kernel
    def has_no_array(total: wp.array[float]):
        wp.atomic_add(total[0], 0, 1.0)

    for kernel, text in (
        (adds_an_int, "`total` holds float32, the value is int32"),
        (combines_floats, "wp.atomic_or does not take float32"),
        (has_no_index, "wp.atomic_add takes 3 argument"),
        (has_no_array, "must be an array"),
    ):
        with pytest.raises(wp.KernelTypeError, match=text):
            wp.launch(kernel, 1, [], [1])


@pytest.mark.parametrize("dtype", [wp.float16, wp.bfloat16], ids=repr)
def test_sixteen_bit_floats(dtype, random, threads):
    @wp.kernel
    def combine_halves(
        bins: wp.array[int],
        values: wp.array[dtype],
        total: wp.array[dtype],
        least: wp.array[dtype],
        most: wp.array[dtype],
    ):
        i = wp.tid()
        total[bins[i]] += values[i]
        wp.atomic_min(least, bins[i], values[i])
        wp.atomic_max(most, bins[i], values[i])

    bins = random.integers(0, BINS, THREADS).astype(np.int32)
    # Sums of few small integers are exact in either type, in any order.
    values = random.integers(-2, 3, THREADS).astype(np.float32)
    given = jnp.asarray(values).astype(dtype.dtype)
    results = [np.asarray(r, np.float32) for r in wp.launch(combine_halves, THREADS, [bins, given], [BINS] * 3)]
    expected = [np.zeros(BINS) for _ in range(3)]
    for array, function in zip(expected, (np.add, np.minimum, np.maximum), strict=True):
        function.at(array, bins, values)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_sixteen_bit_floats_are_exchanged_and_compared():
    @wp.kernel
    def swap(cell: wp.array[wp.bfloat16], before: wp.array[wp.bfloat16]):
        before[0] = wp.atomic_exch(cell, 0, wp.bfloat16(3.0))
        before[1] = wp.atomic_cas(cell, 0, wp.bfloat16(3.0), wp.bfloat16(5.0))
        before[2] = wp.atomic_cas(cell, 0, wp.bfloat16(3.0), wp.bfloat16(7.0))
        before[3] = wp.atomic_add(cell, 0, wp.bfloat16(1.0))

    cell, before = wp.launch(swap, 1, [], [jnp.ones(1, jnp.bfloat16), 4])
    np.testing.assert_array_equal(np.asarray(before, np.float32), [1.0, 3.0, 5.0, 5.0])
    assert float(cell[0]) == 6.0
