"""Blocks that a kernel repeats, as functions of their own: the code is written once, and called for the others."""

from __future__ import annotations

import dataclasses
from collections import ChainMap

from jwarp.analysis.repeats import Repeat, repeated_blocks
from jwarp.analysis.uniformity import UNIFORM, VARYING
from jwarp.backend.cpu.body import Body, Made
from jwarp.backend.cpu.code import BODY, ENTRY
from jwarp.backend.cpu.functions import called, passed, symbol, taken, type_of, written
from jwarp.ir.attributes import numbers_in
from jwarp.ir.nodes import Block, Op, Value, walk
from jwarp.ir.row_groups import Memory
from jwarp.types import bool_


def repeats_of(emitter: Body) -> dict[Block, Repeat]:
    """The blocks of a kernel that are functions; none in kernels of blocks of threads."""
    kernel = emitter.memory.kernel
    if kernel.block_dim:
        return {}

    shapes, count, trusted = emitter.shapes, len(kernel.params), emitter.trusted
    seen: dict[Op, object] = {}

    def of_value(value: Value) -> object:
        """True if it is the same in all lanes; None if it counts up with them."""
        shape = shapes.get(value, UNIFORM)
        return None if shape.stride else shape.is_uniform

    def known(node: Op) -> object:
        if node not in seen:
            seen[node] = looked_at(node)
        return seen[node]

    def looked_at(node: Op) -> object:
        row = node.row
        if (
            row.threads.differ
            or row.threads.is_divergence
            or row.derivative.only
            or row.uses_tape
            or row.uses_log
            or row.is_native
        ):
            return None
        if not (row.is_pure or row.is_access or row.is_outlined or row.uses.adds is Memory.LINES):
            return None
        values = node.args if node.result is None else (*node.args, node.result)
        if any(isinstance(x, Value) and x in shapes and shapes[x].stride for x in values):
            return None
        if row.attribute is not None and any(number >= count for number in _arrays_and_params(node)):
            return None
        return node in trusted, node.result is None

    calls = {node.result for node in walk(kernel.body) if isinstance(node, Op) and node.row.is_call}
    found = repeated_blocks(kernel, known, of_value)
    return {block: repeat for block, repeat in found.items() if calls.isdisjoint(repeat.given)}


def _arrays_and_params(node: Op) -> set[int]:
    if node.row.attribute is None:
        return set()
    return {number for role, number in numbers_in(node.attr, node.row.attribute) if role.what in ("array", "parameter")}


def call(emitter: Body, block: Block, repeat: Repeat) -> None:
    """Write a call for a block that is repeated."""
    functions, is_whole = emitter.functions, emitter.mask is None
    made = functions.of_blocks.get((repeat.number, is_whole))
    if made is None:
        made = functions.of_blocks[repeat.number, is_whole] = _made(emitter, repeat, is_whole)
    shapes = [UNIFORM if emitter.shape_of(x).is_uniform else VARYING for x in repeat.given]
    given = [passed(emitter, x, shape) for x, shape in zip(repeat.given, shapes, strict=True)]
    text = called(emitter, made, given)
    for k, result in enumerate(repeat.results):
        part = emitter.code.define(f"extractvalue {made.type} {text}, {k}")
        emitter.bind(result, taken(emitter, part, result.type, emitter.shapes[result]))
        base = made.bases[k]
        emitter.note_unchanged(result, None if base is None else repeat.given[base], emitter.mask)
    if block is not repeat.first:
        for node, own in zip(walk(repeat.first), walk(block), strict=True):
            if node in emitter.ways:
                emitter.ways.setdefault(own, {}).update(emitter.ways[node])


def _made(caller: Body, repeat: Repeat, is_whole: bool) -> Made:
    """Write the function of a block, for vectors with all lanes active if it `is_whole`."""
    kernel = dataclasses.replace(caller.proofs.kernel, locals=(), body=repeat.first)
    emitter = caller.functions.begin(caller, kernel)
    shapes = {x: UNIFORM if caller.shapes.get(x, UNIFORM).is_uniform else VARYING for x in repeat.params}
    emitter.shapes = ChainMap(shapes, caller.shapes)  # type: ignore[arg-type]
    emitter.sums, emitter.serialised = caller.sums, frozenset()
    if repeat.first is not repeat.model:
        copies = zip(walk(repeat.first), walk(repeat.model), strict=True)
        emitter.trusted = {node for node, of in copies if of in caller.trusted}
    code, params = emitter.code, []
    code.label("body")
    for k, (param, shape) in enumerate(shapes.items()):
        params.append(f"{type_of(emitter, param.type, shape)} %a{k}")
        emitter.bind(param, taken(emitter, f"%a{k}", param.type, shape), shape, ENTRY if shape.is_uniform else BODY)
    if not is_whole:
        emitter.mask = taken(emitter, "%lanes", bool_, VARYING)
        params.append(f"{code.vector('i8')} %lanes")
    pointers = (*(f"%p{number}" for number in sorted(_used(caller, repeat.first))), "%symbols")
    apart = "" if any(param.is_heap for param in kernel.params) else "noalias "
    params += (f"ptr {apart}{pointer}" for pointer in pointers)
    emitter.nodes(repeat.first.nodes)
    name = f"{symbol(kernel.name)}.block.{repeat.number}{'.whole' if is_whole else ''}"
    type = written(emitter, name, params, repeat.made)
    places = {param: k for k, param in enumerate(repeat.params)}
    bases = tuple(
        next((places[x] for x in emitter.bases(r, emitter.mask) if isinstance(x, Value) and x in places), None)
        for r in repeat.made
    )
    return Made(f"@{symbol(name)}", type, not is_whole, pointers, bases)


def _used(caller: Body, block: Block) -> set[int]:
    """The parameters that a block, or what it calls, uses."""
    found: set[int] = set()
    for node in walk(block):
        if isinstance(node, Op):
            found |= caller.functions.arrays[node.number] if node.row.is_call else _arrays_and_params(node)
    return found
