"""Launches on mutable arrays, compared with Warp's."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.dispatch.executables.array_launch import ArrayLaunch

pytestmark = pytest.mark.quick


@wp.kernel
def scaled(x: wp.array[float], s: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = s * x[i]


@wp.kernel
def stepped(x: wp.array[wp.vec3], v: wp.array(dtype=wp.vec3), m: wp.array2d[wp.float64], k: wp.array[int]):
    i = wp.tid()
    x[i] = x[i] + 0.5 * v[i]
    m[i, 1] = m[i, 0]
    k[i] += i


@wp.struct
class Particles:
    x: wp.array[float]
    scale: float
    count: wp.array[int]


@wp.kernel
def moved(p: Particles, shift: wp.array[float]):
    i = wp.tid()
    if shift:
        p.x[i] = p.x[i] * p.scale + shift[i]
    p.count[i] += 1


@wp.kernel
def copied(x: wp.array[Any], y: wp.array[Any]):
    i = wp.tid()
    y[i] = x[i]


def test_extents_of_numpy():
    """In each kind of `dim`, whether the launch is the first one or comes again, with and without a tape."""
    x, y = wp.array(np.arange(1.0, 7.0), dtype=float), wp.zeros(6, dtype=float, requires_grad=True)
    for dim in (np.array(3), np.array([3]), (np.array(3),), [np.array(3)], np.int16(3), [np.uint8(3)]):
        for k in range(4):
            y.zero_()
            with wp.Tape() if k > 2 else contextlib.nullcontext():
                wp.launch(scaled, dim, [x, 2.0 + k, y])
            np.testing.assert_array_equal(y.numpy(), (2.0 + k) * np.array([1, 2, 3, 0, 0, 0]))


def test_any_parameter_is_written_where_it_is():
    rng = np.random.default_rng(0)
    x, v, m, k = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), rng.normal(size=(5, 2)), rng.integers(9, size=5)
    arrays = [
        wp.array(x, dtype=wp.vec3),
        wp.array(v, dtype=wp.vec3),
        wp.array(m, dtype=wp.float64),
        wp.array(k, dtype=int),
    ]
    assert wp.launch(stepped, 5, inputs=arrays) is None
    wp.launch(stepped, dim=5, inputs=arrays[:3], outputs=arrays[3:], device="cpu")
    np.testing.assert_allclose(arrays[0].numpy(), x + v, rtol=1e-6)
    np.testing.assert_array_equal(arrays[1].numpy(), v.astype(np.float32))
    np.testing.assert_array_equal(arrays[2].numpy(), m[:, [0, 0]])
    np.testing.assert_array_equal(arrays[3].numpy(), k + 2 * np.arange(5))


def test_views_and_the_identical_array():
    content = np.random.default_rng(1).normal(size=12).astype(np.float32)
    a = wp.array(content, dtype=float).reshape((3, 4))
    wp.launch(scaled, 3, [a[:, 1], 2.0], [a[:, 2]])
    wp.launch(scaled, 4, [a[0], 3.0, a[0]])
    expected = content.reshape(3, 4).copy()
    expected[:, 2] = 2 * expected[:, 1]
    expected[0] *= 3
    np.testing.assert_array_equal(a.numpy(), expected)


def test_other_values_among_them():
    y = wp.zeros(4)
    wp.launch(scaled, 4, [jnp.arange(4.0), 2.0], [y])
    wp.launch(scaled, 2, [np.float32([5, 6]), np.float64(1.5)], [y[2:]])
    assert y.numpy().tolist() == [0, 2, 7.5, 9]
    p = Particles()
    p.x, p.scale, p.count = y, 2.0, wp.zeros(4, dtype=int)
    wp.launch(moved, 4, [p, None])
    wp.launch(moved, 4, [p], [wp.ones(4)])
    assert y.numpy().tolist() == [1, 5, 16, 19] and p.count.numpy().tolist() == [2] * 4


def test_generic_kernels():
    for dtype in (wp.int8, wp.vec3, wp.quat, wp.mat22d):
        x, y = wp.full(3, 2, dtype=dtype), wp.zeros(3, dtype=dtype)
        wp.launch(copied, 3, [x, y])
        np.testing.assert_array_equal(x.numpy(), y.numpy())
    with pytest.raises(wp.KernelTypeError, match=r"expected array\[vec3\]|got .*quat"):
        wp.launch(stepped, 3, [wp.zeros(3, dtype=wp.quat), None, None, None])


REFUSED = {
    "dtype": (lambda y: [wp.zeros(4, dtype=int), 1.0, y], wp.KernelTypeError, r"'x'.*array\[int32\].*test_launches"),
    "rank": (lambda y: [wp.zeros((2, 2)), 1.0, y], wp.KernelTypeError, r"'x'.*array2d\[float32\].*made at"),
    "annotation": (lambda y: [wp.array(dtype=float), 1.0, y], wp.KernelTypeError, "holds nothing"),
    "JAX's array written": (lambda y: [y, 1.0, jnp.zeros(4)], wp.LaunchError, "JAX"),
    "count": (lambda y: [y, 1.0], wp.LaunchError, "3 parameters"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=list(REFUSED))
def test_refused(case):
    values, error, words = case
    y = wp.zeros(4)
    with pytest.raises(error, match=words):
        wp.launch(scaled, 2, values(y))
    with pytest.raises(wp.LaunchError, match="cuda:0"):
        wp.launch(scaled, 4, [y, 1.0, y], device="cuda:0")
    assert y.numpy().tolist() == [0] * 4


def test_keywords_of_warp_in_its_order():
    x, y = wp.ones(3), wp.zeros(3)
    wp.launch(scaled, 3, [x, 2.0], [y], [], [], "cpu", None, False, True, False, 0, 256)
    assert y.numpy().tolist() == [2] * 3
    with pytest.raises(wp.LaunchError, match="device"):
        wp.launch(scaled, 3, [jnp.ones(3), 2.0], [3], device="cpu")
    assert jax.numpy.asarray(y.numpy()).tolist() == [2] * 3


@wp.kernel
def doubled(x: wp.indexedarray2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = x[i, j]
    x[i, j] = 2.0 * x[i, j]


def test_indexed_arrays():
    content = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    a, y = wp.array(content), wp.zeros((2, 4))
    chosen = wp.array([2, 0], dtype=int)
    named = wp.indexedarray(a, [chosen])
    assert named.shape == (2, 4) and named.size == 8 and len(named) == 2
    np.testing.assert_array_equal(named.numpy(), content[[2, 0]])
    for _ in range(3):
        wp.launch(doubled, (2, 4), [named, y])
    np.testing.assert_array_equal(a.numpy(), content * [[8], [1], [8]])
    np.testing.assert_array_equal(y.numpy(), content[[2, 0]] * 4)
    column = a[:, chosen]
    np.testing.assert_array_equal(column.numpy(), a.numpy()[:, [2, 0]])
    assert a[1:, chosen].shape == (2, 2) and wp.array2d([[1.0, 2.0]])[0, chosen[1:]].shape == (1,)


@wp.kernel
def shifted(x: wp.array[wp.vec3], by: wp.vec3, k: wp.float64, n: int, y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = x[i] + by * float(k) + wp.vec3(float(n))


def test_launches_that_are_repeated_take_other_numbers():
    x, y = wp.array([[1, 2, 3], [4, 5, 6]], dtype=wp.vec3), wp.zeros(2, dtype=wp.vec3)
    for trip in range(5):
        by = wp.vec3(float(trip), 1.0, 2.0)
        wp.launch(shifted, 2, [x, by, np.float64(0.5 * trip), trip], [y])
        np.testing.assert_array_equal(y.numpy(), x.numpy() + by * (0.5 * trip) + trip)
    with wp.config(bounds="unchecked"):
        wp.launch(shifted, 2, [x, by, 2.0, 3], [y])
        assert y.numpy()[0, 2] == 3 + 2 * 2 + 3
    with pytest.raises(wp.KernelTypeError, match="'n'"):
        wp.launch(shifted, 2, [x, by, 2.0, 3.5], [y])
    p = Particles()
    p.x, p.count = wp.ones(3), wp.zeros(3, dtype=int)
    for trip in range(1, 5):
        p.scale = float(trip)
        wp.launch(moved, 3, [p, None if trip == 4 else wp.zeros(3)])
    assert p.x.numpy().tolist() == [6] * 3 and p.count.numpy().tolist() == [4] * 3
    p.x = wp.full(3, 5.0)
    wp.launch(moved, 3, [p, wp.ones(3)])
    assert p.x.numpy().tolist() == [21] * 3


def test_records():
    x, y = wp.ones(4), wp.zeros(4)
    record = wp.launch(scaled, 4, [x, 2.0], [y], record_cmd=True)
    assert y.numpy().tolist() == [0] * 4 and record.params[0] is x
    record.launch()
    record.set_param_by_name("s", 3.0)
    record.set_dim(2)
    record.launch()
    assert y.numpy().tolist() == [3, 3, 2, 2]
    record.set_param_at_index(2, x)
    record.launch()
    assert x.numpy().tolist() == [3, 3, 1, 1]
    with pytest.raises(wp.KernelTypeError, match=r"'x'.*array\[int32\]"):
        record.set_param_at_index(0, wp.zeros(4, dtype=int))
    with pytest.raises(wp.KernelTypeError, match="'s'"):
        record.set_param_at_index(1, "x")
    record.set_params([y, 1.0, x])
    record.launch()
    assert x.numpy().tolist() == [3, 3, 1, 1] and "scaled" in repr(record)
    empty = wp.Launch(scaled)
    empty.set_params([x, 1.0, y])
    with pytest.raises(wp.LaunchError, match="dim is not set"):
        empty.launch()


def test_many_launches_that_begin_with_one_array(monkeypatch):
    """They are checked once for all arrays of their shapes, and each does what it is to do."""
    made, ready = [], ArrayLaunch.ready
    monkeypatch.setattr(ArrayLaunch, "ready", lambda launch: made.append(launch) or ready(launch))
    x = wp.array(np.arange(3.0), dtype=float)
    scaled.executables.clear()
    for count in (15, 50):
        outs = [wp.zeros(3, dtype=float) for _ in range(count)]
        for k in range(5):
            for j, y in enumerate(outs):
                wp.launch(scaled, 3, inputs=[x, float(j + k), y])
        for j, y in enumerate(outs):
            np.testing.assert_array_equal(y.numpy(), (j + 4) * np.arange(3.0))
    assert len(made) == 1


def test_one_array_for_two_parameters_that_are_written():
    @wp.kernel
    def both(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
        i = wp.tid()
        x[i] = x[i] + 1.0
        y[i] = y[i] * 2.0
        z[i] = z[i] - x[i]

    for step in (1, 2):
        a = wp.array(np.arange(6.0), dtype=float)
        view = a[::step]
        wp.launch(both, view.size, [view, a[::step], view])
        expected = np.arange(6.0)
        expected[::step] = 0
        assert a.numpy().tolist() == expected.tolist()


def test_host_arrays_are_not_written_while_jax_traces():
    x, y = wp.ones(3), wp.zeros(3)
    record = wp.launch(scaled, 3, [x, 2.0], [y], record_cmd=True)
    for write in (record.launch, lambda: wp.launch(scaled, 3, [x, 2.0], [y]), lambda: y.fill_(1.0), y.zero_):
        with pytest.raises(wp.LaunchError):
            jax.jit(lambda z, write=write: (write(), z)[1])(1.0)
    assert y.numpy().tolist() == [0] * 3


def test_arrays_end_with_their_last_name():
    y, ended = wp.zeros(3), []
    for trip in range(20):
        x = wp.full(3, float(trip))
        ended.append(weakref.ref(x.memory))
        for values in ([x, 1.0, y], [y, 1.0, x]):
            for _ in range(3):
                wp.launch(scaled, 3, values)
    del x, values
    assert not any(known() for known in ended) and y.numpy().tolist() == [19] * 3


@wp.kernel
def weighed(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = k * x[i] * x[i]


def test_records_of_adjoints():
    """Given gradients are added to or read, else `grad` is. Replays, graphs and setters repeat it."""
    x, y = (wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True) for _ in range(2))
    own, g = wp.zeros(3, dtype=float), wp.array([1.0, 10.0, 100.0], dtype=float)
    record = wp.launch(
        weighed, 3, [x, 2.0], [y], adjoint=True, adj_inputs=[own, None], adj_outputs=[g], record_cmd=True
    )
    assert record.adjoint and not own.numpy().any() and "adjoint" in repr(record)
    with wp.ScopedCapture() as capture:
        record.launch()
    for times, run in ((1, record.launch), (2, record.launch), (3, lambda: wp.capture_launch(capture.graph))):
        run()
        np.testing.assert_allclose(own.numpy(), times * np.array([4.0, 80.0, 1200.0]))
        np.testing.assert_array_equal(g.numpy(), [1, 10, 100])
    x.assign([3.0, 2.0, 1.0])
    record.set_param_by_name("k", 1.0)
    record.set_param_by_name("x", None, adjoint=True)
    record.set_param_by_name("y", None, adjoint=True)
    y.grad.fill_(1.0)
    record.launch()
    np.testing.assert_allclose(x.grad.numpy(), [6, 4, 2])
    assert not y.grad.numpy().any()  # what was there before the launch has no gradient
    with pytest.raises(wp.LaunchError, match="expected float32 and the shape"):
        wp.launch(weighed, 3, [x, 2.0], [y], adjoint=True, adj_inputs=[wp.zeros(4), None], record_cmd=True)
    with pytest.raises(wp.KernelTypeError, match="'k': a number has no gradient"):
        wp.launch(weighed, 3, [x, 2.0], [y], adjoint=True, adj_inputs=[None, wp.zeros(1)])


def test_training_loops_in_graphs():
    """A tape with its backward pass and an optimiser's step, captured once and launched again and again."""
    start = np.array([1.0, 2.0, 3.0], np.float32)

    def trained(is_captured):
        x, y = wp.array(start, dtype=float, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
        tape, optimizer = wp.Tape(), wp.optim.SGD([x], lr=0.01)

        def step():
            with tape:
                wp.launch(weighed, 3, [x, 2.0], [y])
            tape.backward(grads={y: wp.ones(3, dtype=float)})
            optimizer.step([x.grad])
            tape.zero()
            if not is_captured:
                tape.reset()

        if is_captured:
            with wp.ScopedCapture() as capture:
                step()
        for _ in range(5):
            wp.capture_launch(capture.graph) if is_captured else step()
        return x.numpy()

    np.testing.assert_array_equal(trained(True), trained(False))
    expected = start.copy()
    for _ in range(5):
        expected -= 0.01 * 4.0 * expected
    np.testing.assert_allclose(trained(True), expected, rtol=1e-5)


@wp.kernel
def shown(x: wp.array[float], at: wp.int64, scale: wp.float64):
    print(scale * wp.float64(x[at]))


def test_kernels_that_only_read_arrays_take_numbers_of_64_bits(capfd):
    assert not jax.config.jax_enable_x64
    wp.launch(shown, 1, [wp.array([1.0, 2.0], dtype=float), 1, 0.25])
    assert capfd.readouterr().out == "0.5\n"
