"""The host processor: its features, the vector width to use, and LLVM's machine for it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from jwarp import forks
from jwarp.caches import cached


@dataclass(frozen=True)
class Target:
    """The processor that code is generated for.

    `width` is the number of threads that are the lanes of one vector. `masks` says that masked
    loads and stores are there, so that not every kernel needs a copy of the code for the last, partial vector of a row.
    """

    triple: str
    cpu: str
    features: str
    width: int
    masks: bool
    fma: bool
    half: bool = True  # converts between float16 and float32
    past_caches: int = 0  # bytes of an array from which on stores to it had better be non-temporal; 0 for none
    # Converts vectors of floats that are no integers of a type to the nearest there are, and has minima in which
    # numbers win over NaN.
    is_arm: bool = False
    level: int = 2  # to which LLVM's code generator optimises


# Widest first: the feature, threads to a vector of 32-bit values.
_WIDTHS = (("avx512f", 16), ("avx2", 8))
_NARROWEST = 4
# Those that code can be made for.
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
LEVELS = ("0", "1", "2", "3")


@cached("one")
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cached("widths of vectors")
def host_target(width: int | None = None) -> Target:
    """The target of this process. `width`, or JWARP_CPU_WIDTH, overrides the number of threads to a vector.

    JWARP_CPU_LEVEL overrides the level of optimisation.
    """
    _initialize()
    level = os.environ.get("JWARP_CPU_LEVEL", "").strip() or "2"
    if level not in LEVELS:
        raise ValueError(f"JWARP_CPU_LEVEL, to which code is optimised, must be 0, 1, 2 or 3, not {level!r}")
    features = llvm.get_host_cpu_features()
    best = next((w for name, w in _WIDTHS if features.get(name)), _NARROWEST)
    given, name = (
        (os.environ.get("JWARP_CPU_WIDTH", "").strip() or best, "JWARP_CPU_WIDTH")
        if width is None
        else (width, "width")
    )
    if str(given).strip() not in map(str, WIDTHS):
        raise ValueError(f"{name}, the number of threads to a vector, must be a power of two up to 64, not {given!r}")
    asked = int(given)
    triple = llvm.get_process_triple()
    is_arm = triple.startswith(("aarch64", "arm64"))
    return Target(
        triple,
        llvm.get_host_cpu_name(),
        features.flatten() if asked > 1 else _without_masks(features),
        asked,
        masks=bool(features.get("avx512vl") and features.get("avx512bw")),
        fma=bool(features.get("fma") or is_arm),
        half=bool(features.get("f16c") or is_arm),
        past_caches=_largest_cache() if features.get("avx2") else 0,
        is_arm=is_arm,
        level=int(level),
    )


def _without_masks(features: Any) -> str:
    """The features but those with registers for masks, which take longer to test than a flag of one thread."""
    return llvm.FeatureMap({name: has and not name.startswith("avx512") for name, has in features.items()}).flatten()


def _largest_cache() -> int:
    """Bytes of the cache that is the last before memory; 0 if the system does not tell, as only Linux does."""
    sizes = [0]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            sizes.append(int(path.read_text().strip().removesuffix("K")) << 10)
    return max(sizes)


@cached("widths of vectors")
def target_machine(target: Target) -> llvm.TargetMachine:
    """LLVM's code generator for `target`.

    Position-independent code of the small model is what both linkers take without an assertion.
    """
    _initialize()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=target.level, reloc="pic", codemodel="small", jit=False
    )


def machine_code(module: llvm.ModuleRef, target: Target, *, is_long: bool = False) -> bytes:
    """The object code of an optimised module."""
    if is_long:  # the lowest level keeps each value in memory of its own, of which a stack may not have enough
        target = dataclasses.replace(target, level=max(target.level, 1))
    with _quick() if is_long else contextlib.nullcontext():
        return target_machine(target).emit_object(module)


# For long texts, what LLVM gives up early, as it takes time that grows faster than the text; and LLVM's own values.
# The second scheduler stays, though it may take a third of the time: by it a long kernel ran twice as fast.
_QUICK = {
    # The edges of a function that the register allocator goes along to find where a value is best kept in a register,
    # before it takes what is nearest: half of the whole time for a kernel of 50,000 instructions.
    "grow-region-complexity-budget": ("100", "10000"),
    # The accesses of a block of which the schedulers know which may be to the same memory.
    "dag-maps-huge-region": ("100", "1000"),
}

_emitting = 0
_settings = forks.Lock()


@contextlib.contextmanager
def _quick() -> Iterator[None]:
    """LLVM's settings are those of the process, which others may generate code in, too: they get theirs back."""
    global _emitting
    with _settings:
        _emitting += 1
        if _emitting == 1:
            _set(0)
    try:
        yield
    finally:
        with _settings:
            _emitting -= 1
            if _emitting == 0:
                _set(1)


def _set(which: int) -> None:
    for name, values in _QUICK.items():
        llvm.set_option("", f"-{name}={values[which]}")


def llvm_version() -> str:
    """The version of the LLVM that generates code."""
    return ".".join(map(str, llvm.llvm_version_info))
