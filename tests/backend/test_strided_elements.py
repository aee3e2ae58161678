"""Vectors and matrices at equal distances for the threads of a vector, for every width, against the interpreter."""

import faulthandler
import itertools

import guard_pages
import numpy as np
import pytest
from compiled_variants import VARIANTS, Compiled, Variant
from op_kernels import same

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings

ELEMENTS = {
    "vec2": wp.vec2,
    "vec3": wp.vec3,
    "vec4": wp.vec4,
    "vec6i": wp.types.vector(6, wp.int32),
    "mat33": wp.mat33,
    "vec10": wp.types.vector(10, wp.float32),
    "vec3d": wp.vec3d,
    "vec3ub": wp.vec3ub,
    "mat58": wp.types.matrix((5, 8), wp.float32),
}


def columns(element):
    @wp.kernel
    def kernel(a: wp.array2d[element], b: wp.array2d[element], chosen: wp.array[int]):
        j, i = wp.tid()
        b[i, j] = a[i, j] + b[i, j] + a[i, chosen[j]]

    return kernel


def masked(element):
    @wp.kernel
    def kernel(a: wp.array2d[element], b: wp.array2d[element], chosen: wp.array[int]):
        j, i = wp.tid()
        v = a[i, j]
        if i % 3 != 1 and j > 0:
            b[i, j] = v + a[i, j - 1]

    return kernel


def scattered(element):
    @wp.kernel
    def kernel(a: wp.array2d[element], b: wp.array2d[element], chosen: wp.array[int]):
        j, i = wp.tid()
        if i != 7:
            b[i, chosen[j]] = a[i, j]

    return kernel


def diagonals(element):
    @wp.kernel
    def kernel(a: wp.array2d[element], b: wp.array2d[element], chosen: wp.array[int]):
        j, i = wp.tid()
        if j == 0:
            b[i, a.shape[0] - 1 - i] = a[i, i] + a[a.shape[0] - 1 - i, 0] + a[-i, chosen[1]] + a[3 * i, 1]

    return kernel


def subtrees(element):
    @wp.kernel
    def kernel(a: wp.array2d[element], b: wp.array2d[element], chosen: wp.array[int]):
        j, i = wp.tid()
        total = a[i, j]
        for k in range(j + 1, j + chosen[j]):
            total += a[i, k]
        b[i, j] = total

    return kernel


KERNELS = [columns, masked, scattered, diagonals, subtrees]


def elements(seed, shape, element):
    numbers = np.random.default_rng(seed).integers(0, 25, (*shape, *element.shape))
    return numbers.astype(element.dtype.dtype)


def arguments(seed, shape, element, inside):
    """Column numbers that are all in the array, or may be outside of it or count from its end."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(shape[1]).astype(np.int32)  # no two threads store to one element
    if not inside:
        chosen += rng.choice([-shape[1], 0, shape[1]], shape[1]).astype(np.int32)
    return [elements(seed, shape, element), elements(seed + 1, shape, element), chosen]


def check(made, variant, dims, given):
    expected = run(made.kernel, dims, given)
    for result, wanted in zip(Compiled(made, variant).run(dims, given), expected, strict=True):
        assert same(result, wanted), f"{made.kernel.name}, {variant}, dims {dims}"


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_width_gives_what_the_interpreter_gives(variant):
    for make, name in ((masked, "vec3"), (scattered, "vec6i")):
        made = CpuKernel(make(ELEMENTS[name]).ir(), Settings(cache_dir=""))
        for seed, (count, inside) in enumerate(itertools.product((5, 16, 40), (True, False))):
            check(made, variant, (6, count), arguments(seed, (count, 6), ELEMENTS[name], inside))


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_of_every_size(name):
    made = CpuKernel(scattered(ELEMENTS[name]).ir(), Settings(cache_dir=""))
    for inside in (True, False):
        check(made, Variant("16"), (5, 35), arguments(7, (35, 5), ELEMENTS[name], inside))


@pytest.mark.parametrize("make", KERNELS, ids=lambda make: make.__name__)
def test_ways_of_indexing(make):
    made = CpuKernel(make(wp.vec3).ir(), Settings(cache_dir=""))
    for inside in (True, False):
        check(made, Variant("avx2"), (5, 35), arguments(7, (35, 5), wp.vec3, inside))


def test_no_gather_is_left_where_all_is_known_to_be_inside():
    made = CpuKernel(subtrees(wp.vec4).ir(), Settings(cache_dir=""))
    if made.options.target.width >= 4:
        ways = {way for found in made.generate("fast", made.options).ways.values() for way in found}
        assert {"loads + transpose", "transpose + stores"} <= ways


def run_between_fences() -> None:
    """Every kernel on arrays next to pages that fault."""
    for make, name, style in itertools.product((scattered, diagonals), ("vec3", "vec6i"), ("avx2", "16")):
        made = CpuKernel(make(ELEMENTS[name]).ir(), Settings(cache_dir=""))
        for version, at_end in itertools.product(("launcher", "checked"), (True, False)):
            compiled = Compiled(made, Variant(style, version))
            for count, inside in ((16, True), (16, False), (37, False)):
                print(make.__name__, name, style, version, at_end, count, inside, flush=True)
                given = arguments(count, (count, 5), ELEMENTS[name], inside)
                expected = run(made.kernel, (5, count), given)
                for result, wanted in zip(guard_pages.run(compiled, (5, count), given, at_end), expected, strict=True):
                    assert same(result, wanted)


def test_no_access_leaves_the_arrays() -> None:
    guard_pages.check_script(__file__)


if __name__ == "__main__":
    faulthandler.enable()
    run_between_fences()
