"""Simplification: what a body yields is kept, and loads are shared only as long as they hold."""

import time

import jwarp as wp
from jwarp.ir.builder import Builder, make_block
from jwarp.ir.nodes import Block, Const, For, Kernel, Op, Param, Value, walk
from jwarp.passes.simplify import simplify
from jwarp.types import ArrayType, float32, int32

ONE = Const(int32, 1)


def names(body: Block) -> list[str]:
    return [node.name for node in walk(body) if isinstance(node, Op)]


def test_what_a_body_yields_is_needed():
    x, y = Value(int32), Value(int32)
    builder = Builder()
    with builder.block() as nodes:
        total = builder.op("add", builder.op("mul", x, y), ONE)
        builder.op("sub", x, y)  # nothing needs it
        body = make_block(nodes, (total, y))
    made = simplify(Kernel("form", (), 1, body)).body
    assert names(made) == ["mul", "add"]
    assert made.yields == (total, y)


def loads_in_loop(stored: int) -> int:
    """How many loads of parameter 0 are left, of one before a loop and one in it that stores."""
    params = tuple(Param(name, ArrayType(float32, 1)) for name in "ab")
    first, again, index = Value(float32), Value(float32), Value(int32)
    body = Block((Op("load", (ONE,), 0, again), Op("store", (index, again), stored)))
    loop = For(index, Const(int32, 0), Const(int32, 4), 1, (), (), body, ())
    used = Op("store", (ONE, first), 1)
    kernel = Kernel("loads", params, 1, Block((Op("load", (ONE,), 0, first), used, loop)))
    return names(simplify(kernel).body).count("load")


def test_a_load_is_shared_with_a_loop_that_does_not_store_to_its_array():
    assert loads_in_loop(stored=1) == 1


def test_a_load_is_not_shared_with_a_loop_that_stores_to_its_array():
    assert loads_in_loop(stored=0) == 2


def test_loops_in_branches_of_loops_take_no_time_that_grows_with_their_depth_alone():
    """What a loop carries unchanged is found in the loops inside it, once for all that these carry."""

    @wp.kernel
    def deep(x: wp.array[float], n: int, y: wp.array[float]):
        i = wp.tid()
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(n):
            if x[j] > 0.0:
                for k in range(j):
                    if x[k] > 1.0:
                        a, b = b + 1.0, a
                        for h in range(k):
                            if x[h] > 2.0:
                                b, c = c + 1.0, b
                                for m in range(h):
                                    if x[m] > 3.0:
                                        c, d = d + 1.0, c
                                        for o in range(m):
                                            if x[o] > 4.0:
                                                d, a = a + 1.0, d
        y[i] = a + b + c + d

    start = time.process_time()
    simplify(deep.ir())
    assert time.process_time() - start < 1.0
