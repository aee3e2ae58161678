"""Launch records on NumPy arrays: forward launches that write in place, adjoints that add in place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(21)


@wp.kernel
def axpy(x: wp.array[float], y: wp.array[float], a: float, n: int, out: wp.array[float]):
    i = wp.tid()
    out[i] = a * x[i] * y[i] + float(n)


@wp.kernel
def damped(x: wp.array[float], k: float, state: wp.array[float]):
    i = wp.tid()
    for _j in range(3):
        state[i] = state[i] * state[i] * k + x[i]


@wp.kernel
def mixed(x: wp.array[float], v: wp.vec3, n: int, total: wp.array[float], high: wp.array[float], near: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(total, i % 2, x[i] * x[i] * wp.length(v))
    wp.atomic_max(high, 0, wp.sin(x[i]) * v[1])
    if i > 0 and i < n - 1:
        near[i] = x[i - 1] * x[i + 1] - x[i]


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


# Forward


def test_a_record_writes_in_place_again_and_again():
    x, y, out = floats(5), floats(5), np.full(5, 9.0, np.float32)
    record = wp.launch(axpy, 5, [x, y, 2.0, 3], [out], record_cmd=True)
    np.testing.assert_array_equal(out, 9.0)
    (found,) = record.launch()
    assert found is out
    np.testing.assert_allclose(out, 2 * x * y + 3, rtol=1e-6)
    x[:] = 1.0
    record.launch()
    np.testing.assert_allclose(out, 2 * y + 3, rtol=1e-6)
    record.set_param_by_name("a", -1.0)
    record.set_dim(2)
    out[:] = 0
    record.launch()
    np.testing.assert_allclose(out, [*(-y + 3)[:2], 0, 0, 0], rtol=1e-6)
    other = np.zeros(5, np.float32)
    record.set_param_at_index(4, other)
    assert record.launch()[0] is other
    np.testing.assert_allclose(other[:2], (-y + 3)[:2], rtol=1e-6)


def test_states_go_on_from_where_they_are():
    x, state = floats(4) * 0.1, floats(4) * 0.1
    expected = state.copy()
    record = wp.launch(damped, 4, [x, 0.5], [state], record_cmd=True)
    for _ in range(3):
        record.launch()
        for _ in range(3):
            expected = expected**2 * np.float32(0.5) + x
        np.testing.assert_allclose(state, expected, rtol=1e-5)


def test_without_outputs_a_dict_of_the_same_arrays_comes_back():
    x, state = floats(4), floats(4)
    record = wp.launch(damped, 4, [x, 0.5, state], record_cmd=True)
    assert record.launch()["state"] is state


def test_an_empty_record_takes_arrays():
    out = np.zeros(3, np.float32)
    record = wp.Launch(axpy)
    record.set_params([floats(3), floats(3), 0.0, 4, out])
    record.set_dim(3)
    record.launch()
    np.testing.assert_array_equal(out, 4.0)


# Adjoints


def functional(kernel, dim, inputs, outputs, wanted, weights):
    """Gradients of the inputs `wanted` by jax.vjp; outputs given by arrays are initial contents."""

    def run(*chosen):
        given = list(inputs)
        for k, x in zip(wanted, chosen, strict=True):
            given[k] = x
        return wp.launch(kernel, dim, given, outputs)

    _, pull = jax.vjp(run, *(jnp.asarray(inputs[k], jnp.float32) for k in wanted))
    return [np.asarray(g) for g in pull(tuple(jnp.asarray(w) for w in weights))]


def test_gradients_are_added_to_arrays():
    x, y, w, start = floats(4, 6)
    adj_x, adj_a = start.copy(), np.zeros((), np.float32)
    kept = w.copy()
    record = wp.launch(
        axpy, 6, [x, y, 2.0, 3], [6], adjoint=True, adj_inputs=[adj_x, None, adj_a, None], adj_outputs=[w],
        record_cmd=True,
    )  # fmt: skip
    np.testing.assert_array_equal(adj_x, start)
    for times in (1, 2):
        found = record.launch()
        assert found[0] is adj_x and found[1] is adj_a
        np.testing.assert_allclose(adj_x, start + times * w * 2 * y, rtol=1e-5)
        np.testing.assert_allclose(adj_a, times * (w * x * y).sum(), rtol=1e-4)
    np.testing.assert_array_equal(w, kept)
    record.set_param_by_name("a", 5.0)
    adj_x[:] = 0
    record.launch()
    np.testing.assert_allclose(adj_x, w * 5 * y, rtol=1e-5)


def test_contents_of_in_outs_are_read_and_not_written():
    x, state, w = floats(3, 4) * 0.3
    content = state.copy()
    adj_x, adj_state = np.zeros(4, np.float32), np.ones(4, np.float32)
    record = wp.launch(
        damped, 4, [x, 0.5], [state], adjoint=True, adj_inputs=[adj_x, None, adj_state], adj_outputs=[w],
        record_cmd=True,
    )  # fmt: skip
    _, pull = jax.vjp(lambda x, s: wp.launch(damped, 4, [x, 0.5], [s])[0], jnp.asarray(x), jnp.asarray(state))
    by_x, by_state = pull(jnp.asarray(w))
    for times in (1, 2):
        record.launch()
        np.testing.assert_allclose(adj_x, times * by_x, rtol=1e-5)
        np.testing.assert_allclose(adj_state, 1 + times * by_state, rtol=1e-5)
    np.testing.assert_array_equal(state, content)


@pytest.mark.parametrize("strided", [False, True])
def test_sums_extrema_gathers_and_vectors(strided):
    n = 9
    x, v = floats(n), floats(3)
    weights = [floats(2), floats(1), floats(n)]
    adj_x, adj_v = np.zeros(2 * n if strided else n, np.float32), np.zeros(3, np.float32)
    if strided:
        adj_x = adj_x[::-2]
        x = np.repeat(x, 3)[::3]
    expected = functional(mixed, n, [x, v, n], [2, 1, n], [0, 1], weights)
    record = wp.launch(
        mixed, n, [x, v, n], [2, 1, n], adjoint=True, adj_inputs=[adj_x, adj_v, None], adj_outputs=weights,
        record_cmd=True,
    )  # fmt: skip
    for times in (1, 2):
        record.launch()
        np.testing.assert_allclose(adj_x, times * expected[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(adj_v, times * expected[1], rtol=1e-4, atol=1e-5)


def test_wide_types_without_x64():
    @wp.kernel
    def square(x: wp.array[wp.float64], y: wp.array[wp.float64]):
        i = wp.tid()
        y[i] = x[i] * x[i]

    x, y, adj = RNG.normal(size=4), np.zeros(4), np.zeros(4)
    wp.launch(square, 4, [x], [y])
    np.testing.assert_array_equal(y, x * x)
    wp.launch(square, 4, [x], [y], adjoint=True, adj_inputs=[adj], adj_outputs=[np.ones(4)])
    np.testing.assert_array_equal(adj, 2 * x)


def test_gradients_that_are_only_wanted_come_back():
    x, y, w = floats(3, 6)
    out = np.zeros(6, np.float32)
    record = wp.launch(axpy, 6, [x, y, 2.0, 3], [out], adjoint=True, adj_outputs=[w], record_cmd=True)
    first, second = record.launch(), record.launch()
    np.testing.assert_allclose(first[0], w * 2 * y, rtol=1e-5)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
        assert isinstance(a, np.ndarray) and a is not b
    adj = np.zeros(6, np.float32)
    found = wp.launch(axpy, 6, [x, y, 2.0, 3], [6], adjoint=True, adj_inputs=[adj, None, 100.0, None], adj_outputs=[w])
    np.testing.assert_allclose(found[1], 100 + (w * x * y).sum(), rtol=1e-4)


def test_missing_cotangents_are_zero_and_missing_lists_an_error():
    x, y, adj = floats(3, 6)
    before = adj.copy()
    wp.launch(axpy, 6, [x, y, 2.0, 3], [6], adjoint=True, adj_inputs=[adj, None, None, None], adj_outputs=[None])
    np.testing.assert_array_equal(adj, before)
    with pytest.raises(wp.LaunchError, match="needs adj_outputs"):
        wp.launch(axpy, 6, [x, y, 2.0, 3], [6], adjoint=True, adj_inputs=[adj, None, None, None])


def test_faults():
    x, y, w = floats(3, 6)
    given = (axpy, 6, [x, y, 2.0, 3], [6])
    locked = np.zeros(6, np.float32)
    locked.flags.writeable = False
    for adj, error, text in (
        (locked, wp.LaunchError, "read-only"),
        (np.zeros(5, np.float32), wp.LaunchError, r"expected float32\[6\]"),
        (np.zeros(6), wp.KernelTypeError, "adjoint of 'x'"),
    ):
        with pytest.raises(error, match=text):
            wp.launch(*given, adjoint=True, adj_inputs=[adj, None, None, None], adj_outputs=[w])
    with pytest.raises(wp.LaunchError, match="of one kind"):
        wp.launch(*given, adjoint=True, adj_inputs=[x, jnp.asarray(y), None, None], adj_outputs=[w])
    with pytest.raises(wp.LaunchError, match=r"jax\.jit"):
        jax.jit(
            lambda w: wp.launch(*given, adjoint=True, adj_inputs=[np.zeros(6, np.float32), None, None, None],
                                adj_outputs=[w])
        )(w)  # fmt: skip
    frozen = wp.kernel(axpy.python, enable_backward=False)
    with pytest.raises(wp.NotDifferentiableError, match="enable_backward"):
        wp.launch(frozen, *given[1:], adjoint=True, adj_inputs=[x.copy(), None, None, None], adj_outputs=[w])


def test_an_optimisation_loop_with_two_records():
    """Fit `a` of a * x * y by gradient descent on NumPy arrays."""
    x, y = floats(2, 50)
    target = 3.0 * x * y
    a, out, adj_out, adj_a = 0.5, np.zeros(50, np.float32), np.zeros(50, np.float32), np.zeros((), np.float32)
    forward = wp.launch(axpy, 50, [x, y, a, 0], [out], record_cmd=True)
    backward = wp.launch(
        axpy, 50, [x, y, a, 0], [out], adjoint=True, adj_inputs=[None, None, adj_a, None], adj_outputs=[adj_out],
        record_cmd=True,
    )  # fmt: skip
    scale = 0.5 / float((x * x * y * y).sum())
    for _ in range(40):
        forward.launch()
        adj_out[:] = 2 * (out - target)
        adj_a[...] = 0
        backward.launch()
        a -= scale * float(adj_a) * 0.5
        forward.set_param_by_name("a", a)
        backward.set_param_by_name("a", a)
    assert abs(a - 3.0) < 1e-4


@wp.kernel
def triple(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 3.0 * x[i]
    y[i] = y[i] + x[i] * x[i]


def test_the_adjoint_of_a_launch_that_writes_to_its_input_is_refused():
    """Its derivative is that of one array, which the adjoint of two does not know."""
    a, w, gradient = floats(8), floats(6), np.zeros(6, np.float32)
    for x, y in ((a[:6], a[:6]), (a[:6], a[2:])):
        with pytest.raises(wp.LaunchError, match="'y' shares its memory with 'x'"):
            wp.launch(triple, 6, [x], [y], adjoint=True, adj_inputs=[gradient], adj_outputs=[w])
    assert not gradient.any()
    content = jnp.asarray(a[:6])  # which no launch writes to
    wp.launch(triple, 6, [content], [content], adjoint=True, adj_inputs=[gradient], adj_outputs=[w])
    np.testing.assert_allclose(gradient, w * (3 + 2 * a[:6]), rtol=1e-5)


def test_an_output_that_becomes_another_kind_of_output():
    x, start = floats(6), floats(6)
    expected = 3 * x + x * x
    record = wp.launch(triple, 6, [x], [jnp.asarray(start)], record_cmd=True)
    record.launch()
    for _ in range(2):
        record.set_param_by_name("y", jax.ShapeDtypeStruct((6,), jnp.float32))
        np.testing.assert_allclose(record.launch()[0], expected, rtol=1e-6)
        y = start.copy()
        record.set_param_by_name("y", y)
        assert record.launch()[0] is y
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        record.set_param_by_name("y", jnp.asarray(start))
        assert isinstance(record.launch()[0], jax.Array)
