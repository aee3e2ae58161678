"""The CPU's matrix products on one thread, against NumPy's.

    python benchmarks/gemm.py            # squares that fit a tile, and a large product made of tiles
    python benchmarks/gemm.py --tiles    # also tries many shapes of tiles for the large product

The large product does what a tile kernel does: it copies a tile of A and one of B to memory of its own, adds their
product to a tile of C, and stores that at the end.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # it looks when it is loaded

import llvmlite.binding as llvm
import numpy as np
from figures import Figure, Target, format_figure, format_header, format_verdict
from timing import Run, interleave

from jwarp.backend.cpu.code import Options
from jwarp.backend.cpu.gemm import emit
from jwarp.backend.cpu.gemm_code import FunctionCode
from jwarp.backend.cpu.optimize import optimized_module
from jwarp.backend.cpu.target import host_target, target_machine
from jwarp.ir.matmul import Request
from jwarp.types import ScalarType, bfloat16, float16, float32, float64

SQUARES = (16, 32, 64, 128, 256)
LARGE = 1024
# Rows and columns of the tile of C, and the part of k that is taken at once.
TILES = ((64, 64, 64), (128, 128, 128), (256, 256, 128), (256, 512, 64))
BOUND = 0.8
LAYOUTS = {"nn": (False, False), "nt": (False, True), "tn": (True, False), "tt": (True, True)}

_linked: list = []
_jit = llvm.create_lljit_compiler(target_machine(host_target()))


def measure(rounds: int, budget: float) -> Iterator[Figure]:
    """A figure for each size, layout and type."""
    for type in (float32, float64):
        for size in SQUARES:
            yield _square(type, size, "nn", rounds, budget)
        for layout in ("nt", "tn", "tt"):
            yield _square(type, 64, layout, rounds, budget)
        for tile in TILES:
            yield _large(type, tile, rounds, budget)
    for type in (bfloat16, float16):
        yield _square(type, 128, "nn", rounds, budget)


def _square(type: ScalarType, size: int, layout: str, rounds: int, budget: float) -> Figure:
    request = Request(type, type, float32 if type.bits == 16 else type, size, size, size, *LAYOUTS[layout])
    start = time.perf_counter()
    unit = emit(request, host_target())
    count = max(1, 10**7 // size**3)
    again = _repeated(request, count)
    (function,) = _link([unit, again.text], [again.name], 3)
    seconds = time.perf_counter() - start
    a, b, c = _random(request)
    left, right = (x.T if t else x for x, t in zip((a, b), LAYOUTS[layout], strict=True))
    if type.bits == 16:  # NumPy's own products of these are loops
        left, right = (x.astype(np.float32) for x in (left, right))
    into = np.zeros_like(c)
    run = partial(function, *_addresses(a, b, c))
    run()
    np.testing.assert_allclose(c / count, left.astype(np.float64) @ right, rtol=1e-3, atol=1e-3)
    other = partial(_several, count, partial(np.matmul, left, right, out=into))
    name = f"{type}, {size}^3 {layout}"
    return _figure(name, size**3, count, run, other, rounds, budget, f"compiled in {seconds * 1e3:.0f} ms")


def _several(count: int, run: Run) -> None:
    for _ in range(count):
        run()


def _large(type: ScalarType, tile: tuple[int, int, int], rounds: int, budget: float) -> Figure:
    program = _tiled(type, tile)
    (function,) = _link([emit(program.request, host_target()), program.text], [program.name], 6)
    a, b, c = _random(Request(type, type, type, LARGE, LARGE, LARGE))
    scratch = [_aligned(x * y, type) for x, y in ((tile[0], tile[2]), (tile[2], tile[1]), tile[:2])]
    run = partial(function, *_addresses(a, b, c, *scratch))
    run()
    np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-3)
    other = partial(np.matmul, a, b, out=np.zeros_like(c))
    name = f"{type}, {LARGE}^3 of {'x'.join(map(str, tile))}"
    return _figure(name, LARGE**3, 1, run, other, rounds, budget, bound=BOUND if tile == TILES[-1] else None)


def _figure(
    name: str,
    products: int,
    count: int,
    run: Run,
    other: Run,
    rounds: int,
    budget: float,
    note: str = "",
    bound: float | None = None,
) -> Figure:
    times = {who: t.per(count) for who, t in interleave({"jwarp": run, "numpy": other}, rounds, budget).items()}
    ratio = times["numpy"].least / times["jwarp"].least
    speeds = ", ".join(f"{who} {2e-9 * products / t.least:.1f} GFLOP/s" for who, t in times.items())
    targets = () if bound is None else (Target("of numpy's speed", ratio, bound, "x", at_least=True),)
    return Figure(name, times, targets, "; ".join(filter(None, (f"{speeds}, ratio {ratio:.2f}", note))))


@dataclass(frozen=True)
class Program:
    """LLVM text of a function that calls the unit of a request."""

    request: Request
    name: str
    text: str


def _repeated(request: Request, count: int) -> Program:
    """The same product again and again, without Python in between."""
    code = FunctionCode(Options(host_target()), "again", ["ptr %a", "ptr %b", "ptr %c"], external=True)
    with code.loop(0, str(count), 1):
        code.call(request.symbol, ("ptr", "%a"), ("ptr", "%b"), ("ptr", "%c"))
    return Program(request, "again", _module(code, request))


def _tiled(type: ScalarType, tile: tuple[int, int, int]) -> Program:
    """C = A B, of tiles that are copied to scratch memory."""
    rows, columns, depth = tile
    request = Request(type, type, type, rows, columns, depth)
    params = [f"ptr noalias %{name}" for name in ("a", "b", "c", "sa", "sb", "sc")]
    code = FunctionCode(Options(host_target()), "tiled", params, external=True)
    with code.loop(0, LARGE, rows) as i, code.loop(0, LARGE, columns) as j:
        with code.loop(0, str(rows * columns), code.width) as k:
            place = code.at("%sc", k, type.bits // 8)
            code.store_vector(type, type, code.vectors.constant(type, 0), place, code.width)
        with code.loop(0, LARGE, depth) as k:
            _copy(code, type, _tile(code, type, "%a", i, k), LARGE, "%sa", depth, rows, depth)
            _copy(code, type, _tile(code, type, "%b", k, j), LARGE, "%sb", columns, depth, columns)
            code.call(request.symbol, ("ptr", "%sa"), ("ptr", "%sb"), ("ptr", "%sc"))
        _copy(code, type, "%sc", columns, _tile(code, type, "%c", i, j), LARGE, rows, columns)
    return Program(request, "tiled", _module(code, request))


def _tile(code: FunctionCode, type: ScalarType, base: str, i: int | str, j: int | str) -> str:
    return code.at(base, code.add(code.times(i, LARGE), j), type.bits // 8)


def _copy(
    code: FunctionCode, type: ScalarType, source: str, step: int, target: str, to_step: int, rows: int, columns: int
) -> None:
    size = type.bits // 8
    with code.loop(0, str(rows), 1) as i:
        row, to_row = code.at(source, code.times(i, step), size), code.at(target, code.times(i, to_step), size)
        with code.loop(0, str(columns), code.width) as j:
            value = code.load_vector(type, type, code.at(row, j, size), code.width)
            code.store_vector(type, type, value, code.at(to_row, j, size), code.width)


def _module(code: FunctionCode, request: Request) -> str:
    return "\n".join([f"declare void @{request.symbol}(ptr, ptr, ptr)", *sorted(code.declarations), *code.lines])


def _link(texts: list[str], names: list[str], params: int) -> list[Callable[..., None]]:
    machine = target_machine(host_target())
    library = llvm.JITLibraryBuilder().add_current_process()
    for text in texts:
        library.add_object_img(machine.emit_object(optimized_module(text, host_target())))
    for name in names:
        library.export_symbol(name)
    tracker = library.link(_jit, f"benchmark.{len(_linked)}")
    _linked.append(tracker)
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * params)
    return [prototype(tracker[name]) for name in names]


def _random(request: Request) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [(request.m, request.k), (request.k, request.n)]
    shapes = [s[::-1] if t else s for s, t in zip(shapes, (request.transpose_a, request.transpose_b), strict=True)]
    made = [_aligned(s[0] * s[1], t).reshape(s) for s, t in zip(shapes, (request.a, request.b), strict=True)]
    for x in made:
        x[...] = rng.standard_normal(x.shape).astype(x.dtype)
    return [*made, _aligned(request.m * request.n, request.c).reshape(request.m, request.n)]


def _aligned(size: int, type: ScalarType) -> np.ndarray:
    """Zeros at the start of a cache line, as kernels have their tiles."""
    memory = np.zeros(size * type.bits // 8 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size * type.bits // 8].view(type.dtype)


def _addresses(*arrays: np.ndarray) -> list[int]:
    return [x.ctypes.data for x in arrays]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few repeats")
    parser.add_argument("--tiles", action="store_true", help="try many shapes of tiles for the large product")
    options = parser.parse_args()
    rounds, budget = (5, 0.2) if options.quick else (30, 2.0)
    print(format_header())
    figures = []
    for figure in measure(rounds, budget):
        print(format_figure(figure), flush=True)
        figures.append(figure)
    print(format_verdict(figures))
    if options.tiles:
        for type in (float32, float64):
            for tile in itertools.product((32, 64, 128, 256, 512), (64, 128, 256, 512), (32, 64, 128, 256)):
                print(format_figure(_large(type, tile, 5, 0.2)), flush=True)


if __name__ == "__main__":
    main()
