"""Kernels with tiles that mean the same in NVIDIA Warp; all numbers are small integers or halves of such."""

import jwarp as wp


@wp.kernel
def products(x: wp.array2d[float], y: wp.array2d[float], out: wp.array3d[float]):
    b = wp.tid()
    s, t = wp.tile_load(x, shape=(4, 8), offset=(b * 4, 0)), wp.tile_load(y, shape=(8, 4), offset=(0, b * 4))
    total = wp.tile_matmul(s, t)
    wp.tile_matmul(s, t, total, alpha=0.5, beta=2.0)
    wp.tile_matmul(wp.tile_transpose(t), wp.tile_transpose(s), total)
    wp.tile_store(out[b], total)


@wp.kernel
def views(x: wp.array2d[float], y: wp.array2d[float], out: wp.array3d[float]):
    b = wp.tid()
    t = wp.tile_load(x, shape=(8, 8))
    u = wp.tile_load(y, shape=(8, 8))
    row = t[b]
    row[1] = 50.0
    part = wp.tile_view(t, (b + 1, 2), (2, 3))
    part += wp.tile_ones(shape=(2, 3), dtype=float)
    t[4:6, 1:8:2] = u[0:2, ::-2]
    t[:, 0] = u[b]
    t[1:] = t[:-1]
    wp.tile_assign(t, wp.tile_broadcast(u[2:3, 0:4], shape=(2, 4)), offset=(6, b))
    flat = wp.tile_reshape(wp.tile_squeeze(wp.tile_view(u, (b, 0), (1, 8))), (2, 4))
    wp.tile_store(out[b], t)
    wp.tile_store(out[b + 2], flat)
    wp.tile_store(out[b + 4], wp.tile_transpose(u))


@wp.kernel
def elements(x: wp.array2d[float], y: wp.array2d[float], out: wp.array3d[float]):
    b = wp.tid()
    t = wp.tile_load(x, shape=(4, 4), offset=(b, 0))
    t[b, 1] = t[2, 3] * 2.0
    t[1, b] += 3.0
    t[b + 1, 2] -= t[0, 0]
    s = float(0.0)
    for i in range(4):
        s += t[i, 3 - i]
        t[i, i] = s
    u = t
    u[0, 0] = 99.0
    wp.tile_store(out[b], t)
    wp.tile_store(out[b + 2], u)


@wp.func
def bent(a: float, s: float):
    if a > s:
        return a - 2.0 * s
    return a * s


@wp.func
def larger(a: float, b: float):
    if b > a:
        return b
    return a


@wp.func
def grow(t: wp.tile(dtype=float, shape=(8, 8)), by: wp.tile(dtype=float, shape=(8, 8))):
    t += by
    return wp.tile_sum(t)[0]


@wp.kernel
def functions(x: wp.array2d[float], y: wp.array2d[float], out: wp.array3d[float]):
    b = wp.tid()
    t, u = wp.tile_load(x, shape=(8, 8)), wp.tile_load(y, shape=(8, 8))
    m = wp.tile_map(bent, t, float(b))
    m = m + wp.tile_map(wp.max, t, u) - wp.tile_map(wp.abs, u) * 0.5
    total = grow(m, u)
    wp.tile_store(out[b], m)
    wp.tile_store(out[b + 2][0], wp.tile_sum(t, axis=1))
    wp.tile_store(out[b + 2][1], wp.tile_sum(u, axis=0))
    wp.tile_store(out[b + 2][2], wp.tile_reduce(wp.max, t, axis=1))
    wp.tile_store(out[b + 2][3], wp.tile_reduce(larger, m, axis=0))
    wp.tile_store(out[b + 2][4], wp.tile_max(m))
    wp.tile_store(out[b + 2][5], wp.tile_min(m))
    wp.tile_store(out[b + 2][6], wp.tile_dot(t, u))
    out[b + 2, 7, 0] = total
    wp.tile_axpy(2.0, t, u)
    wp.tile_store(out[b + 4], wp.tile_scan_inclusive(u))
    wp.tile_store(out[b + 6], wp.tile_scan_exclusive(u))


@wp.kernel
def arrays(x: wp.array2d[float], y: wp.array2d[float], out: wp.array3d[float]):
    b = wp.tid()
    rows = wp.tile_arange(3, dtype=int) * 3 + wp.tile_full(3, b - 1, dtype=int)
    t = wp.tile_load_indexed(x, rows, shape=(3, 4), offset=(0, 2), axis=0)
    wp.tile_store(out[b], t, offset=(6, 5))
    wp.tile_store_indexed(out[b + 2], indices=rows, t=t, axis=0)
    old = wp.tile_atomic_add(out[b + 4], t * 2.0, offset=(1, 1))
    wp.tile_store(out[b + 4], old, offset=(5, 1))
    before = wp.tile_atomic_add_indexed(out[b + 6], rows, t + old, axis=0)
    wp.tile_store(out[b + 6], t[wp.tile_arange(2, dtype=int)], offset=(6, 4))
    wp.tile_store(out[b], before)


@wp.kernel
def equations(x: wp.array2d[float], y: wp.array2d[float], out: wp.array3d[float]):
    b = wp.tid()
    t = wp.tile_load(x, shape=(4, 4), offset=(b, b))
    a = wp.tile_matmul(t, wp.tile_transpose(t))
    a = wp.tile_diag_add(a, wp.tile_full(shape=4, value=50.0, dtype=float))
    r = wp.tile_load(y, shape=(4, 3))
    low = wp.tile_cholesky(a)
    high = wp.tile_cholesky(a, fill_mode="upper")
    wp.tile_store(out[b], low)
    wp.tile_store(out[b + 2], wp.tile_cholesky_solve(high, r, fill_mode="upper"))
    wp.tile_store(out[b + 4], wp.tile_upper_solve(high, wp.tile_lower_solve(low, r)))
    wp.tile_cholesky_solve_inplace(low, r)
    wp.tile_store(out[b + 6], r)
