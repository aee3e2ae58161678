"""Arrays that a launch adds to: chunks, copies and the order in which they are added up."""

from __future__ import annotations

import subprocess
import sys
import threading

import jax.numpy as jnp
import numpy as np
import pytest
from launch_format import IN_OUT, INPUT, ZEROS, make_launch
from native_kernels import ARRAY, F32, F64, OWN, S32, UNKNOWN, Frame, child_environment, make_plan, register

from jwarp import _native

HEAVY = 1 << 20  # weight of a thread for which any number of copies pays


@pytest.fixture(autouse=True)
def default_state():
    yield
    _native.set_thread_limit(0)


@pytest.fixture
def random():
    return np.random.default_rng(23)


def run(fingerprint, launch, arrays, threads):
    _native.set_thread_limit(0, eager=threads > 1)
    _native.run_launch(fingerprint, launch, arrays, threads)


def column_adder(values: np.ndarray, bins: int, code: int = F32, weight: int = HEAVY) -> str:
    """The fingerprint of a kernel that adds values[column] to element column % bins, in order."""

    def body(frame: Frame) -> None:
        total = frame.array(0, (bins,), values.dtype.type)
        with np.errstate(over="ignore"):
            for column in range(frame.column_begin, frame.column_end):
                total[column % bins] += values[column]

    return register(make_plan(1, [(ARRAY, 1, code, UNKNOWN)], sums=[0], weight=weight), body)


@pytest.mark.parametrize("bins", [1, 7, 5000])
def test_bits_do_not_depend_on_threads(random, bins):
    values = random.normal(size=9001).astype(np.float32)
    fingerprint = column_adder(values, bins)
    start = random.normal(size=bins).astype(np.float32)
    results = []
    for threads in (1, 2, 8):
        result = np.full(bins, np.nan, np.float32)
        run(fingerprint, make_launch([len(values)], [(0, 0, IN_OUT, 0)]), [start, result], threads)
        results.append(result.tobytes())
    assert results[0] == results[1] == results[2]
    expected = start.astype(float)
    np.add.at(expected, np.arange(len(values)) % bins, values)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def places_of(bins: int, weight: int, columns: int = 6400) -> list[int]:
    """The addresses of the arrays that the calls of one launch add to."""
    places = []
    plan = make_plan(1, [(ARRAY, 1, F32, UNKNOWN)], sums=[0], weight=weight)
    fingerprint = register(plan, lambda frame: places.append(frame.operands[0]))
    _native.run_launch(fingerprint, make_launch([columns], [(-1, 0, ZEROS, 0)]), [np.empty(bins, np.float32)])
    return places


def test_copies_are_made_where_they_pay():
    assert len(set(places_of(1, HEAVY))) == 64
    assert len(set(places_of(1, HEAVY, columns=300))) == 4  # no more than there is to share
    assert len(set(places_of(1, 1))) == 4
    assert len(set(places_of(1000, 1))) == 1
    # A few, unless they cost little beside the work, which is a rough estimate.
    assert [len(set(places_of(1000, weight))) for weight in (100, 1000, 10000)] == [4, 8, 64]
    assert len(set(places_of(10**7, HEAVY))) == 4  # a quarter of a GB is enough


_WITHOUT_MEMORY = """
import resource
import numpy as np
from launch_format import ZEROS, make_launch
from native_kernels import ARRAY, F32, UNKNOWN, make_plan, register
from jwarp import _native

def add_columns(frame):
    frame.array(0, (size,))[-1] += np.arange(frame.column_begin, frame.column_end).sum()

size = 10**7
fingerprint = register(make_plan(1, [(ARRAY, 1, F32, UNKNOWN)], sums=[0], weight=1 << 30), add_columns)
result = np.ones(size, np.float32)
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 26), resource.RLIM_INFINITY))
_native.run_launch(fingerprint, make_launch([1000], [(-1, 0, ZEROS, 0)]), [result], 1)
assert result[-1] == 499500 and not result[:-1].any()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a limit on memory")
def test_a_launch_that_gets_no_memory_for_copies_runs_in_one_piece():
    subprocess.run([sys.executable, "-c", _WITHOUT_MEMORY], env=child_environment(), check=True, timeout=120)


@pytest.mark.parametrize(
    ("code", "dtype"),
    [
        (2, "int8"),
        (6, "uint8"),
        (3, "int16"),
        (7, "uint16"),
        (S32, "int32"),
        (8, "uint32"),
        (5, "int64"),
        (9, "uint64"),
    ],
)
def test_integers_wrap(random, code, dtype):
    limits = np.iinfo(dtype)
    values = random.integers(limits.min, limits.max, 1000, dtype=dtype, endpoint=True)
    fingerprint = column_adder(values, 3, code)
    results = np.zeros(3, dtype)
    with np.errstate(over="ignore"):
        run(fingerprint, make_launch([1000], [(-1, 0, ZEROS, 0)]), [results], 2)
        expected = [np.add.reduce(values[k::3], dtype=dtype) for k in range(3)]
    np.testing.assert_array_equal(results, expected)


@pytest.mark.parametrize(
    ("code", "dtype"), [(10, np.float16), (16, jnp.bfloat16), (F32, np.float32), (F64, np.float64)]
)
def test_copies_are_added_in_order_and_rounded_once(random, code, dtype):
    """Any bits at all: subnormal numbers, infinities, NaN and both zeros."""
    chunks, size = 16, 4099
    item = np.dtype(dtype).itemsize
    parts = random.integers(0, 256, (chunks, size * item), dtype=np.uint8).view(dtype)
    parts[:, :2] = -0.0
    start = random.integers(0, 256, size * item, dtype=np.uint8).view(dtype)
    start[:2] = [-0.0, 0.0]

    def body(frame: Frame) -> None:
        total = frame.array(0, (size,), dtype)
        with np.errstate(all="ignore"):
            for granule in range(frame.column_begin // 64, frame.column_end // 64):
                total += parts[granule]

    fingerprint = register(make_plan(1, [(ARRAY, 1, code, UNKNOWN)], sums=[0], weight=1 << 30), body)
    with np.errstate(all="ignore"):
        results = [np.empty_like(start) for _ in range(2)]
        for threads, result in zip((1, 4), results, strict=True):
            run(fingerprint, make_launch([64 * chunks], [(0, 0, IN_OUT, 0)]), [start, result], threads)
        expected = start.copy()
        for part in parts:
            expected += part
    for result in results:
        unsigned = f"u{item}"
        both_nan = (result != result) & (expected != expected)
        assert np.all(both_nan | (result.view(unsigned) == expected.view(unsigned)))


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("mask", range(4))
def test_a_sum_may_lack_batch_axes(random, mask, threads):
    """A gradient that batch elements share is summed over them."""
    batch, columns = (3, 5), 200
    x = random.normal(size=(*batch, columns)).astype(np.float32)

    def body(frame: Frame) -> None:
        frame.array(1, (2,))[0] += frame.array(0, (columns,))[frame.columns].sum()

    plan = make_plan(1, [(ARRAY, 1, F32, UNKNOWN), (ARRAY, 1, F32, UNKNOWN)], sums=[1], weight=HEAVY)
    axes = [n for k, n in enumerate(batch) if mask >> k & 1]
    start = random.normal(size=(*axes, 2)).astype(np.float32)
    result = np.empty_like(start)
    launch = make_launch([columns], [(0, -1, INPUT, 3), (1, 0, IN_OUT, mask)], batch)
    run(register(plan, body), launch, [x, start, result], threads)
    shared = tuple(k for k in range(2) if not mask >> k & 1)
    np.testing.assert_allclose(result[..., 0], start[..., 0] + x.sum(axis=(*shared, 2)), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(result[..., 1], start[..., 1])


@pytest.mark.parametrize("repeat", [1, 3])
def test_batch_elements_with_sums_of_their_own_need_no_copies(repeat):
    places = set()
    plan = make_plan(1, [(ARRAY, 1, F32, UNKNOWN)], sums=[0], weight=HEAVY)
    fingerprint = register(plan, lambda frame: places.add(frame.operands[0]))
    launch = make_launch([128], [(-1, 0, ZEROS, 1)], [100], repeat)
    result = np.empty((100, 2), np.float32)
    run(fingerprint, launch, [result], 1)
    inside = {result.ctypes.data + 8 * item for item in range(100)}
    assert (places == inside) == (repeat == 1)
    np.testing.assert_array_equal(result, 0)


def test_elements_of_one_thread_need_no_copies():
    places = set()
    plan = make_plan(1, [(ARRAY, 1, F32, OWN)], sums=[0], weight=HEAVY)
    fingerprint = register(plan, lambda frame: places.add(frame.operands[0]))
    start, result = np.ones(1280, np.float32), np.empty(1280, np.float32)
    run(fingerprint, make_launch([1280], [(0, 0, IN_OUT, 0)]), [start, result], 4)
    assert places == {result.ctypes.data}


@pytest.mark.parametrize(("dims", "apart"), [([100, 5, 16], 1), ([100, 5, 16], 16), ([400, 1000], 1), ([5000], 1)])
def test_elements_told_apart_by_the_first_coordinate_need_no_copies(dims, apart):
    """Threads with one first coordinate run on one thread of the processor, and no two others add to an element."""
    places, runs = set(), {}
    rows = max(1, np.prod(dims[1:-1], dtype=int))

    def body(frame: Frame) -> None:
        places.add(frame.operands[0])
        first = range(frame.column_begin, frame.column_end)
        if len(dims) > 1:
            first = range(frame.row_begin // rows, (frame.row_end - 1) // rows + 1)
        for coordinate in first:
            runs.setdefault(coordinate, set()).add(threading.get_ident())

    fingerprint = register(make_plan(len(dims), [(ARRAY, 1, F32, UNKNOWN)], sums=[0], weight=HEAVY, apart=apart), body)
    start, result = np.ones(100, np.float32), np.empty(100, np.float32)
    run(fingerprint, make_launch(dims, [(0, 0, IN_OUT, 0)]), [start, result], 4)
    assert places == {result.ctypes.data}
    assert sorted(runs) == list(range(dims[0])) and all(len(threads) == 1 for threads in runs.values())


@pytest.mark.parametrize(
    ("dims", "apart", "repeat", "mask"),
    [([100, 5, 16], 15, 1, 0), ([100, 5, 16], 1, 2, 0), ([100, 5, 16], 0, 1, 0), ([100, 5, 16], 1, 1, 1)],
)
def test_elements_that_are_not_told_apart_need_copies(dims, apart, repeat, mask):
    """The last dimension is longer, all threads run again, nothing is known, or batch elements share the array."""
    places = set()
    plan = make_plan(3, [(ARRAY, 1, F32, UNKNOWN)], sums=[0], weight=HEAVY, apart=apart)
    fingerprint = register(plan, lambda frame: places.add(frame.operands[0]))
    start, result = np.ones(100, np.float32), np.empty(100, np.float32)
    run(fingerprint, make_launch(dims, [(0, 0, IN_OUT, 0)], [3] * mask, repeat), [start, result], 1)
    assert len(places) > 1


def test_nothing_to_add_leaves_the_initial_content():
    fingerprint = column_adder(np.ones(0, np.float32), 4)
    start, result = np.arange(4, dtype=np.float32), np.empty(4, np.float32)
    for dims, batch in (([0], []), ([5], [0])):
        run(fingerprint, make_launch(dims, [(0, 0, IN_OUT, 0)], batch), [start, result], 2)
        np.testing.assert_array_equal(result, start)
    empty = np.empty(0, np.float32)
    plan = make_plan(1, [(ARRAY, 1, F32, UNKNOWN)], sums=[0], weight=HEAVY)
    run(register(plan, lambda frame: None), make_launch([1000], [(-1, 0, ZEROS, 0)]), [empty], 2)
