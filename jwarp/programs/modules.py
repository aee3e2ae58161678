"""The modules that are called `warp` and `warp.…` where jwarp stands for Warp: their names are jwarp's."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from jwarp.api import array_access
from jwarp.api.modes import LaunchArrayAccessMode
from jwarp.config import DeterministicMode, config, surface
from jwarp.devices import get_preferred_device, set_device
from jwarp.programs import internals
from jwarp.programs.diagnostics import print_diagnostics
from jwarp.programs.function_class import Function
from jwarp.programs.kernel_class import Kernel
from jwarp.programs.launch_class import Launch
from jwarp.programs.own_python import is_run_as_it_is, spec_as_it_is
from jwarp.programs.surface import MODULES, missing
from jwarp.types import program_values

PACKAGE = "warp"


class Module(types.ModuleType):
    """A module of Warp's name. A name that jwarp has no counterpart for is absent, and asking for it says why."""

    def __getattr__(self, name: str) -> Any:
        raise absent(self.__name__, name)

    def __dir__(self) -> list[str]:
        return sorted(name for name in vars(self) if not name.startswith("_"))

    def __repr__(self) -> str:
        return f"<module {self.__name__!r} that stands for Warp's, of jwarp>"


class _Config(Module):
    """`warp.config`: assigning sets what jwarp has of that name. A deleted name is absent until it is set again."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self._deleted():
            return super().__getattr__(name)
        return getattr(config, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(config, name, value)
            self._deleted().discard(name)

    def __delattr__(self, name: str) -> None:
        getattr(self, name)  # an AttributeError if there is none
        self._deleted().add(name)

    def _deleted(self) -> set[str]:
        return vars(self).setdefault("_deleted_names", set())

    def __dir__(self) -> list[str]:
        return ["DeterministicMode", "LaunchArrayAccessMode"] + [
            name for name in dir(config) if not name.startswith("_")
        ]


def absent(module: str, name: str) -> AttributeError:
    """The error for a name that a module does not have."""
    reason = missing(module, name)
    return AttributeError(reason or f"module {module!r} has no attribute {name!r}", name=name)


# Modules with jwarp's names: where these are.
_COUNTERPARTS = {
    PACKAGE: "jwarp",
    f"{PACKAGE}.types": "jwarp.types",
    f"{PACKAGE}.utils": "jwarp.utils",
    f"{PACKAGE}.autograd": "jwarp.autograd",
    f"{PACKAGE}.optim": "jwarp.optim",
    f"{PACKAGE}.optim.linear": "jwarp.optim.linear",
    f"{PACKAGE}.sparse": "jwarp.sparse",
}
# Names that mean something else in programs than in jwarp, or that only programs have.
_OF_PROGRAMS: dict[str, dict[str, Any]] = {
    PACKAGE: {"Function": Function, "Kernel": Kernel, "Launch": Launch, "print_diagnostics": print_diagnostics}
}
# Counterparts of Warp's private modules.
_INTERNALS: dict[str, Callable[[], dict[str, Any]]] = {
    f"{PACKAGE}._src.{name}": make for name, make in internals.MODULES.items()
}
# The modules that come along when one of Warp's is imported.
_BROUGHT_ALONG = {
    PACKAGE: ("types", "utils", "config", "_src", "build_experimental"),
    f"{PACKAGE}.optim": ("linear",),
}


def _is_known(name: str) -> bool:
    return name in _COUNTERPARTS or name in MODULES or name in _INTERNALS


def _names(module: str) -> Iterator[tuple[str, Any]]:
    """The names of a module that jwarp has, with what they stand for."""
    if module in _INTERNALS:
        yield from _INTERNALS[module]().items()
    elif module in _COUNTERPARTS and _has(_COUNTERPARTS[module]):
        found = importlib.import_module(_COUNTERPARTS[module])
        yield from ((name, x) for name, x in vars(found).items() if _is_public(module, name, x))


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _is_public(module: str, name: str, thing: Any) -> bool:
    """True if a jwarp name belongs to a module of Warp's. Parts of jwarp, such as `jwarp.ir`, are not public."""
    if name.startswith("_"):
        return False
    return not isinstance(thing, types.ModuleType) or _is_known(f"{module}.{name}")


class _Loader(Loader):
    """Makes the modules."""

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return (_Config if spec.name == f"{PACKAGE}.config" else Module)(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__
        members = vars(module)
        members["__doc__"] = f"jwarp's counterpart of {name}."
        members["__file__"] = __file__
        if isinstance(module, _Config):
            members.update(DeterministicMode=DeterministicMode, LaunchArrayAccessMode=LaunchArrayAccessMode)
        else:
            members.update(_names(name))
            members.update(_OF_PROGRAMS.get(name, {}))
            members["__all__"] = sorted(each for each in members if not each.startswith("_"))
        if name == PACKAGE:
            members["__version__"] = config.version
        for part in _BROUGHT_ALONG.get(name, ()):
            members[part] = importlib.import_module(f"{name}.{part}")
        if name == f"{PACKAGE}._src":
            for part in _INTERNALS:
                importlib.import_module(part)


class Finder(MetaPathFinder):
    """Finds `warp` and what is in it. Others of Warp's modules do not exist, or are those of an installed Warp."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != PACKAGE:
            return None
        if _is_known(fullname):
            return ModuleSpec(fullname, _Loader(), is_package=True)
        if is_run_as_it_is(fullname):
            return spec_as_it_is(fullname)
        parent, _, name = fullname.rpartition(".")
        reason = missing(parent, name)
        if reason is not None:  # what `from warp import name` asks for when the module has no such attribute
            raise ImportError(reason, name=parent)
        return None


def install() -> None:
    """Have `import warp` give jwarp in this process. Arrays are made on the first GPU, if there is one, as Warp's are.

    Raises:
        ImportError: Warp itself is imported already.
    """
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    if PACKAGE in sys.modules:
        place = getattr(sys.modules[PACKAGE], "__file__", None) or "without a file"
        raise ImportError(
            f"jwarp.as_warp: NVIDIA Warp is imported already ({place}); import jwarp.as_warp before whatever "
            "imports warp, or run the program by `python -m jwarp run`",
            name=PACKAGE,
        )
    dir(importlib.import_module("jwarp"))  # imports what its names stand for, which `vars` lists from here on
    sys.meta_path.insert(0, Finder())
    set_device(get_preferred_device())
    surface.is_warps = True
    program_values.install()
    array_access.install()
