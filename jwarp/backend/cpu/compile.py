"""Compiles kernels for the host's processor and hands them to the native runtime."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import threading
import time

import llvmlite.binding as llvm
import numpy as np

import jwarp._native as _native
from jwarp.backend.cpu.code import Options
from jwarp.backend.cpu.entry import module_text
from jwarp.backend.cpu.expansions import expansion
from jwarp.backend.cpu.target import host_target, target_machine
from jwarp.backend.events import CompileEvent, announce
from jwarp.config import Settings
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Kernel
from jwarp.ir.serialize import fingerprint, from_bytes, to_bytes
from jwarp.transform.affine import ALWAYS, Affine, Condition, Symbol, evaluate
from jwarp.transform.expand import expand
from jwarp.transform.hoist import hoist
from jwarp.transform.ranges import Access, Proofs, prove
from jwarp.transform.simplify import simplify
from jwarp.types import ArrayType, int32

PROGRAM_FORMAT = 1
# Settings that change the code; the others do not belong to a compiled kernel.
CODE_SETTINGS = ("bounds", "fast_math")
PASSES = ("instruction_combine", "new_gvn", "simplify_cfg", "dead_code_elimination")

Extents = tuple[tuple[int, ...] | None, ...]

# FFI dtype codes of XLA, for what the runtime checks buffers against.
XLA_DTYPES = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8,
    "uint64": 9, "float16": 10, "float32": 11, "float64": 12, "bfloat16": 16,
}  # fmt: skip


def optimized(kernel: Kernel) -> Kernel:
    """The kernel as code is generated from it."""
    kernel = simplify(kernel)
    kernel = expand(kernel, expansion)
    return hoist(simplify(kernel, flatten_branches=True))


class CpuKernel:
    """A kernel ready to be compiled: analysed, and described to the native runtime.

    Two versions may exist: `fast` trusts what is proved under a condition on the launch, `checked`
    tests every access that is not proved without one. Each is compiled when a launch needs it.
    """

    def __init__(self, kernel: Kernel, settings: Settings):
        self.kernel = kernel
        self.settings = settings
        options = {name: getattr(settings, name) for name in CODE_SETTINGS}
        header = json.dumps({"format": PROGRAM_FORMAT, **options}).encode()
        self.program = header + b"\n" + to_bytes(kernel)
        self.fingerprint = hashlib.sha256(header + fingerprint(kernel).encode()).hexdigest()[:32]
        self.bounds = settings.bounds != "unchecked"
        self._lock = threading.Lock()

    @functools.cached_property
    def proofs(self) -> Proofs:
        return prove(optimized(self.kernel))

    @functools.cached_property
    def plan(self) -> np.ndarray:
        """What the native runtime has to know, as int64 numbers."""
        numbers = [1, self.kernel.tid_dims, len(self.kernel.params)]
        for param, cover in zip(self.kernel.params, self.proofs.covers, strict=True):
            is_array = isinstance(param.type, ArrayType)
            scalar = param.type.dtype if isinstance(param.type, ArrayType) else param.type
            rank = param.type.ndim if isinstance(param.type, ArrayType) else 0
            numbers += [int(is_array), rank, XLA_DTYPES[scalar.name], cover]
        clauses = [sorted(map(_encode, clause)) for clause in self.condition]
        numbers.append(len(clauses))
        for clause in sorted(clauses):
            numbers += [len(clause), *itertools.chain.from_iterable(clause)]
        return np.array(numbers, np.int64)

    @property
    def condition(self) -> Condition:
        """What a launch must fulfil for the fast version."""
        return self.proofs.condition if self.bounds else ALWAYS

    def symbols(self, dims: tuple[int, ...], extents: Extents) -> dict[int, int | None]:
        """The values of the launch symbols; scalar arguments are known only when the kernel runs."""
        known: dict[int, int | None] = dict(enumerate(dims))
        for (p, axis), symbol in self.proofs.symbols.extents.items():
            shape = extents[p]
            assert shape is not None
            known[symbol.index] = shape[axis]
        return known

    def check(self, dims: tuple[int, ...], extents: Extents) -> None:
        """Refuse a launch that is certain to leave an array.

        Raises:
            LaunchError: naming the array, the extent, and the index that some thread would use.
        """
        if not self.bounds or 0 in dims:
            return
        known = self.symbols(dims, extents)
        for access in self.proofs.always:
            self._check_access(access, dims, known)

    def _check_access(self, access: Access, dims: tuple[int, ...], known: dict[int, int | None]) -> None:
        for axis, form in enumerate(access.indices):
            reach = None if form is None else self._reach(form, dims, known)
            extent = known[self.proofs.symbols.extents[access.param, axis].index]
            assert extent is not None
            if reach is None or not int32.min <= reach[0] <= reach[1] <= int32.max:
                continue
            outside = reach[1] if reach[1] >= extent else reach[0] if reach[0] < -extent else None
            if outside is not None:
                name = self.kernel.params[access.param].name
                raise LaunchError(
                    f"kernel `{self.kernel.name}`: index {outside} is outside axis {axis} of `{name}`, "
                    f"whose extent is {extent}, in a launch over {dims[: self.kernel.tid_dims]}",
                    access.span,
                    "launch fewer threads, or guard the access with an `if`",
                )

    def _reach(self, form: Affine, dims: tuple[int, ...], known: dict) -> tuple[int, int] | None:
        """Least and greatest value of `form` over all threads, if that is known."""
        low = high = form.constant
        for atom, c in form.terms:
            if isinstance(atom, Symbol):
                value = known.get(atom.index)
                if value is None:
                    return None
                low, high = low + c * value, high + c * value
            else:
                last = c * (dims[self.proofs.axis_of(atom)] - 1)
                low, high = low + min(0, last), high + max(0, last)
        return low, high

    def require(self, dims: tuple[int, ...], extents: Extents) -> None:
        """Compile what this launch needs, unless that has been done."""
        holds = evaluate(self.condition, self.symbols(dims, extents))
        versions = {True: ("fast",), False: ("checked",), None: ("fast", "checked")}[holds]
        for version in versions:
            self.compile(version)

    def compile(self, version: str) -> None:
        """Compile one version and register it."""
        with self._lock:
            if dict(zip(("fast", "checked"), _native.known_versions(self.fingerprint), strict=True))[version]:
                return
            start = time.perf_counter()
            module = self.module(version)
            code = target_machine(host_target()).emit_object(module)
            name = entry_name(self.kernel)
            address = _link(code, name)
            addresses = {version: address}
            plan = self.plan
            _native.register_kernel(
                self.fingerprint, plan.tobytes(), addresses.get("fast", 0), addresses.get("checked", 0)
            )
        announce(
            CompileEvent(self.kernel.name, "forward", "cpu", time.perf_counter() - start, "compiled", len(code))
        )

    def text(self, version: str = "fast", options: Options | None = None) -> str:
        """The LLVM assembly of one version, before LLVM's own passes."""
        options = options or self.options
        name = entry_name(self.kernel)
        checked = version == "checked"
        return module_text(self.proofs.kernel, self.proofs, name, options, checked, self.bounds)

    def module(self, version: str = "fast", options: Options | None = None) -> llvm.ModuleRef:
        """The verified and optimised LLVM module of one version."""
        options = options or self.options
        machine = target_machine(options.target)
        module = llvm.parse_assembly(self.text(version, options))
        module.triple, module.data_layout = options.target.triple, str(machine.target_data)
        module.verify()
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(1))
        passes = llvm.create_new_module_pass_manager()
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        passes.run(module, builder)
        return module

    @property
    def options(self) -> Options:
        """What code for this processor is generated with."""
        return Options(host_target(), fast_math=self.settings.fast_math)


def entry_name(kernel: Kernel) -> str:
    """The symbol of a kernel's entry; ASCII whatever the kernel is called."""
    safe = "".join(c if c.isascii() and c.isalnum() else "_" for c in kernel.name)
    return f"jwarp_{safe}"


def _encode(form: Affine) -> list[int]:
    """One alternative of a clause for the native runtime: terms, then the constant."""
    terms = sorted((symbol.index, c) for symbol, c in form.terms)  # type: ignore[attr-defined]
    return [len(terms), *itertools.chain.from_iterable(terms), form.constant]


_linker: llvm.LLJIT | None = None
_libraries: list = []  # what is linked here stays: XLA may call it as long as the process lives
_names = itertools.count()
_link_lock = threading.Lock()


def _link(code: bytes, name: str) -> int:
    """Load object code into the process; the address of `name`."""
    global _linker
    with _link_lock:
        if _linker is None:
            _linker = llvm.create_lljit_compiler(target_machine(host_target()))
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(name)
        tracker = library.link(_linker, f"jwarp.{next(_names)}")
        _libraries.append(tracker)
        return tracker[name]


# By content, for custom calls that come from a cache or a file; and by object, which is quicker to find
# and keeps the source positions of kernels of the same content apart. Both keep their kernels: compiled
# code stays for the life of the process.
_by_content: dict[str, CpuKernel] = {}
_by_object: dict[tuple, CpuKernel] = {}
_kernels_lock = threading.Lock()


def lower_kernel(kernel: Kernel, settings: Settings) -> CpuKernel:
    """The kernel prepared for this processor; the same object for the same kernel and settings.

    Raises:
        LaunchError: the settings ask for what this backend does not have.
    """
    key = (id(kernel), *(getattr(settings, name) for name in CODE_SETTINGS))
    known = _by_object.get(key)
    if known is not None and not settings.debug:
        return known
    if settings.debug or settings.bounds == "error":
        asked = "debug" if settings.debug else "bounds = 'error'"
        raise LaunchError(f"wp.config.{asked} is not available yet", hint="use bounds 'safe' or 'unchecked'")
    made = CpuKernel(kernel, settings)
    with _kernels_lock:
        _by_content.setdefault(made.fingerprint, made)
        return _by_object.setdefault(key, made)


def compile_program(fingerprint: str, program: bytes, version: str) -> None:
    """Compile a kernel that came with a custom call; called by the native runtime.

    Raises:
        ValueError: the program is damaged, or made by another version of jwarp.
    """
    known = _by_content.get(fingerprint)
    if known is None:
        known = _read_program(program)
        if known.fingerprint != fingerprint:
            raise ValueError("jwarp: the program of a launch does not have the fingerprint that it claims")
        with _kernels_lock:
            known = _by_content.setdefault(fingerprint, known)
    known.compile(version)


def _read_program(program: bytes) -> CpuKernel:
    header, newline, content = program.partition(b"\n")
    try:
        fields = json.loads(header)
        if not newline or fields.pop("format") != PROGRAM_FORMAT or set(fields) != set(CODE_SETTINGS):
            raise ValueError
        bounds, fast_math = fields["bounds"], fields["fast_math"]
        if bounds not in ("safe", "unchecked") or not isinstance(fast_math, bool):
            raise ValueError
    except (ValueError, AttributeError, KeyError):
        raise ValueError("jwarp: the program of a launch is damaged, or of another version") from None
    return CpuKernel(from_bytes(content), dataclasses.replace(Settings(), bounds=bounds, fast_math=fast_math))


