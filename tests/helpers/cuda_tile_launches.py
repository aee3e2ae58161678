"""Kernels with tiles, and functions that launch them, for tests that lower them for CUDA."""

import jwarp as wp

TILE, STEP, BLOCK = 16, 8, 64


@wp.kernel
def multiply(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(TILE, TILE), dtype=float)
    for k in range(a.shape[1] // STEP):
        x = wp.tile_load(a, shape=(TILE, STEP), offset=(i * TILE, k * STEP))
        y = wp.tile_load(b, shape=(STEP, TILE), offset=(k * STEP, j * TILE))
        wp.tile_matmul(x, y, total)
    wp.tile_store(c, total, offset=(i * TILE, j * TILE))


@wp.kernel
def softmax(x: wp.array2d[float], k: float, y: wp.array2d[float], total: wp.array[float]):
    i = wp.tid()
    row = wp.tile_load(x, shape=(1, 40), offset=(i, 0))
    top = wp.tile_max(row)
    e = wp.tile_map(wp.exp, (row - wp.tile_broadcast(wp.tile_reshape(top, (1, 1)), (1, 40))) * k)
    s = wp.tile_sum(e)
    wp.tile_store(y, e / s[0], offset=(i, 0))
    wp.tile_atomic_add(total, s, offset=(0,))


def product(a, b):
    return wp.launch_tiled(multiply, (2, 3), [a, b], [(32, 48)], block_dim=BLOCK)
