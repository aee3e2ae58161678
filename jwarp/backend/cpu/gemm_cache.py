"""The code of matrix products, which kernels call: compiled once for each request, kept on disk, shared."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Iterable

from jwarp.backend.cpu.gemm import emit
from jwarp.backend.cpu.linker import link
from jwarp.backend.cpu.optimize import optimized_module
from jwarp.backend.cpu.target import Target, host_target, target_machine
from jwarp.backend.events import CompileEvent, announce
from jwarp.backend.generator import identity
from jwarp.caches import Cache
from jwarp.ir.matmul import Request
from jwarp.store import Store, key_of
from jwarp.types import SCALARS

# Their code stays for the life of the process, as that of the kernels that call it.
_made: Cache[Request, tuple[int, CompileEvent]] = Cache("products of matrices", "products that kernels call")
_lock = threading.Lock()


def unit_object(request: Request, target: Target) -> bytes:
    """The object code of one product."""
    return target_machine(target).emit_object(optimized_module(emit(request, target), target))


def addresses(requests: Iterable[Request], kernel: str, store: Store) -> dict[str, int]:
    """Where the code of these products is, by symbol; what `kernel` is the first to need is made ready."""
    return {request.symbol: _address(request, kernel, store) for request in requests}


def _address(request: Request, kernel: str, store: Store) -> int:
    start = time.perf_counter()
    with _lock:
        made = _made.get(request)
        known = made is not None
        if made is None:
            target = host_target()
            key = key_of("unit", identity() or "", repr(request), repr(target))
            code, source = store.load(key), "disk"
            if code is None:
                code, source = unit_object(request, target), "compiled"
                store.save(key, code)
            address, seconds = link(code, request.symbol), time.perf_counter() - start
            event = CompileEvent(kernel, f"tile_matmul[{request.key}]", "cpu", seconds, source, len(code))
            made = _made.keep(request, (address, event))
    address, event = made
    event = dataclasses.replace(event, kernel=kernel)
    if known:
        event = dataclasses.replace(event, seconds=time.perf_counter() - start, source="memory")
    announce(event)
    return address


def requests_to_bytes(requests: Iterable[Request]) -> bytes:
    """One line of text."""
    rows = [[r.a.name, r.b.name, r.c.name, r.m, r.n, r.k, *map(int, _flags(r))] for r in requests]
    return json.dumps(rows, separators=(",", ":")).encode() + b"\n"


def requests_from_bytes(line: bytes) -> tuple[Request, ...]:
    """The reverse of `requests_to_bytes`."""
    return tuple(
        Request(SCALARS[a], SCALARS[b], SCALARS[c], m, n, k, bool(ta), bool(tb), bool(add))
        for a, b, c, m, n, k, ta, tb, add in json.loads(line)
    )


def _flags(r: Request) -> tuple[bool, bool, bool]:
    return r.transpose_a, r.transpose_b, r.accumulate
