"""Kernels written in Python become JAX functions: `import jwarp as wp`.

The names below are public, and those of `jwarp/public.py`, which the first use of one of them imports: a program that
only runs what others have exported needs none. Modules and subpackages are not public: they change without notice.
"""

from functools import partial as _partial
from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import Any as _Any

from jwarp.collector import no_collection as _no_collection
from jwarp.native_interface import check_interface as _check_interface

_check_interface()

# JAX is many objects, which the collector would go through several times on the way: a sixth of the time.
_importing = _no_collection()
_importing.__enter__()

from jwarp import types as types
from jwarp.arrays import array as _array
from jwarp.bind import targets as _targets  # noqa: F401 registers the native module with XLA
from jwarp.config import DeterministicMode as DeterministicMode
from jwarp.config import config as config
from jwarp.errors import CompileError as CompileError
from jwarp.errors import KernelTypeError as KernelTypeError
from jwarp.errors import KernelWarning as KernelWarning
from jwarp.errors import LaunchError as LaunchError
from jwarp.errors import NotDifferentiableError as NotDifferentiableError

_importing.__exit__(None, None, None)

for _name in ("array", "array1d", "array2d", "array3d", "array4d"):
    setattr(types, _name, getattr(_array, _name))  # as in Warp


def __getattr__(name: str) -> _Any:
    # Python asks for modules this way too, before it imports them; that must not import others.
    is_private = name.startswith("_") and name not in ("__all__", "__version__")
    if is_private or (name not in _MODULES and _find_spec(f"jwarp.{name}")):
        raise AttributeError(f"module 'jwarp' has no attribute {name!r}", name=name)
    found = _all()
    if name in found:
        return found[name]
    from jwarp.programs.surface import refuse  # needed for names that are not there, and long

    raise refuse(name)


_MODULES = ("autograd", "optim", "optim.linear", "sparse", "utils")  # public ones


def _all() -> dict[str, _Any]:
    """The names of `jwarp/public.py`, from now on of this module too; none while they are being imported."""
    with _no_collection():
        # Not by a statement, which would ask this module for it first.
        found: dict[str, _Any] = getattr(_import_module("jwarp.public"), "NAMES", {})
        for module in _MODULES if found else ():
            vars(_import_module(f"jwarp.{module}"))["__getattr__"] = _partial(_refused, module)
    globals().update(found)
    return found


def _refused(module: str, name: str) -> _Any:
    """Refuse a name that a public module does not have."""
    if name.startswith("__"):
        raise AttributeError(f"module 'jwarp.{module}' has no attribute {name!r}")
    from jwarp.programs.surface import refuse_in

    raise refuse_in(module, name)


def __dir__() -> list[str]:
    _all()
    return sorted(globals())
