"""Kernels built by hand from IR nodes, for the tests of what works on IR."""

from __future__ import annotations

from jwarp.errors import Span
from jwarp.ir.attributes import Extent
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Op, Param, Value, While
from jwarp.types import ArrayType, ScalarType, bool_, float32, float64, int32, uint8

FILE = "/somewhere/deep/model.py"


def const(value, type_: ScalarType | None = None) -> Const:
    """A constant of `type_`, or of the type that a Python literal has in a kernel."""
    if type_ is None:
        type_ = {bool: bool_, int: int32, float: float32}[type(value)]
    return Const(type_, value)


class Nodes:
    """Collects operations; every call returns the value it defines."""

    def __init__(self):
        self.nodes = []
        self.line = 0

    def __call__(self, name, *args, attr=None, type_=float32):
        result = None if name in ("store", "atomic_add", "check") else Value(type_)
        span = Span(FILE, self.line, 4, 9) if self.line else Span("<unknown>", 0)
        self.nodes.append(Op(name, args, attr, result, span))
        return result

    def tid(self, axis=0):
        return self("tid", attr=axis, type_=int32)

    def block(self, *yields):
        return Block(tuple(self.nodes), yields)


def arrays(*names, dtype=float32, ndim=1):
    return tuple(Param(n, ArrayType(dtype, ndim)) for n in names)


def spring():
    """f[i] = -k * x[i]"""
    b = Nodes()
    b.line = 12
    i = b.tid()
    b.line = 13
    k = b("param", attr=1)
    x = b("load", i, attr=0)
    b("store", i, b("mul", b("neg", k), x), attr=2)
    params = (*arrays("x"), Param("k", float32), *arrays("f"))
    return Kernel("spring", params, 1, b.block(), Span(FILE, 10))


def clamp():
    """y[i] = x[i] < 0 ? 0 : sqrt(x[i]); count[0] is written by the negative ones only"""
    b = Nodes()
    i = b.tid()
    x = b("load", i, attr=0)
    negative, root = Nodes(), Nodes()
    negative("store", const(0), const(1, uint8), attr=2)
    y = Value(float32)
    cond = b("lt", x, const(0.0), type_=bool_)
    b.nodes.append(If(cond, negative.block(const(0.0)), root.block(root("sqrt", x)), (y,)))
    b("store", i, y, attr=1)
    return Kernel("clamp", (*arrays("x", "y"), *arrays("count", dtype=uint8)), 1, b.block())


def power(index_type=int32, step=1):
    """y[i] = x[i] ** n[i] by a counted loop, and s[i] the sum of the loop's indices"""
    b = Nodes()
    i = b.tid()
    x, n = b("load", i, attr=0), b("load", i, attr=1, type_=index_type)
    body = Nodes()
    index, p, s = Value(index_type), Value(float32), Value(index_type)
    next_p, next_s = body("mul", p, x), body("add", s, index, type_=index_type)
    out_p, out_s = Value(float32), Value(index_type)
    lo, hi = const(0, index_type), n
    if step < 0:
        lo, hi = hi, lo
    init = (const(1.0), const(0, index_type))
    b.nodes.append(For(index, lo, hi, step, (p, s), init, body.block(next_p, next_s), (out_p, out_s)))
    b("store", i, out_p, attr=2)
    b("store", i, out_s, attr=3)
    params = (*arrays("x"), *arrays("n", dtype=index_type), *arrays("y"), *arrays("s", dtype=index_type))
    return Kernel("power", params, 1, b.block())


def collatz():
    """steps[i] = how many steps the Collatz sequence of start[i] takes to reach 1"""
    b = Nodes()
    i = b.tid()
    start = b("load", i, attr=0, type_=int32)
    n, steps = Value(int32), Value(int32)
    cond, body, even, odd = Nodes(), Nodes(), Nodes(), Nodes()
    more = cond("gt", n, const(1), type_=bool_)
    is_even = body("eq", body("and", n, const(1), type_=int32), const(0), type_=bool_)
    half = even("div", n, const(2), type_=int32)
    up = odd("add", odd("mul", n, const(3), type_=int32), const(1), type_=int32)
    following = Value(int32)
    body.nodes.append(If(is_even, even.block(half), odd.block(up), (following,)))
    count = body("add", steps, const(1), type_=int32)
    last, result = Value(int32), Value(int32)
    loop = While((n, steps), (start, const(0)), cond.block(more), body.block(following, count), (last, result))
    b.nodes.append(loop)
    b("store", i, result, attr=1)
    return Kernel("collatz", arrays("start", "steps", dtype=int32), 1, b.block())


def transpose():
    """y[j, i] = double(x[i, j]) + i * shape(x)[1] + j, with an assertion"""
    b = Nodes()
    i, j = b.tid(0), b.tid(1)
    width = b("shape", attr=Extent(0, 1), type_=int32)
    b("check", b("lt", j, width, type_=bool_), attr="j < x.shape[1]")
    flat = b("add", b("mul", i, width, type_=int32), j, type_=int32)
    wide = b("cast", b("load", i, j, attr=0), type_=float64)
    total = b("add", wide, b("cast", flat, type_=float64), type_=float64)
    b("store", j, i, b("add", total, const(0.1, float64), type_=float64), attr=1)
    return Kernel("transpose", (*arrays("x", ndim=2), *arrays("y", dtype=float64, ndim=2)), 2, b.block())


def histogram():
    """bins[label[i]] += weight[i]"""
    b = Nodes()
    i = b.tid()
    label, weight = b("load", i, attr=0, type_=int32), b("load", i, attr=1)
    b("atomic_add", label, weight, attr=2)
    return Kernel("histogram", (*arrays("label", dtype=int32), *arrays("weight", "bins")), 1, b.block())


ALL = (spring, clamp, power, collatz, transpose, histogram)
