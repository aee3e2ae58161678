"""The kernels under test, once for every compiler of the kernel language: jwarp's and Warp's own."""

# Annotations here are evaluated where they stand, as they name types of the module that is passed in.
# In this language float(0.0) is a variable and 0.0 a constant, which Warp lets no loop change.
# ruff: noqa: UP018, RUF046

from functools import partial
from types import SimpleNamespace
from typing import Any

HEAVY_STEPS = 64
SOFTENING = 1.0e-3
MANDELBROT_STEPS = 200
POLAR_STEPS = 6


def define(wp: Any, **options: Any) -> SimpleNamespace:
    """The kernels as `wp` compiles them; `wp` is the module jwarp or warp, the options are those of its decorator."""
    kernel = partial(wp.kernel, **{"enable_backward": False, **options})

    @kernel
    def add_one(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] + 1.0

    @kernel
    def saxpy(x: wp.array[float], y: wp.array[float], a: float, out: wp.array[float]):
        i = wp.tid()
        out[i] = a * x[i] + y[i]

    @kernel
    def saxpy_in_place(x: wp.array[float], a: float, y: wp.array[float]):
        i = wp.tid()
        y[i] = a * x[i] + y[i]

    @kernel
    def heavy(x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        v = x[i]
        s = float(0.0)
        for _ in range(HEAVY_STEPS):
            s += wp.sin(v) * wp.exp(-v)
            v += 0.01
        out[i] = s

    @kernel
    def attract(
        x: wp.array[float],
        y: wp.array[float],
        z: wp.array[float],
        mass: wp.array[float],
        count: int,
        ax: wp.array[float],
        ay: wp.array[float],
        az: wp.array[float],
    ):
        i = wp.tid()
        xi = x[i]
        yi = y[i]
        zi = z[i]
        sx = float(0.0)
        sy = float(0.0)
        sz = float(0.0)
        for j in range(count):
            dx = x[j] - xi
            dy = y[j] - yi
            dz = z[j] - zi
            inverse = 1.0 / wp.sqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
            pull = inverse * inverse * inverse * mass[j]
            sx += dx * pull
            sy += dy * pull
            sz += dz * pull
        ax[i] = sx
        ay[i] = sy
        az[i] = sz

    @kernel
    def laplace(a: wp.array3d[float], n: int, out: wp.array3d[float]):
        i, j, k = wp.tid()
        if i > 0 and i < n - 1 and j > 0 and j < n - 1 and k > 0 and k < n - 1:
            along_i = a[i - 1, j, k] + a[i + 1, j, k]
            along_j = a[i, j - 1, k] + a[i, j + 1, k]
            along_k = a[i, j, k - 1] + a[i, j, k + 1]
            out[i, j, k] = along_i + along_j + along_k - 6.0 * a[i, j, k]

    @kernel
    def mandelbrot(size: int, out: wp.array2d[int]):
        i, j = wp.tid()
        cx = -2.0 + 3.0 * float(j) / float(size)
        cy = -1.5 + 3.0 * float(i) / float(size)
        x = float(0.0)
        y = float(0.0)
        steps = int(0)
        while steps < MANDELBROT_STEPS and x * x + y * y < 4.0:
            next_x = x * x - y * y + cx
            y = 2.0 * x * y + cy
            x = next_x
            steps += 1
        out[i, j] = steps

    @kernel
    def scatter(x: wp.array[float], bins: wp.array[int], total: wp.array[float]):
        i = wp.tid()
        wp.atomic_add(total, bins[i], x[i])

    @kernel
    def polar(a: wp.array[wp.mat33], out: wp.array[wp.mat33]):
        i = wp.tid()
        r = a[i]
        for _ in range(POLAR_STEPS):
            r = 0.5 * (r + wp.transpose(wp.inverse(r)))
        out[i] = r

    @kernel
    def normals(a: wp.array[wp.vec3], b: wp.array[wp.vec3], out: wp.array[wp.vec3]):
        i = wp.tid()
        out[i] = wp.cross(wp.normalize(a[i]), wp.normalize(b[i]))

    @kernel
    def normals_apart(
        ax: wp.array[float],
        ay: wp.array[float],
        az: wp.array[float],
        bx: wp.array[float],
        by: wp.array[float],
        bz: wp.array[float],
        x: wp.array[float],
        y: wp.array[float],
        z: wp.array[float],
    ):
        i = wp.tid()
        a = wp.vec3(ax[i], ay[i], az[i])
        b = wp.vec3(bx[i], by[i], bz[i])
        normal = wp.cross(wp.normalize(a), wp.normalize(b))
        x[i] = normal[0]
        y[i] = normal[1]
        z[i] = normal[2]

    return SimpleNamespace(
        add_one=add_one,
        saxpy=saxpy,
        saxpy_in_place=saxpy_in_place,
        heavy=heavy,
        attract=attract,
        laplace=laplace,
        mandelbrot=mandelbrot,
        scatter=scatter,
        polar=polar,
        normals=normals,
        normals_apart=normals_apart,
    )


def elementwise(wp: Any, function: Any, arity: int) -> Any:
    """The kernel that applies `function` to every element, or to every pair."""

    @wp.kernel(enable_backward=False)
    def apply(x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = function(x[i])

    @wp.kernel(enable_backward=False)
    def apply_to_pairs(x: wp.array[float], y: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = function(x[i], y[i])

    return apply if arity == 1 else apply_to_pairs
