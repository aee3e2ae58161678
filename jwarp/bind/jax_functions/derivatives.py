"""Functions whose derivative JAX knows by a rule of their own: its coefficients are computed with their values.

`jax.jvp` and `jax.vjp` of the equation give the rule as a jaxpr. It is read once with linear forms as the tangents;
the coefficients of what comes out are the slopes of the results, in operations that have derivatives themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jwarp.bind import compat
from jwarp.bind.jax_functions.authored import with_cotangents
from jwarp.bind.jax_functions.equations import (
    computed,
    dtype_of,
    is_float,
    is_linear,
    jvp_of,
    name_of,
    places_of,
    vjp_of,
)
from jwarp.bind.jax_functions.forms import Form, NotLinear, Unknown, as_form, coefficients
from jwarp.bind.jax_functions.lowering import Lowering, Scalars, alike, filled, flat, primitive
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Node, blocks, operands, results, used_values

# The name of all primitives of a higher level, which JAX has from 0.12 on.
_HIGHER = "call_hi_primitive"

Primal = Callable[..., list[Scalars]]  # of the arguments
Slopes = list[dict[int, Any]]  # for each scalar of the results, by the numbers of the scalars of the arguments


def by_rule(
    low: Lowering, equation: Any, args: Sequence[Scalars], value: Primal, reverse: bool = False
) -> list[Scalars]:
    """The results that `value` gives, with the derivatives that JAX has for the equation.

    Of a rule for reverse mode alone that is not linear in the cotangents, the derivative is a kernel of its own.
    """
    if any(jax.numpy.issubdtype(v.aval.dtype, np.complexfloating) for v in (*equation.invars, *equation.outvars)):
        raise low.error(f"`{name_of(equation)}` of complex numbers, where it has a derivative of its own")
    numbers = coefficients([x for x in flat(args) if isinstance(x, Form)])
    if numbers:
        return _of_tangents(low, equation, args, value, reverse, numbers)
    places = places_of(equation)
    wanted = [k for k in places if is_float(equation.invars[k]) and not all(isinstance(x, Const) for x in args[k].flat)]
    if low.order <= 0 or not wanted or not any(map(is_float, equation.outvars)):
        with low.derived(0):
            return [low.each(low.undifferentiated, x) for x in value(*args)]
    own = [args[k] for k in places]
    first = len(low.build.nodes)
    with low.derived(low.order - 1):
        try:
            slopes = (_by_cotangents if reverse else _by_tangents)(low, equation, own, wanted)
        except NotLinear as fault:
            if reverse:
                return with_cotangents(low, equation, own, wanted, lambda: value(*args))
            if not isinstance(fault, Unknown):
                return _barred(low, equation, args, wanted, value)
            slopes = _by_units(low, equation, own, wanted)
    scalars, number, made = flat([args[k] for k in wanted]), 0, []
    author = _author(low, equation, low.build.nodes[first:], scalars, slopes)
    with low.derived(0):
        found = value(*args)
    for array in found:
        sloped = [_with(low, x, scalars, slopes[k], author) for k, x in enumerate(array.flat, number)]
        made.append(filled(array.shape, sloped))
        number += array.size
    return made


def _of_tangents(
    low: Lowering, equation: Any, args: Sequence[Scalars], value: Primal, reverse: bool, numbers: Sequence[int]
) -> list[Scalars]:
    """A function in the rule of another one that is given tangents of that, in which it is linear.

    Its results are the sums of what it makes of the coefficients of each tangent. So they are computed, and these have
    the derivatives that its own rule says, which its value may hide.

    One of JAX's own may be linear although it computes with the bits of a number, as `ldexp`: that is tried.

    Raises:
        NotLinear: it is not linear in them.
    """
    try:
        found = value(*args)
        if low.order <= 0:
            return found
    except NotLinear:
        at = [k for k in places_of(equation) if any(isinstance(x, Form) for x in args[k].flat)]
        if not _is_of_jax(equation):
            raise
        if not is_linear(equation, at):
            raise NotLinear from None
        others = [low.each(lambda x: zero(x.type) if isinstance(x, Form) else x, a) for a in args]
        found = value(*others)
    parts = {}
    for k in numbers:
        alone = [low.each(lambda x, k=k: x.terms.get(k, zero(x.type)) if isinstance(x, Form) else x, a) for a in args]
        parts[k] = [x.ravel() for x in by_rule(low, equation, alone, value, reverse)]
    return [
        filled(array.shape, [Form(x.type, {k: parts[k][j][n] for k in numbers}) for n, x in enumerate(array.flat)])
        if is_float(variable)
        else array
        for j, (array, variable) in enumerate(zip(found, equation.outvars, strict=True))
    ]


def _barred(
    low: Lowering, equation: Any, args: Sequence[Scalars], wanted: Sequence[int], value: Primal
) -> list[Scalars]:
    """The results that `value` gives, whose derivatives are refused."""
    name = compat.traced_name(_primal(equation)) or low.name
    why = f"the rule of `{name}` under jax.custom_jvp is not linear in the tangents, and so is no derivative"
    with low.derived(0):
        found = value(*args)
    sources = [x for k in wanted for x in args[k].flat if not isinstance(x, Const)]

    def barred(x: Any) -> Any:
        if isinstance(x, Const) or not x.type.is_float:
            return x
        x = low.undifferentiated(x)
        for source in sources:
            x = low.op("barred", x, low.cast(source, x.type), attr=why)
        return x

    return [low.each(barred, x) for x in found]


def _with(low: Lowering, value: Any, scalars: Sequence[Any], slopes: dict[int, Any], author: str | None) -> Any:
    """A result with its slopes by the scalars of these numbers."""
    known = ((k, c) for k, c in sorted(slopes.items()) if not (isinstance(c, Const) and c == zero(c.type)))
    return low.sloped(value, *((scalars[k], c) for k, c in known), author=author)


def _author(low: Lowering, equation: Any, nodes: Sequence[Node], scalars: Sequence[Any], slopes: Slopes) -> str | None:
    """The function whose rule may be no derivative of anything, so that second derivatives depend on their order.

    None of JAX's own, and where each result has to do with one scalar. `nodes` are those of the slopes.
    """
    primal = _primal(equation)
    if low.is_foreign or _is_of_jax(equation):
        return None
    by: dict[Any, set[int]] = {}
    for k, x in enumerate(scalars):
        by.setdefault(x, set()).add(k)
    for node in nodes:
        read = [*operands(node), *(x for block in blocks(node) for x in used_values(block))]
        together = set().union(*(by.get(x, ()) for x in read))
        by.update((x, together | by.get(x, set())) for x in results(node))
    for terms in slopes:
        if len(set(terms).union(*(by.get(c, ()) for c in terms.values()))) > 1:
            return compat.traced_name(primal) or low.name
    return None


def _is_of_jax(equation: Any) -> bool:
    """True if the rule belongs to JAX itself."""
    primal = _primal(equation)
    return (primal is None and equation.primitive.name == _HIGHER) or compat.in_library(compat.traced_file(primal))


def _primal(equation: Any) -> Any:
    """The jaxpr of the function that the rule is of; None where there is none."""
    p = equation.params
    if equation.primitive.name == _HIGHER:
        inner = compat.higher_primitive(equation)[2]
        return getattr(inner, "jaxpr", inner)
    inner = p.get("call_jaxpr") or p.get("fun_jaxpr")
    return getattr(inner, "jaxpr", inner)


def _by_tangents(low: Lowering, equation: Any, own: Sequence[Scalars], wanted: Sequence[int]) -> Slopes:
    """By a form for each scalar of the arguments that is its tangent."""
    arrays = _at(equation, own, wanted)
    forms = alike(arrays, [Form(x.type, {k: Const(x.type, 1.0)}) for k, x in enumerate(flat(arrays))])
    before, low.of_tangents = low.of_tangents, True
    try:
        found = iter(low.closed(jvp_of(equation, wanted), [*own, *forms], foreign=True))
    finally:
        low.of_tangents = before
    slopes: Slopes = []
    for variable in equation.outvars:
        if is_float(variable):
            slopes += [as_form(x).terms for x in next(found).flat]
        else:
            slopes += [{} for _ in range(math.prod(variable.aval.shape))]
    return slopes


def _at(equation: Any, own: Sequence[Scalars], wanted: Sequence[int]) -> list[Scalars]:
    """The arrays at some of the places of the operands."""
    return [x for k, x in zip(places_of(equation), own, strict=True) if k in wanted]


def _by_units(low: Lowering, equation: Any, own: Sequence[Scalars], wanted: Sequence[int]) -> Slopes:
    """By a tangent of one in each scalar of the arguments in turn."""
    arrays, rule = _at(equation, own, wanted), jvp_of(equation, wanted)
    scalars = flat(arrays)
    slopes: Slopes = [{} for v in equation.outvars for _ in range(math.prod(v.aval.shape))]
    for k in range(len(scalars)):
        units = alike(arrays, [Const(x.type, float(j == k)) for j, x in enumerate(scalars)])
        found = iter(low.closed(rule, [*own, *units], foreign=True))
        number = 0
        for variable in equation.outvars:
            if is_float(variable):
                for place, c in enumerate(next(found).flat, number):
                    slopes[place][k] = c
            number += math.prod(variable.aval.shape)
    return slopes


def _by_cotangents(low: Lowering, equation: Any, own: Sequence[Scalars], wanted: Sequence[int]) -> Slopes:
    """From a rule that takes cotangents of the results to those of the arguments."""
    count, forms = 0, []
    for variable in equation.outvars:
        shape = variable.aval.shape
        if is_float(variable):
            kind = dtype_of(variable)
            forms.append(filled(shape, [Form(kind, {count + k: Const(kind, 1.0)}) for k in range(math.prod(shape))]))
        count += math.prod(shape)
    slopes: Slopes = [{} for _ in range(count)]
    for k, x in enumerate(flat(low.closed(vjp_of(equation, wanted), [*own, *forms], foreign=True))):
        for j, c in as_form(x).terms.items():
            slopes[j][k] = c
    return slopes


@primitive("custom_jvp_call")
def _custom_jvp(low: Lowering, equation: Any, *args: Scalars) -> list[Scalars]:
    inner = equation.params["call_jaxpr"]
    return by_rule(low, equation, args, lambda *args: low.closed(inner, args))


@primitive("custom_vjp_call", "custom_vjp_call_jaxpr")
def _custom_vjp(low: Lowering, equation: Any, *args: Scalars) -> list[Scalars]:
    p = equation.params
    inner = p.get("call_jaxpr") or p["fun_jaxpr"]
    return by_rule(low, equation, args, lambda *args: low.closed(inner, args), reverse=True)


@primitive(_HIGHER)
def _higher(low: Lowering, equation: Any, *args: Scalars) -> list[Scalars]:
    function, is_reverse, _ = compat.higher_primitive(equation)
    jaxpr = computed(lambda *values, **_: function(*values), equation)
    return by_rule(low, equation, args, lambda *args: low.closed(jaxpr, args, foreign=True), reverse=is_reverse)
