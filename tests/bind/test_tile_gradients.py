"""The derivatives of every function on tiles, against finite differences in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

D = wp.float64
A = wp.array2d[wp.float64]
LANES = 4
BLOCKS = 2
SHAPE = (BLOCKS * 4, 6)  # of the arrays: a block has four rows


@wp.func
def wave(x: D, y: D):
    if x > y:
        return wp.sin(x) * y
    total = D(0.0)
    for _ in range(3):
        total += x * y
    return total


@wp.func
def decay(total: D, x: D):
    return total * D(0.5) + x * x


@wp.func
def change(t: wp.tile(dtype=D, shape=(4, 6)), by: D):
    t[1, 2] = by * t[0, 0]


def kernels():
    """Each kernel reads a tile of x and y, and writes to the rows of its block, or to one element of them."""

    @wp.kernel
    def operators(x: A, y: A, out: A):
        i = wp.tid()
        a, b = wp.tile_load(x, shape=(4, 6), offset=(4 * i, 0)), wp.tile_load(y, shape=(4, 6), offset=(4 * i, 0))
        c = -a * b + a * D(3.0) - b
        c += a * a
        c -= b * D(0.25)
        wp.tile_store(out, c, offset=(4 * i, 0))

    @wp.kernel
    def mapped(x: A, y: A, out: A):
        i = wp.tid()
        a, b = wp.tile_load(x, shape=(4, 6), offset=(4 * i, 0)), wp.tile_load(y, shape=(4, 6), offset=(4 * i, 0))
        wp.tile_store(out, wp.tile_map(wave, a, b) + wp.tile_map(wp.exp, wp.tile_map(wp.sin, b)), offset=(4 * i, 0))

    @wp.kernel
    def mapped_with_a_number(x: A, y: A, out: A):
        i = wp.tid()
        a = wp.tile_load(x, shape=(4, 6), offset=(4 * i, 0))
        wp.tile_store(out, wp.tile_map(wave, a, y[4 * i, 1]), offset=(4 * i, 0))

    @wp.kernel
    def elements(x: A, y: A, out: A):
        i = wp.tid()
        a, b = wp.tile_load(x, shape=(4, 6), offset=(4 * i, 0)), wp.tile_load(y, shape=(4, 6), offset=(4 * i, 0))
        for k in range(9):
            a[k % 4, k % 6] = b[k % 3, 2] * wp.sin(a[k % 4, k % 6])
            a[3, 1] += a[k % 4, k % 6] * b[0, k % 6]
        a[2, 2] = a[2, 2] * a[2, 2]
        change(a, b[1, 1])
        wp.tile_store(out, a, offset=(4 * i, 0))

    @wp.kernel
    def carried(x: A, y: A, out: A):
        i = wp.tid()
        a = wp.tile_load(x, shape=(4, 6), offset=(4 * i, 0))
        n = int(0)  # noqa: RUF046, UP018 (a variable: Warp lets no loop change a literal)
        while wp.tile_sum(a)[0] < D(20.0) and n < 4:
            a = wp.tile_map(wave, a, wp.tile_load(y, shape=(4, 6), offset=(4 * i, 0))) + a
            if n == 1:
                a[0, 0] = D(0.5)
            n += 1
        wp.tile_store(out, a, offset=(4 * i, 0))

    @wp.kernel
    def reductions(x: A, y: A, out: A):
        i = wp.tid()
        a, b = wp.tile_load(x, shape=(4, 6), offset=(4 * i, 0)), wp.tile_load(y, shape=(4, 6), offset=(4 * i, 0))
        out[4 * i, 0] = wp.tile_sum(a)[0] * wp.tile_min(b)[0]
        out[4 * i, 1] = wp.tile_max(a)[0] * wp.tile_dot(a, b)[0]
        out[4 * i, 2] = wp.tile_reduce(wp.mul, a)[0] + wp.tile_reduce(wp.add, b)[0]
        out[4 * i, 3] = wp.tile_reduce(decay, a)[0]
        wp.tile_store(out[4 * i + 1], wp.tile_sum(a, axis=0))
        wp.tile_store(out[4 * i + 2], wp.tile_reduce(wp.max, b, axis=0))

    @wp.kernel
    def scans(x: A, y: A, out: A):
        i = wp.tid()
        a, b = wp.tile_load(x[4 * i], shape=6), wp.tile_load(y[4 * i], shape=6)
        wp.tile_store(out[4 * i], wp.tile_scan_inclusive(wp.tile_map(wp.mul, a, b)))
        wp.tile_store(out[4 * i + 1], wp.tile_scan_exclusive(a))
        wp.tile_store(out[4 * i + 2], wp.tile_scan_max_inclusive(a))
        wp.tile_store(out[4 * i + 3], wp.tile_scan_min_inclusive(b))

    @wp.kernel
    def products(x: A, y: A, out: A):
        i = wp.tid()
        a, b = wp.tile_load(x, shape=(4, 6), offset=(4 * i, 0)), wp.tile_load(y, shape=(4, 6), offset=(4 * i, 0))
        square = wp.tile_matmul(a, wp.tile_transpose(b))
        c = wp.tile_load(y, shape=(4, 6), offset=(4 * i, 0))
        wp.tile_matmul(square, a, c, alpha=D(0.5), beta=D(2.0))
        wp.tile_matmul(square, b, c)
        wp.tile_axpy(D(0.75), a, c)
        wp.tile_store(out, c, offset=(4 * i, 0))

    @wp.kernel
    def systems(x: A, y: A, out: A):
        i = wp.tid()
        a, b = wp.tile_load(x, shape=(4, 6), offset=(4 * i, 0)), wp.tile_load(y, shape=(4, 6), offset=(4 * i, 0))
        matrix = wp.tile_diag_add(wp.tile_matmul(a, wp.tile_transpose(a)), wp.tile_full(4, D(4.0), dtype=D))
        lower = wp.tile_cholesky(matrix)
        z = wp.tile_cholesky_solve(lower, b)
        z += wp.tile_lower_solve(lower, b)
        z += wp.tile_upper_solve(wp.tile_transpose(lower), b)
        wp.tile_store(out, z, offset=(4 * i, 0))

    @wp.kernel
    def systems_in_place(x: A, y: A, out: A):
        i = wp.tid()
        a, b = wp.tile_load(x, shape=(4, 6), offset=(4 * i, 0)), wp.tile_load(y, shape=(4, 6), offset=(4 * i, 0))
        lower = wp.tile_diag_add(wp.tile_matmul(a, wp.tile_transpose(a)), wp.tile_full(4, D(4.0), dtype=D))
        wp.tile_cholesky_inplace(lower)
        wp.tile_lower_solve_inplace(lower, b)
        wp.tile_cholesky_solve_inplace(lower, b)
        wp.tile_store(out, b, offset=(4 * i, 0))

    @wp.kernel
    def views(x: A, y: A, out: A):
        i = wp.tid()
        a, b = wp.tile_load(x, shape=(4, 6), offset=(4 * i, 0)), wp.tile_load(y, shape=(4, 6), offset=(4 * i, 0))
        part = wp.tile_view(a, offset=(1, 2), shape=(2, 3))
        part[0, 1] = b[3, 3] * D(2.0)
        wp.tile_assign(a, wp.tile_view(b, offset=(0, 0), shape=(2, 2)), offset=(2, 4))
        flat = wp.tile_reshape(a, shape=(6, 4))
        c = wp.tile_transpose(flat) * b
        row = wp.tile_broadcast(wp.tile_squeeze(wp.tile_view(b, offset=(2, 0), shape=(1, 6))), shape=(4, 6))
        wp.tile_store(out, c + row, offset=(4 * i, 0))

    @wp.kernel
    def indexed(x: A, y: A, out: A):
        i = wp.tid()
        rows = wp.tile_zeros(shape=3, dtype=int)
        rows[0] = 4 * i + 2
        rows[1] = 4 * i
        rows[2] = 4 * i + 2
        a = wp.tile_load_indexed(x, indices=rows, shape=(3, 6), offset=(0, 0), axis=0)
        b = wp.tile_load(y, shape=(3, 6), offset=(4 * i, 0))
        wp.tile_atomic_add_indexed(out, indices=rows, t=a * b, offset=(0, 0), axis=0)
        wp.tile_atomic_add(out, b, offset=(4 * i + 1, 0))

    @wp.kernel
    def threads(x: A, y: A, out: A):
        i, lane = wp.tid()
        value = x[4 * i + lane, 0] * y[4 * i, lane]
        if lane > 1:
            value = wp.sin(value)
        t = wp.tile(value)
        t[lane] = t[3 - lane] * y[4 * i + 1, lane]
        spread = wp.tile_from_thread(shape=(2, 3), value=value * value, thread_idx=2)
        s = wp.tile_zeros(shape=6, dtype=D)
        wp.tile_scatter_add(s, lane, value, lane < 3)
        out[4 * i + lane, 5] = wp.untile(t) * spread[1, 1]
        wp.tile_store(out[4 * i], wp.tile_view(s, offset=(0,), shape=(5,)))

    @wp.kernel
    def vectors(x: A, y: A, out: A):
        i, lane = wp.tid()
        v = wp.vec3d(x[4 * i + lane, 0], x[4 * i + lane, 1], y[4 * i + lane, 2])
        t = wp.tile(v, preserve_type=True)
        total = wp.tile_sum(wp.tile_map(wp.normalize, t))[0]
        out[4 * i, 0] = wp.dot(total, t[1])
        out[4 * i, 1] = wp.tile_max(wp.tile_map(wp.length, t))[0]

    return dict(locals())


KERNELS = kernels()
SECOND = ("elements", "systems", "threads")


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives(name):
    rng = np.random.default_rng(len(name))
    kernel = KERNELS[name]

    def f(x, y):
        return wp.launch_tiled(kernel, BLOCKS, [x, y], [SHAPE], block_dim=LANES)[0]

    with jax.enable_x64(True):
        x, y = (jnp.asarray(rng.normal(size=SHAPE)) for _ in range(2))
        out = f(x, y)
        assert np.isfinite(out).all() and np.abs(out).max() > 0.1
        wp.check_grads(f, (x, y), order=2 if name in SECOND else 1)
