"""Which versions of packages figures were measured with."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """The version of each package, None where it is not installed."""
    return {name: _version(name) for name in packages}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
