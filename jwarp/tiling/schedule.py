"""Schedules a kernel with tiles: which operations share a loop nest, and in which order everything happens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from jwarp.ir.attributes import ArrayName, RecordField, RecordFields, Reduction, Transposes
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
    arrays_read,
    results,
    walk,
    walk_node,
)
from jwarp.ir.row_groups import Memory
from jwarp.tiling.parts import Control, Move, Nest, Part, Schedule, Step, Whole, free_operands, tiles_in
from jwarp.tiling.symbolic_tiles import Filled, Forms, Viewed, mapped_shape_of, result_of, size_of
from jwarp.tiling.whole import WHOLE
from jwarp.types import TileType, shape_of


class Scheduler:
    """Schedules blocks. `stored` collects the tiles that are needed in memory."""

    def __init__(self, kernel: Kernel, forms: Forms):
        self.kernel, self.forms = kernel, forms
        self.stored: set[Value] = set()
        self.pushes = {
            n.attr_as(RecordFields).tape: n for n in walk(kernel.body) if isinstance(n, Op) and n.row.adds_to_tape
        }
        self.tapes: dict[tuple[int, int], int] = {}  # of the fields that are tiles: each has one of its own

    def tape(self, tape: int, position: int) -> int:
        """The tape of a field that is a tile."""
        return self.tapes.setdefault((tape, position), max(self.pushes) + 1 + len(self.tapes))

    def schedule(self, block: Block, moves: Iterable[Value] = (), carried: Iterable[Value] = ()) -> Schedule:
        """Schedule a block whose yields become what the tiles `moves` hold. `carried` are tiles that a loop carries."""
        made = _BlockScheduler(self, frozenset(carried))
        for node in block.nodes:
            made.node(node)
        made.leave(block.yields, tuple(moves))
        return made.made


class _BlockScheduler:
    """Puts the nodes of one block, one after the other, as early as what they need allows and where they fit.

    `ready` says from which part on a value can be used, `home` in which nest a tile is computed; nodes of that
    nest use its elements as they are computed.
    """

    def __init__(self, scheduler: Scheduler, carried: frozenset[Value]):
        self.scheduler, self.forms, self.carried = scheduler, scheduler.forms, carried
        self.made = Schedule()
        self.ready: dict[Value, int] = {}
        self.home: dict[Value, int] = {}
        # From which part on arrays may be read, and written to, and what keeps its order may happen.
        self.readable: dict[ArrayName, int] = {}
        self.writable: dict[ArrayName, int] = {}
        self.ordered = 0
        self.tops: dict[RecordField, Value] = {}  # tiles that are still on a tape

    # -- nodes

    def node(self, node: Node) -> None:
        if not isinstance(node, Op):
            shape = mapped_shape_of(node)
            if shape:
                self.mapped(node, shape)
            else:
                self.control(node)
            return
        if node.result is not None and node.result in self.forms.known:
            return
        rule = _RULES.get(node.name)
        if rule is not None:
            rule(self, node)
        elif node.name in WHOLE:
            self.whole(node)
        elif shape := _shape_of(node):
            self.mapped(node, shape)
        else:
            self.scalar(node)

    def scalar(self, node: Op) -> None:
        row = node.row
        if row.is_pure or row.only_reads or node.row.is_detached:
            first = max((self.ready.get(x, 0) for x in node.args if isinstance(x, Value)), default=0)
            if row.reads_elements:
                first = max(first, self.readable.get(node.array, 0))
                self.writable[node.array] = max(first, self.writable.get(node.array, 0))
            self.early(node, first)
            return
        if not row.is_rule:
            self.late(Step(node), node)

    def early(self, node: Op, first: int) -> None:
        """Put an operation on scalars that changes nothing before part `first`."""
        assert node.result is not None
        self.made.before[first].append(node)
        self.ready[node.result] = first

    def late(self, part: Part, node: Node) -> int:
        """Put a part after all others."""
        at = self.made.append(part)
        self.note(node, at)
        for result in results(node):
            self.ready[result] = at + 1
        return at

    def note(self, node: Node, at: int) -> None:
        """Remember what part `at` does to memory."""
        reads, writes, in_order = _memory(node)
        for array in reads | writes:
            self.writable[array] = max(at + 1, self.writable.get(array, 0))
        for array in writes:
            self.readable[array] = max(at + 1, self.readable.get(array, 0))
        if in_order:
            self.ordered = max(at + 1, self.ordered)

    # -- nests

    def mapped(self, node: Node, shape: tuple[int, ...], reduced: tuple[int, ...] = (), closed: bool = False) -> int:
        """Put a node that works element by element into a nest."""
        reads, writes, in_order = _memory(node)
        closed = closed or in_order
        first, homes = self.needs(free_operands(node), shape)
        if isinstance(node, Op) and node.result in self.forms.sources:
            first, homes = self.needs_of([self.forms.sources[node.result]], shape)
        waits = max((*(self.readable.get(a, 0) for a in reads), *(self.writable.get(a, 0) for a in writes)), default=0)
        if waits > first and self.stores_adjacent(node, waits - 1):
            waits -= 1
        first = max(first, waits)
        if in_order:
            first = max(first, self.ordered)
        at = None
        if not closed:
            fitting = [k for k in range(first, len(self.made.parts)) if self.fits(k, shape, reduced)]
            at = first if first in fitting and first in homes else fitting[-1] if fitting else None
        if at is None:
            at = self.made.append(Nest(shape, closed=closed, reversed=_takes_back(node)))
        nest = self.made.parts[at]
        assert isinstance(nest, Nest)
        nest.nodes.append(node)
        nest.reduced = nest.reduced or reduced
        self.store_needed(free_operands(node), shape, at)
        if isinstance(node, Op) and node.result in self.forms.sources:
            self.store_leaves([self.forms.sources[node.result]], shape, at)
        self.note(node, at)
        for result in results(node):
            self.ready[result] = at + 1
            if shape_of(result.type) == shape and not reduced:
                self.home[result] = at
            elif isinstance(result.type, TileType):
                self.scheduler.stored.add(result)
        return at

    def stores_adjacent(self, node: Node, at: int) -> bool:
        """True if a node stores to no element that the nest `at` touches, but to another component of each of them.

        Nor may a scalar be loaded from the array between the two.
        """
        nest = self.made.parts[at]
        if not isinstance(node, Op) or not node.row.is_store or not isinstance(nest, Nest):
            return False
        if any(node.array in arrays_read(n) for n in self.made.before[at + 1]):
            return False
        touching = (n for n in nest.nodes if node.array in set.union(*_memory(n)[:2]))
        return all(isinstance(n, Op) and n.row.is_store and _are_disjoint_components(n, node) for n in touching)

    def fits(self, at: int, shape: tuple[int, ...], reduced: tuple[int, ...]) -> bool:
        nest = self.made.parts[at]
        if not isinstance(nest, Nest) or nest.closed or nest.shape != shape:
            return False
        return not reduced or not nest.reduced or reduced == nest.reduced

    def needs(self, xs: Iterable[Operand], shape: tuple[int, ...]) -> tuple[int, set[int]]:
        """The first part in which elements of these tiles can be used, and nests that compute some of them."""
        first, homes = 0, set[int]()
        for x in xs:
            if shape_of(x.type):
                other, more = self.needs_of([self.forms.of(x)], shape)
                first, homes = max(first, other), homes | more
            elif isinstance(x, Value):
                first = max(first, self.ready.get(x, 0))
        return first, homes

    def needs_of(self, forms: Iterable, shape: tuple[int, ...]) -> tuple[int, set[int]]:
        first, homes = 0, set[int]()
        for form in forms:
            for leaf in self.forms.leaves_of(form):
                match leaf:
                    case Filled(Value() as x):
                        first = max(first, self.ready.get(x, 0))
                    case Viewed() if leaf.base in self.home and self.is_own(leaf, shape):
                        homes.add(self.home[leaf.base])
                        first = max(first, self.home[leaf.base])
                    case Viewed():
                        first = max(first, self.ready.get(leaf.base, 0))
        return first, homes

    def is_own(self, leaf: Viewed, shape: tuple[int, ...]) -> bool:
        """True if a nest over `shape` computes exactly the element of the base that it needs."""
        return shape_of(leaf.base.type) == shape and leaf.is_whole(shape)

    def store_needed(self, xs: Iterable[Operand], shape: tuple[int, ...], at: int) -> None:
        self.store_leaves((self.forms.of(x) for x in xs if shape_of(x.type)), shape, at)

    def store_leaves(self, forms: Iterable, shape: tuple[int, ...], at: int) -> None:
        """Keep in memory what part `at` reads of other parts."""
        for form in forms:
            for leaf in self.forms.leaves_of(form):
                if isinstance(leaf, Viewed) and not (self.home.get(leaf.base) == at and self.is_own(leaf, shape)):
                    self.scheduler.stored.add(leaf.base)

    # -- tiles in memory

    def in_memory(self, x: Operand) -> Value:
        """A tile in memory with the elements of `x`, in their order."""
        form = self.forms.of(x)
        if isinstance(form, Viewed) and form.is_whole(shape_of(x.type)):
            self.scheduler.stored.add(form.base)
            return form.base
        return self.copy(x)

    def copy(self, x: Operand) -> Value:
        """A tile in memory of its own with the elements of `x`."""
        made = Value(x.type)
        self.scheduler.stored.add(made)
        self.mapped(Op("copy", (x,), None, made), shape_of(x.type))
        return made

    def move(self, target: Value, source: Operand) -> None:
        self.scheduler.stored.add(target)
        self.store_needed([source], (), -1)
        self.ready[target] = self.made.append(Move(target, source)) + 1

    # -- operations with rules of their own

    def reduce(self, node: Op) -> None:
        axes = node.attr_as(Reduction).axes
        shape = shape_of(node.args[0].type)
        self.mapped(node, shape, axes if len(axes) < len(shape) else ())

    def take(self, node: Op) -> None:
        assert node.result is not None
        form = self.forms.of(node.args[0])
        if not isinstance(form, Viewed):
            copied = self.copy(node.args[0])
            node = dataclasses.replace(node, args=(copied, *node.args[1:]))
            base = copied
        else:
            base = form.base
        self.scheduler.stored.add(base)
        shape = shape_of(result_of(node).type)
        # An element of the tile is known when its nest has ended.
        home = self.home.pop(base, None)
        if shape:
            self.mapped(node, shape)
        else:
            self.early(node, self.needs(node.args, ())[0])
        if home is not None:
            self.home[base] = home

    def put(self, node: Op) -> None:
        assert node.result is not None
        self.move(node.result, node.args[0])
        args = (node.result, *node.args[1:])
        shape = shape_of(node.args[1].type)
        changed = dataclasses.replace(node, args=args, result=None)
        if not shape:
            self.late(Step(changed), changed)
        else:
            self.mapped(changed, shape, closed=True)
        self.ready[node.result] = len(self.made.parts)

    def spread(self, node: Op) -> None:
        assert node.result is not None
        zeros = Const(node.result.type, 0.0 if node.result.type.is_float else 0)
        self.move(node.result, zeros)
        changed = dataclasses.replace(node, args=(node.result, *node.args), result=None)
        self.mapped(changed, shape_of(node.args[0].type), closed=True)
        self.ready[node.result] = len(self.made.parts)

    def spread_add(self, node: Op) -> None:
        self.move(result_of(node), node.args[0])
        changed = dataclasses.replace(node, args=(result_of(node), node.args[1]), result=None)
        self.mapped(changed, shape_of(node.args[1].type), closed=True)
        self.ready[result_of(node)] = len(self.made.parts)

    def whole(self, node: Op) -> None:
        """Put an operation on whole tiles after all others; its result may replace one of its operands."""
        target, row = result_of(node), WHOLE[node.name]
        self.scheduler.stored.add(target)
        reads = tuple(self.in_memory(x) for k, x in enumerate(node.args) if k != row.replaced)
        if row.replaced is not None:
            self.move(target, node.args[row.replaced])
        self.late(Whole(node, reads, target), node)

    def product(self, node: Op) -> None:
        """Multiply matrices, of which transposes need no memory of their own."""
        a, b, c = node.args
        target = result_of(node)
        self.scheduler.stored.add(target)
        flags, reads = [], []
        transposes = node.attr_as(Transposes)
        for x, flag in ((a, transposes.a), (b, transposes.b)):
            transposed = self.transposed(x)
            flags.append(flag != (transposed is not None))
            reads.append(transposed or self.in_memory(x))
        form = self.forms.of(c)
        accumulate = not (isinstance(form, Filled) and isinstance(form.value, Const) and form.value.value == 0)
        if accumulate:
            self.move(target, c)
        node = dataclasses.replace(node, attr=dataclasses.replace(transposes, a=flags[0], b=flags[1]))
        self.late(Whole(node, tuple(reads), target, accumulate), node)

    def transposed(self, x: Operand) -> Value | None:
        """The matrix in memory that `x` is the transpose of."""
        form, (m, n) = self.forms.of(x), shape_of(x.type)
        if not isinstance(form, Viewed) or form.offset or form.strides != (1 if m > 1 else 0, m if n > 1 else 0):
            return None
        if m == 1 or n == 1 or size_of(form.base.type) != m * n:
            return None
        self.scheduler.stored.add(form.base)
        return form.base

    # -- tapes

    def push(self, node: Op) -> None:
        """Each tile gets records of its elements, before the record of the scalars."""
        record = node.attr_as(RecordFields)
        for k, x in enumerate(node.args):
            if shape_of(x.type):
                own = RecordFields(self.scheduler.tape(record.tape, k), (False,))
                self.mapped(Op("push", (x,), own, None, node.span), shape_of(x.type))
        scalars = [(x, flag) for x, flag in zip(node.args, record.uniform, strict=True) if not shape_of(x.type)]
        if scalars:
            args, kept = zip(*scalars, strict=True)
            self.scalar(dataclasses.replace(node, args=args, attr=RecordFields(record.tape, kept)))

    def top(self, node: Op) -> None:
        assert node.result is not None
        if shape_of(result_of(node).type):
            self.tops[node.attr_as(RecordField)] = node.result
            return
        field = node.attr_as(RecordField)
        before = self.scheduler.pushes[field.tape].args[: field.field]
        scalar = sum(1 for x in before if not shape_of(x.type))
        self.scalar(dataclasses.replace(node, attr=RecordField(field.tape, scalar)))

    def pop(self, node: Op) -> None:
        """Take a record away; its tiles, which lie below its scalars, are read as they are taken away."""
        fields = self.scheduler.pushes[node.number].args
        if not all(shape_of(x.type) for x in fields):
            self.scalar(node)
        for k in reversed(range(len(fields))):
            if shape_of(fields[k].type):
                made = self.tops.pop(RecordField(node.number, k), None) or Value(fields[k].type)
                taken = Op("retrieve", (), self.scheduler.tape(node.number, k), made, node.span)
                self.mapped(taken, shape_of(made.type))

    def undo(self, node: Op) -> None:
        """Undo as many elements as the argument has, which is not looked at."""
        if node.args and shape_of(node.args[0].type):
            self.mapped(dataclasses.replace(node, args=()), shape_of(node.args[0].type))
        else:
            self.scalar(dataclasses.replace(node, args=()))

    # -- control flow of the whole block

    def control(self, node: If | For | While) -> None:
        scheduler = self.scheduler
        moved = tiles_in(node.results)
        scheduler.stored.update(moved)
        match node:
            case If():
                schedules = tuple(scheduler.schedule(block, node.results) for block in (node.then, node.orelse))
            case For() | While():
                params = tiles_in(node.params)
                scheduler.stored.update(params)
                for param, init in zip(node.params, node.init, strict=True):
                    if isinstance(param.type, TileType):
                        self.move(param, init)
                schedules = (scheduler.schedule(node.body, node.params, params),)
                if isinstance(node, While):
                    schedules = (scheduler.schedule(node.cond), *schedules)
        self.late(Control(node, schedules), node)

    def leave(self, yields: tuple[Operand, ...], targets: tuple[Value, ...]) -> None:
        """End the block: tiles among `yields` go to the memory of `targets`."""
        pairs = [(t, y) for t, y in zip(targets, yields, strict=False) if isinstance(t.type, TileType)]
        # Carried values must be read before any of them changes.
        sources = [self.snapshot(t, y) for t, y in pairs]
        for (target, _), source in zip(pairs, sources, strict=True):
            self.move(target, source)
        self.made.yields = yields

    def snapshot(self, target: Value, source: Operand) -> Operand:
        """`source`, unless that looks at another carried tile, or at other elements: then a copy of it."""
        for leaf in self.forms.leaves(source):
            if not isinstance(leaf, Viewed) or leaf.base not in self.carried:
                continue
            if leaf.base is not target or not leaf.is_whole(shape_of(target.type)):
                return self.copy(source)
        return source


def _shape_of(node: Op) -> tuple[int, ...]:
    """The shape that an operation works on element by element; () for scalars."""
    values = ([node.result] if node.result is not None else []) + list(node.args)
    return next((shape_of(v.type) for v in values if shape_of(v.type)), ())


def _takes_back(node: Node) -> bool:
    """True if a node removes records that another one added, which happens in reverse order."""
    rows = (n.row for n in walk_node(node) if isinstance(n, Op))
    return any(row.uses.takes is not Memory.NONE or Memory.TAPE in row.uses.reads for row in rows)


def _memory(node: Node) -> tuple[set[ArrayName], set[ArrayName], bool]:
    """The arrays that a node reads and writes, and whether it keeps its place in the program."""
    ops = [n for n in walk_node(node) if isinstance(n, Op)]
    reads = {array for n in ops for array in arrays_read(n)}
    writes = {array for n in ops for array in arrays_changed(n)}
    return reads, writes, any(n.row.in_order for n in ops)


def _are_disjoint_components(one: Op, other: Op) -> bool:
    """True if two stores to an array have indices of which one pair always differs and the others agree."""
    assert one.row.indices is not None and other.row.indices is not None
    pairs = list(zip(one.args[one.row.indices], other.args[other.row.indices], strict=True))
    apart = [pair for pair in pairs if pair[0] != pair[1]]
    numbers = [x.value for pair in apart for x in pair if isinstance(x, Const)]
    return len(apart) == 1 and len(numbers) == 2 and min(numbers) >= 0 and numbers[0] != numbers[1]


# Operations that are scheduled in ways of their own.
_RULES: dict[str, Callable[[_BlockScheduler, Op], None]] = {
    "reduce": _BlockScheduler.reduce,
    "take": _BlockScheduler.take,
    "put": _BlockScheduler.put,
    "put_add": _BlockScheduler.put,
    "spread": _BlockScheduler.spread,
    "spread_add": _BlockScheduler.spread_add,
    "matmul": _BlockScheduler.product,
    "push": _BlockScheduler.push,
    "top": _BlockScheduler.top,
    "pop": _BlockScheduler.pop,
    "undo": _BlockScheduler.undo,
}
