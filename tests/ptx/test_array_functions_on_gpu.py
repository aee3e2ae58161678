"""`wp.utils` on arrays of a GPU: launches, as NumPy has it."""

import numpy as np
import pytest
from forked_tests import own_process
from ptx_device import machine

import jwarp as wp
from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")
RNG = np.random.default_rng(11)
GPU = "cuda:0"


def came_here(log):
    """The copies of content to this computer."""
    return [line for line in log if line.startswith("cuMemcpyDtoH")]


@own_process(seconds=300)
def test_scans():
    from mock_driver import driver

    with machine() as device:
        for dtype, shape, kind in (
            (np.float32, (9001,), wp.float32), (np.int64, (5,), wp.int64), (np.float64, (300, 3), wp.vec3d),
            (np.int32, (4097,), wp.int32),
        ):  # fmt: skip
            x = (100 * RNG.normal(size=shape)).astype(dtype)
            for inclusive in (True, False):
                a = wp.array(x, dtype=kind, device=GPU)
                out = wp.empty_like(a) if inclusive else a
                driver().clear()
                wp.utils.array_scan(a, out, inclusive=inclusive)
                assert not came_here(driver().log())
                sums = np.cumsum(x, axis=0, dtype=np.float64 if dtype is np.float32 else dtype)
                wanted = sums if inclusive else np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
                np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-5, atol=1e-2 if dtype is np.float32 else 1e-9)
        assert len(device.launches) == 3 * 8
        counts = wp.array(np.arange(1, 6001, dtype=np.int32), device=GPU)
        wp.utils.array_scan(counts[:-1], counts[1:])  # which overlap
        np.testing.assert_array_equal(counts.numpy(), [1, *np.cumsum(np.arange(1, 6000))])


@own_process(seconds=300)
def test_sums():
    from mock_driver import driver

    x, y = RNG.normal(size=(2, 12, 210, 3))
    a, b = (wp.array(v, dtype=wp.vec3d, device=GPU) for v in (x, y))
    scalars = wp.array(x.astype(np.float32), dtype=float, device=GPU)
    sums = {}
    with machine():
        driver().clear()
        out, inner = wp.empty(1, dtype=wp.vec3d, device=GPU), wp.empty(1, dtype=wp.float64, device=GPU)
        wp.utils.array_sum(a, out=out)
        wp.utils.array_inner(a, b, out=inner, count=2400)
        columns, rows = wp.utils.array_sum(a, axis=0), wp.utils.array_sum(scalars, axis=2)
        part = wp.utils.array_sum(a, axis=0, value_count=7)
        assert not came_here(driver().log())
        sums = {"middle": wp.utils.array_sum(a, axis=1), "some": wp.utils.array_sum(scalars, axis=2, value_count=2)}
        number = wp.utils.array_sum(scalars.flatten(), value_count=7000)
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(out.numpy()[0], x.sum((0, 1)), **close)
    np.testing.assert_allclose(inner.numpy()[0], (x * y).reshape(-1)[:7200].sum(), **close)
    np.testing.assert_allclose(columns.numpy(), x.sum(0, keepdims=True), **close)
    np.testing.assert_allclose(part.numpy(), x[:7].sum(0, keepdims=True), **close)
    np.testing.assert_allclose(rows.numpy(), x.sum(2, keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sums["middle"].numpy(), x.sum(1, keepdims=True), **close)
    np.testing.assert_allclose(sums["some"].numpy(), x[..., :2].sum(2, keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(number, x.reshape(-1)[:7000].sum(), rtol=1e-4)


@own_process(seconds=300)
def test_sorts():
    """Keys of all types, with many that are equal, by all bits and by some; what lies behind is room for the work."""
    from mock_driver import driver

    with machine():
        for dtype, count, bits in (
            (np.int32, 5000, (0, 32)), (np.float32, 1024, (0, 32)), (np.uint32, 2100, (4, 9)),
            (np.int64, 1025, (0, 64)), (np.float64, 3, (0, 64)), (np.uint64, 1, (60, 64)),
        ):  # fmt: skip
            keys = RNG.integers(-40, 40, 2 * count)
            given = (keys << 2 if np.dtype(dtype).kind == "u" else keys).astype(dtype)
            a = wp.array(given, device=GPU)
            values = np.arange(2 * count, dtype=np.float32 if count % 2 else np.int64)
            b = wp.array(values, device=GPU)
            driver().clear()
            wp.utils.radix_sort_pairs(a, b, count, *bits)
            assert not came_here(driver().log())
            here, beside = wp.array(given), wp.array(values)
            wp.utils.radix_sort_pairs(here, beside, count, *bits)
            np.testing.assert_array_equal(a.numpy()[:count], here.numpy()[:count])
            np.testing.assert_array_equal(b.numpy()[:count], beside.numpy()[:count])


@own_process(seconds=300)
def test_gradients_and_captures():
    x = RNG.normal(size=500).astype(np.float32)
    with machine() as device:
        a = wp.array(x, requires_grad=True, device=GPU)
        scanned = wp.empty_like(a)
        total = wp.zeros(1, dtype=float, requires_grad=True, device=GPU)
        with wp.Tape() as tape:
            wp.utils.array_scan(a, scanned)
            wp.utils.array_inner(scanned, scanned, out=total)
        tape.backward(total)
        sums = np.cumsum(x.astype(np.float64))
        np.testing.assert_allclose(a.grad.numpy(), 2 * np.cumsum(sums[::-1])[::-1], rtol=1e-4, atol=1e-3)
        with wp.ScopedCapture(device=GPU) as capture:
            wp.utils.array_scan(a, scanned)
            wp.utils.array_inner(scanned, scanned, out=total)
        before = len(device.launches)
        a.assign(2 * x)
        wp.capture_launch(capture.graph)
        assert len(device.launches) > before
        np.testing.assert_allclose(total.numpy(), 4 * (sums**2).sum(), rtol=1e-5)
