"""The bases of what walks over kernels and of what rewrites them: how If, For and While are gone through, stands here.

Each base has a method for operations and one for each kind of control flow. A subclass says what is special; all else
is gone through in the order of the program.

- `Visitor` only looks.
- `Rewriter` gives a block with other nodes in it. Values stay what they are, and a node in which nothing changes stays
  the same object.
- `Rebuilder` makes nodes by a `Builder`, and replaces values by others.
- `Cloner` (in `clone`) gives every value a fresh copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from jwarp.ir.builder import Builder, make_block
from jwarp.ir.nodes import Block, For, If, Node, Op, Operand, Value, While, blocks


def with_blocks(node: Node, made: Sequence[Block]) -> Node:
    """`node` with other blocks, in the order of `blocks`; the same object where they are those that it has."""
    if all(new is old for new, old in zip(made, blocks(node), strict=True)):
        return node
    match node:
        case If():
            then, orelse = made
            return dataclasses.replace(node, then=then, orelse=orelse)
        case For():
            return dataclasses.replace(node, body=made[0])
        case While():
            cond, body = made
            return dataclasses.replace(node, cond=cond, body=body)
        case Op():
            return node


def with_args(node: Op, args: tuple[Operand, ...]) -> Op:
    """The operation with other operands; the same object where they equal those that it has."""
    return node if args == node.args else Op(node.name, args, node.attr, node.result, node.span)


def with_operands(node: Node, change: Callable[[Operand], Operand]) -> Node:
    """`node` with `change` done to what it reads itself, not to what its blocks read."""
    match node:
        case Op():
            return with_args(node, tuple(map(change, node.args)))
        case If():
            return dataclasses.replace(node, cond=change(node.cond))
        case For():
            return dataclasses.replace(node, lo=change(node.lo), hi=change(node.hi), init=tuple(map(change, node.init)))
        case While():
            return dataclasses.replace(node, init=tuple(map(change, node.init)))


def same_code(x: Block, y: Block) -> bool:
    """True if two blocks do the same to the same values, whether or not their nodes are the same objects."""
    return x is y or (len(x.nodes) == len(y.nodes) and x.yields == y.yields and all(map(_same_node, x.nodes, y.nodes)))


def _same_node(x: Node, y: Node) -> bool:
    return x is y or (
        type(x) is type(y) and _own_fields(x) == _own_fields(y) and all(map(same_code, blocks(x), blocks(y)))
    )


def _own_fields(node: Node) -> tuple[object, ...]:
    """The fields of a node that are no blocks."""
    match node:
        case Op():
            return node.name, node.args, node.attr, node.result, node.span
        case If():
            return node.cond, node.results, node.span
        case For():
            loop = node.index, node.lo, node.hi, node.step, node.lanes
            return *loop, node.params, node.init, node.results, node.span
        case While():
            return node.params, node.init, node.results, node.span


class Visitor:
    """Looks at every node. `branch`, `counted`, `conditional` and `loop` look at what is inside, unless replaced."""

    def block(self, block: Block) -> None:
        for node in block.nodes:
            self.node(node)

    def node(self, node: Node) -> None:
        match node:
            case Op():
                self.op(node)
            case If():
                self.branch(node)
            case For():
                self.counted(node)
            case While():
                self.conditional(node)

    def op(self, node: Op) -> None:
        """An operation."""

    def branch(self, node: If) -> None:
        self.inside(node)

    def counted(self, node: For) -> None:
        self.loop(node)

    def conditional(self, node: While) -> None:
        self.loop(node)

    def loop(self, node: For | While) -> None:
        """A loop of either kind, unless the methods for one kind say otherwise."""
        self.inside(node)

    def inside(self, node: Node) -> None:
        """The blocks that a node owns."""
        for block in blocks(node):
            self.block(block)


class Rewriter:
    """Makes other blocks. A subclass says in `nodes`, `op`, `branch` or `loop` what stands for a node."""

    def block(self, block: Block) -> Block:
        made: list[Node] = []
        for node in block.nodes:
            made += self.nodes(node)
        same = len(made) == len(block.nodes) and all(x is y for x, y in zip(made, block.nodes, strict=True))
        return block if same else Block(tuple(made), block.yields)

    def nodes(self, node: Node) -> Iterable[Node]:
        """The nodes that replace a node; subclasses may give none, or several."""
        return (self.node(node),)

    def node(self, node: Node) -> Node:
        match node:
            case Op():
                return self.op(node)
            case If():
                return self.branch(node)
            case For() | While():
                return self.loop(node)

    def op(self, node: Op) -> Op:
        return node

    def branch(self, node: If) -> Node:
        return self.inside(node)

    def loop(self, node: For | While) -> Node:
        """A loop of either kind."""
        return self.inside(node)

    def inside(self, node: Node) -> Node:
        """The node with its blocks rewritten."""
        return with_blocks(node, [self.block(block) for block in blocks(node)])


def map_ops(block: Block, change: Callable[[Op], Op]) -> Block:
    """The block with every operation, also inside of control flow, replaced by what `change` makes of it."""
    return _OpMapper(change).block(block)


class _OpMapper(Rewriter):
    def __init__(self, change: Callable[[Op], Op]):
        self.change = change

    def op(self, node: Op) -> Op:
        return self.change(node)


class Rebuilder:
    """Appends what stands for each node to `builder`; `known` says what values stand for now.

    `op` appends an operation, `branch` and `loop` control flow, with the operands that are known. A subclass that says
    something else in `operand` says it in `operands`, too.
    """

    def __init__(self) -> None:
        self.builder = Builder()
        self.known: dict[Value, Operand] = {}

    def operand(self, x: Operand) -> Operand:
        return self.known.get(x, x) if isinstance(x, Value) else x

    def operands(self, xs: Iterable[Operand]) -> tuple[Operand, ...]:
        known = self.known
        return tuple([known.get(x, x) if isinstance(x, Value) else x for x in xs])

    def block(self, block: Block) -> Block:
        with self.builder.block() as nodes:
            self.nodes(block)
            return make_block(nodes, self.operands(block.yields))

    def nodes(self, block: Block) -> None:
        """Emit the replacements of a block's nodes at the builder's place."""
        for node in block.nodes:
            self.builder.span = node.span
            self.node(node)

    def node(self, node: Node) -> None:
        match node:
            case Op():
                self.op(node)
            case If():
                self.branch(node)
            case For() | While():
                self.loop(node)

    def op(self, node: Op) -> None:
        self.keep(node)

    def branch(self, node: If) -> None:
        self.keep(node)

    def loop(self, node: For | While) -> None:
        """A loop of either kind."""
        self.keep(node)

    def keep(self, node: Node) -> None:
        """Append the node itself, with the operands that are known and its blocks gone through."""
        if isinstance(node, Op):
            self.builder.append(with_args(node, self.operands(node.args)))
            return
        read = with_operands(node, self.operand)
        self.builder.append(with_blocks(read, [self.block(block) for block in blocks(read)]))
