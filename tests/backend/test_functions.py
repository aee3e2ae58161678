"""Functions that stay functions of a kernel: the same bits as in line, for all widths of vectors."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled_variants import TARGETS, Compiled, Variant

import jwarp as wp
from jwarp.analysis.sums import weight_of
from jwarp.backend.interpreter.machine import run
from jwarp.errors import KernelWarning
from jwarp.ir.attributes import encode
from jwarp.ir.functions import inlined
from jwarp.ir.nodes import Block, Const, Function, Kernel, Op, Param, Value, walk, walk_all
from jwarp.ir.printing import format_kernel
from jwarp.ir.serialize import fingerprint, from_bytes, from_entry, known, to_bytes, to_entry
from jwarp.ir.verify import InvalidIR, verify
from jwarp.passes.simplify import simplify
from jwarp.types import ArrayType, float32, int32

SIZE = 37


@wp.struct
class Ends:
    a: wp.vec3
    b: wp.vec3


@wp.func
def clamped(x: float):
    return wp.min(wp.max(x, 0.0), 1.0)


@wp.func
def nearest(e: Ends, p: wp.vec3, weight: float):
    """Where a segment is nearest to a point: arithmetic and branches, with several results."""
    d = e.b - e.a
    t = clamped(wp.dot(p - e.a, d) / (wp.dot(d, d) + 0.125))
    q = e.a + t * d
    side = 0
    if wp.length(p - q) > weight:
        if p[0] > q[0]:
            q = 0.5 * q + 0.25 * wp.cross(d, p) / (1.0 + wp.length_sq(d))
            side = 1
        else:
            q = q * weight + wp.cw_mul(p, d)
            side = 2
    return q, side, t > 0.5


@wp.func
def descended(x: wp.vec3, steps: int):
    """A loop whose iterations differ from thread to thread, with a function in it."""
    y = x
    for k in range(steps):
        e = Ends()
        e.a = y
        e.b = wp.vec3(y[1] + 1.0, float(k), -y[0])
        q, side, inner = nearest(e, x, 0.5 * y[2])
        y = 0.5 * (y + q)
        if side == 1 and inner:
            y = y - wp.vec3(0.0, 1.0, 0.0)
    y = y / (1.0 + wp.length_sq(y))
    z = wp.vec3(y[0] * y[0], wp.abs(y[1]), y[2] * y[0] - y[1])
    return z + wp.cw_div(y, wp.vec3(1.0, 2.0, 3.0)) + wp.cross(z, y)


@wp.kernel
def near(points: wp.array[wp.vec3], steps: wp.array[int], scale: float, out: wp.array[wp.vec3], sides: wp.array[int]):
    i = wp.tid()
    e = Ends()
    e.a = points[i]
    e.b = points[0] * scale
    p = wp.vec3(scale, 1.0, 0.5)
    q, side, _ = nearest(e, p, scale)  # some arguments are the same in all lanes
    f = Ends()
    f.a = wp.vec3(scale, 0.0, 0.0)
    f.b = wp.vec3(0.0, scale, 1.0)
    r, other, close = nearest(f, p, scale)  # all of them
    s, third, _ = nearest(e, q, scale)
    s2, fourth, _ = nearest(e, s, q[0] + 0.5)
    s = s + s2
    q = q + r + s
    if steps[i] > 2:
        q = q + descended(q, steps[i])
        if close:
            q = q - descended(points[i], third)
    else:
        q = q * 0.5 + descended(r, fourth)
    for k in range(steps[i]):
        q = 0.25 * q + descended(q, k)
    sides[i] = side + 10 * other + 100 * third + 1000 * fourth
    out[i] = q + descended(s, steps[i])


def arguments(seed=3):
    made = np.random.default_rng(seed)
    points = made.normal(size=(SIZE, 3)).astype(np.float32)
    steps = made.integers(0, 5, SIZE).astype(np.int32)
    return [points, steps, np.float32(0.75), np.zeros((SIZE, 3), np.float32), np.zeros(SIZE, np.int32)]


def test_the_kernel_has_functions():
    names = [f.name for f in near.ir().functions]
    assert names == ["nearest", "descended"]
    assert "call 0 nearest %" in format_kernel(near.ir())


def test_calls_weigh_what_functions_do():
    kernel = near.ir()
    assert weight_of(inlined(kernel)) <= weight_of(kernel) <= 1.5 * weight_of(inlined(kernel))


@pytest.mark.parametrize("target", TARGETS)
def test_code_gives_what_the_interpreter_gives(target):
    kernel = near.ir()
    expected = run(inlined(kernel), (SIZE,), arguments())
    for found in (run(kernel, (SIZE,), arguments()), Compiled(kernel, Variant(target)).run((SIZE,), arguments())):
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_array_equal(x, y)


def test_derivatives_and_batches():
    points, steps, scale, *_ = arguments()
    fn = wp.jax_kernel(near, num_outputs=2)

    def total(p, s):
        return (fn(p, steps, s, output_dims={"out": SIZE, "sides": SIZE})[0] ** 2).sum()

    with jax.enable_x64(False):
        g, h = jax.grad(total, (0, 1))(points, scale)
        along = np.random.default_rng(0).normal(size=points.shape).astype(np.float32) * 1e-3
        ends = [total(points + sign * along, scale) for sign in (1, -1)]
        slope = (total(points, scale + np.float32(1e-3)) - total(points, scale - np.float32(1e-3))) / 2e-3
        np.testing.assert_allclose(h, slope, rtol=0.05)
        np.testing.assert_allclose((g * along).sum(), (ends[0] - ends[1]) / 2, rtol=0.05)
        both = jax.vmap(total, (None, 0))(points, jnp.array([0.5, 0.75]))
        np.testing.assert_allclose(both[1], total(points, np.float32(0.75)), rtol=1e-5)


def test_kernels_with_functions_are_kept():
    kernel = near.ir()
    again = from_bytes(to_bytes(kernel))
    assert fingerprint(again) == fingerprint(kernel) and format_kernel(again).count("call") == format_kernel(
        kernel
    ).count("call")
    entry = to_entry(known(kernel))
    kept = from_entry(entry)
    assert not hasattr(kept, "_content") and len(kept.functions) == 2
    verify(kept)
    assert fingerprint(dataclasses.replace(kept)) == fingerprint(kernel)


def test_simplify_shares_and_drops_calls():
    x, y = Value(float32), Value(float32)
    twice = Function("twice", (x,), _block([Op("add", (x, x), None, y)], y))
    tokens, parts = [Value(int32) for _ in range(3)], [Value(float32) for _ in range(3)]
    nodes = [Op("param", (), 0, (z := Value(float32)))]
    for token, part, value in zip(tokens, parts, (z, z, Const(float32, 2.0)), strict=True):
        nodes += [Op("call", (value,), 0, token), Op("call_part", (token,), 0, part)]
    nodes.append(Op("store", (Const(int32, 0), _add(nodes, parts[0], parts[1])), 1))
    params = (Param("x", float32), Param("y", ArrayType(float32, 1)))
    kernel = Kernel("k", params, 1, _block(nodes), functions=(twice,))
    verify(kernel)
    left = [n.name for n in walk(simplify(kernel).body)]
    assert left.count("call") == 1 and left.count("call_part") == 1
    assert not any(n.row.effect == "call" for n in walk_all(inlined(kernel)))


def _block(nodes, *yields):
    return Block(tuple(nodes), yields)


def _add(nodes, x, y):
    result = Value(float32)
    nodes.append(Op("add", (x, y), None, result))
    return result


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda f, op: (f, dataclasses.replace(op, attr=1)), "there is no function 1"),
        (lambda f, op: (f, dataclasses.replace(op, args=())), "takes"),
        (lambda f, op: (dataclasses.replace(f, body=_block([Op("tid", (), 0, Value(int32))])), op), "tid in function"),
        (
            lambda f, op: (
                dataclasses.replace(f, body=_block([Op("call", f.params, 0, Value(int32))], *f.body.yields)),
                op,
            ),
            "not before it",
        ),
    ],
)
def test_calls_that_do_not_fit_are_refused(change, reason):
    x, token, part = Value(float32), Value(int32), Value(float32)
    same = Function("same", (x,), _block([], x))
    call = Op("call", (Const(float32, 1.0),), 0, token)
    function, call = change(same, call)
    nodes = [call, Op("call_part", (token,), 0, part)]
    with pytest.raises(InvalidIR, match=reason):
        verify(Kernel("k", (), 1, _block(nodes), functions=(function,)))
    with pytest.raises(InvalidIR, match="no part of"):
        verify(Kernel("k", (), 1, _block([Op("call_part", (Const(int32, 0),), 0, part)]), functions=(same,)))
    assert encode(0) == 0


@wp.func
def farthest(x: wp.vec3, first: int, steps: int):
    """A loop that may return, so that what the function gives has no value before it."""
    best, at = float(first), 0
    for k in range(steps):
        turned = wp.vec3(x[1] * float(k), x[2] - x[0], x[0] + float(first))
        along = wp.dot(turned, x) + float(first * k)
        if along > 3.0:
            return wp.length(turned) * 0.25 - best, k
        if along > best:
            best, at = along, k
    y = wp.cw_mul(x, x) + wp.vec3(best, float(at), 1.0)
    z = wp.cross(y, x) / (1.0 + wp.length_sq(y))
    z = z + 0.5 * wp.cross(z, wp.vec3(y[0], y[2], best)) - wp.cw_mul(z, x)
    return z[0] * 0.5 + z[1] * y[0] - z[2], at + first


@wp.kernel
def climbed(points: wp.array[wp.vec3], steps: wp.array[int], out: wp.array[float], places: wp.array[int]):
    i = wp.tid()
    x = points[i]
    for k in range(steps[i]):
        for m in range(2):
            found, place = farthest(x, k + m, 1 + steps[i])
            x = x * 0.5 + wp.vec3(found, float(place), -found)
        other, there = farthest(x, k, steps[i] + 2)
        third, _ = farthest(x, there, 1 + k)
    out[i] = found + other * third
    places[i] = place + 100 * there


def climbed_by_numpy(points, steps):
    """The same, thread by thread, in float64."""

    def farthest(x, first, steps):
        best, at = float(first), 0
        for k in range(steps):
            turned = np.array([x[1] * k, x[2] - x[0], x[0] + first])
            along = np.dot(turned, x) + first * k
            if along > 3.0:
                return np.linalg.norm(turned) * 0.25 - best, k
            if along > best:
                best, at = along, k
        y = x * x + [best, at, 1.0]
        z = np.cross(y, x) / (1.0 + np.dot(y, y))
        z = z + 0.5 * np.cross(z, [y[0], y[2], best]) - z * x
        return z[0] * 0.5 + z[1] * y[0] - z[2], at + first

    out, places = np.zeros(len(points)), np.zeros(len(points), np.int32)
    for i, x in enumerate(points.astype(np.float64)):
        for k in range(steps[i]):
            for m in range(2):
                found, place = farthest(x, k + m, 1 + steps[i])
                x = x * 0.5 + [found, place, -found]
            other, there = farthest(x, k, steps[i] + 2)
            third, _ = farthest(x, there, 1 + k)
        out[i], places[i] = found + other * third, place + 100 * there
    return out, places


def test_functions_that_loops_call_first_have_all_of_their_loops():
    # A loop that sets new names is read twice, at first without the loops inside.
    with pytest.warns(KernelWarning):  # of a loop without a trip
        kernel = climbed.ir()
    points, steps = arguments()[:2]
    steps = steps % 3 + 1
    expected = climbed_by_numpy(points, steps)
    out, places = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.int32)
    wp.launch(climbed, SIZE, [points, steps, out, places])
    np.testing.assert_array_equal(places, expected[1])
    np.testing.assert_allclose(out, expected[0], rtol=1e-4, atol=1e-4)
    assert len(np.unique(places)) > 5
    assert [f.name for f in kernel.functions] == ["farthest"]


@wp.func
def partial(x: wp.vec3, steps: int):
    """A function that returns nothing on some path."""
    y = wp.cross(x, wp.vec3(x[1], x[2], x[0] * x[1])) + wp.cw_mul(x, x) * float(steps)
    z = wp.cross(y, x) / (1.0 + wp.length_sq(y)) + wp.cw_mul(y, x) - y * x[2]
    if z[0] > 0.0:
        return wp.dot(y, z) + z[0] * z[2] - wp.length(x + z)


@wp.kernel
def warned(points: wp.array[wp.vec3], steps: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    for k in range(steps[i]):
        found = partial(points[i], k) + partial(points[0], k + 1) * partial(points[i], k + 2)
    out[i] = found + partial(points[i], steps[i])


def test_functions_repeat_the_warnings_of_reading_them():
    with pytest.warns(KernelWarning) as said:
        kernel = warned.ir()
    assert [f.name for f in kernel.functions] == ["partial"]
    assert len(said) == 2
    assert all(any(name in str(w.message) for w in said) for name in ("`found`", "the result of partial"))


@wp.func
def around(u: wp.array2d[float], i: int, j: int):
    """A sum of neighbours, of many operations."""
    s = 0.0
    for a in range(5):
        for b in range(5):
            s = s + u[i + a - 2, j + b - 2] * float(1 + a * b)
    return s


@wp.func
def around_twice(u: wp.array2d[float], i: int, j: int):
    return around(u, i - 1, j) + around(u, i + 1, j)


@wp.kernel
def beside(u: wp.array2d[float], v: wp.array2d[float]):
    i, j = wp.tid()
    at = wp.clamp(j, 2, u.shape[1] - 4)
    if i > 2 and i < u.shape[0] - 3:
        v[i, j] = around(u, i, at) + around_twice(u, i, at + 1)


@wp.kernel
def elsewhere(u: wp.array2d[float], places: wp.array[int], v: wp.array2d[float]):
    i, j = wp.tid()
    at = places[j]
    if i > 2 and i < u.shape[0] - 3:
        v[i, j] = around(u, i, at) + around_twice(u, i, at + 1)


def test_functions_that_read_beside_their_neighbours_are_in_line():
    assert not beside.ir().functions
    assert [function.name for function in elsewhere.ir().functions] == ["around"]
    u = np.random.default_rng(2).normal(size=(9, 21)).astype(np.float32)
    places = (np.arange(21, dtype=np.int32) * 5) % 16 + 2
    weights = 1 + np.outer(np.arange(5), np.arange(5))

    def sum_around(i, j):
        return np.sum(u[i - 2 : i + 3, j - 2 : j + 3] * weights)

    for kernel, given, columns in ((beside, (), np.clip(np.arange(21), 2, 17)), (elsewhere, (places,), places)):
        (v,) = wp.launch(kernel, u.shape, [u, *given], [u.shape])
        want = np.zeros_like(u)
        for i in range(3, 6):
            want[i] = [sum_around(i, k) + sum_around(i - 1, k + 1) + sum_around(i + 1, k + 1) for k in columns]
        np.testing.assert_allclose(v, want, rtol=2e-5, atol=1e-4)
