"""Options of modules and of kernels, as Warp has them: those that change what a kernel means are followed."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

from jwarp.config import DeterministicMode, Settings, as_mode, config
from jwarp.errors import KernelTypeError

# Those that are followed: what holds where nobody says (None: the settings), and what they may be.
_FOLLOWED: dict[str, tuple[Any, type]] = {
    "enable_backward": (True, bool),
    "max_unroll": (None, int),
    "fast_math": (None, bool),
    "deterministic": (None, DeterministicMode),
}
# Those of them that are settings.
_SETTINGS = ("max_unroll", "fast_math", "deterministic")
# Those that Warp has besides, which say how it compiles.
_OTHERS = (
    *("enable_mathdx_gemm", "enable_mathdx_solver", "enable_mathdx_fft", "fuse_fp", "lineinfo", "cuda_output", "mode"),
    *("optimization_level", "cpu_compiler_flags", "deterministic_max_records", "block_dim"),
    *("compile_time_trace", "strip_hash", "extra_build_options", "default_grid_stride"),
    *("enable_vector_component_overwrites", "verify_autograd_array_access"),
)
# Those of kernels alone, which say how GPUs run them.
OF_KERNELS = (
    *("launch_bounds", "cuda_max_registers", "enable_cuda_smem_spilling", "cluster_dim", "entry_point_abi"),
    "grid_stride",
)
_DEFAULTS: dict[str, Any] = {**{name: row[0] for name, row in _FOLLOWED.items()}, **dict.fromkeys(_OTHERS)}

# By the name of the module, what it has set, and how often that has been done.
_set: dict[str, dict[str, Any]] = {}
changes = 0


def checked(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Options as a dict of their own; a KernelTypeError for names that Warp does not have and values of other types."""
    found = dict(options)
    for name, value in options.items():
        if name not in _DEFAULTS:
            raise KernelTypeError(
                f"{where}: no option {name!r}. Valid options: {', '.join(_DEFAULTS)}", also=ValueError
            )
        if name == "deterministic":
            try:
                found[name] = as_mode(value, f"{where}: {name}")
            except ValueError as error:
                raise KernelTypeError(str(error)) from None
            continue
        if name == "deterministic_max_records" and value is not None:
            if type(value) is not int:
                raise KernelTypeError(f"{where}: {name} must be an int, not {value!r}")
            if value < 0:
                raise KernelTypeError(f"{where}: {name} must not be negative, got {value}", also=ValueError)
        kind: Any = _FOLLOWED.get(name, (None, object))[1]
        if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or value < 0)):
            raise KernelTypeError(f"{where}: {name} must be {kind.__name__}, not {value!r}")
    return found


def set_module_options(options: Mapping[str, Any], module: Any = None) -> None:
    """Set options of all kernels of a module, by default the caller's. Options of a kernel itself take precedence.

    `enable_backward`, `max_unroll`, `fast_math` and `deterministic` have an effect; Warp's other options are accepted
    without effect. They apply from the next launch on. Functions that were traced, and records, keep their options.

    Raises:
        KernelTypeError: Warp has no such option, or the value has another type.
    """
    global changes
    _set.setdefault(caller() if module is None else name_of(module), {}).update(
        checked(options, "wp.set_module_options")
    )
    changes += 1


def reset_module_options(module: str, names: Iterable[str]) -> None:
    """Have options of a module be as before anybody set them."""
    global changes
    own = _set.get(module, {})
    for name in names:
        own.pop(name, None)
    changes += 1


def get_module_options(module: Any = None) -> dict[str, Any]:
    """The options of a module, by default the caller's."""
    own = _set.get(caller() if module is None else name_of(module), {})
    return {**_DEFAULTS, **{name: getattr(config, name) for name in _SETTINGS}, **own}


def caller(level: int = 2) -> str:
    """The name of the Python module that a frame belongs to, so many above this one."""
    return str(sys._getframe(level).f_globals.get("__name__", ""))


def name_of(module: Any) -> str:
    """The name of a module: of Python's, of `wp.get_module`, or that name itself."""
    return module.__name__ if isinstance(module, types.ModuleType) else str(getattr(module, "name", module))


def option(name: str, module: str, own: Mapping[str, Any]) -> Any:
    """The value of an option for a kernel with the options `own` in a module."""
    return own[name] if name in own else _set.get(module, {}).get(name, _DEFAULTS[name])


def settled(settings: Settings, module: str, own: Mapping[str, Any]) -> Settings:
    """The settings for a kernel with the options `own` in a module."""
    if not own and module not in _set:
        return settings
    found = {name: option(name, module, own) for name in _SETTINGS}
    changes = {name: value for name, value in found.items() if value is not None}
    return dataclasses.replace(settings, **changes) if changes else settings
