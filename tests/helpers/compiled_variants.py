"""Compiles a kernel for a chosen vector width and runs it here, on memory with guards around it."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from fuzz_profiles import ALL
from guard_bytes import GUARD_BYTE, check_guards, guarded
from launch_format import IN_OUT, INPUT, ZEROS, make_launch

from jwarp import _native
from jwarp.backend.cpu.code import Options
from jwarp.backend.cpu.entry import Generated
from jwarp.backend.cpu.linker import new_linker
from jwarp.backend.cpu.runtime_library import LibraryFunction, object_of
from jwarp.backend.cpu.target import Target, host_target, target_machine
from jwarp.compiler.cpu import CpuKernel, optimized_code
from jwarp.config import Settings
from jwarp.ir.nodes import Kernel, written_params

_HOST = host_target()

_serial = itertools.count()


def _target(cpu: str, features: str, width: int, masks: bool, fma: bool) -> Target:
    return Target(_HOST.triple, cpu, features, width, masks, fma, half=cpu != "x86-64", level=_HOST.level)


def _variants() -> dict[str, Target]:
    """The host at several widths and in both styles of masking, and older processors of its family."""
    found = {
        f"{width}{'' if masks else ' peeled'}": _target(_HOST.cpu, _HOST.features, width, masks, _HOST.fma)
        for width, masks in [(1, True), (4, True), (8, False), (16, True), (16, False)]
    }
    if _HOST.triple.startswith("x86_64"):
        found["sse"] = _target("x86-64", "", 4, False, False)
        if "+avx2" in _HOST.features:
            found["avx2"] = _target("haswell", "", 8, False, True)
    return found


TARGETS = _variants()
VERSIONS = ("launcher", "checked", "fast")


@dataclass(frozen=True)
class Variant:
    """A way to compile a kernel.

    Version `launcher` has both versions of the code and leaves the choice to the launcher; `fast` is
    for launches that certainly stay inside their arrays.
    """

    target: str
    version: str = "launcher"
    contract: bool = False

    def __str__(self) -> str:
        return f"{self.target}, {self.version}"


# The short profile has each target in one version, and the widest in both. A launcher has the checked code, too.
_CHECKED = ("4", "8 peeled", "16 peeled", "avx2")
VARIANTS = tuple(
    Variant(target, version)
    for target in TARGETS
    for version in VERSIONS[:2]
    if ALL or target == "16" or (version == "checked") == (target in _CHECKED)
)


class Compiled:
    """A kernel compiled in one way. The code goes away with the object, some later."""

    def __init__(self, kernel: Kernel | CpuKernel, variant: Variant):
        self.made = kernel if isinstance(kernel, CpuKernel) else _prepared(kernel)
        self.kernel = self.made.kernel
        self.fingerprint = f"test{next(_serial):028x}"
        options = Options(TARGETS[variant.target], variant.contract)
        versions = ("fast", "checked") if variant.version == "launcher" else (variant.version,)
        self.linked = [self._link(version, options) for version in versions]
        entries = [library[self.made.entry] for library, _ in self.linked]
        _native.register_kernel(self.fingerprint, self.made.plan, entries[0], entries[-1], self.made.failures)

    def _link(self, version: str, options: Options) -> tuple[Any, Any]:
        known = _generated.setdefault(self.made, {})
        generated = known.get((version, options))
        if generated is None:
            generated = known[version, options] = self.made.generate(version, options)
        return _linked(generated.text, generated.library, generated.inlined, options, self.made.entry)

    def run(
        self, dims: tuple[int, ...], args: Sequence[Any], threads: int = 1, zeros: Sequence[int] = ()
    ) -> list[np.ndarray]:
        """The array parameters after a launch, as `interpreter.run` gives them.

        `zeros` are parameters that the launcher is to set to zero; the others get their content from `args`.
        """
        written = written_params(self.kernel)
        given = [guarded(np.asarray(a, p.dtype.dtype)) for p, a in zip(self.kernel.params, args, strict=True)]
        results = [guarded(given[p]) for p in written]
        operands = [p for p in range(len(given)) if p not in zeros or p not in written]
        for p in {*zeros} & {*written}:
            results[written.index(p)].view(np.uint8)[...] = GUARD_BYTE
        launch = whole_launch(self.kernel, dims, zeros)
        _native.set_thread_limit(0, eager=threads > 1)
        _native.run_launch(self.fingerprint, launch, [*(given[p] for p in operands), *results], threads)
        _native.set_thread_limit(0)
        for array in [*given, *results]:
            check_guards(array)
        for p, value in enumerate(given):
            assert value.tobytes() == np.asarray(args[p], value.dtype).tobytes(), "an input has changed"
        final = {p: results[k] for k, p in enumerate(written)}
        return [final.get(p, given[p]) for p, param in enumerate(self.kernel.params) if param.is_array]


def whole_launch(kernel: Kernel, dims: Sequence[int], zeros: Sequence[int] = ()) -> np.ndarray:
    """A launch of a kernel without batch axes: its parameters are the operands, those that it writes the results too.

    `zeros` are outputs that are no operands and start as zeros. Dims beyond those of `tid()` repeat the launch.
    """
    written = written_params(kernel)
    operands = [p for p in range(len(kernel.params)) if p not in zeros or p not in written]
    bindings = []
    for p in range(len(kernel.params)):
        role = (ZEROS if p in zeros else IN_OUT) if p in written else INPUT
        operand = operands.index(p) if p in operands else -1
        bindings.append((operand, written.index(p) if p in written else -1, role, 0))
    read, rest = dims[: kernel.tid_dims], dims[kernel.tid_dims :]
    return make_launch((*read,), bindings, repeat=int(np.prod(rest, dtype=np.int64)))


_recent: dict[int, tuple[Kernel, CpuKernel]] = {}  # by id, which stays that of a kernel as long as it is here


def _prepared(kernel: Kernel) -> CpuKernel:
    """The kernel prepared for this processor; that of before where it was among the last ones."""
    if id(kernel) not in _recent:
        if len(_recent) >= 32:
            del _recent[next(iter(_recent))]
        _recent[id(kernel)] = kernel, CpuKernel(kernel, Settings(cache_dir=""))
    return _recent[id(kernel)][1]


# What was generated from a kernel, as long as that is there: tests compile it again for each of their inputs.
_generated: weakref.WeakKeyDictionary[CpuKernel, dict[tuple[str, Options], Generated]] = weakref.WeakKeyDictionary()


@functools.lru_cache(maxsize=64)
def _linked(
    text: str, library: tuple[LibraryFunction, ...], inlined: tuple[Any, ...], options: Options, name: str
) -> tuple[Any, Any]:
    """The library of a text, in which `name` has an address, and its linker.

    Some are kept, as two variants of a kernel have a version in common.
    """
    generated = Generated(text, {}, frozenset(), library, inlined)
    code = target_machine(options.target).emit_object(optimized_code(generated, options))
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(name)
    for function in library:
        builder.import_symbol(function.symbol, _library_function(function, options.target))
    linker = new_linker()
    return builder.link(linker, name), linker


@functools.cache
def _library_function(function: LibraryFunction, target: Target) -> int:
    """The address of the code of a function of the runtime."""
    builder = llvm.JITLibraryBuilder().add_object_img(object_of(function, target)).add_current_process()
    library = builder.export_symbol(function.symbol).link(_library_linker(), f"library{next(_serial)}")
    _libraries.append(library)
    return library[function.symbol]


_libraries: list[Any] = []


@functools.cache
def _library_linker() -> Any:
    return new_linker()
