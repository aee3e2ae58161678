"""The interpreter against loops over threads written in plain Python and NumPy."""

import ir_kernels
import numpy as np
import pytest
from ir_kernels import Nodes, arrays, const

from jwarp.backend.interpreter.machine import run
from jwarp.ir.nodes import Block, For, If, Kernel, Op, Param, Value, While
from jwarp.ir.verify import verify
from jwarp.types import bfloat16, bool_, float32, int8, int32, int64, uint8, uint64

pytestmark = pytest.mark.quick

N = 23


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def test_a_plain_kernel_leaves_its_inputs_alone(rng):
    x, f = floats(rng, N), floats(rng, N)
    before = x.copy(), f.copy()
    got_x, got_f = run(ir_kernels.spring(), (N,), [x, 2.5, f])
    assert (x == before[0]).all() and (f == before[1]).all() and not np.shares_memory(x, got_x)
    assert (got_x == x).all()
    assert (got_f == np.float32(-2.5) * x).all()


def test_a_branch_runs_only_where_its_condition_holds(rng):
    x = floats(rng, N)
    _, y, count = run(ir_kernels.clamp(), (N,), [x, np.zeros(N, np.float32), np.zeros(1, np.uint8)])
    assert (y == np.where(x < 0, 0, np.sqrt(np.abs(x)))).all() and count.tolist() == [1]
    _, y, count = run(ir_kernels.clamp(), (N,), [np.abs(x), np.zeros(N, np.float32), np.zeros(1, np.uint8)])
    assert (y == np.sqrt(np.abs(x))).all() and count.tolist() == [0]


@pytest.mark.parametrize("step", [1, 3, -1, -2])
def test_counted_loops_with_a_trip_count_per_thread(rng, step):
    x, n = floats(rng, N), rng.integers(-3, 9, N).astype(np.int32)
    zero = np.zeros(N, np.float32), np.zeros(N, np.int32)
    _, _, y, s = run(ir_kernels.power(int32, step), (N,), [x, n, *zero])
    trips = [range(0, m, step) if step > 0 else range(m, 0, step) for m in n.tolist()]
    expected = np.ones(N, np.float32)
    for thread, trip in enumerate(trips):
        for _ in trip:
            expected[thread] *= x[thread]
    assert (y == expected).all()
    assert s.tolist() == [sum(trip) for trip in trips]


@pytest.mark.parametrize("type_", [int8, uint8, int64, uint64], ids=repr)
@pytest.mark.parametrize("step", [1, 100, -1, -100])
def test_counting_is_exact_at_the_ends_of_the_index_type(type_, step):
    if step > 0:
        lo, hi = [type_.max - 3, type_.max - 1, type_.max, type_.min], [type_.max] * 3 + [type_.min + 3]
    else:
        lo, hi = [type_.min + 3, type_.min + 1, type_.min, type_.max], [type_.min] * 3 + [type_.max - 3]
    b = Nodes()
    i = b.tid()
    first, last = (b("load", i, attr=k, type_=type_) for k in (0, 1))
    count, total, body = Value(int32), Value(int32), Nodes()
    following = body("add", count, const(1), type_=int32)
    b.nodes.append(For(Value(type_), first, last, step, (count,), (const(0),), body.block(following), (total,)))
    b("store", i, total, attr=2)
    kernel = Kernel("count", (*arrays("lo", "hi", dtype=type_), *arrays("n", dtype=int32)), 1, b.block())
    verify(kernel)
    bounds = [np.array(v, type_.dtype) for v in (lo, hi)]
    *_, trips = run(kernel, (4,), [*bounds, np.zeros(4, np.int32)])
    assert trips.tolist() == [len(range(*ends, step)) for ends in zip(lo, hi, strict=True)]


def test_a_conditional_loop_ends_for_each_thread_on_its_own():
    start = np.array([1, 2, 3, 7, 27, 97, 8, 1], np.int32)
    expected = []
    for n in start.tolist():
        steps = 0
        while n > 1:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        expected.append(steps)
    _, steps = run(ir_kernels.collatz(), (8,), [start, np.zeros(8, np.int32)])
    assert steps.tolist() == expected


def test_two_dimensions_shapes_and_types(rng):
    x = floats(rng, 4, 5)
    _, y = run(ir_kernels.transpose(), (4, 5), [x, np.zeros((5, 4))])
    i, j = np.indices((4, 5))
    assert (y == (x.astype(np.float64) + (i * 5 + j) + 0.1).T).all()


@pytest.mark.parametrize("dims", [(N,), (N, 3), (2, N)], ids=str)
def test_further_dimensions_repeat_threads(dims):
    label, weight = np.zeros(N, np.int32), np.ones(N, np.float32)
    *_, bins = run(ir_kernels.histogram(), dims, [label, weight, np.zeros(2, np.float32)])
    assert bins.tolist() == [min(dims[0], N) * np.prod(dims[1:]), 0]


def test_missing_dimensions_are_one(rng):
    x = floats(rng, 4, 5)
    _, y = run(ir_kernels.transpose(), (4,), [x, np.zeros((5, 4))])
    assert (y[1:] == 0).all() and (y[0] == x[:, 0].astype(np.float64) + np.arange(4) * 5 + 0.1).all()


@pytest.mark.parametrize("dims", [(0,), (3, 0)], ids=str)
def test_a_launch_without_threads_is_the_identity(dims, rng):
    f = floats(rng, N)
    assert (run(ir_kernels.spring(), dims, [floats(rng, N), 1.0, f])[1] == f).all()


def test_atomic_addition_counts_every_thread(rng):
    label, weight = rng.integers(0, 5, N).astype(np.int32), rng.integers(0, 9, N).astype(np.float32)
    *_, bins = run(ir_kernels.histogram(), (N,), [label, weight, np.ones(5, np.float32)])
    assert bins.tolist() == [1 + weight[label == k].sum() for k in range(5)]


def gather(index_type):
    """y[index[i]] = x[index[i]] + 1, with y written only where the index is that of an element"""
    b = Nodes()
    index = b("load", b.tid(), attr=0, type_=index_type)
    b("store", index, b("add", b("load", index, attr=1), const(1.0)), attr=2)
    b("store", b.tid(), b("load", index, attr=1), attr=3)
    params = (*arrays("index", dtype=index_type), *arrays("x", "y", "loaded"))
    return Kernel("gather", params, 1, b.block())


@pytest.mark.parametrize("type_", [int8, int32, int64, uint8, uint64], ids=repr)
def test_indices_wrap_once_and_outside_reads_zero_and_writes_nothing(type_, rng):
    x = floats(rng, 5)
    index = [0, 4, 5, 6, type_.max, type_.min]
    index += [-1, -5, -6, -7] if type_.kind == "int" else [type_.max - 4]
    y, loaded = np.full(5, 7, np.float32), np.full(len(index), 7, np.float32)
    *_, y, loaded = run(gather(type_), (len(index),), [np.array(index, type_.dtype), x, y, loaded])
    inside = [-5 <= k < 5 for k in index]
    assert loaded.tolist() == [x[k] if ok else 0 for k, ok in zip(index, inside, strict=True)]
    expected = np.full(5, 7, np.float32)
    for k, ok in zip(index, inside, strict=True):
        if ok:
            expected[k] = x[k] + np.float32(1)
    assert (y == expected).all()


def test_arrays_without_elements():
    empty = np.zeros(0, np.float32)
    index, loaded = np.array([0, -1], np.int32), np.full(2, 7, np.float32)
    *_, y, loaded = run(gather(int32), (2,), [index, empty, empty, loaded])
    assert y.shape == (0,) and loaded.tolist() == [0, 0]


def test_of_racing_stores_the_last_thread_wins():
    b = Nodes()
    i, j = b.tid(0), b.tid(1)
    b("store", const(0), b("add", b("mul", i, const(10), type_=int32), j, type_=int32), attr=0)
    kernel = Kernel("race", arrays("y", dtype=int32), 2, b.block())
    assert run(kernel, (3, 4), [np.zeros(1, np.int32)])[0].tolist() == [23]


def test_values_of_one_iteration_do_not_leak_into_another():
    """Nested loops over a triangle, each with a store inside; the sum is carried through both."""
    b = Nodes()
    i = b.tid()
    outer_index, inner_index = Value(int32), Value(int32)
    sums = [Value(int32) for _ in range(4)]
    inner, outer = Nodes(), Nodes()
    following = inner("add", sums[1], inner("mul", outer_index, inner_index, type_=int32), type_=int32)
    inner("store", i, outer_index, inner_index, following, attr=0)
    hi = outer("add", outer_index, i, type_=int32)
    outer.nodes.append(For(inner_index, outer_index, hi, 1, (sums[1],), (sums[0],), inner.block(following), (sums[2],)))
    b.nodes.append(For(outer_index, const(0), i, 1, (sums[0],), (const(0),), outer.block(sums[2]), (sums[3],)))
    b("store", i, sums[3], attr=1)
    params = (*arrays("trail", dtype=int32, ndim=3), *arrays("total", dtype=int32))
    kernel = Kernel("triangle", params, 1, b.block())
    verify(kernel)
    n = 6
    got = run(kernel, (n,), [np.full((n, n, 2 * n), -1, np.int32), np.zeros(n, np.int32)])
    trail, total = np.full((n, n, 2 * n), -1, np.int32), np.zeros(n, np.int32)
    for t in range(n):
        for p in range(t):
            for q in range(p, p + t):
                total[t] += p * q
                trail[t, p, q] = total[t]
    assert (got[0] == trail).all() and (got[1] == total).all()


def test_a_loop_never_entered_gives_what_it_started_with():
    b = Nodes()
    carried, result = Value(float32), Value(float32)
    never = Block((), (const(False),))
    b.nodes.append(While((carried,), (const(3.0),), never, Block((), (const(4.0),)), (result,)))
    b("store", b.tid(), result, attr=0)
    kernel = Kernel("never", arrays("y"), 1, b.block())
    assert run(kernel, (2,), [np.zeros(2, np.float32)])[0].tolist() == [3, 3]


def test_scalars_and_arrays_of_every_kind(rng):
    b = Nodes()
    i = b.tid()
    flag = b("param", attr=0, type_=bool_)
    x = b("load", i, attr=1, type_=bfloat16)
    b("store", i, b("select", flag, b("neg", x, type_=bfloat16), x, type_=bfloat16), attr=1)
    kernel = Kernel("flip", (Param("flag", bool_), *arrays("x", dtype=bfloat16)), 1, b.block())
    x = floats(rng, N).astype(bfloat16.dtype)
    for flag in (True, False):
        (got,) = run(kernel, (N,), [flag, x])
        assert got.dtype == x.dtype and (got == (-x if flag else x)).all()


def test_wrong_arguments_are_named():
    good = [np.zeros(N, np.float32), 1.0, np.zeros(N, np.float32)]
    with pytest.raises(ValueError, match="takes 3 arguments, not 2"):
        run(ir_kernels.spring(), (N,), good[:2])
    for wrong in (np.zeros(N), np.zeros((N, 1), np.float32)):
        with pytest.raises(ValueError, match=r"x must be array\[float32\]"):
            run(ir_kernels.spring(), (N,), [wrong, *good[1:]])


def test_the_trace_tells_smooth_pieces_apart():
    b = Nodes()
    i = b.tid()
    x = b("load", i, attr=0)
    y = Value(float32)
    positive = b("gt", x, const(0.0), type_=bool_)
    then, orelse = Nodes(), Nodes()
    whole = then("floor", x)
    b.nodes.append(If(positive, then.block(whole), orelse.block(orelse("abs", x)), (y,)))
    b("store", i, b("min", y, const(5.0)), attr=0)
    kernel = Kernel("pieces", arrays("x"), 1, b.block())

    def trace(*x):
        decisions = []
        run(kernel, (len(x),), [np.array(x, np.float32)], decisions)
        return [d.tolist() for d in decisions]

    base = trace(-1.0, 1.5, 7.0)
    assert trace(-1.1, 1.4, 7.0) == base
    for other in ((1.0, 1.5, 7.0), (-1.0, 2.5, 7.0), (-6.0, 1.5, 7.0), (-1.0, 1.5, 3.0)):
        assert trace(*other) != base


def test_random_expressions_match_numpy(rng):
    """Straight-line code of random operations, each a column that NumPy computes as well."""
    binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    unary = {"neg": np.negative, "abs": np.abs, "floor": np.floor, "rint": np.rint}
    for _ in range(30):
        b = Nodes()
        data = [floats(rng, N) for _ in range(2)]
        i = b.tid()
        values = [b("load", i, attr=k) for k in range(2)]
        columns = list(data)
        for name in rng.choice([*binary, *unary], 12):
            picked = rng.integers(0, len(values), 2 if name in binary else 1)
            values.append(b(str(name), *(values[k] for k in picked)))
            columns.append((binary | unary)[name](*(columns[k] for k in picked)))
        b("store", i, values[-1], attr=2)
        kernel = Kernel("expression", arrays("a", "b", "out"), 1, b.block())
        verify(kernel)
        *_, out = run(kernel, (N,), [*data, np.zeros(N, np.float32)])
        assert (out == columns[-1]).all()


def test_operations_that_only_inactive_threads_could_break_are_harmless():
    """1 / x under x != 0, and an index that is valid only there."""
    b = Nodes()
    i = b.tid()
    d = b("load", i, attr=0, type_=int32)
    then, result = Nodes(), Value(int32)
    quotient = then("div", const(12), d, type_=int32)
    then("store", d, quotient, attr=1)
    cond = b("ne", d, const(0), type_=bool_)
    b.nodes.append(If(cond, then.block(quotient), Block((), (const(0),)), (result,)))
    b.nodes.append(Op("store", (i, result), 0))
    kernel = Kernel("guarded", arrays("d", "seen", dtype=int32), 1, b.block())
    d, seen = run(kernel, (4,), [np.array([0, 1, 2, 3], np.int32), np.zeros(4, np.int32)])
    assert d.tolist() == [0, 12, 6, 4] and seen.tolist() == [0, 12, 6, 4]
