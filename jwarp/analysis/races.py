"""Finds plain stores of two threads to one element, where the coordinates and extents alone decide that."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from jwarp.errors import Span
from jwarp.ir.attributes import Extent
from jwarp.ir.evaluate import as_array, evaluate
from jwarp.ir.nodes import Block, Const, If, Kernel, Op, Operand, Value
from jwarp.types import ArrayType
from jwarp.types.arrays import Extents

# So many threads of a launch are looked at, those with the smallest coordinates.
MAX_THREADS = 1 << 14


@dataclass(frozen=True)
class Race:
    """Two threads that both store to `element` of parameter `param`."""

    param: int
    element: tuple[int, ...]
    threads: tuple[tuple[int, ...], tuple[int, ...]]
    span: Span


def find_race(
    kernel: Kernel, dims: tuple[int, ...], extents: Extents, arrays: Container[int], repeated: bool
) -> Race | None:
    """A race at one of `arrays` in a launch over `dims` that is certain, or None.

    With `repeated`, each thread runs twice.
    """
    if 0 in dims:
        return None
    search = _Search(kernel, _clipped((*dims[: kernel.tid_dims], *((2,) if repeated else ()))), extents, arrays)
    search.block(kernel.body, np.ones(search.count, bool))
    return search.race


def _clipped(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Dims with the longest ones cut until there are few enough threads."""
    cut = list(dims)
    while math.prod(cut) > MAX_THREADS:
        longest = cut.index(max(cut))
        others = math.prod(cut) // cut[longest]
        cut[longest] = max(2, min(cut[longest] // 2, MAX_THREADS // others if others < MAX_THREADS else 2))
    return tuple(cut)


class _Search:
    """Runs what is known of all threads at once; `values` lacks what depends on anything else."""

    def __init__(self, kernel: Kernel, dims: tuple[int, ...], extents: Extents, arrays: Container[int]):
        self.kernel, self.dims, self.extents, self.arrays = kernel, dims, extents, arrays
        self.count = math.prod(dims)
        self.coordinates = np.unravel_index(np.arange(self.count), dims)
        self.values: dict[Value, np.ndarray] = {}
        self.owners: dict[int, np.ndarray] = {}  # by array: the thread that stored to each element, or -1
        self.race: Race | None = None

    def value(self, x: Operand) -> np.ndarray | None:
        return as_array(x) if isinstance(x, Const) else self.values.get(x)

    def block(self, block: Block, active: np.ndarray | None) -> None:
        for node in block.nodes:
            if isinstance(node, Op):
                self.op(node, active)
            elif isinstance(node, If):
                self.branch(node, active)

    def branch(self, node: If, active: np.ndarray | None) -> None:
        cond = self.value(node.cond)
        for block, side in ((node.then, cond), (node.orelse, None if cond is None else ~cond)):
            self.block(block, None if active is None or side is None else active & side)
        if cond is None:
            return
        for result, x, y in zip(node.results, node.then.yields, node.orelse.yields, strict=True):
            then, orelse = self.value(x), self.value(y)
            if then is not None and orelse is not None:
                self.values[result] = np.where(cond, then, orelse)

    def op(self, node: Op, active: np.ndarray | None) -> None:
        if node.row.is_store:
            if active is not None and node.array in self.arrays:
                self.store(node, active)
        elif node.result is None:
            return
        elif node.row.is_coordinate:
            self.values[node.result] = self.coordinates[node.array].astype(np.int32)
        elif node.row.is_extent:
            extent = node.attr_as(Extent)
            shape = self.extents[extent.array]
            assert shape is not None
            self.values[node.result] = np.array(shape[extent.axis], np.int32)
        elif node.row.is_pure and node.args:
            args = [self.value(x) for x in node.args]
            if not any(x is None for x in args):
                with np.errstate(all="ignore"):
                    self.values[node.result] = evaluate(node.name, tuple(args), node.result.type)

    def store(self, node: Op, active: np.ndarray) -> None:
        indices = [self.value(x) for x in node.args[:-1]]
        shape = self.extents[node.array]
        param = self.kernel.params[node.array]
        if any(x is None for x in indices) or shape is None or not shape or not isinstance(param.type, ArrayType):
            return
        inside, wrapped = active, []
        for index, extent in zip(indices, shape, strict=True):
            assert index is not None
            index = np.broadcast_to(index.astype(np.int64), active.shape)
            index = np.where(index < 0, index + extent, index)
            inside = inside & (index >= 0) & (index < extent)
            wrapped.append(index)
        threads = np.flatnonzero(inside)
        if not threads.size:
            return
        elements = np.ravel_multi_index([w[threads] for w in wrapped], shape)
        self.claim(node, elements, threads, shape)

    def claim(self, node: Op, elements: np.ndarray, threads: np.ndarray, shape: tuple[int, ...]) -> None:
        """Note who stores where; one who was there before, or comes twice, makes a race."""
        known = self.owners.get(node.array)
        pairs = np.stack([elements, threads], 1)
        both = pairs if known is None else np.concatenate([known, pairs])
        both = np.unique(both, axis=0)
        self.owners[node.array] = both
        repeated = np.flatnonzero(both[1:, 0] == both[:-1, 0])
        if repeated.size and self.race is None:
            k = int(repeated[0])
            element = tuple(int(x) for x in np.unravel_index(int(both[k, 0]), shape))
            first, second = (self.thread(int(both[k + side, 1])) for side in (0, 1))
            self.race = Race(node.array, element, (first, second), node.span)

    def thread(self, number: int) -> tuple[int, ...]:
        return tuple(int(c[number]) for c in self.coordinates)
