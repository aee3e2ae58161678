"""Kernels of `module="unique"` that are defined again are one object in programs, as long as all of them is equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface

FACTOR = 2.0


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)


def make(function, factor, name=None, **options):
    @wp.kernel(module="unique", name=name, **options)
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = function(x[i]) * wp.static(factor) + FACTOR

    return k


def make_late():
    @wp.kernel(module="unique")
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * FACTOR

    return k


def make_generic():
    @wp.kernel(module="unique")
    def k(x: wp.array[Any], y: wp.array[Any]):
        i = wp.tid()
        y[i] = x[i] + x[i]

    return k


@wp.func
def square(x: float):
    return x * x


@wp.func
def cube(x: float):
    return x * x * x


X = np.random.default_rng(4).normal(size=5).astype(np.float32)


def ran(kernel):
    y = wp.zeros(5, dtype=float)
    wp.launch(kernel, 5, inputs=[wp.array(X)], outputs=[y])
    return y.numpy()


def test_equal_ones_are_one_object(program):
    first = make(square, 3.0)
    np.testing.assert_allclose(ran(first), X * X * 3.0 + 2.0, rtol=1e-5)
    assert make(square, 3.0) is first and first.module is make(square, 3.0).module


def test_others_are_others(program):
    first = make(square, 3.0)
    others = [make(square, 4.0), make(cube, 3.0), make(square, 3.0, "other"), make(square, 3.0, enable_backward=False)]
    others.append(make(square, 3.0, module_options={"fast_math": True}))
    assert len({id(k) for k in [first, *others]}) == len({k.module.name for k in [first, *others]}) == 6
    np.testing.assert_allclose(ran(others[0]), X * X * 4.0 + 2.0, rtol=1e-5)
    np.testing.assert_allclose(ran(others[1]), X * X * X * 3.0 + 2.0, rtol=1e-5)
    assert others[2].key == "other" and others[4].module.options["fast_math"] is True


def test_what_was_read_before_a_change_is_not_used_after_it(program, monkeypatch):
    first = make_late()  # is read with a factor of 5 only
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    np.testing.assert_allclose(ran(first), X * 5.0, rtol=1e-6)
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    second = make_late()
    np.testing.assert_allclose(ran(second), X * 2.0, rtol=1e-6)
    np.testing.assert_allclose(ran(first), X * 5.0, rtol=1e-6)


def test_generic_ones_count_their_instances(program):
    first = make_generic()
    for dtype in (np.float32, np.int32):
        x, y = wp.array(np.arange(3, dtype=dtype)), wp.array(np.zeros(3, dtype))
        wp.launch(make_generic(), 3, inputs=[x, y])
        np.testing.assert_array_equal(y.numpy(), np.arange(3) * 2)
    assert make_generic() is first and len(first.overloads) == 2


def test_outside_programs_each_is_its_own():
    assert make(square, 3.0) is not make(square, 3.0)


def test_names_and_options_that_there_are_not():
    with pytest.raises(ValueError, match=r"valid C\+\+ identifier"):
        make(square, 1.0, "1invalid")
    for value, error in ((True, TypeError), (1.5, TypeError), (-1, ValueError)):
        with pytest.raises(error, match="deterministic_max_records must"):
            make(square, 1.0, module_options={"deterministic_max_records": value})
