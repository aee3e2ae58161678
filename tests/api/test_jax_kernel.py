"""`wp.jax_kernel`: the keywords of Warp's wrapper and what they default to."""

import inspect
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from launch_kernels import accumulate, add_rows, advance, fill, halve_and_double, increment, mark, scale
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp
from jwarp.api import jax_kernel as module

pytestmark = pytest.mark.quick

X = jnp.arange(5.0)


def test_launch_and_output_dims_default_to_the_first_array():
    (y,) = wp.jax_kernel(scale)(X, 2.0)
    assert_array_equal(y, 2 * np.arange(5))
    x = jnp.arange(6.0).reshape(2, 3)
    (y,) = jax.jit(wp.jax_kernel(add_rows))(x, jnp.ones(3), 2.0)
    assert_array_equal(y, np.arange(6).reshape(2, 3) + 2)


def test_launch_dims_at_construction_and_per_call():
    fn = wp.jax_kernel(scale, launch_dims=3)
    assert_array_equal(fn(X, 1.0)[0], [0, 1, 2])
    assert_array_equal(fn(X, 1.0, launch_dims=(2,))[0], [0, 1])
    assert_array_equal(fn(X, 1.0, launch_dims=[4], output_dims=6)[0], [0, 1, 2, 3, 0, 0])


@pytest.mark.parametrize("dims", [6, (6,), [6], {"y": 6}, {"y": (6,)}])
def test_output_dims(dims):
    expected = [0, 2, 4, 6, 8, 0]
    assert_array_equal(wp.jax_kernel(scale, output_dims=dims)(X, 2.0)[0], expected)
    assert_array_equal(wp.jax_kernel(scale, output_dims=9)(X, 2.0, output_dims=dims)[0], expected)


def test_output_dims_by_name_may_differ():
    fn = wp.jax_kernel(halve_and_double, 2, output_dims={"half": 5, "double": 7})
    half, double = fn(X)
    assert_array_equal(half, np.arange(5) / 2)
    assert_array_equal(double, [0, 2, 4, 6, 8, 0, 0])


def test_in_outs_come_first_in_the_order_of_the_parameters():
    fn = wp.jax_kernel(advance, num_outputs=3, in_out_argnames=["v", "x"])
    x, v, energy = fn(X, jnp.ones(5), 0.5)
    new_v = 1 - 0.5 * np.arange(5)
    new_x = np.arange(5) + 0.5 * new_v
    assert_allclose(x, new_x)
    assert_allclose(v, new_v)
    assert_allclose(energy, new_x**2 + new_v**2)


@pytest.mark.parametrize("ones", [jnp.ones(5), np.ones(5, np.float32)])
def test_only_in_outs(ones):
    fn = wp.jax_kernel(accumulate, 1, in_out_argnames=("total",))
    for call in (fn, jax.jit(fn)):
        assert_array_equal(call(X, ones)[0], np.arange(5) + 1)
        assert_array_equal(ones, np.ones(5))


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_more_threads_than_tid_reads():
    (y,) = wp.jax_kernel(scale, output_dims=5)(X, 2.0, launch_dims=(5, 3))
    assert_array_equal(y, 2 * np.arange(5))


def test_kernels_without_arrays_need_launch_dims():
    with pytest.raises(wp.LaunchError, match=r"'fill'.*launch_dims"):
        wp.jax_kernel(fill)(1.0)
    assert_array_equal(wp.jax_kernel(fill, launch_dims=2)(3.0)[0], [3, 3])
    (y,) = wp.jax_kernel(mark, launch_dims=(1, 2, 1, 2))()
    assert_array_equal(y, [[[[0, 1]], [[100, 101]]]])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"num_outputs": 0}, wp.LaunchError, "num_outputs must be 1 to 3"),
        ({"num_outputs": 4}, wp.LaunchError, "num_outputs must be 1 to 3"),
        ({"num_outputs": 1.0}, wp.LaunchError, "num_outputs must be an int"),
        ({"num_outputs": True}, wp.LaunchError, "num_outputs must be an int"),
        ({"num_outputs": 2}, wp.KernelTypeError, "'k': an output must be an array"),
        ({"in_out_argnames": "x"}, wp.LaunchError, "in_out_argnames must be a sequence"),
        ({"in_out_argnames": ["z"]}, wp.LaunchError, "in_out_argnames has 'z'"),
        ({"in_out_argnames": [3]}, wp.LaunchError, "in_out_argnames has 3"),
        ({"in_out_argnames": ["x", "x"]}, wp.LaunchError, "twice"),
        ({"in_out_argnames": ["k"]}, wp.KernelTypeError, "'k', which is passed by value"),
        ({"in_out_argnames": ["x", "y"]}, wp.LaunchError, "counts the 2 names"),
        ({"output_dims": {"x": 3}}, wp.LaunchError, "output_dims has 'x'"),
        ({"output_dims": {}}, wp.LaunchError, "output_dims has no shape for output 'y'"),
        ({"launch_dims": -1}, wp.LaunchError, "launch_dims must be non-negative"),
        ({"launch_dims": 1.5}, wp.LaunchError, "launch_dims must be an int"),
        ({"block_dim": -1}, wp.LaunchError, "block_dim"),
    ],
)
def test_refused_at_construction(arguments, error, text):
    with pytest.raises(error) as caught:
        wp.jax_kernel(scale, **arguments)
    assert text in str(caught.value) and "'scale'" in str(caught.value)


def test_in_out_after_an_output():
    with pytest.raises(wp.LaunchError, match=r"'energy'.*before output-only arguments"):
        wp.jax_kernel(advance, 2, in_out_argnames=["energy"])


@pytest.mark.parametrize(
    ("args", "keywords", "error", "text"),
    [
        ((X,), {}, wp.LaunchError, "takes 2 arguments (x, k), got 1"),
        ((X, 1.0, X), {}, wp.LaunchError, "takes 2 arguments (x, k), got 3"),
        ((3.0, 1.0), {}, wp.KernelTypeError, "'x': expected array[float32], got float"),
        ((jnp.ones((2, 2)), 1.0), {}, wp.KernelTypeError, "'x': expected array[float32], got float32[2, 2]"),
        ((X, "a"), {}, wp.KernelTypeError, "'k'"),
        ((X, 1.0), {"launch_dims": (5, 2)}, wp.LaunchError, "output 'y'"),
        ((X, 1.0), {"launch_dims": "5"}, wp.LaunchError, "launch_dims"),
        ((X, 1.0), {"output_dims": (5, 2)}, wp.LaunchError, "output 'y'"),
        ((X, 1.0), {"output_dims": {"x": 5}}, wp.LaunchError, "output_dims has 'x'"),
        ((X, 1.0), {"output_dims": -1}, wp.LaunchError, "output_dims for 'y' must be non-negative"),
    ],
)
def test_refused_at_a_call(args, keywords, error, text):
    fn = wp.jax_kernel(scale)
    for call in (fn, lambda *a, **k: jax.jit(lambda: fn(*a, **k))()):
        with pytest.raises(error) as caught:
            call(*args, **keywords)
        assert text in str(caught.value) and "'scale'" in str(caught.value)
    assert_array_equal(fn(X, 1.0)[0], np.arange(5))


def test_written_inputs():
    with pytest.raises(wp.LaunchError, match=r"'increment', parameter 'y'.*writes"):
        wp.jax_kernel(increment)(X)
    with pytest.raises(wp.LaunchError, match=r"'advance', parameter 'x'.*writes"):
        wp.jax_kernel(advance)(X, X, 0.1)


def test_keywords_without_effect_warn_once(monkeypatch):
    monkeypatch.setattr(module, "_warned", set())
    with pytest.warns(wp.KernelWarning, match="vmap_method does nothing"):
        fn = wp.jax_kernel(scale, vmap_method="sequential")
    with pytest.warns(wp.KernelWarning, match="module_preload_mode does nothing"):
        wp.jax_kernel(scale, module_preload_mode=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wp.jax_kernel(scale, vmap_method="expand_dims", module_preload_mode=2)
        assert_array_equal(fn(X, 1.0, vmap_method="broadcast_all")[0], np.arange(5))


def test_side_effect_reaches_the_compiler():
    def lowered(flag):
        fn = wp.jax_kernel(scale, has_side_effect=flag)
        return jax.jit(fn).lower(X, 1.0).as_text()

    assert "has_side_effect = true" in lowered(True)
    assert "has_side_effect = true" not in lowered(False)


def test_name_and_text():
    fn = wp.jax_kernel(scale)
    assert fn.__name__ == "scale"
    assert "(x, k)" in fn.__doc__


def test_keywords_that_do_not_exist():
    with pytest.raises(
        wp.LaunchError, match="wp.jax_kernel: there is no keyword 'output_dim'.*\n.*did you mean output_dims"
    ):
        wp.jax_kernel(advance, output_dim=3)
    fn = wp.jax_kernel(advance, num_outputs=3, in_out_argnames=["v", "x"])
    with pytest.raises(wp.LaunchError, match="no keyword 'launch_dim'.*\n.*did you mean launch_dims"):
        fn(jnp.ones(3), launch_dim=3)


def test_a_kernel_without_parameters():
    @wp.kernel
    def nothing():
        wp.tid()

    with pytest.raises(wp.LaunchError, match="'nothing' has no parameters, so it has no output.*\n.*array parameter"):
        wp.jax_kernel(nothing)
    assert wp.launch(nothing, 3) == {}


# Arguments by name


@wp.kernel
def weighted(x: wp.array[float], weight: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = k * x[i] * weight[i]


def test_arguments_by_name():
    fn, x, w = wp.jax_kernel(weighted), jnp.arange(3.0), jnp.full(3, 2.0)
    want = 3 * np.arange(3.0) * 2
    for _ in range(2):
        assert_array_equal(fn(x, k=3.0, weight=w)[0], want)
        assert_array_equal(fn(weight=w, k=3.0, x=x, launch_dims=2, output_dims=3)[0], [0, 6, 0])
    assert_array_equal(jax.jit(fn)(x, weight=w, k=3.0)[0], want)
    assert_array_equal(jax.jit(fn, static_argnames="k")(x, weight=w, k=3.0)[0], want)
    assert_array_equal(jax.grad(lambda k: fn(x, w, k=k)[0].sum())(3.0), 6.0)
    batched = jax.vmap(lambda x, k: fn(k=k, weight=w, x=x)[0])(jnp.stack([x, x]), jnp.asarray([3.0, 6.0]))
    assert_array_equal(batched, [want, 2 * want])
    assert_array_equal(jax.vmap(fn)(x=jnp.stack([x, x]), weight=jnp.stack([w, w]), k=jnp.full(2, 3.0))[0], [want, want])
    assert list(inspect.signature(fn).parameters) == ["x", "weight", "k", "launch_dims", "output_dims"]


def test_arguments_by_name_that_do_not_fit():
    fn, x = wp.jax_kernel(weighted), jnp.ones(3)
    for args, named, message in (
        ((x,), {"weight": x}, "nothing is given for 'k'"),
        ((), {"k": 1.0}, "nothing is given for 'x', 'weight'"),
        ((x, x), {"x": x, "k": 1.0}, "parameter 'x' is given twice"),
        ((x, x, 1.0, x), {"k": 1.0}, "parameter 'k' is given twice"),
        ((x, x), {"k": 1.0, "y": x}, "parameter 'y' is an output"),
        ((x, x), {"wieght": x}, "no keyword 'wieght'.*\n.*did you mean weight"),
    ):
        for call in (fn, jax.jit(fn)):
            with pytest.raises(wp.LaunchError, match=message):
                call(*args, **named)


def test_options_win_over_parameters_of_their_name():
    @wp.kernel
    def sized(x: wp.array[float], launch_dims: float, device: float, y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * launch_dims + device

    fn, x = wp.jax_kernel(sized), jnp.ones(3)
    assert_array_equal(fn(x, 2.0, device=5.0)[0], [7, 7, 7])
    assert_array_equal(fn(x, 2.0, 5.0, launch_dims=2, output_dims=3)[0], [7, 7, 0])
    assert list(inspect.signature(fn).parameters) == ["x", "launch_dims", "device"]


def test_outputs_with_more_axes_than_the_launch_have_the_shape_of_the_first_array():
    @wp.kernel
    def along(a: wp.array3d[float], k: float, b: wp.array3d[float], most: wp.array2d[float]):
        i, j = wp.tid()
        for m in range(a.shape[0]):
            b[m, i, j] = a[m, i, j] * a[m, i, j] * k
            most[i, j] = wp.max(most[i, j], a[m, i, j])

    fn, rng = wp.jax_kernel(along, 2, launch_dims=(4, 5)), np.random.default_rng(5)
    x, slope = rng.normal(size=(2, 3, 4, 5)).astype(np.float32) ** 2, rng.normal(size=(3, 4, 5)).astype(np.float32)
    for call in (fn, jax.jit(fn)):
        b, most = call(x[0], 2.0)
        assert_allclose(b, x[0] ** 2 * 2, rtol=1e-6)
        assert_array_equal(most, x[0].max(0))
    gradient = jax.grad(lambda x: jnp.sum(fn(x, 2.0)[0] * slope))
    assert_allclose(gradient(x[0]), 4 * x[0] * slope, rtol=1e-6)
    assert_allclose(jax.vmap(gradient)(x), 4 * x * slope, rtol=1e-6)
    assert fn(x[0], 2.0, launch_dims=(2, 5))[0].shape == (3, 4, 5)
    assert fn(x[0], 2.0, launch_dims=(2, 5), output_dims={"b": (3, 2, 5), "most": (2, 5)})[0].shape == (3, 2, 5)


def test_generic_outputs_with_more_axes_than_the_launch():
    @wp.kernel
    def along(a: wp.array2d[Any], b: wp.array2d[Any]):
        i = wp.tid()
        for m in range(a.shape[0]):
            b[m, i] = a[m, i] + a[m, i]

    x = np.random.default_rng(6).normal(size=(3, 4)).astype(np.float32)
    assert_array_equal(wp.jax_kernel(along, launch_dims=4)(x)[0], 2 * x)


def test_outputs_whose_rank_no_array_has_are_refused():
    @wp.kernel
    def along(n: int, x: wp.array[float], b: wp.array2d[float]):
        b[n, wp.tid()] = x[0]

    with pytest.raises(wp.LaunchError, match="output 'b': expected a shape of 2 extents"):
        wp.jax_kernel(along, launch_dims=3)(1, jnp.ones(3))
    with pytest.raises(wp.LaunchError, match="output 'b': expected a shape of 2 extents"):
        wp.jax_kernel(along, 2, launch_dims=3)(1)
