"""Settings that change what is compiled and where it is cached: `wp.config` and `JWARP_*`."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import os
import re
import threading
from collections.abc import Iterator
from typing import Any

from jwarp.caches import Cache


class DeterministicMode(enum.IntEnum):
    """Values of `wp.config.deterministic`: which runs of a program give atomic operations the same results."""

    NOT_GUARANTEED = 0  #: They take threads in the order in which these come.
    RUN_TO_RUN = 1  #: They take threads in the order of their numbers, on any number of cores and on a GPU.
    GPU_TO_GPU = 2  #: The same here: no order depends on the device.


@dataclasses.dataclass(frozen=True)
class Settings:
    """One consistent set of values; what a trace or a record keeps. Without a `cache_dir` no files are kept.

    `debug` makes errors of accesses outside arrays, NaNs, unset variables, failed asserts and races. `cuda_arch`
    names what CUDA code is made for, as in `sm_90` or `sm_80, sm_90`; empty: for the GPU at hand, or without
    one for one of each generation. With `deterministic`, atomic operations take threads in the order of their numbers
    wherever that order shows in the results. `matrix_instructions` says by which instructions GPUs multiply tiles of
    16-bit floats: warps do by `mma`; with `wgmma` warpgroups do on GPUs of sm_90, where blocks have multiples of 128
    threads and tiles fit.
    """

    cache_dir: str = ""
    bounds: str = "safe"
    debug: bool = False
    fast_math: bool = False
    max_unroll: int = 16
    cuda_arch: str = ""
    deterministic: DeterministicMode = DeterministicMode.NOT_GUARANTEED
    matrix_instructions: str = "mma"


# The settings that change the code of a kernel in IR, and those that change what a launch of a kernel runs at all.
CODE_SETTINGS = ("bounds", "debug", "fast_math")
LAUNCH_SETTINGS = (*CODE_SETTINGS, "max_unroll", "deterministic")

# Further settings of Warp's programs, with Warp's initial values. Timers follow `log_level`;
# the others say how Warp compiles, allocates or checks, and do nothing here.
LOG_INFO = 20
_OF_WARP: dict[str, Any] = {
    "log_level": LOG_INFO,
    "version": "1.19.0",  # whose language and functions these are
    **dict.fromkeys(("verify_fp", "verify_cuda", "print_launches", "verbose_warnings", "quiet", "verbose"), False),
    **dict.fromkeys(("verify_autograd_array_access", "legacy_scalar_return_types", "compile_time_trace"), False),
    **dict.fromkeys(("lineinfo", "llvm_cuda", "track_memory", "legacy_cpu_linker", "deterministic_debug"), False),
    **dict.fromkeys(("enable_cpu_blocks", "enable_vector_component_overwrites", "enable_graph_capture_apic"), False),
    **dict.fromkeys(("cache_kernels", "line_directives", "enable_backward", "default_grid_stride"), True),
    **dict.fromkeys(("enable_mathdx_gemm", "enable_mathdx_solver", "enable_mathdx_fft"), True),
    **dict.fromkeys(("enable_graph_capture_module_load_by_default", "enable_mempools_at_init"), True),
    **dict.fromkeys(("enable_tiles_in_stack_memory", "use_precompiled_headers"), True),
    **dict.fromkeys(("optimization_level", "cuda_output", "ptx_target_arch", "cuda_arch_suffix"), None),
    **dict.fromkeys(("cpu_compiler_flags",), None),
    **dict.fromkeys(("load_module_max_workers", "deterministic_max_records", "launch_array_access_mode"), 0),
}


class Surface:
    """The Python surface of this process.

    Attributes:
        is_warps: True in a whole program of Warp's: what surrounds kernels is as in Warp.
    """

    is_warps = False


surface = Surface()

# Names of Warp's for settings that there are here.
_RENAMED = {"kernel_cache_dir": "cache_dir"}
_MODES = ("release", "debug")

_CHOICES = {"bounds": ("safe", "error", "unchecked"), "matrix_instructions": ("mma", "wgmma")}
# The name of an architecture that CUDA code is made for.
ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")

_FIELDS = {f.name: f for f in dataclasses.fields(Settings)}
_TYPES = {name: type(getattr(Settings(), name)) for name in _FIELDS}


def as_mode(value: Any, origin: str) -> DeterministicMode:
    """A DeterministicMode, or True for RUN_TO_RUN and False for none; a ValueError for anything else."""
    if isinstance(value, (bool, DeterministicMode)):
        return DeterministicMode(value)
    raise ValueError(f"{origin} must be True, False or one of wp.DeterministicMode, not {value!r}")


def _check(name: str, value: Any, origin: str) -> Any:
    """Return `value` if field `name` takes it; else raise ValueError, or AttributeError if there is no such field."""
    if name not in _FIELDS:
        raise AttributeError(f"{origin}: no such setting; there are {', '.join(_FIELDS)}")
    if name == "deterministic":
        return as_mode(value, origin)
    if name in _CHOICES and (type(value) is not str or value not in _CHOICES[name]):
        raise ValueError(f"{origin} must be one of {', '.join(_CHOICES[name])}, not {value!r}")
    if type(value) is not _TYPES[name]:
        raise ValueError(f"{origin} must be {_TYPES[name].__name__}, not {value!r}")
    if name == "max_unroll" and value < 0:
        raise ValueError(f"{origin} must not be negative, got {value}")
    return value


_WORDS = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


def split_names(text: str) -> list[str]:
    """The names between the commas of a text."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _default_cache_dir() -> str:
    folder = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    # A user without a home has no place for a cache.
    return os.path.join(folder, "jwarp") if os.path.isabs(folder) else ""


def _from_environment() -> Settings:
    values: dict[str, Any] = {"cache_dir": _default_cache_dir()}
    for name, kind in _TYPES.items():
        variable = f"JWARP_{name.upper()}"
        text = os.environ.get(variable)
        if text is None or (not text.strip() and name != "cache_dir"):  # without a folder nothing is kept
            continue
        value: Any = text
        if kind in (bool, DeterministicMode):
            if text.lower() not in _WORDS:
                raise ValueError(f"{variable} must be one of {', '.join(_WORDS)}, not {text!r}")
            value = _WORDS[text.lower()]
        elif kind is int:
            try:
                value = int(text)
            except ValueError:
                raise ValueError(f"{variable} must be an integer from 0 on, not {text!r}") from None
        elif name == "cuda_arch" and not all(map(ARCHITECTURE.fullmatch, split_names(text))):
            raise ValueError(f"{variable} must name architectures like sm_90, several with commas, not {text!r}")
        values[name] = _check(name, value, variable)
    return Settings(**values)


# Equal settings are one object, so that layout keys of calls tell settings by their identity.
_KNOWN: Cache[Settings, Settings] = Cache("settings", 256)


def _replaced(settings: Settings, **values: Any) -> Settings:
    found = dataclasses.replace(settings, **values)
    return _KNOWN.keep(found, found)


class _OfThread(threading.local):
    settings: Settings | None = None  # in force in this thread


class Config:
    """The process's settings. Assign to a field, or use `with wp.config(bounds="unchecked"):`.

    The settings of Warp can be assigned, too: `mode` and `kernel_cache_dir` are `debug` and `cache_dir`; most others
    do nothing here. They hold for the process.

    Values are read when a function is traced or a launch recorded; what was traced keeps its own.
    A `with` block holds for its own thread only; what is assigned inside it is undone at its end.
    """

    of_warp: dict[str, Any]  # the values of Warp's settings, which hold for the process

    def __init__(self) -> None:
        object.__setattr__(self, "_process", _replaced(_from_environment()))
        object.__setattr__(self, "_thread", _OfThread())
        object.__setattr__(self, "of_warp", dict(_OF_WARP))

    @property
    def settings(self) -> Settings:
        """The values in force in this thread."""
        return self._thread.settings or self._process

    def with_values(self, **values: Any) -> Settings:
        """The values in force with some replaced; a ValueError or AttributeError where they do not fit."""
        checked = {name: _check(name, value, f"wp.config.{name}") for name, value in values.items()}
        return _replaced(self.settings, **checked)

    def __getattr__(self, name: str) -> Any:
        if name in _FIELDS:
            return getattr(self.settings, name)
        if name in _OF_WARP:
            return self.of_warp[name]
        if name in _RENAMED:
            return getattr(self.settings, _RENAMED[name])
        if name == "mode":
            return _MODES[self.settings.debug]
        raise AttributeError(f"wp.config.{name}: no such setting; there are {', '.join(_FIELDS)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OF_WARP:
            self.of_warp[name] = value
            return
        if name == "mode":
            if value not in _MODES:
                raise ValueError(f"wp.config.mode must be one of {', '.join(_MODES)}, not {value!r}")
            name, value = "debug", value == "debug"
        if name in _RENAMED:
            name, value = _RENAMED[name], str(value or "")
        value = _check(name, value, f"wp.config.{name}")
        scoped = self._thread.settings
        if scoped is not None:
            self._thread.settings = _replaced(scoped, **{name: value})
        else:
            changed = _replaced(self._process, **{name: value})
            object.__setattr__(self, "_process", changed)

    @contextlib.contextmanager
    def __call__(self, **values: Any) -> Iterator[Config]:
        before = self._thread.settings
        self._thread.settings = self.with_values(**values)
        try:
            yield self
        finally:
            self._thread.settings = before

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_FIELDS, *_OF_WARP, *_RENAMED, "mode"]

    def __repr__(self) -> str:
        return repr(self.settings).replace("Settings", "wp.config", 1)


config = Config()
