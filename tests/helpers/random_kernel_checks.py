"""Compares a random kernel compiled, interpreted, and run by Python thread by thread."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import numpy as np
from compiled_variants import VARIANTS, Compiled
from kernel_sources import Generated, load
from op_kernels import agree, same
from thread_oracle import run_threads

from jwarp.analysis.sums import sums_of
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.errors import KernelWarning
from jwarp.ir.row_groups import Stage
from jwarp.ir.verify import verify


def check(generated: Generated, folder: Path, rng: random.Random) -> None:
    source, dims, arguments = generated.source, generated.dims, generated.arguments
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        ir = load(source, folder).ir(Settings(max_unroll=rng.choice([0, 4, 16])))
    verify(ir, Stage.WRITTEN)
    made = CpuKernel(ir, Settings(cache_dir=""))
    verify(made.proofs.kernel, Stage.LOWERED)
    if generated.is_elementary:
        # Python's functions round differently. The expanded kernel has exact operations only.
        expected = run(made.proofs.kernel, dims, arguments)
    else:
        expected, inside = run_threads(source, dims, arguments)
        explain(generated, expected, run(ir, dims, arguments), "the interpreter")
        if inside:  # then the launch must not be refused
            made.check(dims, tuple(np.shape(a) or None for a in arguments))
    other = _from_copies(made, dims, arguments, expected)
    # Processors without instructions for float16 and fma are too old to matter.
    old = generated.is_elementary or "float16" in source.replace("bfloat16", "")
    variants = [v for v in VARIANTS if not (old and v.target == "sse")]
    for variant in rng.sample(variants, 2):
        zeros = generated.zeros if rng.random() < 0.7 else ()
        results = Compiled(made, variant).run(dims, arguments, threads=rng.choice([1, 2]), zeros=zeros)
        nearer = [np.where(agree(x, y), y, z) for x, y, z in zip(results, expected, other, strict=True)]
        explain(generated, nearer, results, f"{variant}{', from zeros' if zeros else ''}")


def _from_copies(made: CpuKernel, dims: tuple[int, ...], arguments: tuple, expected: list) -> list:
    """The expected values of elements that a launch sums in a copy from zero, which it adds to the array at the end.

    Sums of floats differ by rounding then. The first threads of a launch add to the array itself. Each element
    has one thread, so nothing else can differ.
    """
    arrays = [p for p, param in enumerate(made.proofs.kernel.params) if param.is_array]
    sums = {p for p in sums_of(made.proofs.kernel) if np.asarray(arguments[p]).dtype.kind == "f"}
    if not sums:
        return expected
    empty = [np.zeros_like(a) if p in sums else a for p, a in enumerate(arguments)]
    added = run(made.proofs.kernel, dims, empty)
    with np.errstate(all="ignore"):
        return [
            arguments[p] + addend if p in sums else whole
            for p, addend, whole in zip(arrays, added, expected, strict=True)
        ]


def explain(generated: Generated, expected: list, results: list, who: str) -> None:
    for k, (x, y) in enumerate(zip(results, expected, strict=True)):
        if not same(x, y):
            place = np.argwhere(~((x == y) | ((x != x) & (y != y))))
            first = tuple(place[0]) if len(place) else ()
            raise AssertionError(
                f"{who}, array {k} at {first} of {x.shape}: {x[first]!r}, expected {y[first]!r}\n"
                f"dims {generated.dims}, zeros {generated.zeros}\n{generated.source}"
                f"arguments {generated.arguments}"
            )
