"""Kernels that random programs on tapes launch, in float64, and how arrays are compared with what they should hold."""

import numpy as np

import jwarp as wp

N = 6
Array = wp.array[wp.float64]


@wp.kernel
def multiply(x: Array, y: Array, z: Array):
    i = wp.tid()
    z[i] = x[i] * y[i]


@wp.kernel
def bend(x: Array, k: wp.float64):
    i = wp.tid()
    x[i] = wp.sin(x[i]) + k * x[i] * x[i]


@wp.kernel
def accumulate(x: Array, k: wp.float64, y: Array):
    i = wp.tid()
    wp.atomic_add(y, i, k * x[i] * x[i])


@wp.kernel
def evens(x: Array, y: Array):
    i = wp.tid()
    if i % 2 == 0:
        y[i] = x[i] * x[i]


def assert_contents(arrays, wanted):
    for a, value in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), value, rtol=1e-12, atol=1e-300)
