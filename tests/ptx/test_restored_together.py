"""Adjoints of loops that overwrite an array by tiles and read it again: what lanes kept, a block restores together."""

import re

import numpy as np
import pytest
from ptx_memory import Fault
from ptx_running import PLAIN, PtxKernel

import jwarp as wp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.cuda.records import grows, restored_together
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.program import program_of

pytestmark = pytest.mark.usefixtures("compiler")
ROWS, COLUMNS, TRIPS = 3, 24, 3


@wp.kernel
def relaxed(n: int, states: wp.array2d[int], x: wp.array2d[float]):
    i, _ = wp.tid()
    for _ in range(n):
        wp.tile_store(x[i], wp.tile_map(wp.sin, wp.tile_load(x[i], shape=11)) * 1.5)


@wp.func
def following(state: int) -> int:
    return (state * 5 + 3) % 17


@wp.kernel
def weighted(n: int, states: wp.array2d[int], x: wp.array2d[float]):
    """Another thread saves an element of `states` in each turn."""
    i, _ = wp.tid()
    for k in range(n):
        weights = wp.tile_astype(wp.tile_load(states[i], shape=9, offset=k), float) * 0.1
        wp.tile_store(x[i], wp.tile_map(wp.sin, wp.tile_load(x[i], shape=9) * weights))
        wp.tile_store(states[i], wp.tile_map(following, wp.tile_load(states[i], shape=9, offset=k)), offset=k)
        wp.tile_store(states[i], wp.tile_map(following, wp.tile_load(states[i], shape=7, offset=k + 3)), offset=k + 3)
        wp.tile_store(states[i], wp.tile_load(states[i], shape=8, offset=k), offset=k + 2)


@pytest.mark.parametrize(("kernel", "arrays"), [(relaxed, 1), (weighted, 2)])
@pytest.mark.parametrize(("block", "version"), [(4, "flat checked"), (32, "flat checked"), (16, "either")])
def test_loops_that_overwrite_by_tiles(kernel, arrays, block, version):
    """With fewer threads than elements, and with more; in any order of the threads between barriers."""
    made = adjoint_of(kernel, block, version)
    assert len(restored_together(made.made.proofs.kernel)) == arrays and grows(made.made.kernel)
    given = values_of(made, block)
    expected = run(made.made.kernel, (ROWS,), given)
    for order in (0, -1, 5):
        for found, right in zip(made.run((ROWS,), given, order, blocks=2), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=2e-5, atol=1e-6)
    names = [p.name for p in made.kernel.params]
    gradient, cotangent = expected[names.index("adj_x")], given[names.index("adj_x")]
    assert np.isfinite(gradient).all() and np.abs(gradient - cotangent).max() > 0.1


def adjoint_of(kernel, block, version, edits=None):
    program, _ = program_of(kernel, PLAIN).arranged((ROWS, block), block)
    return PtxKernel(vjp(program.kernel, [2], [2]).kernel, version, edits=edits)


def values_of(made, seed):
    rng = np.random.default_rng(seed)
    x, cotangent = rng.uniform(0.2, 1.0, size=(2, ROWS, COLUMNS)).astype(np.float32)
    values = {
        "n": np.int32(TRIPS), "states": rng.integers(0, 17, x.shape).astype(np.int32), "x": x, "adj_x": cotangent,
        "claim_x": np.zeros(x.shape, np.uint32),
    }  # fmt: skip
    return [values[p.name] for p in made.kernel.params]


# How a turn ends, in the text that is made.
TURN = r"if \(log\d+_places\[log\d+_size\] >= 0\) states\[.*(?:\s*(?:#line.*|\}))*\s*__syncthreads\(\);"


@pytest.mark.parametrize("block", [4, 32])
def test_turns_without_a_barrier_are_found(block):
    """Another thread restores an element in each turn."""
    text = adjoint_of(weighted, block, "flat checked").unit.text
    ends = [m.group() for m in re.finditer(TURN, text) if text.count(m.group()) == 1]
    assert len(ends) == 2
    for end in ends:
        made = adjoint_of(weighted, block, "flat checked", {end: end.replace("__syncthreads();", "")})
        with pytest.raises(Fault, match="race: thread .* st.global"):
            made.run((ROWS,), values_of(made, block), blocks=2)
