"""Which accesses are proved to stay inside their arrays, and that the proofs are never wrong."""

from __future__ import annotations

import collections
import itertools
import math
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from access_kernels import FakeArray, Program, TooLong, programs, run_thread
from kernel_sources import load

import jwarp as wp
from jwarp.analysis.affine import ALWAYS, UNKNOWN, evaluate
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Op, walk

pytestmark = pytest.mark.quick

LARGEST = 2**31 - 1

Shape = tuple[int, ...]


def prepared(kernel: Any) -> CpuKernel:
    return CpuKernel(kernel.ir(), Settings(cache_dir=""))


def symbol_values(made: CpuKernel, dims: Shape, args: Iterable[Any]) -> dict[int, int]:
    """The symbols of a launch; `args` has a shape for an array."""
    given = list(args)
    symbols = made.proofs.symbols
    values = dict(zip(range(4), (*dims, 1, 1, 1), strict=False))
    values.update({s.index: given[p][axis] for (p, axis), s in symbols.extents.items()})
    values.update({s.index: given[p] for p, s in symbols.scalars.items()})
    return values


def proved(made: CpuKernel, dims: Shape, args: Iterable[Any]) -> list[tuple[int, bool]]:
    """The line of every access in program order, and whether a launch proves that it is in range."""
    values = symbol_values(made, dims, args)
    accesses = (n for n in walk(made.proofs.kernel.body) if isinstance(n, Op) and n.row.is_access)
    conditions = ((n.span.line, made.proofs.proven.get(n, UNKNOWN)) for n in accesses)
    return [(line, bool(evaluate(condition, values))) for line, condition in conditions]


# Typical kernels. Each stores y[i] last, so the last of the proofs is that of y.


@wp.kernel
def stencil(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    n = len(x)
    if i > 0 and i < n - 1:
        y[i] = x[i - 1] + x[i + 1]


@wp.kernel
def stencil_early_return(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i < 1 or i >= len(x) - 1:
        return
    y[i] = x[i - 1] + x[i + 1]


@wp.kernel
def clamped(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    last = len(x) - 1
    y[i] = x[max(i - 1, 0)] + x[min(i + 1, last)]


@wp.kernel
def periodic(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    n = len(x)
    y[i] = x[(i + 1) % n] + x[(i - 1 + n) % n]


@wp.kernel
def reverse(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[len(x) - 1 - i]


@wp.kernel
def strided(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[2 * i] + x[2 * i + 1]


@wp.kernel
def halved(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i // 2]


@wp.kernel
def row_sums(x: wp.array2d[float], y: wp.array[float]):
    i = wp.tid()
    total = 0.0
    for j in range(x.shape[1]):
        total += x[i, j]
    y[i] = total


@wp.kernel
def windows(x: wp.array[float], radius: int, y: wp.array[float]):
    i = wp.tid()
    total = 0.0
    for k in range(max(i - radius, 0), min(i + radius + 1, len(x))):
        total += x[k]
    y[i] = total


@wp.kernel
def backwards(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    total = 0.0
    for k in range(len(x) - 1, -1, -1):
        total += x[k]
    y[i] = total


@wp.kernel
def while_loop(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    total = 0.0
    k = i
    while k < len(x):
        total += x[k]
        k += 1
    y[i] = total


@wp.kernel
def lookup(lut: wp.array[float], x: wp.array[wp.uint8], y: wp.array[float]):
    i = wp.tid()
    y[i] = lut[x[i]]


@wp.kernel
def masked_lookup(lut: wp.array[float], x: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = lut[x[i] & 63]


@wp.kernel
def shifted(x: wp.array[float], offset: int, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i + offset]


@wp.kernel
def flattened(x: wp.array[float], width: int, y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = x[i * width + j]


@wp.kernel
def narrowed(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[int(wp.int8(i)) // 2]


@wp.kernel
def gather(x: wp.array[float], at: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[at[i]]


YES, NO = True, False


@pytest.mark.parametrize(
    ("kernel", "dims", "args", "expected"),
    [
        (stencil, (9,), [(9,), (9,)], [YES, YES, YES]),
        (stencil, (12,), [(9,), (9,)], [YES, YES, YES]),  # the guard leaves 1 to 7
        (stencil, (12,), [(9,), (7,)], [YES, YES, NO]),
        (stencil_early_return, (12,), [(9,), (9,)], [YES, YES, YES]),
        (clamped, (9,), [(9,), (9,)], [YES, YES, YES]),
        (clamped, (9,), [(0,), (9,)], [NO, NO, YES]),
        (clamped, (9,), [(5,), (9,)], [NO, YES, YES]),
        (periodic, (9,), [(9,), (9,)], [YES, YES, YES]),
        (periodic, (90,), [(9,), (90,)], [YES, YES, YES]),
        (periodic, (9,), [(0,), (9,)], [NO, NO, YES]),
        (periodic, (LARGEST,), [(LARGEST,), (LARGEST,)], [YES, NO, YES]),  # i - 1 + n would wrap
        (reverse, (9,), [(9,), (9,)], [YES, YES]),
        (reverse, (9,), [(8,), (9,)], [NO, YES]),
        (strided, (5,), [(10,), (5,)], [YES, YES, YES]),
        (strided, (5,), [(9,), (5,)], [YES, NO, YES]),
        (strided, (2**31 - 1,), [(LARGEST,), (5,)], [NO, NO, NO]),
        (halved, (9,), [(5,), (9,)], [YES, YES]),
        (halved, (10,), [(5,), (10,)], [YES, YES]),
        (halved, (11,), [(5,), (11,)], [NO, YES]),
        (halved, (9,), [(4,), (9,)], [NO, YES]),
        # Four trips at once, and those that are left. Of an empty row, the three next to an element are not known.
        (row_sums, (5,), [(5, 7), (5,)], [*5 * [YES], YES]),
        (row_sums, (5,), [(5, 3), (5,)], [*5 * [YES], YES]),
        (row_sums, (5,), [(4, 7), (5,)], [*5 * [NO], YES]),
        (row_sums, (5,), [(5, 0), (5,)], [YES, NO, NO, NO, YES, YES]),
        (windows, (5,), [(5,), 2, (5,)], [YES, YES]),
        (windows, (5,), [(5,), LARGEST, (5,)], [NO, YES]),
        (windows, (5,), [(5,), -3, (5,)], [YES, YES]),
        (backwards, (5,), [(7,), (5,)], [YES, YES]),
        (while_loop, (5,), [(3,), (5,)], [YES, YES]),
        (lookup, (5,), [(256,), (5,), (5,)], [YES, YES, YES]),
        (lookup, (5,), [(255,), (5,), (5,)], [YES, NO, YES]),
        (masked_lookup, (5,), [(64,), (5,), (5,)], [YES, YES, YES]),
        (masked_lookup, (5,), [(63,), (5,), (5,)], [YES, NO, YES]),
        (shifted, (5,), [(9,), 4, (5,)], [YES, YES]),
        (shifted, (5,), [(9,), 5, (5,)], [NO, YES]),
        (shifted, (5,), [(9,), -1, (5,)], [NO, YES]),
        (shifted, (5,), [(9,), LARGEST, (5,)], [NO, YES]),
        (flattened, (3, 4), [(12,), 4, (3, 4)], [NO, YES]),  # a product of two unknowns
        (narrowed, (128,), [(64,), (128,)], [YES, YES]),
        (narrowed, (129,), [(300,), (129,)], [NO, YES]),
        (gather, (5,), [(9,), (5,), (5,)], [YES, NO, YES]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_accesses_of_typical_kernels(kernel: Any, dims: Shape, args: list, expected: list[bool]) -> None:
    assert [holds for _, holds in proved(prepared(kernel), dims, args)] == expected


def conditions(kernel: Any) -> list:
    return list(prepared(kernel).proofs.proven.values())


def test_guards_need_no_condition() -> None:
    """A proof by a guard costs nothing at launch."""
    assert conditions(stencil)[:2] == [ALWAYS, ALWAYS]
    assert conditions(backwards)[0] == ALWAYS
    assert conditions(while_loop)[0] == ALWAYS


# A fact holds where it was learnt and nowhere else.


@wp.kernel
def after_guard(x: wp.array[float], k: int, y: wp.array[float]):
    i = wp.tid()
    total = 0.0
    if k >= 0 and k < len(x):
        total += 1.0
    y[i] = total + x[k + i]


@wp.kernel
def other_branch(x: wp.array[float], at: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    k = at[i]
    if k < 0 or k >= len(x):
        y[i] = x[k]
    else:
        y[i] = 2.0


@wp.kernel
def one_of_two(x: wp.array[float], at: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    k = at[i]
    if k >= 0 or k < len(x):
        y[i] = x[k]


@wp.kernel
def reassigned(x: wp.array[float], at: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    k = at[i]
    if k >= 0 and k < len(x):
        k += 1
        y[i] = x[k]


@wp.kernel
def after_loop(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    k = 0
    while k < len(x):
        k += 2
    y[i] = x[k]


@wp.kernel
def wrapping_loop(x: wp.array[float], last: int, y: wp.array[float]):
    i = wp.tid()
    total = 0.0
    k = 0
    while k < last:
        total += x[min(k, len(x) - 1)]
        k += 1073741824
    y[i] = total


@pytest.mark.parametrize("kernel", [other_branch, one_of_two, reassigned])
def test_facts_of_one_branch_do_not_reach_another(kernel: Any) -> None:
    x = [holds for _, holds in proved(prepared(kernel), (5,), [(100,), (5,), (5,)])]
    assert x[:2] == [YES, NO]


def test_facts_end_with_their_branch_and_their_loop() -> None:
    assert proved(prepared(after_guard), (5,), [(9,), 50, (5,)])[0][1] is NO
    assert proved(prepared(after_loop), (5,), [(9,), (5,)])[0][1] is NO
    loop = prepared(wrapping_loop)
    assert proved(loop, (5,), [(9,), 5, (5,)])[0][1] is YES
    assert proved(loop, (5,), [(9,), LARGEST, (5,)])[0][1] is NO


# Zero fill


@wp.kernel
def own_elements(y: wp.array[float]):
    y[wp.tid()] = 1.0


@wp.kernel
def own_elements_some(y: wp.array[float]):
    i = wp.tid()
    if i > 3:
        y[i] += 1.0


@wp.kernel
def own_elements_narrowed(y: wp.array[float]):
    y[int(wp.int8(wp.tid()))] = 1.0


@wp.kernel
def own_elements_swapped(y: wp.array2d[float]):
    i, j = wp.tid()
    y[j, i] = 1.0


@wp.kernel
def own_elements_in_a_loop(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    for _ in range(len(x)):
        y[i] = 1.0


@wp.kernel
def own_elements_read(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    x[i] = y[i]


@pytest.mark.parametrize(
    ("kernel", "cover"),
    [
        (own_elements, 1),
        (own_elements_read, 0),
        (own_elements_some, 2),
        (own_elements_narrowed, 0),
        (own_elements_swapped, 0),
        (own_elements_in_a_loop, 2),
    ],
)
def test_cover(kernel: Any, cover: int) -> None:
    assert prepared(kernel).proofs.covers[-1] == cover


# Refusals


@wp.kernel
def invariant_load(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    total = 0.0
    for _ in range(n):
        total += x[i + 10]
    y[i] = total


@wp.kernel
def large_coefficient(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[wp.int64(i) * wp.int64(4611686018427387904) * wp.int64(4)]


def check(kernel: Any, dims: Shape, extents: tuple) -> None:
    prepared(kernel).check((*dims, 1, 1, 1)[:4], extents)


def test_kernels_of_many_arrays(tmp_path) -> None:
    """The launch condition of all accesses may be long: each array adds to it."""
    names = [f"a{k}" for k in range(150)]
    params = ", ".join(f"{name}: wp.array[wp.vec3]" for name in names)
    source = f"import jwarp as wp\n\n@wp.kernel\ndef kernel({params}):\n"
    source += "    i = wp.tid()\n" + "".join(f"    a{k + 1}[i] = 2.0 * a{k}[i]\n" for k in range(149))
    made = prepared(load(source, tmp_path))
    found = proved(made, (5,), [(5, 3)] * 150)
    assert len(found) == 6 * 149 and all(holds for _, holds in found)
    assert not proved(made, (5,), [*[(5, 3)] * 149, (4, 3)])[-1][1]


def test_only_certain_accesses_are_refused() -> None:
    check(invariant_load, (5,), ((5,), None, (5,)))  # the loop may have no trip
    with pytest.raises(LaunchError, match="index 9 is outside axis 0 of `y`"):
        check(invariant_load, (10,), ((5,), None, (9,)))


@wp.kernel
def counted(count: wp.array[int], a: wp.array2d[float], b: wp.array[float]):
    i = wp.tid()
    total = 0.0
    for k in range(count[i]):
        total += a[i, k]
    b[i] = total


def test_what_a_loaded_count_asks_of_arrays_is_no_condition() -> None:
    compiled = CpuKernel(counted.ir(Settings()), Settings())
    symbols = compiled.symbol_values((8,), {0: (8,), 1: (8, 4), 2: (8,)})
    assert compiled.needed(symbols) == ("fast",)
    loads = {n: n for n in walk(compiled.proofs.kernel.body) if isinstance(n, Op) and n.row.is_access}
    assert [n.name for key, n in loads.items() if key not in compiled.proofs.proven] == ["load"]


def test_numbers_beyond_int64_are_not_for_conditions() -> None:
    made = prepared(large_coefficient)
    assert [holds for _, holds in proved(made, (5,), [(9,), (5,)])] == [NO, YES]
    assert made.plan.dtype == "int64"


# Random kernels against threads that run one by one


def random_launch(choose: random.Random, rank: int) -> tuple[Shape, list[Any]]:
    """Dims, and one argument for each parameter of a random kernel."""
    edges = (1, 129, 300, 65536, LARGEST) if choose.random() < 0.15 else (1, 2, 3, 5, 9, 17)
    dims = tuple(choose.choice(edges) for _ in range(rank))

    def extent() -> int:
        if choose.random() < 0.1:
            return choose.choice((0, LARGEST, LARGEST - 1, 256, 2**30))
        near = choose.choice(dims) * choose.choice((1, 1, 1, 2)) + choose.choice((-2, -1, 0, 0, 0, 1, 2, 5))
        return min(max(near, 0), LARGEST)

    x, m, y = (FakeArray(tuple(extent() for _ in range(rank))) for rank in (1, 2, 1))
    n = choose.choice((0, 1, 3, 8, -1, -5, dims[0], LARGEST, -LARGEST - 1, 65536))
    return dims, [x, m, n, choose.choice((0, 1, 2, 5, -1, -128, 100, 127)), y, FakeArray(dims)]


def some_threads(choose: random.Random, dims: Shape) -> list[Shape]:
    """All of a small launch; of a large one the corners and some others."""
    if math.prod(dims) <= 40:
        return list(itertools.product(*map(range, dims)))
    corners = list(itertools.product(*({0, d - 1} for d in dims)))

    def coordinate(extent: int) -> int:
        anywhere = (choose.randrange(extent), choose.randrange(20), extent - 1 - choose.randrange(9))
        return min(max(choose.choice((*anywhere, 127, 128, 255, 256, 65535)), 0), extent - 1)

    return corners + [tuple(map(coordinate, dims)) for _ in range(15)]


SEEDS = 60
LAUNCHES = 6


@pytest.fixture(scope="module")
def random_programs(tmp_path_factory: pytest.TempPathFactory) -> list[Program]:
    return programs(range(SEEDS), tmp_path_factory.mktemp("kernels"))


def test_proofs_and_refusals_of_random_kernels(random_programs: list[Program]) -> None:
    """A proved access is inside for every thread, and a refused one is outside for some."""
    seen: collections.Counter[str] = collections.Counter()
    for seed, program in enumerate(random_programs):
        made, choose = prepared(program.kernel), random.Random(seed)
        for _ in range(LAUNCHES):
            examine(made, program.thread, *random_launch(choose, program.rank), choose, seen)
    # Most random indices are not provable; enough of them are for this test to mean something.
    assert seen["proved"] > 5000
    assert seen["refused"] > 10


def examine(
    made: CpuKernel, thread: Callable, dims: Shape, args: list, choose: random.Random, seen: collections.Counter
) -> None:
    """Run one launch thread by thread and compare with what was proved of it."""
    shapes = [a.extents if isinstance(a, FakeArray) else a for a in args]
    by_line: dict[int, list[bool]] = collections.defaultdict(list)
    for line, holds in proved(made, dims, shapes):
        by_line[line].append(holds)
    lines = {line for line, holds in by_line.items() if all(holds)}
    outside = False
    for coordinates in some_threads(choose, dims):
        try:
            touches = run_thread(thread, coordinates, args)
        except TooLong as stop:
            touches = stop.args[0]
            outside = True  # nothing is known of the rest
        outside = outside or any(touch.is_outside for touch in touches)
        for touch in (t for t in touches if t.line in lines):
            assert touch.is_inside, (made.kernel.name, dims, shapes, coordinates, touch)
            seen["proved"] += 1
    try:
        made.check((*dims, 1, 1, 1)[:4], tuple(s if isinstance(s, tuple) else None for s in shapes))
    except LaunchError as error:
        assert outside, (dims, shapes, str(error))
        seen["refused"] += 1
