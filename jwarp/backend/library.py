"""The elementary functions as IR, read from the library when a kernel first needs them."""

from __future__ import annotations

from jwarp.caches import cached
from jwarp.frontend.lowering.lower import lower_func
from jwarp.ir.nodes import Block, Kernel, Op, Value
from jwarp.lib.expansions import EXPANSIONS, PAIRED
from jwarp.passes.simplify import simplify
from jwarp.types import ScalarType

# The parameters and the body of a function that computes an operation; None where there is none.
Expanded = tuple[tuple[Value, ...], Block] | None


def expansion(node: Op, is_paired: bool) -> Expanded:
    """The library's form of an operation; None if the library has none.

    One that `is_paired` is a sine next to a cosine of the same value, or the other way round.
    """
    if not node.args:
        return None
    kind = node.args[0].type
    key = (node.name, kind)
    is_paired = is_paired and key in PAIRED
    return _form(node.name, kind, len(node.args), is_paired) if key in EXPANSIONS else None


@cached("functions of the library by type")
def _form(name: str, kind: ScalarType, arity: int, is_paired: bool) -> tuple[tuple[Value, ...], Block]:
    params, body = lower_func((PAIRED if is_paired else EXPANSIONS)[name, kind], (kind,) * arity)
    return params, simplify(Kernel(name, (), 1, body)).body
