"""Functions are read once for each kind of call; further calls get copies, also of what writes and prints."""

import numpy as np
import pytest

import jwarp as wp
from jwarp.frontend.lowering import inlining

SIZE = 23


@pytest.fixture
def readings(monkeypatch):
    """The names of the functions that are read, as often as they are."""
    names = []
    read = inlining.lower_statements

    def noted(ctx, statements):
        names.append(ctx.stack[-1].name)
        return read(ctx, statements)

    monkeypatch.setattr(inlining, "lower_statements", noted)
    return names


@wp.func
def pushed(heap: wp.array[float], counts: wp.array[int], place: int, x: wp.vec2, limit: float):
    """Loops, branches, a store, and an addition whose result is used."""
    y = wp.length(x)
    for k in range(3):
        if y > limit:
            y = y * 0.5 + float(k)
    before = heap[place]
    heap[place] = before * 0.5 + y
    if y > limit:
        wp.atomic_add(counts, place, 1)
        return wp.vec2(y, before)
    return x


@wp.kernel
def pushes(xs: wp.array[wp.vec2], heap: wp.array[float], other: wp.array[float], counts: wp.array[int], limit: float):
    i = wp.tid()
    x = pushed(heap, counts, i, xs[i], limit)
    for k in range(counts.shape[0] - xs.shape[0] + 2):
        y = pushed(heap, counts, i, x, limit + float(k))
        x = pushed(other, counts, i, y, x[0])
    z = pushed(heap, counts, i, wp.vec2(x[1], x[1]), limit)
    other[i] = other[i] + z[0] - pushed(heap, counts, i, wp.vec2(1.5, limit), limit)[1]


def pushes_by_numpy(xs, heap, other, counts, limit):
    """The same, thread by thread, in float64."""
    heap, other, counts = heap.astype(float), other.astype(float), counts.copy()

    def pushed(heap, place, x, limit):
        y = np.linalg.norm(x)
        for k in range(3):
            if y > limit:
                y = y * 0.5 + k
        before = heap[place]
        heap[place] = before * 0.5 + y
        if y > limit:
            counts[place] += 1
            return np.array([y, before])
        return x

    for i, x in enumerate(xs.astype(float)):
        x = pushed(heap, i, x, limit)
        for k in range(2):
            y = pushed(heap, i, x, limit + k)
            x = pushed(other, i, y, x[0])
        z = pushed(heap, i, np.array([x[1], x[1]]), limit)
        other[i] = other[i] + z[0] - pushed(heap, i, np.array([1.5, limit]), limit)[1]
    return heap, other, counts


def test_calls_of_one_kind_are_read_once(readings):
    made = np.random.default_rng(5)
    xs = made.normal(size=(SIZE, 2)).astype(np.float32) * 2
    heap, other = made.normal(size=(2, SIZE)).astype(np.float32)
    counts, limit = made.integers(0, 9, SIZE).astype(np.int32), 1.375
    expected = pushes_by_numpy(xs, heap, other, counts, limit)
    wp.launch(pushes, SIZE, [xs, heap, other, counts, limit])
    # One for each pattern of equal arguments: into `heap`, `other`, with twice the same number, with 1.5.
    assert readings == ["pushed"] * 4
    np.testing.assert_array_equal(counts, expected[2])
    np.testing.assert_allclose(heap, expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(other, expected[1], rtol=1e-4, atol=1e-5)


@wp.func
def own(x: float, k: int):
    """An array of the thread's own, which belongs to the place in the kernel."""
    line = wp.zeros(shape=4, dtype=float)
    line[k % 4] = x
    return line[(k + 1) % 4] + line[k % 4]


@wp.kernel
def owners(xs: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    for k in range(i % 3):
        y = own(xs[i], k)
        out[i] += y + own(xs[i] + y, k + 1)
    out[i] += own(xs[i], 1)


def test_what_belongs_to_its_place_is_read_each_time(readings):
    xs = np.random.default_rng(6).normal(size=SIZE).astype(np.float32)
    out, expected = np.zeros(SIZE, np.float32), np.zeros(SIZE)
    for i, x in enumerate(xs.astype(float)):
        expected[i] = i % 3 * 3 * x + x
    wp.launch(owners, SIZE, [xs, out])
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    assert readings.count("own") == 3


@wp.func
def told(x: float):
    if x > 1.0:
        wp.printf("at %f\n", x)
    return x + 0.5


@wp.kernel
def tells(out: wp.array[float]):
    out[0] = told(told(told(out[0])))


def test_copies_print_in_order(readings, capfd):
    out = np.full(1, 0.625, np.float32)
    wp.launch(tells, 1, [out])
    wp.synchronize()
    assert readings == ["told"]
    assert capfd.readouterr().out.splitlines() == ["at 1.125000", "at 1.625000"]
    assert out[0] == 2.125
