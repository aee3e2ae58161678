"""Random kernels with tiles in float64, as IR: every operation on tiles, mapped and uniform control flow, memory."""

import numpy as np

from jwarp.ir.attributes import Fourier, Iota, Reduction, Scan, Strided, Transposes, Triangle
from jwarp.ir.builder import Builder, make_block, zero
from jwarp.ir.nodes import Const, For, If, Kernel, Op, Param, Value, While
from jwarp.ir.verify import verify
from jwarp.types import ArrayType, float64, int32, shape_of, tile_type, with_shape

SHAPES = [(3,), (4,), (2, 3), (4, 4), (3, 2), (1, 3), (2, 2, 2)]
ROWS, COLUMNS = 7, 11  # of the arrays: some tiles stick out of them


class TileBuilder(Builder):
    """A builder with shorthands for operations on tiles."""

    def iota(self, shape, axis=0):
        made = Value(tile_type(int32, shape))
        self.append(Op("iota", (), Iota(shape, axis), made))
        return made

    def tid(self, axis=0):
        made = Value(int32)
        self.append(Op("tid", (), axis, made))
        return made

    def load(self, array, *indices):
        made = Value(with_shape(float64, shape_of(indices[0].type)))
        self.append(Op("load", indices, array, made))
        return made

    def places(self, shape, row, column):
        """The indices into an array of two axes of a tile at (row, column)."""
        i = self.iota(shape, 0) if len(shape) > 1 else Const(tile_type(int32, shape), 0)
        j = self.iota(shape, len(shape) - 1)
        corner = [self.op("fill", x, attr=shape) for x in (row, column)]
        return self.op("add", corner[0], i), self.op("add", corner[1], j)

    def constant(self, x, value):
        return Const(x.type, float(value) if x.type.is_float else value)


class Program:
    """Makes one random kernel: reads `x` and `y`, writes `out`, overwrites `state` and reads it again."""

    PARAMS = ("x", "y", "out", "state")

    def __init__(self, seed, steps=12):
        self.rng = np.random.default_rng(seed)
        self.builder = TileBuilder()
        self.scalars, self.tiles = [], []
        self.depth = 0
        b = self.builder
        self.block = b.tid()
        for array in (0, 1):
            for _ in range(2):
                self.tiles.append(self.loaded(array))
        for _ in range(steps):
            self.step()
        for tile in self.tiles[-4:]:
            self.stored(tile)
        for scalar in self.scalars[-2:]:
            column = Const(int32, int(self.rng.integers(COLUMNS)))
            b.effect("atomic_add", self.block, column, scalar, attr=2)

    def kernel(self):
        params = tuple(Param(name, ArrayType(float64, 2)) for name in self.PARAMS)
        made = Kernel("tiles", params, 1, make_block(self.builder.nodes), block_dim=32)
        verify(made)
        return made

    # -- operands

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def tile(self, shape=None, rank=None):
        """One of the tiles so far; another one is made where none has the shape."""
        fits = [t for t in self.tiles if shape in (None, t.type.shape) and rank in (None, len(t.type.shape))]
        if fits and self.rng.random() < 0.9:
            return self.pick(fits)
        shape = shape or self.pick([s for s in SHAPES if rank in (None, len(s))])
        return self.loaded(int(self.rng.integers(2)), shape)

    def scalar(self):
        if self.scalars and self.rng.random() < 0.7:
            return self.pick(self.scalars)
        return self.builder.op("take", *self.element(self.tile()))

    def element(self, tile):
        """A tile and the indices of one of its elements, now and then outside."""
        low, high = (-1, 1) if self.rng.random() < 0.2 else (0, 0)
        shape = tile.type.shape
        return tile, *(Const(int32, int(self.rng.integers(low * n, n + high))) for n in shape)

    def elements(self, tile):
        """Indices of several elements of a tile, all different."""
        shape = tile.type.shape
        inner = tuple(int(self.rng.integers(1, n + 1)) for n in shape)
        indices = []
        for axis, (n, m) in enumerate(zip(shape, inner, strict=True)):
            offset = Const(tile_type(int32, inner), int(self.rng.integers(n - m + 1)))
            indices.append(self.builder.op("add", self.builder.iota(inner, axis), offset))
        return indices

    def corner(self, shape):
        """Where a tile lies in an array: each block has rows of its own."""
        rows = shape[0] if len(shape) > 1 else 1
        row = self.builder.op("mul", self.block, Const(int32, rows))
        return row, Const(int32, int(self.rng.integers(COLUMNS - 1)))

    def loaded(self, array, shape=None):
        shape = shape or self.pick(SHAPES)
        return self.builder.load(array, *self.builder.places(shape, *self.corner(shape)))

    def stored(self, tile):
        places = self.builder.places(tile.type.shape, *self.corner(tile.type.shape))
        self.builder.effect("atomic_add", *places, tile, attr=2)

    # -- steps

    def step(self):
        kinds = [self.elementwise] * 4 + [
            self.moved, self.taken, self.put, self.reduced, self.scanned, self.product, self.solved, self.filled,
            self.mapped_branch, self.mapped_loop, self.mapped_while, self.overwritten, self.sorted, self.transformed,
        ]  # fmt: skip
        if self.depth < 2:
            kinds += [self.branch, self.loop] * 2
        self.pick(kinds)()

    def elementwise(self, x=None):
        b, rng = self.builder, self.rng
        x = self.tile() if x is None else x
        y = self.tile(x.type.shape)
        name = self.pick(["add", "sub", "mul", "sin", "tanh", "max", "min", "exp", "div", "select"])
        if name in ("add", "sub", "mul", "max", "min"):
            made = b.op(name, x, y)
        elif name == "div":
            made = b.op("div", x, b.op("add", b.op("mul", y, y), b.constant(y, 1)))
        elif name == "select":
            made = b.op("select", b.op("lt", x, y), x, b.op("mul", y, b.constant(y, rng.normal())))
        elif name == "exp":
            made = b.op("exp", b.op("sin", x))
        else:
            made = b.op(name, x)
        self.tiles.append(made)

    def filled(self):
        self.tiles.append(self.builder.op("fill", self.scalar(), attr=self.pick(SHAPES)))

    def moved(self):
        """A view: a transpose, a slice, a broadcast; or its transpose."""
        b, rng, tile = self.builder, self.rng, self.tile()
        shape = tile.type.shape
        steps = [int(s) for s in np.cumprod((1, *shape[:0:-1]))[::-1]]
        offset, extents, strides = 0, [], []
        for n, step in zip(shape, steps, strict=True):
            count = int(rng.integers(1, n + 1))
            first = int(rng.integers(n - count + 1))
            backwards = rng.random() < 0.3
            offset += (first + (count - 1 if backwards else 0)) * step
            extents.append(count)
            strides.append(-step if backwards else step)
        if len(extents) < 3 and rng.random() < 0.3:
            extents.append(2)
            strides.append(0)
        order = rng.permutation(len(extents))
        attr = Strided(tuple(extents[k] for k in order), offset, tuple(strides[k] for k in order))
        if rng.random() < 0.6:
            self.tiles.append(b.op("view", tile, attr=attr))
        else:
            self.tiles.append(b.op("spread", self.tile(attr.shape), attr=Strided(shape, attr.offset, attr.strides)))

    def taken(self):
        tile = self.tile()
        if self.rng.random() < 0.5:
            self.scalars.append(self.builder.op("take", *self.element(tile)))
        else:
            self.tiles.append(self.builder.op("take", tile, *self.elements(tile)))

    def put(self):
        b, name, tile = self.builder, self.pick(["put", "put_add"]), self.tile()
        if self.rng.random() < 0.5:
            value = self.scalar()
            self.tiles.append(b.op(name, *self.element(tile), value))
        else:
            indices = self.elements(tile)
            value = self.tile(shape_of(indices[0].type))
            self.tiles.append(b.op(name, tile, *indices, value))

    def reduced(self):
        tile = self.tile()
        rank = len(tile.type.shape)
        axes = tuple(axis for axis in range(rank) if self.rng.random() < 0.6) or tuple(range(rank))
        made = self.builder.op("reduce", tile, attr=Reduction(self.pick(["add", "min", "max"]), axes))
        (self.tiles if shape_of(made.type) else self.scalars).append(made)

    def scanned(self):
        flags = (bool(self.rng.random() < 0.5), bool(self.rng.random() < 0.4))
        kind = self.pick(["add", "min", "max"])
        made = self.builder.op("scan", self.tile(), attr=Scan(kind, *flags))
        if kind != "add" and flags[1]:  # the first element is infinite
            limit = self.builder.constant(made, 5)
            made = self.builder.op("max", self.builder.op("min", made, limit), self.builder.op("neg", limit))
        self.tiles.append(made)

    def product(self):
        a = self.tile(rank=2)
        ta, tb = (bool(self.rng.random() < 0.5) for _ in range(2))
        inner, rows = a.type.shape[:: 1 if ta else -1]
        columns = int(self.rng.integers(1, 5))
        b = self.tile((columns, inner) if tb else (inner, columns))
        kind = tile_type(float64, (rows, columns))
        c = zero(kind) if self.rng.random() < 0.5 else self.tile((rows, columns))
        self.tiles.append(self.builder.op("matmul", a, b, c, attr=Transposes(ta, tb)))

    def solved(self):
        """A Cholesky factor of x @ x.T + 3, and the solution of equations by it."""
        b = self.builder
        x = b.op("tanh", self.tile(rank=2))
        n = x.type.shape[0]
        kind = tile_type(float64, (n, n))
        same = b.op("eq", b.iota((n, n), 0), b.iota((n, n), 1))
        diagonal = b.op("select", same, Const(kind, 3.0), Const(kind, 0.0))
        factor = b.op("cholesky", b.op("matmul", x, x, diagonal, attr=Transposes(False, True)))
        lower, flipped = (bool(self.rng.random() < 0.5) for _ in range(2))
        matrix = factor if lower else b.op("view", factor, attr=Strided((n, n), 0, (1, n)))
        right = self.tile(self.pick([(n,), (n, 2)]))
        self.tiles += [factor, b.op("tri_solve", matrix, right, attr=Triangle(lower, flipped))]

    def sorted(self):
        """The elements of a row in their order."""
        b, tile = self.builder, self.tile(rank=1)
        self.tiles.append(b.op("take", tile, b.op("argsort", tile)))

    def transformed(self):
        """A Fourier transform of the rows of a tile that stands for complex numbers."""
        b, length = self.builder, self.pick([2, 3, 4, 6, 10])
        x = self.loaded(int(self.rng.integers(2)), (2, 2, length))
        circle = (2, length)
        angle = b.op("cast", b.iota(circle, 1), type=tile_type(float64, circle))
        angle = b.op("mul", angle, Const(angle.type, 2 * np.pi / length))
        is_first = b.op("eq", b.iota(circle, 0), Const(tile_type(int32, circle), 0))
        circle = b.op("select", is_first, b.op("cos", angle), b.op("sin", angle))
        made = b.op("fourier", b.op("tanh", x), circle, attr=Fourier(bool(self.rng.random() < 0.5)))
        self.tiles += [made, b.op("view", made, attr=Strided((4,), 1, (1,)))]

    # -- control flow

    def inner(self, steps):
        """Run steps in a block; what they make stays in it."""
        tiles, scalars = list(self.tiles), list(self.scalars)
        self.depth += 1
        for _ in range(steps):
            self.step()
        self.depth -= 1
        made = self.tiles[len(tiles) :]
        self.tiles, self.scalars = tiles, scalars
        return made

    def branch(self):
        b, x = self.builder, self.tile()
        cond = b.op("gt", self.scalar(), Const(float64, float(self.rng.normal() / 2)))
        sides = []
        for _ in range(2):
            with b.block() as nodes:
                made = [t for t in self.inner(2) if t.type is x.type]
                y = made[-1] if made else b.op("sin", x)
            sides.append(make_block(nodes, [y]))
        merged = Value(x.type)
        b.append(If(cond, *sides, (merged,)))
        self.tiles.append(merged)

    def loop(self):
        b, x = self.builder, self.tile()
        param, result, index = Value(x.type), Value(x.type), Value(int32)
        with b.block() as nodes:
            self.tiles.append(param)
            made = [t for t in self.inner(2) if t.type is x.type]
            self.tiles.remove(param)
            y = b.op("mul", made[-1] if made else param, b.op("tanh", param))
            y = b.op("put_add", y, *[index] * len(x.type.shape), b.op("take", *self.element(param)))
        hi = Const(int32, int(self.rng.integers(0, 4))) if self.rng.random() < 0.6 else self.block
        b.append(For(index, Const(int32, 0), hi, 1, (param,), (x,), make_block(nodes, [y]), (result,)))
        self.tiles.append(result)

    def mapped_branch(self):
        b, x = self.builder, self.tile()
        y = self.tile(x.type.shape)
        with b.block() as then:
            first = b.op("sqrt", x)
        with b.block() as orelse:
            second = b.op("mul", y, b.op("sin", x))
        merged = Value(x.type)
        cond = b.op("gt", x, b.constant(x, 0.1))
        b.append(If(cond, make_block(then, [first]), make_block(orelse, [second]), (merged,)))
        self.tiles.append(merged)

    def mapped_loop(self):
        """Every element is multiplied by something as often as its index says."""
        b, x = self.builder, self.tile()
        shape, counts = x.type.shape, tile_type(int32, x.type.shape)
        y = self.tile(shape)
        param, result, index = Value(x.type), Value(x.type), Value(counts)
        with b.block() as nodes:
            following = b.op("mul", b.op("tanh", param), b.op("add", y, b.op("cast", index, type=x.type)))
        trips = b.iota(shape, len(shape) - 1)
        b.append(For(index, Const(counts, 0), trips, 1, (param,), (x,), make_block(nodes, [following]), (result,)))
        self.tiles.append(result)

    def mapped_while(self):
        """Every element is halved until it is small."""
        b, x = self.builder, self.tile()
        param, result = Value(x.type), Value(x.type)
        with b.block() as test:
            goes_on = b.op("gt", b.op("abs", param), b.constant(x, 0.3))
        with b.block() as nodes:
            following = b.op("mul", b.op("sin", param), b.constant(x, 0.5))
        b.append(While((param,), (x,), make_block(test, [goes_on]), make_block(nodes, [following]), (result,)))
        self.tiles.append(result)

    def overwritten(self):
        """Store to the rows of the block and read some of them again."""
        b, shape = self.builder, self.pick([(3,), (4,), (1, 3)])
        column = Const(int32, int(self.rng.integers(COLUMNS - 3)))
        places = b.places(shape, self.block, column)
        before = b.load(3, *places)
        b.effect("store", *places, b.op("mul", self.tile(shape), b.op("sin", before)), attr=3)
        b.effect("store", self.block, column, self.scalar(), attr=3)
        self.tiles.append(b.load(3, *places))
