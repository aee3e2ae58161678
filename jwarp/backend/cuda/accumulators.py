"""Finds tiles that for a while only products are added to: their elements are in registers until that is over."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jwarp.backend.cuda.copies import Copies
from jwarp.backend.cuda.warpgroups import Split, Swizzle, products_for_groups, split_of, swizzles_of
from jwarp.ir.attributes import BlockMatmul
from jwarp.ir.matmul import Request
from jwarp.ir.nodes import Block, Const, For, Kernel, Node, Op, While, arrays_changed, arrays_read, blocks, walk_node
from jwarp.tiling.whole import request_of
from jwarp.types import bfloat16, float16, float32, float64

WARP = 32


@dataclass(frozen=True)
class Extents:
    """Of a product by one matrix instruction."""

    m: int
    n: int
    k: int


HALVES, TF32, DOUBLES = Extents(16, 8, 16), Extents(16, 8, 8), Extents(8, 8, 4)


def is_coarse(kernel: Kernel, node: Op, tf32: bool) -> bool:
    """True if a product is one of floats that may be rounded to 11 bits: with `tf32` all may."""
    attr = node.attr_as(BlockMatmul)
    return (tf32 or attr.transposes.tf32) and all(kernel.array(x).dtype is float32 for x in (attr.a, attr.b, attr.c))


def has_float_products(kernel: Kernel) -> bool:
    """True if a lowered kernel has products that may be coarse."""
    return any(is_coarse(kernel, n, True) for node in kernel.body.nodes for n in _products(node))


def instruction(kernel: Kernel, node: Op, tf32: bool) -> Extents | None:
    """The matrix instruction for a product: of types that there is one for, and extents that these cover."""
    attr = node.attr_as(BlockMatmul)
    a, b, c = (kernel.array(x).dtype for x in (attr.a, attr.b, attr.c))
    found = None
    if a is b and a in (float16, bfloat16) and c is not float64:
        found = HALVES
    elif a is b is float64:
        found = DOUBLES
    elif is_coarse(kernel, node, tf32):
        found = TF32
    if found is None or kernel.block_dim < WARP or attr.m % found.m or attr.n % found.n or attr.k % found.k:
        return None
    return found


@dataclass(frozen=True)
class Run:
    """Nodes of one block, in which nothing but `products` touches `array`; they differ in nothing but their depth.

    Its elements are loaded before node `first`, unless they begin as zeros, and stored after node `last`. The loop
    `fill` sets them to zero and is not needed. `inside` has those inside of others, too.
    """

    array: int
    products: tuple[Op, ...]
    first: Node
    last: Node
    inside: frozenset[Node]
    is_zero: bool
    fill: For | None
    by_matrices: bool
    registers: int
    split: Split | None = None  # where warpgroups make the products


@dataclass(frozen=True)
class Accumulators:
    """The runs of a lowered kernel, of which all products of float32 may be coarse with `tf32`.

    The tiles that warpgroups multiply are in patterns, of which `swizzles` tell.
    """

    runs: tuple[Run, ...] = ()
    tf32: bool = False
    swizzles: Mapping[int, Swizzle] = field(default_factory=dict)

    @property
    def by_groups(self) -> list[Op]:
        """The products that warpgroups make."""
        return [n for run in self.runs if run.split is not None for n in run.products]

    def starting(self, node: Node) -> list[Run]:
        return [run for run in self.runs if run.first is node]

    def ending(self, node: Node) -> list[Run]:
        return [run for run in self.runs if run.last is node]

    def of(self, node: Node) -> Run | None:
        """The run that a product belongs to."""
        return next((run for run in self.runs if any(n is node for n in run.products)), None)

    def is_left_out(self, node: Node) -> bool:
        """True if a node sets what begins as zeros in registers."""
        return any(run.fill is node for run in self.runs)


NO_ACCUMULATORS = Accumulators()


def find_accumulators(kernel: Kernel, tf32: bool = False, moved: Copies | None = None) -> Accumulators:
    """The runs that loop, or have several products, and whose sums fit into the registers of the threads.

    Of tiles that are `moved` in these ways, if they are given, warpgroups make the products that they can.
    """
    chosen, swizzles = frozenset[Op](), dict[int, Swizzle]()
    if moved is not None:
        chosen, swizzles = swizzles_of(kernel, moved, products_for_groups(kernel))
    while True:
        search = _Search(kernel, tf32, chosen)
        search.block(kernel.body)
        found = Accumulators(tuple(search.runs), tf32, swizzles)
        made = frozenset(found.by_groups)
        if moved is None or made == chosen:
            return found
        chosen, swizzles = swizzles_of(kernel, moved, made)


def _touches(node: Node, array: int) -> bool:
    return any(array in (*arrays_read(n), *arrays_changed(n)) for n in walk_node(node) if isinstance(n, Op))


def _products(node: Node) -> list[Op]:
    return [n for n in walk_node(node) if isinstance(n, Op) and n.row.is_product]


class _Search:
    def __init__(self, kernel: Kernel, tf32: bool, for_groups: frozenset[Op]):
        self.kernel, self.tf32, self.for_groups = kernel, tf32, for_groups
        self.runs: list[Run] = []

    def block(self, block: Block) -> None:
        """Find runs here, and then further in, of what has none."""
        for array in dict.fromkeys(n.attr_as(BlockMatmul).c for node in block.nodes for n in _products(node)):
            local = self.kernel.local(array)
            if local is not None and local.shared:
                self.along(block.nodes, array)
        for node in block.nodes:
            if _products(node):
                for inner in blocks(node):
                    self.block(inner)

    def along(self, nodes: Sequence[Node], array: int) -> None:
        start: int | None = None
        for k, node in enumerate(nodes):
            if not _touches(node, array):
                continue
            if start is not None and not self.goes_on(nodes[start], node, array):
                self.end(nodes, array, start, k)
                start = None
            if start is None and (self.only_adds(node, array) or self.sets(node, array)):
                start = k
        if start is not None:
            self.end(nodes, array, start, len(nodes))

    def only_adds(self, node: Node, array: int) -> bool:
        """True if a node touches the array by nothing but products that are added to it, all of one kind."""
        kinds = set()
        for n in walk_node(node):
            if isinstance(n, Op) and _touches(n, array):
                if not (self.is_target(n, array) and n.attr_as(BlockMatmul).accumulate):
                    return False
                kinds.add(self.kind(n))
        return len(kinds) == 1

    def sets(self, node: Node, array: int) -> bool:
        return isinstance(node, Op) and self.is_target(node, array) and not node.attr_as(BlockMatmul).accumulate

    def is_target(self, node: Op, array: int) -> bool:
        """True if a node is a product that changes the array, and does not multiply it."""
        if not node.row.is_product:
            return False
        attr = node.attr_as(BlockMatmul)
        return attr.c == array and array not in (attr.a, attr.b)

    def kind(self, node: Op) -> Request:
        return dataclasses.replace(request_of(self.kernel, node), k=1, accumulate=True)

    def goes_on(self, first: Node, node: Node, array: int) -> bool:
        if not self.only_adds(node, array):
            return False
        return self.kind(self.own(first, array)[0]) == self.kind(self.own(node, array)[0])

    def own(self, node: Node, array: int) -> list[Op]:
        return [n for n in _products(node) if n.attr_as(BlockMatmul).c == array]

    def end(self, nodes: Sequence[Node], array: int, start: int, end: int) -> None:
        """Keep the run of the nodes from `start` on, up to the last one before `end` that touches the array."""
        last = max(k for k in range(start, end) if _touches(nodes[k], array))
        members = nodes[start : last + 1]
        products = tuple(n for node in members for n in self.own(node, array))
        loops = any(isinstance(n, (For, While)) for node in members if _products(node) for n in walk_node(node))
        inside = frozenset(n for node in members for n in walk_node(node))
        others = [run for run in self.runs if run.inside & inside]
        if not (loops or len(products) > 1) or any(run.array == array for run in others):
            return
        units = [instruction(self.kernel, n, self.tf32) for n in products]
        unit = units[0] if None not in units else None
        room = room_of(self.kernel.block_dim) - sum(run.registers for run in others)
        split, registers = self.split(products, room), registers_of(self.kernel, products[0], unit)
        if split is not None:
            registers = _group_registers(products[0], split)
        if registers is None or registers > room:
            return
        fill = self.fill(nodes[:start], array)
        is_zero = fill is not None or self.sets(nodes[start], array)
        ends = nodes[start], nodes[last]
        self.runs.append(Run(array, products, *ends, inside, is_zero, fill, unit is not None, registers, split))

    def split(self, products: Sequence[Op], room: int) -> Split | None:
        """The warpgroups' shares of the products of a run, if they make them all."""
        found = split_of(self.kernel, products[0])
        if found is None or any(n not in self.for_groups for n in products):
            return None
        return found if _group_registers(products[0], found) <= room else None

    def fill(self, before: Iterable[Node], array: int) -> For | None:
        """The loop that sets all elements to zero, and does nothing else, if that is what last touches the array."""
        last = next((n for n in reversed(list(before)) if _touches(n, array)), None)
        if not isinstance(last, For) or last.lanes != () or len(last.body.nodes) != 1:
            return None
        (store,), local = last.body.nodes, self.kernel.local(array)
        assert local is not None
        whole = last.lo, last.hi, last.step
        if not (isinstance(store, Op) and store.row.is_store) or any(not isinstance(x, Const) for x in whole[:2]):
            return None
        is_all = [x.value if isinstance(x, Const) else x for x in whole] == [0, local.size, 1]
        index, value = store.args[0], store.args[-1]
        is_zero = isinstance(value, Const) and value.value == 0 and math.copysign(1, value.value) > 0
        return last if is_all and is_zero and index is last.index else None


def _group_registers(node: Op, split: Split) -> int:
    attr = node.attr_as(BlockMatmul)
    return split.registers(attr.m, attr.n)


# ---- what the device library does in tile_tensor.cuh and tile_gemm.cuh: whether a thread has registers for its sums


def room_of(block_dim: int) -> int:
    """The registers of 32 bits that a thread can have for sums."""
    return 128 if block_dim <= 256 else 64 if block_dim <= 512 else 24


def registers_of(kernel: Kernel, node: Op, unit: Extents | None) -> int | None:
    """The registers that a thread needs for the sums of a product; None if there are too many for the library."""
    attr = node.attr_as(BlockMatmul)
    size = max(4, request_of(kernel, node).accumulator.bits // 8)
    needs = [simt_registers(attr.m, attr.n, kernel.block_dim, size)]
    if unit is not None:
        by_matrices = tensor_registers(attr.m // unit.m, attr.n // unit.n, kernel.block_dim, unit.m // unit.n)
        # Not all GPUs have instructions for doubles.
        needs = [*needs, by_matrices] if unit is DOUBLES else [by_matrices]
    found = [n for n in needs if n is not None]
    return max(found) if len(found) == len(needs) else None


def simt_registers(m: int, n: int, threads: int, size: int) -> int | None:
    """Of a thread for sums of `size` bytes without matrix instructions."""
    columns = thread_columns(m, n, threads)
    rows = threads // columns
    room = (128 if threads <= 256 else 32 if threads <= 512 else 16) * 4 // size
    most = 8 if room >= 64 else 4 if room >= 16 else 2
    down, right = -(-m // rows), -(-n // columns)
    return down * right * size // 4 if down <= most and right <= room // most else None


def thread_columns(m: int, n: int, threads: int) -> int:
    best, cost, columns = 1, -(-m // threads) + n, 2
    while columns <= threads:
        found = -(-m // (threads // columns)) + -(-n // columns)
        if found <= cost:
            best, cost = columns, found
        columns *= 2
    return best


def tensor_registers(m: int, n: int, threads: int, ratio: int) -> int | None:
    """Of a thread for m x n matrix instructions, of which warps have whole ones, of four registers each."""
    best = (1, 1)
    for i in range(1, threads // WARP + 1):
        for j in range(1, threads // WARP // i + 1):
            if m % i or n % j or i * j < best[0] * best[1]:
                continue
            if i * j == best[0] * best[1] and ratio * (m // i) + n // j >= ratio * (m // best[0]) + n // best[1]:
                continue
            best = i, j
    own = m // best[0], n // best[1]
    most = 32 if threads <= 256 else 16 if threads <= 512 else 6
    return 4 * own[0] * own[1] if own[0] <= 8 and own[0] * own[1] <= most else None
