"""Lanes outside of a branch or loop keep what they have, whatever the branches inside do, with one choice for each."""

from __future__ import annotations

import re

import numpy as np
import pytest
from compiled_variants import TARGETS, VARIANTS, Compiled
from op_kernels import same

import jwarp as wp
from jwarp.backend.cpu.code import Options
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings


@wp.kernel
def taken_from_outside(x: wp.array[float], seen: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    step = 1.0
    last = x[i]
    trips = 0
    while x[i] * 10.0 > step:
        if x[(i + trips) % x.shape[0]] > 0.4:
            seen[i] = trips
            last = step
        else:
            seen[i] = -trips
        step = step * 1.5
        trips = trips + 1
    out[i] = last + step * 0.001


@wp.kernel
def nested(x: wp.array[float], seen: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    total = x[i]
    best = 7.0
    for k in range(i % 5):
        y = x[(i + k) % x.shape[0]]
        if y > 0.2:
            seen[i] = seen[i] + 1
            if y > 0.5:
                seen[i] = seen[i] + 2
                if y < best:
                    seen[i] = seen[i] + 3
                    best = y * 1.25
                    total = total + float(k)
                else:
                    seen[i] = seen[i] - 1
                    total = best
            else:
                total = total * 0.5
        elif y > 0.1:
            best = 3.0
    out[i] = total + best


@wp.kernel
def loops_in_branches(x: wp.array[float], seen: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    a = x[i]
    b = 2.0
    for k in range(3):
        if x[(i * 3 + k) % x.shape[0]] > 0.3:
            for m in range(i % 4):
                seen[i] = seen[i] + m
                if x[(i + m) % x.shape[0]] > 0.6:
                    a, b = b + 0.25, a
        else:
            j = 0
            while float(j) < a * 3.0:
                seen[i] = seen[i] - 1
                a = a - 0.125
                j = j + 1
            if seen[i] > 0:
                b = b * 0.75
                seen[i] = 0
    out[i] = a - b


def made(kernel) -> CpuKernel:
    return CpuKernel(kernel.ir(), Settings(cache_dir=""))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("kernel", [taken_from_outside, nested, loops_in_branches], ids=lambda kernel: kernel.name)
def test_every_width_gives_what_the_interpreter_gives(kernel, variant):
    prepared = made(kernel)
    for size in (1, 7, 16, 53):
        rng = np.random.default_rng(size)
        given = [rng.random(size, dtype=np.float32), np.zeros(size, np.int32), rng.random(size, dtype=np.float32)]
        expected = run(prepared.kernel, (size,), given)
        for result, wanted in zip(Compiled(prepared, variant).run((size,), given), expected, strict=True):
            assert same(result, wanted), f"{variant}, size {size}"


@wp.kernel
def deep(x: wp.array[float], seen: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    total = x[i]
    for k in range(i % 5):
        if x[k] > 0.1:
            seen[i] = 1
            if x[k] > 0.2:
                seen[i] = 2
                if x[k] > 0.3:
                    seen[i] = 3
                    total = total * total + 1.0
    out[i] = total


def test_what_the_innermost_branch_changes_is_chosen_there_alone():
    text = made(deep).text("fast", Options(TARGETS["16"]))
    assert len(re.findall(r"= select <16 x i1> %\w+, <16 x float>", text)) == 1
