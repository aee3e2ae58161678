"""The interpreter, which stops where a launch has no one result: at indices outside, and where threads meet."""

from __future__ import annotations

import linecache
import re
from typing import Any

import numpy as np

from jwarp.backend.interpreter.machine import _Interpreter
from jwarp.ir.nodes import Kernel, Node, Op

# Functions of tiles that look at the ends of arrays themselves, in Warp, too.
BOUNDED = re.compile(r"tile_(load|store|atomic_add)(_indexed)?\(")

NOBODY, SEVERAL = -1, -2


class Undefined(Exception):
    """The results of the launch depend on memory outside of its arrays, or on the order of its threads."""


def run_strictly(kernel: Kernel, dims: tuple[int, ...], args: list[Any]) -> None:
    """Run the launch, and raise Undefined where it has no one result.

    Of a kernel with tiles, `dims` count blocks; there only indices are looked at.
    """
    run = _Strict(kernel, dims, args, None)
    if kernel.block_dim:
        run.blocks()
    else:
        run.block(kernel.body, np.ones(run.threads, bool))


class _Strict(_Interpreter):
    """Remembers for each element which thread stored to it, read it, or changed it in one step."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.users = {kind: [np.full(np.shape(d), NOBODY) for d in self.data] for kind in ("load", "store", "atomic")}
        self.kind, self.bounded = "", False

    def node(self, node: Node, active: np.ndarray) -> None:
        if isinstance(node, Op):
            self.kind = node.name.split("_")[0]
            self.bounded = BOUNDED.search(linecache.getline(node.span.file, node.span.line)) is not None
        super().node(node, active)

    def element(self, array: int, indices: Any, active: np.ndarray) -> tuple[int, ...] | None:
        found = super().element(array, indices, active)
        if found is None and active and not self.bounded:
            raise Undefined("an index is outside of its array")
        return found

    def inside(self, param: int, indices: Any, active: np.ndarray) -> Any:
        there, element = super().inside(param, indices, active)
        if self.kind not in self.users:  # only asks whether an element is there
            return there, element
        if not self.bounded and not np.array_equal(there, np.broadcast_to(active, there.shape)):
            raise Undefined("an index is outside of its array")
        if self.kernel.block_dim:
            return there, element
        threads = np.flatnonzero(there)
        own = self.users[self.kind][param]
        if self.kind == "store" and np.unique(np.stack(element), axis=1).shape[1] != threads.size:
            raise Undefined("two threads store to one element")
        for kind, users in self.users.items():
            user = users[param][element]
            if kind == self.kind and kind != "store":
                continue
            if np.any((user != NOBODY) & (user != threads)):
                raise Undefined(f"one thread's {self.kind} meets another's {kind}")
        before = own[element]
        own[element] = np.where((before == NOBODY) | (before == threads), threads, SEVERAL)
        first = np.unique(np.stack(element), axis=1).shape[1] if element else 0
        if first != threads.size:  # NumPy kept the last of the threads that use one element
            np.maximum.at(own, element, threads)
            count = np.zeros(own.shape, int)
            np.add.at(count, element, 1)
            own[count > 1] = SEVERAL
        return there, element
