"""Finds products that warpgroups can make, four warps each, and the tiles that have to lie as these read them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from jwarp.backend.cuda.copies import Copies
from jwarp.backend.cuda.rules import C_TYPES
from jwarp.ir.attributes import BlockMatmul
from jwarp.ir.nodes import Kernel, Node, Op, arrays_changed, arrays_read, walk
from jwarp.types import ScalarType, bfloat16, float16, float64

WARPGROUP = 128
# The architecture that has them, and the one that it is a form of.
SM_90A, SM_90 = "sm_90a", "sm_90"
ALIGNMENT = 1024  # of tiles, in whose addresses their patterns are
# Of one instruction; factors whose columns are cut between warpgroups are cut where a pattern ends.
ROWS, MOST_COLUMNS, DEPTH, PATTERN = 64, 256, 16, 64
HALVES: dict[ScalarType, str] = {float16: "f16", bfloat16: "bf16"}


@dataclass(frozen=True)
class Swizzle:
    """A tile whose rows lie in a pattern."""

    rows: int
    columns: int


@dataclass(frozen=True)
class Split:
    """The numbers of warpgroups along the rows and along the columns of a product."""

    down: int
    right: int

    def registers(self, m: int, n: int) -> int:
        """Of a thread, for its sums."""
        return m // ROWS // self.down * (n // self.right) // 2


def split_of(kernel: Kernel, node: Op) -> Split | None:
    """The shares of a product for all warpgroups of a block; None if it is none for them.

    Factors are better cut along rows.
    """
    attr, groups = node.attr_as(BlockMatmul), kernel.block_dim // WARPGROUP
    a, b, c = (kernel.array(x).dtype for x in (attr.a, attr.b, attr.c))
    if a is not b or a not in HALVES or c is float64 or kernel.block_dim % WARPGROUP or attr.k % DEPTH or attr.n % 8:
        return None
    if attr.m % ROWS:
        return None
    found = (Split(groups // right, right) for right in range(1, groups + 1) if groups % right == 0)
    return next((s for s in found if attr.m // ROWS % s.down == 0 and _is_cut(attr, s.right)), None)


def _is_cut(attr: BlockMatmul, right: int) -> bool:
    """True if so many parts have columns that an instruction makes."""
    columns, rest = divmod(attr.n, right)
    along = right == 1 or attr.transposes.b or columns % PATTERN == 0
    return rest == 0 and columns % 8 == 0 and columns <= MOST_COLUMNS and along


def products_for_groups(kernel: Kernel) -> frozenset[Op]:
    """The ids of the products of a lowered kernel that warpgroups could make."""
    return frozenset(n for n in _products(kernel) if split_of(kernel, n) is not None)


def swizzles_of(kernel: Kernel, copies: Copies, chosen: Container[Node]) -> tuple[frozenset[Op], dict[int, Swizzle]]:
    """Of the chosen products those all of whose factors can lie in patterns, and how these lie.

    A tile does that nothing uses but these products, accesses to its elements, and copies of whole rows.
    """
    found: dict[int, Swizzle] = {}
    excluded: set[object] = set()
    for node in walk(kernel.body):
        if not isinstance(node, Op) or not node.row.code.is_unit:
            continue
        if node not in chosen:
            excluded |= {*arrays_read(node), *arrays_changed(node)}
            continue
        attr = node.attr_as(BlockMatmul)
        excluded.add(attr.c)
        for array, swizzle in _factors(attr):
            if found.setdefault(array, swizzle) != swizzle or not _is_shared(kernel, array):
                excluded.add(array)
    for copy in (c for some in copies.of.values() for c in some):
        own = found.get(copy.target)
        if own is not None and copy.columns != own.columns and (copy.rows > 1 or copy.columns % own.columns):
            excluded.add(copy.target)
    excluded |= {a.source for some in copies.additions.values() for a in some}
    kept = frozenset(
        n for n in _products(kernel) if n in chosen and not excluded & {x for x, _ in _factors(n.attr_as(BlockMatmul))}
    )
    used = {x for n in _products(kernel) if n in kept for x, _ in _factors(n.attr_as(BlockMatmul))}
    return kept, {x: swizzle for x, swizzle in found.items() if x in used}


def _products(kernel: Kernel) -> Iterator[Op]:
    return (n for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_product)


def _factors(attr: BlockMatmul) -> Iterator[tuple[int, Swizzle]]:
    """The arrays of both, with their rows and columns."""
    first = (attr.k, attr.m) if attr.transposes.a else (attr.m, attr.k)
    second = (attr.n, attr.k) if attr.transposes.b else (attr.k, attr.n)
    yield attr.a, Swizzle(*first)
    yield attr.b, Swizzle(*second)


def _is_shared(kernel: Kernel, array: int) -> bool:
    local = kernel.local(array)
    return local is not None and local.shared


def instructions(kernel: Kernel, products: Iterable[Op]) -> list[str]:
    """The functions for the extents that some products have: CUDA C++ has no words for so many registers."""
    made: dict[tuple[str, str, int, bool, bool], None] = {}
    for node in products:
        attr, split = node.attr_as(BlockMatmul), split_of(kernel, node)
        assert split is not None
        dtype = kernel.array(attr.a).dtype
        made[C_TYPES[dtype], HALVES[dtype], attr.n // split.right, attr.transposes.a, not attr.transposes.b] = None
    return [line for parameters in made for line in _instruction(*parameters)]


def _instruction(type: str, name: str, n: int, turn_a: bool, turn_b: bool) -> list[str]:
    """Without a predicate that is false it adds to the sums; factors are not negated."""
    count = n // 2
    sums = ", ".join(f"%{k}" for k in range(count))
    turns = f"{str(turn_a).lower()}, {str(turn_b).lower()}"
    return [
        f"template <> JW_INLINE void jw::ptx::multiply_group<{type}, {n}, {turns}>(",
        f"    float (&c)[{count}], unsigned long long a, unsigned long long b) {{",
        '  asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0; "',
        f'    "wgmma.mma_async.sync.aligned.m{ROWS}n{n}k{DEPTH}.f32.{name}.{name} "',
        f'    "{{{sums}}}, %{count}, %{count + 1}, p, 1, 1, {int(turn_a)}, {int(turn_b)}; }}"',
        f'    : {", ".join(f"{chr(34)}+f{chr(34)}(c[{k}])" for k in range(count))} : "l"(a), "l"(b) : "memory");',
        "}",
    ]
