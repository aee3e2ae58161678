"""`wp.print_diagnostics()` of programs: the report of jwarp, and what it says under the keys that Warp's has."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator
from typing import Any

import jwarp
from jwarp.api.modules import print_diagnostics as print_report
from jwarp.backend.cpu.target import llvm_version
from jwarp.backend.cuda import nvrtc
from jwarp.config import config
from jwarp.devices import Device, get_devices, is_cuda_available

# Packages whose versions are told where they are installed.
_OPTIONAL = ("torch", "jax", "jaxlib")


def print_diagnostics() -> dict[str, Any]:
    """Print what is installed, as `python -m jwarp` does, and give it by Warp's keys.

    `warp_native` is the version of jwarp. What jwarp has no counterpart for is None, or False for what is on or off.
    """
    print_report()
    return {
        "warp_python": config.version,
        "warp_native": jwarp.__version__,
        "warp_clang": None,
        "llvm": llvm_version(),
        "numpy": importlib.metadata.version("numpy"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cuda_enabled": is_cuda_available(),
        "cuda_toolkit": None,
        "cuda_driver": None,
        "nvrtc": nvrtc.toolchain() if nvrtc.missing() is None else None,
        "cuda_compatibility": None,
        "mathdx_enabled": False,
        "libmathdx": None,
        "cubql_enabled": False,
        "nanovdb": None,
        "host_compiler": None,
        "debug": config.debug,
        "verify_fp": bool(config.verify_fp),
        "fast_math": config.fast_math,
        "devices": [_device(device) for device in get_devices()],
        **dict(_optional()),
    }


def _optional() -> Iterator[tuple[str, str]]:
    """The optional packages that are installed, with their versions."""
    for name in _OPTIONAL:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue


def _device(device: Device) -> dict[str, Any]:
    return {"alias": device.alias, "name": device.name}
