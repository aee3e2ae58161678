"""Tells code generators apart, so that no process uses what another generator made."""

from __future__ import annotations

import hashlib

import llvmlite
import llvmlite.binding as llvm

from jwarp.caches import cached
from jwarp.sources import sources


@cached("one")
def identity() -> str | None:
    """Equal in two processes only if their generators are; None if nothing may be kept."""
    own = sources()
    if own is None:
        return None
    return hashlib.sha256(repr((llvmlite.__version__, llvm.llvm_version_info, own)).encode()).hexdigest()
