"""Rules of `jax.custom_vjp` that are not linear, as one that clips gradients: a kernel that the adjoint contains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jwarp.bind.jax_functions.equations import is_float, places_of, vjp_of
from jwarp.bind.jax_functions.lowering import Lowering, Scalars, alike, flat
from jwarp.ir.attributes import Detached, Rule
from jwarp.ir.nodes import Block, Const, Gradient, Kernel, Op, Param, Value
from jwarp.types import ArrayType, int32


def with_cotangents(
    low: Lowering, equation: Any, own: Sequence[Scalars], wanted: Sequence[int], value: Callable[[], list[Scalars]]
) -> list[Scalars]:
    """The results that `value` gives; reverse mode runs the rule of the equation for their cotangents.

    `own` are the variables of the equation, `wanted` the places of the operands that have gradients.
    """
    ctx, span = low.ctx, low.span
    with low.derived(0):
        found = value()
    if ctx.in_gradient:
        return found
    scalars, results = flat(own), flat(found)
    params: list[Param] = []
    feeds: list[tuple[str, int, int]] = []

    def param(name: str, kind: Any, feed: tuple[str, int, int]) -> int:
        params.append(Param(name, kind))
        feeds.append(feed)
        return len(params) - 1

    values = [param(f"x{k}", x.type, ("value", 0, k)) for k, x in enumerate(scalars)]
    given = [param(f"g{k}", x.type, ("cotangent", 0, k)) for k, x in enumerate(results)]
    locals_before = len(ctx.locals)
    with low.build.block() as nodes:

        def read(number: int) -> Value:
            made = Value(params[number].type)  # type: ignore[arg-type]
            low.build.append(Op("param", (), number, made, span))
            return made

        inner = alike(own, [read(n) for n in values])
        cotangents = [
            x for x, v in zip(alike(found, [read(n) for n in given]), equation.outvars, strict=True) if is_float(v)
        ]
        with low.derived(0):
            parts = iter(low.closed(vjp_of(equation, wanted), [*inner, *cotangents], foreign=True))
        number = 0
        for place, array in zip(places_of(equation), own, strict=True):
            if place in wanted:
                for k, part in enumerate(next(parts).flat, number):
                    target = param(f"d{k}", ArrayType(scalars[k].type, 1), ("gradient", values[k], 0))
                    low.build.append(Op("atomic_add", (Const(int32, 0), part), target, None, span))
            number += array.size
    if len(ctx.locals) > locals_before:
        raise low.error("its rule under jax.custom_vjp needs an array of its own, to be indexed or looped over")
    kernel = Kernel(low.name, tuple(params), 1, Block(tuple(nodes)), span)
    rule = len(ctx.gradients)
    ctx.gradients.append(Gradient(kernel, tuple(feeds)))
    ctx.builder.effect("rule", *scalars, attr=Rule(rule, ()))
    sources = [x for x in scalars if isinstance(x, Value) and x.type.is_float]
    detached = []
    for j, x in enumerate(results):
        if not x.type.is_float:
            detached.append(x)
            continue
        made = Value(x.type)
        ctx.builder.append(Op("detach", (x, *sources), Detached(rule, j, ()), made, span))
        detached.append(made)
    return alike(found, detached)
