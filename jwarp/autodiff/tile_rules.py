"""The derivatives of the operations on tiles, written in such operations; one row each.

An operation on single elements has one rule for both directions, as its derivative at an element is a number.
Here the directions differ: `reverse` takes the cotangent of the result to that of an argument, `forward` the
tangent of an argument to its part of that of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from jwarp.autodiff.scalar_rules import DERIVATIVES, DERIVATIVES_AT, Applied, Chosen, Rule
from jwarp.autodiff.write_conflicts import same_number
from jwarp.errors import NotDifferentiableError
from jwarp.ir.attributes import Fourier, Iota, Reduction, Scan, Strided, Transposes, Triangle
from jwarp.ir.builder import Builder, zero
from jwarp.ir.nodes import Const, Op, Operand, Value, operands, results
from jwarp.ir.ops import EXTREMA
from jwarp.ir.tile_types import dense_strides
from jwarp.types import int32, scalar_of, shape_of, with_shape


@dataclass(frozen=True)
class Directions:
    """The rules of one argument."""

    reverse: Callable[[Applied, Operand], Operand]
    forward: Callable[[Applied, Operand], Operand]


Rules = tuple[Directions | None, ...]


def rules_of(node: Op) -> Rules | None:
    """The rules of a pure operation, for each argument; None where it has no derivative."""
    if node.name in DERIVATIVES:
        return _OF_SCALARS[node.name]
    if node.name in DERIVATIVES_AT:
        return tuple(_both(DERIVATIVES_AT[node.name](k)) for k in range(len(node.args)))
    row = _TILE_RULES.get(node.name)
    return row(node) if callable(row) else row


def carries(node: Op) -> tuple[bool, ...]:
    """Which arguments of a pure operation its result depends on smoothly.

    The bits of a float are a number that changes with it, and so is what is computed from them.

    Raises:
        NotDifferentiableError: no table has a rule for it, nor says that there is none.
    """
    assert node.result is not None
    if node.row.uses.reads_final:
        return tuple(False for _ in node.args)
    if node.row.is_native_part:
        return (node.result.type.is_float,)
    if node.row.is_detached:
        return (False, *(True for _ in node.args[1:]))
    rules = rules_of(node) if node.result.type.is_float else None
    if rules is not None:
        return (True,) if node.row.transfer.converts else tuple(rule is not None for rule in rules)
    if node.result.type.is_float and any(a.type.is_float for a in node.args) and not _has_none(node):
        raise NotDifferentiableError(
            f"`{node.name}` has no derivative yet: no rule says what it is",
            node.span,
            "give the function that computes this one of its own: @wp.func_grad",
        )
    through_bits = node.row.transfer.reinterprets or not any(a.type.is_float for a in node.args)
    return tuple(through_bits and node.result.type.kind != "bool" for _ in node.args)


def chooses(node: Op) -> tuple[int, ...]:
    """The arguments that a pure operation chooses between."""
    return tuple(k for k, rule in enumerate(DERIVATIVES.get(node.name, ())) if isinstance(rule, Chosen))


def derivative_reads(node: Op, k: int) -> frozenset[int] | None:
    """Which arguments the derivative of an operation by argument `k` reads, with -1 for its result.

    None where there is no derivative, or where it is zero wherever it exists.
    """
    assert node.result is not None
    rules = None if node.row.derivative.only else rules_of(node)
    rule = rules[k] if rules is not None else None
    if rule is None:
        return None
    builder, tangent = Builder(), Value(node.args[k].type)
    args = tuple(Value(x.type) for x in node.args)  # not constants, which fold
    result = Value(node.result.type)
    needed = {rule.forward(Applied(builder, args, result, node.name, node.attr), tangent)}
    for made in reversed(builder.nodes):
        if not needed.isdisjoint(results(made)):
            needed.update(operands(made))
    return frozenset([j for j, x in enumerate(args) if x in needed] + ([-1] if result in needed else []))


def _has_none(node: Op) -> bool:
    """True if an operation is known to have no derivative; one that no table knows is not."""
    return node.row.numeric.is_step or node.row.transfer.reinterprets or node.name in _TILE_RULES


def _both(rule: Rule) -> Directions | None:
    return None if rule is None else Directions(rule, rule)


_OF_SCALARS: dict[str, Rules] = {name: tuple(map(_both, rules)) for name, rules in DERIVATIVES.items()}


# -- shapes


def reshaped(a: Applied, x: Operand, shape: tuple[int, ...]) -> Operand:
    """The elements of `x` in order, as a tile of `shape`."""
    return x if shape_of(x.type) == shape else a.builder.op("view", x, attr=Strided(shape, 0, dense_strides(shape)))


def transposed(a: Applied, x: Operand) -> Operand:
    """The transpose of a matrix."""
    rows, columns = shape_of(x.type)
    return a.builder.op("view", x, attr=Strided((columns, rows), 0, (1, columns)))


def _iota(a: Applied, shape: tuple[int, ...], axis: int = 0) -> Operand:
    made = Value(with_shape(int32, shape))
    a.builder.append(Op("iota", (), Iota(shape, axis), made, a.builder.span))
    return made


def _numbers(a: Applied, shape: tuple[int, ...]) -> Operand:
    """The number of each element of the flattened tile."""
    return reshaped(a, _iota(a, (math.prod(shape),)), shape)


def _spread_over(a: Applied, x: Operand, shape: tuple[int, ...], axes: tuple[int, ...]) -> Operand:
    """A result of a reduction over `axes`, for each of the elements of `shape` that went into it."""
    if not shape_of(x.type):
        return a.builder.op("fill", x, attr=shape)
    kept = iter(dense_strides(shape_of(x.type)))
    strides = tuple(0 if axis in axes else next(kept) for axis in range(len(shape)))
    return a.builder.op("view", x, attr=Strided(shape, 0, strides))


def _sum(a: Applied, x: Operand, axes: tuple[int, ...]) -> Operand:
    return a.builder.op("reduce", x, attr=Reduction("add", axes))


# -- tiles made of others


def _filled(a: Applied, g: Operand) -> Operand:
    return _sum(a, g, tuple(range(len(shape_of(a.result.type)))))


def _viewed(a: Applied, g: Operand) -> Operand:
    view = a.attr_as(Strided)
    return a.builder.op("spread", g, attr=Strided(shape_of(a.args[0].type), view.offset, view.strides))


def _unspread(a: Applied, g: Operand) -> Operand:
    view = a.attr_as(Strided)
    return a.builder.op("view", g, attr=Strided(shape_of(a.args[0].type), view.offset, view.strides))


def _again(a: Applied, t: Operand) -> Operand:
    """A linear operation of one argument, on the tangent."""
    return a.builder.op(a.name, t, attr=a.attr)


def _take(node: Op) -> Rules:
    def reverse(a: Applied, g: Operand) -> Operand:
        return a.builder.op("put_add", zero(a.args[0].type), *a.args[1:], g)

    def forward(a: Applied, t: Operand) -> Operand:
        return a.builder.op("take", t, *a.args[1:])

    return Directions(reverse, forward), *(None for _ in node.args[1:])


def _put(node: Op) -> Rules:
    def reverse(a: Applied, g: Operand) -> Operand:
        return a.builder.op("put", g, *a.args[1:-1], zero(a.args[-1].type))

    def forward(a: Applied, t: Operand) -> Operand:
        return a.builder.op("put", t, *a.args[1:-1], zero(a.args[-1].type))

    return Directions(reverse, forward), *(None for _ in node.args[1:-1]), _VALUE


def _put_add(node: Op) -> Rules:
    return Directions(lambda a, g: g, lambda a, t: t), *(None for _ in node.args[1:-1]), _VALUE


# The value that is put somewhere.
_VALUE = Directions(
    lambda a, g: a.builder.op("take", g, *a.args[1:-1]),
    lambda a, t: a.builder.op("put_add", zero(a.result.type), *a.args[1:-1], t),
)


# -- reductions


def _reduce(node: Op) -> Rules:
    operation, axes = node.attr_as(Reduction).operation, node.attr_as(Reduction).axes
    if operation == "add":
        return (Directions(lambda a, g: _spread_over(a, g, shape_of(a.args[0].type), axes), _again),)
    if operation not in EXTREMA:

        def refuse(a: Applied, g: Operand) -> Operand:
            raise NotDifferentiableError(
                f"the derivative of {operation} over a whole tile is not known",
                node.span,
                "multiply the elements in a loop",
            )

        return (Directions(refuse, refuse),)

    def chosen(a: Applied) -> Operand:
        """Which elements the results are: the first ones of those that are equal."""
        shape = shape_of(a.args[0].type)
        equal = same_number(a.builder, a.args[0], _spread_over(a, a.result, shape, axes))
        numbers = _numbers(a, shape)
        candidates = a.builder.op("select", equal, numbers, Const(numbers.type, int32.max))
        first = a.builder.op("reduce", candidates, attr=Reduction("min", axes))
        return a.builder.op("eq", numbers, _spread_over(a, first, shape, axes))

    def reverse(a: Applied, g: Operand) -> Operand:
        shape = shape_of(a.args[0].type)
        whole = _spread_over(a, g, shape, axes)
        return a.builder.op("select", chosen(a), whole, zero(whole.type))

    def forward(a: Applied, t: Operand) -> Operand:
        return _sum(a, a.builder.op("select", chosen(a), t, zero(t.type)), axes)

    return (Directions(reverse, forward),)


def _scan(node: Op) -> Rules:
    scan = node.attr_as(Scan)
    kind, is_reverse = scan.operation, scan.reverse
    if kind == "add":
        other = Scan(kind, not is_reverse, scan.exclusive)
        return (Directions(lambda a, g: a.builder.op("scan", g, attr=other), _again),)

    def sources(a: Applied) -> Operand:
        """The number of the element that each result is: the first of those that are equal."""
        x, shape = a.args[0], shape_of(a.args[0].type)
        before = a.builder.op("scan", x, attr=Scan(kind, is_reverse, True))
        # The first of the numbers, or an element that is beyond those before.
        first = a.builder.op("and", a.builder.op("eq", x, x), a.builder.op("ne", before, before))
        leads = a.builder.op("or", first, a.builder.op("gt" if kind == "max" else "lt", x, before))
        numbers = _numbers(a, shape)
        # An index outside stands for no element.
        none = Const(numbers.type, int32.max if is_reverse else int32.min)
        found = a.builder.op("select", leads, numbers, none)
        return a.builder.op("scan", found, attr=Scan("min" if is_reverse else "max", is_reverse, scan.exclusive))

    def flat(a: Applied, x: Operand) -> Operand:
        return reshaped(a, x, (math.prod(shape_of(x.type)),))

    def reverse(a: Applied, g: Operand) -> Operand:
        flat_zero = zero(with_shape(scalar_of(g.type), (math.prod(shape_of(g.type)),)))
        summed = a.builder.op("put_add", flat_zero, flat(a, sources(a)), flat(a, g))
        return reshaped(a, summed, shape_of(g.type))

    def forward(a: Applied, t: Operand) -> Operand:
        return a.builder.op("take", flat(a, t), sources(a))

    return (Directions(reverse, forward),)


# -- linear algebra


def _product(a: Applied, x: Operand, y: Operand, flags: tuple[bool, bool]) -> Operand:
    """op(x) @ op(y), of the type of both."""
    rows, columns = shape_of(x.type)[flags[0]], shape_of(y.type)[not flags[1]]
    transposes = Transposes(*flags, tf32=isinstance(a.attr, Transposes) and a.attr.tf32)
    return a.builder.op("matmul", x, y, zero(with_shape(scalar_of(x.type), (rows, columns))), attr=transposes)


def _matmul(node: Op) -> Rules:
    ta, tb = node.attr_as(Transposes).a, node.attr_as(Transposes).b

    def rounded(a: Applied, g: Operand) -> Operand:
        """The cotangent as an operand: of the type of the operands, as products have one type of these."""
        kind = scalar_of(a.args[0].type)
        return a.builder.op("cast", g, type=with_shape(kind, shape_of(g.type)))

    def reverse_a(a: Applied, g: Operand) -> Operand:
        g, b = rounded(a, g), a.args[1]
        return _product(a, b, g, (tb, True)) if ta else _product(a, g, b, (False, not tb))

    def reverse_b(a: Applied, g: Operand) -> Operand:
        g, x = rounded(a, g), a.args[0]
        return _product(a, g, x, (True, ta)) if tb else _product(a, x, g, (not ta, False))

    def forward_a(a: Applied, t: Operand) -> Operand:
        return a.builder.op("matmul", t, a.args[1], zero(a.result.type), attr=a.attr)

    def forward_b(a: Applied, t: Operand) -> Operand:
        return a.builder.op("matmul", a.args[0], t, zero(a.result.type), attr=a.attr)

    return (
        Directions(reverse_a, forward_a),
        Directions(reverse_b, forward_b),
        Directions(lambda a, g: g, lambda a, t: t),
    )


def _triangle(a: Applied, x: Operand, lower: bool, diagonal: float = 1.0) -> Operand:
    """One triangle of a matrix, its diagonal scaled, and zeros."""
    shape = shape_of(x.type)
    i, j = _iota(a, shape, 0), _iota(a, shape, 1)
    scaled = x if diagonal == 1 else a.builder.op("mul", x, Const(x.type, diagonal))
    on = a.builder.op("select", a.builder.op("eq", i, j), scaled, zero(x.type))
    return a.builder.op("select", a.builder.op("gt" if lower else "lt", i, j), x, on)


def _solve(a: Applied, t: Operand, b: Operand, lower: bool, flipped: bool) -> Operand:
    return a.builder.op("tri_solve", t, b, attr=Triangle(lower, flipped))


def _fourier_reverse(a: Applied, g: Operand) -> Operand:
    """The matrix of the transform is symmetric, and that of the other direction is its conjugate."""
    return a.builder.op("fourier", g, a.args[1], attr=Fourier(not a.attr_as(Fourier).inverse))


def _fourier_forward(a: Applied, t: Operand) -> Operand:
    return a.builder.op("fourier", t, a.args[1], attr=a.attr)


def _cholesky_reverse(a: Applied, g: Operand) -> Operand:
    """The gradient by the lower triangle, which stands for a symmetric matrix: S. P. Smith 1995, I. Murray 2016."""
    factor, add = a.result, a.builder.op
    inner = _triangle(a, _product(a, factor, _triangle(a, g, True), (True, False)), True, 0.5)
    half = _solve(a, factor, inner, True, True)
    flipped = _solve(a, factor, transposed(a, half), True, True)
    whole = transposed(a, flipped)
    shape = shape_of(g.type)
    i, j = _iota(a, shape, 0), _iota(a, shape, 1)
    below = add("select", add("gt", i, j), add("add", whole, flipped), zero(g.type))
    return add("select", add("eq", i, j), whole, below)


def _cholesky_forward(a: Applied, t: Operand) -> Operand:
    factor, shape, do = a.result, shape_of(t.type), a.builder.op
    lower = do("ge", _iota(a, shape, 0), _iota(a, shape, 1))
    symmetric = do("select", lower, t, transposed(a, t))
    half = _solve(a, factor, symmetric, True, False)
    # It is symmetric too, so that its transpose is itself.
    whole = _solve(a, factor, transposed(a, half), True, False)
    return _product(a, factor, _triangle(a, whole, True, 0.5), (False, False))


def _tri_solve(node: Op) -> Rules:
    lower, flipped = node.attr_as(Triangle).lower, node.attr_as(Triangle).transposed

    def columns(a: Applied, x: Operand) -> Operand:
        shape = shape_of(x.type)
        return x if len(shape) == 2 else reshaped(a, x, (*shape, 1))

    def reverse_right(a: Applied, g: Operand) -> Operand:
        return _solve(a, a.args[0], g, lower, not flipped)

    def reverse_matrix(a: Applied, g: Operand) -> Operand:
        x, y = columns(a, reverse_right(a, g)), columns(a, a.result)
        product = _product(a, y, x, (False, True)) if flipped else _product(a, x, y, (False, True))
        return _triangle(a, a.builder.op("neg", product), lower)

    def forward_matrix(a: Applied, t: Operand) -> Operand:
        moved = _product(a, _triangle(a, t, lower), columns(a, a.result), (flipped, False))
        right = a.builder.op("neg", reshaped(a, moved, shape_of(a.result.type)))
        return _solve(a, a.args[0], right, lower, flipped)

    def forward_right(a: Applied, t: Operand) -> Operand:
        return _solve(a, a.args[0], t, lower, flipped)

    return Directions(reverse_matrix, forward_matrix), Directions(reverse_right, forward_right)


# A row is the rules, or what makes them for an operation at hand.
_TILE_RULES: dict[str, Rules | Callable[[Op], Rules | None] | None] = {
    "fill": (Directions(_filled, _again),),
    "iota": (),
    "view": (Directions(_viewed, _again),),
    "spread": (Directions(_unspread, _again),),
    "take": _take,
    "put": _put,
    "put_add": _put_add,
    "reduce": _reduce,
    "arg": (None,),
    "scan": _scan,
    "matmul": _matmul,
    "cholesky": (Directions(_cholesky_reverse, _cholesky_forward),),
    "tri_solve": _tri_solve,
    "argsort": (None,),
    "fourier": (Directions(_fourier_reverse, _fourier_forward), None),
}
