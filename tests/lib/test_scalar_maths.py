"""Scalar functions of a few operations each, and those of 16-bit floats, compiled, against NumPy."""

# Without postponed annotations: those of these kernels name variables of the tests.

import numpy as np
import pytest
from scipy import special

import jwarp as wp
from jwarp.types import SCALARS

pytestmark = pytest.mark.quick

X = np.array([0.0, -0.0, 1.5, -1.5, 3.0, 1e-45, -1e30, np.inf, -np.inf, np.nan], np.float32)
FLOATS = {
    "sign": lambda x: np.where(x < 0, np.float32(-1), np.float32(1)),
    "step": lambda x: (x < 0).astype(np.float32),
    "nonzero": lambda x: (x != 0).astype(np.float32),
    "degrees": np.degrees,
    "radians": np.radians,
    "frac": lambda x: x - np.trunc(x),
    "pos": lambda x: x,
}
INTEGERS = [type_ for type_ in SCALARS.values() if type_.kind in ("int", "uint")]
TESTS = {"unot": np.logical_not, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}


def run(kernel: wp.Kernel, *arguments: np.ndarray) -> np.ndarray:
    count = arguments[0].size
    return np.asarray(wp.launch(kernel, count, list(arguments), [count])[0])


@pytest.mark.parametrize("name", FLOATS)
def test_functions_of_a_float(name):
    function = getattr(wp, name)

    @wp.kernel
    def kernel(x: wp.array[float], result: wp.array[float]):
        i = wp.tid()
        result[i] = function(x[i])

    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(kernel, X), FLOATS[name](X), rtol=3e-7, atol=0.0)


@pytest.mark.parametrize("name", TESTS)
def test_tests_of_a_float(name):
    function = getattr(wp, name)

    @wp.kernel
    def kernel(x: wp.array[float], result: wp.array[wp.bool]):
        i = wp.tid()
        result[i] = function(x[i])

    np.testing.assert_array_equal(run(kernel, X), TESTS[name](X))


@pytest.mark.parametrize("type_", INTEGERS, ids=repr)
def test_functions_of_an_integer(type_, x64):
    x = np.array([type_.min, type_.max, 0, 1, 5, type_.max // 3], type_.dtype)

    @wp.kernel
    def kernel(x: wp.array[type_], count: wp.array[int], others: wp.array2d[type_]):
        i = wp.tid()
        count[i] = wp.bit_count(x[i])
        others[i, 0] = wp.sign(x[i])
        others[i, 1] = wp.step(x[i])
        others[i, 2] = wp.nonzero(x[i])

    count, others = wp.launch(kernel, x.size, [x], [x.size, (x.size, 3)])
    mask = (1 << type_.bits) - 1
    assert np.asarray(count).tolist() == [(int(v) & mask).bit_count() for v in x]
    expected = [[-1 if v < 0 else 1, int(v < 0), int(v != 0)] for v in x.tolist()]
    assert np.asarray(others).tolist() == expected


def test_copysign():
    x, y = (grid.ravel() for grid in np.meshgrid(X, X[:-1]))

    @wp.kernel
    def kernel(x: wp.array[float], y: wp.array[float], result: wp.array[float]):
        i = wp.tid()
        result[i] = wp.copysign(x[i], y[i])

    result, expected = run(kernel, x, y), np.copysign(x, y)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


def test_lerp_and_smoothstep():
    a, b, t = np.random.default_rng(1).normal(0.0, 2.0, (3, 200)).astype(np.float32)

    @wp.kernel
    def kernel(
        a: wp.array[float], b: wp.array[float], t: wp.array[float], mixed: wp.array[float], smooth: wp.array[float]
    ):
        i = wp.tid()
        mixed[i] = wp.lerp(a[i], b[i], t[i])
        smooth[i] = wp.smoothstep(a[i], b[i], t[i])

    mixed, smooth = wp.launch(kernel, a.size, [a, b, t], [a.size, a.size])
    wide = [v.astype(np.float64) for v in (a, b, t)]
    np.testing.assert_allclose(mixed, wide[0] * (1 - wide[2]) + wide[1] * wide[2], rtol=1e-5, atol=1e-5)
    part = np.clip((wide[2] - wide[0]) / (wide[1] - wide[0]), 0.0, 1.0)
    np.testing.assert_allclose(smooth, part * part * (3 - 2 * part), rtol=1e-5, atol=1e-5)


def test_what_they_do_not_take():
    @wp.kernel
    def of_an_integer(result: wp.array[float]):
        result[0] = wp.degrees(3)

    @wp.kernel
    def of_two_types(result: wp.array[float]):
        result[0] = wp.lerp(1.0, 2.0, wp.float64(0.5))

    for kernel, text in ((of_an_integer, "degrees does not take int32"), (of_two_types, "values of one type")):
        with pytest.raises(wp.KernelTypeError, match=text):
            kernel.ir()


@pytest.mark.parametrize("dtype", (wp.float16, wp.bfloat16))
def test_half_precision_is_float32_rounded(dtype):
    @wp.kernel
    def some(x: wp.array[dtype], a: wp.array[dtype], b: wp.array[dtype], c: wp.array[dtype]):
        i = wp.tid()
        a[i] = wp.erf(x[i])
        b[i] = wp.log2(x[i])
        c[i] = wp.pow(x[i], x[i])

    x = np.abs(np.random.default_rng(2).normal(0.0, 1.0, 500)).astype(dtype.dtype)
    wide = x.astype(np.float64)
    results = wp.launch(some, x.shape, [x], [x.shape] * 3)
    exact = [special.erf(wide), np.log2(wide), wide**wide]
    for result, expected in zip(results, exact, strict=True):
        last_place = np.spacing(np.abs(expected.astype(np.float32)).astype(dtype.dtype)).astype(np.float64)
        assert (np.abs(np.asarray(result).astype(np.float64) - expected) / last_place).max() <= 0.51
