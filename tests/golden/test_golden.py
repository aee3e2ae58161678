"""The IR and the generated LLVM of tiny kernels, against the texts in this folder.

`pytest --update-golden` writes them anew; the difference is then to be read as part of the change.
"""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as llvm
import pytest
from golden_kernels import KERNELS

from jwarp.backend.cpu.code import Options
from jwarp.backend.cpu.target import Target
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.ir.printing import format_kernel
from jwarp.passes.simplify import simplify

pytestmark = pytest.mark.quick

FOLDER = Path(__file__).parent
# Not this machine's, so that the texts are the same everywhere.
TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", width=8, masks=True, fma=True)
SETTINGS = Settings(cache_dir="", bounds="safe", debug=False, fast_math=False, max_unroll=16)
NO_LLVM = {"wave"}  # its expansion is long and belongs to the library


def compare(path: Path, text: str, update: bool) -> None:
    if update:
        path.write_text(text)
    assert path.exists(), f"{path.name} is missing: run pytest --update-golden"
    assert text == path.read_text(), f"{path.name} differs: read the difference, then run pytest --update-golden"


def rows_function(module: str) -> str:
    """The function with the kernel's loops; the entry that calls it is the same for all kernels."""
    start = module.index("define internal")
    return module[start : module.index("\n}", start) + 3]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_ir(kernel, update_golden):
    text = format_kernel(simplify(kernel.ir(SETTINGS)))
    compare(FOLDER / f"{kernel.name}.ir", text.rstrip("\n") + "\n", update_golden)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k.name not in NO_LLVM], ids=lambda kernel: kernel.name)
def test_llvm(kernel, update_golden):
    module = CpuKernel(kernel.ir(SETTINGS), SETTINGS).text("fast", Options(TARGET))
    llvm.parse_assembly(module).verify()
    compare(FOLDER / f"{kernel.name}.ll", rows_function(module), update_golden)


def test_every_text_belongs_to_a_kernel():
    expected = {f"{k.name}.ir" for k in KERNELS} | {f"{k.name}.ll" for k in KERNELS if k.name not in NO_LLVM}
    assert {p.name for p in FOLDER.iterdir() if p.suffix in (".ir", ".ll")} == expected
