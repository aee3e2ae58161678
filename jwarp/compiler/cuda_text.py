"""The code of a kernel for GPUs as text, with the lines of the user's source that it comes from."""

from __future__ import annotations

import dataclasses
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from jwarp.backend.annotate import annotated
from jwarp.backend.cuda.nvrtc import Code, Unit, compile_unit, disassembler, read_architectures, require
from jwarp.backend.cuda.shared import LEAST_ROOM
from jwarp.backend.cuda.version import Version
from jwarp.compiler.cuda import BLOCK, lower_kernel
from jwarp.compiler.handwritten import Handwritten
from jwarp.config import Settings
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Kernel

DEFAULT_ARCHITECTURE = "sm_90"
SHOWN = Version("fast", is_flat=True)
VERBOSE = "-Xptxas=-v"  # says what a kernel takes of a multiprocessor


def cuda_text(kernel: Kernel, settings: Settings, stage: str) -> str:
    """The text at stage `cuda`, `ptx`, `sass` or `resources` of the version that trusts the launch's proofs.

    Raises:
        LaunchError: NVRTC or nvdisasm is not found.
    """
    made = lower_kernel(kernel, settings)

    def unit_for(architecture: str, *options: str) -> tuple[Unit, str]:
        version, own = made.variants(SHOWN, [architecture], LEAST_ROOM).get(architecture, (SHOWN, architecture))
        unit = made.unit(version, BLOCK)
        return dataclasses.replace(unit, options=(*unit.options, *options)), own

    if stage == "cuda":
        return annotated(unit_for(_architecture(settings))[0].text)
    require(f"kernel '{kernel.name}'")
    if stage == "resources":
        return _resources({a: compile_unit(*unit_for(a, VERBOSE)) for a in read_architectures(settings.cuda_arch)})
    code = compile_unit(*unit_for(_architecture(settings), "--generate-line-info"))
    return annotated(code.ptx if stage == "ptx" else _disassembled(code.cubin))


def handwritten_text(kernel: Handwritten, stage: str) -> str:
    """The text at stage `cuda`, `ptx`, `sass` or `resources` of a handwritten kernel.

    Raises:
        LaunchError: NVRTC or nvdisasm is not found.
    """
    blocks = kernel.definition.blocks
    if stage == "cuda":
        return kernel.unit(blocks).text
    require(f"kernel '{kernel.definition.name}'")
    if stage == "resources":
        return _resources(kernel.codes(read_architectures(kernel.settings.cuda_arch), blocks, [VERBOSE]))
    architecture = _architecture(kernel.settings)
    code = kernel.codes([architecture], blocks, ["--generate-line-info"])[architecture]
    return annotated(code.ptx if stage == "ptx" else _disassembled(code.cubin))


def _resources(codes: Mapping[str, Code]) -> str:
    """A line for each architecture."""
    lines = []
    for architecture, code in codes.items():
        taken = f"{code.registers or 0:>6} registers{code.spills or 0:>6} bytes spilled"
        lines.append(f"{architecture:<8}{len(code.cubin):>8} bytes{taken}")
    return "\n".join(lines)


def _architecture(settings: Settings) -> str:
    return read_architectures(settings.cuda_arch)[0] if settings.cuda_arch else DEFAULT_ARCHITECTURE


def _disassembled(cubin: bytes) -> str:
    """The machine instructions of a cubin, as nvdisasm shows them."""
    tool = disassembler()
    if tool is None:
        raise LaunchError("stage 'sass' needs nvdisasm", hint="pip install nvidia-cuda-nvdisasm")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        command = [tool, "--print-line-info", "--print-code", str(path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
