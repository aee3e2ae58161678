"""Loops that count from the coordinate of a thread on, so that vectors of threads count together."""

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
def strided(x: wp.array2d[float], n: wp.array[int], y: wp.array2d[float], z: wp.array2d[float]):
    i, j = wp.tid()
    for k in range(j, n[0], 5):
        y[i, j] = y[i, j] + x[i, k] * float(k)
        if x[i, k] > 3.0:
            break
        z[i, k] = x[i, k] + 1.0
    for k in range(2 * j - 3, n[j % 4]):
        y[i, j] = y[i, j] + x[i, k + 1]
    for k in range(n[1] - j, -4, -3):
        y[i, j] = y[i, j] - x[i, k]


@wp.kernel
def wrapping(x: wp.array2d[float], n: wp.array[int], y: wp.array2d[float], z: wp.array2d[float]):
    i, j = wp.tid()
    for k in range(2147483630 + j, 2147483647, 7):
        y[i, j] = y[i, j] + float(k - 2147483600)
    for k in range(-2147483630 - j, -2147483647 - 1, -7):
        z[i, j] = z[i, j] + float(k + 2147483600)
    for k in range(2147483640 + j % 2, 2147483647):
        y[i, j] = y[i, j] + x[i, k - 2147483640]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_width_gives_what_the_interpreter_gives(variant):
    rng = np.random.default_rng(4)
    for kernel, columns in ((strided, 5), (strided, 17), (wrapping, 17)):
        made = CpuKernel(kernel.ir(), Settings(cache_dir=""))
        compiled = Compiled(made, variant)
        for width in (20, 39):
            x = rng.integers(-5, 5, (3, width)).astype(np.float32)
            n = rng.integers(0, 40, 4).astype(np.int32)
            y, z = np.zeros((3, columns), np.float32), np.zeros((3, width), np.float32)
            given = [x, n, y, z]
            for result, wanted in zip(
                compiled.run((3, columns), given), run(made.kernel, (3, columns), given), strict=True
            ):
                assert same(result, wanted), f"{made.kernel.name}, {width}"


def test_consecutive_elements_of_a_loop_are_one_load():
    made = CpuKernel(strided.ir(), Settings(cache_dir=""))
    ways = {way for found in made.generate("checked", made.options).ways.values() for way in found}
    assert made.options.target.width == 1 or "vector load" in ways
