"""Counts what kernels would do on a GPU, without one: their PTX is run by the machine of the tests, thread by thread.

    python benchmarks/cuda_counts.py                # all cases, a minute or two
    python benchmarks/cuda_counts.py product saxpy  # those whose name contains one of these
    python benchmarks/cuda_counts.py --model        # bounds for large products of tiles, by the counts of a step

A line for each case: PTX instructions a thread, sectors of 32 bytes a thread that warps ask global memory for,
atomic operations and bytes a thread asks for, and passes over the banks of shared memory (by loads and by stores)
beside the fewest that their number of requests allows. For products these are of one step along K. These are counts
of what NVRTC's PTX does, before ptxas makes machine code of it; they are no measured times, and say nothing about
caches. A quotient or root that is rounded as IEEE 754 says is one instruction there, and some ten in machine code; in a
loop of which eight trips run at once, as that of n-body, PTX has those ten.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "helpers"), str(TESTS / "ptx")]
os.environ.setdefault("JWARP_CACHE_DIR", tempfile.mkdtemp(prefix="jwarp-counts-"))

import numpy as np  # noqa: E402
import product_model  # noqa: E402
from cuda_compiling import bodies, saxpy, stencil  # noqa: E402
from cuda_on_host import pack  # noqa: E402
from product_model import Work  # noqa: E402
from ptx_checks import Counts  # noqa: E402
from ptx_running import ARCHITECTURE, PtxKernel, aligned  # noqa: E402
from tile_programs import product  # noqa: E402

import jwarp as wp  # noqa: E402
from jwarp.autodiff.reverse import vjp  # noqa: E402
from jwarp.backend.cuda.nvrtc import compile_unit  # noqa: E402
from jwarp.compiler.cuda import CudaKernel  # noqa: E402
from jwarp.compiler.derive import Variant, derive  # noqa: E402
from jwarp.compiler.program import program_of  # noqa: E402
from jwarp.compiler.write_conflicts import gatherable  # noqa: E402
from jwarp.config import config  # noqa: E402
from jwarp.launching.geometry import Geometry  # noqa: E402
from jwarp.passes.private_elements import replaced_elements  # noqa: E402
from jwarp.types import bfloat16, float16, float32, float64  # noqa: E402
from jwarp.wire import Role  # noqa: E402

BLOCK = 256


@dataclass(frozen=True)
class Case:
    """A kernel, or the adjoint of one, under a launch."""

    name: str
    count: Callable[[], Counts]


@wp.kernel
def polar(x: wp.array[wp.mat33], y: wp.array[wp.mat33]):
    """One step of an iteration for the polar decomposition: reads and writes a matrix each."""
    i = wp.tid()
    m = x[i]
    y[i] = 0.5 * (m + wp.transpose(wp.inverse(m)))


@wp.kernel
def added(p: wp.array[wp.vec3], v: wp.array[wp.vec3], q: wp.array[wp.vec3]):
    i = wp.tid()
    q[i] = p[i] + 0.1 * v[i]


def arguments(params: Any, dims: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [(*dims[: p.type.dims], *p.type.components) if p.is_array else () for p in params]
    return [rng.uniform(0.5, 2.0, shape).astype(p.dtype.dtype) for p, shape in zip(params, shapes, strict=True)]


def plain(kernel: Any, dims: tuple[int, ...], adjoint: bool = False) -> Callable[[], Counts]:
    """A launch as JAX makes it, or its adjoint by all floats, by blocks of 256 threads."""

    def count() -> Counts:
        program = program_of(kernel, config.settings)
        given, fresh = arguments(program.params, dims), []
        if adjoint:
            floats = tuple(k for k, p in enumerate(program.params) if p.dtype.is_float and k not in program.written)
            around = gatherable(program, Geometry((*dims, *[1] * (4 - len(dims)))), shapes_of(given), {})
            variant = Variant(
                "adjoint", floats, program.written, fresh=program.written, gathered=around, gatherable=around,
                for_gpu=True,
            )  # fmt: skip
            launch = derive(program, variant)
            program, given = launch.program, arguments(launch.program.params, dims)
            fresh = [k for k, feed in enumerate(launch.feeds) if feed.role is Role.ZEROS]
            for k, feed in enumerate(launch.feeds):
                given[k] = np.asarray(dims[feed.source.param], np.int32) if feed.source.kind == "dim" else given[k]
        replaced, counts = replaced_elements(program.gpu_kernel, fresh), Counts()
        version = CudaKernel(replaced, config.settings).version(dims, shapes_of(given))
        PtxKernel(replaced, version, block=BLOCK).run(dims, given, counts=counts)
        return counts

    return count


def shapes_of(arrays: list[np.ndarray]) -> tuple[tuple[int, ...] | None, ...]:
    return tuple(np.shape(a) or None for a in arrays)


def batched(kernel: Any, batch: int, dims: tuple[int, ...]) -> Callable[[], Counts]:
    """The launch under `vmap`, all of whose arrays have the batch axis and whose numbers have none."""

    def count() -> Counts:
        made, counts = PtxKernel(kernel.ir(), "narrow fast", block=BLOCK), Counts()
        given = arguments(made.kernel.params, dims)
        arrays = [aligned(np.stack([a] * batch) if a.ndim else a, a.dtype) for a in given]
        axes = [(bool(a.ndim),) for a in given]
        words = pack(made.kernel.params, arrays, dims, tid_dims=made.kernel.tid_dims, batch=(batch,), batched=axes)
        made.launch(words, arrays, counts=counts)
        return counts

    return count


@dataclass(frozen=True)
class Step:
    """One step along K of a product of tiles, or of its adjoint: the difference between launches with n + 1 and n."""

    type: Any
    sums: Any
    extents: tuple[int, int, int]
    block: int
    version: str = "flat fast"
    adjoint: bool = False

    def kernel(self) -> PtxKernel:
        made = product(self.type, self.sums, *self.extents, self.block)
        kernel = vjp(made, [0, 1], [2]).kernel if self.adjoint else made
        return PtxKernel(kernel, self.version, architecture=self.architecture)

    @property
    def architecture(self) -> str:
        return ARCHITECTURE + "a" * self.by_groups

    @property
    def by_groups(self) -> bool:
        return "wgmma" in self.version

    def launched(self, made: PtxKernel, steps: int) -> Counts:
        (m, n, k), counts = self.extents, Counts()
        a, b = np.ones((m, steps * k), self.type.dtype), np.ones((steps * k, n), self.type.dtype)
        given = {"a": a, "b": b, "c": np.zeros((m, n), self.sums.dtype), "adj_a": 0 * a, "adj_b": 0 * b}
        made.run((1, 1), [given[p.name.replace("adj_c", "c")] for p in made.kernel.params], counts=counts)
        return counts

    def __call__(self) -> Counts:
        made = self.kernel()
        # As many as there are stages begin with copies of their own.
        return difference(self.launched(made, 5), self.launched(made, 4))

    def work(self, kind: str) -> Work:
        """What the model wants to know."""
        made = self.kernel()
        four, five = (self.launched(made, steps) for steps in (4, 5))
        one = difference(five, four)
        passes, all_passes = (sum(c.passes.values()) for c in (one, four))
        unit = dataclasses.replace(made.unit, options=(*made.unit.options, "-Xptxas=-v"))
        log = compile_unit(unit, self.architecture.replace("compute", "sm")).log
        (registers,) = re.findall(r"Used (\d+) registers", log)
        return Work(
            kind, self.extents, self.block, one.warp_instructions, passes, sum(one.bytes.values()),
            four.warp_instructions - 4 * one.warp_instructions, all_passes - 4 * passes, made.shared, int(registers),
            self.by_groups,
        )  # fmt: skip


def difference(x: Counts, y: Counts) -> Counts:
    made = Counts(x.threads, warp_instructions=x.warp_instructions - y.warp_instructions)
    for name in ("instructions", "sectors", "accesses", "bytes", "passes", "least", "requests"):
        getattr(made, name).update(getattr(x, name))
        getattr(made, name).subtract(getattr(y, name))
    return made


CASES = (
    Case("saxpy", plain(saxpy, (1024,))),
    Case("saxpy, vmap of 8", batched(saxpy, 8, (128,))),
    Case("saxpy, adjoint", plain(saxpy, (1024,), adjoint=True)),
    Case("vec3 added", plain(added, (1024,))),
    Case("vec3 added, vmap of 8", batched(added, 8, (128,))),
    Case("polar step of mat33", plain(polar, (1024,))),
    Case("polar step of mat33, adjoint", plain(polar, (1024,), adjoint=True)),
    Case("stencil of 7 points", plain(stencil, (8, 16, 32))),
    Case("stencil of 7 points, adjoint", plain(stencil, (8, 16, 32), adjoint=True)),
    Case("n-body, 256 of 256", plain(bodies, (256,))),
    Case("n-body, adjoint", plain(bodies, (256,), adjoint=True)),
    Case("product f16 128x128x64", Step(float16, float32, (128, 128, 64), 256)),
    Case("product f16, wgmma", Step(float16, float32, (128, 128, 64), 256, "wgmma flat fast")),
    Case("product f16, adjoint", Step(float16, float32, (128, 128, 64), 256, adjoint=True)),
    Case("product bf16 64x64x64", Step(bfloat16, float32, (64, 64, 64), 128)),
    Case("product tf32 128x128x32", Step(float32, float32, (128, 128, 32), 256, "tf32 flat fast")),
    Case("product f32 64x64x32", Step(float32, float32, (64, 64, 32), 128)),
    Case("product f32, adjoint", Step(float32, float32, (64, 64, 32), 128, adjoint=True)),
    Case("product f64 64x64x16", Step(float64, float64, (64, 64, 16), 128)),
)  # fmt: skip

# Products with tiles of sizes that make the most of a GPU, by the type that the model knows.
LARGE = {
    "f16 128x256x64, 256": ("f16", Step(float16, float32, (128, 256, 64), 256)),
    "f16 128x128x64, 128": ("f16", Step(float16, float32, (128, 128, 64), 128)),
    "f16 128x128x64, 256": ("f16", Step(float16, float32, (128, 128, 64), 256)),
    "f16 128x256x64, 256, wgmma": ("f16", Step(float16, float32, (128, 256, 64), 256, "wgmma flat fast")),
    "f16 128x128x64, 128, wgmma": ("f16", Step(float16, float32, (128, 128, 64), 128, "wgmma flat fast")),
    "f16 128x128x64, 256, wgmma": ("f16", Step(float16, float32, (128, 128, 64), 256, "wgmma flat fast")),
    "f16 64x256x64, 128, wgmma": ("f16", Step(float16, float32, (64, 256, 64), 128, "wgmma flat fast")),
    "tf32 128x128x32, 256": ("tf32", Step(float32, float32, (128, 128, 32), 256, "tf32 flat fast")),
    "f32 128x128x32, 256": ("f32", Step(float32, float32, (128, 128, 32), 256)),
    "f32 64x64x32, 128": ("f32", Step(float32, float32, (64, 64, 32), 128)),
    "f64 64x64x16, 128": ("f64", Step(float64, float64, (64, 64, 16), 128)),
}


def lines(names: list[str]) -> Iterator[str]:
    yield f"{'case':30}{'instructions':>13}{'sectors':>9}{'atomics':>8}{'bytes':>8}{'passes':>9}{'fewest':>8}"
    for case in CASES:
        if names and not any(name in case.name for name in names):
            continue
        c = case.count()
        threads = max(1, c.threads)
        moved = (c.sectors["load"] + c.sectors["store"]) / threads
        yield (
            f"{case.name:30}{c.per_thread:13.1f}{moved:9.2f}{c.accesses['atomic'] / threads:8.2f}"
            f"{sum(c.bytes.values()) / threads:8.1f}{sum(c.passes.values()):9}{sum(c.least.values()):8}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="cases whose name contains one of these")
    parser.add_argument("--model", action="store_true", help="bounds for large products on sm_90")
    given = parser.parse_args()
    made = {name: step.work(kind) for name, (kind, step) in LARGE.items()} if given.model else {}
    for line in product_model.lines(made) if given.model else lines(given.names):
        print(line, flush=True)


if __name__ == "__main__":
    main()
