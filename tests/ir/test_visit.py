"""Going through kernels: the bases meet every node, and leave alone what nobody changes."""

import dataclasses

import pytest
from ir_kernels import const

from jwarp.ir.nodes import Block, For, If, Kernel, Op, Param, Value, While, renumbered, walk
from jwarp.ir.row_groups import Stage
from jwarp.ir.verify import InvalidIR, verify
from jwarp.ir.visit import Rebuilder, Rewriter, Visitor, map_ops
from jwarp.types import ArrayType, bool_, float32, int32

pytestmark = pytest.mark.quick


def tree() -> Block:
    """A store in a branch in a loop, and a conditional loop next to it."""
    index, flag = Value(int32), Value(bool_)
    store = Op("store", (index, const(1.0)), 0)
    branch = If(const(True), Block((store,)), Block(), ())
    counted = For(index, const(0), const(3), 1, (), (), Block((branch,)), ())
    test = Block((Op("lt", (const(1), const(0)), None, flag),), (flag,))
    conditional = While((), (), test, Block((Op("store", (const(0), const(2.0)), 0),)), ())
    return Block((counted, conditional))


def kernel(block: Block) -> Kernel:
    return Kernel("k", (Param("x", ArrayType(float32, 1)), Param("y", ArrayType(float32, 1))), 1, block)


class Names(Visitor):
    def __init__(self):
        self.seen: list[str] = []

    def op(self, node: Op) -> None:
        self.seen.append(node.name)

    def branch(self, node: If) -> None:
        self.seen.append("if")
        self.inside(node)

    def counted(self, node: For) -> None:
        self.seen.append("for")
        self.loop(node)

    def conditional(self, node: While) -> None:
        self.seen.append("while")
        self.loop(node)


def test_a_visitor_sees_every_node_in_order():
    names = Names()
    names.block(tree())
    assert names.seen == ["for", "if", "store", "while", "lt", "store"]


def test_a_rewriter_keeps_what_does_not_change():
    block = tree()
    assert Rewriter().block(block) is block
    assert map_ops(block, lambda op: op) is block


def test_only_what_changes_is_made_anew():
    block = tree()

    def moved(op: Op) -> Op:
        is_first = op.name == "store" and op.values == (const(1.0),)
        return renumbered(op, lambda array: 1) if is_first else op

    made = map_ops(block, moved)
    assert made.nodes[0] is not block.nodes[0] and made.nodes[1] is block.nodes[1]
    assert [n.array for n in walk(made) if isinstance(n, Op) and n.name == "store"] == [1, 0]
    verify(kernel(made))


def test_a_rebuilder_gives_the_same_program():
    block = tree()
    made = Rebuilder().block(block)
    assert [type(n) for n in walk(made)] == [type(n) for n in walk(block)]
    verify(kernel(made))


@pytest.mark.parametrize(
    ("stage", "name"), [(Stage.WRITTEN, "pop"), (Stage.DERIVED, "tile_scan"), (Stage.LOWERED, "fill")]
)
def test_operations_belong_to_stages(stage, name):
    block = Block((Op(name, (), None),))
    with pytest.raises(InvalidIR, match="does not occur in a kernel"):
        verify(dataclasses.replace(kernel(block), block_dim=32), stage)
