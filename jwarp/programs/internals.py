"""The parts of `warp._src` that libraries touch: what each has, of jwarp's."""

from __future__ import annotations

import os
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwarp
from jwarp.frontend.builtins.table import BUILTINS, LIBRARY
from jwarp.programs.native_builtins import Core
from jwarp.programs.surface import missing


def user_cache_dir(appname: str | None = None, appauthor: Any = None, version: str | None = None) -> str:
    """The folder in which a program keeps files that it can make again."""
    if sys.platform == "darwin":
        place = Path.home() / "Library" / "Caches"
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return str(place.joinpath(*(part for part in (appname, version) if part)))


class _Runtime:
    """`warp._src.context.runtime`: the state of the process. Its `core` stands for Warp's native library."""

    tape = None
    core = Core(lambda name: missing("warp._src.context.runtime.core", name))

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


def _context() -> dict[str, Any]:
    return {**_public("jwarp"), "runtime": _Runtime(), "builtin_functions": {**BUILTINS, **LIBRARY}, "user_modules": {}}


def _types() -> dict[str, Any]:
    return {
        **_public("jwarp", "jwarp.types"),
        **{name: _Generic(name) for name in ("Vector", "Matrix", "Quaternion", "Transformation")},
        "Any": typing.Any,
        "type_scalar_type": lambda t: t.dtype if jwarp.types.type_is_composite(t) else t,
        "type_length": lambda t: t.shape[0],
    }


class _Generic:
    """A name that annotations of Python functions are made of, and nothing else is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, parts: Any) -> Any:
        return typing.Any

    def __repr__(self) -> str:
        return f"warp._src.types.{self.name}"


MODULES: dict[str, Callable[[], dict[str, Any]]] = {
    "context": _context,
    "types": _types,
    "utils": lambda: _public("jwarp.utils", "jwarp"),
    "codegen": lambda: _public("jwarp"),
    "lang": lambda: _public("jwarp"),
    "thirdparty": dict,
    "thirdparty.appdirs": lambda: {"user_cache_dir": user_cache_dir},
}
