"""Sums that the threads of a warp have in common, on the PTX machine and against the interpreter.

All numbers are small integers, so that sums are exact in any order.
"""

import functools
import re

import numpy as np
import pytest
from cuda_on_host import pack
from fuzz_profiles import ALL
from ptx_running import PtxKernel

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.program import program_of
from jwarp.config import config

pytestmark = pytest.mark.usefixtures("compiler")
A = wp.array[float]
VERSIONS = ("narrow flat fast", "flat fast", "checked")
COUNTS = (1, 31, 32, 70, 96)


def filled(kernel, count, extent=6, **given):
    """Arguments: arrays of `count` elements where their name is that of what threads have, else of `extent`."""
    rng, made = np.random.default_rng(count), []
    for p in kernel.params:
        if not p.is_array:
            made.append(np.asarray(given[p.name], p.dtype.dtype))
            continue
        shape = (count if p.name in ("x", "y", "k") else extent, *p.type.components)
        made.append(rng.integers(-9, 9, shape).astype(p.dtype.dtype))
    return made


def agree(made, count, args, orders=(0, -1, 7)):
    expected = run(made.made.kernel, (count,), args)
    for order in orders:
        for x, y in zip(made.run((count,), args, order), expected, strict=True):
            np.testing.assert_array_equal(x, y)


def statements(made):
    return len(re.findall(r"jw_add_together<", made.unit.text))


def shuffles(values):
    """How many a warp needs for the sums of so many values: each halves what a lane goes on with."""
    return sum(-(-values // distance) for distance in (2, 4, 8, 16, 32))


@functools.cache
def vectors_of(length, type):
    vector = wp.types.vector(length, type)

    @wp.kernel
    def summed(x: wp.array[vector], n: int, sums: wp.array[vector]):
        wp.atomic_add(sums, n, x[wp.tid()])

    return summed.ir()


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 9, 31, 33])
def test_any_number_of_values(length):
    kernel = vectors_of(length, wp.float32)
    made = PtxKernel(kernel, "narrow flat fast")
    assert statements(made) == -(-length // 32)
    assert "vote" not in made.text
    assert made.text.count("shfl.sync") == sum(map(shuffles, [32] * (length // 32) + [length % 32]))
    for count in COUNTS if length == 3 else (70,):
        agree(made, count, filled(kernel, count, n=3), (0,))


@pytest.mark.parametrize("version", VERSIONS)
def test_values_of_64_bits(version):
    kernel = vectors_of(3, wp.float64)
    agree(PtxKernel(kernel, version), 70, filled(kernel, 70, n=3))


@wp.kernel
def parted(
    x: A, y: wp.array[wp.float64], k: wp.array[int], n: int, a: A, b: wp.array[wp.vec3], c: wp.array[wp.float64]
):
    """Sums of two types, in several arrays, some under conditions and in loops that threads leave one by one."""
    i = wp.tid()
    v = wp.vec3(x[i], 1.0, float(i % 3))
    for j in range(n):
        wp.atomic_add(a, j, x[i])
        wp.atomic_add(c, j, y[i])
        wp.atomic_add(b, j + 1, v)
        wp.atomic_add(c, j + 1, y[i] + y[i])
        if x[i] > 0.0:
            wp.atomic_add(a, j, 1.0)
            wp.atomic_add(b, n, v)
        if j % 2 == 0:
            wp.atomic_add(a, j + 1, x[i] - 1.0)
    for _ in range(k[i]):
        wp.atomic_add(b, n, v)
        wp.atomic_add(a, n, 1.0)
    t = int(n)
    while t < n + k[i]:
        wp.atomic_add(a, n, 2.0)
        t += 2


@functools.cache
def parted_for(version):
    return PtxKernel(parted.ir(), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", COUNTS)
def test_threads_that_part(count, version):
    kernel, made = parted.ir(), parted_for(version)
    # Of float32 and float64, under each condition, and in each loop; one that needs a test is a statement of its own.
    assert statements(made) == 7 if "flat" in version else statements(made) > 7
    orders = (0, -1, 7) if ALL or count == 70 else (7,)
    agree(made, count, filled(kernel, count, n=4), orders)


@wp.kernel
def told_apart(x: A, y: A, n: int, a: A, b: A):
    """An index that no coordinate says, and that threads do not have in common: it is out of their own memory."""
    i = wp.tid()
    own = wp.zeros(shape=4, dtype=int)
    own[n] = wp.where(x[i] > 0.0, 1, 2)
    for j in range(n + 2):
        m = wp.clamp(own[n], 0, 5)
        wp.atomic_add(a, m, x[i])
        wp.atomic_add(b, m, y[i])
        wp.atomic_add(b, j, 1.0)
        own[n] = own[n] + 1


@pytest.mark.parametrize("version", VERSIONS)
def test_indices_that_may_differ(version):
    kernel = told_apart.ir()
    made = PtxKernel(kernel, version)
    if "flat" in version:
        assert statements(made) == 2 and len(re.findall(r"jw_alike\(\w+\)", made.unit.text)) == 1
    for count in (32, 70):
        args = filled(kernel, count, n=1)
        agree(made, count, args)
        args[0][...] = np.abs(args[0]) + 1  # now they are the same
        agree(made, count, args)


@wp.kernel
def by_batch(x: A, n: int, m: wp.array[int], a: A, b: A):
    i = wp.tid()
    wp.atomic_add(a, n, x[i])
    wp.atomic_add(b, m[0], x[i])
    wp.atomic_add(a, n + 1, 2.0)


@pytest.mark.parametrize("version", ["narrow fast", "fast", "either"])
def test_warps_with_threads_of_several_batch_elements(version):
    """These have other numbers, and other arrays."""
    made, rng = PtxKernel(by_batch.ir(), version), np.random.default_rng(0)
    items, count = 5, 24
    x = rng.integers(-9, 9, (items, count)).astype(np.float32)
    n, m = rng.integers(0, 3, items).astype(np.int32), rng.integers(0, 4, (items, 1)).astype(np.int32)
    for has_n, has_m, has_a, has_b in np.ndindex(2, 2, 2, 2):
        numbers, places = n if has_n else n[:1], m if has_m else m[0]
        arrays = [x, numbers, places, np.zeros((items, 4) if has_a else 4), np.zeros((items, 4) if has_b else 4)]
        arrays = [np.ascontiguousarray(a if a.dtype == np.int32 else a.astype(np.float32)) for a in arrays]
        axes = [(True,), *((bool(has),) for has in (has_n, has_m, has_a, has_b))]
        a, b = np.zeros((items, 4)), np.zeros((items, 4))
        for i in range(items):
            a[i, numbers[i if has_n else 0]] += x[i].sum()
            a[i, numbers[i if has_n else 0] + 1] += 2 * count
            b[i, m[i if has_m else 0, 0]] += x[i].sum()
        words = pack(made.kernel.params, arrays, (count,), tid_dims=1, batch=(items,), batched=axes)
        made.launch(words, arrays)
        np.testing.assert_array_equal(arrays[3], a if has_a else a.sum(axis=0))
        np.testing.assert_array_equal(arrays[4], b if has_b else b.sum(axis=0))


@wp.kernel
def looked_at(x: A, n: int, a: A, b: A, found: A):
    """A read between two sums stays there: all sums are of a single thread."""
    i = wp.tid()
    wp.atomic_add(a, n, x[i])
    wp.atomic_add(b, n, 1.0)
    found[i] = a[n]
    wp.atomic_add(a, n, 2.0 * x[i])
    wp.atomic_add(b, n, found[i])


def test_sums_before_a_load_are_done_before_it():
    kernel = looked_at.ir()
    made = PtxKernel(kernel, "narrow flat fast")
    assert statements(made) == 2
    agree(made, 1, filled(kernel, 1, n=2))


@wp.kernel
def checked(x: A, n: int, a: A, b: A):
    i = wp.tid()
    wp.atomic_add(a, n, 1.0)
    assert x[i] > -9.5
    wp.atomic_add(b, n, x[i])


def test_sums_before_a_check_are_done_where_it_fails():
    program = program_of(checked, config.with_values(debug=True))
    made = PtxKernel(program.kernel, "checked")
    x, a, b = np.ones(96, np.float32), np.zeros(6, np.float32), np.zeros(6, np.float32)
    x[[3, 40]] = -10.0
    arrays, failure = [x, np.array(2, np.int32), a, b], np.full(1, 2**64 - 1, np.uint64)
    words = pack(made.kernel.params, arrays, (96,), tid_dims=1, failure=failure)
    with pytest.raises(RuntimeError, match="thread 3: "):
        made.launch(words, arrays, failure)
    assert a[2] == 96.0 and b[2] == 94.0
