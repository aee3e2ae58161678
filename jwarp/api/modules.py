"""Modules as Warp programs name them: here each kernel is compiled by itself when it is first launched."""

from __future__ import annotations

import sys
import types
from typing import Any

from jwarp.api.report import report
from jwarp.config import config, surface
from jwarp.devices import DeviceLike, get_device
from jwarp.errors import JwarpError, LaunchError
from jwarp.frontend.func import Func
from jwarp.frontend.kernel_base import Kernel
from jwarp.frontend.modules import Module, get_module, known_modules
from jwarp.ir.verify import MAX_BLOCK_DIM
from jwarp.store import Store
from jwarp.types import StructType

__all__ = ["Module", "get_module"]


def load_module(
    module: Module | types.ModuleType | str | None = None,
    device: Any = None,
    recursive: bool = False,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Has no effect: each kernel is compiled when it is first launched. In programs, the kernels of a module are read.

    Args:
        module: A module, or its name. Default: that of the caller.
        device: A device, or several. Default: the current one.
        recursive: Whether modules inside of it count, too.
        block_dim: The number of threads in a block.
        max_workers: Has no effect.

    Raises:
        LaunchError: There is no such device, or no such module with kernels.
        CompileError, KernelTypeError: In programs, a kernel is not written in the kernel language.
    """
    _check_devices(device)
    if surface.is_warps:
        own = sys._getframe(1).f_globals.get("__name__", "") if module is None else module
        _load(own, device, recursive=recursive, block_dim=block_dim)
    name = module if isinstance(module, str) else getattr(module, "__name__", "")
    if name and not isinstance(module, Module) and not _has_content(name):
        raise LaunchError(
            f"wp.load_module: module {name!r} does not contain any Warp kernels, functions, or structs, and names none"
        )


def _load(module: Any, device: Any, *, recursive: bool, block_dim: int | None) -> None:
    """Load the modules of kernels that something names."""
    name = module if isinstance(module, str) else getattr(module, "__name__", "")
    found = [module] if isinstance(module, Module) else []
    for known, each in known_modules().items() if name and not found else ():
        if known == name or (recursive and known and known.startswith(f"{name}.")):
            found.append(each)
    for each in found:
        for where in device if isinstance(device, (list, tuple)) else [device]:
            each.load(where, block_dim)


def _has_content(name: str) -> bool:
    """True if a module, or one inside of it, has kernels, or has imported what kernels are made of."""
    if name.partition(".")[0] in ("jwarp", "warp") or any(f"{k}.".startswith(f"{name}.") for k in known_modules()):
        return True
    found = vars(sys.modules.get(name, object)).values()
    return any(isinstance(x, (Kernel, Func, StructType)) for x in found) or any(
        getattr(x, "__name__", "") in ("jwarp", "warp") for x in found
    )


def force_load(
    device: Any = None,
    modules: list[Module] | None = None,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Has no effect: each kernel is compiled when it is first launched. In programs, kernels are read.

    Raises:
        LaunchError: There is no such device, or `block_dim` is invalid.
        CompileError, KernelTypeError: In programs, a kernel is not written in the kernel language: the first one, once
            all modules have been read.
    """
    _check_devices(device)
    if block_dim is not None and block_dim > MAX_BLOCK_DIM:
        raise LaunchError(f"wp.force_load: block_dim must be at most {MAX_BLOCK_DIM} on CPU and GPU, got {block_dim}")
    if surface.is_warps:
        faults: list[JwarpError] = []
        for module in _of_programs() if modules is None else modules:
            try:
                _load(module, device, recursive=False, block_dim=block_dim)
            except JwarpError as error:
                faults.append(error)
        if faults:
            raise faults[0]


def _of_programs() -> list[Module]:
    """The modules of kernels that are not jwarp's own."""
    return [module for name, module in known_modules().items() if name.partition(".")[0] != "jwarp"]


def _check_devices(devices: Any) -> None:
    for device in devices if isinstance(devices, (list, tuple)) else [devices]:
        get_device(device)


def clear_kernel_cache() -> None:
    """Remove the compiled kernels on disk. Those of this process remain."""
    Store(config.cache_dir).clear()


def clear_lto_cache() -> None:
    """Has no effect: jwarp links no libraries at run time."""


def get_suggested_block_size(kernel: Any, device: DeviceLike = None) -> tuple[int, int]:
    """The recommended number of threads in a block, and of blocks; (1, 1) on the host, as in Warp."""
    get_device(device)
    return (1, 1)


def print_diagnostics() -> dict[str, str]:
    """Print what is installed, as `python -m jwarp` does, and return it as {topic: text}."""
    text = report()
    print(text)
    topics = (part.partition("\n") for part in text.split("\n\n"))
    return {topic: lines for topic, _, lines in topics}


def init() -> None:
    """Has no effect: jwarp is ready after its import."""
