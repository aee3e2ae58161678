"""`wp.launch`: arguments that are refused, each by kernel and parameter name, without lasting harm."""

import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from launch_kernels import accumulate, add_float64, add_int, add_int64, copy_if, scale
from numpy.testing import assert_array_equal

import jwarp as wp

pytestmark = pytest.mark.quick

X = jnp.arange(4.0)
I = jnp.arange(4)
SPEC = jax.ShapeDtypeStruct


def assert_refused(error, fragments, kernel, *args, **kwargs):
    """The call is refused with `fragments` in the text, eagerly and traced; a good call works after it."""
    for call in (wp.launch, lambda *a, **k: jax.jit(lambda: wp.launch(*a, **k))()):
        with pytest.raises(error) as caught:
            call(kernel, *args, **kwargs)
        text = str(caught.value)
        for fragment in (f"'{kernel.name}'", *fragments):
            assert fragment in text
    assert_array_equal(wp.launch(scale, 4, [X, 2.0], [4])[0], [0, 2, 4, 6])


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (np.arange(4.0), "float64[4] (NumPy array)"),
        (np.arange(4.0, dtype=">f4"), ">f4[4]"),
        (jnp.arange(4), "int32[4] (JAX array)"),
        (jnp.zeros((2, 2)), "float32[2, 2]"),
        (jnp.float32(1), "float32[]"),
        ([1.0, 2.0], "list"),
        (2.0, "float 2.0"),
        (jax.random.key(0), "key<fry>"),
        (SPEC((4,), jnp.float32), "shape specification"),
        (np.array(["a"]), "<U1[1]"),
        (np.zeros(4, "f4,f4"), "[4]"),
        (np.ma.masked_array(np.zeros(4, np.float32)), "MaskedArray"),
    ],
)
def test_array_of_another_kind_dtype_or_rank(x, shown):
    assert_refused(wp.KernelTypeError, ["'x'", "expected array[float32]", shown], scale, 4, [x, 2.0], [4])


@pytest.mark.parametrize(
    ("x", "way_out"),
    [
        (jnp.ones(4, jnp.complex64), "x.real and x.imag"),
        (np.ones(4, np.complex128), "x.real and x.imag"),
        (jax.random.key(0), "jax.random.key_data"),
        (np.arange(4), "astype(wp.float32.dtype)"),
    ],
)
def test_how_to_convert_an_array(x, way_out):
    assert_refused(wp.KernelTypeError, ["'x'", way_out], scale, 4, [x, 2.0], [4])


@pytest.mark.parametrize(("name", "inputs", "output"), [("x", [None, 2.0], 4), ("y", [X, 2.0], None)])
def test_missing_array_that_every_thread_reaches(name, inputs, output):
    with pytest.raises(wp.LaunchError, match=rf"outside axis 0 of `{name}`, whose extent is 0"):
        wp.launch(scale, 4, inputs, [output])


@pytest.mark.parametrize("k", ["a", None, 1j, jnp.complex64(1), np.ones(1, np.float32), [1.0], X, wp.float32])
def test_no_number_for_a_float(k):
    assert_refused(wp.KernelTypeError, ["'k'", "expected float32"], scale, 4, [X, k], [4])


@pytest.mark.parametrize("k", [1.0, np.float32(1), jnp.float32(1), "a", np.array([1])])
def test_no_integer_for_an_integer(k):
    assert_refused(wp.KernelTypeError, ["'k'", "expected int32"], add_int, 4, [I, k], [4])


def test_traced_float_for_an_integer():
    with pytest.raises(wp.KernelTypeError, match=r"'k'.*expected int32"):
        jax.jit(lambda k: wp.launch(add_int, 4, [I, k], [4]))(1.5)


@pytest.mark.parametrize("k", [2**31, -(2**31) - 1, 10**40, np.int64(2**31), jnp.uint32(2**31)])
def test_integer_that_does_not_fit(k):
    assert_refused(wp.LaunchError, ["'k'", "2147483647"], add_int, 4, [I, k], [4])


def test_integer_beyond_every_float():
    assert_refused(wp.LaunchError, ["'k'"], scale, 4, [X, 10**400], [4])


@pytest.mark.parametrize("flag", [2, 1.0, np.float32(0), "yes", None])
def test_no_bool_for_a_bool(flag):
    assert_refused(wp.KernelTypeError, ["'flag'", "expected bool"], copy_if, 4, [flag, X], [4])


def test_traced_integer_for_a_bool():
    with pytest.raises(wp.KernelTypeError, match="'flag'"):
        jax.jit(lambda f: wp.launch(copy_if, 4, [f, X], [4]))(1)


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ((2, 2), wp.LaunchError),
        ((), wp.LaunchError),
        (-4, wp.LaunchError),
        (4.0, wp.LaunchError),
        (True, wp.LaunchError),
        ("4", wp.LaunchError),
        (SPEC((4,), jnp.int32), wp.KernelTypeError),
        (SPEC((4, 4), jnp.float32), wp.KernelTypeError),
        (jnp.zeros(4, jnp.int32), wp.KernelTypeError),
        (jnp.zeros((4, 1)), wp.KernelTypeError),
    ],
)
def test_output_that_does_not_fit(output, error):
    assert_refused(error, ["'y'"], scale, 4, [X, 2.0], [output])


def test_traced_shape():
    with pytest.raises(wp.LaunchError, match=r"'y'.*shape"):
        jax.jit(lambda n: wp.launch(scale, 4, [X, 2.0], [(n,)]))(4)
    with pytest.raises(wp.KernelTypeError, match=r"'y'(.|\n)*ints"):
        jax.jit(lambda n: wp.launch(scale, 4, [X, 2.0], [n]))(4)


def test_scalar_parameter_as_output():
    assert_refused(wp.KernelTypeError, ["'k'", "must be an array"], scale, 4, [X], [1, 4])


@pytest.mark.parametrize(
    ("inputs", "outputs"), [([X], [4]), ([X, 2.0, 3.0], [4]), ([X, 2.0], [4, 4]), ([X, 2.0], []), ([], [])]
)
def test_wrong_counts(inputs, outputs):
    parts = [f"{len(x)} {what}{'' if len(x) == 1 else 's'}" for x, what in ((inputs, "input"), (outputs, "output"))]
    got = " and ".join(parts)
    assert_refused(wp.LaunchError, ["x, k, y", got], scale, 4, inputs, outputs)


def test_wrong_names():
    assert_refused(wp.LaunchError, ["'z'", "x, k, y"], scale, 4, {"x": X, "z": 1.0}, [4])
    assert_refused(wp.LaunchError, ["'z'"], scale, 4, [X, 1.0], {"z": 4})
    assert_refused(wp.LaunchError, ["'y'", "both"], scale, 4, {"x": X, "k": 1.0, "y": X}, {"y": 4})
    assert_refused(wp.LaunchError, ["'k'"], scale, 4, {"x": X}, {"y": 4})
    assert_refused(wp.LaunchError, ["'k', 'y'"], scale, 4, {"x": X})


@pytest.mark.parametrize("inputs", [X, None, 3.0, "xk"])
def test_inputs_that_are_no_collection(inputs):
    assert_refused(wp.LaunchError, ["inputs"], scale, 4, inputs, [4])
    assert_refused(wp.LaunchError, ["outputs"], scale, 4, [X, 1.0], 4)


def test_written_input():
    assert_refused(wp.LaunchError, ["'total'", "writes"], accumulate, 4, [X, X], [])
    assert_refused(wp.LaunchError, ["'total'", "writes"], accumulate, 4, {"total": X}, {"x": X})


@pytest.mark.parametrize("dim", [-1, (4, -1), 2.0, True, None, "4", (2, 2.0), (1, 1, 1, 1, 1), 2**31, X, {4}])
def test_dims(dim):
    assert_refused(wp.LaunchError, ["dim"], scale, dim, [X, 2.0], [4])


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_traced_dim_and_too_many_threads():
    with pytest.raises(wp.LaunchError, match="'scale': dim"):
        jax.jit(lambda n: wp.launch(scale, n, [X, 2.0], [4]))(4)
    assert_refused(wp.LaunchError, ["2**63"], scale, (2**31 - 1,) * 4, [X, 2.0], [4])


@pytest.mark.parametrize(("kernel", "dtype"), [(add_float64, "float64"), (add_int64, "int64")])
def test_64_bit_types_without_x64(kernel, dtype):
    x = np.zeros(4, dtype)
    assert_refused(wp.KernelTypeError, ["'x'", "'k'", "'y'", "jax_enable_x64", dtype], kernel, 4, [x, 1], [4])


def test_all_faults_in_one_error():
    assert_refused(wp.KernelTypeError, ["3 arguments", "'x'", "'k'", "'y'"], scale, 4, [I, "a"], [jnp.zeros((4, 4))])


@pytest.mark.parametrize(
    ("keywords", "error", "name"),
    [
        ({"adjoint": True}, wp.LaunchError, "adj_outputs"),
        ({"adjoint": 1}, wp.LaunchError, "adjoint must be True or False"),
        ({"adj_inputs": [True]}, wp.LaunchError, "adjoint"),
        ({"adj_outputs": [X]}, wp.LaunchError, "adjoint"),
        ({"stream": 0}, wp.LaunchError, "stream"),
        ({"block_dim": 0}, wp.LaunchError, "block_dim"),
        ({"block_dim": 2.0}, wp.LaunchError, "block_dim"),
        ({"block_dim": True}, wp.LaunchError, "block_dim"),
    ],
)
def test_keywords_that_do_not_fit(keywords, error, name):
    assert_refused(error, [name], scale, 4, [X, 2.0], [4], **keywords)


def test_what_is_no_kernel():
    for what in (lambda x: x, None, "scale"):
        with pytest.raises(wp.KernelTypeError, match=r"wp.launch: expected a kernel"):
            wp.launch(what, 4, [X], [4])
        with pytest.raises(wp.KernelTypeError, match=r"wp.jax_kernel: expected a kernel"):
            wp.jax_kernel(what)


def test_extent_beyond_int32():
    """By abstract evaluation: no memory is needed to find out."""
    long = jax.ShapeDtypeStruct((2**31,), np.float32)
    with pytest.raises(wp.LaunchError, match=r"'x'.*at most 2\*\*31 - 1, got \(2147483648,\)"):
        jax.eval_shape(lambda x: wp.launch(scale, 3, [x, 1.0], [3]), long)
    with pytest.raises(wp.LaunchError, match="at most"):
        jax.eval_shape(lambda x: wp.launch(scale, 3, [x, 1.0], [2**31]), X)


@pytest.mark.parametrize("dim", [0, (9, 0)])
def test_launch_of_no_threads_leaves_no_array(dim):
    (y,) = wp.launch(scale, dim, [X, 1.0], [2])
    assert_array_equal(y, np.zeros(2, np.float32))
    (ys,) = jax.vmap(lambda x: wp.launch(scale, 9, [x, 1.0], [2]))(jnp.zeros((0, 3)))
    assert ys.shape == (0, 2)


@pytest.mark.parametrize(
    ("keywords", "way_out"),
    [
        ({"device": "cuda:0"}, "jax.device_put"),
        ({"record_tape": False}, "jax.lax.stop_gradient"),
        ({"max_blocks": 64}, "leave it out"),
        ({"device": jnp.arange(2)}, "jax.device_put"),
        ({"input": 1}, "did you mean inputs?"),
        ({"xyz": 1}, "there are inputs, outputs"),
    ],
)
def test_keywords_that_do_not_exist(keywords, way_out):
    (name,) = keywords
    assert_refused(wp.LaunchError, [f"there is no keyword '{name}'", way_out], scale, 4, [X, 2.0], [4], **keywords)


def test_keywords_of_warp_at_their_default():
    (y,) = wp.launch(scale, 4, [X, 2.0], [4], device=None, record_tape=True, max_blocks=0)
    assert_array_equal(y, [0, 2, 4, 6])


@wp.kernel
def unknown_name(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = no_such_function(x[i])  # noqa: F821


def test_errors_come_without_the_frames_of_jwarp():
    calls = (
        lambda: wp.launch(unknown_name, 4, [X], [4]),
        lambda: wp.launch(unknown_name, 4, [X], [4], record_cmd=True),
        lambda: wp.jax_kernel(unknown_name)(X),
        lambda: wp.jax_kernel(scale)(X, X),
        lambda: wp.Launch(scale).launch(),
    )

    def frames():
        for call in calls:
            with pytest.raises((wp.CompileError, wp.KernelTypeError, wp.LaunchError)) as caught:
                call()
            own = [e for e in traceback.extract_tb(caught.tb) if e.filename != __file__]
            yield len(own)

    before = jax.config.jax_traceback_filtering
    try:
        jax.config.update("jax_traceback_filtering", "auto")
        assert max(frames()) == 0
        jax.config.update("jax_traceback_filtering", "off")
        assert min(frames()) > 1
    finally:
        jax.config.update("jax_traceback_filtering", before)
