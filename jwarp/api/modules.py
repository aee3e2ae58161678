"""Modules as Warp programs name them: here each kernel is compiled by itself when it is first launched."""

from __future__ import annotations

import types
from typing import Any

from jwarp.api.report import report
from jwarp.caches import Cache
from jwarp.config import config
from jwarp.devices import DeviceLike, get_device
from jwarp.frontend.options import get_module_options, set_module_options
from jwarp.store import Store


class Module:
    """The kernels of a Python module; made by `wp.get_module`. `options` are what `wp.set_module_options` sets."""

    def __init__(self, name: str, loader: Any = None) -> None:
        self.name = name
        self.loader = loader

    @property
    def options(self) -> dict[str, Any]:
        """A copy of the options that hold for the kernels of this module."""
        return get_module_options(self)

    def set_options(self, options: dict[str, Any]) -> None:
        """As `wp.set_module_options`."""
        set_module_options(options, self)

    def load(self, device: DeviceLike = None, block_dim: int | None = None, **others: Any) -> None:
        """Nothing: kernels are compiled when they are first launched."""
        get_device(device)

    def unload(self) -> None:
        """Nothing: code is dropped with the kernels."""

    def mark_modified(self) -> None:
        """Nothing: what changed is found by what kernels are made of."""

    def __repr__(self) -> str:
        return f"<jwarp module {self.name!r}>"


_modules: Cache[str, Module] = Cache("modules that programs asked for", 4096)


def get_module(name: str) -> Module:
    """The module of a name. Kernels of it need not exist yet."""
    return _modules.made(name, lambda: Module(name))


def load_module(
    module: Module | types.ModuleType | str | None = None,
    device: Any = None,
    recursive: bool = False,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Nothing: kernels are compiled when they are first launched, one by one.

    Raises:
        LaunchError: there is no such device.
    """
    _check_devices(device)


def force_load(
    device: Any = None,
    modules: list[Module] | None = None,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Nothing: kernels are compiled when they are first launched, one by one.

    Raises:
        LaunchError: there is no such device.
    """
    _check_devices(device)


def _check_devices(devices: Any) -> None:
    for device in devices if isinstance(devices, (list, tuple)) else [devices]:
        get_device(device)


def clear_kernel_cache() -> None:
    """Remove the compiled kernels that are kept in files; those of this process stay."""
    Store(config.cache_dir).clear()


def clear_lto_cache() -> None:
    """Nothing: jwarp links no libraries at run time, and keeps none in files."""


def get_suggested_block_size(kernel: Any, device: DeviceLike = None) -> tuple[int, int]:
    """The threads of a block and the blocks that a device runs best: (1, 1) on the host, as in Warp."""
    get_device(device)
    return (1, 1)


def print_diagnostics() -> dict[str, str]:
    """Print what is installed, as `python -m jwarp` does, and give it as {topic: text}."""
    text = report()
    print(text)
    topics = (part.partition("\n") for part in text.split("\n\n"))
    return {topic: lines for topic, _, lines in topics}


def init() -> None:
    """Nothing: jwarp is ready when it is imported."""
