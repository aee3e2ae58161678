"""Finds the values that differ between threads, and the sums that threads add to one element together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from jwarp.ir.nodes import (
    Block,
    For,
    If,
    Kernel,
    Node,
    Op,
    Operand,
    Value,
    While,
    arrays_changed,
    arrays_read,
    blocks,
    used_values,
    walk_node,
    written_params,
)
from jwarp.types import ScalarType, float32, float64


def thread_values(kernel: Kernel) -> frozenset[Value]:
    """The values that depend on a thread's coordinates; others are the same while nothing changes what is loaded."""
    return _differing(kernel, lambda node: node.row.tells_threads or node.row.is_atomic)


def _uncertain_values(kernel: Kernel) -> frozenset[Value]:
    """The values that are not surely the same in all threads of a batch element, at the same turns of their loops."""
    changed = frozenset(written_params(kernel))

    def differs(node: Op) -> bool:
        if node.row.is_access:
            return node.array >= len(kernel.params) or node.array in changed
        return node.row.tells_threads or not node.row.is_pure

    return _differing(kernel, differs)


def _differing(kernel: Kernel, differs: Callable[[Op], bool]) -> frozenset[Value]:
    """The results of operations that `differ`, and what depends on them."""
    own: set[Value] = set()
    before = -1
    while before < len(own):  # until a trip around a loop finds no more
        before = len(own)
        _block(kernel.body, own, differs)
    return frozenset(own)


def _block(block: Block, own: set[Value], differs: Callable[[Op], bool]) -> None:
    def is_own(x: Operand) -> bool:
        return isinstance(x, Value) and x in own

    for node in block.nodes:
        for inner in blocks(node):
            _block(inner, own, differs)
        match node:
            case Op(result=result):
                if result is not None and (differs(node) or any(map(is_own, node.args))):
                    own.add(result)
            case If(cond=cond, results=results):
                for k, found in enumerate(results):
                    if is_own(cond) or is_own(node.then.yields[k]) or is_own(node.orelse.yields[k]):
                        own.add(found)
            case For() | While():
                parts = is_parting(node, own)
                if parts and isinstance(node, For):
                    own.add(node.index)
                for param, result, init, after in zip(
                    node.params, node.results, node.init, node.body.yields, strict=True
                ):
                    if parts or is_own(init) or is_own(after):
                        own |= {param, result}


def is_parting(node: If | For | While, own: Collection[Value]) -> bool:
    """Whether threads whose `own` values differ may go different ways at a node."""
    match node:
        case If(cond=cond):
            return cond in own
        case For(lo=lo, hi=hi):
            return lo in own or hi in own or node.lanes is not None
        case While():
            return any(x in own for x in node.cond.yields)


@dataclass(frozen=True, eq=False)
class CommonSums:
    """Additions to elements that no thread's coordinates say, of floats of one type, done where the last one stands.

    Threads that come there together may add to other elements each where one of the values `uncertain` differs.
    """

    nodes: tuple[Op, ...]
    type: ScalarType
    uncertain: tuple[Value, ...]


def common_sums(kernel: Kernel, apart: Callable[[Op], bool]) -> list[CommonSums]:
    """What adds to elements that threads have in common, in groups of at most `MOST`; not what is done `apart`.

    Kernels whose threads have an order, or work on tiles, have none.
    """
    return [] if kernel.order or kernel.block_dim else list(_Search(kernel, apart).block(kernel.body, steady=True))


# As many as a warp has threads, so that each has one sum in the end.
MOST = 32
_Key = tuple[ScalarType, tuple[Value, ...]]


class _Search:
    def __init__(self, kernel: Kernel, apart: Callable[[Op], bool]):
        self.kernel, self.apart = kernel, apart
        self.own, self.uncertain = thread_values(kernel), _uncertain_values(kernel)
        self.used = used_values(kernel.body)

    def block(self, block: Block, steady: bool) -> Iterator[CommonSums]:
        """Groups of a block, and of those in it; to a `steady` one all threads come, and take as many turns there."""
        found: dict[_Key, list[Op]] = {}
        for node in block.nodes:
            is_sum = isinstance(node, Op) and self.is_sum(node)
            key = self.key(node, steady) if isinstance(node, Op) and is_sum else None
            for other in [k for k, nodes in found.items() if k != key and not waits_through(nodes, node)]:
                yield CommonSums(tuple(found.pop(other)), *other)
            if key is not None and isinstance(node, Op):
                group = found.setdefault(key, [])
                group.append(node)
                if len(group) == MOST:
                    yield CommonSums(tuple(found.pop(key)), *key)
            if not isinstance(node, Op):
                for inner in blocks(node):
                    yield from self.block(inner, steady and not is_parting(node, self.uncertain))
        yield from (CommonSums(tuple(nodes), *key) for key, nodes in found.items())

    def is_sum(self, node: Op) -> bool:
        return (
            node.row.is_atomic
            and node.row.combines == "add"
            and node.array < len(self.kernel.params)
            and node.args[-1].type in (float32, float64)
            and node.result not in self.used
            and not self.own.intersection(node.indices)
            and not self.apart(node)
        )

    def key(self, node: Op, steady: bool) -> _Key:
        """What is the same for sums of one group."""
        indices = dict.fromkeys(i for i in node.indices if isinstance(i, Value))
        type = node.args[-1].type
        assert isinstance(type, ScalarType)
        return type, tuple(i for i in indices if not steady or i in self.uncertain)


def waits_through(sums: Sequence[Op], node: Node) -> bool:
    """Whether sums may be done after a node: it neither ends the thread nor touches their arrays."""
    arrays = {n.array for n in sums}
    return all(
        (n.row.is_pure or n.row.is_access or n.row.uses_tape)
        and arrays.isdisjoint((*arrays_read(n), *arrays_changed(n)))
        for n in walk_node(node)
        if isinstance(n, Op)
    )
