"""The packages that take part: jwarp always, Warp and numba where they are installed."""

from __future__ import annotations

import importlib
import importlib.util
import os
from types import ModuleType

import kernels

import jwarp as jwarp


def _find(name: str) -> ModuleType | None:
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


# numba's threads would keep a processor busy after their work, in the next contender's turn.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("NUMBA_NUM_THREADS", str(len(os.sched_getaffinity(0))))

warp = _find("warp")
numba_kernels = importlib.import_module("kernels_numba") if _find("numba") else None

JWARP = kernels.define(jwarp)
WARP = kernels.define(warp) if warp else None
