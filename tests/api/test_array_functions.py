"""`wp.utils` gives what Warp's gives, on random arrays of every type it takes, and refuses what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

import jwarp as wp

warp = pytest.importorskip("warp")

rng = np.random.default_rng(7)


def both(data, dtype):
    """An array of jwarp's and one of Warp's."""
    return wp.array(data, dtype=getattr(wp, dtype)), warp.array(data, dtype=getattr(warp, dtype), device="cpu")


def numbers(dtype, *shape):
    if "float" in dtype or dtype.startswith("vec"):
        return rng.normal(size=shape).astype(np.float64 if dtype.endswith(("64", "d")) else np.float32)
    limits = (0, 50) if dtype.startswith("u") else (-50, 50)
    return rng.integers(*limits, size=shape).astype(dtype)


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64", "vec3", "vec2d"])
def test_scans(dtype, inclusive):
    data = numbers(dtype, 37, *((int(dtype[3]),) if dtype.startswith("vec") else ()))
    ours, warps = both(data, dtype)
    out, expected = wp.zeros_like(ours), warp.zeros_like(warps)
    wp.utils.array_scan(ours, out, inclusive)
    warp.utils.array_scan(warps, expected, inclusive)
    np.testing.assert_array_equal(out.numpy(), expected.numpy())
    wp.utils.array_scan(ours[::2], out[1:20], inclusive)
    warp.utils.array_scan(warps[::2], expected[1:20], inclusive)
    np.testing.assert_array_equal(out.numpy(), expected.numpy())
    wp.utils.array_scan(ours, ours, inclusive)
    warp.utils.array_scan(warps, warps, inclusive)
    np.testing.assert_array_equal(ours.numpy(), warps.numpy())


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32", "int64", "uint64", "float64"])
def test_sorts_of_pairs(dtype):
    n = 50
    keys = numbers(dtype, 2 * n)
    if "float" in dtype:
        keys[:6] = 0.0, -0.0, np.inf, -np.inf, -0.0, 0.0
    for bits in ({}, {"begin_bit": 1}, {"begin_bit": 2, "end_bit": 11}, {"end_bit": 0}):
        ours, warps = both(keys, dtype)
        values, expected = both(np.arange(2 * n, dtype=np.int32), "int32")
        wp.utils.radix_sort_pairs(ours, values, n, **bits)
        warp.utils.radix_sort_pairs(warps, expected, n, **bits)
        np.testing.assert_array_equal(ours.numpy()[:n], warps.numpy()[:n])
        np.testing.assert_array_equal(values.numpy()[:n], expected.numpy()[:n])


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_sorts_of_segments(dtype):
    n = 60
    keys = numbers(dtype, 2 * n)
    for starts, ends in (
        ([0, 10, 10, 33, 60], None),
        ([3, 20, 41], [17, 41, 60]),
        ([40, 5, 9], [50, 9, 12]),
        ([7, 30], [7, 35]),
        ([0, 10], [20, 40]),  # they overlap
    ):
        ours, warps = both(keys, dtype)
        values, expected = both(np.arange(2 * n, dtype=np.int32), "int32")
        indices = [None if x is None else both(np.array(x, np.int32), "int32") for x in (starts, ends)]
        wp.utils.segmented_sort_pairs(ours, values, n, *(x and x[0] for x in indices))
        warp.utils.segmented_sort_pairs(warps, expected, n, *(x and x[1] for x in indices))
        np.testing.assert_array_equal(ours.numpy()[:n], warps.numpy()[:n])
        np.testing.assert_array_equal(values.numpy()[:n], expected.numpy()[:n])


@pytest.mark.parametrize("count", [None, 0, 1, 30])
def test_runs(count):
    data = np.repeat(rng.integers(0, 4, 25), rng.integers(1, 5, 25)).astype(np.int32)
    ours, warps = both(data, "int32")
    outs = [both(np.full(len(data), -7, np.int32), "int32") for _ in range(2)]
    found = wp.utils.runlength_encode(ours, outs[0][0], outs[1][0], value_count=count)
    assert found == warp.utils.runlength_encode(warps, outs[0][1], outs[1][1], value_count=count)
    for mine, expected in outs:
        np.testing.assert_array_equal(mine.numpy(), expected.numpy())
    counted, expected = both(np.zeros(1, np.int32), "int32")
    assert wp.utils.runlength_encode(ours, outs[0][0], outs[1][0], counted, count) is counted
    warp.utils.runlength_encode(warps, outs[0][1], outs[1][1], expected, count)
    np.testing.assert_array_equal(counted.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "vec3", "mat22d"])
def test_sums_and_inner_products(dtype):
    shape = {"vec3": (3,), "mat22d": (2, 2)}.get(dtype, ())
    x, y = (
        both(numbers(dtype if not shape else ("float64" if dtype.endswith("d") else "float32"), 5, 6, *shape), dtype)
        for _ in range(2)
    )
    close = {"rtol": 2e-6, "atol": 2e-6}
    for axis in (None, 0, 1, -1):
        mine, expected = wp.utils.array_sum(x[0], axis=axis), warp.utils.array_sum(x[1], axis=axis)
        got = [np.asarray(each if axis is None else each.numpy()) for each in (mine, expected)]
        np.testing.assert_allclose(*got, **close)
        assert got[0].shape == got[1].shape and got[0].dtype == got[1].dtype
        if not shape:  # Warp's array_inner refuses out of composites along an axis of the wrong type
            mine, expected = wp.utils.array_inner(x[0], y[0], axis=axis), warp.utils.array_inner(x[1], y[1], axis=axis)
            got = [np.asarray(each if axis is None else each.numpy()) for each in (mine, expected)]
            np.testing.assert_allclose(*got, **close)
    np.testing.assert_allclose(wp.utils.array_inner(x[0], y[0]), np.sum(x[0].numpy() * y[0].numpy()), **close)
    flat = x[0].flatten()
    np.testing.assert_allclose(wp.utils.array_sum(flat, value_count=4), flat.numpy()[:4].sum(axis=0), **close)
    out = wp.zeros(1, dtype=x[0].dtype)
    assert wp.utils.array_sum(x[0], out) is out
    np.testing.assert_allclose(out.numpy()[0], x[0].numpy().sum(axis=(0, 1)), **close)


def test_casts():
    data = rng.normal(size=(4, 5)).astype(np.float32) * 10.0
    for dtype in ("float64", "int32", "float16"):
        ours, warps = both(data, "float32")
        out, expected = wp.zeros((4, 5), dtype=getattr(wp, dtype)), warp.zeros((4, 5), dtype=getattr(warp, dtype))
        wp.utils.array_cast(ours, out)
        warp.utils.array_cast(warps, expected)
        np.testing.assert_array_equal(out.numpy(), expected.numpy())
    out, expected = wp.zeros(20, dtype=wp.float64), warp.zeros(20, dtype=warp.float64)
    wp.utils.array_cast(ours.flatten(), out, 7)
    warp.utils.array_cast(warps.flatten(), expected, 7)
    np.testing.assert_array_equal(out.numpy(), expected.numpy())
    vectors = wp.array(data, dtype=wp.vec2 if data.shape[-1] == 2 else wp.types.vector(5, float))
    out = wp.zeros((4, 5), dtype=wp.float64)
    wp.utils.array_cast(vectors, out)
    np.testing.assert_array_equal(out.numpy(), data.astype(np.float64))


def test_one_offset_is_no_segment():
    keys, values = wp.array([2.0, 1.0], dtype=float), wp.array([20, 10], dtype=int)
    wp.utils.segmented_sort_pairs(keys, values, 1, wp.array([0], dtype=int))
    assert keys.numpy().tolist() == [2.0, 1.0] and values.numpy().tolist() == [20, 10]


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda a, i: wp.utils.array_scan(a, i), "In and out array data types do not match"),
        (lambda a, i: wp.utils.array_scan(a, a[:3]), "storage sizes do not match"),
        (lambda a, i: wp.utils.array_scan(np.zeros(3), a), "in_array must be a wp.array, not ndarray"),
        (lambda a, i: wp.utils.radix_sort_pairs(a, i, 5), r"large enough to contain 2\*count"),
        (lambda a, i: wp.utils.radix_sort_pairs(a, i, 4, 5, 3), r"bit range \[5, 3\) for 32-bit keys"),
        (lambda a, i: wp.utils.radix_sort_pairs(a, i, 2.5), "count must be an integer, not 2.5"),
        (
            lambda a, i: wp.utils.segmented_sort_pairs(a, a, 4, i),
            "values int32, not float32. Unsupported data type: float32",
        ),
        (lambda a, i: wp.utils.segmented_sort_pairs(a[::2], i, 1, i), "requires a contiguous keys array"),
        (lambda a, i: wp.utils.segmented_sort_pairs(a, i, 1, i[::2]), "contiguous segment_start_indices array"),
        (lambda a, i: wp.utils.segmented_sort_pairs(a, i, 4, i[4:6], i[5:7]), "is not inside of the 4 elements"),
        (lambda a, i: wp.utils.runlength_encode(a, i, i), "data types do not match .float32 vs int32."),
        (lambda a, i: wp.utils.runlength_encode(i, i, i, value_count=9), "values has less than 9 elements"),
        (lambda a, i: wp.utils.array_sum(i), "float32 or float64. Unsupported data type: int32"),
        (lambda a, i: wp.utils.array_sum(a, axis=2), "axis 2 is out of bounds for 1 dim"),
        (lambda a, i: wp.utils.array_sum(a, a), r"out has shape \(8,\): out array should have shape \(1,\)"),
        (lambda a, i: wp.utils.array_inner(a, i), r"do not match \(float32 vs int32\)"),
        (lambda a, i: wp.utils.array_inner(a, a[:2]), r"the same shape, got \(8,\) and \(2,\)"),
        (lambda a, i: wp.utils.array_cast(a, i, 9), r"Cast count \(9\) exceeds the input size \(8\)"),
    ],
)
def test_what_does_not_fit(call, said):
    a, i = wp.zeros(8, dtype=float), wp.array(np.array([0, 1, 2, 3, 2, 9, 1, 4], np.int32))
    with pytest.raises((wp.LaunchError, wp.KernelTypeError), match=said):
        call(a, i)
