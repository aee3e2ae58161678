"""The forward sweep of an adjoint kernel: the kernel once more, leaving behind what its reverse needs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Container, Iterable

from jwarp.analysis.activity import Activity, number_of
from jwarp.autodiff.custom_gradients import changed_by_gradients, loaded_by_gradients, scratch_refusal
from jwarp.autodiff.native_calls import left_as_found, made_again
from jwarp.ir.attributes import ArrayNumber, NativeCall, Origin, ParamNumber, RecordField, RecordFields
from jwarp.ir.builder import make_block, zero
from jwarp.ir.contents import contents_of, native_arrays
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    If,
    Kernel,
    Node,
    Op,
    Operand,
    Value,
    While,
    arrays_changed,
    results,
    walk,
    walk_node,
)
from jwarp.ir.row_groups import Memory
from jwarp.ir.visit import Rebuilder
from jwarp.types import ValueType, int64, shape_of, with_shape


def recalled(node: Op, written: Container[int]) -> Origin:
    """The array that holds what a `recall` reads: what the launch left there, if it stored to it."""
    return Origin("final" if node.array in written else "primal", node.array)


class ForwardSweep(Rebuilder):
    """`known` maps the kernel's values to those of the adjoint kernel that is being built.

    `written` are the parameters that the kernel stored to before it was simplified. The code can be reversed
    where `taped` says so: loops then record each iteration, if `is_taped`, and branches record all that they compute.

    What a thread finds in parameters `counters` depends on the threads before it. So it looks there once, and notes
    what it finds in loops; where these run again, it reads its notes.
    """

    def __init__(
        self,
        kernel: Kernel,
        active: Activity,
        written: frozenset[int],
        counters: frozenset[int],
        *,
        is_taped: bool,
    ):
        super().__init__()
        self.kernel, self.active, self.written, self.is_taped = kernel, active, written, is_taped
        self.counters = counters
        self.taped = True
        self.depth = 0  # of loops around what is run
        self.replays = False  # whether what is run has been run before
        self.scalars: dict[int, Value] = {}
        self.tapes = itertools.count()
        self.tape_of: dict[Node, int] = {}  # the tape that a branch or loop filled last
        self.iterations_of: dict[While, Value] = {}  # stands for its number of iterations
        ops, self.used = contents_of(kernel.body).ops, contents_of(kernel.body).used
        self.left = left_as_found(kernel)
        # An atomic operation whose result is used reads, too.
        self.loaded = (
            frozenset(n.array for n in ops if n.row.is_access and (not n.row.is_write or n.result in self.used))
            | loaded_by_gradients(kernel)
            | frozenset(map(number_of, native_arrays(kernel.body)))
        )
        self.loaded -= counters
        self.scratch = changed_by_gradients(kernel)
        if touched := self.scratch & {n.array for n in ops if n.row.is_access}:
            raise scratch_refusal(kernel, min(touched))
        self.busy = frozenset(n for n in walk(kernel.body) if self.is_busy(n))

    def is_busy(self, node: Node) -> bool:
        """True if the reverse sweep must process `node`, and its values do not just pass through."""
        return any(
            any(r in self.active for r in results(inner))
            or (isinstance(inner, Op) and inner.row.is_write and inner.array in self.active.arrays)
            or (
                isinstance(inner, Op)
                and inner.row.is_native
                and not self.active.arrays.isdisjoint(arrays_changed(inner))
            )
            for inner in walk_node(node)
        )

    def operand(self, x: Operand) -> Operand:
        return self.known[x] if isinstance(x, Value) else x

    def operands(self, xs: Iterable[Operand]) -> tuple[Operand, ...]:
        known = self.known
        return tuple([known[x] if isinstance(x, Value) else x for x in xs])

    def fresh(self, value: Value) -> Value:
        made = Value(value.type, value.name)
        self.known[value] = made
        return made

    def origin(self, array: int) -> Origin:
        """The array of the adjoint kernel that holds what array `array` holds in the kernel."""
        if array in self.left:
            return Origin("final", array)
        local = array >= len(self.kernel.params)
        return Origin("work" if local or array in self.written or array in self.scratch else "primal", array)

    def run(self, block: Block, taped: bool) -> None:
        """Run a block again; if `taped`, so that it can be reversed in this place."""
        outer, self.taped = self.taped, taped
        self.nodes(block)
        self.taped = outer

    def op(self, node: Op) -> None:
        row, result, span = node.row, node.result, node.span
        if row.is_lasting and not row.changes_memory:
            return  # the launch itself has checked and printed
        args = self.operands(node.args)
        if node.row.is_parameter:
            self.scalar(node)
        elif row.is_access and node.array in self.counters:
            self.shared_access(node, args)
        elif row.is_native:
            made = self.fresh(result) if result is not None else None
            self.builder.append(Op(node.name, args, made_again(node.attr_as(NativeCall), self.origin), made, span))
        elif row.is_write:
            made = self.fresh(result) if result is not None else None
            if node.array in self.loaded:
                self.builder.effect("save", *self.operands(node.indices), attr=self.origin(node.array))
                self.builder.append(Op(node.name, args, self.origin(node.array), made, span))
        elif node.row.uses.reads_final:
            assert result is not None
            self.builder.append(Op("load", args, recalled(node, self.written), self.fresh(result), span))
        elif node.row.derivative.has_replay:
            assert result is not None
            self.known[result] = args[1]
        elif node.row.derivative.is_given:
            assert result is not None
            self.known[result] = args[-1]
        elif row.attribute is ArrayNumber:  # a load or a clear
            made = self.fresh(result) if result is not None else None
            self.builder.append(Op(node.name, args, self.origin(node.array), made, span))
        elif node.row.is_detached:
            assert result is not None
            self.known[result] = self.builder.op("detach", args[0])
        elif args:
            assert result is not None
            self.known[result] = self.builder.op(node.name, *args, attr=node.attr, type=result.type)
        else:
            assert result is not None
            self.builder.append(Op(node.name, (), node.attr, self.fresh(result), span))

    def shared_access(self, node: Op, args: tuple[Operand, ...]) -> None:
        """An access to what threads count in: once, where its thread comes to it first."""
        origin, wanted = self.origin(node.array), node.result in self.used
        made = self.fresh(node.result) if node.result is not None and wanted else None
        if not self.replays:
            self.builder.append(Op(node.name, args, origin, made, node.span))
            if made is not None and self.depth:
                self.builder.effect("note", made, attr=origin)
        elif made is not None:
            self.builder.append(Op("noted", (), origin, made, node.span))

    def scalar(self, node: Op) -> None:
        """A scalar argument is one value, wherever it is read."""
        assert node.result is not None
        first = self.scalars.setdefault(node.array, node.result)
        self.known[node.result] = self.known.get(first) or self.fresh(first)

    def branch(self, node: If) -> None:
        """A branch also results in what it computes inside, for the reverse sweep."""
        outer = self.known
        sides: list[tuple[list[Node], tuple[Operand, ...], dict[Value, Operand]]] = []
        for block in (node.then, node.orelse):
            self.known = dict(outer)
            with self.builder.block() as nodes:
                self.nodes(block)
            inner = {v: x for v, x in self.known.items() if v not in outer}
            sides.append((nodes, self.operands(block.yields), inner if self.taped else {}))
        self.known = outer
        defined = [{x for n in nodes for x in results(n)} for nodes, _, _ in sides]
        made: list[Value] = [self.fresh(r) for r in node.results]
        yields = [list(y) for _, y, _ in sides]
        for side, (_, _, inner) in enumerate(sides):
            exported: dict[Operand, Value] = {}
            for value, x in inner.items():
                if x in defined[side] and x not in exported:
                    assert isinstance(x, Value)
                    exported[x] = Value(x.type, x.name)
                    made.append(exported[x])
                    yields[side].append(x)
                    yields[1 - side].append(zero(x.type))
                self.known[value] = exported.get(x, x)
        then, orelse = (make_block(nodes, y) for (nodes, _, _), y in zip(sides, yields, strict=True))
        self.builder.append(If(self.operand(node.cond), then, orelse, tuple(made), node.span))

    def loop(self, node: For | While) -> None:
        taped = self.taped
        taped_iterations = taped and node in self.busy
        changed = self.changed_arrays(node)
        if taped and changed and not taped_iterations:
            self.tape_of[node] = next(self.tapes)
            self.push(self.tape_of[node], (), changed, self.control_shape(node))
        outer = dict(self.known)
        init = self.operands(node.init)
        limits = (self.operand(node.lo), self.operand(node.hi)) if isinstance(node, For) else None
        params = [self.fresh(p) for p in node.params]
        made_results = [Value(r.type, r.name) for r in node.results]
        known = outer | dict(zip(node.results, made_results, strict=True))
        index = self.fresh(node.index) if isinstance(node, For) else None
        cond = Block()
        self.depth += 1
        if isinstance(node, While):
            with self.builder.block() as nodes:
                self.run(node.cond, taped=False)
            cond = make_block(nodes, self.operands(node.cond.yields))
        count = Value(with_shape(int64, self.control_shape(node)))
        with self.builder.block() as nodes:
            if taped_iterations and self.is_taped:
                self.tape_of[node] = next(self.tapes)
                shape = self.control_shape(node)
                self.push(self.tape_of[node], params, changed, shape, self.counter_arrays(node))
            self.run(node.body, taped=False)
            yields = list(self.operands(node.body.yields))
            following = self.builder.op("add", count, Const(count.type, 1))
        self.known = known
        self.depth -= 1
        if isinstance(node, For):
            assert index is not None and limits is not None
            loop: Node = For(index, limits[0], limits[1], node.step, tuple(params), init, make_block(nodes, yields),
                             tuple(made_results), node.span)  # fmt: skip
        else:
            iterations = Value(count.type)
            self.known[self.iterations_of.setdefault(node, Value(count.type))] = iterations
            loop = While((*params, count), (*init, zero(count.type)), cond, make_block(nodes, [*yields, following]),
                         (*made_results, iterations), node.span)  # fmt: skip
        self.builder.append(loop)

    def set_index(self, node: For | While, iteration: Operand) -> None:
        """Let the index of a counted loop stand for what it is in iteration number `iteration`."""
        if isinstance(node, For):
            at = self.builder.op("cast", iteration, type=node.index.type)
            offset = self.builder.op("mul", at, _wrapped(node.index.type, node.step))
            self.known[node.index] = self.builder.op("add", self.operand(node.lo), offset)

    def control_shape(self, node: For | While) -> tuple[int, ...]:
        """The shape of what decides how often each element goes through a loop."""
        return shape_of(node.index.type if isinstance(node, For) else node.cond.yields[0].type)

    def changed_arrays(self, node: Node) -> list[Origin]:
        """The arrays that `node` stores to and that the kernel reads back."""
        found = {n.array: None for n in walk_node(node) if isinstance(n, Op) and n.row.is_write}
        return [self.origin(p) for p in found if p in self.loaded]

    def counter_arrays(self, node: Node) -> list[Origin]:
        """The arrays that threads count in and that `node` reads."""
        reads = (n for n in walk_node(node) if isinstance(n, Op) and n.row.is_access and n.result in self.used)
        found = dict.fromkeys(n.array for n in reads)
        return [self.origin(p) for p in found if p in self.counters]

    def push(
        self,
        tape: int,
        values: Iterable[Value],
        logs: Iterable[Origin],
        shape: tuple[int, ...],
        counts: Iterable[Origin] = (),
    ) -> None:
        """Add a record of values and of the lengths of logs to a tape, for each element of tiles of `shape`.

        It ends with the places in the notes of `counts`.
        """
        values, logs, counts = tuple(values), tuple(logs), tuple(counts)
        marks = []
        for log in logs:
            marks.append(Value(with_shape(int64, shape)))
            self.builder.append(Op("mark", (), log, marks[-1], self.builder.span))
        for counter in counts:
            marks.append(Value(int64))
            self.builder.append(Op("bookmark", (), counter, marks[-1], self.builder.span))
        uniform = (*(False for _ in values), *(True for _ in marks))
        self.builder.append(Op("push", (*values, *marks), RecordFields(tape, uniform), None, self.builder.span))

    def restore(
        self, node: For | While, values: Iterable[Value], logs: Iterable[Origin], counts: Iterable[Origin] = ()
    ) -> list[Value]:
        """Take the last record of a loop's tape back: the values, after the logs were undone and notes opened."""
        tape, mark = self.tape_of[node], with_shape(int64, self.control_shape(node))
        values, logs, counts = tuple(values), tuple(logs), tuple(counts)
        wanted = [*values, *(Value(mark) for _ in logs), *(Value(int64) for _ in counts)]
        fields = [Value(v.type, v.name) for v in wanted]
        for k, field in enumerate(fields):
            self.builder.append(Op("top", (), RecordField(tape, k), field, self.builder.span))
        self.builder.append(Op("pop", (), tape, None, self.builder.span))
        marks = iter(fields[len(values) :])
        for name, arrays in (("rollback", logs), ("rewind", counts)):
            for array in arrays:
                self.builder.append(Op(name, (next(marks),), array, None, self.builder.span))
        return fields[: len(values)]

    def is_uniform(self, x: Operand) -> bool:
        """True if an integer is plainly uniform."""
        return isinstance(x, Const) or x in self.uniform

    @functools.cached_property
    def uniform(self) -> frozenset[Value]:
        """The values that plainly are the same for all threads."""
        found: set[Value] = set()
        for node in walk(self.kernel.body):
            if not isinstance(node, Op) or node.result is None:
                continue
            fixed = not node.row.is_access and all(isinstance(x, Const) or x in found for x in node.args)
            fact = node.row.attribute is ParamNumber or Memory.EXTENTS in node.row.uses.reads
            if fixed and (node.args or fact):
                found.add(node.result)
        return frozenset(found)


def _wrapped(type: ValueType, number: int) -> Const:
    """A number as a constant of an integer type, modulo 2^bits."""
    number &= (1 << type.bits) - 1
    return Const(type, number - (1 << type.bits) if number > type.max else number)
