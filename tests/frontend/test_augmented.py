"""`a[i] += v`, `-=`, `|=`, `&=` and `^=` lose nothing where many threads change one element."""

import numpy as np
import pytest
from run_three_ways import run_kernel

import jwarp as wp
from jwarp import _native
from jwarp.ir.nodes import Op, walk

THREADS, BINS = 1003, 7
INTEGERS = [wp.int8, wp.int16, wp.int32, wp.int64, wp.uint8, wp.uint16, wp.uint32, wp.uint64]
RULES = {"+": np.add, "-": np.subtract, "|": np.bitwise_or, "&": np.bitwise_and, "^": np.bitwise_xor}


pytestmark = [pytest.mark.usefixtures("x64"), pytest.mark.quick]


@pytest.fixture(params=[1, 8])
def threads(request):
    _native.set_thread_limit(request.param, eager=True)
    yield request.param
    _native.set_thread_limit(0)


def scalars(dtype):
    """A kernel that combines each value with its bin, by each operator into an array of its own."""

    @wp.kernel
    def scalars(
        bins: wp.array[int],
        values: wp.array[dtype],
        sums: wp.array[dtype],
        differences: wp.array[dtype],
        unions: wp.array[dtype],
        intersections: wp.array[dtype],
        parities: wp.array[dtype],
    ):
        i = wp.tid()
        b, v = bins[i], values[i]
        sums[b] += v
        differences[b] -= v
        unions[b] |= v
        intersections[b] &= ~v
        parities[b] ^= v

    return scalars


def vectors(dtype):
    """As `scalars`, with a vector, a component that varies and a slice for `|`, `&` and `^`."""
    vec3 = wp.types.vector(3, dtype)

    @wp.kernel
    def vectors(
        bins: wp.array[int],
        values: wp.array[vec3],
        unions: wp.array[vec3],
        intersections: wp.array[vec3],
        parities: wp.array[vec3],
    ):
        i = wp.tid()
        b, v = bins[i], values[i]
        unions[b] |= v
        intersections[b][i % 3] &= ~v[i % 3]
        parities[b][1:3] ^= v[1:3]

    return vectors


def numbers(dtype, shape, seed):
    limits = np.iinfo(dtype.dtype)
    random = np.random.default_rng(seed)
    bits = random.integers(limits.min, limits.max, shape, dtype.dtype, endpoint=True)
    for _ in range(4):  # few bits set, so that a union is not full at once
        bits &= random.integers(limits.min, limits.max, shape, dtype.dtype, endpoint=True)
    return bits


def combined(operator, start, bins, values):
    expected = start.copy()
    RULES[operator].at(expected, bins, values)
    return expected


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_no_update_is_lost(dtype, threads):
    bins = np.random.default_rng(1).integers(0, BINS, THREADS).astype(np.int32)
    values = numbers(dtype, THREADS, 2)
    starts = [~numbers(dtype, BINS, 3) if op == "&" else numbers(dtype, BINS, 3) for op in RULES]
    results = run_kernel(scalars(dtype), THREADS, bins, values, *starts)[2:]
    for operator, start, result in zip(RULES, starts, results, strict=True):
        expected = combined(operator, start, bins, ~values if operator == "&" else values)
        np.testing.assert_array_equal(result, expected, err_msg=operator)


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_no_update_of_components_is_lost(dtype, threads):
    bins = np.random.default_rng(5).integers(0, BINS, THREADS).astype(np.int32)
    values = numbers(dtype, (THREADS, 3), 6)
    starts = [numbers(dtype, (BINS, 3), 7 + k) for k in range(3)]
    starts[1] = ~starts[1]
    unions, intersections, parities = run_kernel(vectors(dtype), THREADS, bins, values, *starts)[2:]
    np.testing.assert_array_equal(unions, combined("|", starts[0], bins, values))
    axis = np.arange(THREADS) % 3
    np.testing.assert_array_equal(
        intersections, combined("&", starts[1], (bins, axis), ~values[np.arange(THREADS), axis])
    )
    expected = starts[2].copy()
    expected[:, 1:] = combined("^", starts[2][:, 1:], bins, values[:, 1:])
    np.testing.assert_array_equal(parities, expected)


def test_which_augmented_assignments_are_atomic():
    @wp.kernel
    def k(a: wp.array[int], p: wp.array[bool], x: int, q: bool):
        a[0] |= x
        a[1] &= x
        a[2] ^= x
        a[3] *= x
        a[4] <<= x
        p[0] |= q
        p[1] &= q
        p[2] ^= q

    writes = [n.name for n in walk(k.ir().body) if isinstance(n, Op) and n.row.is_write]
    assert writes == ["atomic_or", "atomic_and", "atomic_xor", *["store"] * 5]
    a, p = run_kernel(k, 1, np.array([1, 7, 7, 7, 7], np.int32), np.array([False, True, True]), 2, True)
    np.testing.assert_array_equal(a, [3, 2, 5, 14, 28])
    np.testing.assert_array_equal(p, [True, True, False])


@pytest.mark.parametrize("dtype", [wp.float16, wp.bfloat16], ids=repr)
def test_adding_to_elements_of_16_bit_floats(dtype, threads):
    @wp.kernel
    def k(bins: wp.array[int], a: wp.array[dtype], b: wp.array[dtype]):
        i = wp.tid()
        a[bins[i]] += dtype(1.0)
        b[bins[i]] -= dtype(0.5)

    bins = np.random.default_rng(4).integers(0, BINS, THREADS).astype(np.int32)
    a, b = (np.asarray(r, np.float32) for r in wp.launch(k, THREADS, [bins], [BINS, BINS]))
    counts = np.bincount(bins, minlength=BINS)
    assert counts.max() < 256  # so that every sum on the way is exact in bfloat16, too
    np.testing.assert_array_equal(a, counts)
    np.testing.assert_array_equal(b, -0.5 * counts)
