"""Vectors with all lanes at work have code of their own, and rows ahead are fetched, with the same results."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from compiled_variants import TARGETS, VARIANTS, Compiled, Variant
from op_kernels import same

import jwarp as wp
from jwarp.backend.cpu.code import Options
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.ir.nodes import Op, walk

pytestmark = pytest.mark.quick


@wp.kernel
def sums(x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = x[i] + y[i]


@wp.kernel
def laplace(a: wp.array2d[float], n: int, out: wp.array2d[float]):
    i, j = wp.tid()
    if i > 0 and i < n - 1 and j > 0 and j < n - 1:
        out[i, j] = a[i - 1, j] + a[i, j - 1] + a[i + 1, j] + a[i, j + 1] - 4.0 * a[i, j]


@wp.kernel
def nested(x: wp.array[float], n: int, out: wp.array[float]):
    i = wp.tid()
    total = x[i]
    if n > 3:
        total += x[i + 1]
        if i % 40 < 37:
            total *= x[i]
            if x[i] > 0.1:
                total += x[i + 1]
            else:
                out[i] = total
    out[i] += total


@wp.kernel
def iterated(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    v = x[i]
    for _ in range(3):
        v = v * v + 0.1
        v = v * v - 0.1
        v = wp.min(v, 2.0 - v) * 0.5 + wp.max(v, 1.0 - v) * 0.25
        v = v * v * v + v * 0.5 - 0.125
        v = wp.abs(v - 0.5) * wp.abs(v + 0.5) + wp.sqrt(wp.abs(v)) * 0.5
    out[i] = v


def made(kernel) -> CpuKernel:
    return CpuKernel(kernel.ir(), Settings(cache_dir=""))


def text(kernel, target: str = "16") -> str:
    return made(kernel).text("fast", Options(TARGETS[target]))


def count(pattern: str, text: str) -> int:
    return len(re.findall(pattern, text))


PLAIN_LOAD, MASKED_LOAD = r"= load <16 x float>", r"= call .*@llvm\.masked\.load"
PLAIN_STORE, MASKED_STORE = r"  store <16 x float> %", r"  call void @llvm\.masked\.store"


def counts(text: str) -> list[int]:
    return [count(p, text) for p in (PLAIN_LOAD, MASKED_LOAD, PLAIN_STORE, MASKED_STORE)]


def test_full_vectors_have_no_masks():
    assert counts(text(sums)) == [2, 2, 1, 1]


def test_lanes_of_a_branch_that_are_all_at_work_have_none_either():
    loads_and_stores = counts(text(laplace))
    assert loads_and_stores[:3] == [5, 5, 1]


def test_long_computations_are_written_once():
    plain_loads, masked_loads, *_ = counts(text(iterated))
    assert (plain_loads, masked_loads) == (0, 1)


def arguments(kernel, size: int) -> tuple[tuple[int, ...], list]:
    rng = np.random.default_rng(size)
    shape = (size, size) if kernel is laplace else (size,)
    x, y, out = (rng.random(shape, dtype=np.float32) for _ in range(3))
    if kernel is sums:
        return shape, [x, y, out]
    return shape, [x, out] if kernel is iterated else [x, np.int32(size), out]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("kernel", [sums, laplace, nested, iterated], ids=lambda kernel: kernel.name)
def test_every_width_gives_what_the_interpreter_gives(kernel, variant):
    prepared = made(kernel)
    for size in (1, 3, 15, 17, 50):
        dims, given = arguments(kernel, size)
        expected = run(prepared.kernel, dims, given)
        for result, wanted in zip(Compiled(prepared, variant).run(dims, given), expected, strict=True):
            assert same(result, wanted), f"{variant}, size {size}"


@wp.kernel
def halves(x: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    out[i] = x[i] * wp.float64(0.5)


@wp.kernel
def rows(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = x[i, j] + float(i)


@wp.kernel
def read_back(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = x[i]
    x[i] = out[i] + 1.0


@pytest.fixture
def small_caches(monkeypatch):
    """A target with caches of 8 KiB, where longer arrays are stored past them."""
    monkeypatch.setitem(TARGETS, "small caches", dataclasses.replace(TARGETS["16"], past_caches=1 << 13))
    return "small caches"


def test_stores_past_the_caches_are_of_what_nothing_else_reads(small_caches):
    stores = {k.name: count("!nontemporal", text(k, small_caches)) for k in (sums, halves, rows, laplace, read_back)}
    assert stores == {"sums": 1, "halves": 1, "rows": 1, "laplace": 0, "read_back": 0}
    assert "!nontemporal" not in text(sums)


@pytest.mark.parametrize("kernel", [sums, halves, rows], ids=lambda kernel: kernel.name)
def test_stores_past_the_caches_give_what_the_interpreter_gives(kernel, small_caches):
    prepared, rng = made(kernel), np.random.default_rng(0)
    for columns in (1000, 3001, 4096):
        dims = (3, columns) if kernel is rows else (columns,)
        given = [rng.random(dims).astype(p.dtype.dtype) for p in prepared.kernel.params]
        expected = run(prepared.kernel, dims, given)
        for version in ("launcher", "checked"):
            found = Compiled(prepared, Variant(small_caches, version)).run(dims, given, threads=2)
            for result, wanted in zip(found, expected, strict=True):
                assert same(result, wanted), f"{columns} columns, {version}"


def fetched(kernel) -> list[tuple]:
    """The indices of the prefetches: an operation's name and its number, or the value's name."""
    body = made(kernel).proofs.kernel.body
    ops = {n.result: n for n in walk(body) if isinstance(n, Op) and n.result is not None}
    found = [n for n in walk(body) if isinstance(n, Op) and n.name == "prefetch"]
    return [tuple((ops[i].name, ops[i].args[1].value) for i in n.args) for n in found]


def test_of_a_grid_the_row_that_comes_last_is_fetched_ahead():
    assert fetched(laplace) == [(("add", 1), ("add", 1024))]


@wp.kernel
def one_row(a: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = a[i, j] + a[i, j + 1]


@wp.kernel
def columns(a: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = a[j, i] + a[j, i + 1]


@wp.kernel
def rows_in_turn(a: wp.array2d[float], n: int, out: wp.array2d[float]):
    i, j = wp.tid()
    total = a[0, 0]
    for k in range(n):
        total += a[i, j] * a[i + 1, j] + float(k)
    out[i, j] = total


@pytest.mark.parametrize("kernel", [sums, one_row, columns, rows_in_turn], ids=lambda kernel: kernel.name)
def test_nothing_else_is_fetched(kernel):
    assert fetched(kernel) == []


@wp.kernel
def vectors(a: wp.array2d[wp.vec3], flags: wp.array2d[bool], out: wp.array2d[wp.vec3]):
    i, j = wp.tid()
    v = a[i, j] - a[i + 1, j]
    here = flags[i, j]
    there = flags[i + 1, j]
    if here and there:
        v = v * 0.5
    out[i, j] = v


@wp.kernel
def layers(a: wp.array2d[float], out: wp.array3d[float]):
    i, j, k = wp.tid()
    out[i, j, k] = a[i, j] + a[i + 1, j] * float(k)


def test_what_threads_of_a_row_share_is_not_fetched():
    assert fetched(layers) == []


@pytest.mark.parametrize("target", ["4", "16", "16 peeled"])
@pytest.mark.parametrize("kernel", [vectors, layers], ids=lambda kernel: kernel.name)
def test_rows_of_other_arrays_give_what_the_interpreter_gives(kernel, target):
    prepared, rng, dims = made(kernel), np.random.default_rng(0), (3, 21) if kernel is vectors else (3, 5, 21)
    given = [rng.random((4, 21, 3), np.float32), rng.random((4, 21)) < 0.5, rng.random((3, 21, 3), np.float32)]
    if kernel is layers:
        given = [rng.random((4, 5), np.float32), rng.random(dims, np.float32)]
    for version in ("launcher", "checked"):
        found = Compiled(prepared, Variant(target, version)).run(dims, given)
        for result, wanted in zip(found, run(prepared.kernel, dims, given), strict=True):
            assert same(result, wanted), version
