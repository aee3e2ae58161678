"""Compiles and runs damaged programs of custom calls, next to pages that fault; a process of its own for the tests.

`python hostile_programs.py FIRST LAST` prints the number of each program before it runs, and at the end how many ran.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sys
import zlib

import numpy as np
from compiled_variants import whole_launch
from guard_pages import Fenced

import jwarp as wp
from jwarp import _native
from jwarp.compiler.cpu import CpuKernel, compile_program
from jwarp.compiler.derive import Variant, derive
from jwarp.compiler.order import in_one_order
from jwarp.compiler.program import program_of
from jwarp.config import Settings, config
from jwarp.ir.nodes import Kernel, written_params
from jwarp.ir.serialize import FORMAT, MAGIC, from_bytes

SECONDS_EACH = 2.0  # of processor time


@wp.kernel
def gather(x: wp.array[float], at: wp.array[int], k: int, y: wp.array[float]):
    i = wp.tid()
    if i + k < x.shape[0] and i + k >= 0:
        y[i] = x[i + k] + x[at[i]]
    if i > 0:
        wp.atomic_add(y, i - 1, 1.0)


@wp.kernel
def smooth(x: wp.array2d[float], steps: int, y: wp.array2d[float]):
    i, j = wp.tid()
    kept = wp.zeros(shape=4, dtype=float)
    for s in range(steps):
        kept[s % 4] = kept[s % 4] + x[i, j] * float(s)
        if j > 0 and j < x.shape[1] - 1:
            y[i, j] = y[i, j] * x[i, j - 1] + wp.sin(y[i, j]) * kept[s % 4]


@wp.kernel
def turn(m: wp.array[wp.mat33], v: wp.array[wp.vec3], k: float, out: wp.array[wp.vec3], total: wp.array[float]):
    i = wp.tid()
    w = m[i] @ v[i]
    w[0] = w[0] * k
    out[i] = w
    total[0] += wp.dot(w, w)


@wp.kernel
def placed(x: wp.array[float], steps: int, n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    for _ in range(steps):
        place = wp.atomic_add(n, i % 2, 1)
        v = v * x[i] + float(place)
        y[place] = v


def bases() -> list[tuple[Kernel, str]]:
    """Kernels with the bounds that their programs claim: values and gradients, checked and not."""
    found = []
    for kernel in (gather, smooth, turn, placed):
        program = program_of(kernel, config.settings)
        if program.counters:
            program = program.running(in_one_order)
        written = program.written
        floats = tuple(p for p, param in enumerate(program.kernel.params) if param.dtype.is_float and p not in written)
        adjoint = derive(program, Variant("adjoint", floats, written)).program.kernel
        found += [(k, bounds) for k in (program.kernel, adjoint) for bounds in ("safe", "unchecked")]
    return found


def content_of(made: CpuKernel) -> list:
    return json.loads(zlib.decompress(made.program.partition(b"\n")[2][len(MAGIC) + 1 :]))


def places(content):
    for index, item in enumerate(content):
        yield content, index
        if isinstance(item, list):
            yield from places(item)


NUMBERS = (-(2**31), -7, -1, 0, 1, 2, 3, 5, 1000, 2**31 - 1)


def damage(content: list, rng: random.Random) -> None:
    """Change one or two places so that what comes out has a chance to be a program."""
    spots = [s for s in places(content) if not isinstance(s[0][s[1]], list)]
    for _ in range(rng.randint(1, 2)):
        where, index = rng.choice(spots)
        old = where[index]
        same = [w[k] for w, k in spots if k < len(w) and type(w[k]) is type(old)]
        if isinstance(old, int) and not isinstance(old, bool) and rng.random() < 0.4:
            where[index] = rng.choice((*NUMBERS, old - 1, old + 1))
        elif isinstance(old, (int, str)):
            where[index] = rng.choice(same)
    if rng.random() < 0.3:
        blocks = [w[k] for w, k in places(content) if isinstance(w[k], list) and len(w[k]) > 2]
        block = rng.choice(blocks)
        if rng.random() < 0.5:
            del block[rng.randrange(len(block))]
        else:
            block.insert(rng.randrange(len(block)), json.loads(json.dumps(rng.choice(block))))


def launch(made: CpuKernel, fingerprint: str, rng: random.Random, at_end: bool) -> None:
    """Run with more threads than there are elements, and indices that point anywhere."""
    kernel, written = made.kernel, written_params(made.kernel)
    values = np.random.default_rng(rng.randrange(2**32))
    arrays = []
    for param in kernel.params:
        element = param.type.components if param.is_array else ()
        shape = (*([rng.choice((1, 2, 9))] * param.type.dims), *element) if param.is_array else ()
        if param.name == "steps":
            data = values.integers(-1, 6, shape)  # of a loop
        elif param.dtype.is_int:
            data = values.choice([-(2**31), -5, -1, 0, 1, 4, 8, 2**31 - 1], shape)
        else:
            data = values.standard_normal(shape)
        arrays.append(np.asarray(data).astype(param.dtype.dtype))
    dims = [rng.choice((1, 5, 9, 40)) for _ in range(kernel.tid_dims)]
    fenced = [Fenced(array, at_end).array for array in (*arrays, *(arrays[p] for p in written))]
    with contextlib.suppress(RuntimeError):  # a check of its own
        _native.run_launch(fingerprint, whole_launch(kernel, dims), fenced, 1)


def main(first: int, last: int) -> None:
    kernels = bases()
    outcomes = {"ran": 0, "refused": 0}
    for number in range(first, last):
        rng = random.Random(number)
        kernel, bounds = rng.choice(kernels)
        made = CpuKernel(kernel, Settings(cache_dir="", bounds=bounds))
        content = content_of(made)
        if number >= len(kernels):
            damage(content[0], rng)  # all but where it is written
        body = MAGIC + bytes([FORMAT]) + zlib.compress(json.dumps(content).encode())
        header = made.program.partition(b"\n")[0]
        try:
            damaged = CpuKernel(from_bytes(body), Settings(cache_dir="", bounds=bounds))
            print(number, flush=True)
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_EACH)
            for version in ("fast", "checked"):
                compile_program(damaged.fingerprint, header + b"\n" + body, version)
            for at_end in (True, False):
                launch(damaged, damaged.fingerprint, rng, at_end)
            outcomes["ran"] += 1
        except (ValueError, MemoryError):
            outcomes["refused"] += 1
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    print("done", outcomes["ran"], outcomes["refused"])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
