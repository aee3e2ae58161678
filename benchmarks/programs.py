"""Whole programs at their full size, a tenth and a hundredth of it: processor time under Warp and under jwarp.

`python benchmarks/programs.py [WORDS OF NAMES] [--size full tenth hundredth] [--rounds 5]` prints a table. Each program
runs under both libraries, in processes of their own that take turns step by step. A ratio is Warp's time to jwarp's,
so that below 1 jwarp is the slower one. Change the compiler's settings only with this table beside.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "conformance"))

import programs as trials  # noqa: E402 the trial of the same programs, which compares their results

SIZES = ("full", "tenth", "hundredth")
BUDGET = 20.0  # seconds for the rounds of one row


@dataclass(frozen=True)
class Case:
    """A program, and for each of SIZES the arguments or the edits of its text that give it.

    In `arguments` and `edit`, `{}` stands for an item of `sizes`, each for one of SIZES. `edit` is a text of
    the program, and the text that replaces it. A program of this folder has another name where it is for several cases.
    """

    name: str
    sizes: tuple[object, ...]
    arguments: str = "--headless"
    edit: tuple[str, str] | None = None
    own: str = ""

    def program(self, size: object) -> trials.Program:
        known = next((each for each in trials.PROGRAMS if each.name == self.name), trials.Program(self.name))
        edits = {**known.edits, **({self.edit[0]: self.edit[1].format(size)} if self.edit else {})}
        kind = trials.Program if "/" in self.name else Own
        return kind(self.own or self.name, tuple(self.arguments.format(size).split()), edits)


class Own(trials.Program):
    """A program of this folder."""

    @property
    def file(self) -> Path:
        return HERE / f"{self.name}.py"


FRAME = "--stage-path=None --num-frames=1"
CASES = [
    Case("cavity", (64, 30, 14), "--cells={}"),
    Case("core/dem", ("32, 64, 32", "14, 32, 14", "6, 8, 6"), FRAME, ("particle_grid(32, 64, 32", "particle_grid({}")),
    Case("core/sph", (0.8, 1.7, 3.7), FRAME, ("smoothing_length = 0.8", "smoothing_length = {}")),
    Case("core/wave", (128, 40, 13), FRAME, ("= 128", "= {}")),
    Case("core/fluid", ("256, 128", "80, 40", "26, 12"), "--headless --num-frames=1", ("256), wp.constant(128", "{}")),
    Case("core/mesh", (1000, 100, 10), FRAME, ("num_particles = 1000", "num_particles = {}")),
    Case("core/nvdb", (10000, 1000, 100), FRAME, ("num_particles = 10000", "num_particles = {}")),
    Case("core/raycast", (1024, 324, 102), "--headless --width={0} --height={0}"),
    Case("core/mesh_intersect", (1024, 102, 10), "--stage-path=None", ("query_count = 1024", "query_count = {}")),
    Case("core/raymarch", (512, 160, 50), "--headless --width={0} --height={0}"),
    Case("core/fdtd_3d", (104, 48), "--headless --num-steps=5 --resolution={}"),
    Case("core/graph_capture", (128, 40, 13), "--headless --num-frames=1", ("= 128", "= {}")),
    Case("core/sample_mesh", (10000, 1000, 100), FRAME, ("shape=(100,)", "shape=({},)")),
    Case("geometry/isosurface", (64, 30, 14), FRAME, ("self.dim = 64", "self.dim = {}")),
    Case("optim/diffray", (512, 160, 50), "--headless --train-iters=1 --height={}"),
    Case("optim/particle_repulsion", (1,), "--headless --num-frames=1"),
    Case(
        "optim/fluid_checkpoint",
        (256, 80, 26),
        "--headless --num-frames=9 --train-iters=1 --pressure-iterations=10",
        ("wp.constant(512)", "wp.constant({})"),
    ),
    Case(
        "optim/navier_stokes_perturbation",
        (256, 64, 32),
        "--headless --spin-up-steps=2 --lead-steps=3 --train-iters=1",
        ("N_GRID = 512", "N_GRID = {}"),
    ),
    *(
        Case(f"diffsim_{name}", (1,), f"--example=diffsim.example_diffsim_{name}", own="newton_example")
        for name in ("spring_cage", "ball", "drone", "soft_body", "cloth")
    ),
    Case("tile/tile_nbody", (2048, 640, 192), "--headless --num-frames=1 -N={}"),
    Case("tile/tile_mcgp", (32, 10, 4), "--headless --slices=1 --height={}"),
    *(
        Case(each.name, (1,), " ".join(each.arguments))
        for each in trials.PROGRAMS
        if each.name in ("core/fft_poisson_navier_stokes_2d", "core/spin_lock", "core/work_queue")
        or (each.name.startswith("tile/") and each.name not in ("tile/tile_nbody", "tile/tile_mcgp"))
    ),
]


@dataclass(frozen=True)
class Row:
    """Seconds of a step or of a program's launches, by the clock and of the processor, under Warp and under jwarp."""

    what: str
    clock: tuple[float, float]
    busy: tuple[float, float]
    error: str = ""

    @property
    def ratio(self) -> float:
        return self.busy[0] / self.busy[1]


def measured(program: trials.Program, rounds: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        sides = [trials.Running(program, under, Path(folder) / under) for under in ("warp", "jwarp")]
        try:
            ran = [side.ran() for side in sides]
            errors = [f"{name}: {each.error}" for name, each in zip(("Warp", "jwarp"), ran, strict=True) if each.error]
            if errors:
                return Row("", (np.nan, np.nan), (np.nan, np.nan), errors[0])
            times, start = [], time.perf_counter()
            while len(times) < rounds and (len(times) < 2 or time.perf_counter() - start < BUDGET):
                times.append([side.step() for side in sides])
            (clock, busy), (our_clock, our_busy) = np.median(times, axis=0)
            return Row(ran[1].what, (clock, our_clock), (busy, our_busy))
        finally:
            for side in sides:
                side.end()


def rows(words: list[str], sizes: list[str], rounds: int) -> Iterator[tuple[str, str, Row]]:
    """Name, size and times of each case that a word names."""
    for case in CASES:
        if words and not any(word in case.name for word in words):
            continue
        for label, size in zip(SIZES, case.sizes, strict=False):
            if label in sizes:
                program = case.program(size)
                missing = not program.file.exists()
                row = (
                    Row("", (np.nan, np.nan), (np.nan, np.nan), "not installed")
                    if missing
                    else measured(program, rounds)
                )
                yield case.name, f"{label} ({size})" if len(case.sizes) > 1 else label, row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    head = ("program", "size", "of", "Warp, ms", "jwarp, ms", "ratio", "by clock")
    print("{:34} {:24} {:8} {:>10} {:>10} {:>7} {:>8}".format(*head))
    ratios: dict[str, list[float]] = {size: [] for size in SIZES}
    for name, size, row in rows(given.words, given.size, given.rounds):
        if row.error:
            print(f"{name:34} {size:24} skipped: {' '.join(row.error.split())[:300]}", flush=True)
            continue
        ratios[size.split()[0]].append(row.ratio)
        print(
            f"{name:34} {size:24} {row.what:8} {row.busy[0] * 1e3:10.3f} {row.busy[1] * 1e3:10.3f} {row.ratio:6.2f}x"
            f" {row.clock[0] / row.clock[1]:7.2f}x{' <' if row.ratio < 1.0 else ''}",
            flush=True,
        )
    for size, each in ratios.items():
        if each:
            mean, below = statistics.geometric_mean(each), sum(ratio < 1.0 for ratio in each)
            print(f"{size}: geometric mean {mean:.2f}x of {len(each)}, {below} below 1")


if __name__ == "__main__":
    main()
