"""Tries Warp's own example programs: each runs under Warp and under jwarp, and their arrays are compared.

python tests/conformance/programs.py [WORDS OF NAMES] prints a table: seconds of a step, or of the launches of a program
that has none; by the clock and of the processor (all threads), which other processes change less; and the first run.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
# What inputs are changed by, to see how well Warp itself keeps its results; and how much farther jwarp may be off.
PERTURBATION = 1e-7
SLACK = 4.0
# Relative to the largest element of an array: what a few roundings come to, where the changed inputs show nothing.
ROUNDING = {2: 4e-3, 4: 4e-6, 8: 1e-12}
SECONDS, ROUNDS = 600, 7


@dataclass(frozen=True)
class Program:
    """An example of Warp's, the arguments that make it short, and what its text is changed in, for both."""

    name: str
    arguments: tuple[str, ...] = ("--headless",)
    edits: dict[str, str] = field(default_factory=dict)
    apart: float = 0.0  # how far Warp's results are from the truth, where that is farther than jwarp's

    @property
    def file(self) -> Path:
        folder, _, name = self.name.partition("/")
        return Path(
            str(importlib.metadata.distribution("warp-lang").locate_file(f"warp/examples/{folder}/example_{name}.py"))
        )


CPU = {'"cuda:0"': '"cpu"', 'device="cuda"': 'device="cpu"'}
SMALL = {"N_GRID = wp.constant(512)": "N_GRID = wp.constant(64)"}
ANY_DEVICE = {'args.device == "cpu"': "False", "not wp.is_cuda_available()": "False", **CPU}

PROGRAMS = [
    Program("core/fdtd_3d", ("--headless", "--resolution=48", "--num-steps=20")),
    # Warp's transforms of 512 numbers in float32 are off by 3e-6, jwarp's by 2e-7.
    Program("core/fft_poisson_navier_stokes_2d", ("--headless", "--num-steps=2", "--sim-substeps=1"), apart=2e-5),
    Program("core/fluid", ("--headless", "--num-frames=3")),
    Program("core/graph_capture", ("--headless", "--num-frames=3")),
    Program("core/wave", ("--stage-path=None", "--num-frames=3")),
    Program("core/raymarch", ("--headless", "--width=128", "--height=64")),
    Program("core/spin_lock", (), {"wp.clear_kernel_cache()": "pass", **CPU}),
    Program("core/work_queue", (), {"wp.clear_kernel_cache()": "pass", **CPU}),
    Program(
        "optim/fluid_checkpoint",
        ("--headless", "--num-frames=9", "--train-iters=2", "--pressure-iterations=10"),
        SMALL,
    ),
    Program(
        "optim/fluid_checkpoint_custom_backward",
        ("--headless", "--num-frames=9", "--train-iters=2", "--pressure-iterations=10"),
        SMALL,
    ),
    Program(
        "optim/navier_stokes_perturbation",
        ("--headless", "--spin-up-steps=2", "--lead-steps=3", "--train-iters=2"),
        {"N_GRID = 512": "N_GRID = 128"},
    ),
    Program("tile/tile_block_cholesky", ("--headless", "-N=3")),
    Program("tile/tile_cholesky"),
    Program("tile/tile_convolution", edits=CPU),
    Program("tile/tile_fft", edits=CPU),
    Program("tile/tile_filtering", edits=CPU),
    Program("tile/tile_matmul"),
    Program("tile/tile_mlp", ("--headless", "--train-iters=2"), CPU),
    Program("tile/tile_nbody", ("--headless", "--num-frames=2", "-N=256"), ANY_DEVICE),
    Program("tile/tile_stream_compaction", (), ANY_DEVICE),
    Program("core/dem", ("--stage-path=None", "--num-frames=1")),
    Program("core/sph", ("--stage-path=None", "--num-frames=1")),
    Program("core/mesh", ("--stage-path=None", "--num-frames=1")),
    Program("core/sample_mesh", ("--stage-path=None", "--num-frames=1")),
    Program("core/raycast", ("--headless", "--width=256", "--height=256")),
    Program("optim/particle_repulsion", ("--headless", "--num-frames=1")),
    Program("optim/diffray", ("--headless", "--train-iters=1")),
    Program("tile/tile_mcgp", ("--headless", "--height=32", "--slices=1")),
]


@dataclass(frozen=True)
class Ran:
    """The outcome of one run."""

    arrays: dict[str, np.ndarray]
    error: str
    first: float = math.nan  # seconds, compiling included
    what: str = ""


class Running:
    """A program in a process of its own, which runs steps more when it is asked to."""

    def __init__(self, program: Program, under: str, folder: Path, perturbation: float = 0.0):
        self.under, self.folder = under, folder
        folder.mkdir()
        text = program.file.read_text()
        for old, new in program.edits.items():
            text = text.replace(old, new)
        copy = folder / program.file.name
        copy.write_text(text)
        given = [f"under={under}", f"file={copy}", f"out={folder}", f"perturb={perturbation}"]
        command = [sys.executable, str(HERE / "one_program.py"), *given, "--", *program.arguments]
        self.errors = (folder / "stderr.txt").open("w+")
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.timer = threading.Timer(SECONDS, self.process.kill)
        self.timer.start()

    def ran(self) -> Ran:
        """The outcome of the first run."""
        assert self.process.stdout
        if self.process.stdout.readline() != "ready\n":
            self.errors.seek(0)
            return Ran({}, f"ended with {self.process.wait()}: {self.errors.read().strip()[-400:]}")
        found = json.loads((self.folder / "report.json").read_text())
        with np.load(self.folder / "arrays.npz") as arrays:
            kept = {name: arrays[name] for name in arrays.files}
        return Ran(kept, found["error"], found.get("first", math.nan), found.get("what", ""))

    def step(self) -> tuple[float, float]:
        """Seconds of a step, by the clock and of the processor."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write("step\n")
            self.process.stdin.flush()
            seconds, busy = map(float, self.process.stdout.readline().split())
        except (OSError, ValueError):
            return math.nan, math.nan
        return seconds, busy

    def end(self) -> None:
        self.timer.cancel()
        self.process.kill()
        self.process.communicate()
        self.errors.close()


def difference(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference, relative to the largest element."""
    if x.shape != y.shape:
        return math.inf
    x, y = x.astype(np.float64), y.astype(np.float64)
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return math.inf
    finite = np.isfinite(x)
    size = np.abs(x[finite]).max(initial=0.0)
    return (
        float(np.abs(x[finite] - y[finite]).max(initial=0.0) / size)
        if size
        else float(np.abs(y[finite]).max(initial=0.0))
    )


def compared(program: Program, warps: Ran, changed: Ran, ours: Ran) -> Iterator[tuple[str, float, float]]:
    """For each array how far jwarp's is from Warp's, and how far it may be."""
    for name, array in warps.arrays.items():
        if name not in ours.arrays:
            yield name, math.inf, 0.0
            continue
        allowed = max(program.apart, ROUNDING[array.dtype.itemsize]) if array.dtype.kind == "f" else 0.0
        if name in changed.arrays:
            if not difference(array, changed.arrays[name]) < 0.5:
                continue  # nobody has written it: wp.empty
            allowed = max(allowed, SLACK * difference(array, changed.arrays[name]))
        yield name, difference(array, ours.arrays[name]), allowed


def tried(program: Program, folder: Path) -> str:
    """A row of the table."""
    other = Running(program, "warp", folder / "changed", PERTURBATION)
    changed = other.ran()
    other.end()
    sides = Running(program, "warp", folder / "warp"), Running(program, "jwarp", folder / "jwarp")
    warps, ours = (side.ran() for side in sides)
    # In turn, so that what else the machine does slows both.
    rounds = np.array([[side.step() for side in sides] for _ in range(ROUNDS)])
    for side in sides:
        side.end()
    (clock, busy), (our_clock, our_busy) = rounds.min(axis=0)
    times = (
        f"{ours.what:8} {clock * 1e3:10.3f} {our_clock * 1e3:10.3f} {clock / our_clock:6.1f}x"
        f" {busy / our_busy:6.1f}x {warps.first:7.1f} {ours.first:7.1f}"
    )
    if clock > 0.0 and our_clock > 0.0:
        RATIOS.append(clock / our_clock)
        BUSY.append(busy / our_busy)
    if warps.error:
        return f"{program.name:40} {'no':8} {times}  under Warp: {warps.error[:200]}"
    if ours.error:
        return f"{program.name:40} {'FAILS':8} {times}  {ours.error[:600]}"
    wrong = [row for row in compared(program, warps, changed, ours) if not row[1] <= row[2]]
    worst = max((row[1] for row in compared(program, warps, changed, ours)), default=0.0)
    if wrong:
        text = "; ".join(f"{name}: {off:.1e} > {allowed:.1e}" for name, off, allowed in wrong[:6])
        return f"{program.name:40} {'DIFFERS':8} {times}  {text}"
    return f"{program.name:40} {'equal':8} {times}  {len(warps.arrays)} arrays, at most {worst:.0e} apart"


# Of Warp's seconds to jwarp's, by the clock and of the processor.
RATIOS: list[float] = []
BUSY: list[float] = []


def main(words: list[str]) -> None:
    print(
        f"{'program':40} {'verdict':8} {'of a':8} {'Warp, ms':>10} {'jwarp, ms':>10} {'':7} {'busy':7} {'first':>7}"
        f" {'first':>7}"
    )
    for program in PROGRAMS:
        if not words or any(word in program.name for word in words):
            with tempfile.TemporaryDirectory() as folder:
                print(tried(program, Path(folder)), flush=True)
    if RATIOS:
        clock, busy = (statistics.geometric_mean(each) for each in (RATIOS, BUSY))
        print(f"geometric mean {clock:.1f}x of {len(RATIOS)}, of the processor's time {busy:.1f}x")


if __name__ == "__main__":
    main(sys.argv[1:])
