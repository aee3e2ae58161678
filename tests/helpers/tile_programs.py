"""Kernels with tiles as people write them, built from IR nodes: softmax of rows, and matrix products."""

from __future__ import annotations

from jwarp.ir.attributes import Extent, Iota, Reduction, Transposes
from jwarp.ir.builder import Builder, make_block
from jwarp.ir.nodes import Const, For, Kernel, Op, Param, Value
from jwarp.types import ArrayType, ScalarType, float32, int32, tile_type, with_shape


class Tiles(Builder):
    """A builder with loads and stores of whole tiles of arrays with two axes."""

    def tid(self, axis):
        made = Value(int32)
        self.append(Op("tid", (), axis, made))
        return made

    def extent(self, array, axis):
        made = Value(int32)
        self.append(Op("shape", (), Extent(array, axis), made))
        return made

    def places(self, shape, *corner):
        return [
            self.op("add", self.op("fill", x, attr=shape), self.op("iota", attr=Iota(shape, axis)))
            for axis, x in enumerate(corner)
        ]

    def load(self, array, type: ScalarType, shape, *corner):
        made = Value(with_shape(type, shape))
        self.append(Op("load", tuple(self.places(shape, *corner)), array, made))
        return made

    def store(self, array, tile, *corner):
        self.effect("store", *self.places(tile.type.shape, *corner), tile, attr=array)

    def kernel(self, name, params, tid_dims, block_dim):
        made = tuple(Param(x, ArrayType(type, 2)) for x, type in params)
        return Kernel(name, made, tid_dims, make_block(self.nodes), block_dim=block_dim)


def times(b, x, n):
    return b.op("mul", x, Const(int32, n))


def softmax(columns=1024, block_dim=128, type: ScalarType = float32):
    """y[i] = softmax(x[i]), a row for each block."""
    b = Tiles()
    row = b.tid(0)
    shape = (1, columns)
    x = b.load(0, type, shape, row, Const(int32, 0))
    top = b.op("reduce", x, attr=Reduction("max", (0, 1)))
    e = b.op("exp", b.op("sub", x, b.op("fill", top, attr=shape)))
    total = b.op("reduce", e, attr=Reduction("add", (0, 1)))
    b.store(1, b.op("div", e, b.op("fill", total, attr=shape)), row, Const(int32, 0))
    return b.kernel("softmax", [("x", type), ("y", type)], 1, block_dim)


def product(type: ScalarType, sums: ScalarType, m=64, n=64, k=64, block_dim=128):
    """c = a @ b, a tile of m x n for each block, which steps through a and b by k."""
    b = Tiles()
    i, j = times(b, b.tid(0), m), times(b, b.tid(1), n)
    steps = b.op("div", b.extent(0, 1), Const(int32, k))
    start = Const(tile_type(sums, (m, n)), 0.0 if sums.is_float else 0)
    index, param, result = Value(int32), Value(start.type), Value(start.type)
    with b.block() as nodes:
        at = times(b, index, k)
        following = b.op("matmul", b.load(0, type, (m, k), i, at), b.load(1, type, (k, n), at, j), param,
                         attr=Transposes(False, False))  # fmt: skip
    b.append(For(index, Const(int32, 0), steps, 1, (param,), (start,), make_block(nodes, [following]), (result,)))
    b.store(2, result, i, j)
    return b.kernel("product", [("a", type), ("b", type), ("c", sums)], 2, block_dim)


def looped(type_, sums, extents, block_dim, transposes=(False, False), start=None):
    """c += op(a) @ op(b), a tile for each block, in a loop of steps along k; c = start + ... where that is a number.

    Where it is "twice", a second tile has the products of a with twice b, and goes to the lower half of c.
    """
    (m, n, k), (ta, tb), b = extents, transposes, Tiles()
    i, j = times(b, b.tid(0), m), times(b, b.tid(1), n)
    steps = b.op("div", b.extent(0, int(not ta)), Const(int32, k))
    kind = tile_type(sums, (m, n))
    count = 2 if start == "twice" else 1
    first = b.load(2, sums, (m, n), i, j) if start is None else Const(kind, 0 if start == "twice" else start)
    index = Value(int32)
    params, results = (tuple(Value(kind) for _ in range(count)) for _ in range(2))
    with b.block() as nodes:
        at = times(b, index, k)
        x = b.load(0, type_, (k, m) if ta else (m, k), *((at, i) if ta else (i, at)))
        y = b.load(1, type_, (n, k) if tb else (k, n), *((j, at) if tb else (at, j)))
        flags = Transposes(ta, tb)
        made = [b.op("matmul", x, z, p, attr=flags) for z, p in zip((y, b.op("add", y, y)), params, strict=False)]
    b.append(For(index, Const(int32, 0), steps, 1, params, (first,) * count, make_block(nodes, made), results))
    b.store(2, results[0], i, j)
    if count > 1:
        b.store(2, results[1], b.op("add", i, b.extent(0, int(ta))), j)
    return b.kernel("looped", [("a", type_), ("b", type_), ("c", sums)], 2, block_dim)


def operands(rng, type_, sums, extents, transposes, depth, rows=1):
    """The operands of `looped` for a grid of 2 x 2, and the product."""
    m, n, _ = extents
    a, b = rng.integers(-3, 4, (2 * m, depth)), rng.integers(-3, 4, (depth, 2 * n))
    if not type_.is_int:
        a, b = a + rng.normal(size=a.shape), b + rng.normal(size=b.shape)
    c = rng.integers(-3, 4, (2 * m * rows, 2 * n))
    left, right = (x.astype(type_.dtype) for x in (a, b))
    given = [x.T.copy() if flag else x for x, flag in zip((left, right), transposes, strict=True)]
    return left.astype(float) @ right.astype(float), [*given, c.astype(sums.dtype)]
