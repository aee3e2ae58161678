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

    monkeypatch.setitem(globals(), "COUNT", 8)
    monkeypatch.setitem(globals(), "DIRECTION", wp.vec2(1.0, 7.0))
    y = np.zeros(4, np.float32)
    wp.launch(told, 1, [], [y])
    np.testing.assert_array_equal(y, [8, 8, 7, 5] if late else [3, 3, 2, 5])
