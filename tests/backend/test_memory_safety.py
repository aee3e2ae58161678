"""No compiled kernel touches memory outside its arrays, however hostile its indices are."""

from __future__ import annotations

import faulthandler
import itertools
import random
import sys
from pathlib import Path
from typing import Any

import guard_pages
import numpy as np
import pytest
from access_kernels import FakeArray, Program, TooLong, programs, run_thread
from compiled_variants import TARGETS, Compiled, Variant
from op_kernels import same

import jwarp as wp
from jwarp.backend.interpreter import machine
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings

VERSIONS = ("launcher", "checked")
LOWEST, LARGEST = -(2**31), 2**31 - 1
# One of each style: whole vectors peeled off, masks, one lane, and an old processor.
STYLES = [name for name in ("8 peeled", "16", "1", "sse", "avx2") if name in TARGETS]


# Kernels (x, y, n, m, at): x and y of one dimension, a scalar, m of two dimensions, hostile indices


@wp.kernel
def shifted(x: wp.array[float], y: wp.array[float], n: int, m: wp.array2d[float], at: wp.array[int]):
    i = wp.tid()
    y[i] = x[i - 3] + x[i + 5] + x[i + n] + x[n - i]


@wp.kernel
def unsigned_under_guard(x: wp.array[float], y: wp.array[float], n: int, m: wp.array2d[float], at: wp.array[int]):
    i = wp.tid()
    if i >= 5:
        y[i] = x[wp.uint32(i - 5)] + x[wp.uint8(i - 5)] + x[wp.int64(wp.uint32(i - 5))]


@wp.kernel
def wrapping_strides(x: wp.array[float], y: wp.array[float], n: int, m: wp.array2d[float], at: wp.array[int]):
    i = wp.tid()
    if i >= 4:
        y[i] = x[(i - 4) * 1073741824] + x[(i - 4) * 536870912] + m[(i - 4) * -1073741824, 0]


@wp.kernel
def narrowed(x: wp.array[float], y: wp.array[float], n: int, m: wp.array2d[float], at: wp.array[int]):
    i = wp.tid()
    y[i] = x[wp.int8(i * 7)] + x[int(wp.int8(i * 7)) // 2] + x[wp.uint8(i + n)]


@wp.kernel
def uniform(x: wp.array[float], y: wp.array[float], n: int, m: wp.array2d[float], at: wp.array[int]):
    i = wp.tid()
    total = 0.0
    if i > 2 and n > 0 and n < 6:
        total += x[n] + m[n, n - 1]
        y[n] = 2.0
    for _ in range(min(n, 3)):
        total += x[n] + x[7]
    y[i] = total


@wp.kernel
def one_axis_outside(x: wp.array[float], y: wp.array[float], n: int, m: wp.array2d[float], at: wp.array[int]):
    i = wp.tid()
    y[i] = m[0, i + n] + m[i, 0] + m[i + n, i] + m[i * 65536, i * 65536]


@wp.kernel
def stored_outside(x: wp.array[float], y: wp.array[float], n: int, m: wp.array2d[float], at: wp.array[int]):
    i = wp.tid()
    y[i + n] = 2.0
    y[n - 2 * i] = 2.0
    m[i, i + n] = 1.0
    m[n, i] = 1.0
    m[i * 2, 1] = 1.0


@wp.kernel
def gathered(x: wp.array[float], y: wp.array[float], n: int, m: wp.array2d[float], at: wp.array[int]):
    i = wp.tid()
    k = at[i]
    y[i] = x[k] + x[k + n] + x[k % len(x)] + x[wp.int64(k) * wp.int64(n)] + x[k // 3]
    m[k, i] = 3.0


@wp.kernel
def added(x: wp.array[float], y: wp.array[float], n: int, m: wp.array2d[float], at: wp.array[int]):
    i = wp.tid()
    y[at[i]] += 1.0
    y[i + n] += 1.0
    total = 0.0
    if i > 3:
        total = float(i)
        m[i, n - i] += 1.0
        y[n] += 1.0
    x[i] = total


@wp.kernel
def looped(x: wp.array[float], y: wp.array[float], n: int, m: wp.array2d[float], at: wp.array[int]):
    i = wp.tid()
    total = 0.0
    k = i - 3
    while k < i + 4:
        total += x[k]
        k += 2
    for j in range(min(at[i], 4) - 4, min(max(n, -9), 9)):
        total += x[j + i] + m[i, j]
    y[i] = total


HOSTILE = [
    shifted,
    unsigned_under_guard,
    wrapping_strides,
    narrowed,
    uniform,
    one_axis_outside,
    stored_outside,
    gathered,
    added,
    looped,
]
SCALARS = (0, 1, 5, -2, LARGEST, LOWEST)


def hostile_arguments(choose: np.random.Generator, n: int) -> tuple[tuple[int, ...], list[Any]]:
    dims = (int(choose.choice([1, 5, 20, 70])),)
    extents = choose.choice([0, 1, 3, dims[0], dims[0] + 1, 40], size=3)
    indices = choose.choice([0, 1, 2, -1, -3, 39, 40, LARGEST, LOWEST, 65536], size=dims[0])
    x, y = (choose.integers(1, 9, size=extents[k]).astype(np.float32) for k in range(2))
    m = choose.integers(1, 9, size=(extents[2], extents[0])).astype(np.float32)
    return dims, [x, y, n, m, indices.astype(np.int32)]


def run_hostile(kernel: Any, style: str) -> None:
    """One kernel on many arguments, in every version, against the machine."""
    choose = np.random.default_rng(1)
    made = CpuKernel(kernel.ir(), Settings(cache_dir=""))
    for version in VERSIONS:
        compiled = Compiled(made, Variant(style, version))
        for n, at_end in itertools.product(SCALARS, (True, False)):
            dims, args = hostile_arguments(choose, n)
            expected = machine.run(made.kernel, dims, args)
            print(kernel.name, style, version, dims, n, at_end, flush=True)
            for name, one, other in zip("xyma", guard_pages.run(compiled, dims, args, at_end), expected, strict=True):
                # Where threads store different values to one element, either may be the last.
                if kernel.name != "uniform" or name != "y":
                    assert same(one, other), f"{name} differs"


def run_random(program: Program, style: str, seed: int) -> None:
    """A random kernel on some launches, against its threads run one by one."""
    choose = random.Random(seed)
    made = CpuKernel(program.kernel.ir(), Settings(cache_dir=""))
    compiled = [Compiled(made, Variant(style, version)) for version in VERSIONS]
    for _ in range(6):
        dims = tuple(choose.choice((1, 3, 8, 19)) for _ in range(program.rank))
        x, m, y = (
            np.array([choose.randrange(1, 9) for _ in range(int(np.prod(shape)))], np.float32).reshape(shape)
            for shape in (random_shape(choose, dims, rank) for rank in (1, 2, 1))
        )
        n, s = choose.choice((0, 1, 3, 8, -1, LARGEST, LOWEST)), choose.choice((0, 1, -1, -128, 127))
        args = [x, m, n, s, y, np.zeros(dims, np.float32)]
        expected = [np.array(a) for a in args]
        views = [FakeArray(a.shape, a) if a.ndim else int(a) for a in expected]
        try:
            for coordinates in itertools.product(*map(range, dims)):
                run_thread(program.thread, coordinates, views)
        except TooLong:
            continue
        print(made.kernel.name, style, dims, n, s, flush=True)
        for one, at_end in itertools.product(compiled, (True, False)):
            results = guard_pages.run(one, dims, args, at_end)
            for result, k in zip(results, (0, 1, 4, 5), strict=True):
                np.testing.assert_array_equal(result, expected[k])


def random_shape(choose: random.Random, dims: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return tuple(max(0, choose.choice(dims) + choose.choice((-2, -1, 0, 0, 1, 5))) for _ in range(rank))


def main(part: str, folder: str) -> None:
    if part in STYLES:
        for kernel in HOSTILE:
            run_hostile(kernel, part)
    else:
        first, last = map(int, part.split("-"))
        seeds = range(first, last)
        for seed, program in zip(seeds, programs(seeds, Path(folder)), strict=True):
            run_random(program, STYLES[seed % len(STYLES)], seed)


@pytest.mark.parametrize("style", STYLES)
def test_hostile_indices(style: str, tmp_path: Path) -> None:
    guard_pages.check_script(__file__, style, str(tmp_path))


def test_random_kernels(tmp_path: Path) -> None:
    guard_pages.check_script(__file__, "0-24", str(tmp_path))


if __name__ == "__main__":
    faulthandler.enable()
    main(*sys.argv[1:])
