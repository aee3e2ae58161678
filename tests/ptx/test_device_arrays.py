"""Arrays of other libraries on a GPU: any strides, and adjoints in place, run by the PTX machine."""

import numpy as np
import pytest
from cuda_calls import STREAMS
from foreign_gpu_arrays import Lender
from forked_tests import own_process
from ptx_device import machine

import jwarp as wp
from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")


@wp.kernel
def turn(m: wp.array2d[wp.vec3], by: wp.array[wp.float16], flags: wp.array[bool], y: wp.array2d[wp.vec3]):
    i, j = wp.tid()
    if flags[i]:
        y[i, j] = wp.cross(m[i, j], m[i, 0]) + y[i, j] * float(by[j])


@own_process(seconds=300)
def test_arrays_with_strides():
    """Transposed, reversed, every second element, broadcast: as on NumPy arrays, and nothing else changes."""
    from mock_driver import driver

    rng = np.random.default_rng(0)
    m = rng.normal(size=(4, 5, 3)).astype(np.float32)
    by, flags = rng.normal(size=9).astype(np.float16), np.array([True, False, True, True, True, False, True, True])
    y = rng.normal(size=(9, 6, 5)).astype(np.float32)
    views = m.transpose(1, 0, 2)[:, ::-1], np.broadcast_to(by[3:4], 4), flags[1:6], y[1:6, 5:1:-1, 1:4]
    expected = y.copy()
    wp.launch(turn, (5, 4), [*views[:3]], [expected[1:6, 5:1:-1, 1:4]])
    assert not np.array_equal(expected, y)
    for stream in (STREAMS[0], None):
        found = y.copy()
        with machine(m, by, flags, found) as device:
            output = Lender(found[1:6, 5:1:-1, 1:4])
            (result,) = wp.launch(turn, (5, 4), [*map(Lender, views[:3])], [output], stream=stream)
            names = " ".join(device.launches)
            assert [names.count(word) for word in ("gather", "turn", "scatter")] == [3, 1, 1], names
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
        del result
    # All but the word in which launches with checks note failures.
    assert driver().allocated == len(driver().log("cuMemAlloc_v2"))

    own = np.lib.stride_tricks.as_strided(m, (5, 4, 3), (4, 4, 4))
    with machine(m), pytest.raises(wp.LaunchError, match="output 'y' has elements that overlap in memory"):
        wp.launch(turn, (5, 4), [*map(Lender, views[:3])], [Lender(own)])


@wp.kernel
def wave(x: wp.array[float], k: float, n: int, y: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(k * x[i]) * x[(i + n) % x.shape[0]] + y[i] * y[i]
    wp.atomic_add(total, 0, y[i] * x[i])


@wp.kernel
def relax(a: wp.array2d[wp.float64], steps: int, x: wp.array[wp.float64]):
    i = wp.tid()
    for _ in range(steps):
        x[i] = wp.cos(x[i]) * a[i, 0] + a[i, 1]


def both(kernel, dim, inputs, outputs, cotangents, wanted):
    """The gradients on a GPU are those on NumPy arrays: added to what was there, strided arrays too."""
    launch = {"adjoint": True, "adj_outputs": cotangents}
    expected = [None if w is None else w.copy() for w in wanted]
    wp.launch(kernel, dim, inputs, outputs, adj_inputs=expected, **launch)
    arrays = [a for a in (*inputs, *outputs, *cotangents, *wanted) if isinstance(a, np.ndarray)]
    before = [a.copy() for a in (*outputs, *cotangents)]

    def lent(values):
        return [Lender(x) if isinstance(x, np.ndarray) else x for x in values]

    with machine(*arrays) as device:
        wp.launch(kernel, dim, lent(inputs), lent(outputs), adjoint=True, adj_outputs=lent(cotangents),
                  adj_inputs=lent(wanted), stream=STREAMS[0])  # fmt: skip
        launches = list(device.launches)
    for found, right in zip(wanted, expected, strict=True):
        if right is not None:
            np.testing.assert_allclose(found, right, rtol=2e-5, atol=1e-5)
    for array, old in zip((*outputs, *cotangents), before, strict=True):
        np.testing.assert_array_equal(array, old)
    return launches


@own_process(seconds=300)
def test_adjoints_in_place():
    from mock_driver import driver

    rng = np.random.default_rng(1)

    def floats(*shape, dtype=np.float32):
        return rng.normal(size=shape).astype(dtype)

    x, y, total = floats(50), floats(50), floats(1)
    names = both(wave, 50, [x, 0.7, 3], [y, total], [floats(50), floats(1)], [floats(50), floats(1).reshape(()), None])
    assert len(names) >= 3
    column = floats(50, 3)[:, 1]
    both(wave, 50, [column, 0.7, 3], [floats(100)[::2], total], [floats(50)[::-1], floats(1)],
         [floats(50, 2)[:, 1], None, None])  # fmt: skip
    a = 0.5 * floats(6, 4, dtype=np.float64)
    both(relax, 6, [a[:, ::2], 4], [floats(6, dtype=np.float64)], [floats(6, dtype=np.float64)],
         [np.zeros((6, 2)), None])  # fmt: skip
    # All but the word in which launches with checks note failures.
    assert driver().allocated == len(driver().log("cuMemAlloc_v2"))


@wp.kernel
def columns(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[0, i] = x[j, i] * x[j, i]


@own_process(seconds=300)
def test_along_an_axis_of_one_thread_nobody_meets():
    """The derivative needs no second launch that says whose value is there, as on NumPy arrays."""
    rng = np.random.default_rng(2)
    x, y, cotangent, wanted = (rng.normal(size=(1, 6)).astype(np.float32) for _ in range(4))
    gradient = wanted + 2 * x * cotangent
    names = both(columns, (6, 1), [x], [y], [cotangent], [wanted, None])
    assert [name for name in names if "columns" in name] == ["jwarp_columns"], names
    np.testing.assert_allclose(wanted, gradient, rtol=1e-5)


@own_process(seconds=300)
def test_what_is_no_array_on_the_gpu():
    x, y, total = (np.zeros(n, np.float32) for n in (5, 5, 1))
    given = [Lender(x), 0.7, 3], [Lender(y), Lender(total)]
    with machine(x, y, total):
        with pytest.raises(wp.LaunchError, match="adjoint of 'x': must be an array on the GPU that the others are on"):
            wp.launch(wave, 5, *given, adjoint=True, adj_outputs=[Lender(y), None], adj_inputs=[True, None, None])
        with pytest.raises(wp.LaunchError, match=r"adjoint of 'y': expected float32\[5\], got"):
            short = [Lender(total), None]
            wp.launch(wave, 5, *given, adjoint=True, adj_outputs=short, adj_inputs=[Lender(x), None, None])
        with pytest.raises(wp.LaunchError, match="adjoint of 'x': the array is read-only"):
            read_only = Lender(np.zeros(5, np.float32), read_only=True)
            wp.launch(wave, 5, *given, adjoint=True, adj_outputs=[Lender(y), None], adj_inputs=[read_only, None, None])


@own_process(seconds=300)
def test_precision_of_products():
    """JAX's precision for products is that of tiles in launches on arrays in place too."""
    import jax
    from cuda_tile_launches import BLOCK, multiply

    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(16, 24)).astype(np.float32), rng.normal(size=(24, 16)).astype(np.float32)
    errors = []
    for precision in (None, "tensorfloat32"):
        c = np.zeros((16, 16), np.float32)
        with machine(a, b, c), jax.default_matmul_precision(precision):
            wp.launch_tiled(multiply, (1, 1), [Lender(a), Lender(b)], [Lender(c)], block_dim=BLOCK)
        errors.append(np.abs(c - a.astype(float) @ b.astype(float)).max())
    assert errors[0] < 1e-5 < 1e-4 < errors[1] < 2e-2, errors


@own_process(seconds=300)
def test_gradients_that_overlap_are_refused_as_on_the_host():
    x, y, wanted = (np.ones(n, np.float32) for n in (5, 5, 8))
    broadcast = np.lib.stride_tricks.as_strided(wanted, (5,), (0,))

    @wp.kernel
    def product(a: wp.array[float], b: wp.array[float], c: wp.array[float]):
        i = wp.tid()
        c[i] = a[i] * b[i]

    def refused(make):
        cases = [
            ([make(wanted[:5]), make(wanted[:5])], "'adj_a' and 'adj_b' are the same array"),
            ([make(wanted[:5]), make(wanted[3:])], "'adj_a' overlaps 'adj_b' in memory"),
            ([make(broadcast), None], "'adj_a' has elements that overlap in memory"),
            ([make(wanted[1:6]), None], "'adj_a' overlaps 'adj_c' in memory"),
        ]
        for gradients, words in cases:
            with pytest.raises(wp.LaunchError, match=words):
                wp.launch(product, 5, [make(x), make(x)], [make(y)], adjoint=True, adj_outputs=[make(wanted[:5])],
                          adj_inputs=gradients)  # fmt: skip

    refused(lambda array: array)
    with machine(x, y, wanted):
        refused(Lender)
    assert (wanted == 1.0).all()
