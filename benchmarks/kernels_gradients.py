"""Kernels whose gradients are timed, once for every compiler of the kernel language: jwarp's and Warp's own."""

# Annotations here are evaluated where they stand, as they name types of the module that is passed in.
# ruff: noqa: UP018

from types import SimpleNamespace
from typing import Any

from kernels import HEAVY_STEPS


def define(wp: Any) -> SimpleNamespace:
    """The kernels as `wp` compiles them; `wp` is the module jwarp or warp."""

    @wp.kernel
    def straight(x: wp.array[float], y: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        r = wp.sqrt(x[i] * x[i] + y[i] * y[i] + 1.0)
        out[i] = wp.sin(x[i]) * wp.exp(-r) + wp.cos(y[i]) / r

    @wp.kernel
    def heavy(x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        v = x[i]
        s = float(0.0)
        for _ in range(HEAVY_STEPS):
            s += wp.sin(v) * wp.exp(-v)
            v += 0.01
        out[i] = s

    @wp.kernel
    def laplace(a: wp.array3d[float], n: int, out: wp.array3d[float]):
        i, j, k = wp.tid()
        if i > 0 and i < n - 1 and j > 0 and j < n - 1 and k > 0 and k < n - 1:
            along_i = a[i - 1, j, k] + a[i + 1, j, k]
            along_j = a[i, j - 1, k] + a[i, j + 1, k]
            along_k = a[i, j, k - 1] + a[i, j, k + 1]
            out[i, j, k] = along_i + along_j + along_k - 6.0 * a[i, j, k]

    @wp.kernel
    def orbit(x: wp.array[float], steps: int, out: wp.array[float]):
        i = wp.tid()
        v = x[i]
        for _ in range(steps):
            v = v + 0.001 * wp.sin(v)
        out[i] = v

    return SimpleNamespace(straight=straight, heavy=heavy, laplace=laplace, orbit=orbit)
