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


def define(wp: Any, product_tile: tuple[int, int, int] = PRODUCT) -> SimpleNamespace:
    """The kernels as `wp` compiles them; `wp` is the module jwarp or warp."""
    tm, tn, tk = product_tile

    def product_of(dtype: Any) -> Any:
        @wp.kernel
        def product(a: wp.array2d(dtype=dtype), b: wp.array2d(dtype=dtype), c: wp.array2d(dtype=dtype)):
            i, j = wp.tid()
            total = wp.tile_zeros(shape=(tm, tn), dtype=dtype)
            for k in range(a.shape[1] // tk):
                left = wp.tile_load(a, shape=(tm, tk), offset=(i * tm, k * tk))
                right = wp.tile_load(b, shape=(tk, tn), offset=(k * tk, j * tn))
                wp.tile_matmul(left, right, total)
            wp.tile_store(c, total, offset=(i * tm, j * tn))

        return product

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
        product32=product_of(wp.float32), product64=product_of(wp.float64), softmax=softmax, row_sums=row_sums,
        tile=product_tile,
    )  # fmt: skip
