"""The blocking of a matrix product: pieces that fit the processor's registers and its first-level cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jwarp.backend.cpu.target import Target
from jwarp.ir.matmul import Request
from jwarp.types import ScalarType, int32, int64

# The part of the first-level cache for a packed panel of B; the rest is for A and C.
PANEL_BYTES = 24 << 10
# Sums that wait in memory for the last part of k, where C cannot hold them.
SUMS_BYTES = 16 << 10
# An unpacked B that is smaller stays in the first-level cache by itself.
SMALL_BYTES = 20 << 10
# Rows this far apart fall on the same places of the first-level cache.
CACHE_WAY_BYTES = 4096
# A sum's next addition waits so many cycles for the one before; two are begun in each cycle.
LATENCY = 4
CALL_CYCLES = 25
# The cost of an access to the cache even if there is time for it.
LOAD_COST = 0.2
# The time that a product may lose for having one micro-kernel less to compile.
KERNEL_COST = 0.005


@dataclass(frozen=True)
class Blocking:
    """The loops around the innermost one, which makes `rows` x `vectors * lanes` sums in registers."""

    compute: ScalarType  # the type of the sums in registers
    lanes: int
    rows: int
    vectors: int
    depth: int  # the part of k that is taken at once
    pack_a: bool
    pack_b: bool
    sums: bool  # sums over parts of k wait in memory of their own
    block_rows: int  # the part of m that is taken at once

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors


def compute_type(request: Request) -> ScalarType:
    """The type that products are made and added in. Narrow integers wrap in the end as they would on the way."""
    if request.c.is_float:
        return request.accumulator
    return int64 if request.c.bits == 64 else int32


def blocking(request: Request, target: Target) -> Blocking:
    """The cut of a request with the least estimated time."""
    compute = compute_type(request)
    size = compute.bits // 8
    lanes = _lanes(request.n, size, target)
    rows, vectors = min(_shapes(_registers(target)), key=lambda shape: _cycles(request, lanes, *shape))
    vectors = min(vectors, -(-request.n // lanes))
    rows = min(rows, request.m)
    pack_b = _packs_b(request, compute, rows)
    pack_a = _packs_a(request, compute)
    # The widest panel that is packed; A's rows may be padded to whole vectors.
    widest = max(pack_b * lanes * vectors, pack_a * _round_up(rows, lanes))
    parts = max(1, -(-request.k * widest * size // PANEL_BYTES))
    depth = _round_up(-(-request.k // parts), lanes)
    sums = request.c is not compute and depth < request.k
    fit = max(1, SUMS_BYTES // (lanes * vectors * size) // rows) * rows
    return Blocking(
        compute=compute,
        lanes=lanes,
        rows=rows,
        vectors=vectors,
        depth=depth,
        pack_a=pack_a,
        pack_b=pack_b,
        sums=sums,
        block_rows=fit if sums else request.m,
    )


def _register_bytes(target: Target) -> int:
    """The size of a vector, which a setting may have made smaller or larger than the processor's."""
    features = target.features.split(",")
    widest = 64 if "+avx512f" in features else 32 if "+avx2" in features or not target.features else 16
    return max(16, min(widest, 4 * target.width))


def _registers(target: Target) -> int:
    is_arm = target.triple.startswith(("aarch64", "arm64"))
    return 32 if is_arm or "+avx512vl" in target.features.split(",") else 16


def _lanes(n: int, size: int, target: Target) -> int:
    """Elements to a vector: no more than n needs."""
    lanes = 16 // size
    while lanes < n and lanes * size < _register_bytes(target):
        lanes *= 2
    return lanes


def _shapes(registers: int) -> Iterator[tuple[int, int]]:
    """The rows and vectors of sums that leave registers for a row of B and an element of A."""
    for vectors in (4, 3, 2, 1):
        for rows in range((registers - 1 - vectors) // vectors, 0, -1):
            yield rows, vectors


def _cycles(request: Request, lanes: int, rows: int, vectors: int) -> float:
    """An estimate of the time for one step along k."""
    total_vectors = -(-request.n // lanes)
    kernels = [
        row_count * column_count * _kernel_cycles(r, v, request.k)
        for r, row_count in _pieces(request.m, rows)
        for v, column_count in _pieces(total_vectors, vectors)
    ]
    return sum(kernels) * (1 + KERNEL_COST * len(kernels))


def _pieces(whole: int, piece: int) -> list[tuple[int, int]]:
    """Sizes and counts of the pieces that make up the whole."""
    return [(size, count) for size, count in ((piece, whole // piece), (whole % piece, 1)) if size and count]


def _kernel_cycles(rows: int, vectors: int, k: int) -> float:
    loads = (rows + vectors) / 2
    step = max(rows * vectors / 2, loads, LATENCY) + LOAD_COST * loads
    return step + (CALL_CYCLES + 2 * rows * vectors) / k


def _packs_b(request: Request, compute: ScalarType, rows: int) -> bool:
    """True if a panel of B is copied: transposed, converted, or brought together from rows far apart."""
    if request.transpose_b and request.k > 1:
        return True
    if request.m < 3 * rows:
        return False
    return request.b.bits != compute.bits or request.k * request.n * compute.bits // 8 > SMALL_BYTES


def _packs_a(request: Request, compute: ScalarType) -> bool:
    if request.k < 8:
        return False
    if request.a.bits != compute.bits:
        return True
    return not request.transpose_a and request.k * request.a.bits // 8 % CACHE_WAY_BYTES == 0


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
