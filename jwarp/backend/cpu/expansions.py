"""The elementary functions as IR, read from the library when a kernel first needs them."""

from __future__ import annotations

import dataclasses
import functools

from jwarp.frontend.statements import lower_func
from jwarp.ir.nodes import Block, Kernel, Op, Value
from jwarp.lib.expansions import EXPANSIONS
from jwarp.transform.simplify import simplify
from jwarp.types import ScalarType


def expansion(node: Op) -> tuple[tuple[Value, ...], Block] | None:
    """The library's form of an operation, or None if the target has an instruction for it."""
    if not node.args:
        return None
    kind = node.args[0].type
    return _form(node.name, kind, len(node.args)) if (node.name, kind) in EXPANSIONS else None


@functools.cache
def _form(name: str, kind: ScalarType, arity: int) -> tuple[tuple[Value, ...], Block]:
    params, body = lower_func(EXPANSIONS[name, kind], (kind,) * arity)
    # An effect keeps what the function yields alive while it is simplified as if it were a kernel.
    return params, _simplified(body)


def _simplified(body: Block) -> Block:
    result = body.yields[0]
    anchor = Op("store", (result,), 0)
    kernel = simplify(Kernel("expansion", (), 1, Block((*body.nodes, anchor))))
    *nodes, end = kernel.body.nodes
    assert isinstance(end, Op)
    return dataclasses.replace(body, nodes=tuple(nodes), yields=(end.args[0],))
