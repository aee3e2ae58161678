"""Runs several iterations of a loop at once, operation by operation, where all threads go over the same elements.

Quotients and roots of float32 that are rounded as IEEE 754 says have a branch for rare operands, behind which nothing
of the next iteration can begin. Those of several iterations have one together. Loop-carried values are made in the
order of the iterations, so that results have the same bits; and sums that threads have in common are summed up by warps
for several iterations in one go.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jwarp.analysis.common_sums import MOST, CommonSums, thread_values, waits_through
from jwarp.backend.cuda.common_sums import Line, Together
from jwarp.backend.cuda.rules import AT_ONCE, C_TYPES, CUDA_RULES, INVERSE_ROOTS, bare
from jwarp.backend.cuda.texts import cannot_overflow
from jwarp.errors import Span
from jwarp.ir.contents import Definitions
from jwarp.ir.nodes import Const, For, Kernel, Node, Op, Operand, Value, walk, written_params
from jwarp.passes.reciprocal_roots import inverse_root
from jwarp.types import float32

MOST_ITERATIONS = 8
# A body of more operations has enough to do between two branches, and would take too many registers.
LARGEST_BODY = 96


@dataclass(frozen=True, eq=False)
class Jam:
    """The number of iterations that run at once, and the nodes of the body that need no value of the one before."""

    iterations: int
    early: frozenset[Op]
    waiting_sums: frozenset[Op]  # sums that the iterations do together


def jams_of(kernel: Kernel, groups: Iterable[CommonSums]) -> dict[For, Jam]:
    """The loops of a kernel that gain by it; `groups` are the sums that are done together."""
    if kernel.block_dim or kernel.order:
        return {}
    own, written = thread_values(kernel), frozenset(written_params(kernel))
    sums = {node: group for group in groups for node in group.nodes}
    found = {n: _jam(n, own, written, len(kernel.params), sums) for n in walk(kernel.body) if isinstance(n, For)}
    return {loop: jam for loop, jam in found.items() if jam is not None}


def _jam(
    loop: For, own: frozenset[Value], written: frozenset[int], params: int, sums: dict[Op, CommonSums]
) -> Jam | None:  # fmt: skip
    body = [n for n in loop.body.nodes if isinstance(n, Op) and (n.name in CUDA_RULES or n.row.is_access)]
    # Code after a branch or a check may rely on it, and must not begin before.
    if len(body) != len(loop.body.nodes) or len(body) > LARGEST_BODY or not cannot_overflow(loop):
        return None
    if loop.lo in own or loop.hi in own or not _is_worth_it(loop):
        return None
    waiting, early = set(loop.params), set()
    for node in body:
        if waiting.isdisjoint(node.args) and (node.name in CUDA_RULES or _reads_constant(node, written, params)):
            early.add(node)
        elif node.result is not None:
            waiting.add(node.result)
    waiting_sums = [group for group in {sums[n]: None for n in body if n in sums} if _may_wait(group, loop, body)]
    reads_in_common = any(n.row.is_access and n in early and own.isdisjoint(n.args) for n in body)
    branches = any(n.name in AT_ONCE and _is_single(n) and n in early for n in body)
    if not (reads_in_common and branches) and not waiting_sums:
        return None
    iterations = MOST_ITERATIONS
    while iterations > 1 and any(len(group.nodes) * iterations > MOST for group in waiting_sums):
        iterations //= 2
    return (
        Jam(iterations, frozenset(early), frozenset(n for group in waiting_sums for n in group.nodes))
        if iterations > 1
        else None
    )


def _may_wait(group: CommonSums, loop: For, body: Sequence[Op]) -> bool:
    """True if sums may wait for later iterations: nothing reads them, and one look tells of all places."""
    made = {*loop.params, *(n.result for n in body)}
    return made.isdisjoint(group.uncertain) and all(waits_through(group.nodes, n) for n in body if n not in group.nodes)


def _is_worth_it(loop: For) -> bool:
    """True if there may be enough iterations."""
    if not isinstance(loop.lo, Const) or not isinstance(loop.hi, Const):
        return True
    return (loop.hi.value - loop.lo.value) // loop.step >= MOST_ITERATIONS


def _reads_constant(node: Op, written: frozenset[int], params: int) -> bool:
    return node.row.is_load and node.array < params and node.array not in written


def _is_single(node: Op) -> bool:
    return node.result is not None and node.result.type is float32


class Emitter(Protocol):
    """The emitter of one iteration's operations; `values` says what stands for each value."""

    definitions: Definitions
    trusted: Container[Node]
    values: dict[Value, str]
    together: Together
    lines: list[str]
    depth: int
    span: Span
    place_type: str

    def node(self, node: Node) -> None: ...
    def line(self, text: str) -> None: ...
    def name(self, value: Value | None = None) -> str: ...
    def text(self, x: Operand) -> str: ...
    def define(self, value: Value, text: str) -> None: ...
    def extent(self, array: int, axis: int) -> str: ...
    def hand_on(self, names: Sequence[str], yields: Sequence[Operand]) -> None: ...


def write_jammed(emitter: Emitter, node: For, jam: Jam, begin: str, index: str, names: list[str]) -> str:
    """The turns of a loop, as long as there are enough iterations: it `begin`s at its `index` and carries on `names`.

    Gives how the loop over what is left begins, of which the iterations are made one by one."""
    emitter.line(f"{begin};")
    hi, type, start = emitter.text(node.hi), C_TYPES[node.index.type], len(emitter.lines)
    high, low, sign = (hi, index, "<") if node.step > 0 else (index, hi, ">")
    wide = f"(jw_unsigned<{type}>)"  # in which the difference cannot overflow
    enough = f"{wide}{high} - {wide}{low} > {(jam.iterations - 1) * abs(node.step)}"
    emitter.line(f"for (; {index} {sign} {hi} && {enough}; {index} += {jam.iterations * node.step}) {{")
    emitter.depth += 1
    _turn(emitter, node, jam, index, names)
    emitter.depth -= 1
    emitter.line("}")
    emitter.lines[start:start] = ["  " * emitter.depth + text for text in emitter.together.before]
    emitter.together.before.clear()
    emitter.lines.append("#pragma unroll 1")
    return ""


def _turn(emitter: Emitter, node: For, jam: Jam, index: str, names: list[str]) -> None:
    """The iterations of one turn, of which the first has the `index`."""
    before = emitter.values
    copies = [dict(before) for _ in range(jam.iterations)]
    for k, values in enumerate(copies[1:], 1):
        emitter.values = values
        emitter.define(node.index, f"{index} + {k * node.step}" if node.step > 0 else f"{index} - {-k * node.step}")
    early = [n for n in node.body.nodes if n in jam.early]
    for each in early:
        if isinstance(each, Op) and each.name in AT_ONCE and _is_single(each):
            _at_once(emitter, each, copies)
            continue
        for values in copies:
            emitter.values = values
            emitter.node(each)
    for k, values in enumerate(copies):
        emitter.values = values
        emitter.together.keep = jam.waiting_sums if k < jam.iterations - 1 else frozenset()
        emitter.together.line_of = functools.partial(_line, emitter, node, copies[0], k * node.step)
        for inner in node.body.nodes:
            if inner not in jam.early:
                emitter.node(inner)
        if k < jam.iterations - 1:
            for param, given in zip(node.params, node.body.yields, strict=True):
                text = emitter.text(given)
                if not text.isidentifier():
                    name = emitter.name(param)
                    emitter.line(f"const {C_TYPES[param.type]} {name} = {bare(text)};")
                    text = name
                copies[k + 1][param] = text
    emitter.hand_on(names, node.body.yields)
    emitter.together.line_of = lambda sum: None
    emitter.values = before


def _line(emitter: Emitter, loop: For, first: dict[Value, str], distance: int, sum: Op) -> Line | None:
    """The stride of an addition's place along the loop, in the iteration at a distance from the `first` of a turn."""
    index, *rest = sum.indices
    if not isinstance(index, Value):
        return None
    made = emitter.definitions.get(index)
    source = made.args[0] if made is not None and made.row.transfer.converts else index
    if source is not loop.index or not all(isinstance(i, Const) for i in rest) or sum not in emitter.trusted:
        return None
    stride = " * ".join(emitter.extent(sum.array, axis) for axis in range(1, len(sum.indices))) or "1"
    within = "0"
    for axis, i in enumerate(rest, 1):
        within = f"({within}) * {emitter.extent(sum.array, axis)} + {emitter.text(i)}"
    kind = emitter.place_type
    return Line(
        f"({kind})({bare(first[index])})", f"({kind})({stride})", f"({kind})({distance} * ({stride}) + {within})"
    )


def _at_once(emitter: Emitter, node: Op, copies: list[dict[Value, str]]) -> None:
    """An operation of all iterations by one call."""
    emitter.span = node.span
    root = inverse_root(node, emitter.definitions)
    rule, args = (AT_ONCE[node.name], node.args) if root is None else (INVERSE_ROOTS, (root,))
    rows = []
    for x in args:
        texts = []
        for values in copies:
            emitter.values = values
            texts.append(bare(emitter.text(x)))
        rows.append(texts)
    name = emitter.name()
    emitter.line(f"const auto {name} = {rule(rows)};")
    assert node.result is not None
    for k, values in enumerate(copies):
        values[node.result] = f"{name}.at[{k}]"
