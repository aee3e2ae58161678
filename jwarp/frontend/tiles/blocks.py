"""From what a thread does to what a block does: scalars that differ between its threads become tiles.

A kernel with tiles is read as the code of one thread, which also works on the tiles of its block. Here the threads of
a block become lanes that run in step. Tile operations are made once for the block, and so are statements that are the
same for all lanes; but every lane makes an atomic operation, and prints its line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jwarp.errors import CompileError
from jwarp.frontend.tiles.divergent_branches import Masked
from jwarp.frontend.tiles.early_exits import last_branches, without_last_results
from jwarp.frontend.tiles.grid_rows import counted
from jwarp.frontend.tiles.lane_arrays import cleared_by_lanes, with_lanes
from jwarp.frontend.tiles.lanes import Lanes, LaneVariation, is_tile
from jwarp.frontend.tiles.strided_loops import in_step
from jwarp.ir.attributes import Attribute, Iota, Reduction
from jwarp.ir.nodes import Block, Const, If, Kernel, Node, Op, Operand, Value, results
from jwarp.ir.verify import MAX_BLOCK_DIM
from jwarp.types import ValueType, bool_, int32, tile_type


def by_blocks(
    kernel: Kernel,
    block_dim: int,
    lane_axis: int | None,
    count: int | None = None,
    over: tuple[int, ...] = (),
) -> Kernel:
    """The kernel as code of a block of `block_dim` threads, which lie along axis `lane_axis` of `wp.tid()`.

    With a `count`, there are so many threads along that axis, and the last block has fewer than others. With `over`,
    the threads of a launch over these dimensions are counted along the axis.
    """
    if not 1 <= block_dim <= MAX_BLOCK_DIM:
        raise CompileError(f"block_dim must be 1 to {MAX_BLOCK_DIM}, not {block_dim}", kernel.span)
    if over:
        kernel = counted(kernel, over)
    if lane_axis is not None and (lane_axis >= kernel.tid_dims or block_dim == 1):
        lane_axis = None  # of one thread the coordinate is the block's, and nothing differs
    kernel = dataclasses.replace(kernel, body=without_last_results(kernel.body))
    kernel = in_step(kernel, block_dim, lane_axis)
    variation = LaneVariation(kernel, lane_axis, block_dim)
    variation.find(kernel.body)
    if variation.arrays:
        kernel = cleared_by_lanes(kernel, variation.arrays)
        variation.last = last_branches(kernel)
        variation.find(kernel.body)
    blocks = _Blocks(kernel, block_dim, lane_axis, variation, count)
    body = blocks.block(kernel.body, ())
    before = blocks.started if blocks.uses_numbers else ()
    body = Block((*before, *body.nodes), body.yields)
    locals_ = with_lanes(kernel, variation.arrays, block_dim)
    gradients = tuple(blocks.gradients)
    return dataclasses.replace(kernel, body=body, block_dim=block_dim, locals=locals_, gradients=gradients)


class _Blocks(Lanes):
    """Rewrites the code of a thread."""

    def __init__(
        self, kernel: Kernel, block_dim: int, lane_axis: int | None, variation: LaneVariation, count: int | None
    ):
        super().__init__(kernel, block_dim, lane_axis, variation)
        self.masked = Masked(self)
        self.started = self.start(count)
        self.uses_numbers = bool(variation.arrays) or count is not None

    def block(self, block: Block, varying: Sequence[bool]) -> Block:
        before = self.active
        made = super().block(block, varying)
        self.active = before
        return made

    def without(self, node: If, stay: bool, out: list[Node]) -> None:
        """Append a branch that some lanes leave the block by: what they do, then what is done without them."""
        leaving, staying = (node.orelse, node.then) if stay else (node.then, node.orelse)
        if leaving.nodes:
            sides = Block(leaving.nodes), Block(())
            self.node(If(node.cond, *(sides[::-1] if stay else sides), (), node.span), out)
        span, cond = node.span, self.lane(node.cond, out, node.span)

        def add(name: str, *args: Operand, attr: Attribute | None = None, to: ValueType = cond.type) -> Value:
            made = Value(to)
            out.append(Op(name, args, attr, made, span))
            return made

        before = self.active
        left = cond if stay else add("not", cond)
        active = add("and", before, left) if before is not None else left
        assert isinstance(active, Value)
        self.active = active
        some = add("reduce", self.active, attr=Reduction("or", (0,)), to=bool_)
        rest = self.block(Block(staying.nodes), ())
        self.active = before
        out.append(If(some, rest, Block(()), (), span))

    def start(self, count: int | None) -> tuple[Node, ...]:
        """The nodes that number the lanes, and determine which lanes exist."""
        span, numbers = self.kernel.span, self.lanes[self.number]
        assert isinstance(numbers, Value)
        nodes: list[Node] = [Op("iota", (), Iota(self.shape, 0), numbers, span)]
        if count is None:
            return tuple(nodes)

        def add(name: str, *args: Operand, attr: Attribute | None = None, to: ValueType = int32) -> Value:
            made = Value(to)
            nodes.append(Op(name, args, attr, made, span))
            return made

        first: Operand = Const(int32, 0)
        if self.lane_axis is not None:
            first = add("mul", add("tid", attr=self.lane_axis), Const(int32, self.block_dim))
        left = add("sub", Const(int32, count), first)
        limit = add("fill", left, attr=self.shape, to=numbers.type)
        self.active = add("lt", numbers, limit, to=tile_type(bool_, self.shape))
        return tuple(nodes)

    def node(self, node: Node, out: list[Node]) -> None:
        stay = None if self.mapped else self.lane_variation.remaining(node)
        if stay is not None:
            assert isinstance(node, If)
            return self.without(node, stay, out)
        splits = self.variation.splits(node)
        if splits and not self.mapped and isinstance(node, If) and self.masked.needed(node):
            return self.masked.branch(node, out, self.active)
        if (self.mapped or splits) and not isinstance(node, Op) and any(map(is_tile, results(node))):
            raise self.changes(node)
        super().node(node, out)
        if splits and not self.mapped:
            self.for_active(out)
        return None
