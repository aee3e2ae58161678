"""Checks in kernels: each fires for the right line and thread in every way of compiling, and for no correct kernel."""

import random
import re
import warnings

import numpy as np
import pytest
from compiled_variants import VARIANTS, Compiled
from kernel_sources import Writer, load
from op_kernels import same
from thread_oracle import run_threads

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.compiler.program import program_of
from jwarp.config import Settings
from jwarp.errors import KernelWarning
from jwarp.ir.verify import verify

DEBUG = Settings(cache_dir="", debug=True)
NARROW = [v for v in VARIANTS if v.version == "launcher"]


@wp.func
def positive(v: float):
    if v > 0.25:
        return v


@wp.kernel
def gathered(x: wp.array[float], k: wp.array[int], n: int, y: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.5:
        for _ in range(n):
            y[i] = x[k[i]]  # bounds


@wp.kernel
def asserted(x: wp.array[float], k: wp.array[int], n: int, y: wp.array[float]):
    i = wp.tid()
    steps = 0
    while steps < n + i % 3:
        if x[i] > 0.5:
            assert k[i] < y.shape[0], "outside"  # assertion
        steps += 1
    y[i] = float(steps)


@wp.kernel
def square_root(x: wp.array[float], k: wp.array[int], n: int, y: wp.array[float]):
    i = wp.tid()
    if k[i] >= y.shape[0]:
        if n > 0:
            y[i] = wp.sqrt(-x[i])  # NaN
    else:
        y[i] = wp.sqrt(x[i]) if x[i] > 0.0 else 0.0


@wp.kernel
def unset(x: wp.array[float], k: wp.array[int], n: int, y: wp.array[float]):
    i = wp.tid()
    if n > 0 and k[i] < y.shape[0]:
        a = x[i]
    if x[i] > 0.5:
        y[i] = a  # no value


@wp.kernel
def unset_in_a_loop(x: wp.array[float], k: wp.array[int], n: int, y: wp.array[float]):
    i = wp.tid()
    for j in range(n):
        if k[i] < y.shape[0]:
            last = x[i] + float(j)
    y[i] = last  # no value


@wp.kernel
def without_result(x: wp.array[float], k: wp.array[int], n: int, y: wp.array[float]):
    i = wp.tid()
    if k[i] < y.shape[0]:
        y[i] = positive(x[i])
    else:
        y[i] = positive(0.1 * x[i])  # no value


KERNELS = {
    gathered: "index outside of `x`",
    asserted: "assertion failed: outside",
    square_root: "`sqrt` gives NaN",
    unset: "`a` has no value here",
    unset_in_a_loop: "`last` has no value here",
    without_result: "`positive` returns no value",
}


def line_of(kernel, mark):
    lines, first = kernel.source.tree.body, kernel.span.line
    with open(kernel.span.file) as file:
        text = file.read().splitlines()
    return next(k for k in range(first, lines[-1].end_lineno + 99) if mark in text[k - 1])


def with_shadows(program, args):
    """The arguments with the arrays that the checks of a kernel need."""
    return [*args, *(np.zeros(np.shape(args[p]), np.uint32) for p in program.shadowed)]


@pytest.fixture(scope="module", params=KERNELS, ids=lambda kernel: kernel.name)
def checked(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        program = program_of(request.param, DEBUG)
    verify(program.kernel)
    made = CpuKernel(program.kernel, DEBUG)
    return request.param, program, {variant: Compiled(made, variant) for variant in NARROW}


@pytest.mark.parametrize("seed", range(4))
def test_the_first_thread_that_fails_is_named(checked, seed):
    kernel, program, compiled = checked
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 300))
    x = rng.uniform(0.6, 1.0, n).astype(np.float32)
    k = rng.integers(0, n, n).astype(np.int32)
    args = with_shadows(program, [x, k, 3, np.zeros(n, np.float32)])
    wanted = run(program.kernel, (n,), args)
    for variant, code in compiled.items():
        for one, other in zip(code.run((n,), args, threads=2), wanted, strict=True):
            assert same(one, other), variant

    failing = sorted(int(t) for t in rng.choice(np.arange(n), 3, replace=False))
    k[failing] = n
    mark = {"index": "# bounds", "asse": "# assertion", "`sqr": "# NaN"}.get(KERNELS[kernel][:4], "# no value")
    mark = "# bounds" if kernel is gathered else mark
    text = f"{kernel.name}': test_checks.py:{line_of(kernel, mark)}: {KERNELS[kernel]}, thread ({failing[0]})"
    with pytest.raises(RuntimeError, match=re.escape(text)):
        run(program.kernel, (n,), args)
    for code in compiled.values():
        for threads in (1, 2, 8):
            with pytest.raises(RuntimeError, match=re.escape(text) + "$"):
                code.run((n,), args, threads=threads)


@wp.kernel
def shifted(x: wp.array2d[float], dy: int, dx: int, y: wp.array2d[float]):
    i, j = wp.tid()
    if x[i, j] > 0.5:
        y[i, j] = x[i + dy, j + dx]


def test_the_place_in_several_dimensions_is_right():
    program = program_of(shifted, DEBUG)
    made = CpuKernel(program.kernel, DEBUG)
    rng = np.random.default_rng(3)
    for variant in random.Random(3).sample(NARROW, min(4, len(NARROW))):
        code = Compiled(made, variant)
        for dy, dx in [(1, 0), (0, 1), (2, 3), (-40, 0), (0, -60)]:
            x = rng.uniform(0.0, 1.0, (13, 37)).astype(np.float32)
            args = with_shadows(program, [x, dy, dx, np.zeros_like(x)])
            rows, columns = np.nonzero(x > 0.5)
            outside = (rows + dy >= 13) | (rows + dy < -13) | (columns + dx >= 37) | (columns + dx < -37)
            place = f"thread ({rows[outside][0]}, {columns[outside][0]})"
            for threads in (1, 2):
                with pytest.raises(RuntimeError, match=re.escape(place)):
                    code.run(x.shape, args, threads=threads)


@wp.kernel
def same_element(x: wp.array[float], k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[k[i]] = x[i]
    y[k[i]] = y[k[i]] * 0.5


@wp.kernel
def reads_others(x: wp.array[float], k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + y[k[i]]


@wp.kernel
def writes_after_others_read(x: wp.array[float], k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    before = y[k[i]]
    if x[i] > 0.0:
        y[i] = before


@wp.kernel
def mixes(x: wp.array[float], k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(y, k[i], x[i])
    y[i] = 1.0


@wp.kernel
def reads_sums(x: wp.array[float], k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(y, k[i], x[i])
    wp.atomic_max(y, k[i], y[i])


@wp.kernel
def components(x: wp.array[float], k: wp.array[int], y: wp.array[wp.vec2]):
    i = wp.tid()
    y[k[i]].x = x[i]
    y[i].y = x[i]


RACES = {
    same_element: "stores to an element of `y` that another thread stores to",
    reads_others: "an element of `y` that another thread",
    writes_after_others_read: "an element of `y` that another thread",
    mixes: "an element of `y` that another thread",
    reads_sums: "an element of `y` that another thread",
    components: "stores to an element of `y` that another thread stores to",
}


@pytest.mark.parametrize("kernel", RACES, ids=lambda kernel: kernel.name)
def test_races_and_their_absence(kernel):
    program = program_of(kernel, DEBUG)
    made = CpuKernel(program.kernel, DEBUG)
    rng = np.random.default_rng(5)
    n = 203
    x = rng.uniform(0.1, 1.0, n).astype(np.float32)
    y = rng.uniform(0.1, 1.0, (n, 2) if kernel is components else n).astype(np.float32)
    alone = np.arange(n, dtype=np.int32)
    plain = CpuKernel(kernel.ir(), Settings(cache_dir=""))
    for variant in random.Random(1).sample(NARROW, min(4, len(NARROW))):
        code = Compiled(made, variant)
        for threads in (1, 2, 8):
            expected = Compiled(plain, variant).run((n,), [x, alone, y])
            found = code.run((n,), with_shadows(program, [x, alone, y]), threads=threads)
            assert all(same(a, b) for a, b in zip(found, expected, strict=False))
            for first, second in [(3, 4), (0, n - 1), (64, 128), (150, 20)]:
                shared = alone.copy()
                shared[first] = second
                with pytest.raises(RuntimeError, match=f"test_checks.py:[0-9]+: race: this thread .*{RACES[kernel]}"):
                    code.run((n,), with_shadows(program, [x, shared, y]), threads=threads)


@wp.kernel
def own_element(x: wp.array[float], y: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]
    for _ in range(20):
        y[i] = y[i] * 0.5
    y[i] += y[i]
    wp.atomic_add(total, 0, x[i])
    wp.atomic_max(total, 1, x[i])


def test_a_repeated_thread_is_another_thread():
    program = program_of(own_element, DEBUG)
    code = Compiled(CpuKernel(program.kernel, DEBUG), NARROW[1])
    x = np.random.default_rng(2).uniform(1, 2, 50).astype(np.float32)
    args = with_shadows(program, [x, np.zeros_like(x), np.zeros(2, np.float32)])
    code.run((50,), args)
    with pytest.raises(RuntimeError, match=r"race: .* thread \(0\)"):
        code.run((50, 2), args)


@pytest.mark.parametrize("inside", [True, False])
def test_random_kernels_fail_where_an_access_is_outside_and_else_give_the_same(tmp_path, inside):
    tried, seed = 0, 1000
    while tried < 5:
        seed += 1
        rng = random.Random(seed)
        generated = Writer(rng).kernel()
        if "float16" in generated.source or generated.is_elementary:
            continue
        expected, all_inside = run_threads(generated.source, generated.dims, generated.arguments)
        if all_inside != inside:
            continue
        tried += 1
        kernel = load(generated.source, tmp_path)
        for settings in (Settings(cache_dir="", bounds="error"), DEBUG):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", KernelWarning)
                program = program_of(kernel, settings)
            verify(program.kernel)
            args = with_shadows(program, generated.arguments)
            code = Compiled(CpuKernel(program.kernel, settings), rng.choice(VARIANTS))
            try:
                oracle = run(program.kernel, generated.dims, args)
            except RuntimeError:
                assert settings.debug or not inside, generated.source
                with pytest.raises(RuntimeError):
                    code.run(generated.dims, args, threads=rng.choice([1, 2]))
                continue
            assert inside, generated.source
            results = code.run(generated.dims, args, threads=rng.choice([1, 2]))
            for wanted, one, other in zip(expected, oracle, results, strict=False):
                assert same(wanted, one) and same(wanted, other), generated.source
