"""The smallest kernels that once went wrong under the random tests, in every way of compiling them."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from compiled_variants import VARIANTS, Compiled
from kernel_sources import load
from op_kernels import same
from thread_oracle import run_threads

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings

pytestmark = pytest.mark.quick

HEADER = "from __future__ import annotations\nimport jwarp as wp\n"
X = np.array([3, -1, 0, 5, -2, 7, 1, 4, -8, 2, 6, -3, 9, 0, -1, 8, 2, 2, 5], np.int32)

KERNELS = {
    "an early return of the kernel": """
        @wp.kernel
        def kernel(x: wp.array[int], y: wp.array[int]):
            i = wp.tid()
            if x[i] > 2:
                y[i] = -1
                return
            y[i] = x[i]
    """,
    "an atomic addition in a branch that changes a variable": """
        @wp.kernel
        def kernel(x: wp.array[int], y: wp.array[int]):
            i = wp.tid()
            v = x[i]
            if v > 2:
                y[v] += 1
                v = 100 // v
            y[i + 10] += v
    """,
    "a store to one element in a branch that changes a variable": """
        @wp.kernel
        def kernel(x: wp.array[int], y: wp.array[int]):
            i = wp.tid()
            v = x[i]
            if i < 5:
                y[x[2]] = 7
                v = -v
            y[i + 1] = v
    """,
    "a divisor that is zero only where a shift is too wide": """
        @wp.kernel
        def kernel(x: wp.array[int], y: wp.array[int]):
            i = wp.tid()
            y[i] = int((wp.uint64(31) // (wp.uint64(31) << wp.uint64(x[i]))) % wp.uint64(1000))
            y[i] += int((wp.int64(31) % (wp.int64(31) << wp.int64(x[i]))) + wp.int64(-5) / (wp.int64(3) << wp.int64(i)))
    """,
    "a chain of comparisons that ends before an access outside the array": """
        @wp.kernel
        def kernel(x: wp.array[int], y: wp.array[int]):
            i = wp.tid()
            if 10 < x[i] < x[i + 30]:
                y[i] = 1
    """,
    "a typed variable of an unrolled loop": """
        @wp.kernel
        def kernel(x: wp.array[int], y: wp.array[int]):
            i = wp.tid()
            total = wp.int64(0)
            for k in range(wp.int64(3)):
                total += k * wp.int64(x[i])
            y[i] = int(total)
    """,
    "counting down without a sign": """
        @wp.kernel
        def kernel(x: wp.array[int], y: wp.array[int]):
            i = wp.tid()
            for k in range(wp.uint8(x[i] & 7), wp.uint8(1), -2):
                y[i] += int(k)
            for m in range(wp.uint32(9), wp.uint32(x[i] & 3), -1):
                if m == wp.uint32(4):
                    break
                y[i] += int(m)
    """,
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_went_wrong(name, tmp_path):
    source = HEADER + textwrap.dedent(KERNELS[name])
    dims, arguments = X.shape, (X, np.zeros(len(X) + 8, np.int32))
    expected, inside = run_threads(source, dims, arguments)
    for max_unroll in (0, 16):
        settings = Settings(cache_dir="", max_unroll=max_unroll)
        ir = load(source, tmp_path).ir(settings)
        assert all(map(same, run(ir, dims, arguments), expected))
        made = CpuKernel(ir, settings)
        if inside:  # then the launch must not be refused
            made.check(dims, tuple(a.shape for a in arguments))
        for variant in VARIANTS[:: 1 if max_unroll else 3]:
            results = Compiled(made, variant).run(dims, arguments)
            assert all(map(same, results, expected)), str(variant)


@wp.kernel
def emptied(x: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    v = x[i]
    x[i] = 0.0
    wp.atomic_add(total, 0, v)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_sum_of_what_elements_held_before_they_were_overwritten(variant):
    for n in (1, 5, 40):
        x = np.random.default_rng(n).integers(1, 50, n).astype(np.float32)
        after, total = Compiled(emptied.ir(), variant).run((n,), [x, np.zeros(1)])
        assert (not after.any(), total[0]) == (True, x.sum())
