"""The text of `python -m jwarp`: versions, devices, processor, compilers, and the cache of compiled kernels."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator

import jax

import jwarp._native as _native
from jwarp import caches
from jwarp.backend.cpu.target import host_target, llvm_version
from jwarp.backend.cuda import nvrtc
from jwarp.config import Settings, config
from jwarp.store import Store

PACKAGES = ("jwarp", "jax", "jaxlib", "numpy", "llvmlite", "ml_dtypes", "scipy")
# Optional packages, and the use of each.
OPTIONAL = {"flatbuffers": "jax.export needs it to write files"}
# Variables of the environment that change what runs, by how they begin.
VARIABLES = ("JWARP_", "JAX_", "XLA_", "CUDA_VISIBLE_DEVICES", "NPROC")
# The widest instruction sets of the processor that make a difference, of which the first is shown.
INSTRUCTION_SETS = ("avx512f", "avx2", "sve", "neon", "sse2")


def report() -> str:
    """The report of `python -m jwarp`, a section for each topic. Starts JAX's backends."""
    sections = {
        "Versions": _versions,
        "Settings": _settings,
        "Devices": _devices,
        "Processor": _processor,
        "Compilers": _compilers,
        "Cache": _cache,
    }
    return "\n\n".join("\n".join([title, *(f"  {line}" for line in lines())]) for title, lines in sections.items())


def report_of_caches() -> str:
    """The report of `python -m jwarp caches`: the caches in memory, and how much each keeps."""
    return "\n".join(_kept())


def _versions() -> Iterator[str]:
    yield f"{'system':<12}{platform.platform()}"
    yield f"{'Python':<12}{platform.python_version()}, {sys.executable}"
    for name in PACKAGES:
        yield f"{name:<12}{importlib.metadata.version(name)}"
    for name, use in OPTIONAL.items():
        if importlib.util.find_spec(name) is None:
            yield f"{name:<12}missing ({use}): pip install {name}"
        else:
            yield f"{name:<12}{importlib.metadata.version(name)}"
    yield f"{'XLA FFI':<12}{'.'.join(map(str, _native.ffi_api_version()))} (of the headers that jwarp was built with)"


def _settings() -> Iterator[str]:
    """The settings that differ from their defaults, and the environment variables that are set."""
    usual = Settings(cache_dir=config.cache_dir)
    for field in dataclasses.fields(usual):
        value = getattr(config, field.name)
        if value != getattr(usual, field.name):
            yield f"{field.name:<12}{value}"
    yield f"{'64 bits':<12}{'on' if jax.config.jax_enable_x64 else 'off'} (jax_enable_x64)"  # type: ignore[attr-defined]
    for name, value in sorted(os.environ.items()):
        if name.startswith(VARIABLES):
            yield f"{name}={value}"


def _devices() -> Iterator[str]:
    try:
        devices = jax.devices()
    # A plugin may fail in its own ways, and the rest of the report is then needed most.
    except Exception as error:
        yield f"JAX finds none: {error}"
        return
    for device in devices:
        runs = "jwarp runs here" if device.platform in ("cpu", "gpu") else "jwarp does not run here"
        capability = getattr(device, "compute_capability", None)
        architecture = f", sm_{str(capability).replace('.', '')}" if capability else ""
        yield f"{device.platform}:{device.id}  {device.device_kind}{architecture}  ({runs})"


def _processor() -> Iterator[str]:
    target = host_target()
    features = set(target.features.replace("+", "").split(","))
    widest = next((name for name in INSTRUCTION_SETS if name in features), "baseline")
    yield f"{'model':<12}{target.cpu} ({target.triple})"
    yield f"{'vectors':<12}{widest}, {target.width} threads of a kernel side by side"
    yield f"{'cores':<12}{_available_cores()} available to this process, of {os.cpu_count()}"


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _compilers() -> Iterator[str]:
    yield f"{'CPU':<12}LLVM {llvm_version()}, in llvmlite"
    lacking = nvrtc.missing()
    if lacking is not None:
        yield f"{'CUDA':<12}missing ({lacking}): {nvrtc.INSTALL}"
        return
    made_for = config.cuda_arch or "the GPUs at hand, or without any " + ", ".join(nvrtc.DEFAULT_ARCHITECTURES)
    yield f"{'CUDA':<12}{nvrtc.toolchain()}, makes code for {made_for}"
    if nvrtc.disassembler() is None:
        yield f"{'nvdisasm':<12}missing (wp.inspect shows machine code by it): pip install nvidia-cuda-nvdisasm"


def _cache() -> Iterator[str]:
    folder = config.cache_dir
    if not folder:
        yield "none: no files are kept (JWARP_CACHE_DIR names a folder)"
        return
    store = Store(folder)
    entries, size = store.usage()
    yield f"{'folder':<12}{store.root}"
    yield f"{'owner':<12}{store.owner()}"
    yield f"{'entries':<12}{entries}, {size / 2**20:.1f} MiB of at most {store.capacity / 2**20:.0f}"
    if store.is_writable():
        yield f"{'writable':<12}yes"
    else:
        yield f"{'writable':<12}no: each process compiles its own kernels; JWARP_CACHE_DIR names another folder"


def _kept() -> Iterator[str]:
    """The caches that forget what was not used for long."""
    for usage in caches.report():
        if isinstance(usage.bound, int):
            yield f"{f'at most {usage.bound}':<14}{usage.name}"
