"""`wp.launch` on NumPy arrays and other mutable buffers: what is written, what is refused."""

import gc
import sys
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from launch_kernels import accumulate, advance, copy_if, fill, halve_and_double, scale
from numpy.testing import assert_array_equal

import jwarp as wp

pytestmark = pytest.mark.quick


@pytest.fixture
def random():
    return np.random.default_rng(5)


def floats(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


@wp.kernel
def add_vectors(x: wp.array[wp.vec3], shift: wp.vec3, y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = x[i] + shift


@wp.kernel
def transpose(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[j, i] = x[i, j]


@wp.kernel
def count(values: wp.array[int], bins: wp.array[int]):
    wp.atomic_add(bins, values[wp.tid()] % bins.shape[0], 1)


@wp.kernel
def wide(x: wp.array[wp.float64], k: wp.int64, y: wp.array[wp.float64]):
    i = wp.tid()
    y[i] = x[i] * wp.float64(k)


# What is written


def test_outputs_are_written_and_returned(random):
    x, y = floats(random, 50), np.full(50, 7, np.float32)
    (result,) = wp.launch(scale, 30, [x, 2.0], [y])
    assert result is y
    assert_array_equal(y, np.where(np.arange(50) < 30, 2 * x, 7))  # no zeros where no thread writes


def test_several_outputs_in_any_collection(random):
    x, half, double = floats(random, 9), np.empty(9, np.float32), np.empty(9, np.float32)
    results = wp.launch(halve_and_double, 9, {"x": x}, {"double": double, "half": half})
    assert list(results) == ["double", "half"] and results["half"] is half and results["double"] is double
    assert_array_equal(half, x / 2)
    assert_array_equal(double, x * 2)


def test_written_parameters_among_the_inputs(random):
    x, v, energy = floats(random, 8), floats(random, 8), np.zeros(8, np.float32)
    v_after = v - np.float32(0.5) * x
    x_after = x + np.float32(0.5) * v_after
    results = wp.launch(advance, 8, [x, v, 0.5, energy])
    assert list(results) == ["x", "v", "energy"]
    assert results["x"] is x and results["v"] is v and results["energy"] is energy
    np.testing.assert_allclose(v, v_after, rtol=1e-6)
    np.testing.assert_allclose(x, x_after, rtol=1e-6)
    np.testing.assert_allclose(energy, x * x + v * v, rtol=1e-5)


def test_an_in_out_parameter_goes_on_from_its_content(random):
    x, total = floats(random, 20), floats(random, 20)
    expected = total + x
    wp.launch(accumulate, 20, [x], [total])
    assert_array_equal(total, expected)


def test_zero_threads_write_nothing():
    y = np.full(4, 3, np.float32)
    assert wp.launch(fill, 0, [1.0], [y])[0] is y
    wp.launch(fill, (4, 0), [1.0], [y])
    assert_array_equal(y, 3)
    empty = np.empty(0, np.float32)
    assert wp.launch(scale, 0, [empty, 1.0], [empty])[0] is empty


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_repeats_of_each_thread(random):
    values, bins = random.integers(0, 100, 40).astype(np.int32), np.zeros(7, np.int32)
    wp.launch(count, (40, 3), [values], [bins])
    assert_array_equal(bins, 3 * np.bincount(values % 7, minlength=7))


def test_wide_types_do_not_need_x64(random):
    x, y = random.standard_normal(10), np.empty(10)
    wp.launch(wide, 10, [x, 2**40], [y])
    assert_array_equal(y, x * 2.0**40)


def test_large_launch_is_the_jitted_one_bit_for_bit(random):
    x = floats(random, 3_000_000)
    k = 1.7
    y = np.empty_like(x)
    wp.launch(scale, len(x), [x, k], [y])
    (expected,) = jax.jit(lambda x, k: wp.launch(scale, len(x), [x, k], [x.shape]))(x, k)
    assert_array_equal(y, np.asarray(expected))


def test_sums_have_the_bits_of_the_jitted_launch(random):
    @wp.kernel
    def total(x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        wp.atomic_add(out, i % 3, wp.sin(x[i]))

    x, start = floats(random, 400_000), floats(random, 3)
    (expected,) = jax.jit(lambda x, s: wp.launch(total, len(x), [x], [s]))(x, start.copy())
    wp.launch(total, len(x), [x], [start])
    assert_array_equal(start, np.asarray(expected))


# Layouts


def views(array):
    """The content of a contiguous array in other layouts."""
    wider = np.zeros(tuple(2 * n + 1 for n in array.shape), array.dtype)
    strided = wider[tuple(slice(1, None, 2) for _ in array.shape)]
    backwards = np.empty_like(array)[tuple(slice(None, None, -1) for _ in array.shape)]
    fortran = np.empty_like(array, order="F")
    raw = np.zeros(array.nbytes + 1, np.uint8)
    misaligned = raw[1:].view(array.dtype).reshape(array.shape)
    for view in (strided, backwards, fortran, misaligned):
        view[...] = array
    return {"strided": strided, "backwards": backwards, "fortran": fortran, "misaligned": misaligned}


@pytest.mark.parametrize("layout", ["strided", "backwards", "fortran", "misaligned"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (1, 9), (300, 1000)])
def test_layouts(random, layout, shape):
    x = floats(random, *shape)
    start = floats(random, *shape[::-1])
    source, target = views(x)[layout], views(start)[layout]
    (result,) = wp.launch(transpose, shape, [source], [target])
    assert result is target
    assert_array_equal(target, x.T)
    assert_array_equal(source, x)


def test_elements_between_those_of_a_view_stay(random):
    x, whole = floats(random, 40), floats(random, 41, 3)
    expected = whole.copy()
    expected[::-2, 1][:15] = 3 * x[::2][:15]
    wp.launch(scale, 15, [x[::2], 3.0], [whole[::-2, 1]])
    assert_array_equal(whole, expected)


def test_components_that_are_apart(random):
    x, y = floats(random, 3, 12), np.zeros((12, 5), np.float32)
    shift = np.array([1, 2, 3], np.float32)
    wp.launch(add_vectors, 12, [x.T, shift], [y[:, ::2]])
    assert_array_equal(y[:, ::2], x.T + shift)
    assert_array_equal(y[:, 1::2], 0)


def test_broadcast_inputs(random):
    row, y = floats(random, 6), np.zeros((6, 4), np.float32)
    wp.launch(transpose, (4, 6), [np.broadcast_to(row, (4, 6))], [y])
    assert_array_equal(y, np.broadcast_to(row, (4, 6)).T)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bfloat16", "float64", "int64", "bool"])
def test_element_types_in_any_layout(random, dtype):
    type = {"bool": wp.bool}.get(dtype) or getattr(wp, dtype)

    @wp.kernel
    def copy(x: wp.array[type], y: wp.array[type]):
        i = wp.tid()
        y[i] = x[i]

    x = random.integers(0, 2, 11).astype(type.dtype)
    for layout, view in views(x).items():
        y = np.zeros(11, type.dtype)
        wp.launch(copy, 11, [view], [y])
        assert_array_equal(y, x, err_msg=layout)


def test_structs_of_arrays(random):
    @wp.struct
    class Particle:
        x: wp.vec3
        m: float

    @wp.kernel
    def grow(a: wp.array[Particle], b: wp.array[Particle]):
        i = wp.tid()
        p = a[i]
        p.x = p.x * p.m
        b[i] = p

    a = Particle(x=floats(random, 5, 3), m=floats(random, 5))
    b = Particle(x=np.zeros((5, 3), np.float32)[::-1], m=np.zeros(5, np.float32))
    (result,) = wp.launch(grow, 5, [a], [b])
    assert result.x is b.x and result.m is b.m
    assert_array_equal(b.x, a.x * a.m[:, None])
    assert_array_equal(b.m, a.m)


# What is refused


@pytest.mark.parametrize("other", [4, (4,), jnp.zeros(4), jax.ShapeDtypeStruct((4,), np.float32)])
def test_outputs_of_two_kinds(other):
    y = np.full(4, 5, np.float32)
    x = np.ones(4, np.float32)
    for outputs in ([y, other], [other, y]):
        with pytest.raises(wp.LaunchError, match=r"returned as a JAX array, and others are NumPy.* of one kind"):
            wp.launch(halve_and_double, 4, [x], outputs)
    if isinstance(other, jax.Array):
        with pytest.raises(wp.LaunchError, match="of one kind"):
            wp.launch(halve_and_double, 4, [x, y, other])
    assert_array_equal(y, 5)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad, lambda f: lambda x: jax.lax.map(f, x)])
def test_inside_transformations(transform):
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    start = jnp.ones(()) if transform is jax.grad else jnp.ones(3)
    for function in (
        lambda k: wp.launch(scale, 4, [x, k.sum()], [y])[0].sum(),
        lambda k: wp.launch(accumulate, 4, [x], [y])[0].sum() * k,
    ):
        with pytest.raises(wp.LaunchError, match="jax.jit"):
            transform(function)(start)
    assert_array_equal(y, 0)


def test_read_only_outputs(tmp_path):
    y = np.zeros(4, np.float32)
    y.flags.writeable = False
    np.save(tmp_path / "y.npy", y)
    for output in (y, np.load(tmp_path / "y.npy", mmap_mode="r"), np.asarray(jnp.zeros(4))):
        with pytest.raises(wp.LaunchError, match=r"'y'.*read-only"):
            wp.launch(fill, 4, [1.0], [output])
    mapped = np.load(tmp_path / "y.npy", mmap_mode="r+")
    wp.launch(fill, 4, [1.0], [mapped])
    assert_array_equal(mapped, 1)
    wp.launch(scale, 4, [y, 1.0], [np.ones(4, np.float32)])  # an input may be


@pytest.mark.parametrize(
    "dtype", [">f4", "f8", "i4", "c8", "S4", "U1", "O", "M8[s]", [("a", "f4")], [("a", "f4"), ("b", "i4")]]
)
def test_other_dtypes(dtype):
    wrong, right = np.zeros(4, dtype), np.zeros(4, np.float32)
    with pytest.raises(wp.KernelTypeError, match=r"output 'y'.*array\[float32\]"):
        wp.launch(fill, 4, [1.0], [wrong])
    with pytest.raises(wp.KernelTypeError, match=r"parameter 'x'"):
        wp.launch(scale, 4, [wrong, 1.0], [right])
    assert_array_equal(right, 0)


def test_other_shapes_and_kinds():
    y = np.zeros((2, 2), np.float32)
    with pytest.raises(wp.KernelTypeError, match="output 'y'"):
        wp.launch(fill, 4, [1.0], [y])
    with pytest.raises(wp.KernelTypeError, match="output 'y'"):
        wp.launch(add_vectors, 2, [np.zeros((2, 3), np.float32), (0.0, 0.0, 0.0)], [y])
    with pytest.raises(wp.KernelTypeError, match="output 'y'"):
        wp.launch(fill, 4, [1.0], [np.ma.zeros(4, np.float32)])
    with pytest.raises(wp.KernelTypeError, match="output 'value'"):
        wp.launch(fill, 4, [], [np.zeros((), np.float32), np.zeros(4, np.float32)])
    with pytest.raises(wp.LaunchError, match=r"'total'.*writes"):
        wp.launch(accumulate, 4, {"total": np.zeros(4, np.float32)}, {"x": np.zeros(4, np.float32)})


def test_more_threads_than_elements():
    y = np.zeros(4, np.float32)
    with pytest.raises(wp.LaunchError, match="outside axis 0 of `y`"):
        wp.launch(fill, 5, [1.0], [y])
    assert_array_equal(y, 0)


# Debug mode


def test_failed_checks_name_kernel_line_and_thread():
    @wp.kernel
    def pick(x: wp.array[float], at: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[at[i]]

    x, at, y = np.ones(5, np.float32), np.array([0, 1, 2, 9, 4], np.int32), np.zeros(5, np.float32)
    wp.launch(pick, 5, [x, at], [y])
    assert_array_equal(y, [1, 1, 1, 0, 1])
    with (
        wp.config(debug=True),
        pytest.raises(RuntimeError, match=r"kernel 'pick': .*test_in_place.py:\d+.*thread \(3\)") as caught,
    ):
        wp.launch(pick, 5, [x, at], [y[::-1]])
    assert not isinstance(caught.value, wp.LaunchError)


# Inputs


def test_jax_inputs_are_viewed_and_stay(random):
    x, y = jnp.asarray(floats(random, 16)), np.zeros(16, np.float32)
    before = np.array(x)
    wp.launch(scale, 16, [x, jnp.float32(2)], [y])
    assert_array_equal(y, 2 * before)
    assert_array_equal(np.asarray(x), before)
    with pytest.raises(wp.LaunchError, match="overlaps|read-only"):
        wp.launch(scale, 16, [x, 2.0], [np.asarray(x)])


def test_scalars_and_vectors_by_value(random):
    y = np.zeros((4, 3), np.float32)
    x = floats(random, 4, 3)
    for shift in ((1.0, 2.0, 3.0), np.array([1, 2, 3]), jnp.array([1.0, 2.0, 3.0]), wp.vec3(1.0, 2.0, 3.0)):
        y[...] = 0
        wp.launch(add_vectors, 4, [x, shift], [y])
        assert_array_equal(y, x + np.array([1, 2, 3], np.float32))
    z = np.zeros(4, np.float32)
    wp.launch(copy_if, 4, [np.True_, x[:, 0], z])
    assert_array_equal(z, x[:, 0])


# Other exporters of DLPack


class Exporter:
    """Exports a NumPy array, as other libraries export theirs; old ones do not know versions."""

    def __init__(self, array, old=False, device=(1, 0)):
        self.array, self.old, self.device = array, old, device

    def __dlpack__(self, **options):
        if self.old and options:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


@pytest.mark.parametrize("old", [False, True])
def test_exporters_are_written_in_place(random, old):
    x, y = floats(random, 10), np.zeros((10, 2), np.float32)
    output = Exporter(y[::-1, 0], old)
    (result,) = wp.launch(scale, 10, [Exporter(x, old), 2.0], [output])
    assert result is output
    assert_array_equal(y[::-1, 0], 2 * x)
    assert_array_equal(y[:, 1], 0)
    assert wp.launch(accumulate, 10, [x, output])["total"] is output
    np.testing.assert_allclose(y[::-1, 0], 3 * x, rtol=1e-6)


def test_arrays_of_warp():
    warp = pytest.importorskip("warp")
    warp.config.log_level = warp.LOG_ERROR
    x = warp.array(np.arange(4, dtype=np.float32), device="cpu")
    y = warp.zeros(4, dtype=warp.vec3, device="cpu")

    @wp.kernel
    def spread(x: wp.array[float], y: wp.array[wp.vec3]):
        i = wp.tid()
        y[i] = wp.vec3(x[i], 1.0, -x[i])

    assert wp.launch(spread, 4, [x], [y])[0] is y
    assert_array_equal(y.numpy(), np.stack([np.arange(4), np.ones(4), -np.arange(4)], axis=1))


def test_exporters_share_memory_with_arrays():
    y = np.ones(10, np.float32)
    wp.launch(scale, 10, [y, 2.0], [Exporter(y)])
    assert_array_equal(y, 2)
    with pytest.raises(wp.LaunchError, match="overlaps"):
        wp.launch(scale, 9, [y[1:], 2.0], [Exporter(y[:-1])])


def test_exporters_that_are_refused():
    y = np.zeros(4, np.float32)
    y.flags.writeable = False
    with pytest.raises(wp.LaunchError, match="read-only"):
        wp.launch(fill, 4, [1.0], [Exporter(y)])
    with pytest.raises((wp.LaunchError, wp.KernelTypeError), match="output 'y'"):
        wp.launch(fill, 4, [1.0], [Exporter(np.zeros(4, np.float32), device=(2, 0))])
    with pytest.raises(wp.KernelTypeError, match="output 'y'"):
        wp.launch(fill, 4, [1.0], [Exporter(np.zeros(4))])

    class Broken(Exporter):
        def __dlpack__(self, **_):
            raise BufferError("no")

    with pytest.raises(wp.KernelTypeError, match="output 'y'"):
        wp.launch(fill, 4, [1.0], [Broken(np.zeros(4, np.float32))])


# Life of arrays


class Watched(np.ndarray):
    """An array that can be watched."""


def test_a_launch_leaves_nothing_behind():
    y = np.zeros(4, np.float32).view(Watched)
    watch, before = weakref.ref(y), sys.getrefcount(y)
    wp.launch(fill, 4, [1.0], [y])
    assert sys.getrefcount(y) == before
    del y
    gc.collect()
    assert watch() is None


# Calls that are repeated are checked again where they can differ


def test_repeated_calls(random):
    x, y = floats(random, 16), np.zeros(16, np.float32)
    for k in (1.0, 2, True, 0.5):
        (result,) = wp.launch(scale, 16, [x, k], [y])
        assert result is y
        assert_array_equal(y, np.float32(k) * x)
    assert_array_equal(wp.launch(scale, 16, [jnp.asarray(x), 3.0], [y])[0], 3 * x)
    assert_array_equal(wp.launch(scale, 16, [jnp.asarray(x), 4.0], [y])[0], 4 * x)
    for k in (2.0, 3.0):
        results = wp.launch(scale, 16, [x, k, y])
        assert list(results) == ["y"] and results["y"] is y
        assert_array_equal(y, np.float32(k) * x)
    with pytest.raises(wp.LaunchError):
        wp.launch(scale, 16, [x, 10**400], [y])


def test_repeated_calls_with_other_layouts_and_flags(random):
    x, y = floats(random, 12), np.zeros((12, 2), np.float32)
    for target in (y[:, 0], y[:, 1], np.zeros(12, np.float32), y[::-1, 1], y[:, 0]):
        wp.launch(scale, 12, [x[::-1], 2.0], [target])
        assert_array_equal(target, 2 * x[::-1])
    frozen = np.zeros(12, np.float32)
    wp.launch(scale, 12, [x, 2.0], [frozen])
    frozen.flags.writeable = False
    with pytest.raises(wp.LaunchError, match="read-only"):
        wp.launch(scale, 12, [x, 2.0], [frozen])


def test_a_repeated_call_inside_jit(random):
    x, y = floats(random, 12), np.zeros(12, np.float32)
    for _ in range(2):
        wp.launch(scale, 12, [x, 2.0], [y])
    y[:] = 0
    with pytest.raises(wp.LaunchError, match="jax.jit"):
        jax.jit(lambda k: k * wp.launch(scale, 12, [x, 2.0], [y])[0].sum())(1.0)
    assert_array_equal(y, 0)


def test_a_repeated_call_keeps_no_array(random):
    x, y = floats(random, 12), np.zeros(12, np.float32)
    for _ in range(3):
        wp.launch(scale, 12, [x, 2.0], [y])
    assert sys.getrefcount(x) == sys.getrefcount(y) == 2


def test_eight_threads_launch_the_same_kernel(random):
    x = floats(random, 200_000)
    results = [np.zeros_like(x) for _ in range(8)]

    def run(k):
        for _ in range(10):
            wp.launch(scale, len(x), [x, float(k)], [results[k]])

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for k, result in enumerate(results):
        assert_array_equal(result, np.float32(k) * x)


@pytest.mark.parametrize("given", [jnp.zeros(4), np.zeros(4, np.float32), 3.0])
def test_arrays_in_place_of_lists(given):
    """One array where a list of them is meant, wherever it stands."""
    x, adjoint = np.ones(4, np.float32), {"adjoint": True}
    for keywords in (
        {"inputs": given, "outputs": [4, 4]},
        {"inputs": [x], "outputs": given},
        {"inputs": [x], "outputs": [4, 4], "adj_outputs": given, **adjoint},
        {"inputs": [x], "outputs": [4, 4], "adj_outputs": [x, x], "adj_inputs": given, **adjoint},
    ):
        with pytest.raises(wp.LaunchError, match="must be a list, a tuple or a dict by parameter name"):
            wp.launch(halve_and_double, 4, **keywords)
