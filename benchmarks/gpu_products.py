"""Matrix products by kernels with tiles on a GPU, beside cuBLAS by way of `jnp.matmul`, in TFLOP/s."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from gpu_cases import Case, Effort, Row
from kernels_tiles import product_of

import jwarp as wp


@dataclass(frozen=True)
class Tiling:
    """Rows and columns of a tile of C, the part of k that is taken at once, and the threads of a block."""

    m: int
    n: int
    k: int
    threads: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}, {self.threads} threads"


# By type, those that the bounds of `cuda_counts.py --model` are best for, and smaller ones for small matrices.
HALVES = (Tiling(128, 256, 64, 256), Tiling(128, 128, 64, 128), Tiling(128, 128, 64, 256), Tiling(64, 64, 64, 128))
# Those that warpgroups multiply, too.
BY_GROUPS = (Tiling(128, 256, 64, 256), Tiling(128, 128, 64, 128), Tiling(128, 128, 64, 256))
TILINGS = {
    "float16": HALVES,
    "bfloat16": HALVES,
    "tf32": (Tiling(128, 128, 32, 256), Tiling(64, 64, 32, 128)),
    "float32": (Tiling(128, 128, 32, 256), Tiling(64, 64, 32, 128)),
}
SIZES = (1024, 4096, 8192)
# Of single elements, as parts of the largest: what roundings of the operands and of results come to.
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "tf32": 2e-3, "float32": 1e-5}


def kernel_of(kind: str, tiling: Tiling) -> Any:
    """C = A B for a type."""
    m, n, k = tiling.m, tiling.n, tiling.k
    dtype = {"float16": wp.float16, "bfloat16": wp.bfloat16}.get(kind, wp.float32)
    if kind == "tf32":

        @wp.kernel
        def product_tf32(a: wp.array2d[wp.float32], b: wp.array2d[wp.float32], c: wp.array2d[wp.float32]):
            i, j = wp.tid()
            total = wp.tile_zeros(shape=(m, n), dtype=wp.float32)
            for step in range(a.shape[1] // k):
                left = wp.tile_load(a, shape=(m, k), offset=(i * m, step * k))
                right = wp.tile_load(b, shape=(k, n), offset=(step * k, j * n))
                wp.tile_matmul(left, right, total, precision="tf32")
            wp.tile_store(c, total, offset=(i * m, j * n))

        return product_tf32

    return product_of(wp, dtype, (m, n, k))


def launched(kind: str, tiling: Tiling, size: int, instructions: str = "mma") -> Callable[..., jax.Array]:
    kernel, grid = kernel_of(kind, tiling), (size // tiling.m, size // tiling.n)

    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        with wp.config(matrix_instructions=instructions):
            return wp.launch_tiled(kernel, grid, [a, b], [(size, size)], block_dim=tiling.threads)[0]

    return product


def products(effort: Effort) -> Iterator[tuple[str, Callable[[], Row]]]:
    """A row for each type and size, with a column for each tiling."""
    for kind in TILINGS:
        for size in (256,) if effort.dry else SIZES:
            yield f"{kind} {size}^3", lambda kind=kind, size=size: product(effort, kind, size)


def product(effort: Effort, kind: str, size: int) -> Row:
    dtype = "float32" if kind == "tf32" else kind
    precision = {"tf32": "tensorfloat32", "float32": "highest"}.get(kind)
    # Large enough together that no cache holds them all.
    sets = [
        tuple(jax.random.normal(jax.random.key(7 * k + j), (size, size)).astype(dtype) for j in range(2))
        for k in range(8 if size <= 1024 else 2 if size <= 4096 else 1)
    ]
    # Elements are sums of `size` products of normal numbers: some 4 of their deviations is the largest.
    case = Case(f"{kind} {size}^3", effort, rtol=0.0, atol=4 * size**0.5 * TOLERANCE[kind], differing=1e-4)
    case.add_jax("cuBLAS", lambda a, b: jnp.matmul(a, b, precision=precision), *sets)
    for tiling in TILINGS[kind]:
        name = f"jwarp {tiling}"
        case.guarded(name, case.add_jax, name, launched(kind, tiling, size), *sets)
    for tiling in BY_GROUPS if TILINGS[kind] is HALVES else ():
        name = f"jwarp {tiling}, wgmma"
        case.guarded(name, case.add_jax, name, launched(kind, tiling, size, "wgmma"), *sets)
    times = case.measure()
    flops = 2 * size**3
    speeds = [f"{who} {flops / t.median / 1e12:.1f} TFLOP/s" for who, t in times.items()]
    ours = [t.median for who, t in times.items() if who != "cuBLAS"]
    best = [f"the best tiles reach {times['cuBLAS'].median / min(ours):.2f} of cuBLAS"] if ours else []
    groups = [t.median for who, t in times.items() if who.endswith("wgmma")]
    best += [f"the best by wgmma {times['cuBLAS'].median / min(groups):.2f}"] if groups else []
    return Row(case.name, times, (*speeds, *best, *case.failed), {"flops": float(flops)})
