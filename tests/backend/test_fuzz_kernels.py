"""Random kernels: compiled code, the interpreter and Python itself, thread by thread, agree in every bit.

`JWARP_FUZZ=long` tries many more kernels, other ones each time; JWARP_FUZZ_SECONDS says for how long.
"""

from __future__ import annotations

import os
import random
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from harness import VARIANTS, Compiled
from kernel_sources import Generated, Writer, load
from op_kernels import same
from thread_oracle import run_threads

from jwarp.backend.cpu.compile import CpuKernel
from jwarp.backend.interpreter.machine import run
from jwarp.config import Settings
from jwarp.errors import KernelWarning
from jwarp.ir.operation import Stage
from jwarp.ir.verify import verify

LONG = os.environ.get("JWARP_FUZZ") == "long"
SECONDS = float(os.environ.get("JWARP_FUZZ_SECONDS", "600"))
GROUPS, GROUP_SIZE = 8, 12


def check(generated: Generated, folder: Path, rng: random.Random) -> None:
    source, dims, arguments = generated.source, generated.dims, generated.arguments
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        ir = load(source, folder).ir(Settings(max_unroll=rng.choice([0, 4, 16])))
    verify(ir)
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
    # Processors without instructions for float16 and fma are too old to matter.
    old = generated.is_elementary or "float16" in source.replace("bfloat16", "")
    variants = [v for v in VARIANTS if not (old and v.target == "sse")]
    for variant in rng.sample(variants, 2):
        zeros = generated.zeros if rng.random() < 0.7 else ()
        results = Compiled(made, variant).run(dims, arguments, threads=rng.choice([1, 2]), zeros=zeros)
        explain(generated, expected, results, f"{variant}{', from zeros' if zeros else ''}")


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


@pytest.mark.skipif(LONG, reason="the long profile runs instead")
@pytest.mark.parametrize("group", range(GROUPS))
def test_random_kernels(tmp_path, group):
    for seed in range(group * GROUP_SIZE, (group + 1) * GROUP_SIZE):
        rng = random.Random(seed)
        check(Writer(rng).kernel(), tmp_path, rng)


@pytest.mark.skipif(not LONG, reason="JWARP_FUZZ=long is not set")
def test_many_random_kernels(tmp_path):
    end, tried, failures = time.monotonic() + SECONDS, 0, []
    start = random.SystemRandom().randrange(1 << 32)
    while time.monotonic() < end and len(failures) < 20:
        rng = random.Random(start + tried)
        print("seed", start + tried, flush=True)  # the last one tells which kernel ended the process
        try:
            check(Writer(rng).kernel(), tmp_path, rng)
        except Exception as error:
            failures.append(f"seed {start + tried}: {type(error).__name__}: {error}")
        tried += 1
    print(f"{tried} kernels, {len(failures)} failures")
    assert not failures, "\n\n".join(failures)
