"""The functions of linear algebra on tiles: products, factors and solutions of equations."""

from __future__ import annotations

import functools
from collections.abc import Callable

from jwarp.frontend.builtins.tiles.calls import FILL_MODES, Given, define
from jwarp.frontend.values.bindings import Binding, Number, TileRef
from jwarp.ir.attributes import Strided, Transposes, Triangle
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Operand
from jwarp.ir.tile_types import dense_strides
from jwarp.types import CompositeType, ScalarType, TileKind, float32, float64, shape_of, tile_type

PRECISIONS = ("default", "tf32")


# -- products


def _factor(given: Given, name: str) -> tuple[Operand, bool, tuple[int, ...]]:
    """A factor of a product: the tile, whether it is to be transposed, and its shape then."""
    ref = given.ref(name)
    kind = ref.type
    assert kind.shape is not None
    if isinstance(kind.dtype, CompositeType) and kind.dtype.is_vector and kind.dtype.shape == (2,):
        raise given.error("a product does not support complex tiles", name=name)
    if len(kind.shape) != 2 or not isinstance(kind.dtype, ScalarType) or not kind.dtype.is_float:
        raise given.type_error(name, "a tile of floats with two dimensions")
    content = given.memory.content(ref.cell, given.where(name))
    view, swapped = ref.view, kind.shape[::-1]
    turned = (view.strides, view.offset, view.moving) == (dense_strides(swapped)[::-1], 0, ())
    if turned and content.type.shape == swapped and 1 not in swapped:
        return content.items[0], True, kind.shape
    return given.memory.read(ref, given.where(name))[0], False, kind.shape


def _matmul(given: Given) -> Binding:
    """out = alpha * a @ b + beta * out, or a new tile alpha * a @ b."""
    (a, turn_a, left), (b, turn_b, right) = _factor(given, "a"), _factor(given, "b")
    if left[1] != right[0]:
        raise given.error(f"a tile of shape {left} is not multiplied with one of shape {right}")
    shape = (left[0], right[1])
    out = given.ref("out") if "out" in given else None
    kind = TileKind(a.type.scalar, shape) if out is None else out.type  # type: ignore[attr-defined]
    if kind.shape != shape or not isinstance(kind.dtype, ScalarType) or not kind.dtype.is_float:
        raise given.error(f"the product has shape {shape}, `out` is {kind}", name="out")
    tf32 = given.text("precision", PRECISIONS) == "tf32"
    if tf32 and {a.type.dtype, b.type.dtype, kind.scalar.dtype} != {float32.dtype}:
        raise given.error("the precision tf32 is for tiles of float32", name="precision")
    product = _Product(given, (a, b), Transposes(turn_a, turn_b, tf32), kind)
    if out is None:
        return given.memory.made(kind.scalar, shape, (product.scaled(),), given.span)
    (old,) = given.memory.read(out, given.where("out"))
    given.memory.write(out, (product.added_to(old),), given.span)
    return ()


class _Product:
    """a @ b, to be given as `kind`."""

    def __init__(self, given: Given, factors: tuple[Operand, Operand], turned: Transposes, kind: TileKind):
        self.given, self.turned, self.kind = given, turned, kind
        assert kind.shape is not None
        self.shape, self.span = kind.shape, given.span
        scalars = [f.type.scalar for f in factors]  # type: ignore[attr-defined]
        halves = scalars[0] is scalars[1] and scalars[0].bits == 16
        # Factors have one type. Products of halves may be summed in float32.
        self.wide = kind.scalar
        if not (scalars[0] is scalars[1] is kind.scalar or (halves and kind.scalar is float32)):
            self.wide = _widest(*scalars, kind.scalar)
            factors = (self.cast(factors[0]), self.cast(factors[1]))
        self.factors = factors
        self.numbers: dict[str, Operand] = {}  # alpha and beta

    def op(self, name: str, *args: Operand) -> Operand:
        return self.given.e.emit(name, *args, span=self.span)

    def cast(self, x: Operand, to: ScalarType | None = None) -> Operand:
        wanted = tile_type(to or self.wide, shape_of(x.type))
        return self.given.memory.op("cast", x, span=self.span, type=wanted)

    def scale(self, name: str) -> tuple[Operand, float | None]:
        """A factor as a tile, and as a number if it is known."""
        value = self.given.values[name]
        if isinstance(value, (int, float)):
            value = Number(float(value))
        if isinstance(value, Number):
            scalar: Operand = value.as_type(self.wide, self.given.where(name))
        else:
            scalar = self.given.e.convert(value, self.wide, self.given.where(name))
        self.numbers[name] = scalar
        known = float(scalar.value) if isinstance(scalar, Const) else None
        return self.given.memory.fill(scalar, self.shape, self.given.where(name)), known

    def plus(self, c: Operand) -> Operand:
        return self.given.memory.op("matmul", *self.factors, c, attr=self.turned, span=self.span)

    def alone(self) -> Operand:
        """alpha * a @ b, not rounded to the type of the result yet."""
        alpha, number = self.scale("alpha")
        product = self.plus(zero(tile_type(self.wide, self.shape)))
        return product if number == 1.0 else self.op("mul", alpha, product)

    def scaled(self) -> Operand:
        """alpha * a @ b."""
        return self.cast(self.alone(), self.kind.scalar)

    def added_to(self, old: Operand) -> Operand:
        """alpha * a @ b + beta * old."""
        (_, alpha), (beta, number) = self.scale("alpha"), self.scale("beta")
        if number == 0.0:  # what was there does not matter then, not even a NaN
            return self.scaled()
        old = self.cast(old)
        if number is None:
            nothing = zero(old.type)
            is_zero = self.op("eq", self.numbers["beta"], zero(self.wide))
            old = self.op("select", is_zero, nothing, self.op("mul", beta, old))
        elif number != 1.0:
            old = self.op("mul", beta, old)
        if alpha == 1.0:
            return self.cast(self.plus(old), self.kind.scalar)
        return self.cast(self.op("add", self.alone(), old), self.kind.scalar)


def _widest(*scalars: ScalarType) -> ScalarType:
    """A float type that holds the numbers of all."""
    widest = max(scalars, key=lambda s: s.bits)
    return float32 if widest.bits == 16 and len(set(scalars)) > 1 else widest


# -- factors and solutions


def _square(given: Given, name: str) -> Operand:
    kind, item = given.matrix(name)
    assert kind.shape is not None
    if kind.shape[0] != kind.shape[1] or kind.scalar not in (float32, float64):
        raise given.type_error(name, "a square tile of float32 or float64")
    return item


def _turned(given: Given, item: Operand) -> Operand:
    n = shape_of(item.type)[0]
    return given.memory.op("view", item, attr=Strided((n, n), 0, (1, n)), span=given.span)


def _cholesky(given: Given) -> tuple[Operand, ...]:
    item, is_upper = _square(given, "A"), given.text("fill_mode", FILL_MODES) == "upper"
    item = _turned(given, item) if is_upper else item
    factor = given.memory.op("cholesky", item, span=given.span)
    return (_turned(given, factor) if is_upper else factor,)


def _solver(given: Given, matrix: str, vector: str) -> tuple[Operand, Operand]:
    """The triangular matrix of a system of equations, and the right-hand side."""
    item = _square(given, matrix)
    kind, right = given.scalar_tile(vector)
    n = shape_of(item.type)[0]
    assert kind.shape is not None
    if len(kind.shape) > 2 or kind.shape[0] != n or kind.scalar is not item.type.scalar:  # type: ignore[attr-defined]
        raise given.error(
            f"`{vector}` must be a tile of {given.ref(matrix).dtype} with {n} rows, not {kind}", name=vector
        )
    return item, right


def _solve(given: Given, t: Operand, b: Operand, lower: bool, transposed: bool) -> Operand:
    return given.memory.op("tri_solve", t, b, attr=Triangle(lower, transposed), span=given.span)


def _cholesky_solve(given: Given) -> tuple[Operand, ...]:
    factor, right = _solver(given, "L", "y")
    lower = given.text("fill_mode", FILL_MODES) == "lower"
    between = _solve(given, factor, right, lower, not lower)
    return (_solve(given, factor, between, lower, lower),)


def _lower_solve(given: Given) -> tuple[Operand, ...]:
    return (_solve(given, *_solver(given, "L", "y"), lower=True, transposed=False),)


def _upper_solve(given: Given) -> tuple[Operand, ...]:
    return (_solve(given, *_solver(given, "U", "z"), lower=False, transposed=False),)


def _made(rule: Callable[[Given], tuple[Operand, ...]], like: str, given: Given) -> TileRef:
    """A new tile of what `rule` computes, of the type of argument `like`."""
    kind = given.ref(like).type
    assert kind.dtype is not None and kind.shape is not None
    return given.memory.made(kind.dtype, kind.shape, rule(given), given.span)


def _in_place(rule: Callable[[Given], tuple[Operand, ...]], target: str, given: Given) -> Binding:
    given.memory.write(given.ref(target), rule(given), given.span)
    return ()


def _diag_add(given: Given) -> TileRef:
    kind, items = given.tile("a")
    diagonal, added = given.tile("d")
    shape = kind.shape
    assert shape is not None and kind.dtype is not None
    if len(shape) != 2 or shape[0] != shape[1] or diagonal != TileKind(kind.dtype, shape[:1]):
        raise given.error(f"`a` must be a square tile and `d` one of a row of it, not {kind} and {diagonal}")
    memory, span, n = given.memory, given.span, shape[0]
    spread = (memory.op("spread", x, attr=Strided(shape, 0, (n + 1,)), span=span) for x in added)
    made = [given.e.emit("add", x, y, span=span) for x, y in zip(items, spread, strict=True)]
    return memory.made(kind.dtype, shape, made, span)


def _accumulates(args: list[Binding], named: dict[str, Binding]) -> int:
    """With a tile as third argument, the product is added to it; without, alpha comes third."""
    return int("out" in named or (len(args) > 2 and isinstance(args[2], TileRef)))


# -- rows

tile_matmul = define(
    """
    tile_matmul(a: tile[T], b: tile[T], alpha: float = 1.0, precision: str = 'default') -> tile[T]
    tile_matmul(a: tile[Any], b: tile[Any], out: tile[Any], alpha: float = 1.0, beta: float = 1.0,\
        precision: str = 'default') -> None""",
    """The product of tiles of floats with two dimensions.

    A new tile alpha * a @ b; with a tile `out`, that becomes alpha * a @ b + beta * out.

    Elements of 16 bits are added up in float32 where `out` has that type. With `precision="tf32"` GPUs round
    the elements of float32 to 11 bits before they multiply, as they do where JAX's default precision allows it.

    Raises:
        KernelTypeError: the shapes do not fit, or the elements are no floats.""",
    _matmul,
    _accumulates,
)
tile_diag_add = define(
    "tile_diag_add(a: tile[T], d: tile[T]) -> tile[T]",
    "A new tile: the square tile `a` with the tile `d` of one dimension added to the diagonal.",
    _diag_add,
)


def _pair(form: str, doc: str, rule: Callable[[Given], tuple[Operand, ...]], like: str) -> tuple:
    """A function that gives a new tile, and the one that changes its argument."""
    new = define(f"{form} -> tile[T]", doc, functools.partial(_made, rule, like))
    changing = f"{form.replace('(', '_inplace(', 1)} -> None"
    return new, define(
        changing, f"{doc}\n\n    The result replaces `{like}`.", functools.partial(_in_place, rule, like)
    )


tile_cholesky, tile_cholesky_inplace = _pair(
    "tile_cholesky(A: tile[T], fill_mode: str = 'lower')",
    """The triangular factor of a symmetric positive definite tile `A` of float32 or float64.

    It is L of L @ L.T == A for the fill mode "lower", U of U.T @ U == A for "upper".""",
    _cholesky,
    "A",
)
tile_cholesky_solve, tile_cholesky_solve_inplace = _pair(
    "tile_cholesky_solve(L: tile[T], y: tile[T], fill_mode: str = 'lower')",
    """The x of A @ x == y, where `L` is the result of `tile_cholesky` for A with the same fill mode.

    `y` has one dimension, or two for several right-hand sides in columns.""",
    _cholesky_solve,
    "y",
)
tile_lower_solve, tile_lower_solve_inplace = _pair(
    "tile_lower_solve(L: tile[T], y: tile[T])",
    "The x of L @ x == y for a lower triangular tile `L`; `y` has one or two dimensions.",
    _lower_solve,
    "y",
)
tile_upper_solve, tile_upper_solve_inplace = _pair(
    "tile_upper_solve(U: tile[T], z: tile[T])",
    "The x of U @ x == z for an upper triangular tile `U`; `z` has one or two dimensions.",
    _upper_solve,
    "z",
)
