"""Vectors and matrices between JAX and kernels: parameters by value, arrays of them, batches, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

mat23 = wp.types.matrix(shape=(2, 3), dtype=wp.float32)


@wp.kernel
def shift(x: wp.array[wp.vec3], by: wp.vec3, y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = x[i] + by


@wp.kernel
def turn(m: wp.mat22, x: wp.array[wp.vec2], y: wp.array[wp.vec2]):
    i = wp.tid()
    y[i] = m @ x[i]


@wp.kernel
def products(m: wp.array2d[mat23], x: wp.array[wp.vec3], y: wp.array2d[wp.vec2]):
    i, j = wp.tid()
    y[i, j] = m[i, j] @ x[j]


@wp.kernel
def pull(by: wp.vec2, x: wp.array[wp.vec2]):
    i = wp.tid()
    x[i] += by
    x[i].x *= 2.0


@wp.kernel
def count(by: wp.vec2i, small: wp.vec2ub, out: wp.array[wp.vec2i]):
    i = wp.tid()
    out[i] = by + wp.vec2i(int(small[0]), i)


def points(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


X = points(11, 3)
BY = np.array([1.0, -2.0, 0.5], np.float32)


@pytest.mark.parametrize(
    "by",
    [
        (1.0, -2.0, 0.5),
        [1, -2, 0.5],
        BY,
        BY[::-1][::-1],
        BY.astype(np.float64),
        wp.vec3(1.0, -2.0, 0.5),
        jnp.asarray(BY),
        (jnp.float32(1.0), -2.0, np.float32(0.5)),
    ],
    ids=["tuple", "list", "numpy", "strided", "doubles", "vec3", "jax", "mixed"],
)
def test_a_vector_by_value(by):
    (y,) = wp.launch(shift, 11, [X, by], [(11,)])
    np.testing.assert_array_equal(y, X + BY)
    assert y.shape == (11, 3) and y.dtype == jnp.float32


def test_traced_vectors_by_value():
    launch = wp.jax_kernel(shift)
    np.testing.assert_array_equal(jax.jit(launch)(X, BY)[0], X + BY)
    parts = jax.jit(lambda x, a, b: launch(x, (a, b, 0.5)))(X, 1.0, -2.0)
    np.testing.assert_array_equal(parts[0], X + BY)


@pytest.mark.parametrize(
    "m", [((0.0, -1.0), (1.0, 0.0)), np.array([[0, -1], [1, 0]], np.float32)], ids=["tuple", "array"]
)
def test_a_matrix_by_value(m):
    x = points(7, 2)
    (y,) = wp.launch(turn, 7, [m, x], [(7, 2)])
    np.testing.assert_array_equal(y, np.stack([-x[:, 1], x[:, 0]], 1))


def test_integers_by_value():
    (out,) = wp.launch(count, 3, [(1, -2), (200, 3), *[]], [3])
    np.testing.assert_array_equal(out, [[201, -2], [201, -1], [201, 0]])
    (out,) = wp.launch(count, 1, [wp.vec2i(1, 2), np.array([1, 2], np.uint8)], [1])
    np.testing.assert_array_equal(out, [[2, 2]])


@pytest.mark.parametrize("shape", [11, (11,), [11], (11, 3), jax.ShapeDtypeStruct((11, 3), jnp.float32)], ids=str)
def test_an_output_is_asked_for_by_elements_or_in_full(shape):
    (y,) = wp.launch(shift, 11, [X, BY], [shape])
    np.testing.assert_array_equal(y, X + BY)


def test_the_default_launch_leaves_the_components_out():
    m, x = points(4, 5, 2, 3), points(5, 3)
    (y,) = wp.jax_kernel(products)(m, x)
    assert y.shape == (4, 5, 2)
    np.testing.assert_allclose(y, np.einsum("ijkl,jl->ijk", m, x), rtol=1e-5, atol=1e-6)
    (y,) = wp.jax_kernel(turn)(np.eye(2, dtype=np.float32), points(6, 2))  # not the matrix, which is no array
    np.testing.assert_array_equal(y, points(6, 2))
    (y,) = wp.jax_kernel(products, output_dims={"y": (4, 5, 2)})(m, x)
    assert y.shape == (4, 5, 2)


def test_in_outs_keep_what_the_caller_has():
    x = jnp.asarray(points(5, 2))
    before = np.asarray(x).copy()
    expected = (before + np.array([1, 2], np.float32)) * np.array([2, 1], np.float32)
    results = [
        wp.launch(pull, 5, [(1.0, 2.0)], [x])[0],
        wp.launch(pull, 5, [(1.0, 2.0), x])["x"],
        wp.jax_kernel(pull, in_out_argnames=["x"])((1.0, 2.0), x)[0],
    ]
    for result in results:
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(x, before)


def test_batches_are_one_launch():
    launch = wp.jax_kernel(shift)
    xs, bys = points(4, 11, 3), points(4, 3)
    np.testing.assert_array_equal(jax.vmap(launch)(xs, bys)[0], xs + bys[:, None])
    np.testing.assert_array_equal(jax.vmap(launch, in_axes=(None, 0))(X, bys)[0], X + bys[:, None])
    np.testing.assert_array_equal(jax.vmap(launch, in_axes=(2, None))(np.moveaxis(xs, 0, 2), BY)[0], xs + BY)
    nested = jax.vmap(jax.vmap(launch, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_array_equal(nested(xs, bys)[0], xs[:, None] + bys[:, None])
    text = str(jax.make_jaxpr(jax.vmap(launch))(xs, bys))
    assert "scan" not in text and "while" not in text


def test_scans_carry_arrays_of_vectors():
    launch = wp.jax_kernel(pull, in_out_argnames=["x"])

    @jax.jit
    def run(x, steps):
        return jax.lax.scan(lambda x, by: (launch(by, x)[0], None), x, steps)[0]

    x, steps = points(9, 2), points(6, 2)
    expected = x.copy()
    for by in steps:
        expected = (expected + by) * np.array([2, 1], np.float32)
    np.testing.assert_allclose(run(x, steps), expected, rtol=1e-6)


def test_elements_outside_an_array_read_as_zero():
    @wp.kernel
    def gather(x: wp.array[wp.vec2], at: wp.array[int], y: wp.array[wp.vec2]):
        i = wp.tid()
        y[i] = x[at[i]]
        y[at[i] + 100] = wp.vec2(9.0, 9.0)

    x, at = points(5, 2), np.array([0, 7, -1, -6, 4], np.int32)
    (y,) = wp.launch(gather, 5, [x, at], [5])
    np.testing.assert_array_equal(y, [x[0], [0, 0], x[4], [0, 0], x[4]])


def test_a_launch_larger_than_its_array_is_refused():
    with pytest.raises(wp.LaunchError, match="x"):
        wp.launch(shift, 12, [X, BY], [(12,)])


T, L = wp.KernelTypeError, wp.LaunchError
WRONG_INPUTS = {
    "two components": ([X, (1.0, 2.0)], T, "parameter 'by': expected vec3"),
    "number": ([X, 1.0], T, "argument 'by' expects vec3f but got a single value"),
    "text": ([X, "abc"], T, "parameter 'by': expected vec3"),
    "ragged": ([X, ((1.0, 2.0), 3.0)], T, "parameter 'by': expected vec3"),
    "nothing": ([X, None], T, "parameter 'by': expected vec3"),
    "tuple of bools": ([X, (True, False, True)], T, "parameter 'by': expected vec3"),
    "tuple of text": ([X, ("a", "b", "c")], T, "parameter 'by': expected vec3"),
    "matrix": ([X, np.ones((3, 3), np.float32)], T, r"parameter 'by': expected vec3, got float32\[3, 3\]"),
    "bools": ([X, np.ones(3, bool)], T, "parameter 'by': expected vec3"),
    "complex": ([X, np.ones(3, complex)], T, "parameter 'by': expected vec3"),
    "spec": ([X, jax.ShapeDtypeStruct((3,), jnp.float32)], T, "parameter 'by'"),
    "array of pairs": ([X[:, :2], BY], T, r"parameter 'x': expected array\[vec3\], got float32\[11, 2\]"),
    "flat array": ([X.ravel(), BY], T, "the last of extents"),
    "array of integers": ([X.astype(np.int32), BY], T, "parameter 'x'"),
}


@pytest.mark.parametrize("name", WRONG_INPUTS)
def test_inputs_that_do_not_fit_are_refused_by_name(name):
    given, error, words = WRONG_INPUTS[name]
    with pytest.raises(error, match=words):
        wp.launch(shift, 11, given, [(11,)])


WRONG_OUTPUTS = {
    "components of another number": ((11, 2), "3 extents|expected a shape of 1 extents"),
    "too many extents": ((11, 3, 3), "expected a shape of 1 extents for array.vec3., or 2 with the components"),
    "no extents": ((), "expected a shape of 1 extents"),
}


@pytest.mark.parametrize("name", WRONG_OUTPUTS)
def test_outputs_that_do_not_fit_are_refused_by_name(name):
    shape, words = WRONG_OUTPUTS[name]
    with pytest.raises(L, match=words):
        wp.launch(shift, 11, [X, BY], [shape])
    with pytest.raises(T, match="output 'y'"):
        wp.launch(shift, 11, [X, BY], [jax.ShapeDtypeStruct((11, 2), jnp.float32)])


@pytest.mark.parametrize("by", [(1.5, 2), (1, 1 << 40), np.array([1.0, 2.0]), np.array([1, 2], np.int64)], ids=str)
def test_numbers_that_an_integer_vector_cannot_hold_are_refused(by):
    with pytest.raises((T, L), match="parameter 'by'"):
        wp.launch(count, 1, [by, (1, 2)], [1])


@pytest.mark.parametrize("small", [(-1, 2), (256, 0)], ids=str)
def test_numbers_outside_the_component_type_are_refused(small):
    with pytest.raises((T, L), match="parameter 'small'"):
        wp.launch(count, 1, [(1, 2), small], [1])


def test_vectors_by_value_are_no_outputs():
    with pytest.raises(T, match="output 'm'"):
        wp.launch(turn, 5, {"x": X[:, :2]}, {"m": (2, 2), "y": (11,)})
    with pytest.raises(T, match="passed by value"):
        wp.jax_kernel(pull, in_out_argnames=["by"], num_outputs=1)
    with pytest.raises(T, match="must be an array"):
        wp.jax_kernel(pull, num_outputs=2)


def test_doubles_need_x64():
    @wp.kernel
    def kernel(v: wp.vec2d, out: wp.array[wp.vec2d]):
        out[0] = v

    with pytest.raises(T, match="jax_enable_x64"):
        wp.launch(kernel, 1, [(1.0, 2.0)], [1])
    with jax.enable_x64(True):
        (out,) = wp.launch(kernel, 1, [(0.1, 2)], [1])
    assert np.asarray(out).tolist() == [[0.1, 2.0]]


@wp.kernel
def shifted_by(x: wp.array[float], s: wp.vec2, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + s[0]


@pytest.mark.parametrize("way", ["jax_kernel", "launch", "functionalize"])
def test_what_a_vector_was_at_the_call_counts_where_jax_traces(way):
    """A vector, or a NumPy array, that the traced function changes from launch to launch."""
    shift, array = wp.vec2(), np.zeros(3, np.float32)
    call = wp.jax_kernel(shifted_by)

    def on_arrays(x: wp.array[float]):
        found = []
        for k in range(3):
            shift[0] = k
            found.append(wp.zeros(3, dtype=float))
            wp.launch(shifted_by, 3, [x, shift, found[-1]])
        shift[0] = 9.0
        return found

    def on_values(x):
        found = []
        for k in range(3):
            shift[0], array[:] = 2 * k, -k
            one = call(x, shift) if way == "jax_kernel" else wp.launch(shifted_by, 3, [x, shift], [3])
            other = (
                call(array, shift) if way == "jax_kernel" else wp.launch(shifted_by, 3, [array, shift], [jnp.zeros(3)])
            )
            found.append((one[0] + other[0] - x) / 3.0)
        shift[0], array[:] = 9.0, 9.0
        return found

    function = wp.functionalize(on_arrays) if way == "functionalize" else on_values
    run = jax.jit(lambda x: function(wp.from_jax(x))[0] if way == "functionalize" else function(x))
    for k, found in enumerate(run(jnp.zeros(3))):
        np.testing.assert_allclose(np.asarray(found), np.full(3, k), atol=1e-6)


def test_what_an_array_was_when_it_was_copied_counts_where_jax_traces():
    """NumPy's memory that the traced function changes after a copy or a fill."""
    numbers, vector = np.zeros(2, np.float32), wp.vec2()

    def function(x: wp.array[float]):
        made = []
        for k in range(3):
            numbers[:], vector[1] = k, k
            made += [wp.array(numbers, dtype=float), wp.from_numpy(numbers, dtype=float), wp.zeros(2, dtype=float)]
            made[-1].assign(numbers)
            made.append(wp.zeros(2, dtype=wp.vec2))
            made[-1].fill_(vector)
        numbers[:], vector[1] = 9.0, 9.0
        return made

    found = jax.jit(lambda x: wp.functionalize(function)(wp.from_jax(x))[0])(jnp.zeros(2))
    for k in range(3):
        for each in found[4 * k : 4 * k + 3]:
            np.testing.assert_array_equal(np.asarray(each), [k, k])
        np.testing.assert_array_equal(np.asarray(found[4 * k + 3]), [[0, k], [0, k]])
