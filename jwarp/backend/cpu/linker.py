"""Load machine code into the process, where it stays."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import llvmlite.binding as llvm

from jwarp import forks
from jwarp.backend.cpu.target import host_target, target_machine

_linker: llvm.LLJIT | None = None
_libraries: list = []  # XLA may call what is linked here as long as the process lives
_names = itertools.count()
_lock = forks.Lock()


def new_linker() -> llvm.LLJIT:
    """A linker of object code for this processor.

    JITLink has all of an object in one place. LLVM's older linker puts constants wherever there is room, and ends the
    process where that is more than 2 GB away from the code.
    """
    return llvm.create_lljit_compiler(target_machine(host_target()), use_jit_link=True)


def link(code: bytes, name: str, imported: Mapping[str, int] | None = None) -> int:
    """Load object code that calls functions at the addresses `imported`; the address of `name` in it."""
    global _linker
    with _lock:
        if _linker is None:
            _linker = new_linker()
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(name)
        for symbol, address in (imported or {}).items():
            library.import_symbol(symbol, address)
        tracker = library.link(_linker, f"jwarp.{next(_names)}")
        _libraries.append(tracker)
        return tracker[name]
