"""The elementary functions as IR, read from the library when a kernel first needs them."""

from __future__ import annotations

from jwarp.caches import cached
from jwarp.frontend.lowering.lower import lower_func
from jwarp.ir.nodes import Block, Kernel, Op, Value
from jwarp.lib.expansions import EXPANSIONS
from jwarp.passes.simplify import simplify
from jwarp.types import ScalarType


def expansion(node: Op) -> tuple[tuple[Value, ...], Block] | None:
    """The library's form of an operation; None if the library has none."""
    if not node.args:
        return None
    kind = node.args[0].type
    beside = f"{node.name} {node.attr}"
    name = beside if node.attr is not None and (beside, kind) in EXPANSIONS else node.name
    return _form(name, kind, len(node.args)) if (name, kind) in EXPANSIONS else None


@cached("functions of the library by type")
def _form(name: str, kind: ScalarType, arity: int) -> tuple[tuple[Value, ...], Block]:
    params, body = lower_func(EXPANSIONS[name, kind], (kind,) * arity)
    return params, simplify(Kernel(name, (), 1, body)).body
