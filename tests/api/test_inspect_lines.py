"""`wp.inspect` shows the user's source lines in the code for the processor, which is the same code as without them."""

import re
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import jwarp as wp
from jwarp.backend.cpu.target import host_target, target_machine
from jwarp.compiler.cpu import lower_kernel
from jwarp.compiler.program import program_of
from jwarp.config import config


@wp.func
def doubled(a: float):
    return wp.sqrt(a) * 2.0


@wp.kernel
def stretched(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    s = 0.0
    for j in range(i):
        s += x[j] * k
    if s > 3.0:
        s = doubled(s)
    y[i] = s - k * x[i]


@wp.kernel
def products(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    t = wp.tile_matmul(wp.tile_load(a, shape=(8, 8)), wp.tile_load(b, shape=(8, 8)))
    wp.tile_store(c, t * 2.0)


@wp.func
def turned(a: wp.mat33):
    u, s, v = wp.svd3(a)
    return u * wp.transpose(v) * s[0]


@wp.kernel
def polar(a: wp.array[wp.mat33], b: wp.array[wp.mat33]):
    i = wp.tid()
    b[i] = turned(turned(a[i]) + a[i])


def shown(text, comment):
    return {line.strip()[len(comment) :].strip() for line in text.splitlines() if line.strip().startswith(comment)}


@pytest.mark.parametrize("adjoint", [False, True], ids=["forward", "adjoint"])
@pytest.mark.parametrize("stage, comment", [("llvm", ";"), ("asm", "#")])
def test_every_line_that_computes_is_shown(stage, comment, adjoint):
    computing = ["s += x[j] * k", "if s > 3.0:", "y[i] = s - k * x[i]", "return wp.sqrt(a) * 2.0"]
    assert set(computing) <= set(map(str.strip, Path(__file__).read_text().splitlines()))
    found = shown(wp.inspect(stretched, stage, adjoint=adjoint), comment)
    assert set(computing) <= found


@pytest.mark.parametrize("kernel", [stretched, products, polar], ids=["plain", "tiles", "functions"])
def test_code_is_the_same_with_lines_as_without(kernel):
    """Also where functions are out of line, each of which has lines of its own."""
    assert bool(polar.ir().functions)
    made = lower_kernel(program_of(kernel, config.settings).kernel, config.settings)
    plain = target_machine(host_target()).emit_assembly(made.module())
    with_lines = wp.inspect(kernel, "asm")
    instructions = re.compile(r"^\t[a-z]\w*.*$", re.MULTILINE)
    assert instructions.findall(plain) == instructions.findall(with_lines) != []
    llvm.parse_assembly(wp.inspect(kernel, "llvm")).verify()
