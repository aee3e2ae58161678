"""Numbers of a program's module count as they are at the first launch, as in Warp; elsewhere as at the definition."""

from __future__ import annotations

import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface

COUNT = 3
DIRECTION = wp.vec2(1.0, 2.0)


@pytest.mark.parametrize("late", [False, True])
def test_numbers_that_change_before_the_first_launch(monkeypatch, late):
    monkeypatch.setattr(surface, "is_warps", late)
    inner = 5

    @wp.func
    def counted():
        return float(COUNT)

    @wp.kernel
    def told(y: wp.array[float]):
        y[0] = float(COUNT)
        y[1] = counted()
        y[2] = DIRECTION[1]
        y[3] = float(inner)

    inner = 6
    monkeypatch.setitem(globals(), "COUNT", 8)
    monkeypatch.setitem(globals(), "DIRECTION", wp.vec2(1.0, 7.0))
    y = np.zeros(4, np.float32)
    wp.launch(told, 1, [], [y])
    np.testing.assert_array_equal(y, [8, 8, 7, 6] if late else [3, 3, 2, 5])


def test_numbers_stay_as_the_first_launch_found_them(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)
    factor = 3.0

    @wp.kernel
    def scaled(x: wp.array[float], y: wp.array[float]):
        y[0] = factor * float(COUNT) * x[0] * x[0]

    x, y = wp.array([2.0], dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scaled, 1, [x, y])
        factor = 5.0
        monkeypatch.setitem(globals(), "COUNT", 8)
        wp.launch(scaled, 1, [x, y])
    tape.backward(grads={y: wp.ones(1, dtype=float)})
    assert (y.numpy()[0], x.grad.numpy()[0]) == (36, 36)


@pytest.mark.parametrize("early", [False, True])
def test_static_has_the_values_of_the_definition(monkeypatch, early):
    monkeypatch.setattr(surface, "is_warps", early)
    box, calls = [1.0], []

    def counted(x):
        calls.append(x)
        return x

    @wp.func
    def called():
        return wp.static(box[0] + 10.0)

    @wp.kernel
    def told(y: wp.array[float]):
        y[0] = wp.static(box[0])
        y[1] = wp.static(2.0 * wp.static(counted(box[0])))
        y[2] = called()
        y[3] = wp.static(later[0])
        for i in range(2):
            y[4] += wp.static(float(i) + box[0])

    assert len(calls) == int(early)
    box[0], later = 5.0, [7.0]
    y = np.zeros(5, np.float32)
    wp.launch(told, 1, [], [y])
    np.testing.assert_array_equal(y, [1, 2, 11, 7, 11] if early else [5, 10, 15, 7, 11])
    assert len(calls) == 1
