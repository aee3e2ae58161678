"""Runs CUDA C++ on the processor: compiles it against a stand-in for CUDA, and lays out arguments by itself."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import math
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from guard_bytes import check_guards, guarded
from launch_format import BATCH_AXES, SITE_BITS, WORDS
from versions import read_version

from jwarp.analysis.affine import Condition
from jwarp.backend.cuda.nvrtc import device_folder
from jwarp.compiler.cuda import CudaKernel
from jwarp.config import Settings
from jwarp.ir.nodes import Kernel, Param, written_params
from jwarp.types import ArrayType, int32, uint64

SHIM = Path(__file__).parents[1] / "cuda" / "shim"
# Not optimised, as most code runs for less time than it takes to compile. Hidden: each library has the state of its own
# launches. Products and sums are rounded apart, unless a flag -ffp-contract=fast after these says otherwise.
FLAGS = (
    "-std=c++17", "-O0", "-shared", "-fPIC", "-w", "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv",
    "-fvisibility=hidden", "-fno-gnu-unique",
)  # fmt: skip
# Only code that says one of these may need threads that wait for each other; headers may say anything.
WAITING = re.compile(r"__sync|_sync\(|__shared__|__nanosleep|jw_flush|dynamic_shared|^\s*#\s*include", re.MULTILINE)
# A declaration of the dynamic shared memory, which is a variable of the stand-in.
ALIGNED = r"(?:(?:__align__|alignas)\s*\(\s*\d+\s*\)\s*)?"
DYNAMIC = re.compile(rf"extern\s+__shared__\s+{ALIGNED}(\w[\w:<>, ]*?)\s+{ALIGNED}(\w+)\s*\[\s*\]\s*;")
OWN_HEADER = re.compile(r'^#include "((?:tile|native)\w*\.cuh)"$', re.MULTILINE)
FORWARD, BACKWARD = 0, -1  # orders of threads; other numbers shuffle them

_ENTRY = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(\d+\)\s+)?(\w+)\(')


class HostKernel:
    """One entry of a shared object."""

    def __init__(self, library: ctypes.CDLL, name: str, text: str):
        self._run = getattr(library, name)
        self.word_count: int = getattr(library, f"{name}_words")()  # what it is given
        self.waits = bool(WAITING.search(text))

    def run(
        self,
        words: np.ndarray,  # of int64
        grid: Sequence[int] = (1,),
        block: Sequence[int] = (32,),
        shared: int = 0,
        order: int = FORWARD,
    ) -> None:
        """Run the kernel with the words of the launch; a RuntimeError where its threads do not fit together."""
        assert words.dtype == np.int64 and words.flags.c_contiguous
        sizes = np.array([*grid, *[1] * (3 - len(grid)), *block, *[1] * (3 - len(block))], np.uint32)
        message = ctypes.create_string_buffer(256)
        pointer = ctypes.c_void_p
        failed = self._run(
            pointer(words.ctypes.data), ctypes.c_size_t(words.size), pointer(sizes.ctypes.data),
            ctypes.c_size_t(shared), order, self.waits, message, ctypes.c_size_t(len(message)),
        )  # fmt: skip
        if failed:
            raise RuntimeError(message.value.decode())


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]


def _compile(arguments: Sequence[str], folder: str | Path, text: str = "") -> None:
    command = ["g++", *FLAGS, f"-I{SHIM}", f"-I{device_folder()}", *arguments]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert made.returncode == 0, f"{made.stderr[:4000]}\n{text}"


def compiled_headers(flags: Sequence[str]) -> Path:
    """A header that includes the stand-in and the library, next to its precompiled form under these flags.

    Next to it the library is found under the name that authors include it by. Both are kept for all processes and
    later runs, by the texts of the headers.
    """
    headers = (path.read_text() for folder in (SHIM, device_folder()) for path in sorted(Path(folder).iterdir()))
    digest = _digest(str(SHIM), str(device_folder()), *headers, *FLAGS, *flags)
    folder = Path(tempfile.gettempdir()) / f"jwarp-headers-{os.getuid()}" / digest
    header = folder / "first.h"
    if not folder.exists():
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            made = Path(work) / "made"
            made.mkdir()
            (made / "first.h").write_text('#include "cuda_on_host.h"\n#include "jwarp.cuh"\n')
            (made / "jwarp").symlink_to(device_folder())
            _compile([*flags, "-x", "c++-header", "first.h", "-o", "first.h.gch"], made)
            with contextlib.suppress(OSError):  # another process was first
                os.rename(made, folder)
    return header


def compile_host(
    texts: Sequence[str], folder: Path | None = None, flags: Sequence[str] = (), headers: Sequence[str] = ()
) -> list[HostKernel]:
    """The entries of CUDA texts, compiled together: each in a namespace of its own, after the library.

    What is made is kept, by its text, that of the headers and the flags. `headers` are those of the library that the
    texts need without saying so.
    """
    # Headers come before the namespaces of the kernels, and the first ones are compiled once for many texts.
    own_headers = dict.fromkeys([*headers, *(name for text in texts for name in OWN_HEADER.findall(text))])
    parts = [f'#include "{name}"' for name in own_headers]
    for k, text in enumerate(texts):
        found = _ENTRY.search(text)
        assert found is not None, text
        own = text.replace('extern "C" __global__', "static __global__")
        own = DYNAMIC.sub(r"\1* const \2 = (\1*)cuda_host::dynamic_shared;", own)
        parts += [f"namespace kernel{k} {{", own, "}", f'#line 1 "driver{k}"', _DRIVER.format(k=k, name=found[1])]
    source = "\n".join(parts)
    first = compiled_headers(flags)
    folder = folder or Path(os.environ["JWARP_CACHE_DIR"])
    path = folder / f"host_{_digest(source, str(first))}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as work:
            (Path(work) / "kernels.cc").write_text(source)
            text = source if len(texts) == 1 else ""
            given = ["-include", str(first), f"-I{first.parent}", *flags]
            _compile([*given, "kernels.cc", "-o", "kernels.so"], work, text)
            os.replace(Path(work) / "kernels.so", path)
    library = ctypes.CDLL(str(path))
    return [HostKernel(library, f"run_kernel{k}", text) for k, text in enumerate(texts)]


_DRIVER = """
extern "C" __attribute__((visibility("default")))
int run_kernel{k}(const int64_t* words, size_t count, const unsigned* sizes, size_t shared, int seed, bool waits,
                  char* message, size_t room) {{
  return cuda_host::run(kernel{k}::{name}, words, count, sizes, shared, seed, waits, message, room);
}}
extern "C" __attribute__((visibility("default"))) int run_kernel{k}_words() {{
  return cuda_host::words_of(kernel{k}::{name});
}}
"""


NOTHING = 1  # limits with nothing between them: from 1 to 0


def limits_of(condition: Condition, symbols: Sequence[int], scalars: Sequence[int]) -> dict[int, int]:
    """The words of the symbols that are scalars: the least number in the lower half, the greatest in the upper one.

    Within them all clauses hold. Of the alternatives of a clause that ask for one scalar, that of the first one counts.
    """
    limits = {scalar: [int(int32.min), int(int32.max)] for scalar in scalars}
    for clause in condition:
        found = []
        for form in clause:
            terms = [(s.index, c) for s, c in form.terms]
            total = form.constant + sum(c * symbols[s] for s, c in terms if s not in limits)
            found.append(([(s, c) for s, c in terms if s in limits], total))
        if any(not own and total >= 0 for own, total in found):
            continue
        alone = sorted((own[0], total) for own, total in found if len(own) == 1)
        if not alone:
            return dict.fromkeys(scalars, NOTHING)
        (scalar, c), total = alone[0]
        if c > 0:
            limits[scalar][0] = max(limits[scalar][0], -(total // c))
        else:
            limits[scalar][1] = min(limits[scalar][1], total // -c)
    return {s: NOTHING if low > high else high << 32 | low % 2**32 for s, (low, high) in limits.items()}


def pack(
    params: Sequence[Param],
    arrays: Sequence[np.ndarray],
    dims: Sequence[int],
    *,
    tid_dims: int = 4,
    batch: Sequence[int] = (),
    batched: Sequence[Sequence[bool]] = (),
    failure: np.ndarray | None = None,
    condition: Condition | None = None,
) -> np.ndarray:
    """The words of a launch, as the runtime lays them out.

    `batched` tells for each parameter which axes of the batch its array has, in front. Where a `condition` for the fast
    version is given, it gives the limits of integers; without one nothing is within them.
    """
    repeat, threads = math.prod(dims[tid_dims:]), math.prod(dims[:tid_dims])
    batched = batched or [[False] * len(batch)] * len(params)
    items = math.prod(batch)
    head = {
        "total": (repeat * items * threads,),
        "items": (items,),
        "threads": (threads,),
        "failure": (failure.ctypes.data if failure is not None else 0,),
        "batch": (*[1] * (BATCH_AXES - len(batch)), *batch),
        "symbols": (),
    }
    words: list[int] = []
    for name, at in WORDS.items():
        assert len(words) == at
        words += head[name]
    first_symbol, scalars = len(words), []
    words += (*dims[:tid_dims], 1, 1, 1, 1)[:4]
    cores = [array.shape[sum(axes) :] for array, axes in zip(arrays, batched, strict=True)]
    for param, core in zip(params, cores, strict=True):
        if isinstance(param.type, ArrayType):
            words += core
        elif param.type.is_int and param.type is not uint64:
            scalars.append(len(words) - first_symbol)
            words.append(NOTHING)
    if condition is not None:
        for scalar, word in limits_of(condition, words[first_symbol:], scalars).items():
            words[first_symbol + scalar] = word
    words += [array.ctypes.data for array in arrays]
    strides = np.zeros((BATCH_AXES, len(params)), np.int64)
    for p, (array, core, axes) in enumerate(zip(arrays, cores, batched, strict=True)):
        step = math.prod(core) * array.itemsize
        for k in reversed(range(len(batch))):
            if axes[k]:
                strides[BATCH_AXES - len(batch) + k, p] = step
                step *= batch[k]
    # Kernels take a copy of a struct, which may be longer than what is used of it.
    return np.array([*words, *strides.ravel(), 0], np.int64)


class HostCompiled:
    """A kernel generated for CUDA and compiled for the processor, with the interface of the interpreter."""

    def __init__(self, kernel: Kernel, version: str = "either", settings: Settings | None = None, block: int = 64):
        self.made = CudaKernel(kernel, settings or Settings(cache_dir=""))
        self.kernel, self.block = kernel, kernel.block_dim or block
        self.text = self.made.unit(read_version(version), self.block).text
        (self.host,) = compile_host([self.text])

    def run(
        self, dims: tuple[int, ...], args: Sequence[Any], order: int = FORWARD, blocks: int | None = None
    ) -> list[np.ndarray]:
        """The array parameters after a launch, as `interpreter.run` gives them."""
        failures, shared = self.made.failures, self.made.needs.shared
        return run_host(
            self.host, self.kernel, dims, args, order, self.block, blocks, failures, shared, self.made.condition
        )


def run_host(
    host: HostKernel,
    kernel: Kernel,
    dims: tuple[int, ...],
    args: Sequence[Any],
    order: int = FORWARD,
    block: int = 64,
    blocks: int | None = None,
    failures: Sequence[str] = (),
    shared: int = 0,
    condition: Condition | None = None,
) -> list[np.ndarray]:
    """The array parameters after a launch of a kernel that is compiled; one with tiles has a block for each thread."""
    arrays = [guarded(np.asarray(a, p.dtype.dtype)) for p, a in zip(kernel.params, args, strict=True)]
    failure = np.full(1, 2**64 - 1, np.uint64)
    words = pack(kernel.params, arrays, dims, tid_dims=kernel.tid_dims, failure=failure, condition=condition)
    grid = blocks or max(1, -(-int(words[0]) // (1 if kernel.block_dim else block)))
    host.run(words, (min(grid, 64),), (kernel.block_dim or block,), shared, order=order)
    if failure[0] != 2**64 - 1:
        thread, site = divmod(int(failure[0]), 1 << SITE_BITS)
        raise RuntimeError(f"thread {thread}: {failures[site - 1]}")
    for array, given, p in zip(arrays, args, itertools.count(), strict=False):
        check_guards(array)
        if p not in written_params(kernel):
            assert array.tobytes() == np.asarray(given, array.dtype).tobytes(), "an input has changed"
    return [array for array, param in zip(arrays, kernel.params, strict=True) if param.is_array]
