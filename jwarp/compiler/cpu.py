"""Compiles kernels for the host's processor and hands them to the native runtime."""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from typing import Any

import jwarp._native as _native
from jwarp import forks
from jwarp.analysis.thread_order import keeps_order
from jwarp.backend.cpu.access.shared_functions import emit
from jwarp.backend.cpu.code import Options
from jwarp.backend.cpu.entry import Generated, generate
from jwarp.backend.cpu.linker import link
from jwarp.backend.cpu.optimize import optimized_module
from jwarp.backend.cpu.runtime_library import LibraryFunction, addresses, from_line, to_line
from jwarp.backend.cpu.target import host_target, machine_code
from jwarp.backend.events import CompileEvent, announce
from jwarp.backend.generator import identity
from jwarp.caches import MAX_KERNELS, Cache
from jwarp.collector import no_collection
from jwarp.compiler import pipeline
from jwarp.compiler.analysed import PROGRAM_FORMATS, VERSIONS, AnalysedKernel, fingerprint_of
from jwarp.config import CODE_SETTINGS, Settings, config
from jwarp.ir.nodes import Kernel, Order, failure_texts, rounds_as_written
from jwarp.ir.serialize import read
from jwarp.passes.native_code import refuse_native_code
from jwarp.store import key_of
from jwarp.types.arrays import Extents

LOCAL_PASSES = ("sroa",)
UNROLLING_PASSES = ("loop_rotate", "loop_unroll")
# From here on, LLVM gives up early what takes long, at no cost that was seen.
LONG_TEXT = 1 << 17


class CpuKernel(AnalysedKernel):
    """A kernel for the processor of this process. Its versions stay in memory once they are compiled."""

    generator = "cpu"
    passes = pipeline.CPU

    def __init__(self, kernel: Kernel, settings: Settings, *, claimed: str = ""):
        super().__init__(kernel, settings, claimed=claimed)
        self._lock = _compiling.made(self.fingerprint, forks.Lock)

    def require(self, dims: tuple[int, ...], extents: Extents) -> dict[str, CompileEvent]:
        """Compile what this launch needs, unless that has been done; each version, and how it was made."""
        return {version: self.compile(version) for version in self.needed(self.symbol_values(dims, extents))}

    def compile(self, version: str) -> CompileEvent:
        """Compile one version and register it, unless the process has it; how that went the first time."""
        start, key = time.perf_counter(), (self.fingerprint, version)
        with self._lock:
            known = dict(zip(VERSIONS, _native.known_versions(self.fingerprint), strict=True))
            if not known[version]:
                content, source = self.object_code(version)
                line, _, code = content.partition(b"\n")
                units = from_line(line)
                address = link(code, self.entry, addresses(units, self.kernel.name, self._store))
                fast, checked = (address if v == version else 0 for v in VERSIONS)
                _native.register_kernel(self.fingerprint, self.plan.tobytes(), fast, checked, self.failures)
                seconds = time.perf_counter() - start
                event = CompileEvent(self.kernel.name, self.kernel.variant, "cpu", seconds, source, len(code))
                made = _made.keep(key, _Made(event, units))
            else:  # says of them, too, that they are there
                made = _made[key]
                addresses(made.library, self.kernel.name, self._store)
        first = dataclasses.replace(made.event, kernel=self.kernel.name)
        again = dataclasses.replace(first, seconds=time.perf_counter() - start, source="memory")
        announce(again if known[version] else first)
        return first

    @no_collection()
    def object_code(self, version: str) -> tuple[bytes, str]:
        """The object code of one version after a line with the units that it calls, and where it came from."""
        # The code trusts what launches check, so it belongs to one summary.
        parts = ("code", identity() or "", self.fingerprint, version, repr(self.bounds), repr(self.options))
        key = key_of(*parts, self.summary.to_bytes())
        content = self._store.load(key)
        if content is not None:
            return content, "disk"
        made = self.generate(version, self.options)
        module, is_long = optimized_code(made, self.options), len(made.text) > LONG_TEXT
        content = to_line(made.library) + machine_code(module, self.options.target, is_long=is_long)
        self._store.save(key, content)
        return content, "compiled"

    def text(self, version: str = "fast", options: Options | None = None) -> str:
        """The LLVM assembly of one version, before LLVM's own passes."""
        return self.generate(version, options or self.options).text

    def generate(self, version: str, options: Options) -> Generated:
        """The code of one version, and how it makes its accesses."""
        refuse_native_code(self.proofs.kernel)
        checked = version == "checked"
        name, failures = self.entry, failure_texts(self.kernel)
        return generate(self.proofs, name, options, checked=checked, bounds=self.bounds, failures=failures)

    def module(self, version: str = "fast", options: Options | None = None) -> Any:
        """The verified and optimised LLVM module of one version."""
        options = options or self.options
        return optimized_code(self.generate(version, options), options)

    @functools.cached_property
    def ordered(self) -> bool:
        """True if the threads of a batch element run one after the other; also those that may wait for others."""
        return bool(self.kernel.order) or self.summary.waits

    @functools.cached_property
    def options(self) -> Options:
        """The options of code for this processor: vectors of one thread where more would mix up their order."""
        exact, kernel = rounds_as_written(self.kernel), self.kernel
        in_step = not self.summary.waits and (kernel.order != Order.NUMBERS or keeps_order(kernel))
        in_step = (in_step and kernel.order != Order.APART) or kernel.block_dim > 0
        target = host_target() if in_step else host_target(1)
        return Options(target, contract=not exact, fast_math=self.settings.fast_math and not exact)


def optimized_code(made: Generated, options: Options) -> Any:
    """The verified and optimised LLVM module of what was generated."""
    # Elements of local arrays with constant indices become values.
    passes: tuple[str, ...] = LOCAL_PASSES if " = alloca " in made.text else ()
    if options.fast_math:  # where sums may be made in any order, a few iterations at once are worth three percent
        passes += UNROLLING_PASSES
    inlined = [emit(load, options.target, is_near=True) for load in made.inlined]
    return optimized_module(made.text, options.target, passes, inlined)


# The native module keeps compiled code for the life of the process, as executables of XLA may still run it.
_FOR_LIFE = "kernels compiled in this process"


@dataclasses.dataclass(frozen=True)
class _Made:
    """The compilation of a version, and the runtime library functions that it calls."""

    event: CompileEvent
    library: tuple[LibraryFunction, ...]


_made: Cache[tuple[str, str], _Made] = Cache("compiled versions", _FOR_LIFE)  # by fingerprint and version
# By fingerprint: kernels of the same content are compiled once.
_compiling: Cache[str, forks.Lock] = Cache("locks of kernels", _FOR_LIFE)


# By content, for custom calls that come from a cache or a file; and by object, which is quicker to find
# and keeps the source positions of kernels of the same content apart.
_by_content: Cache[str, CpuKernel] = Cache("kernels for the processor, by content", _FOR_LIFE)
_by_object: Cache[tuple, CpuKernel] = Cache("kernels for the processor, by object", MAX_KERNELS)


@no_collection()
def lower_kernel(kernel: Kernel, settings: Settings) -> CpuKernel:
    """The kernel prepared for this processor; the same object for the same kernel and settings."""
    key = (kernel, settings.cache_dir, *(getattr(settings, name) for name in CODE_SETTINGS))
    known = _by_object.get(key)
    if known is not None:
        return known
    made = CpuKernel(kernel, settings)
    _by_content.keep(made.fingerprint, made)
    return _by_object.keep(key, made)


def compile_program(fingerprint: str, program: bytes, version: str) -> None:
    """Compile a kernel that came with a custom call; called by the native runtime.

    Raises:
        ValueError: the program is damaged, or made by another version of jwarp.
    """
    known = _by_content.get(fingerprint)
    if known is None:
        known = _by_content.keep(fingerprint, _read_program(program, fingerprint))
    known.compile(version)


def _read_program(program: bytes, claimed: str) -> CpuKernel:
    """The kernel of a program that this or an earlier version wrote, whose fingerprint has to be the claimed one."""
    header, newline, content = program.partition(b"\n")
    try:
        fields = json.loads(header)
        if not newline or set(fields) != {"format", *PROGRAM_FORMATS[fields["format"]]}:
            raise ValueError
        del fields["format"]
        settings = config.with_values(**{name: getattr(Settings(), name) for name in CODE_SETTINGS} | fields)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise ValueError("jwarp: the program of a launch is damaged, or of another version") from None
    kernel, written = read(content)
    if claimed != fingerprint_of(header, written):
        raise ValueError("jwarp: the program of a launch does not have the fingerprint that it claims")
    # Who lowers a launch may waive the checks of their own process, not those of one that loads it.
    return CpuKernel(kernel, settings, claimed=claimed)
