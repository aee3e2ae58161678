"""Blocks that long kernels repeat, and scatters, are functions there: the interpreter's bits, at all widths."""

import re

import numpy as np
import pytest
from compiled_variants import TARGETS, VARIANTS, Compiled, Variant
from fuzz_profiles import ALL
from op_kernels import same

import jwarp as wp
from jwarp.analysis import repeats
from jwarp.backend.cpu import body
from jwarp.backend.cpu.code import Options
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.ir.nodes import Op, walk_all

SIZE = 37


@wp.func
def written(
    at: int,
    p: wp.vec3,
    weight: float,
    kind: int,
    points: wp.array2d[wp.vec3],
    sums: wp.array[float],
    kinds: wp.array[wp.int64],
    count: wp.array[int],
    total: wp.array[float],
):
    """It stores, adds, and looks at what it stored; some lanes return early."""
    if weight < 0.2:
        return p
    q = p * weight + points[kind % 3, at]
    points[kind % 3, at] = q
    if q[0] > 0.5:
        kinds[at - 2] = wp.int64(kind * 7)  # at times from the end
        wp.atomic_add(count, kind % 3, 1)
        total[0] += weight  # nothing else looks at it
        q = wp.cross(q, p)
    else:
        for k in range(wp.min(at, 3)):
            q = q + wp.vec3(weight, 0.25, points[kind % 3, at][1]) * float(k)
    sums[at] = wp.dot(q, p)  # at times outside
    return q / (1.0 + wp.length_sq(q))


@wp.kernel
def repeated(
    p: wp.array[wp.vec3],
    weight: wp.array[float],
    at: wp.array[int],
    flags: wp.array[wp.bool],
    one: int,
    points: wp.array2d[wp.vec3],
    sums: wp.array[float],
    kinds: wp.array[wp.int64],
    count: wp.array[int],
    total: wp.array[float],
    out: wp.array[wp.vec3],
):
    i = wp.tid()
    j = at[i]
    q = p[i]
    if flags[i]:  # some lanes
        q = written(j, q, weight[j], 0, points, sums, kinds, count, total)
        q = written(j + 1, q, weight[i], 1, points, sums, kinds, count, total)
    else:
        q = written(j, -q, weight[j + 1], 3, points, sums, kinds, count, total)
    if one > 0:  # all or none
        q = q + written(j + 1, q, 1.0 - weight[i], 2, points, sums, kinds, count, total)
    for k in range(j % 3):
        q = written(j, q + p[k], 0.5, one + k, points, sums, kinds, count, total)
    out[i] = q


def arguments(one):
    rng = np.random.default_rng(one)
    at = rng.permutation(SIZE + 1)[:SIZE] * 2  # threads have elements of their own
    given = [
        rng.normal(size=(SIZE, 3)),
        rng.uniform(size=2 * SIZE + 4),
        at,
        rng.uniform(size=SIZE) < 0.5,
        one,
        rng.normal(size=(3, 2 * SIZE + 2, 3)),
        rng.normal(size=2 * SIZE - 3),
        rng.integers(0, 5, 2 * SIZE + 4),
        np.zeros(3),
        np.zeros(1),
        np.zeros((SIZE, 3)),
    ]
    return [np.asarray(x, param.dtype.dtype) for x, param in zip(given, repeated.ir().params, strict=True)]


@pytest.fixture
def made(monkeypatch):
    """The kernel, as if it were a long one."""
    monkeypatch.setattr(body, "MAX_NODES_IN_LINE", 0)
    monkeypatch.setattr(repeats, "LEAST_SAVED", 1)
    return CpuKernel(repeated.ir(), Settings(cache_dir=""))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_as_the_interpreter(made, variant):
    compiled = Compiled(made, variant)
    for one in (0, 2):
        given = arguments(one)
        results, wanted = compiled.run((SIZE,), given), run(made.kernel, (SIZE,), given)
        for k, (result, expected) in enumerate(zip(results, wanted, strict=True)):
            if k == 8:  # the order of additions
                np.testing.assert_allclose(result, expected, rtol=1e-5)
            else:
                assert same(result, expected), f"one: {one}, array {k}"


def test_blocks_are_written_once(made):
    """All five copies are functions, whose constants differ; stores to three components are one call."""
    options = Options(TARGETS["8 peeled"])
    generated = made.generate("checked", options)
    calls = re.findall(r"call fastcc \{.*block\.(\d+)", generated.text)
    assert max(calls.count(number) for number in calls) >= 3
    assert re.search(r"call fastcc void @store\.float32\.3\.0\.1\.2\.int32", generated.text)


def test_every_access_is_explained(made):
    generated = made.generate("checked", Options(TARGETS["8 peeled"]))
    for node in walk_all(made.proofs.kernel):
        if isinstance(node, Op) and node.row.is_access:
            assert generated.ways[node], node


def test_short_kernels_have_none():
    text = CpuKernel(repeated.ir(), Settings(cache_dir="")).generate("checked", Options(TARGETS["8 peeled"])).text
    assert "block." not in text and "@store." not in text


@wp.kernel
def casts(x: wp.array[int], at: wp.array[int], small: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    j = at[i]
    if x[j] > 3:
        if x[j] > 5:
            y[j] = int(wp.uint8(x[j] * 91)) + small[1]
        else:
            y[j] = int(wp.int8(x[j] * 91)) + small[2]
    else:
        if x[j] > 1:
            y[j] = int(wp.uint8(x[j] * 91)) + small[0]
        else:
            for k in range(x[j] + 2):
                if k % 2 == 0:
                    y[j] = y[j] + int(wp.int8((x[j] + k) * 91)) + small[3]


@wp.func
def inner(x: float, at: int, row: int, y: wp.array2d[float]):
    if x > 0.25:
        y[row, at] = y[row, at] + x
        return x * x + 0.5 * y[row, at]
    return x


@wp.func
def outer(x: float, at: int, row: int, y: wp.array2d[float]):
    if x > -0.25:
        y[row, at] = y[row, at] - 0.5 * x
        return inner(x + 0.125, at, row, y) - x
    return x


@wp.kernel
def nested(x: wp.array[float], at: wp.array[int], y: wp.array2d[float], z: wp.array[float]):
    i = wp.tid()
    z[i] = outer(x[i], at[i], 0, y) + outer(x[at[i]], at[i], 1, y) + inner(x[i], at[i], 2, y)


def test_functions_of_other_copies(monkeypatch):
    """A block with other constants than its copies contains a copy of another block."""
    monkeypatch.setattr(body, "MAX_NODES_IN_LINE", 0)
    for name, value in (("LEAST_SAVED", -(10**9)), ("LEAST_SIZE", 1)):
        monkeypatch.setattr(repeats, name, value)
    made = CpuKernel(nested.ir(), Settings(cache_dir=""))
    rng = np.random.default_rng(0)
    given = [rng.normal(size=SIZE), rng.permutation(SIZE), rng.normal(size=(3, SIZE)), np.zeros(SIZE)]
    given = [np.asarray(x, param.dtype.dtype) for x, param in zip(given, nested.ir().params, strict=True)]
    results, wanted = Compiled(made, Variant("4")).run((SIZE,), given), run(made.kernel, (SIZE,), given)
    assert all(same(result, x) for result, x in zip(results, wanted, strict=True))


@pytest.mark.parametrize("target", list(TARGETS)[:: 1 if ALL else 3])
def test_every_block_is_a_function(monkeypatch, target):
    """Casts to other types are no copies; blocks in blocks are called by functions."""
    monkeypatch.setattr(body, "MAX_NODES_IN_LINE", 0)
    for name, value in (("LEAST_SAVED", -(10**9)), ("LEAST_SIZE", 1), ("LEAST_COPIES", 1)):
        monkeypatch.setattr(repeats, name, value)
    made = CpuKernel(casts.ir(), Settings(cache_dir=""))
    assert "casts.block." in made.generate("checked", Options(TARGETS[target])).text
    rng = np.random.default_rng(0)
    given = [rng.integers(-5, 9, SIZE), rng.permutation(SIZE), np.arange(4), np.zeros(SIZE)]
    given = [np.asarray(x, np.int32) for x in given]
    for result, wanted in zip(
        Compiled(made, Variant(target, "checked")).run((SIZE,), given), run(made.kernel, (SIZE,), given), strict=True
    ):
        assert same(result, wanted)
    made = CpuKernel(repeated.ir(), Settings(cache_dir=""))
    given = arguments(2)
    results, expected = Compiled(made, Variant(target)).run((SIZE,), given), run(made.kernel, (SIZE,), given)
    assert all(same(result, x) for k, (result, x) in enumerate(zip(results, expected, strict=True)) if k != 8)
