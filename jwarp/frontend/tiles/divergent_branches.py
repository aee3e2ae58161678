"""Branches that the threads of a block take apart, and in which they read and change elements of tiles.

A tile is changed by the whole block. So such a branch is cut at these places: what lies between them stays under the
condition, and a change is made by all lanes, at an index outside of the tile where the condition does not hold. The
threads that take the first branch run before those that take the second one.
"""

from __future__ import annotations

import contextlib
import dataclasses

from jwarp.errors import CompileError
from jwarp.frontend.tiles.lanes import Lanes
from jwarp.frontend.values.cells import COMBINING
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Block, Const, For, If, Node, Op, Operand, Value, results, walk, walk_node
from jwarp.ir.ops import OPS
from jwarp.types import TileType, int32, tile_type

# Operations on single elements of tiles, and those of them that change elements.
_ELEMENTS = tuple(name for name, row in OPS.items() if row.is_tile and row.indices is not None)
_PUTS = tuple(name for name in _ELEMENTS if OPS[name].changes_tile)


def _holds(node: Node, names: tuple[str, ...]) -> bool:
    return any(isinstance(n, Op) and n.name in names for n in walk_node(node))


def _base(block: Block, position: int) -> Operand:
    """The tile from before a block that its yield `position` has other elements of, if its nodes only put some."""
    made = {result: node for node in block.nodes for result in results(node)}
    tile = block.yields[position]
    while isinstance(tile, Value) and tile in made:
        match made[tile]:
            case Op(name=name, args=args) if name in _PUTS:
                tile = args[0]
            case For(results=found, init=init):
                tile = init[found.index(tile)]
            case If(results=found, then=then):
                tile = _base(then, found.index(tile))
            case _:
                break
    return tile


def _rebased(block: Block, position: int, old: Const, new: Value) -> Block:
    """The block with another tile where that yield comes from the constant tile `old`."""
    nodes, tile = list(block.nodes), block.yields[position]
    if tile == old:
        return Block(block.nodes, (*block.yields[:position], new, *block.yields[position + 1 :]))
    while isinstance(tile, Value):
        place = next((k for k, node in enumerate(nodes) if tile in results(node)), None)
        node = None if place is None else nodes[place]
        match node:
            case Op(name=name, args=args) if name in _PUTS and args[0] == old:
                made: Node = dataclasses.replace(node, args=(new, *args[1:]))
            case Op(name=name, args=args) if name in _PUTS:
                tile = args[0]
                continue
            case For(results=found, init=init) if init[found.index(tile)] == old:
                k = found.index(tile)
                made = dataclasses.replace(node, init=(*init[:k], new, *init[k + 1 :]))
            case For(results=found, init=init):
                tile = init[found.index(tile)]
                continue
            case If(results=found, then=then, orelse=orelse):
                k = found.index(tile)
                tile = _base(then, k)
                if tile != old:
                    continue
                sides = (_rebased(then, k, old, new), _rebased(orelse, k, old, new))
                made = dataclasses.replace(node, then=sides[0], orelse=sides[1])
            case _:
                break
        assert place is not None
        nodes[place] = made
        break
    return Block(tuple(nodes), block.yields)


class Masked:
    """Rewrites such branches, for a rewriting for lifter."""

    def __init__(self, lifter: Lanes):
        self.lifter = lifter
        self.made: dict[Value, Node] = {}  # what the tiles inside the branch at hand come from

    def needed(self, node: If) -> bool:
        """True if a branch cannot just be mapped over the lanes."""
        if _holds(node, _PUTS):
            return True
        if not _holds(node, ("take",)):
            return False
        lifter = self.lifter
        before, lifter.is_unplaced = (dict(lifter.lanes), dict(lifter.replaced)), False
        with contextlib.suppress(CompileError):  # what else is wrong is said later
            lifter.branch(node, [])
        lifter.lanes, lifter.replaced = before
        lifter.before, lifter.control, lifter.fills = None, None, {}
        return lifter.is_unplaced

    def branch(self, node: If, out: list[Node], mask: Operand | None) -> None:
        """Append a branch, for the lanes of `mask`."""
        lifter, outer = self.lifter, self.lifter.control
        lifter.control = outer or node.span
        tiles = [k for k, result in enumerate(node.results) if isinstance(result.type, TileType)]
        for k in tiles:
            node = self.with_base(node, k, out)
        self.made = {v: n for block in (node.then, node.orelse) for n in walk(block) for v in results(n)}
        cond = lifter.lane(node.cond, out, node.span)
        masks = [
            self.op("and", (mask, x), out, node) if mask else x for x in (cond, self.op("not", (cond,), out, node))
        ]
        roots = [self.root(node, k) for k in tiles]
        if any(root is None for root in roots) or len(set(roots)) < len(roots):
            raise lifter.changes(node)
        then = self.block(node.then, out, masks[0])
        known = dict(lifter.replaced)
        # The other lanes go on with what these have changed.
        lifter.replaced |= {root: then[k] for root, k in zip(roots, tiles, strict=True) if isinstance(root, Value)}
        orelse = self.block(node.orelse, out, masks[1])
        lifter.replaced = known
        for k, result in enumerate(node.results):
            if k in tiles:
                lifter.replaced[result] = orelse[k]
            else:
                lifter.lanes[result] = self.op("select", (cond, then[k], orelse[k]), out, node)
        lifter.control = outer

    def with_base(self, node: If, position: int, out: list[Node]) -> If:
        """The branch whose result `position`, if it has other elements than a constant tile, has those of a value."""
        kind = node.results[position].type
        assert isinstance(kind, TileType)
        for found in (_base(block, position) for block in (node.then, node.orelse)):
            if isinstance(found, Const):
                base = Value(kind)
                out.append(Op("fill", (Const(kind.scalar, found.value),), kind.shape, base, node.span))
                then, orelse = (_rebased(block, position, found, base) for block in (node.then, node.orelse))
                return dataclasses.replace(node, then=then, orelse=orelse)
        return node

    def root(self, node: If, position: int) -> Operand | None:
        """The tile that both sides of a branch change elements of; None if they do anything else."""
        sides = {self.source(block.yields[position]) for block in (node.then, node.orelse)}
        return sides.pop() if len(sides) == 1 else None

    def source(self, tile: Operand) -> Operand | None:
        """The tile from before the branch at hand of which `tile` has other elements."""
        while isinstance(tile, Value) and (node := self.made.get(tile)) is not None:
            match node:
                case Op() if node.name in _PUTS:
                    tile = node.args[0]
                case If():
                    found = self.root(node, node.results.index(tile))
                    if found is None:
                        return None
                    tile = found
                case For():
                    tile = node.init[node.results.index(tile)]
                case _:
                    return None
        return tile

    def op(self, name: str, args: tuple[Operand, ...], out: list[Node], node: Node) -> Value:
        """Append an operation without attributes; its result."""
        made = Value(args[-1].type)
        out.append(Op(name, args, None, made, node.span))
        return made

    def block(self, block: Block, out: list[Node], mask: Operand) -> list[Operand]:
        """Append what the lanes of `mask` do in a block; what it yields then."""
        part: list[Node] = []
        for node in block.nodes:
            if self.is_cut(node):
                self.segment(part, out, mask)
                part = []
                self.element(node, out, mask)
            else:
                part.append(node)
        self.segment(part, out, mask)
        span = block.nodes[-1].span if block.nodes else self.lifter.kernel.span
        return [
            self.lifter.plain(y) if isinstance(y.type, TileType) else self.lifter.lane(y, out, span)
            for y in block.yields
        ]

    def is_cut(self, node: Node) -> bool:
        """True if a node does not belong to mapped control flow."""
        if isinstance(node, Op):
            return node.name in _ELEMENTS
        if isinstance(node, For) and not self.lifter.variation.any((node.lo, node.hi)):
            return _holds(node, _ELEMENTS)
        return _holds(node, _PUTS) or (isinstance(node, If) and _holds(node, _ELEMENTS))

    def segment(self, nodes: list[Node], out: list[Node], mask: Operand) -> None:
        """Append nodes that are run under the mask; those that have no effect, without it."""
        lifter = self.lifter
        if all(isinstance(n, Op) and n.row.is_pure for n in nodes):
            lifter.nodes(nodes, out)
            return
        span = nodes[0].span
        inner: list[Node] = []
        with lifter.diverging(True, span, out):
            lifter.nodes(nodes, inner)
            defined = [v for node in nodes for v in results(node) if lifter.variation.of(v)]
            yields = tuple(lifter.lanes[v] for v in defined)
        made = tuple(Value(y.type) for y in yields)
        zeros = tuple(zero(y.type) for y in yields)
        out.append(If(mask, Block(tuple(inner), yields), Block((), zeros), made, span))
        lifter.lanes.update(zip(defined, made, strict=True))

    def element(self, node: Node, out: list[Node], mask: Operand) -> None:
        """Append what reads or changes elements of tiles."""
        lifter = self.lifter
        match node:
            case Op(row=row) if row.takes_element:
                lifter.op_take(node, out)
            case Op():
                self.put(node, out, mask)
            case If():
                self.branch(node, out, mask)
            case For() if not lifter.variation.any((node.lo, node.hi)):
                self.loop(node, out, mask)
            case _:
                raise lifter.changes(node)

    def put(self, node: Op, out: list[Node], mask: Operand) -> None:
        """Append a change of an element by the lanes of the mask."""
        tile, *rest = node.args
        if any(isinstance(x.type, TileType) for x in rest):  # rows and other views are the block's
            raise self.lifter.together(node.span)
        if node.name in COMBINING:
            return self.lifter.combine(node, out, mask)
        first, *others = self.lifter.lanes_of(rest, out, node.span)
        nowhere = Const(tile_type(int32, self.lifter.shape), int32.max)
        wanted = self.op("select", (mask, first, nowhere), out, node)
        made = dataclasses.replace(node, args=(self.lifter.plain(tile), wanted, *others))
        out.append(made)

    def loop(self, node: For, out: list[Node], mask: Operand) -> None:
        """A loop that all lanes run as often, those of the mask for its effects."""
        lifter = self.lifter
        index = Value(node.index.type, node.index.name)
        bounds = [lifter.plain(x) for x in (node.lo, node.hi)]
        is_tile = [isinstance(p.type, TileType) for p in node.params]
        pairs = list(zip(node.init, is_tile, strict=True))
        init = tuple(lifter.plain(x) if tile else lifter.lane(x, out, node.span) for x, tile in pairs)
        inner: list[Node] = []
        filled = Value(tile_type(index.type, lifter.shape))
        inner.append(Op("fill", (index,), lifter.shape, filled, node.span))
        lifter.lanes[node.index] = filled
        params = tuple(p if tile else lifter.fresh(p) for p, tile in zip(node.params, is_tile, strict=True))
        yields = self.block(node.body, inner, mask)
        made = tuple(r if tile else lifter.fresh(r) for r, tile in zip(node.results, is_tile, strict=True))
        body = Block(tuple(inner), tuple(yields))
        out.append(For(index, bounds[0], bounds[1], node.step, params, init, body, made, node.span))
