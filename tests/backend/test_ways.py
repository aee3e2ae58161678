"""The code generator's notes on accesses agree with the instructions in its text, for random kernels."""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter

import pytest
from compiled_variants import TARGETS
from kernel_sources import Writer, load

from jwarp.backend.cpu import emit
from jwarp.backend.cpu.code import Options
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.errors import KernelWarning
from jwarp.ir.nodes import Op, walk
from jwarp.wire import Cover

PATTERNS = {
    "gather": r"= call .*@llvm\.masked\.gather",
    "vector load": r"= call .*@llvm\.masked\.load",
    "scatter": r"call void @llvm\.masked\.scatter",
    "vector store": r"call void @llvm\.masked\.store",
    "atomic": r"call .*@atomic\.",
}
# Functions of the runtime load so.
OUTSIDE = {"row in registers", "loads from anywhere + transpose"}
# Other targets always have the body twice, once without masks.
MASKED = [name for name, target in TARGETS.items() if target.masks and target.width > 1]


@pytest.mark.parametrize("version", ["fast", "checked"])
@pytest.mark.parametrize("target", MASKED)
def test_each_instruction_is_noted_once(tmp_path, target, version, monkeypatch):
    monkeypatch.setattr(emit, "MAX_IN_FULL", 0)  # so that this one has it once
    noted_at_all: Counter[str] = Counter()
    for seed in range(25):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KernelWarning)
            ir = load(Writer(random.Random(seed)).kernel().source, tmp_path).ir(Settings())
        made = CpuKernel(ir, Settings(cache_dir=""))
        generated = made.generate(version, Options(TARGETS[target]))
        accesses = [n for n in walk(made.proofs.kernel.body) if isinstance(n, Op) and n.row.is_access]
        assert generated.ways.keys() == set(accesses) and all(generated.ways.values())
        noted = Counter(way for ways in generated.ways.values() if not OUTSIDE & set(ways) for way in ways)
        noted_at_all += noted
        for way in ("vector load", "vector store"):
            noted[way] += noted["vector addition"]
        noted["vector store"] += sum(cover is Cover.OWN for cover in made.proofs.covers)  # each writes zeros
        found = {way: len(re.findall(p, generated.text, re.MULTILINE)) for way, p in PATTERNS.items()}
        assert found == {way: noted[way] for way in PATTERNS}
    assert set(noted_at_all) >= {*PATTERNS, "scalar load"}
