"""`wp.launch`: arguments, outputs and dims that are accepted, against NumPy."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from launch_kernels import (
    accumulate,
    add_bfloat16,
    add_float16,
    add_float64,
    add_int,
    add_int64,
    add_rows,
    add_uint8,
    advance,
    copy_if,
    exchange,
    fill,
    halve_and_double,
    increment,
    mark,
    scale,
)
from numpy.testing import assert_array_equal

import jwarp as wp

pytestmark = pytest.mark.quick

X = np.linspace(-2.0, 5.0, 7, dtype=np.float32)


@pytest.mark.parametrize("x", [X, jnp.asarray(X), np.repeat(X, 2)[::2], X[::-1][::-1]])
@pytest.mark.parametrize("k", [2, 2.0, np.float64(2), np.int8(2), np.array(2.0), jnp.float32(2), jnp.int32(2)])
def test_arrays_and_numbers_of_every_origin(x, k):
    (y,) = wp.launch(scale, dim=7, inputs=[x, k], outputs=[7])
    assert isinstance(y, jax.Array) and y.dtype == jnp.float32
    assert_array_equal(y, 2 * X)


@pytest.mark.parametrize("output", [7, (7,), [7], np.int64(7), jax.ShapeDtypeStruct((7,), jnp.float32)])
def test_output_specifications(output):
    (y,) = wp.launch(scale, dim=7, inputs=(X, 3.0), outputs=(output,))
    assert_array_equal(y, 3 * X)


def test_elements_that_no_thread_writes_are_zero_or_keep_the_initial_content():
    (y,) = wp.launch(scale, 3, [X, 1.0], [7])
    assert_array_equal(y, np.where(np.arange(7) < 3, X, 0))
    initial = jnp.full(7, 9.0)
    (y,) = wp.launch(scale, 3, [X, 1.0], [initial])
    assert_array_equal(y, np.where(np.arange(7) < 3, X, 9))
    assert_array_equal(initial, np.full(7, 9.0))


def test_an_output_that_the_kernel_never_writes_stays():
    (half,) = wp.launch(copy_if, 7, [False, X], [jnp.ones(7)])
    assert_array_equal(half, np.ones(7))
    half, double = wp.launch(halve_and_double, 0, [X], [7, jnp.ones(7)])
    assert_array_equal(half, np.zeros(7))
    assert_array_equal(double, np.ones(7))


def test_several_outputs_come_in_the_order_of_outputs():
    half, double = wp.launch(halve_and_double, 7, [X], [7, 7])
    assert_array_equal(half, X / 2)
    assert_array_equal(double, X * 2)
    named = wp.launch(halve_and_double, 7, [X], {"double": 7, "half": (7,)})
    assert list(named) == ["double", "half"]
    assert_array_equal(named["half"], X / 2)


def test_dicts_by_name_for_kernels_that_write_their_first_parameters():
    for inputs, outputs in [([X], {"y": 7}), ({"x": X}, {"y": 7}), ({"x": X}, [7])]:
        result = wp.launch(increment, 7, inputs, outputs)
        (y,) = result.values() if isinstance(outputs, dict) else result
        assert_array_equal(y, X + 1)


def test_without_outputs_the_written_parameters_come_back_by_name():
    x, v, e = jnp.asarray(X), jnp.ones(7), jnp.zeros(7)
    result = wp.launch(advance, 7, [x, v, 0.5, e])
    assert list(result) == ["x", "v", "energy"]
    new_v = np.ones(7, np.float32) - np.float32(0.5) * X
    new_x = X + np.float32(0.5) * new_v
    np.testing.assert_allclose(result["v"], new_v, rtol=1e-6)
    np.testing.assert_allclose(result["x"], new_x, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(result["energy"], new_x**2 + new_v**2, rtol=1e-5)
    assert_array_equal(x, X)
    by_name = wp.launch(advance, 7, {"energy": e, "dt": 0.5, "v": v, "x": x})
    assert_array_equal(by_name["x"], result["x"])


def test_one_array_as_input_and_initial_content():
    x = jnp.asarray(X)
    (total,) = wp.launch(accumulate, 7, [x], [x])
    assert_array_equal(total, 2 * X)
    assert_array_equal(x, X)


@pytest.mark.parametrize(
    "flag", [True, False, np.True_, np.False_, 1, 0, np.array(True), np.uint8(1), jnp.array(False)]
)
def test_bool_parameters(flag):
    (y,) = wp.launch(copy_if, 7, [flag, X], [7])
    assert_array_equal(y, X * bool(flag))
    (y,) = jax.jit(lambda f: wp.launch(copy_if, 7, [f, X], [7]))(jnp.array(bool(flag)))
    assert_array_equal(y, X * bool(flag))


def test_integers_fit_or_wrap():
    x = np.arange(5, dtype=np.int32)
    for k in (2**31 - 1, -(2**31), True, np.uint64(7), np.array(-3, np.int8), jnp.uint32(9)):
        (y,) = wp.launch(add_int, 5, [x, k], [5])
        with np.errstate(over="ignore"):
            assert_array_equal(y, x + np.int64(k).astype(np.int32))
    traced = jax.jit(lambda k: wp.launch(add_uint8, 3, [np.zeros(3, np.uint8), k], [3])[0])
    assert_array_equal(traced(300), np.full(3, 300 % 256))
    assert_array_equal(traced(-1), np.full(3, 255))


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [(add_float16, np.float16), (add_bfloat16, ml_dtypes.bfloat16), (add_uint8, np.uint8)],
)
def test_narrow_types(kernel, dtype):
    x = np.arange(9).astype(dtype)
    (y,) = wp.launch(kernel, 9, [x, 2], [9])
    assert y.dtype == dtype
    assert_array_equal(np.asarray(y, np.float32), np.arange(9) + 2)


def test_numbers_beyond_a_float_type_become_infinite():
    (y,) = wp.launch(fill, 2, [1e300], [2])
    assert_array_equal(y, [np.inf, np.inf])


def test_bool_arrays():
    x = np.array([True, False, True])
    (y,) = wp.launch(exchange, 3, [x], [3])
    assert y.dtype == bool
    assert_array_equal(y, ~x)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("kernel", "dtype", "k"), [(add_float64, np.float64, 1e-15), (add_int64, np.int64, 2**40)])
def test_64_bit_types_with_x64(kernel, dtype, k):
    x = np.arange(1, 6).astype(dtype)
    for given in (x, jnp.asarray(x)):
        (y,) = wp.launch(kernel, 5, [given, k], [5])
        assert y.dtype == dtype
        assert_array_equal(y, x + dtype(k))


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
@pytest.mark.parametrize("dim", [4, (4,), [4], np.int32(4), (4, 1), (4, 2, 3), [4, 1, 1, 5]])
def test_extra_dims_repeat_threads_with_the_same_coordinates(dim):
    (y,) = wp.launch(scale, dim, [X, 2.0], [7])
    assert_array_equal(y, np.where(np.arange(7) < 4, 2 * X, 0))


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_missing_dims_are_one():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (y,) = wp.launch(add_rows, 3, [x, np.ones(4, np.float32), 1.0], [(3, 4)])
    assert_array_equal(y, np.where(np.arange(4) == 0, x + 1, 0))
    (y,) = wp.launch(fill, (), [5.0], [3])
    assert_array_equal(y, [5, 0, 0])


def test_four_dims():
    (y,) = wp.launch(mark, (2, 3, 4, 5), [], [(2, 3, 4, 5)])
    i, j, k, m = np.indices((2, 3, 4, 5))
    assert_array_equal(y, 1000 * i + 100 * j + 10 * k + m)


@pytest.mark.parametrize("dim", [0, (0,), (0, 3), (7, 0)])
def test_zero_threads_are_the_identity_on_initial_contents(dim):
    (y,) = wp.launch(scale, dim, [X, 2.0], [jnp.asarray(X)])
    assert_array_equal(y, X)


def test_arrays_without_elements():
    empty = np.zeros(0, np.float32)
    (y,) = wp.launch(scale, 0, [empty, 2.0], [0])
    assert y.shape == (0,)
    (y,) = jax.jit(lambda x: wp.launch(add_rows, (0, 4), [x, X[:4], 1.0], [(0, 4)]))(jnp.zeros((0, 4)))
    assert y.shape == (0, 4)


def test_no_outputs_and_a_kernel_that_writes_nothing():
    @wp.kernel
    def look(x: wp.array[float]):
        i = wp.tid()
        if x[i] > 0.0:
            pass

    assert wp.launch(look, 7, [X], []) == ()
    assert wp.launch(look, 7, [X]) == {}


def test_block_dim_does_not_change_the_result():
    (y,) = wp.launch(scale, 7, [X, 2.0], [7], block_dim=64)
    assert_array_equal(y, 2 * X)


def test_the_settings_of_the_trace_are_kept():
    def double(x):
        return wp.launch(scale, 7, [x, 2.0], [7])[0]

    with wp.config(bounds="unchecked"):
        unchecked = jax.jit(double).trace(X)
    with wp.config(bounds="safe"):
        safe = jax.jit(lambda x: double(x)).trace(X)
        assert "unchecked" in unchecked.lower().as_text()
        assert_array_equal(unchecked.lower().compile()(X), 2 * X)
    with wp.config(bounds="unchecked"):
        assert "unchecked" not in safe.lower().as_text()
    with wp.config(bounds="error"):
        assert '"safe"' in safe.lower().as_text().replace("\\22", '"')
        assert_array_equal(safe.lower().compile()(X), 2 * X)
