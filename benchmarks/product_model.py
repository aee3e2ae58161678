"""Bounds for large products of tiles on one GPU, reckoned from counts: what each part of it would take for a step.

No time is measured here. A multiprocessor has parts that work side by side: matrix units, the four schedulers that
issue an instruction each per cycle, shared memory with a pass per cycle, and the way to the L2 cache. A product is no
faster than the part that has most to do, if latencies are hidden; that is the bound, as a fraction of the peak of
the units that multiply.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """What one has, for each multiprocessor and cycle."""

    name: str
    processors: int
    fused: dict[str, int]  # multiplications with an addition at the peak, by type
    by_mma: dict[str, float]  # the fraction of it that `mma.sync` reaches
    l2_bytes: float
    registers: int = 1 << 16
    shared: int = 228 << 10
    threads: int = 2048


# NVIDIA's figures of the H100 SXM5: 989 teraflops of float16 without sparsity, 495 of TF32, 67 of float32 and of
# float64 on matrix units, at 1.83 GHz (1.98 GHz for the last two) on 132 multiprocessors. That `mma.sync` reaches 0.62
# of the peak there is from measurements by others (Luo et al., arXiv:2402.13499). Of L2 NVIDIA gives 5120 bytes a
# cycle for the A100; the same is taken here.
SM_90 = Gpu(
    "sm_90",
    132,
    {"f16": 2048, "bf16": 2048, "tf32": 1024, "f32": 128, "f64": 128},
    {"f16": 0.62, "bf16": 0.62, "tf32": 0.62},
    5120 / 132,
)


@dataclass(frozen=True)
class Work:
    """What a block does in a step along k, and once in all: warp instructions, passes, and bytes of the operands."""

    kind: str
    extents: tuple[int, int, int]
    block: int
    instructions: float
    passes: float
    bytes: float
    once_instructions: float
    once_passes: float
    shared: int
    registers: int
    by_groups: bool = False  # by `wgmma`, to which the peak refers


@dataclass(frozen=True)
class Bound:
    """Of a large product: blocks at a time, fractions of the peak that each part allows, and their least with the rest.

    The rest is what blocks do once, and multiprocessors that have nothing left at the end.
    """

    blocks: int
    parts: dict[str, float]
    whole: float


def bound(work: Work, size: int, gpu: Gpu = SM_90) -> Bound:
    """The bound for a product of square matrices."""
    m, n, k = work.extents
    peak = m * n * k / gpu.fused[work.kind]  # cycles of a step at the peak
    cycles = {
        "matrix units": peak / (1.0 if work.by_groups else gpu.by_mma.get(work.kind, 1.0)),
        "issue": work.instructions / 4,
        "shared": work.passes,
        "L2": work.bytes / gpu.l2_bytes,
    }
    per_warp = -(-work.registers // 8) * 8 * 32
    blocks = min(
        (gpu.shared) // (work.shared + 1024), gpu.registers // (per_warp * work.block // 32), gpu.threads // work.block
    )
    steps = size / k
    once = work.once_instructions / 4 + work.once_passes
    tiles = (size / m) * (size / n)
    turns = math.ceil(tiles / (gpu.processors * blocks)) * gpu.processors * blocks
    whole = peak * steps / (max(cycles.values()) * steps + once) * tiles / turns
    return Bound(blocks, {name: peak / c for name, c in cycles.items()}, whole)


def by_bulk_copies(work: Work, sharing: int = 1) -> Work:
    """The same product if the tensor memory accelerator copied its factors, which no code of ours does.

    A warp issues its products, and some ten instructions for barriers and trips; so many blocks, of a cluster, get the
    second factor together.
    """
    m, n, k = work.extents
    products = max(1, m // 64 * 128 // work.block) * k / 16  # of a warp
    first, second = (extent * k * work.bytes / ((m + n) * k) for extent in (m, n))
    warps = work.block // 32
    return dataclasses.replace(work, instructions=warps * (products + 10), bytes=first + second / sharing)


def lines(works: dict[str, Work], size: int = 4096) -> Iterator[str]:
    """A table of bounds."""
    yield f"fraction of the peak that each part allows, {size}^3 on {SM_90.name}; reckoned, not measured"
    names = ("matrix units", "issue", "shared", "L2")
    yield f"{'product':38}{'regs':>5}{'KB':>5}{'blocks':>7}" + "".join(f"{n:>13}" for n in names) + f"{'all':>8}"
    reckoned = {
        f"{name}, {words}": by_bulk_copies(work, sharing)
        for name, work in works.items()
        if work.by_groups
        for words, sharing in (("TMA", 1), ("by pairs", 2))
    }
    for name, work in (works | reckoned).items():
        made = bound(work, size)
        parts = "".join(f"{made.parts[n]:13.2f}" for n in names)
        yield f"{name:38}{work.registers:5}{work.shared >> 10:5}{made.blocks:7}{parts}{made.whole:8.2f}"
