"""Primitives that run jaxprs: calls, branches, loops and scans."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jwarp.bind import compat
from jwarp.bind.jax_functions.elementwise import truth
from jwarp.bind.jax_functions.equations import dtype_of
from jwarp.bind.jax_functions.forms import Form, NotLinear, Unknown, as_form, coefficients
from jwarp.bind.jax_functions.indexing import among, get, put
from jwarp.bind.jax_functions.lowering import Lowering, Scalars, alike, filled, flat, one, primitive, single
from jwarp.bind.jax_functions.reductions import in_pairs
from jwarp.errors import Span
from jwarp.ir.builder import make_block, zero
from jwarp.ir.nodes import Const, For, If, Operand, Value, While
from jwarp.types import ArrayType, bool_, int32

# Scans of more iterations than `max_unroll`, and those whose copies would have more equations than this, stay loops.
MAX_UNROLLED = 400


@primitive("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "custom_vmap_call")
def _call(low: Lowering, equation: Any, *args: Scalars) -> list[Scalars]:
    p = equation.params
    inner = p.get("jaxpr") or p.get("call_jaxpr") or p["call"]
    return low.closed(inner, args) if hasattr(inner, "consts") else low.run(inner, (), args)


# -- branches


@primitive("cond")
def _cond(low: Lowering, equation: Any, which: Scalars, *args: Scalars) -> list[Scalars]:
    branches, index = equation.params["branches"], one(which)
    if index.type is not bool_ and not isinstance(index, Const):
        index = low.op("max", low.op("min", index, Const(index.type, len(branches) - 1)), zero(index.type))
    return branch(low, index, [functools.partial(low.closed, b, args) for b in branches])


@primitive("platform_index")
def _platform(low: Lowering, equation: Any) -> Scalars:
    """The way for platforms in general: a kernel is the same one for all of them."""
    ways = equation.params["platforms"]
    general = [k for k, names in enumerate(ways) if names is None]
    if not general:
        raise low.error(
            "it computes one thing on one platform and another on others", "give lax.platform_dependent a default"
        )
    return single(Const(int32, general[0]))


def branch(low: Lowering, index: Any, cases: Sequence[Callable[[], list[Scalars]]]) -> list[Scalars]:
    """The results of case number `index`, which is a number in range or a truth value."""
    if isinstance(index, Const):
        return cases[min(max(int(index.value), 0), len(cases) - 1)]()
    if len(cases) == 1:
        return cases[0]()
    is_first = low.op("not", index) if index.type is bool_ else low.op("eq", index, zero(index.type))
    with low.build.block() as then:
        first = cases[0]()
    with low.build.block() as orelse:
        if len(cases) == 2:
            rest = cases[1]()
        else:
            rest = branch(low, low.op("sub", index, Const(index.type, 1)), cases[1:])
    xs, ys = flat(first), flat(rest)
    yields, build = _yielded(xs, ys)
    results = tuple(Value(x.type) for x, _ in yields)
    blocks = make_block(then, [x for x, _ in yields]), make_block(orelse, [y for _, y in yields])
    low.build.append(If(is_first, *blocks, results, low.span))
    return alike(first, build(list(results)))


def _yielded(xs: list[Any], ys: list[Any]) -> tuple[list[tuple[Operand, Operand]], Callable[[list[Any]], list[Any]]]:
    """The operands that two blocks yield for scalars, and what makes scalars of the results.

    A form is its coefficients.
    """
    pairs: list[tuple[Operand, Operand]] = []
    keys: list[list[int] | None] = []
    for x, y in zip(xs, ys, strict=True):
        if not isinstance(x, Form) and not isinstance(y, Form):
            pairs.append((x, y))
            keys.append(None)
            continue
        forms = [as_form(x), as_form(y)]
        keys.append(coefficients(forms))
        none = zero(x.type)
        pairs += [(forms[0].terms.get(k, none), forms[1].terms.get(k, none)) for k in keys[-1] or ()]

    def build(results: list[Any]) -> list[Any]:
        left = iter(results)
        return [
            next(left) if known is None else Form(x.type, {k: next(left) for k in known})
            for x, known in zip(xs, keys, strict=True)
        ]

    return pairs, build


# -- loops


def _has_forms(args: Sequence[Scalars]) -> bool:
    return any(isinstance(x, Form) for x in flat(args))


def _of_forms(
    low: Lowering, init: Sequence[Scalars], iteration: Callable[[list[Scalars]], list[Scalars]]
) -> list[Scalars]:
    """The results of a loop that carries linear forms, inside a loop that is tried; `iteration` is one iteration.

    Raises:
        Unknown: it is linear in the forms.
        NotLinear: it is not.
    """
    locals_before, gradients = list(low.ctx.locals), list(low.ctx.gradients)
    counted, tables, is_trial = (low.count, low.counts.copy()), dict(low.tables), low.is_trial
    carried = flat(init)
    if not all(isinstance(x, (Const, Value, Form)) for x in carried):  # of a complex number
        raise NotLinear
    low.is_trial = True
    try:
        while True:
            with low.build.block():
                found = iteration(alike(init, [_any(x) for x in carried]))
            following = [_joined(*pair) for pair in zip(carried, flat(found), strict=False)]
            if list(map(type, following)) == list(map(type, carried)):
                break
            carried = following
    finally:
        low.ctx.locals, low.ctx.gradients = locals_before, gradients
        (low.count, low.counts), low.tables, low.is_trial = counted, tables, is_trial
    if not low.is_trial:
        raise Unknown
    return [*alike(init, [_any(x) for x in following]), *found[len(init) :]]


def _joined(before: Any, after: Any) -> Any:
    """The loop-carried value that is this before and after an iteration. A zero may become a form, and a form a zero.

    Raises:
        NotLinear: one is a form, the other a number that need not be zero.
    """
    if isinstance(before, Form) or isinstance(after, Form):
        as_form(after)
        return as_form(before)
    return before if after == before else Value(before.type)


def _any(x: Any) -> Any:
    """Any number, or form, in place of one; a zero is one."""
    if isinstance(x, Form):
        return Form(x.type, {0: Value(x.type)})
    return x if isinstance(x, Const) and x == zero(x.type) else Value(x.type)


@primitive("while")
def _while(low: Lowering, equation: Any, *args: Scalars) -> list[Scalars]:
    p = equation.params
    of_test, of_body = p["cond_nconsts"], p["body_nconsts"]
    test_consts, body_consts = args[:of_test], args[of_test : of_test + of_body]
    init = args[of_test + of_body :]
    if _has_forms(args):

        def iteration(carried: list[Scalars]) -> list[Scalars]:
            low.closed(p["cond_jaxpr"], [*test_consts, *carried])
            return low.closed(p["body_jaxpr"], [*body_consts, *carried])

        return _of_forms(low, init, iteration)
    params = [Value(x.type) for x in flat(init)]
    inside = alike(init, params)
    with low.build.block() as test_nodes:
        (goes_on,) = low.closed(p["cond_jaxpr"], [*test_consts, *inside])
        holds = in_pairs(lambda x, y: low.op("or", x, y), [truth(low, x) for x in goes_on.flat])
    with low.build.block() as nodes:
        following = low.closed(p["body_jaxpr"], [*body_consts, *inside])
        if goes_on.ndim:  # of a batch, those that are done stay as they are
            (running,) = low.closed(p["cond_jaxpr"], [*test_consts, *inside])
            following = [
                low.each(low.where, running.reshape(running.shape + (1,) * (x.ndim - running.ndim)), x, old)
                for x, old in zip(following, inside, strict=True)
            ]
    results = tuple(Value(x.type) for x in params)
    blocks = make_block(test_nodes, (holds,)), make_block(nodes, flat(following))
    low.build.append(While(tuple(params), tuple(flat(init)), *blocks, results, low.span))
    return alike(init, list(results))


@primitive("scan")
def _scan(low: Lowering, equation: Any, *args: Scalars) -> list[Scalars]:
    p = equation.params
    constants, carried = compat.scan_counts(p)
    consts, carry = args[:constants], list(args[constants : constants + carried])
    xs, length = args[constants + carried :], p["length"]
    body, backwards = p["jaxpr"], p["reverse"]
    shapes = [aval.aval.shape[1:] for aval in equation.outvars[carried:]]
    copies = length * low.ctx.unrolled * len(body.jaxpr.eqns)
    if (length <= low.ctx.max_unroll and copies <= MAX_UNROLLED) or length <= 1:
        rows: list[list[Scalars]] = [[] for _ in shapes]
        before, low.ctx.unrolled = low.ctx.unrolled, low.ctx.unrolled * max(1, length)
        for k in range(length)[::-1] if backwards else range(length):
            found = low.closed(body, [*consts, *carry, *(x[k] if x.ndim > 1 else filled((), (x[k],)) for x in xs)])
            carry = found[: len(carry)]
            for row, y in zip(rows, found[len(carry) :], strict=True):
                row.append(y)
        low.ctx.unrolled = before
        ordered = [row[::-1] if backwards else row for row in rows]
        return [*carry, *(_stacked(row, shape) for row, shape in zip(ordered, shapes, strict=True))]
    if _has_forms(args):
        items = [filled(x.shape[1:], [_any(_one_of(c)) for c in x.reshape(length, -1).T]) for x in xs]
        found = _of_forms(low, carry, lambda carried: low.closed(body, [*consts, *carried, *items]))
        ys = [filled((length, *y.shape), [z for _ in range(length) for z in y.flat]) for y in found[carried:]]
        return [*found[:carried], *ys]
    return [*_loop(low, equation, consts, carry, xs, shapes)]


def _one_of(column: Any) -> Any:
    """One of the numbers that a scan goes through, a form if there is one."""
    return next((x for x in column if isinstance(x, Form)), column[0])


def _stacked(rows: list[Scalars], shape: tuple[int, ...]) -> Scalars:
    return filled((len(rows), *shape), flat(rows))


def _loop(
    low: Lowering,
    equation: Any,
    consts: Sequence[Scalars],
    carry: list[Scalars],
    xs: Sequence[Scalars],
    shapes: Sequence[tuple[int, ...]],
) -> list[Scalars]:
    """A scan as a loop: what it goes through, and what it collects, are arrays of the thread's own."""
    p, span = equation.params, low.span
    length = p["length"]
    sources = [[among(low, list(column), length) for column in x.reshape(length, -1).T] for x in xs]
    sizes = [filled(shape, range(math.prod(shape))) for shape in shapes]
    kinds = [dtype_of(x) for x in equation.outvars[len(carry) :]]
    targets = [
        [_empty(low, kind, length, span) for _ in range(numbers.size)]
        for numbers, kind in zip(sizes, kinds, strict=True)
    ]
    index, init = Value(int32), flat(carry)
    params = tuple(Value(x.type) for x in init)
    with low.build.block() as nodes:
        place: Any = low.op("sub", Const(int32, length - 1), index) if p["reverse"] else index
        items = [
            filled(x.shape[1:], [chosen(place, 0) for chosen in columns])
            for x, columns in zip(xs, sources, strict=True)
        ]
        found = low.closed(p["jaxpr"], [*consts, *alike(carry, params), *items])
        for arrays, y in zip(targets, found[len(carry) :], strict=True):
            for array, scalar in zip(arrays, y.flat, strict=True):
                put(low, array, place, low.cast(scalar, array.type.dtype))
    results = tuple(Value(x.type) for x in init)
    following = flat(found[: len(carry)])
    low.build.append(
        For(
            index,
            Const(int32, 0),
            Const(int32, length),
            1,
            params,
            tuple(init),
            make_block(nodes, following),
            results,
            span,
        )
    )
    collected = []
    for arrays, shape, kind in zip(targets, shapes, kinds, strict=True):
        rows = [[_read(low, array, k, kind) for array in arrays] for k in range(length)]
        collected.append(filled((length, *shape), [x for row in rows for x in row]))
    return [*alike(carry, list(results)), *collected]


def _empty(low: Lowering, kind: Any, length: int, span: Span) -> Any:
    return low.ctx.local_array(ArrayType(int32 if kind is bool_ else kind, 1), (length,), span)


def _read(low: Lowering, array: Any, k: int, kind: Any) -> Any:
    x = get(low, array, Const(int32, k))
    return low.op("ne", x, zero(x.type)) if kind is bool_ else x
