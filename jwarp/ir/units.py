"""How many elements the arrays have that operations on whole arrays of a block work on."""

from __future__ import annotations

from collections.abc import Callable

from jwarp.ir.attributes import BlockCholesky, BlockMatmul, BlockScan, BlockSolve
from jwarp.ir.nodes import Op
from jwarp.ir.ops import SCANS


def unit_sizes(node: Op) -> tuple[int, ...]:
    """The sizes of the arrays that the operation changes, then of those that it reads.

    Raises:
        ValueError: it combines elements by something else than a running result can be made by.
    """
    return _SIZES[node.name](node)


def _matmul(node: Op) -> tuple[int, ...]:
    attr = node.attr_as(BlockMatmul)
    return attr.m * attr.n, attr.m * attr.k, attr.k * attr.n


def _scan(node: Op) -> tuple[int, ...]:
    attr = node.attr_as(BlockScan)
    if attr.scan.operation not in SCANS:
        raise ValueError(f"{attr.scan.operation!r} is none of {', '.join(SCANS)}")
    return attr.size, attr.size


def _cholesky(node: Op) -> tuple[int, ...]:
    return node.attr_as(BlockCholesky).n ** 2, node.attr_as(BlockCholesky).n ** 2


def _solve(node: Op) -> tuple[int, ...]:
    attr = node.attr_as(BlockSolve)
    return attr.n * attr.m, attr.n * attr.n


_SIZES: dict[str, Callable[[Op], tuple[int, ...]]] = {
    "tile_matmul": _matmul,
    "tile_scan": _scan,
    "tile_cholesky": _cholesky,
    "tile_solve": _solve,
}
