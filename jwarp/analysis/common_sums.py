"""The additions that threads make to one element together, and the values that differ between threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jwarp.analysis.uniformity import VARYING, Shape, Uniformity
from jwarp.ir.nodes import (
    Block,
    For,
    Kernel,
    Node,
    Op,
    Value,
    arrays_changed,
    arrays_read,
    blocks,
    overlaps_of,
    used_values,
    walk_node,
    written_params,
)
from jwarp.types import ScalarType, float32, float64


class _Threads(Uniformity):
    """The scope of the threads of a launch, which may be at any iteration of a loop; `differs` says what tells them."""

    def __init__(self, differs: Callable[[Op], bool]):
        super().__init__()
        self.differs = differs

    def result(self, node: Op) -> Shape:
        return VARYING if self.differs(node) else super().result(node)

    def splits(self, node: Node) -> bool:
        return super().splits(node) or (isinstance(node, For) and node.lanes is not None)


def thread_values(kernel: Kernel) -> frozenset[Value]:
    """The values that depend on a thread's coordinates; others are the same while nothing changes what is loaded."""
    threads = _Threads(lambda node: node.row.threads.differ or node.row.is_atomic)
    threads.block(kernel.body)
    return threads.divergent


def _certain_uniformity(kernel: Kernel) -> Uniformity:
    """The values that are surely the same in all threads of a batch element, at the same iterations of their loops."""
    changed = frozenset(overlaps_of(kernel)(written_params(kernel)))

    def differs(node: Op) -> bool:
        if node.row.is_access:
            return node.array >= len(kernel.params) or node.array in changed
        return node.row.threads.differ or not node.row.is_pure

    threads = _Threads(differs)
    threads.block(kernel.body)
    return threads


@dataclass(frozen=True, eq=False)
class CommonSums:
    """Additions to elements that no thread's coordinates say, of floats of one type, done where the last one stands.

    Threads that come there together may add to other elements each where one of the values `uncertain` differs.
    """

    nodes: tuple[Op, ...]
    type: ScalarType
    uncertain: tuple[Value, ...]


def common_sums(kernel: Kernel, apart: Callable[[Op], bool]) -> list[CommonSums]:
    """The additions to elements that threads have in common, in groups of at most `MOST`, without those done `apart`.

    Kernels whose threads have an order, or work on tiles, have none.
    """
    return [] if kernel.order or kernel.block_dim else list(_Search(kernel, apart).block(kernel.body, steady=True))


# As many as a warp has threads, so that each has one sum in the end.
MOST = 32
_Key = tuple[ScalarType, tuple[Value, ...]]


class _Search:
    def __init__(self, kernel: Kernel, apart: Callable[[Op], bool]):
        self.kernel, self.apart = kernel, apart
        self.own, self.certain = thread_values(kernel), _certain_uniformity(kernel)
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
                    yield from self.block(inner, steady and not self.certain.splits(node))
        yield from (CommonSums(tuple(nodes), *key) for key, nodes in found.items())

    def is_sum(self, node: Op) -> bool:
        return (
            node.row.is_addition
            and node.array < len(self.kernel.params)
            and node.args[-1].type in (float32, float64)
            and node.result not in self.used
            and not self.own.intersection(node.indices)
            and not self.apart(node)
        )

    def key(self, node: Op, steady: bool) -> _Key:
        """The key of a group of sums."""
        indices = dict.fromkeys(i for i in node.indices if isinstance(i, Value))
        type = node.args[-1].type
        assert isinstance(type, ScalarType)
        return type, tuple(i for i in indices if not steady or self.certain.of(i))


def waits_through(sums: Sequence[Op], node: Node) -> bool:
    """True if sums may be moved after a node: it neither ends the thread nor touches their arrays."""
    arrays = {n.array for n in sums}
    return all(
        (n.row.is_pure or n.row.is_access or n.row.uses_tape)
        and arrays.isdisjoint((*arrays_read(n), *arrays_changed(n)))
        for n in walk_node(node)
        if isinstance(n, Op)
    )
