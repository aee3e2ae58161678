"""Loops of which several iterations run at once, on the PTX machine and against the interpreter."""

import re

import numpy as np
import pytest
from ptx_running import PLAIN, PtxKernel

import jwarp as wp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run

pytestmark = pytest.mark.usefixtures("compiler")
A = wp.array[float]
VERSIONS = ("narrow flat fast", "flat fast", "checked")


def turns(made):
    """The number of iterations that run at once, for each loop of which several do."""
    return [int(n) + 1 for n in re.findall(r"for \(; .* > (\d+); ", made.unit.text)]


def agree(made, count, args, order=0, **close):
    args = [np.asarray(x, p.dtype.dtype) for x, p in zip(args, made.kernel.params, strict=True)]
    expected = run(made.made.kernel, (count,), args)
    for x, y in zip(made.run((count,), args, order), expected, strict=True):
        np.testing.assert_allclose(x, y, **(close or {"rtol": 0, "atol": 0}))


@wp.kernel
def quotients(x: A, y: A, q: wp.array2d[float], r: wp.array2d[float], s: wp.array2d[float]):
    i = wp.tid()
    for j in range(y.shape[0]):
        q[i, j] = x[i] / y[j]
        r[i, j] = wp.sqrt(y[j])
        s[i, j] = 1.0 / wp.sqrt(y[j])


def rounded_as_written(made, x, y):
    q = np.zeros((len(x), len(y)), np.float32)
    with np.errstate(all="ignore"):
        expected = x[:, None] / y, np.broadcast_to(np.sqrt(y), q.shape), np.broadcast_to(1 / np.sqrt(y), q.shape)
    for found, right in zip(made.run((len(x),), [x, y, q, q, q])[2:], expected, strict=True):
        np.testing.assert_array_equal(found.view(np.uint32)[~np.isnan(right)], right.view(np.uint32)[~np.isnan(right)])
        assert np.isnan(found[np.isnan(right)]).all()


def test_quotients_and_roots_are_those_of_ieee_754():
    made, rng = PtxKernel(quotients.ir(), "narrow flat fast"), np.random.default_rng(0)
    assert turns(made) == [8] and "jw_quotients<8>" in made.unit.text and "jw_roots<8>" in made.unit.text
    assert "jw_inverse_roots<8>" in made.unit.text
    ordinary = np.ldexp(rng.uniform(0.5, 1.0, (2, 128)), rng.integers(-50, 50, (2, 128))).astype(np.float32)
    rounded_as_written(made, *ordinary)
    any_bits = rng.integers(0, 2**32, (2, 64), np.uint32).view(np.float32)
    rounded_as_written(made, *any_bits)
    special = [
        0.0,
        np.inf,
        np.nan,
        1e-45,
        1.1754944e-38,
        3.4028235e38,
        2.0**-60,
        2.0**60,
        2.0**-101,
        2.0**-102,
        1.0,
        3.0,
    ]
    every = np.asarray([*special, *(-x for x in special)], np.float32)
    rounded_as_written(made, every, every)
    for k in range(len(every)):  # alone among ordinary ones
        rounded_as_written(made, every, np.where(np.arange(8) == k % 8, every[k], ordinary[0, :8]))


@wp.kernel
def carried(x: A, y: A, lo: int, hi: int, out: wp.array2d[float]):
    """Carried values change places, are used several times, and depend on the order of iterations."""
    i = wp.tid()
    a, b, c, last = 1.0, 2.0, 0.0, (-1)
    for j in range(lo, hi):
        q = x[i] / y[j]
        a, b = b, a * 0.5 + q
        c = c * b + b - c * 0.25
        last = j
    out[i, 0] = a
    out[i, 1] = b
    out[i, 2] = c
    out[i, 3] = float(last)


@wp.kernel
def backwards(x: A, y: A, lo: int, hi: int, out: wp.array2d[float]):
    i = wp.tid()
    c, last = 0.0, (-1)
    for j in range(hi - 1, lo - 1, -1):
        c = 0.5 * c + wp.sqrt(y[j]) / (x[i] + 20.0)
        last = j
    out[i, 0] = c
    out[i, 1] = float(last)


@wp.kernel
def wide(x: A, y: A, lo: wp.int64, hi: wp.int64, out: wp.array2d[float]):
    i = wp.tid()
    c = 0.0
    for j in range(lo, hi):
        c = 0.5 * c + x[i] / y[j]
    out[i, 0] = c


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kernel", [carried, backwards, wide])
def test_trips_are_made_in_their_order(kernel, version):
    ir, rng = kernel.ir(), np.random.default_rng(1)
    made, params = PtxKernel(ir, version), ir.params
    assert turns(made) == [8]
    x, y = (rng.uniform(0.5, 2.0, n).astype(np.float32) for n in (40, 40))
    least = -(2**31) + 1
    for lo, hi in [(0, 0), (3, 2), (0, 1), (5, 12), (5, 13), (5, 14), (0, 40), (least, least), (7, least)]:
        limits = [np.asarray(n, p.dtype.dtype) for n, p in zip((lo, hi), params[2:4], strict=True)]
        agree(made, 40, [x, y, *limits, np.zeros((40, 4), np.float32)], rtol=2e-6)  # `fma` where NVRTC contracts


@wp.kernel
def constant(x: A, y: A, out: A):
    i = wp.tid()
    for j in range(1, 100, 3):
        out[i] = 0.5 * out[i] + x[i] / y[j]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_thread_has_stored_is_read_again(version):
    made, rng = PtxKernel(constant.ir(), version), np.random.default_rng(2)
    assert turns(made) == [8 * 3 - 2]
    agree(made, 33, [rng.uniform(0.5, 2.0, 33), rng.uniform(0.5, 2.0, 100), rng.uniform(size=33)], rtol=2e-6)


@wp.kernel
def sums(x: A, n: int, a: A, b: wp.array[wp.vec3], c: wp.array2d[float]):
    i = wp.tid()
    total = 0.0
    for j in range(n):
        wp.atomic_add(a, j, x[i] + total)
        wp.atomic_add(b, j, wp.vec3(x[i], 1.0, total))
        total += 1.0
    for j in range(n - 1, -1, -1):
        wp.atomic_add(c, j, 1, x[i])
        wp.atomic_add(c, j, 0, 2.0 * x[i])
        wp.atomic_add(a, 0, 3.0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [1, 32, 70])
def test_sums_of_several_trips_are_made_together(version, count):
    made, rng = PtxKernel(sums.ir(), version), np.random.default_rng(count)
    if "fast" in version:
        # Elements of a number are sums in registers, and done apart.
        assert turns(made) == [8, 8]
        assert re.findall(r"jw_add_along<float, [\w ]+>", made.unit.text) and "jw_own_line" in made.unit.text
    for n in (0, 1, 7, 8, 9, 31):
        x = rng.integers(-9, 9, count).astype(np.float32)
        args = [x, np.asarray(n, np.int32), np.zeros(32), np.zeros((32, 3)), np.zeros((32, 2))]
        agree(made, count, args, order=7)


@wp.kernel
def looked_at(x: A, n: int, a: A, b: A, found: A):
    """A sum is read again in the next iteration, by a single thread: it cannot wait for that one."""
    i = wp.tid()
    for j in range(n):
        found[i] = found[i] + a[j]
        wp.atomic_add(a, j + 1, x[i] / x[0])
        wp.atomic_add(b, j, x[i])


def test_sums_that_are_read_in_the_loop_do_not_wait():
    made = PtxKernel(looked_at.ir(), "narrow flat fast")
    agree(made, 1, [np.full(1, 3.0), np.asarray(20, np.int32), np.zeros(32), np.zeros(32), np.zeros(1)])


@wp.kernel
def told_apart(x: A, n: int, a: A):
    """Places that no coordinate says, in memory of the thread's own: alike in the last of the iterations alone."""
    i = wp.tid()
    own = wp.zeros(shape=16, dtype=int)
    for j in range(15):
        own[j] = wp.where(x[i] > 0.0, j, 15)
    for j in range(n):
        wp.atomic_add(a, own[j], x[i])


def test_sums_whose_places_may_differ_do_not_wait():
    made = PtxKernel(told_apart.ir(), "checked")
    x = np.random.default_rng(4).integers(-9, 9, 64).astype(np.float32)
    agree(made, 64, [x, np.asarray(16, np.int32), np.zeros(16)])


@wp.kernel
def guarded(x: A, y: A, n: int, out: A):
    """A branch with a single operation, whose result what follows needs."""
    i = wp.tid()
    total = 0.0
    for j in range(n):
        k = 0
        if j < y.shape[0]:
            k = wp.int32(y[j])
        total = total * 0.5 + x[i] / x[k]
    out[i] = total


@pytest.mark.parametrize("version", VERSIONS)
def test_branches_are_taken_in_every_trip(version):
    made, rng = PtxKernel(guarded.ir(), version), np.random.default_rng(5)
    y = rng.integers(0, 33, 20).astype(np.float32)
    agree(made, 33, [rng.uniform(0.5, 2.0, 33), y, np.asarray(30, np.int32), np.zeros(33)], rtol=2e-6)


@wp.kernel
def own_bounds(x: A, k: wp.array[int], out: A):
    i = wp.tid()
    total = 0.0
    for j in range(k[i]):
        total += x[i] / x[j]
    out[i] = total


def test_threads_that_take_trips_of_their_own_take_them_one_by_one():
    made = PtxKernel(own_bounds.ir(), "narrow flat fast")
    assert not turns(made)


@wp.kernel
def bodies(p: wp.array[wp.vec3], m: A, f: wp.array[wp.vec3]):
    i = wp.tid()
    total = wp.vec3(0.0)
    for j in range(p.shape[0]):
        d = p[j] - p[i]
        r2 = wp.dot(d, d) + 0.5
        total += d * (m[j] / (r2 * wp.sqrt(r2)))
    f[i] = total


@pytest.mark.parametrize("fast_math", [False, True])
def test_bodies_and_their_adjoint(fast_math):
    rng = np.random.default_rng(3)
    settings = PLAIN.__class__(cache_dir="", fast_math=fast_math)
    made = PtxKernel(bodies.ir(), "narrow flat fast", settings)
    p, m, g = (rng.uniform(0.5, 2.0, shape).astype(np.float32) for shape in ((43, 3), 43, (43, 3)))
    assert turns(made) == [8]
    agree(made, 43, [p, m, np.zeros((43, 3))], rtol=1e-5, atol=1e-5)
    back = PtxKernel(vjp(bodies.ir(), [0, 1], [2]).kernel, "narrow flat fast", settings)
    assert turns(back) == [8] and "jw_add_along<float, int>" in back.unit.text
    given = {"p": p, "m": m, "adj_f": g, "f": np.zeros((43, 3)), "adj_p": np.zeros((43, 3)), "adj_m": np.zeros(43)}
    agree(back, 43, [given[q.name] for q in back.kernel.params], rtol=1e-5, atol=1e-5)
