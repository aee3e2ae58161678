"""The packages that take part: jwarp always, Warp and numba where they are installed."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

import kernels

import jwarp as jwarp


def _find(name: str) -> ModuleType | None:
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


warp = _find("warp")
if warp is not None:
    warp.config.log_level = warp.LOG_ERROR
numba_kernels = importlib.import_module("kernels_numba") if _find("numba") else None

JWARP = kernels.define(jwarp)
WARP = kernels.define(warp) if warp else None
