"""Random kernels with tiles, built from IR nodes, whose results are the same in whichever order sums are made.

Their floats are small whole numbers: what an operation gives is brought back to some range, so that sums and
products are exact.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

from jwarp.ir.attributes import Iota, Reduction, Scan, Strided, Transposes
from jwarp.ir.builder import Builder, make_block
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Op, Operand, Param, Value, While
from jwarp.types import (
    ArrayType,
    ScalarType,
    bool_,
    float32,
    float64,
    int32,
    scalar_of,
    shape_of,
    tile_type,
    with_shape,
)

SHAPES = [(5,), (16,), (37,), (4, 6), (3, 17), (8, 8), (2, 3, 5), (1, 7), (20, 1), (16, 16), (48,)]
TYPES = [float32, float32, int32, float64]
FLOAT_LIMIT = 8.0
INT_LIMIT = 100


@dataclass
class Case:
    """A kernel, the extents of a launch, and arguments."""

    kernel: Kernel
    dims: tuple[int, ...]
    arguments: list[np.ndarray]


class Maker:
    """Builds one random kernel."""

    def __init__(self, rng: random.Random, size: int = 14, matmul: bool = True, tapes: bool = False):
        self.rng, self.b, self.matmul, self.tapes = rng, Builder(), matmul, tapes
        self.pool: list[Operand] = []
        self.depth = 0
        self.params: list[Param] = []
        self.shapes: list[tuple[int, ...]] = []
        self.tid_dims = rng.choice([1, 1, 2])
        self.dims = tuple(rng.randint(1, 4) for _ in range(self.tid_dims))
        for k in range(4):
            type_, rank = rng.choice(TYPES), rng.choice([1, 1, 2, 2, 3])
            self.params.append(Param(f"a{k}", ArrayType(type_, rank)))
            extents = [rng.choice([3, 8, 16, 40, 64]) for _ in range(rank)]
            self.shapes.append(tuple(extents))
        self.params.append(Param("n", int32))
        self.written = set(rng.sample(range(4), 2))
        self.size = size

    def case(self) -> Case:
        rng = self.rng
        self.count = self.keep(self.b_raw("param", attr=4, type=int32))
        for axis in range(self.tid_dims):
            self.keep(self.b_raw("tid", attr=axis, type=int32))
        for _ in range(self.size):
            self.step()
        for value in rng.sample(self.pool, min(4, len(self.pool))):
            self.store(value)
        for value in [v for v in self.pool if shape_of(v.type)][-3:]:
            self.store(value)
        kernel = Kernel("random", tuple(self.params), self.tid_dims, make_block(self.b.nodes), block_dim=32)
        values = np.random.default_rng(rng.randrange(1 << 30))
        arguments = [
            values.integers(-4, 5, shape).astype(p.dtype.dtype)
            for p, shape in zip(self.params, self.shapes, strict=False)
        ]
        return Case(kernel, self.dims, [*arguments, np.int32(rng.randint(0, 5))])

    # -- values

    def b_raw(self, name: str, *args: Operand, attr=None, type=None) -> Value:
        made = Value(type)
        self.b.append(Op(name, args, attr, made))
        return made

    def keep(self, x: Operand) -> Operand:
        self.pool.append(x)
        return x

    def limited(self, x: Operand) -> Operand:
        """`x` brought back to a range."""
        scalar, shape = scalar_of(x.type), shape_of(x.type)
        if scalar is bool_:
            return x
        limit = FLOAT_LIMIT if scalar.is_float else INT_LIMIT
        type_ = with_shape(scalar, shape)
        return self.b.op("max", self.b.op("min", x, Const(type_, limit)), Const(type_, -limit))

    def pick(self, scalar: ScalarType | None = None, shape: tuple[int, ...] | None = None) -> Operand:
        """Some value of this type and shape, made if there is none."""
        fitting = [
            v for v in self.pool
            if (scalar is None or scalar_of(v.type) is scalar) and (shape is None or shape_of(v.type) == shape)
        ]  # fmt: skip
        if fitting and self.rng.random() < 0.85:
            return self.rng.choice(fitting[-6:])
        scalar = scalar or self.rng.choice(TYPES)
        if shape is None:
            shape = self.rng.choice(SHAPES)
        return self.made(scalar, shape)

    def made(self, scalar: ScalarType, shape: tuple[int, ...]) -> Operand:
        """A new value."""
        rng = self.rng
        arrays = [k for k, p in enumerate(self.params[:4]) if p.dtype is scalar]
        if shape and arrays and rng.random() < 0.7:
            return self.load(rng.choice(arrays), shape)
        value = rng.randint(-3, 3)
        const = Const(scalar, bool(value) if scalar is bool_ else float(value) if scalar.is_float else value)
        if not shape:
            return const
        if rng.random() < 0.5 and scalar is int32:
            return self.b.op("iota", attr=Iota(shape, rng.randrange(len(shape))))
        return Const(with_shape(scalar, shape), const.value)

    def tile(self, scalar: ScalarType | None = None) -> Operand:
        tiles = [v for v in self.pool if shape_of(v.type) and (scalar is None or scalar_of(v.type) is scalar)]
        if tiles and self.rng.random() < 0.8:
            return self.rng.choice(tiles[-8:])
        return self.pick(scalar or self.rng.choice(TYPES), self.rng.choice(SHAPES))

    def indices(self, array: int, shape: tuple[int, ...]) -> list[Operand]:
        """Indices of a tile of an array, partly outside."""
        rank, found = len(self.shapes[array]), []
        tids = [v for v in self.pool if v.type is int32 and isinstance(v, Value)][:3]
        for axis in range(rank):
            at = axis - rank + len(shape)
            base = self.b.op("mul", self.rng.choice(tids), Const(int32, self.rng.choice([1, 4, 8, 16])))
            if self.rng.random() < 0.5:
                base = self.rng.choice([Const(int32, 0), Const(int32, 0), Const(int32, 2), base])
            index = self.b.op("fill", base, attr=shape)
            if at >= 0:
                index = self.b.op("add", index, self.b.op("iota", attr=Iota(shape, at)))
            found.append(index)
        return found

    def load(self, array: int, shape: tuple[int, ...]) -> Operand:
        scalar = self.params[array].dtype
        return self.b_raw("load", *self.indices(array, shape), attr=array, type=with_shape(scalar, shape))

    def store(self, value: Operand) -> None:
        scalar, shape = scalar_of(value.type), shape_of(value.type)
        arrays = [k for k in self.written if self.params[k].dtype is scalar]
        if not arrays:
            array = self.rng.choice(sorted(self.written))
            wanted = with_shape(self.params[array].dtype, shape)
            value = self.limited(self.b.op("cast", value, type=wanted))
        else:
            array = self.rng.choice(arrays)
        if not shape:
            indices: list[Operand] = [self.rng.choice([Const(int32, 1), self.count]) for _ in self.shapes[array]]
        else:
            indices = self.indices(array, shape)
        if self.rng.random() < 0.2 and len(self.shapes[array]) >= 1:
            self.b.effect("atomic_add", *indices, value, attr=array)
        else:
            self.b.effect("store", *indices, value, attr=array)

    # -- steps

    def step(self) -> None:
        steps = [
            (self.binary, 10), (self.unary, 3), (self.choose, 3), (self.convert, 3), (self.view, 8), (self.take, 5),
            (self.put, 6), (self.reduce, 6), (self.arg, 1), (self.scan, 1), (self.spread, 2), (self.fill, 3),
            (self.load_step, 6), (self.store_step, 3),
        ]  # fmt: skip
        if self.matmul:
            steps.append((self.product, 3))
        if self.depth < 2:
            steps += [(self.counted, 4), (self.branch, 3), (self.conditional, 1), (self.mapped, 3)]
        made, weights = zip(*steps, strict=True)
        self.rng.choices(made, weights)[0]()

    def load_step(self) -> None:
        array = self.rng.randrange(4)
        self.keep(self.load(array, self.rng.choice(SHAPES)))

    def store_step(self) -> None:
        self.store(self.tile())

    def fill(self) -> None:
        x = self.pick(self.rng.choice(TYPES), ())
        self.keep(self.b.op("fill", x, attr=self.rng.choice(SHAPES)))

    def binary(self) -> None:
        x = self.tile() if self.rng.random() < 0.85 else self.pick(None, ())
        scalar = scalar_of(x.type)
        y = self.pick(scalar, shape_of(x.type))
        if scalar is bool_:
            self.keep(self.b.op(self.rng.choice(["and", "or", "xor"]), x, y))
            return
        name = self.rng.choice(["add", "sub", "mul", "min", "max", "add", "mul", "lt", "ge", "eq"])
        self.keep(self.limited(self.b.op(name, x, y)))

    def unary(self) -> None:
        x = self.tile()
        if scalar_of(x.type) is bool_:
            self.keep(self.b.op("not", x))
        else:
            self.keep(self.b.op(self.rng.choice(["neg", "abs"]), x))

    def choose(self) -> None:
        x = self.tile()
        y = self.pick(scalar_of(x.type), shape_of(x.type))
        cond = self.pick(bool_, self.rng.choice([(), shape_of(x.type)]))
        self.keep(self.b.op("select", cond, x, y))

    def convert(self) -> None:
        x = self.tile()
        target = self.rng.choice([t for t in (float32, float64, int32) if t is not scalar_of(x.type)])
        self.keep(self.limited(self.b.op("cast", x, type=with_shape(target, shape_of(x.type)))))

    def view(self) -> None:
        x = self.tile()
        shape, size = shape_of(x.type), math.prod(shape_of(x.type))
        strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
        kind = self.rng.choice(["transpose", "slice", "reshape", "broadcast", "reverse"])
        offset = 0
        if kind == "transpose":
            order = self.rng.sample(range(len(shape)), len(shape))
            shape, strides = tuple(shape[k] for k in order), [strides[k] for k in order]
        elif kind == "slice":
            begins = [self.rng.randrange(n) for n in shape]
            ends = [self.rng.randint(b + 1, n) for b, n in zip(begins, shape, strict=True)]
            offset = sum(b * s for b, s in zip(begins, strides, strict=True))
            shape = tuple(e - b for b, e in zip(begins, ends, strict=True))
        elif kind == "reshape":
            fitting = [s for s in SHAPES if math.prod(s) == size] + [(size,)]
            shape = self.rng.choice(fitting)
            strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
        elif kind == "broadcast" and len(shape) < 3:
            shape, strides = (self.rng.choice([2, 4, 17]), *shape), [0, *strides]
        elif kind == "reverse":
            offset = (shape[-1] - 1) * strides[-1]
            strides = [*strides[:-1], -strides[-1]]
        if math.prod(shape) <= 1024:
            self.keep(self.b.op("view", x, attr=Strided(shape, offset, tuple(strides))))

    def some_indices(self, tile_shape: tuple[int, ...], shape: tuple[int, ...]) -> list[Operand]:
        """Indices into a tile, mostly inside."""
        found = []
        for extent in tile_shape:
            x = self.pick(int32, shape)
            if self.rng.random() < 0.7:
                x = self.b.op("mod", x, Const(x.type, extent))
            found.append(x)
        return found

    def take(self) -> None:
        x = self.tile()
        shape = self.rng.choice([(), (), self.rng.choice(SHAPES)])
        self.keep(self.b.op("take", x, *self.some_indices(shape_of(x.type), shape)))

    def put(self) -> None:
        x = self.tile()
        name = self.rng.choice(["put", "put_add"]) if scalar_of(x.type) is not bool_ else "put"
        shape = self.rng.choice([(), (), self.rng.choice(SHAPES)])
        value = self.pick(scalar_of(x.type), shape)
        self.keep(self.limited(self.b.op(name, x, *self.some_indices(shape_of(x.type), shape), value)))

    def reduce(self) -> None:
        x = self.tile()
        rank = len(shape_of(x.type))
        axes = tuple(sorted(self.rng.sample(range(rank), self.rng.randint(1, rank))))
        kinds = ["and", "or", "xor"] if scalar_of(x.type) is bool_ else ["add", "min", "max"]
        self.keep(self.limited(self.b.op("reduce", x, attr=Reduction(self.rng.choice(kinds), axes))))

    def arg(self) -> None:
        x = self.tile(self.rng.choice(TYPES))
        self.keep(self.b.op("arg", x, attr=self.rng.choice(["min", "max"])))

    def scan(self) -> None:
        x = self.tile(self.rng.choice(TYPES))
        attr = Scan(self.rng.choice(["add", "min", "max"]), self.rng.random() < 0.5, self.rng.random() < 0.3)
        self.keep(self.limited(self.b.op("scan", x, attr=attr)))

    def spread(self) -> None:
        x = self.tile(self.rng.choice(TYPES))
        shape = shape_of(x.type)
        extra = tuple(n + self.rng.choice([0, 0, 2]) for n in shape)
        strides = [math.prod(extra[k + 1 :]) for k in range(len(extra))]
        if self.rng.random() < 0.3:
            strides[self.rng.randrange(len(strides))] = 0
        self.keep(self.limited(self.b.op("spread", x, attr=Strided(extra, 0, tuple(strides)))))

    def product(self) -> None:
        scalar = self.rng.choice([float32, float64, int32])
        m, n, k = (self.rng.choice([1, 3, 8, 16, 17]) for _ in range(3))
        flags = (self.rng.random() < 0.3, self.rng.random() < 0.3)
        a = self.pick(scalar, (k, m) if flags[0] else (m, k))
        b = self.pick(scalar, (n, k) if flags[1] else (k, n))
        c = (
            self.pick(scalar, (m, n))
            if self.rng.random() < 0.6
            else Const(tile_type(scalar, (m, n)), scalar.dtype.type(0).item())
        )
        self.keep(self.limited(self.b.op("matmul", a, b, c, attr=Transposes(*flags))))

    # -- control flow

    def inner(self, steps: int) -> None:
        self.depth += 1
        for _ in range(steps):
            self.step()
        self.depth -= 1

    def carried(self) -> list[Operand]:
        return [self.tile() for _ in range(self.rng.randint(1, 3))] + [self.pick(self.rng.choice(TYPES), ())]

    def following(self, params: list[Value]) -> list[Operand]:
        """Values of the types of `params` that are seen here."""
        return [self.pick(scalar_of(p.type), shape_of(p.type)) for p in params]

    def counted(self) -> None:
        init = self.carried()
        params, made = [Value(x.type) for x in init], tuple(Value(x.type) for x in init)
        index, outer = Value(int32), list(self.pool)
        with self.b.block() as nodes:
            self.pool += [index, *params]
            self.inner(self.rng.randint(2, 6))
            yields = self.following(params)
        self.pool = outer
        hi = self.rng.choice([Const(int32, 3), self.count, Const(int32, 0)])
        lo, step = (Const(int32, 0), 1) if self.rng.random() < 0.8 else (hi, -1)
        hi = hi if step > 0 else Const(int32, -1)
        self.b.append(For(index, lo, hi, step, tuple(params), tuple(init), make_block(nodes, yields), made))
        self.pool += made

    def branch(self) -> None:
        cond = self.b.op("lt", self.pick(int32, ()), self.pick(int32, ()))
        kinds = [x.type for x in self.carried()]
        made, blocks, outer = tuple(Value(t) for t in kinds), [], list(self.pool)
        for _ in range(2):
            self.pool = list(outer)
            with self.b.block() as nodes:
                self.inner(self.rng.randint(0, 4))
                yields = self.following(list(made))
            blocks.append(make_block(nodes, yields))
        self.pool = outer
        self.b.append(If(cond, blocks[0], blocks[1], made))
        self.pool += made

    def conditional(self) -> None:
        init = [Const(int32, 0), *self.carried()]
        params, made = [Value(x.type) for x in init], tuple(Value(x.type) for x in init)
        outer = list(self.pool)
        with self.b.block() as nodes:
            self.pool += params
            self.inner(self.rng.randint(0, 2))
            goes_on = self.b.op("lt", params[0], Const(int32, self.rng.randint(0, 3)))
        cond = make_block(nodes, [goes_on])
        self.pool = [*outer, *params]
        with self.b.block() as nodes:
            self.inner(self.rng.randint(1, 4))
            yields = self.following(params)
            yields[0] = self.b.op("add", params[0], Const(int32, 1))
        self.pool = outer
        self.b.append(While(tuple(params), tuple(init), cond, make_block(nodes, yields), made))
        self.pool += made

    def mapped(self) -> None:
        """Control flow that every element goes through in its own way."""
        shape = self.rng.choice(SHAPES)
        x, y = self.pick(float32, shape), self.pick(int32, shape)
        bounded = self.b.op("and", y, Const(y.type, 3))
        kind = self.rng.choice(["if", "for", "while"])
        if kind == "if":
            cond = self.b.op("lt", y, self.pick(int32, shape))
            made = (Value(x.type), Value(y.type))
            with self.b.block() as nodes:
                then = Block((), ())
                twice = self.limited(self.b.op("add", x, x))
                then = make_block(nodes, [twice, y])
            with self.b.block() as nodes:
                orelse = make_block(nodes, [x, self.b.op("neg", bounded)])
                orelse = make_block(nodes, orelse.yields)
            self.b.append(If(cond, then, orelse, made))
        else:
            params, made = (Value(x.type), Value(y.type)), (Value(x.type), Value(y.type))
            init = (x, Const(y.type, 0))
            index = Value(y.type)
            with self.b.block() as nodes:
                total = self.limited(self.b.op("add", params[0], x))
                yields = [total, self.b.op("add", params[1], Const(y.type, 1))]
                body = make_block(nodes, yields)
            if kind == "for":
                self.b.append(For(index, Const(y.type, 0), bounded, 1, params, init, body, made))
            else:
                with self.b.block() as nodes:
                    goes_on = self.b.op("lt", params[1], bounded)
                    cond_block = make_block(nodes, [goes_on])
                self.b.append(While(params, init, cond_block, body, made))
        self.pool += made
