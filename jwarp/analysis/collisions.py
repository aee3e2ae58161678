"""Finds plain stores that may meet those of other threads at one element, and what tells whose value stays."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from jwarp.analysis.ownership import ThreadIndices, accesses, owned_arrays
from jwarp.ir.nodes import Kernel, Op, Value, touched_by_gradients, used_values, walk

NOWHERE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Collisions:
    """The array parameters of floats with plain stores that are not proved to be the only ones at their elements.

    Of those `told`, the content at the end of the launch tells whose value stayed: the kernel does nothing but store
    to them. Of those `untold` it does not: what a thread stores there may depend on what others did before.
    """

    told: frozenset[int] = NOWHERE
    untold: frozenset[int] = NOWHERE

    def __bool__(self) -> bool:
        return bool(self.told or self.untold)


def collisions(kernel: Kernel, *, repeated: bool = False, alone: bool = False) -> Collisions:
    """What threads of `kernel` may both store to; with `repeated`, several have the same coordinates.

    A thread that is `alone` meets nobody.
    """
    if alone:
        return Collisions()
    owned = NOWHERE if repeated else owned_arrays(kernel)
    indices, used = ThreadIndices(kernel), used_values(kernel.body)
    found, others = set[int](), set(touched_by_gradients(kernel))
    for node in accesses(walk(kernel.body)):
        is_float_param = kernel.local(node.array) is None and kernel.array(node.array).dtype.is_float
        if not is_float_param:
            continue
        if not is_plain_store(node, used):
            others.add(node.array)
        elif node.array not in owned or not indices.differ(node.indices):
            found.add(node.array)
    if replays(kernel):
        # What stands for a value in a derivative may have other bits.
        others |= found
    return Collisions(frozenset(found - others), frozenset(found & others))


def is_plain_store(node: Op, used: Container[Value | None]) -> bool:
    """Whether an access overwrites an element, whatever was there: an exchange does whose result nothing reads."""
    return node.name == "store" or (node.name == "atomic_exch" and node.result not in used)


def replays(kernel: Kernel) -> bool:
    """Whether a derivative computes some value of the kernel in another way than the kernel."""
    return any(isinstance(n, Op) and n.name == "replayed" for n in walk(kernel.body))


__all__ = ["Collisions", "collisions", "is_plain_store"]
