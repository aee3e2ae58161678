"""Runs kernels on the PTX machine: what NVRTC makes of their CUDA text, with the interface of the interpreter."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cuda_on_host import pack
from launch_format import SITE_BITS
from ptx_checks import Counts
from ptx_machine import Machine
from ptx_memory import GlobalMemory
from versions import read_version

from jwarp.backend.cuda.nvrtc import Unit, compile_unit, toolchain
from jwarp.backend.cuda.records import HEAP
from jwarp.backend.cuda.shared import room_of
from jwarp.backend.cuda.version import Version
from jwarp.compiler.cuda import CudaKernel
from jwarp.compiler.handwritten import Handwritten
from jwarp.compiler.program import program_of
from jwarp.config import Settings, config
from jwarp.ir.nodes import Kernel, written_params
from jwarp.launching.handwritten import Configuration, configuration

ARCHITECTURE = "compute_90"
PLAIN = Settings(cache_dir="")


def ptx_of(unit: Unit, architecture: str = ARCHITECTURE) -> str:
    """The PTX of a text, which is kept for the other tests of this run."""
    parts = [toolchain(), architecture, unit.text, *unit.options, *(t for pair in unit.headers.items() for t in pair)]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    path = Path(os.environ.get("JWARP_CACHE_DIR", "/tmp")) / f"ptx_{name}.ptx"
    if not path.exists():
        made = compile_unit(unit, architecture).ptx
        path.write_text(made)
    return path.read_text()


def edited(unit: Unit, edits: Mapping[str, str]) -> Unit:
    """The text with other words in it, or in one of its headers, which must be there."""
    text, headers = unit.text, dict(unit.headers)
    for old, new in edits.items():
        found = [name for name, header in headers.items() if old in header]
        assert (old in text) + len(found) == 1, f"{old!r} is in {found or 'no text'}"
        text = text.replace(old, new)
        headers = {name: header.replace(old, new) for name, header in headers.items()}
    return dataclasses.replace(unit, text=text, headers=headers)


def aligned(values: Any, dtype: np.dtype) -> np.ndarray:
    """A copy that begins where XLA's arrays do, at a multiple of 64 bytes."""
    given = np.asarray(values, dtype)
    memory = np.empty(given.nbytes + 64, np.uint8)
    made = memory[-memory.ctypes.data % 64 :][: given.nbytes].view(dtype).reshape(given.shape)
    made[...] = given
    return made


class PtxKernel:
    """A kernel that was generated for CUDA, and compiled to PTX."""

    def __init__(
        self, kernel: Kernel, version: str | Version = "either", settings: Settings = PLAIN, block: int = 64,
        architecture: str = ARCHITECTURE, edits: Mapping[str, str] | None = None,
    ):  # fmt: skip
        self.made = CudaKernel(kernel, settings)
        self.kernel, self.block = kernel, kernel.block_dim or block
        room = room_of([architecture])
        self.shared = self.made.needs_in(room, read_version(version)).shared
        self.unit = edited(self.made.unit(read_version(version), self.block, room), edits or {})
        self.text = ptx_of(self.unit, architecture)
        self.machine = Machine(self.text, self.made.entry)
        self.heap_size = HEAP
        self.printed: list[str] = []  # by the last launch

    def run(
        self,
        dims: tuple[int, ...],
        args: Sequence[Any],
        order: int = 0,
        blocks: int | None = None,
        counts: Counts | None = None,
    ) -> list[np.ndarray]:
        """The array parameters after a launch, as `interpreter.run` gives them.

        Raises Fault for what a GPU would not do, and RuntimeError for a check of the kernel that fails.
        """
        arrays = [aligned(a, p.dtype.dtype) for p, a in zip(self.kernel.params, args, strict=True)]
        failure = np.full(1, 2**64 - 1, np.uint64)
        words = pack(
            self.kernel.params, arrays, dims, tid_dims=self.kernel.tid_dims, failure=failure,
            condition=self.made.condition,
        )  # fmt: skip
        self.launch(words, arrays, failure, order, blocks, counts)
        return [array for array, param in zip(arrays, self.kernel.params, strict=True) if param.is_array]

    def launch(
        self, words: np.ndarray, arrays: Sequence[np.ndarray], failure: np.ndarray | None = None, order: int = 0,
        blocks: int | None = None, counts: Counts | None = None,
    ) -> None:  # fmt: skip
        """Runs the words of a launch, whose arrays are the only memory there is."""
        memory, written = GlobalMemory(heap_size=self.heap_size), written_params(self.kernel)
        for p, array in enumerate(arrays):
            # Atomics of one or two bytes change words, in which their neighbours stay as they are.
            size = -(-array.nbytes // 4) * 4 if array.itemsize < 4 else array.nbytes
            memory.add_address(
                array.ctypes.data, size, f"parameter {self.kernel.params[p].name}", p in written, array.itemsize
            )
        if failure is not None:
            memory.add(failure, "the note of failures")
        share = 1 if self.kernel.block_dim else self.block
        grid = blocks or max(1, -(-int(words[0]) // share))
        self.printed = self.machine.launch(memory, words.tobytes(), (grid,), (self.block,), self.shared, order, counts)
        if failure is not None and failure[0] != 2**64 - 1:
            thread, site = divmod(int(failure[0]), 1 << SITE_BITS)
            raise RuntimeError(f"thread {thread}: {self.made.failure_texts[site - 1]}")


class PtxHandwritten:
    """A handwritten kernel, called as the library calls it."""

    def __init__(
        self, kernel: Any, block: Any = None, edits: Mapping[str, str] | None = None, changes_inputs: bool = False,
        architecture: str = ARCHITECTURE,
    ):  # fmt: skip
        self.architecture = architecture
        self.kernel, self.block, self.edits, self.changes_inputs = kernel, block, edits or {}, changes_inputs

    def unit(self, dims: Sequence[int]) -> Unit:
        """The unit that is compiled for a launch over `dims`."""
        program = program_of(self.kernel, config.settings)
        made = Handwritten(self.kernel.definition, program.kernel, program.settings)
        blocks = self.configuration(dims).blocks
        return edited(made.unit(blocks, changes_inputs=self.changes_inputs), self.edits)

    def configuration(self, dims: Sequence[int]) -> Configuration:
        return configuration(self.kernel.definition, tuple(dims), self.block)

    def run(
        self, dims: Sequence[int], inputs: Sequence[Any], outputs: Sequence[Any], order: int = 0,
        counts: Counts | None = None, items: int = 0, batched: Sequence[Sequence[bool]] | None = None,
    ) -> list[np.ndarray]:  # fmt: skip
        """The outputs, by shape or initial content; of a batch of `items`, which the `batched` parameters have."""
        kernel, definition = self.kernel, self.kernel.definition
        values = iter(inputs)
        given = [None if p in definition.outputs else next(values) for p in range(len(kernel.params))]
        for p, output in zip(definition.outputs, outputs, strict=True):
            given[p] = np.zeros(output) if isinstance(output, (tuple, int)) else output
        arrays = [aligned(a, p.dtype.dtype) for a, p in zip(given, kernel.params, strict=True)]
        shape, unit = self.configuration(dims), self.unit(dims)
        words = pack(kernel.params, arrays, tuple(dims), batch=(items,) if items else (), batched=batched)
        memory = GlobalMemory()
        for p, array in enumerate(arrays):
            memory.add(array, f"parameter {kernel.params[p].name}", p in definition.outputs)
        machine = Machine(ptx_of(unit, self.architecture), unit.name.removesuffix(".cu"))
        grid = (*shape.grid, items or 1)
        machine.launch(memory, words.tobytes(), grid, (shape.blocks.size,), shape.shared, order, counts)
        return [arrays[p] for p in definition.outputs]
