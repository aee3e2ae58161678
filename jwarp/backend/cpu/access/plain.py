"""Strategies of one instruction: one element for all lanes, consecutive elements, or any elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from jwarp.analysis.uniformity import UNIFORM
from jwarp.backend.cpu.access.addresses import Element
from jwarp.backend.cpu.access.descriptor import Access
from jwarp.backend.cpu.access.instructions import gather, load_one, load_vector, scatter, store_one, store_vector
from jwarp.backend.cpu.body import Body, Writer
from jwarp.backend.cpu.code import ENTRY, Lanes, scalar_type
from jwarp.ir.nodes import Op


def split_by_range(
    body: Body, access: Access, fast: Callable[[Element], list[str]], slow: Callable[[Element], list[str]]
) -> list[str]:
    """The `fast` path for consecutive elements inside of their array, and the `slow` path, lane by lane, for others."""
    [node] = access.nodes
    element = body.element(node, node.indices)
    if element.inside is None:
        return fast(element)
    general = body.element(node, node.indices, lane_by_lane=True)
    inside = dataclasses.replace(element, inside=None)
    types = [body.code.vector(scalar_type(access.type))] if access.kind == "load" else []
    return body.fast_or_slow(element.inside, lambda: fast(inside), lambda: slow(general), types)


def scalar_load(body: Body, access: Access) -> list[str]:
    """Load one element for all lanes."""
    [node] = access.nodes
    return [load_one(body.memory, body.element(node, node.indices))]


def vector_load(body: Body, access: Access) -> list[str]:
    """Load consecutive elements."""
    memory, mask = body.memory, body.mask
    return split_by_range(
        body, access, lambda e: [load_vector(memory, e, mask)], lambda e: [gather(memory, e, mask)]
    )  # fmt: skip


def gather_load(body: Body, access: Access) -> list[str]:
    """Load any elements."""
    [node] = access.nodes
    return [gather(body.memory, body.element(node, node.indices), body.mask)]


def gather_each(body: Body, access: Access) -> list[str]:
    """Load any elements, each number by itself: the slow path of strategies for several."""
    elements = (body.element(node, node.indices, lane_by_lane=True) for node in access.nodes)
    return [gather(body.memory, element, body.mask) for element in elements]


def scalar_store(body: Body, access: Access) -> list[str]:
    """Store what is the same in all lanes to one element."""
    [node] = access.nodes
    store_one(body.memory, body.element(node, node.indices), body.lanes(node.args[-1]).text)
    return []


def vector_store(body: Body, access: Access) -> list[str]:
    """Store to consecutive elements."""
    memory, mask, [value] = body.memory, body.mask, body.stored(access.nodes)

    def fast(element: Element) -> list[str]:
        store_vector(memory, element, value, mask)
        return []

    def slow(element: Element) -> list[str]:
        scatter(memory, element, value, mask)
        return []

    return split_by_range(body, access, fast, slow)


def scatter_store(body: Body, access: Access) -> list[str]:
    """Store to any elements."""
    [node], [value] = access.nodes, body.stored(access.nodes)
    scatter(body.memory, body.element(node, node.indices), value, body.mask)
    return []


def private_load(body: Body, access: Access) -> list[str]:
    """Load elements of thread-private arrays."""
    [node] = access.nodes
    return [body.private.load(body.element(node, node.indices, lane_by_lane=True), body.mask)]


def private_store(body: Body, access: Access) -> list[str]:
    """Store to elements of thread-private arrays."""
    [node] = access.nodes
    own = body.element(node, node.indices, lane_by_lane=True)
    [value] = body.stored(access.nodes)
    body.private.store(own, value, body.mask if own.shape.is_varying else body.private_mask)
    return []


def nontemporal_store(body: Body, access: Access) -> list[str]:
    """Store to consecutive elements by a non-temporal store, where that pays."""
    [value] = body.stored(access.nodes)

    def fast(element: Element) -> list[str]:
        body.nontemporal.store(element, value)
        return []

    def slow(element: Element) -> list[str]:
        scatter(body.memory, element, value, body.mask)
        return []

    return split_by_range(body, access, fast, slow)


def prefetch(body: Body, node: Op) -> None:
    """Fetch one element, or what the first of consecutive ones lies in, wherever it is."""
    first = [dataclasses.replace(body.lanes(x), shape=UNIFORM) for x in node.args]
    address = body.memory.address(body.memory.element(node.array, first, proven=True))
    body.code.declare("void", "llvm.prefetch.p0", ["ptr", "i32", "i32", "i32"])
    body.code.line(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 3, i32 1)")


def load_one_if(body: Body, access: Access, slow: Writer) -> list[str]:
    """Load one element for all lanes where the remainders among the indices are zero."""
    code, memory, known, holds = body.code, body.memory, body.zero_if, ""
    for condition in access.uniform_if:
        holds = code.define(f"and i1 {holds}, {condition}") if holds else condition

    def fast() -> list[str]:
        found = []
        for node in access.nodes:
            indices = [Lanes("0", i.type, UNIFORM, ENTRY) if i in known else body.lanes(i) for i in node.indices]
            element = memory.element(node.array, indices, node in body.trusted)
            found.append(code.splat(load_one(memory, element), scalar_type(element.type)))
        return found

    return body.fast_or_slow(holds, fast, slow, [code.vector(scalar_type(access.type))] * len(access.nodes))
