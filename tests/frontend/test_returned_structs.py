"""Structs with arrays among the results of functions that return from several places."""

import numpy as np

import jwarp as wp


@wp.struct
class Shape:
    k: float
    a: wp.array[float]


@wp.func
def judged(s: Shape, x: float) -> tuple[bool, float, Shape]:
    if x > 0.0:
        if x > 2.0:
            if x > 3.0:
                s.k = 5.0
                return False, x, s
            return True, x, s
        s.k = 7.0
    return False, -x, s


@wp.kernel
def use(x: wp.array[float], a: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = Shape()
    if x[i] > 1.0:
        s.a = a
    found, z, t = judged(s, x[i])
    y[i] = z + t.k + float(int(found))
    if t.a:
        y[i] += t.a[i]


def test_results_of_several_returns():
    x, a = np.array([-1, 0.5, 1.5, 2.5, 3.5], np.float32), 100 * np.arange(5, dtype=np.float32)
    k = np.where(x > 3, 5, np.where((x > 0) & (x <= 2), 7, 0))
    expected = np.where(x > 2, x, -x) + k + ((x > 2) & (x <= 3)) + np.where(x > 1, a, 0)
    np.testing.assert_allclose(wp.launch(use, 5, [x, a], [5])[0], expected)
