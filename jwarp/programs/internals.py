"""The parts of `warp._src` that libraries touch: what each has, of jwarp's."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jwarp
from jwarp.api.map import KERNELS as MAP_KERNELS
from jwarp.api.timers import LOG_DEBUG, LOG_INFO, LOG_WARNING
from jwarp.arrays import allocation_counts
from jwarp.arrays.commands import listeners, set_recorders
from jwarp.config import config
from jwarp.frontend.builtins.table import BUILTINS, LIBRARY
from jwarp.frontend.by_name import full_name
from jwarp.frontend.modules import forget_module, get_module, known_modules
from jwarp.frontend.options import caller
from jwarp.programs import type_tables
from jwarp.programs.context_functions import MEMBERS
from jwarp.programs.function_class import Function
from jwarp.programs.kernel_class import Kernel
from jwarp.programs.mesh_edges import MeshAdjacency, MeshEdge
from jwarp.programs.native_builtins import Core
from jwarp.programs.packing import pack_arg
from jwarp.programs.paused_captures import capture_pause, capture_resume
from jwarp.programs.python_functions import annotations_of_any, argument_spec, closure_of, found_by_name
from jwarp.programs.struct_class import Struct
from jwarp.programs.surface import PRIVATE, missing


def user_cache_dir(appname: str | None = None, appauthor: Any = None, version: str | None = None) -> str:
    """The folder in which a program keeps files that it can make again."""
    if sys.platform == "darwin":
        place = Path.home() / "Library" / "Caches"
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return str(place.joinpath(*(part for part in (appname, version) if part)))


class _Runtime:
    """`warp._src.context.runtime`: the state of the process. Its `core` stands for Warp's native library."""

    _apic_capture = None  # Warp's captures on the host, whose graphs name memory by its address
    is_cuda_enabled = False  # whether Warp's own library has been built with CUDA
    driver_version = toolkit_version = None
    core = Core(lambda name: missing("warp._src.context.runtime.core", name))

    def __init__(self) -> None:
        self._paused: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    @property
    def tape(self) -> Any:
        """The tape that is open in this thread, the one opened last; None if there is none."""
        return next((r for r in reversed(listeners.here.recorders) if isinstance(r, jwarp.Tape)), None)

    @tape.setter
    def tape(self, tape: Any) -> None:
        """Have the open tapes of this thread pause, by None, and go on, by the one that was opened last."""
        if tape is None:
            tapes = [r for r in listeners.here.recorders if isinstance(r, jwarp.Tape)]
            if tapes:
                self._paused[tapes[-1]] = tapes
            set_recorders([r for r in listeners.here.recorders if r not in tapes])
        elif tape not in listeners.here.recorders:
            set_recorders([*listeners.here.recorders, *self._paused.pop(tape, [tape])])

    @property
    def default_device(self) -> Any:
        return jwarp.get_device()

    def get_device(self, ident: Any = None) -> Any:
        return jwarp.get_device(ident)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(missing("warp._src.context.runtime", name), name=name)


def _public(*modules: str) -> dict[str, Any]:
    """All public names of modules, those of the first one before those of the next."""
    found: dict[str, Any] = {}
    for module in modules:
        for name, thing in vars(sys.modules[module]).items():
            if not name.startswith("_") and not isinstance(thing, types.ModuleType):
                found.setdefault(name, thing)
    return found


class Private:
    """An object of Warp's own without a counterpart in jwarp: programs may import its name, and not use it."""

    def __init__(self, module: str, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._refusal()

    def __getattr__(self, name: str) -> Any:
        raise self._refusal(name)

    def __mro_entries__(self, bases: Any) -> Any:
        raise self._refusal()

    def __iter__(self) -> Any:
        raise self._refusal()

    def __repr__(self) -> str:
        return f"<{self.__module__}.{self.__name__}, without a counterpart in jwarp>"

    def _refusal(self, name: str = "") -> AttributeError:
        return AttributeError(missing(self.__module__, self.__name__), name=name or self.__name__)


def _private(part: str) -> dict[str, Any]:
    module = f"warp._src.{part}"
    return {name: Private(module, name) for name in PRIVATE.get(part, "").split()}


def register_api_function(function: Any, *, module: str, **about: Any) -> None:
    """Nothing: that has a function of a module appear in Warp's documentation."""


def _allocation_report(sort_order: int = 0, max_items: int = 10) -> str:
    """The memory of arrays as `wp.print_memory_report` shows it; `sort_order` 1 lists the oldest first."""
    return allocation_counts.report(is_chronological=sort_order == 1, max_items=max_items)


class _UserModules(MutableMapping[str, Any]):
    """The modules of kernels by name. One that is deleted is made anew when a kernel of it is asked for its module."""

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return get_module(name)

    def __contains__(self, name: object) -> bool:
        return name in known_modules() or name in sys.modules

    def __setitem__(self, name: str, module: Any) -> None:
        raise TypeError("modules are made by wp.get_module")

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        forget_module(name)

    def __iter__(self) -> Iterator[str]:
        return iter(known_modules())

    def __len__(self) -> int:
        return len(known_modules())


def _context() -> dict[str, Any]:
    public = _public("jwarp")
    return {
        **public,
        "Function": Function,
        "Kernel": Kernel,
        **{name: thing for name, thing in _logger().items() if name.startswith("log_")},
        **MEMBERS,
        "pack_arg": pack_arg,
        "runtime": _Runtime(),
        "builtin_functions": {**BUILTINS, **LIBRARY},
        "user_modules": _UserModules(),
        "get_warp_version": lambda: config.version,
        "get_llvm_version": lambda: version("llvmlite"),
        "register_api_function": register_api_function,
        "alloc_tracker_report_text": _allocation_report,
        "type_str": jwarp.types.type_repr,
        "_get_caller_module_name": lambda stack_level=1: caller(stack_level + 1),
        "capture_pause": capture_pause,
        "capture_resume": capture_resume,
        "_is_graph_capture_allocation_supported": lambda device: False,
        "_is_graph_capture_allocation_enabled": lambda device: False,
    }


def _types() -> dict[str, Any]:
    return {**_public("jwarp.types", "jwarp"), **type_tables.members()}


def _utils() -> dict[str, Any]:
    return {**_public("jwarp.utils", "jwarp"), "check_p2p": lambda: False, "map_cache": MAP_KERNELS} | {
        "MeshAdjacency": MeshAdjacency,
        "MeshEdge": MeshEdge,
    }


def _codegen() -> dict[str, Any]:
    return {
        **_public("jwarp"),
        "Struct": Struct,
        "StructInstance": jwarp.types.Struct,
        "get_annotations": annotations_of_any,
        "get_closure_vars": closure_of,
        "get_full_arg_spec": argument_spec,
        "resolve_closure_or_global": found_by_name,
        "make_full_qualified_name": lambda f: full_name(f if isinstance(f, str) else f.__qualname__),
    }


_warnings_seen: set[tuple[Any, str]] = set()


def log_warning(message: str, category: type[Warning] | None = None, stacklevel: int = 1, once: bool = False) -> None:
    """Warn by the logger in use. What is deprecated, and with `once` anything, is said once only."""
    key = (category, message)
    is_single = once or category is DeprecationWarning
    if config.log_level > LOG_WARNING or (is_single and key in _warnings_seen):
        return
    jwarp.get_logger().warning(message, category=category, stacklevel=stacklevel + 2)
    if is_single:
        _warnings_seen.add(key)


def _logged(level: int, method: str) -> Callable[[str], None]:
    """The function that gives a message to the logger in use, if such are shown."""

    def log(message: str) -> None:
        if config.log_level <= level:
            getattr(jwarp.get_logger(), method)(message)

    return log


def _logger() -> dict[str, Any]:
    names = ("Logger", "get_logger", "set_logger", "ScopedLogger", "ScopedLogLevel")
    levels = ("LOG_DEBUG", "LOG_INFO", "LOG_WARNING", "LOG_ERROR")
    return {
        **{name: getattr(jwarp, name) for name in (*names, *levels)},
        "LoggerBasic": type(jwarp.get_logger()),
        "_warnings_seen": _warnings_seen,
        "log_debug": _logged(LOG_DEBUG, "debug"),
        "log_info": _logged(LOG_INFO, "info"),
        "log_warning": log_warning,
        "log_error": lambda message: jwarp.get_logger().error(message),
    }


def members(part: str) -> dict[str, Any]:
    """The names that the module `warp._src.PART` has."""
    return {**_private(part), **_MEMBERS.get(part, dict)()}


_MEMBERS: dict[str, Callable[[], dict[str, Any]]] = {
    "context": _context,
    "types": _types,
    "utils": _utils,
    "autograd": lambda: _public("jwarp.autograd"),
    "codegen": _codegen,
    "deterministic": lambda: {"det_buffer_allocation_scope": lambda device, is_capturing: contextlib.nullcontext()},
    "logger": _logger,
    "lang": lambda: _public("jwarp"),
    "sparse": lambda: _public("jwarp.sparse"),
    "optim": dict,
    "optim.fsai": lambda: _public("jwarp.optim.fsai"),
    "thirdparty": dict,
    "thirdparty.appdirs": lambda: {"user_cache_dir": user_cache_dir},
}
MODULES: dict[str, Callable[[], dict[str, Any]]] = {
    part: functools.partial(members, part) for part in (*_MEMBERS, *(part for part in PRIVATE if part not in _MEMBERS))
}
