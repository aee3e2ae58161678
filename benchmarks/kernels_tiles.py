"""The kernels with tiles under test, once for jwarp and once for Warp."""

# Annotations here are evaluated where they stand, as they name types of the module that is passed in.

from types import SimpleNamespace
from typing import Any

# Rows and columns of the tile of C, and the part of k that is taken at once.
PRODUCT = (256, 256, 64)
# Warp compiles loops over the elements of registers, which takes it minutes for larger tiles.
PRODUCT_WARP = (32, 32, 32)
ROW = 1024
LANES = 64


def product_of(wp: Any, dtype: Any, tile: tuple[int, int, int]) -> Any:
    """C = A B: a block makes a tile of C."""
    m, n, k = tile

    @wp.kernel
    def product(a: wp.array2d(dtype=dtype), b: wp.array2d(dtype=dtype), c: wp.array2d(dtype=dtype)):
        i, j = wp.tid()
        total = wp.tile_zeros(shape=(m, n), dtype=dtype)
        for step in range(a.shape[1] // k):
            left = wp.tile_load(a, shape=(m, k), offset=(i * m, step * k))
            right = wp.tile_load(b, shape=(k, n), offset=(step * k, j * n))
            wp.tile_matmul(left, right, total)
        wp.tile_store(c, total, offset=(i * m, j * n))

    return product


def define(wp: Any, product_tile: tuple[int, int, int] = PRODUCT) -> SimpleNamespace:
    """The kernels as `wp` compiles them; `wp` is the module jwarp or warp."""

    @wp.kernel
    def softmax(x: wp.array2d[float], y: wp.array2d[float]):
        i = wp.tid()
        row = wp.tile_load(x[i], shape=(ROW,))
        largest = wp.tile_broadcast(wp.tile_max(row), shape=(ROW,))
        e = wp.tile_map(wp.exp, row - largest)
        total = wp.tile_broadcast(wp.tile_sum(e), shape=(ROW,))
        wp.tile_store(y[i], wp.tile_map(wp.div, e, total))

    @wp.kernel
    def row_sums(x: wp.array2d[float], y: wp.array[float]):
        i = wp.tid()
        wp.tile_store(y, wp.tile_sum(wp.tile_load(x[i], shape=(ROW,))), offset=i)

    return SimpleNamespace(
        product32=product_of(wp, wp.float32, product_tile), product64=product_of(wp, wp.float64, product_tile),
        softmax=softmax, row_sums=row_sums, tile=product_tile,
    )  # fmt: skip
