"""The runtime library: functions that many kernels call, compiled once for a process and cached on disk."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jwarp import forks
from jwarp.backend.cpu import gemm
from jwarp.backend.cpu.access import shared_functions
from jwarp.backend.cpu.access.shared_functions import Loading
from jwarp.backend.cpu.linker import link
from jwarp.backend.cpu.optimize import optimized_module
from jwarp.backend.cpu.target import Target, host_target, machine_code
from jwarp.backend.events import CompileEvent, announce
from jwarp.backend.generator import identity
from jwarp.caches import Cache
from jwarp.ir.matmul import Request
from jwarp.store import Store, key_of
from jwarp.types import SCALARS

# Products of matrices and loads are functions of their own.
LibraryFunction = Request | Loading


def object_of(function: LibraryFunction, target: Target) -> bytes:
    """The object code of one function."""
    text = gemm.emit(function, target) if isinstance(function, Request) else shared_functions.emit(function, target)
    return machine_code(optimized_module(text, target), target)


def addresses(functions: Iterable[LibraryFunction], kernel: str, store: Store) -> dict[str, int]:
    """The addresses of functions, by symbol; those that `kernel` is the first to need are compiled."""
    return {function.symbol: _address(function, kernel, store) for function in functions}


def _address(function: LibraryFunction, kernel: str, store: Store) -> int:
    start = time.perf_counter()
    with _lock:
        made = _made.get(function)
        known = made is not None
        if made is None:
            target = host_target()
            key = key_of("unit", identity() or "", repr(function), repr(target))
            code, source = store.load(key), "disk"
            if code is None:
                code, source = object_of(function, target), "compiled"
                store.save(key, code)
            address, seconds = link(code, function.symbol), time.perf_counter() - start
            made = _made.keep(function, _Made(address, seconds, source, len(code)))
    if isinstance(function, Request):  # the others are small, and count as parts of kernels
        seconds, source = (time.perf_counter() - start, "memory") if known else (made.seconds, made.source)
        announce(CompileEvent(kernel, f"tile_matmul[{function.key}]", "cpu", seconds, source, made.size))
    return made.address


@dataclass(frozen=True)
class _Made:
    """The address of a function, and how it came there."""

    address: int
    seconds: float
    source: str
    size: int


# Their code stays for the life of the process, as that of the kernels that call it.
_made: Cache[LibraryFunction, _Made] = Cache("functions of the runtime", "functions that kernels call")
_lock = forks.Lock()


def to_line(functions: Iterable[LibraryFunction]) -> bytes:
    """Functions as one line of text."""
    rows = [_product_row(u) if isinstance(u, Request) else ["load", *dataclasses.astuple(u)] for u in functions]
    return json.dumps(rows, separators=(",", ":")).encode() + b"\n"


def _product_row(r: Request) -> list[Any]:
    flags = (r.transpose_a, r.transpose_b, r.accumulate)
    return ["product", r.a.name, r.b.name, r.c.name, r.m, r.n, r.k, *map(int, flags)]


def from_line(line: bytes) -> tuple[LibraryFunction, ...]:
    """The reverse of `to_line`."""
    return tuple(_load(row) if kind == "load" else _product(row) for kind, *row in json.loads(line))


def _product(row: list[Any]) -> Request:
    a, b, c, m, n, k, *flags = row
    return Request(SCALARS[a], SCALARS[b], SCALARS[c], m, n, k, *map(bool, flags))


def _load(row: list[Any]) -> Loading:
    given: Any = (tuple(x) if isinstance(x, list) else x for x in row)
    return Loading(*given)
