"""Checkpoints: a loop is reversed from a few of its states, running again from the nearest one.

What an iteration starts with is kept in a fixed number of slots of local arrays, the earliest iterations at the bottom
of a stack. To reach an iteration, the loop runs on from the top of the stack and leaves states on its way, as many
as half of the free slots allow. So any number of iterations works, without memory that grows; a thousand iterations
run about three times, a million about five times. (After A. Griewank and A. Walther, "Algorithm 799:
revolve", 2000, with equal distances instead of binomial ones.)
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from jwarp.autodiff.forward_sweep import ForwardSweep
from jwarp.errors import NotDifferentiableError
from jwarp.ir.attributes import Origin
from jwarp.ir.builder import make_block
from jwarp.ir.nodes import Block, Const, For, If, Local, Op, Operand, Value, While, walk, walk_node
from jwarp.ir.row_groups import Memory
from jwarp.types import ArrayType, ScalarType, int32, int64

SLOTS = 32


class Storage(enum.Enum):
    """Where an adjoint keeps what the iterations of loops started with, for going back through them."""

    TAPE = "a record for every iteration, on a tape that grows"
    CHECKPOINTS = "a fixed number of states, from which loops run again to the iteration that is wanted"


class LoopOverwrites(Exception):
    """A loop overwrites an array, which has no checkpoints; `error` says so to the user."""

    def __init__(self, error: NotDifferentiableError):
        super().__init__(str(error))
        self.error = error


class Checkpoints:
    """The local arrays of all loops of one adjoint kernel, which `sweep` builds."""

    def __init__(self, sweep: ForwardSweep):
        self.sweep = sweep
        self.locals: dict[Origin, Local] = {}

    def array(self, type: ScalarType, size: int = SLOTS) -> Origin:
        """One more local array, of `size` elements."""
        number = len(self.locals)
        made = Origin("checkpoint", number)
        self.locals[made] = Local(f"checkpoint_{number}", ArrayType(type, 1), (size,))
        return made

    def open(self, node: For | While) -> LoopCheckpoints:
        """The checkpoints of a loop that is about to be reversed: its first state is the first."""
        values = tuple(self.array(p.type) for p in node.params)
        made = LoopCheckpoints(self.sweep, node, values, self.array(int64), self.array(int32, 1))
        made.begin()
        return made

    def refuse_tape(self, body: Block) -> None:
        """Refuse a loop that overwrites elements: it would have to save them in every iteration.

        `body` is what is needed of the adjoint, with every element that is overwritten saved before.
        """
        loops = (n for n in walk(body) if isinstance(n, For | While))
        for node in (inner for loop in loops for inner in walk_node(loop)):
            if isinstance(node, Op) and node.row.uses.adds is Memory.NOTES:
                raise NotDifferentiableError(
                    f"kernel `{self.sweep.kernel.name}`: a loop uses what atomic operations find, which needs a record "
                    "of unknown length",
                    node.span,
                    "take the derivative on the CPU, or count in one launch and use the counts in another",
                )
            if isinstance(node, Op) and node.row.uses.adds in (Memory.TAPE, Memory.LOG):
                error = NotDifferentiableError(
                    f"kernel `{self.sweep.kernel.name}`: a loop overwrites an array and reads it again, which needs "
                    "a record of unknown length",
                    node.span,
                    "store to another array than the one that is read",
                )
                raise LoopOverwrites(error)


@dataclass(frozen=True)
class LoopCheckpoints:
    """The stack of one loop: `values` by carried value, the iterations that they start, and how many there are."""

    sweep: ForwardSweep
    node: For | While
    values: tuple[Origin, ...]
    iterations: Origin
    depth: Origin

    def begin(self) -> None:
        """Keep what the first iteration starts with."""
        self.save(Const(int32, 0), Const(int64, 0), self.sweep.operands(self.node.init))
        self.store(self.depth, Const(int32, 0), Const(int32, 1))

    def reach(self, iteration: Operand) -> list[Value]:
        """The loop-carried values at the start of an iteration. Iterations are requested from the last to the first."""
        do, builder = self.sweep.builder.op, self.sweep.builder
        one = Const(int32, 1)
        depth = self.load(self.depth, Const(int32, 0), int32)
        top = do("sub", depth, one)
        start = (self.load(v, top, p.type) for v, p in zip(self.values, self.node.params, strict=True))
        init = (self.load(self.iterations, top, int64), depth, *start)
        params = [Value(x.type) for x in init]
        made = [Value(x.type) for x in init]
        at, used, *state = params
        with builder.block() as nodes:
            goes_on = do("lt", at, iteration)
        cond = make_block(nodes, [goes_on])
        with builder.block() as nodes:
            following = self.advance(iteration, at, used, state)
        builder.append(While(tuple(params), init, cond, make_block(nodes, following), tuple(made), self.node.span))
        reached, used, *fields = made
        # The state of this iteration is needed no more.
        last = self.load(self.iterations, do("sub", used, one), int64)
        spent = do("select", do("eq", last, reached), one, Const(int32, 0))
        self.store(self.depth, Const(int32, 0), do("sub", used, spent))
        return fields

    def advance(self, iteration: Operand, at: Value, used: Value, state: Sequence[Value]) -> list[Operand]:
        """Run some iterations on from `at`, and keep the state if a slot is free and it is not the one wanted."""
        do, builder, node = self.sweep.builder.op, self.sweep.builder, self.node
        free = do("sub", Const(int32, SLOTS), used)
        distance = do("sub", iteration, at)
        parts = do("cast", do("add", do("div", free, Const(int32, 2)), Const(int32, 1)), type=int64)
        some = do("div", do("add", distance, do("sub", parts, Const(int64, 1))), parts)
        has_room = do("gt", free, Const(int32, 0))
        steps = do("select", has_room, some, distance)
        index, params = Value(int64), [Value(s.type) for s in state]
        made = [Value(s.type) for s in state]
        outer = dict(self.sweep.known)
        with builder.block() as nodes:
            now = do("add", at, index)
            self.sweep.set_index(node, now)
            self.sweep.known.update(zip(node.params, params, strict=True))
            self.sweep.run(node.body, taped=False)
            yields = self.sweep.operands(node.body.yields)
        self.sweep.known = outer
        zero = Const(int64, 0)
        body = make_block(nodes, yields)
        builder.append(For(index, zero, steps, 1, tuple(params), tuple(state), body, tuple(made), node.span))
        reached = do("add", at, steps)
        keeps = do("and", has_room, do("lt", reached, iteration))
        with builder.block() as nodes:
            self.save(used, reached, made)
            more = do("add", used, Const(int32, 1))
        depth = Value(int32)
        builder.append(If(keeps, make_block(nodes, [more]), make_block([], [used]), (depth,), node.span))
        return [reached, depth, *made]

    # -- the local arrays

    def save(self, place: Operand, iteration: Operand, state: Sequence[Operand]) -> None:
        """Keep what an iteration starts with in the slot `place`."""
        self.store(self.iterations, place, iteration)
        for array, value in zip(self.values, state, strict=True):
            self.store(array, place, value)

    def store(self, array: Origin, place: Operand, value: Operand) -> None:
        """Store to an element of a local array."""
        self.sweep.builder.effect("store", place, value, attr=array)

    def load(self, array: Origin, place: Operand, type: ScalarType) -> Value:
        """The element of a local array."""
        made = Value(type)
        self.sweep.builder.append(Op("load", (place,), array, made, self.node.span))
        return made
