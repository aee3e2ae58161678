"""Loops in which the threads of a vector load from row after row, four iterations at once, against the interpreter."""

import faulthandler

import guard_pages
import numpy as np
import pytest
from compiled_variants import VARIANTS, Compiled, Variant
from op_kernels import same

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.ir.nodes import For, walk

pytestmark = pytest.mark.quick


@wp.kernel
def products(a: wp.array3d[int], v: wp.array2d[int], n: int, skip: wp.array[int], y: wp.array2d[int]):
    w, row = wp.tid()
    if skip[row] != 0:
        return
    total = wp.int32(0)
    last = wp.int32(-1)
    for k in range(n):
        total += a[w, row, k] * v[w, k] - last
        last = a[w, row, k]
    y[w, row] = total * 3 + last


@wp.kernel
def stored(a: wp.array3d[int], v: wp.array2d[int], n: int, skip: wp.array[int], y: wp.array2d[int]):
    w, row = wp.tid()
    for k in range(n):
        y[w, row] += a[w, row, k]


def arguments(seed, dims, length):
    rng = np.random.default_rng(seed)

    def numbers(*shape):
        return rng.integers(-9, 9, shape).astype(np.int32)

    return (
        numbers(*dims, length),
        numbers(dims[0], length),
        (rng.random(dims[1]) < 0.3).astype(np.int32),
        numbers(*dims),
    )


def check(made, variant, dims, n, length):
    a, v, skip, y = arguments(length, dims, length)
    given = [a, v, np.int32(n), skip, y]
    expected = run(made.kernel, dims, given)
    for result, wanted in zip(Compiled(made, variant).run(dims, given), expected, strict=True):
        assert same(result, wanted), f"{variant}, dims {dims}, {n} of {length}"


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_number_of_trips(variant):
    made = CpuKernel(products.ir(), Settings(cache_dir=""))
    for n, length in ((0, 4), (1, 1), (3, 3), (4, 4), (7, 9), (13, 13), (9, 6), (-2, 5)):  # also past the end of rows
        check(made, variant, (2, 21), n, length)


def test_four_trips_are_made_at_once():
    made = CpuKernel(products.ir(), Settings(cache_dir=""))
    steps = sorted(n.step for n in walk(made.optimized().body) if isinstance(n, For))
    assert steps == [1, 4]
    if made.options.target.width >= 4:
        ways = {way for found in made.generate("fast", made.options).ways.values() for way in found}
        assert "loads + transpose" in ways


def test_loops_that_store_stay():
    loops = [n for n in walk(CpuKernel(stored.ir(), Settings(cache_dir="")).optimized().body) if isinstance(n, For)]
    assert [n.step for n in loops] == [1]


def run_between_fences() -> None:
    """On arrays next to pages that fault."""
    made, dims = CpuKernel(products.ir(), Settings(cache_dir="")), (2, 21)
    for version in ("launcher", "checked"):
        compiled = Compiled(made, Variant("16", version))
        for n, length, at_end in ((8, 8, True), (7, 7, True), (9, 6, True), (8, 8, False)):
            print(version, n, length, at_end, flush=True)
            a, v, skip, y = arguments(length, dims, length)
            given = [a, v, np.int32(n), skip, y]
            expected = run(made.kernel, dims, given)
            for result, wanted in zip(guard_pages.run(compiled, dims, given, at_end), expected, strict=True):
                assert same(result, wanted)


def test_no_access_leaves_the_arrays() -> None:
    guard_pages.check_script(__file__)


if __name__ == "__main__":
    faulthandler.enable()
    run_between_fences()
