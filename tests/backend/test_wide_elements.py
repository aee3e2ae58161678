"""Arrays of vectors and matrices, compiled for every vector width, against the interpreter."""

import faulthandler
import functools
import itertools
import math

import guard_pages
import numpy as np
import pytest
from compiled_variants import TARGETS, VARIANTS, Compiled, Variant
from fuzz_profiles import in_turn
from op_kernels import same

import jwarp as wp
from jwarp.backend.cpu.code import Options
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings

SIZES = (1, 5, 16, 33)
ELEMENTS = {
    "vec2": wp.vec2,
    "vec3": wp.vec3,
    "vec4": wp.vec4,
    "vec5": wp.types.vector(5, wp.float32),
    "vec3d": wp.vec3d,
    "vec3h": wp.vec3h,
    "vec3ub": wp.vec3ub,
    "vec2l": wp.vec2l,
    "mat22": wp.mat22,
    "mat33": wp.mat33,
    "mat44": wp.mat44,
    "vec9i": wp.types.vector(9, wp.int32),
    "mat23": wp.types.matrix((2, 3), wp.float32),
    "mat58": wp.types.matrix((5, 8), wp.float32),  # too large for shuffles
}


def copied(element):
    @wp.kernel
    def kernel(a: wp.array[element], b: wp.array[element]):
        i = wp.tid()
        b[i] = a[i]

    return kernel


def doubled_in_place(element):
    @wp.kernel
    def kernel(a: wp.array[element], b: wp.array[element]):
        i = wp.tid()
        b[i] = b[i] + a[i] + b[i]

    return kernel


def masked(element):
    @wp.kernel
    def kernel(a: wp.array[element], b: wp.array[element]):
        i = wp.tid()
        if i % 3 != 1:
            v = a[i]
            if i % 2 == 0:
                b[i] = v
            else:
                b[i] = v + b[i]

    return kernel


def neighbours(element):
    @wp.kernel
    def kernel(a: wp.array[element], b: wp.array[element]):
        i = wp.tid()
        if i > 0 and i + 1 < a.shape[0]:
            b[i] = a[i - 1] - a[i + 1]

    return kernel


def reordered(element):
    """Stores component by component, some twice, with a load of what was just stored."""
    rows = element.size - 1 if element.is_vector else element.shape[0] - 1

    @wp.kernel
    def kernel(a: wp.array[element], b: wp.array[element]):
        i = wp.tid()
        b[i][rows] = a[i][0]
        b[i][0] = a[i][rows]
        b[i][0] = b[i][0] + b[i][rows]
        b[i] = b[i] + a[i]

    return kernel


def partial(element):
    @wp.kernel
    def kernel(a: wp.array[element], b: wp.array[element]):
        i = wp.tid()
        v = a[i]
        b[i][1] = v[0]

    return kernel


def mirrored(element):
    @wp.kernel
    def kernel(a: wp.array[element], b: wp.array[element]):
        i = wp.tid()
        b[a.shape[0] - 1 - i] = a[i] + a[-i] + a[i * 7] + a[i - a.shape[0]]

    return kernel


def shared_row(element):
    @wp.kernel
    def kernel(a: wp.array[element], b: wp.array[element]):
        i = wp.tid()
        total = element()
        for k in range(3):
            total = total + a[k] + a[i]
        b[i] = total

    return kernel


def added(element):
    @wp.kernel
    def kernel(a: wp.array[element], b: wp.array[element]):
        i = wp.tid()
        b[i] += a[i]
        b[i // 4] -= a[i]

    return kernel


def transposed_indices(element):
    @wp.kernel
    def kernel(a: wp.array2d[element], b: wp.array2d[element]):
        i, j = wp.tid()
        b[i, j] = a[i, j] + a[j, i]

    return kernel


def three_dimensions(element):
    @wp.kernel
    def kernel(a: wp.array3d[element], b: wp.array3d[element]):
        i, j, k = wp.tid()
        if j > 0 and k > 0:
            b[i, j, k] = a[i, j - 1, k - 1]
        else:
            b[i, j, k] = a[k, j, i]

    return kernel


KERNELS = [copied, doubled_in_place, masked, neighbours, reordered, partial, mirrored, shared_row, added]


def random_elements(seed, shape, element):
    """Numbers of which sums are exact, so that the order of atomic additions does not matter."""
    numbers = np.random.default_rng(seed).integers(0, 100, (*shape, *element.shape))
    return numbers.astype(element.dtype.dtype)


def check(kernel, dims, given, variants, threads=1):
    expected = run(kernel, dims, given)
    made = CpuKernel(kernel, Settings(cache_dir=""))
    for variant in variants:
        results = Compiled(made, variant).run(dims, given, threads)
        for p, (result, wanted) in enumerate(zip(results, expected, strict=True)):
            assert same(result, wanted), f"{variant}, dims {dims}: parameter {p}"


@functools.cache
def kernel_of(make, name):
    """One kernel for all variants, of which two have a version in common."""
    return make(ELEMENTS[name]).ir()


@pytest.mark.parametrize("make", KERNELS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_width_gives_what_the_interpreter_gives(make, variant):
    for name in ("vec3", "mat22"):
        kernel = kernel_of(make, name)
        compiled = Compiled(kernel, variant)
        for size in SIZES:
            given = [random_elements(seed + size, (size,), ELEMENTS[name]) for seed in (0, 50)]
            for result, wanted in zip(compiled.run((size,), given), run(kernel, (size,), given), strict=True):
                assert same(result, wanted), f"{name}, size {size}"


SIZED = [
    pytest.param(make, name, id=f"{make.__name__}-{name}")
    for (k, make), (n, name) in itertools.product(enumerate([copied, masked, reordered, partial]), enumerate(ELEMENTS))
    if in_turn(k, n, of=2)
]


@pytest.mark.parametrize("make, name", SIZED)
def test_elements_of_every_size(make, name):
    given = [random_elements(seed, (35,), ELEMENTS[name]) for seed in (1, 2)]
    check(make(ELEMENTS[name]).ir(), (35,), given, [Variant("8 peeled"), Variant("16"), Variant("1")])


@pytest.mark.parametrize("make", [copied, partial], ids=lambda make: make.__name__)
def test_elements_of_bools(make):
    rng = np.random.default_rng(9)
    given = [rng.integers(0, 2, (35, 3)).astype(bool) for _ in range(2)]
    check(make(wp.types.vector(3, wp.bool)).ir(), (35,), given, [Variant("8 peeled"), Variant("16"), Variant("1")])


@pytest.mark.parametrize("name", ["vec2", "vec3", "mat33"])
def test_several_dimensions(name):
    variants = [Variant("8 peeled"), Variant("16"), Variant("4", "checked")]
    given = [random_elements(seed, (19, 19), ELEMENTS[name]) for seed in (1, 2)]
    check(transposed_indices(ELEMENTS[name]).ir(), (19, 19), given, variants)
    given = [random_elements(seed, (5, 5, 5), ELEMENTS[name]) for seed in (3, 4)]
    check(three_dimensions(ELEMENTS[name]).ir(), (5, 5, 5), given, variants, threads=2)


@pytest.mark.parametrize("make", [copied, doubled_in_place, masked], ids=lambda make: make.__name__)
def test_more_threads_than_elements_and_fewer(make):
    kernel = make(ELEMENTS["vec3"]).ir()
    for size, dims in ((12, (30,)), (30, (12,)), (30, (30, 2))):
        if make is not copied and len(dims) == 2:
            continue  # two threads race for each element
        given = [random_elements(seed, (size,), ELEMENTS["vec3"]) for seed in (5, 6)]
        check(kernel, dims, given, [Variant("8 peeled"), Variant("16"), Variant("16", "checked")])


def test_elements_of_consecutive_threads_are_loaded_whole():
    for name in ("vec2", "vec3", "mat33", "mat44"):
        made = CpuKernel(copied(ELEMENTS[name]).ir(), Settings(cache_dir=""))
        size, is_long = ELEMENTS[name].size, ELEMENTS[name].size > 7
        text = made.text(options=Options(TARGETS["8 peeled"]))
        assert text.count("load <8 x float>, ptr") == (0 if is_long else size)
        # Of long elements, four components at once, of each thread's element.
        assert text.count("load <4 x float>, ptr") == (8 * math.ceil(size / 4) if is_long else 0)
        assert text.count("store <8 x float> %") == size
        text = made.text(options=Options(TARGETS["16"]))  # where masks are cheap, those of a part of a vector, too
        assert text.count("call <16 x float> @llvm.masked.load") == size == text.count("call void @llvm.masked.store")
        versions = (size > 7) + (size > 11)  # the one of full vectors, and the other one
        assert text.count("load <4 x float>, ptr") == versions * 16 * math.ceil(size / 4)
        assert "gather" not in text and "scatter" not in text


def run_between_fences() -> None:
    """Every kernel on arrays next to pages that fault, with as many threads as elements, and with more."""
    for make, name, style in itertools.product(KERNELS, ("vec3", "mat22", "mat44"), ("8 peeled", "16")):
        made = CpuKernel(make(ELEMENTS[name]).ir(), Settings(cache_dir=""))
        for version, at_end in itertools.product(("launcher", "checked"), (True, False)):
            compiled = Compiled(made, Variant(style, version))
            for size, dims in ((5, (5,)), (16, (16,)), (33, (33,)), (13, (21,))):
                print(make.__name__, name, style, version, at_end, size, dims, flush=True)
                given = [random_elements(seed, (size,), ELEMENTS[name]) for seed in (7, 8)]
                expected = run(made.kernel, dims, given)
                for result, wanted in zip(guard_pages.run(compiled, dims, given, at_end), expected, strict=True):
                    # Where two threads store to one element, either may be the last.
                    assert make is mirrored or same(result, wanted)


def test_no_access_leaves_the_arrays() -> None:
    guard_pages.check_script(__file__)


if __name__ == "__main__":
    faulthandler.enable()
    run_between_fences()
