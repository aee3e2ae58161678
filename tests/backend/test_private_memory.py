"""Local arrays: generated code against the interpreter, however the lanes go their own ways."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
from compiled_variants import VARIANTS, Compiled
from fuzz_profiles import in_turn
from op_kernels import same

from jwarp.backend.interpreter import machine
from jwarp.ir.builder import Builder, make_block
from jwarp.ir.nodes import Const, For, If, Kernel, Local, Op, Param, Value
from jwarp.ir.serialize import fingerprint, from_bytes, to_bytes
from jwarp.ir.verify import InvalidIR, verify
from jwarp.types import ArrayType, bfloat16, bool_, float32, float64, int8, int32, vector

N, SIZE = 37, 5
TABLE = 2


@functools.cache
def _kernel(dtype=float32, *, clears=1) -> Kernel:
    """out[i] = sum of what varying, uniform and masked accesses leave in a table of this thread's own."""
    b = Builder()

    def op(name, *args, attr=None, type=None):
        result = Value(type) if type else None
        b.append(Op(name, args, attr, result))
        return result

    i = op("tid", attr=0, type=int32)
    key = op("load", i, attr=0, type=int32)
    value = b.op("cast", key, type=dtype)
    index, total = Value(int32), Value(dtype)
    with b.block() as body:
        op("clear", attr=TABLE)
        if clears > 1:
            with b.block() as again:
                op("store", Const(int32, 2), value, attr=TABLE)
                op("clear", attr=TABLE)
            b.append(If(b.op("gt", key, index), make_block(again), make_block([]), ()))
        op("store", key, value, attr=TABLE)
        op("store", Const(int32, 1), b.op("cast", index, type=dtype), attr=TABLE)
        op("store", index, value, attr=TABLE)
        with b.block() as then:
            op("store", Const(int32, -1), value, attr=TABLE)
        b.append(If(b.op("lt", key, Const(int32, 2)), make_block(then), make_block([]), ()))
        kept = total
        for place in (Const(int32, 1), Const(int32, -1), index, key, b.op("add", key, index)):
            loaded = op("load", place, attr=TABLE, type=dtype)
            kept = b.op("or", kept, loaded) if dtype is bool_ else b.op("add", kept, loaded)
    last = Value(dtype)
    zero = Const(dtype, {"float": 0.0, "bool": False}.get(dtype.kind, 0))
    b.append(For(index, Const(int32, 0), key, 1, (total,), (zero,), make_block(body, (kept,)), (last,)))
    op("store", i, last, attr=1)
    params = (Param("keys", ArrayType(int32, 1)), Param("out", ArrayType(dtype, 1)))
    return Kernel("table", params, 1, make_block(b.nodes), locals=(Local("t", ArrayType(dtype, 1), (SIZE,)),))


def _keys() -> np.ndarray:
    return np.random.default_rng(3).integers(-SIZE - 2, SIZE + 3, N).astype(np.int32)


TYPES = (float32, float64, bfloat16, int8, bool_)
TABLES = [
    (variant, dtype, clears)
    for (v, variant), (d, dtype), clears in itertools.product(enumerate(VARIANTS), enumerate(TYPES), (1, 2))
    if in_turn(v, d, clears, of=2)
]


@pytest.mark.parametrize("variant, dtype, clears", TABLES, ids=str)
def test_every_lane_has_a_table_of_its_own(variant, dtype, clears):
    kernel = _kernel(dtype, clears=clears)
    args = [_keys(), np.ones(N, dtype.dtype)]
    expected = machine.run(kernel, (N,), args)
    got = Compiled(kernel, variant).run((N,), args)
    assert same(got[1], expected[1])


def test_the_interpreter_against_plain_python():
    keys = _keys()
    out = machine.run(_kernel(float64), (N,), [keys, np.ones(N)])[1]
    for key, got in zip(keys.tolist(), out.tolist(), strict=True):
        total = 0.0
        for index in range(key):
            table = [0.0] * SIZE

            def place(k):
                return k + SIZE if -SIZE <= k < 0 else k

            def put(k, value, table=table):
                if 0 <= place(k) < SIZE:
                    table[place(k)] = value

            put(key, float(key))
            put(1, float(index))
            put(index, float(key))
            if key < 2:
                put(-1, float(key))
            for k in (1, -1, index, key, key + index):
                total += table[place(k)] if 0 <= place(k) < SIZE else 0.0
        assert got == total


def test_serialised_and_fingerprinted_with_the_kernel():
    kernel = _kernel()
    again = from_bytes(to_bytes(kernel))
    assert again.locals == kernel.locals
    assert fingerprint(again) == fingerprint(kernel)
    other = dataclasses.replace(kernel, locals=(dataclasses.replace(kernel.locals[0], shape=(SIZE + 1,)),))
    assert fingerprint(other) != fingerprint(kernel)


@pytest.mark.parametrize(
    ("local", "reason"),
    [
        (Local("t", ArrayType(float32, 1), (0,)), "has extents"),
        (Local("t", ArrayType(float32, 1), (2, 2)), "has extents"),
        (Local("t", ArrayType(vector(3, float32), 1), (2, 2)), "has extents"),
        (Local("t", ArrayType(float32, 1), (1 << 40,)), "has extents"),
        (Local("t", ArrayType(float32, 2), (1 << 10, 1 << 10)), "bytes"),
        (Local("t", ArrayType(float64, 1), (SIZE,)), "float32 is written to an array of float64"),
        (Local("t", ArrayType(vector(SIZE, float32), 0), (SIZE,)), "has type"),
    ],
)
def test_what_is_no_local_array(local, reason):
    with pytest.raises(InvalidIR, match=reason):
        verify(dataclasses.replace(_kernel(), locals=(local,)))


def test_nothing_is_read_before_it_is_cleared():
    read = Value(float32)
    body = make_block([Op("load", (Const(int32, 0),), 0, read), Op("clear", (), 0)])
    kernel = Kernel("early", (), 1, body, locals=(Local("t", ArrayType(float32, 1), (3,)),))
    with pytest.raises(InvalidIR, match="not cleared"):
        verify(kernel)
