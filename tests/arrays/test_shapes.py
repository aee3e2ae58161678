"""Launches on new arrays of known shapes skip checks that hold for them, and no others."""

from __future__ import annotations

import numpy as np
import pytest

import jwarp as wp
from jwarp.dispatch import array_shapes

rng = np.random.default_rng(3)


@wp.kernel
def moved(x: wp.array[wp.vec3], by: wp.vec3, k: float, n: int, y: wp.array[wp.vec3]):
    i = wp.tid()
    if i < n:
        y[i] = x[i] * k + by


def launch(x, y, by=(1.0, 2.0, 3.0), k=2.0, n=4, dim=5):
    wp.launch(moved, dim, inputs=[x, wp.vec3(*by), k, n], outputs=[y])


def fresh(n=5):
    return wp.array(rng.normal(size=(n, 3)), dtype=wp.vec3), wp.zeros(n, dtype=wp.vec3)


@pytest.fixture(autouse=True)
def known():
    x, y = fresh()
    launch(x, y)


def test_new_arrays_and_numbers(monkeypatch):
    made = []
    monkeypatch.setattr(array_shapes.Shaped, "run", spied(array_shapes.Shaped.run, made))
    for n, k in ((4, 2.0), (2, 3), (5, -1.0)):
        x, y = fresh()
        version = y.memory.version
        launch(x, y, by=(k, 0.0, 1.0), k=k, n=n)
        expected = np.where(np.arange(5)[:, None] < n, x.numpy() * np.float32(k) + np.float32([k, 0.0, 1.0]), 0.0)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
        assert y.memory.version == version + 1
    assert made == [True, True]  # an integer for a float is another kind of number, which is looked at


def spied(run, made):
    def call(self, values):
        made.append(run(self, values))
        return made[-1]

    return call


def test_another_integer_for_a_float(monkeypatch):
    made = []
    x, y = fresh()
    launch(x, y, k=3)
    monkeypatch.setattr(array_shapes.Shaped, "run", spied(array_shapes.Shaped.run, made))
    launch(*fresh(), k=4)
    assert made == [True]


def test_one_array_for_both():
    x, _ = fresh()
    before = x.numpy().copy()
    launch(x, x, n=5)
    np.testing.assert_allclose(x.numpy(), before * 2.0 + np.float32([1, 2, 3]), rtol=1e-6)


def test_arrays_that_overlap():
    x, _ = fresh(8)
    with pytest.raises(wp.LaunchError, match="overlaps"):
        launch(x[0:5], x[2:7])


def test_views_of_other_strides():
    x, y = fresh(10)
    launch(x[::2], y[::2], n=5)
    np.testing.assert_allclose(y.numpy()[::2], x.numpy()[::2] * 2.0 + np.float32([1, 2, 3]), rtol=1e-6)
    assert not y.numpy()[1::2].any()


@pytest.mark.parametrize(
    "wrong",
    [{"dim": 5.0}, {"dim": (5.0,)}, {"dim": -1}, {"n": 2**40}, {"n": 1.5}, {"k": "a"}, {"dim": (5, 1, 1, 1, 1)}],
    ids=str,
)
def test_what_is_refused_stays_refused(wrong):
    with pytest.raises((wp.LaunchError, wp.KernelTypeError)):
        launch(*fresh(), **wrong)


def test_an_annotation_and_an_array_of_another_type():
    _, y = fresh()
    for given in (wp.array(dtype=wp.vec3), wp.zeros(5, dtype=wp.vec4), wp.zeros(5, dtype=wp.vec3d)):
        with pytest.raises((wp.LaunchError, wp.KernelTypeError)):
            launch(given, y)


def test_settings_count():
    with wp.config(bounds="error"):
        x, y = fresh()
        with pytest.raises((wp.LaunchError, RuntimeError)):
            launch(x, y, dim=9, n=9)


def test_what_is_kept_for_a_gradient_is_copied_first():
    x, y = fresh()
    kept = y.memory.keep(y.layout)
    launch(x, y)
    assert not kept.array().any() and y.numpy().any()


def test_under_a_tape():
    x, y = fresh()
    x.requires_grad = y.requires_grad = True
    with wp.Tape() as tape:
        launch(x, y, n=5)
    tape.backward(grads={y: wp.ones(5, dtype=wp.vec3)})
    np.testing.assert_allclose(x.grad.numpy(), np.full((5, 3), 2.0))
