"""The version of the native module, which is compiled and therefore may be older or newer than the Python files."""

from __future__ import annotations

# The version of what the two say to each other. It is compiled in from here: change it with that.
INTERFACE = 1

_BUILD = (
    "build it again: python -m pip install --no-build-isolation --no-deps -e . (in a checkout), or install jwarp anew"
)


def check_interface() -> None:
    """Refuse a native module that is missing, or that was compiled for other Python files.

    Raises:
        ImportError: it is.
    """
    try:
        from jwarp import _native
    except ImportError as error:
        raise ImportError(f"jwarp's native module cannot be imported: {error}\n  help: {_BUILD}") from error
    found = getattr(_native, "interface", None)
    if found != INTERFACE:
        place = _native.__file__
        shown = "an older version" if found is None else f"version {found}"
        text = f"jwarp's native module has {shown} of the interface, the Python files have version {INTERFACE}: {place}"
        raise ImportError(f"{text}\n  help: {_BUILD}", name="jwarp._native", path=place)
