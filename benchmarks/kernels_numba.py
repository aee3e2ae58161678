"""The same kernels for numba, over two threads with prange."""

from __future__ import annotations

import math
from collections.abc import Callable

import numba
import numpy as np
from kernels import HEAVY_STEPS, MANDELBROT_STEPS, SOFTENING

parallel = numba.njit(parallel=True, fastmath=True, error_model="numpy")

ZERO, ONE, TWO, FOUR, SIX = (np.float32(value) for value in (0, 1, 2, 4, 6))
SMALL_STEP, SOFT = np.float32(0.01), np.float32(SOFTENING)
LEFT, TOP, WIDE = np.float32(-2.0), np.float32(-1.5), np.float32(3.0)


@parallel
def saxpy(x: np.ndarray, y: np.ndarray, a: np.float32, out: np.ndarray) -> None:
    for i in numba.prange(x.shape[0]):
        out[i] = a * x[i] + y[i]


@parallel
def heavy(x: np.ndarray, out: np.ndarray) -> None:
    for i in numba.prange(x.shape[0]):
        v = x[i]
        s = ZERO
        for _ in range(HEAVY_STEPS):
            s += math.sin(v) * math.exp(-v)
            v += SMALL_STEP
        out[i] = s


@parallel
def attract(
    x: np.ndarray, y: np.ndarray, z: np.ndarray, mass: np.ndarray, ax: np.ndarray, ay: np.ndarray, az: np.ndarray
) -> None:
    for i in numba.prange(x.shape[0]):
        sx, sy, sz = ZERO, ZERO, ZERO
        for j in range(x.shape[0]):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            inverse = ONE / math.sqrt(dx * dx + dy * dy + dz * dz + SOFT)
            pull = inverse * inverse * inverse * mass[j]
            sx += dx * pull
            sy += dy * pull
            sz += dz * pull
        ax[i], ay[i], az[i] = sx, sy, sz


@parallel
def laplace(a: np.ndarray, out: np.ndarray) -> None:
    n = a.shape[0]
    for i in numba.prange(1, n - 1):
        for j in range(1, n - 1):
            for k in range(1, n - 1):
                along_i = a[i - 1, j, k] + a[i + 1, j, k]
                along_j = a[i, j - 1, k] + a[i, j + 1, k]
                along_k = a[i, j, k - 1] + a[i, j, k + 1]
                out[i, j, k] = along_i + along_j + along_k - SIX * a[i, j, k]


@numba.njit(fastmath=True)
def scatter(x: np.ndarray, bins: np.ndarray, total: np.ndarray) -> None:
    """On one thread: numba has no atomic additions on the CPU."""
    total[:] = 0
    for i in range(x.shape[0]):
        total[bins[i]] += x[i]


@parallel
def normals(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    for i in numba.prange(a.shape[0]):
        ax, ay, az = a[i, 0], a[i, 1], a[i, 2]
        bx, by, bz = b[i, 0], b[i, 1], b[i, 2]
        scale = ONE / math.sqrt((ax * ax + ay * ay + az * az) * (bx * bx + by * by + bz * bz))
        out[i, 0] = (ay * bz - az * by) * scale
        out[i, 1] = (az * bx - ax * bz) * scale
        out[i, 2] = (ax * by - ay * bx) * scale


# Functions of Python's math that numba does not compile.
UNKNOWN = ("cbrt",)


def elementwise(name: str) -> Callable[..., None] | None:
    """A function that applies math's function `name` to every element; None where numba has none."""
    function = getattr(math, name, None)
    if function is None or name in UNKNOWN:
        return None

    @parallel
    def apply(x: np.ndarray, out: np.ndarray) -> None:
        for i in numba.prange(x.shape[0]):
            out[i] = function(x[i])

    @parallel
    def apply_to_pairs(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        for i in numba.prange(x.shape[0]):
            out[i] = function(x[i], y[i])

    return apply_to_pairs if name in ("pow", "atan2") else apply


@parallel
def mandelbrot(out: np.ndarray) -> None:
    size = np.float32(out.shape[0])
    for i in numba.prange(out.shape[0]):
        for j in range(out.shape[1]):
            cx = LEFT + WIDE * np.float32(j) / size
            cy = TOP + WIDE * np.float32(i) / size
            x, y = ZERO, ZERO
            steps = 0
            while steps < MANDELBROT_STEPS and x * x + y * y < FOUR:
                x, y = x * x - y * y + cx, TWO * x * y + cy
                steps += 1
            out[i, j] = steps
