"""Repeated adjoint launches: compiled once, and as right and as careful as the first, on JAX values and in place."""

import gc
import weakref

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.caches import MAX_SHAPES
from jwarp.dispatch.executables import route

RNG = np.random.default_rng(31)


@wp.kernel
def axpy(x: wp.array[float], y: wp.array[float], a: float, n: int, out: wp.array[float]):
    i = wp.tid()
    out[i] = a * x[i] * y[i] + float(n)


@wp.kernel
def damped(x: wp.array[float], k: float, state: wp.array[float]):
    i = wp.tid()
    state[i] = state[i] * state[i] * k + x[i]


@wp.kernel
def shifted(x: wp.array[float], by: int, out: wp.array[float]):
    i = wp.tid()
    if i + by < x.shape[0]:
        out[i] = x[i] * x[i + by]


@wp.kernel
def smallest(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    wp.atomic_min(out, 0, x[i])


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@pytest.fixture
def slow(monkeypatch):
    """The calls that had no executable."""
    calls = []
    ready = route.ready

    def counted(call):
        calls.append(call)
        return ready(call)

    monkeypatch.setattr(route, "ready", counted)
    for kernel in (axpy, damped, shifted, smallest):
        kernel.executables.clear()
    return calls


def gradients(x, y, a, w):
    return w * a * y, w * a * x, (w * x * y).sum()


@pytest.mark.parametrize("make", [jnp.asarray, np.asarray])
def test_on_jax_values(make, slow):
    for k in range(3):
        x, y, w, a = make(floats(5)), make(floats(5)), make(floats(5)), 2.0 + k
        found = wp.launch(axpy, 5, [x, y, a, k], [5], adjoint=True, adj_outputs=[w])
        assert isinstance(found, tuple)
        for got, want in zip(found, gradients(x, y, a, w), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
    assert len(slow) == 1


def test_nothing_is_compiled_again_where_there_is_no_plan(monkeypatch):
    """Named arguments have no plan, and run the compiled function of the calls before."""
    x, y, w = floats(5), floats(5), floats(5)
    arguments = {"x": x, "y": y, "a": 2.0, "n": 1}

    def run():
        return wp.launch(axpy, 5, arguments, {"out": 5}, adjoint=True, adj_outputs={"out": w})

    first = run()
    monkeypatch.setattr("jwarp.bind.primitive.jax.jit", None)
    for got, want in zip(run(), first, strict=True):
        np.testing.assert_array_equal(got, want)


def test_what_is_wanted_and_given_is_told_apart(slow):
    x, y, w = (jnp.asarray(floats(5)) for _ in range(3))
    seed = jnp.asarray(floats(5))
    by_x, by_y, by_a = gradients(x, y, 3.0, w)

    def run(adj_inputs, cotangent=w):
        return wp.launch(axpy, 5, [x, y, 3.0, 1], [5], adjoint=True, adj_inputs=adj_inputs, adj_outputs=[cotangent])

    for _ in range(2):
        for got, want in (
            (run([True, None, None, None]), [by_x]),
            (run([None, True, False, None]), [by_y]),
            (run([None, seed, True, None]), [seed + by_y, by_a]),
            (run([seed, None, None, None], None), [seed]),
            (run([None, True, None, None], None), [0 * x]),
        ):
            assert len(got) == len(want)
            for g, expected in zip(got, want, strict=True):
                np.testing.assert_allclose(g, expected, rtol=1e-5)
    assert len(slow) == 5


def test_what_does_not_fit_is_refused_every_time():
    x, y, w = (jnp.asarray(floats(5)) for _ in range(3))
    for _ in range(2):
        wp.launch(axpy, 5, [x, y, 3.0, 1], [5], adjoint=True, adj_outputs=[w])
        with pytest.raises(wp.LaunchError, match="adjoint of 'out'"):
            wp.launch(axpy, 5, [x, y, 3.0, 1], [5], adjoint=True, adj_outputs=[w[:4]])
        with pytest.raises(wp.LaunchError, match="outside"):
            wp.launch(axpy, 5, [x, y, 3.0, 1 << 40], [5], adjoint=True, adj_outputs=[w])
        with pytest.raises(wp.LaunchError, match="adj_outputs has 2 entries"):
            wp.launch(axpy, 5, [x, y, 3.0, 1], [5], adjoint=True, adj_outputs=[w, w])


def test_in_place(slow):
    for k in range(3):
        x, y, w, a = floats(5), floats(5), floats(5), 2.0 + k
        grad_x, grad_y = floats(5), floats(5)
        by_x, by_y, by_a = gradients(x, y, a, w)
        expected = grad_x + by_x, grad_y + by_y
        given = {"adj_inputs": [grad_x, grad_y, True, None], "adj_outputs": [w]}
        found = wp.launch(axpy, 5, [x, y, a, k], [np.zeros(5, np.float32)], adjoint=True, **given)
        assert found[0] is grad_x and found[1] is grad_y
        np.testing.assert_allclose(grad_x, expected[0], rtol=1e-5)
        np.testing.assert_allclose(grad_y, expected[1], rtol=1e-5)
        np.testing.assert_allclose(found[2], by_a, rtol=1e-5)
    assert len(slow) == 1


def test_in_place_of_initial_contents(slow):
    for _ in range(3):
        x, state, w, grad_x, grad_state = (floats(5) for _ in range(5))
        expected = grad_x + w, grad_state + 2 * 0.5 * state * w
        before = state.copy(), w.copy()
        wp.launch(damped, 5, [x, 0.5], [state], adjoint=True, adj_inputs=[grad_x, None, grad_state], adj_outputs=[w])
        np.testing.assert_allclose(grad_x, expected[0], rtol=1e-5)
        np.testing.assert_allclose(grad_state, expected[1], rtol=1e-5)
        np.testing.assert_array_equal(state, before[0])
        np.testing.assert_array_equal(w, before[1])
    assert len(slow) == 1


def test_in_place_of_what_the_launch_leaves(slow):
    for _ in range(3):
        x, grad = floats(6), np.zeros(6, np.float32)
        start, w = np.full(1, 9.0, np.float32), np.full(1, 2.0, np.float32)
        wp.launch(smallest, 6, [x], [start], adjoint=True, adj_inputs=[grad], adj_outputs=[w])
        np.testing.assert_allclose(grad, np.where(x == x.min(), 2.0, 0.0))
        np.testing.assert_array_equal(start, [9.0])
    assert len(slow) == 1


def test_integers_that_decide_how_gradients_are_gathered():
    for by in (1, 1, 2, 0, 1, 3, -1):
        x, w, grad = floats(7), floats(7), np.zeros(7, np.float32)
        wp.launch(shifted, 7, [x, by], [7], adjoint=True, adj_inputs=[grad, None], adj_outputs=[w])
        expected = np.zeros(7)
        for i in range(7):
            if i + by < 7:
                expected[i] += w[i] * x[i + by]
                expected[i + by] += w[i] * x[i]
        np.testing.assert_allclose(grad, expected, rtol=1e-5)


def test_arrays_that_share_memory_are_looked_at_each_time():
    x, y, w, memory = floats(5), floats(5), floats(5), np.zeros(9, np.float32)
    given = [[x, y, 1.0, 0], [np.zeros(5, np.float32)]]

    def run(grad_x, grad_y, w=w):
        wp.launch(axpy, 5, *given, adjoint=True, adj_inputs=[grad_x, grad_y, None, None], adj_outputs=[w])

    for _ in range(2):
        run(np.zeros(5, np.float32), np.zeros(5, np.float32))
        with pytest.raises(wp.LaunchError, match="overlaps"):
            run(memory[:5], memory[4:])
        with pytest.raises(wp.LaunchError, match="read-only"):
            fixed = np.zeros(5, np.float32)
            fixed.flags.writeable = False
            run(fixed, np.zeros(5, np.float32))
        strided = np.zeros(10, np.float32)[::2]
        run(strided, np.zeros(5, np.float32))
        np.testing.assert_allclose(strided, w * y, rtol=1e-5)
        total = w.copy()
        run(total, np.zeros(5, np.float32), w=total)  # a gradient added to the cotangent itself
        np.testing.assert_allclose(total, w + w * y, rtol=1e-5)


def test_so_many_shapes_are_kept_and_no_more():
    for size in range(1, 2 * MAX_SHAPES):
        x, w, grad = (np.full(size, k, np.float32) for k in (1.0, 2.0, 3.0))
        wp.launch(damped, size, [x, 0.5], [x.copy()])
        wp.launch(damped, size, [x, 0.5], [x.copy()], adjoint=True, adj_inputs=[grad, None], adj_outputs=[w])
        assert grad[-1] == 5.0
    assert MAX_SHAPES // 2 <= len(damped.executables) <= MAX_SHAPES


def test_what_is_kept_ends_with_the_kernel():
    @wp.kernel
    def local(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = wp.sin(x[i])

    x = np.ones(3, np.float32)
    for given in (jnp.asarray(x), x):
        for _ in range(2):
            wp.launch(local, 3, [given], [3], adjoint=True, adj_outputs=[given])
            wp.launch(local, 3, [x], [3], adjoint=True, adj_inputs=[x.copy()], adj_outputs=[given])
    assert len(local.executables) == 4
    kernel = weakref.ref(local)
    del local
    gc.collect()
    assert kernel() is None
