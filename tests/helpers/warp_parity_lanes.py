"""Kernels that make tiles of what the threads of a block of 8 have, and that mean the same in NVIDIA Warp."""

import jwarp as wp


@wp.kernel
def lanes(x: wp.array2d[float], y: wp.array2d[float], out: wp.array3d[float]):
    b, i = wp.tid()
    value = x[b, i]
    if i > 3:
        value = y[i, b] * 2.0
    t = wp.tile(value)
    total = wp.tile_sum(t)[0]
    mine = wp.untile(t + wp.tile_full(shape=8, value=total, dtype=float))
    out[b, 0, i] = mine
    u = wp.tile_zeros(shape=8, dtype=float, storage="shared")
    u[7 - i] = value
    wp.tile_scatter_add(u, i // 2, 1.0, i % 2 == 0)
    s = wp.tile_from_thread(shape=8, value=value, thread_idx=5)
    wp.tile_store(out[b][1], u + s)
    v = wp.tile(wp.vec3(value, float(i), 1.0))
    w = wp.untile(v * 2.0)
    out[b, 2, i] = w[0] + w[1] * 100.0
    if i == 2:
        out[b, 3, 0] = u[1] + total
