"""Functions that read parameters stay functions of a kernel: the same bits as in line, for all widths of vectors."""

import dataclasses

import jax
import numpy as np
import pytest
from compiled_variants import VARIANTS, Compiled

import jwarp as wp
from jwarp.analysis.independence import independent_axes
from jwarp.analysis.ranges import prove
from jwarp.analysis.sums import weight_of
from jwarp.backend.interpreter.machine import run
from jwarp.ir.functions import arrays_of_functions, inlined, without_reading_functions
from jwarp.ir.nodes import Op, walk
from jwarp.ir.printing import format_kernel
from jwarp.ir.serialize import from_bytes, to_bytes
from jwarp.ir.verify import InvalidIR, verify

SIZE, ROWS, COLUMNS = 37, 5, 6


@wp.struct
class Body:
    vertices: wp.array[wp.vec3]
    first: wp.array[int]
    scale: float
    last: int
    back: int


@wp.func
def squared(x: wp.array[float], k: int):
    """A function in a function, small enough to be in line in it."""
    return x[k] * x[k]


@wp.func
def supported(body: Body, which: int, row: wp.array[float], direction: wp.vec3):
    """The farthest vertex along a direction: loops, branches, indices that come from arrays, and extents."""
    best, found, at = (-1.0e30), wp.vec3(), (-1)
    for k in range(body.first[which], body.first[which + 1]):
        v = body.vertices[k] * body.scale
        along = wp.dot(v, direction) + row[k % row.shape[0]]
        if along > best:
            best, found, at = along, v, k
    if at >= 0 and best > 0.5:
        found = found + wp.cross(direction, body.vertices[at]) * squared(row, body.last)
        found = found - wp.cw_mul(found, body.vertices[at + which]) * row[at + body.back]  # at times outside
    else:
        found = found * squared(row, which) + wp.cw_mul(direction, wp.vec3(float(row.shape[0]), 0.25, 2.0))
    found = found / (1.0 + wp.length_sq(found))
    return found, at, best > 0.0


@wp.kernel
def searched(
    body: Body,
    rows: wp.array2d[float],
    directions: wp.array[wp.vec3],
    choice: wp.array[int],
    one: int,
    out: wp.array[wp.vec3],
    ends: wp.array[int],
):
    i = wp.tid()
    d = directions[i]
    up = wp.vec3(body.scale, body.scale * 0.5, body.scale + 0.25)
    p, first, _ = supported(body, one, rows[one], up)  # all arguments are the same in all lanes
    q, second, inner = supported(body, choice[i], rows[one + 1], d)
    if inner:  # some lanes
        q = q - p
        for k in range(choice[i]):
            r, last, _ = supported(body, choice[i] - k, rows[choice[i]], d - q)
            q = q + 0.5 * r
            second = second + 10 * last
    else:
        r, third, _ = supported(body, one - 1, rows[i % 4], d)
        q = q + r
        second = second + 100 * third
    out[i] = q + p
    ends[i] = first + 1000 * second


def arguments(seed=3):
    made = np.random.default_rng(seed)
    first = np.array([0, 4, 7, 7, 13], np.int32)
    vertices, rows = made.normal(size=(14, 3)).astype(np.float32), made.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    directions = made.normal(size=(SIZE, 3)).astype(np.float32)
    choice = made.integers(0, 4, SIZE).astype(np.int32)
    results = np.zeros((SIZE, 3), np.float32), np.zeros(SIZE, np.int32)
    return [vertices, first, np.float32(0.75), -1, -3, rows, directions, choice, 1, *results]


def test_the_kernel_has_functions_that_read():
    kernel = searched.ir()
    assert {f.name for f in kernel.functions} == {"supported"}
    assert all(arrays_of_functions(kernel))
    assert not without_reading_functions(kernel).functions
    assert any("call 0 supported" in line for line in format_kernel(kernel).splitlines())


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_code_gives_what_the_interpreter_gives(variant):
    kernel = searched.ir()
    expected = run(inlined(kernel), (SIZE,), arguments())
    assert len(np.unique(expected[-1])) > 10  # threads go several ways
    for found in (
        run(kernel, (SIZE,), arguments()),
        Compiled(kernel, variant).run((SIZE,), arguments()),
    ):
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_array_equal(x, y)


def test_programs_with_such_functions_are_kept():
    again = from_bytes(to_bytes(searched.ir()))
    verify(again)
    assert arrays_of_functions(again) == arrays_of_functions(searched.ir())


def structs(args, body=None):
    return [Body(*args[:5]), *args[5:]]


@pytest.mark.parametrize("settings", [{}, {"bounds": "error"}, {"debug": True}, {"bounds": "unchecked"}])
def test_launches_under_all_settings(settings):
    args = arguments()
    args[0] = np.concatenate([args[0], args[0]])  # then all accesses are inside
    args[3], args[4], args[5] = 2, 0, np.concatenate([args[5]] * 3, axis=1)
    expected = run(inlined(searched.ir()), (SIZE,), args)
    with wp.config(**settings):
        wp.launch(searched, SIZE, structs(args))
    for k in (-2, -1):
        np.testing.assert_allclose(args[k], expected[k], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_batches_and_gradients():
    vertices, first, scale, last, back, rows, directions, choice, *_ = arguments()
    fn = wp.jax_kernel(searched, num_outputs=2)

    def total(v, r, d):
        body = Body(vertices=v, first=first, scale=scale, last=last, back=back)
        return (fn(body, r, d, choice, 1, output_dims={"out": SIZE, "ends": SIZE})[0] ** 2).sum()

    made = np.random.default_rng(1)
    many = made.normal(size=(3, *directions.shape)).astype(np.float32)
    batch = jax.vmap(total, (None, None, 0))(vertices, rows, many)
    np.testing.assert_allclose(batch, [total(vertices, rows, d) for d in many], rtol=1e-5)
    one = jax.vmap(lambda d: total(vertices, rows, d))(made.normal(size=(20, SIZE, 3)).astype(np.float32))
    assert one.shape == (20,) and np.isfinite(one).all()
    grads = jax.grad(total, (0, 1))(vertices, rows, directions)
    for k, grad in enumerate(grads):
        along = made.normal(size=grad.shape).astype(np.float32)
        ends = []
        for sign in (1, -1):
            moved = [vertices, rows]
            moved[k] = moved[k] + sign * 1e-3 * along
            ends.append(total(*moved, directions))
        np.testing.assert_allclose((grad * along).sum(), (ends[0] - ends[1]) / 2e-3, rtol=0.05, atol=0.05)


@wp.kernel
def changing(row: wp.array[float], body: Body, out: wp.array[wp.vec3], ends: wp.array[int]):
    i = wp.tid()
    p, k, _ = supported(body, i % 3, row, wp.vec3(body.scale, row[0], row[1]))
    wp.atomic_add(body.vertices, i % 4, p)
    q, m, _ = supported(body, i % 3, row, wp.vec3(body.scale, row[0], row[1]))
    out[i] = p + q
    ends[i] = k + m


def test_functions_that_read_what_the_kernel_changes_are_in_line():
    kernel = changing.ir()
    assert not kernel.functions
    assert sum(isinstance(n, Op) and n.name == "load" for n in walk(kernel.body)) > 20


@wp.kernel
def moved(body: Body, row: wp.array[float], which: int, out: wp.array[wp.vec3]):
    d = wp.vec3(row[2], row[0], row[1])
    p, k, _b = supported(body, which, row, d)
    out[k] = p + wp.vec3(20.0, 10.0, 5.0)
    q, m, _b = supported(body, which, row, d)
    r, _a, _b = supported(body, which, row, -d)
    out[13] = q + r + wp.vec3(float(m), 0.0, 0.0)


def test_one_array_that_is_read_and_written_by_two_names():
    assert moved.ir().functions
    vertices, first, scale, last, back, rows, *_ = arguments()
    both, args = vertices.copy(), [first, scale, last, back, rows[0], 3]
    wp.launch(moved, 1, [Body(both, *args[:4]), *args[4:], both])
    apart = run(moved.ir(), (1,), [vertices, *args, vertices.copy()])[-1]
    (k,) = np.flatnonzero((apart[:13] != vertices[:13]).any(1))
    changed = vertices.copy()
    changed[k] = apart[k]
    expected = run(moved.ir(), (1,), [changed, *args, changed.copy()])[-1]
    np.testing.assert_allclose(both[13], expected[13], rtol=1e-5)
    assert not np.allclose(both[13], apart[13])


@wp.kernel
def apart(body: Body, rows: wp.array2d[float], directions: wp.array[wp.vec3], out: wp.array[wp.vec3]):
    i = wp.tid()
    p, _a, _b = supported(body, 0, rows[i], directions[i])
    q, _a, _b = supported(body, 0, rows[i], p)
    r, _a, _b = supported(body, 0, rows[i], q)
    out[i] = r


def test_what_asks_how_arrays_are_read_sees_it():
    kernel = apart.ir()
    rows, directions, out = (len(kernel.params) - k for k in (3, 2, 1))
    (axis,) = independent_axes(without_reading_functions(kernel))
    assert dict(axis.places) == {rows: 0, directions: 0, out: 0}
    assert kernel.functions and weight_of(kernel) >= weight_of(inlined(kernel))
    loads = [n for f in kernel.functions for n in walk(f.body) if isinstance(n, Op) and n.row.is_access]
    assert any(n in prove(kernel).proven for n in loads)


def test_damaged_programs_are_refused():
    kernel = searched.ir()
    function, ends = kernel.functions[0], len(kernel.params) - 1
    for array, reason in ((ends, "changes"), (99, "array")):
        nodes = list(function.body.nodes)
        place = next(k for k, n in enumerate(nodes) if isinstance(n, Op) and n.name == "load")
        nodes[place] = dataclasses.replace(nodes[place], attr=array)
        body = dataclasses.replace(function.body, nodes=tuple(nodes))
        damaged = dataclasses.replace(function, body=body)
        with pytest.raises(InvalidIR, match=reason):
            verify(dataclasses.replace(kernel, functions=(damaged, *kernel.functions[1:])))
