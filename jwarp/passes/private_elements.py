"""Keeps elements that only one thread touches in values: it begins with zeros, and stores what is there in the end.

What is read before it is written is zero then, and arrays whose elements all threads store need no zeros before.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable

from jwarp.analysis.ownership import shifted_of
from jwarp.ir.builder import Builder, make_block
from jwarp.ir.contents import Definitions, definitions_of
from jwarp.ir.nodes import (
    Const,
    Kernel,
    Local,
    Node,
    Op,
    Operand,
    Value,
    arrays_changed,
    arrays_read,
    touched_by_gradients,
    walk,
)
from jwarp.ir.visit import map_ops
from jwarp.passes.local_values import local_values
from jwarp.passes.simplify import simplify
from jwarp.types import ArrayType, int32

# A thread keeps so many scalars of an element in registers.
MAX_COMPONENTS = 16


def replaced_elements(kernel: Kernel, arrays: Iterable[int]) -> Kernel:
    """Replace thread-private elements of these arrays by values, stored once; the kernel itself if impossible.

    The arrays have an element for each thread of the launch, which nobody touches before it; no threads are repeated.
    """
    definitions = definitions_of(kernel.body)
    elsewhere = touched_by_gradients(kernel)
    if kernel.block_dim or kernel.order:
        return kernel
    replaced = [p for p in arrays if p not in elsewhere and _is_replaceable(kernel, p, definitions)]
    if not replaced:
        return kernel
    names = {p: len(kernel.params) + len(kernel.locals) + k for k, p in enumerate(replaced)}
    shapes = {p: _components(kernel, p) for p in replaced}
    locals_ = [
        Local(kernel.params[p].name, ArrayType(kernel.params[p].dtype, len(shapes[p]) or 1), shapes[p] or (1,))
        for p in replaced
    ]

    def moved(node: Op) -> Op:
        if not _could_be_value(node) or node.array not in names:
            return node
        place = node.indices[kernel.tid_dims :] or (Const(int32, 0),)
        return dataclasses.replace(node, args=(*place, *node.values), attr=names[node.array])

    clears: list[Node] = [Op("clear", (), names[p], None, kernel.span) for p in replaced]
    nodes = [*clears, *map_ops(kernel.body, moved).nodes, *_stores(kernel, names, shapes)]
    changed = dataclasses.replace(kernel, body=make_block(nodes, kernel.body.yields), locals=(*kernel.locals, *locals_))
    taken_apart = local_values(changed, names.values())
    if taken_apart is changed:
        return kernel
    return simplify(dataclasses.replace(taken_apart, locals=kernel.locals))


def _stores(kernel: Kernel, names: dict[int, int], shapes: dict[int, tuple[int, ...]]) -> list[Node]:
    """The stores of each thread at its end."""
    builder = Builder()
    builder.span = kernel.span
    place = [Value(int32) for _ in range(kernel.tid_dims)]
    for axis, coordinate in enumerate(place):
        builder.append(Op("tid", (), axis, coordinate, kernel.span))
    for p, local in names.items():
        for component in itertools.product(*map(range, shapes[p])):
            at = tuple(Const(int32, k) for k in component)
            value = Value(kernel.params[p].dtype)
            builder.append(Op("load", at or (Const(int32, 0),), local, value, kernel.span))
            builder.effect("store", *place, *at, value, attr=p)
    return builder.nodes


def _components(kernel: Kernel, p: int) -> tuple[int, ...]:
    type = kernel.params[p].type
    assert isinstance(type, ArrayType)
    return type.components


def _is_replaceable(kernel: Kernel, p: int, definitions: Definitions) -> bool:
    """True if every access to the array is to the thread's own element, and scalar replacement pays."""
    type = kernel.params[p].type
    if not isinstance(type, ArrayType) or type.dims != kernel.tid_dims:
        return False
    size = 1
    for extent in type.components:
        size *= extent
    if size > MAX_COMPONENTS:
        return False
    stored = set[tuple[Operand, ...]]()
    only_stored, top = True, frozenset(kernel.body.nodes)
    for node in walk(kernel.body):
        if not isinstance(node, Op) or p not in (*arrays_read(node), *arrays_changed(node)):
            continue
        if not _could_be_value(node) or not _is_own(kernel, node, type, definitions):
            return False
        only_stored = only_stored and node.row.is_store
        if node in top:
            stored.add(node.indices[type.dims :])
    return not (only_stored and len(stored) == size)


def _could_be_value(node: Op) -> bool:
    """True if an access could use a value instead of an element: it reads, sets or adds to it."""
    return node.row.is_access and (not node.row.is_atomic or node.row.is_addition)


def _is_own(kernel: Kernel, node: Op, type: ArrayType, definitions: Definitions) -> bool:
    place, components = node.indices[: type.dims], node.indices[type.dims :]
    return all(shifted_of(index, definitions) == (axis, 0) for axis, index in enumerate(place)) and all(
        isinstance(c, Const) and 0 <= c.value < extent for c, extent in zip(components, type.components, strict=True)
    )
