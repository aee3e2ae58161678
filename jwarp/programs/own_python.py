"""Modules of Warp's that are Python and kernels alone: they run from an installed warp-lang, as they are."""

from __future__ import annotations

import importlib.util
import re
import sys
import warnings
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from jwarp.caches import cached
from jwarp.errors import KernelWarning

# These, and what is inside of them.
_NAMES = (
    *("warp.examples", "warp.fem", "warp.geometry", "warp.render"),
    *("warp._src.fem", "warp._src.geometry", "warp._src.optim", "warp._src.render"),
)


def is_run_as_it_is(name: str) -> bool:
    """True if a module is Warp's own."""
    return any(name == each or name.startswith(f"{each}.") for each in _NAMES)


def spec_as_it_is(name: str) -> ModuleSpec | None:
    """The module in the folder of an installed Warp; None if there is none of that name.

    Raises:
        ModuleNotFoundError: Warp is not installed.
    """
    folder = _installed()
    if folder is None:
        raise ModuleNotFoundError(
            f"No module named {name!r}: it is Python code of Warp's own, which jwarp runs where warp-lang is installed "
            "(pip install 'jwarp[fem]')",
            name=name,
        )
    _pass_over_warnings(folder)
    place = folder.joinpath(*name.split(".")[1:])
    if (place / "__init__.py").is_file():
        return importlib.util.spec_from_file_location(
            name, place / "__init__.py", submodule_search_locations=[str(place)]
        )
    if place.is_dir():  # a package without a file of its own
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(place)]
        return spec
    file = place.with_suffix(".py")
    return importlib.util.spec_from_file_location(name, file) if file.is_file() else None


@cached("the one that is installed")
def _pass_over_warnings(folder: Path) -> None:
    """Keep warnings of jwarp's on kernels in Warp's own files from users, who cannot do anything about them."""
    warnings.filterwarnings("ignore", category=KernelWarning, module=re.escape(str(folder / "_src")))


@cached("the one that is installed")
def _installed() -> Path | None:
    """The folder of the package, found without importing it."""
    found = PathFinder.find_spec("warp", sys.path)
    if found is None or found.origin is None or not (Path(found.origin).parent / "_src").is_dir():
        return None
    return Path(found.origin).parent
