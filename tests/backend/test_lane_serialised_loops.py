"""Lane-serialised loops, with the iterations inside of them as lanes, at several widths of vectors."""

# Annotations and casts are of the kernel language.
# ruff: noqa: UP018, RUF046

import numpy as np
import pytest
from compiled_variants import VARIANTS, Compiled

import jwarp as wp
from jwarp.analysis.lane_serialised import lane_serialised_loops
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.frontend.builtins.scalar import together
from jwarp.ir.nodes import For, While, walk

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(5)
N, WIDE = 37, 24


@wp.func
def least_above(table: wp.array[float], row: int, x: float):
    """The least of a row's numbers above x, and how many there are."""
    least = float(1.0e9)
    count = int(0)
    for k in range(together(WIDE)):
        y = table[row * WIDE + k]
        least = wp.min(least, wp.where(y > x, y, 1.0e9))
        count = count + wp.where(y > x, 1, 0)
    return least, count


@wp.kernel
def climbed(table: wp.array[float], starts: wp.array[float], rows: wp.array[int], top: wp.array2d[float]):
    """From row to row, each time to the least number above, as long as there are several."""
    i = wp.tid()
    for turn in range(2):
        x = starts[i] + float(turn)
        row = rows[i]
        steps = int(0)
        if x < 2.0:
            more = bool(True)
            while more:
                y, count = least_above(table, row, x)
                more = count > 2 and steps < 50
                if more:
                    x = y
                    steps += 1
                    row = (row + 1) % 4
        top[i, turn] = x + float(steps)


def expected(table, starts, rows):
    found = np.zeros((N, 2), np.float32)
    for i in range(N):
        for turn in range(2):
            x, row, steps = np.float32(starts[i] + turn), rows[i], 0
            while x < 2.0 or steps:
                own = table[row * WIDE : (row + 1) * WIDE]
                above = own[own > x]
                if len(above) <= 2 or steps >= 50:
                    break
                x, steps, row = above.min(), steps + 1, (row + 1) % 4
            found[i, turn] = x + np.float32(steps)
    return found


@pytest.mark.parametrize("variant", VARIANTS[::2], ids=str)
def test_searches_are_those_of_a_loop(variant):
    table = RNG.uniform(-1, 3, 4 * WIDE).astype(np.float32)
    starts, rows = RNG.uniform(-1, 2.5, N).astype(np.float32), RNG.integers(0, 4, N).astype(np.int32)
    given = (table, starts, rows, np.zeros((N, 2), np.float32))
    found = Compiled(climbed.ir(), variant).run((N,), given)[-1]
    np.testing.assert_array_equal(found, expected(table, starts, rows))
    np.testing.assert_array_equal(run(climbed.ir(), (N,), given)[-1], found)


def test_the_outermost_loops_that_change_nothing_are_run_thread_by_thread():
    kernel = CpuKernel(climbed.ir(), Settings(cache_dir="")).optimized()
    found = [node for node in walk(kernel.body) if node in lane_serialised_loops(kernel)]
    assert len(found) == 2 and all(isinstance(node, While) for node in found)
    assert [n.lanes for n in walk(kernel.body) if isinstance(n, For) and n.lanes is not None] == [("min", "add")] * 2
