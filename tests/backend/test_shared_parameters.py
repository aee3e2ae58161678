"""Parameters that all rows share, or each has its own: loads at remainders, against the interpreter."""

import itertools

import numpy as np
import pytest
from compiled_variants import VARIANTS, Compiled
from op_kernels import same

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings

pytestmark = pytest.mark.quick


@wp.kernel
def scaled(x: wp.array2d[float], factor: wp.array2d[float], shift: wp.array[wp.vec3], kind: wp.array[wp.bool],
           column: wp.array[int], n: int, y: wp.array2d[wp.vec3]):  # fmt: skip
    j, i = wp.tid()
    v = shift[i % shift.shape[0]] * factor[i % factor.shape[0], column[j]]
    if j > 2:
        v += shift[(i + j) % n] * x[i % n, j]
    if x[i, j] > 0.0 and kind[i % kind.shape[0]]:
        v = v * factor[i % n, (i - j) % factor.shape[1]] + shift[column[j] % n]
    y[i, j] = v


@wp.kernel
def guarded(x: wp.array2d[float], factor: wp.array2d[float], shift: wp.array[wp.vec3], kind: wp.array[wp.bool],
            column: wp.array[int], n: int, y: wp.array2d[wp.vec3]):  # fmt: skip
    j, i = wp.tid()
    if x[i, 0] > 5.0:
        y[i, j] = wp.vec3(factor[i % n, column[0]])


def arguments(seed, rows, parameters, n, inside):
    rng = np.random.default_rng(seed)

    def numbers(*shape):
        return rng.integers(-4, 5, shape).astype(np.float32)

    column = rng.integers(0, 7, 7) if inside else rng.integers(-20, 20, 7)
    kind = rng.random(parameters[2]) < 0.7
    return [
        numbers(rows, 7), numbers(parameters[0], 7), numbers(parameters[1], 3), kind, column.astype(np.int32),
        np.int32(n), numbers(rows, 7, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.target in ("16", "8 peeled", "4")], ids=str)
@pytest.mark.parametrize("kernel", [scaled, guarded], ids=lambda kernel: kernel.name)
def test_remainders_that_are_zero_and_others(kernel, variant):
    made = CpuKernel(kernel.ir(), Settings(cache_dir=""))
    compiled = Compiled(made, variant)
    cases = itertools.product((37,), ((1, 1, 1), (40, 1, 3), (1, 40, 40)), (1, 3, -1, 0), (True, False))
    for seed, (rows, parameters, n, inside) in enumerate(cases):
        given = arguments(seed, rows, parameters, n, inside)
        for result, wanted in zip(compiled.run((7, rows), given), run(made.kernel, (7, rows), given), strict=True):
            assert same(result, wanted), f"{rows} rows, {parameters} parameters, n {n}, inside: {inside}"


def test_one_load_for_all_threads():
    made = CpuKernel(guarded.ir(), Settings(cache_dir=""))
    generated = made.generate("checked", made.options)
    ways = [(found[0], found[-1]) for found in generated.ways.values()]
    assert made.options.target.width == 1 or ("scalar load", "gather") in ways
