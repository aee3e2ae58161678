"""Makes two kernels of one that counts: one finds what each thread does to counters, one is given what it finds there.

Between the two, a scan over the threads computes the values. The kernel that is given them has no order.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from jwarp.analysis.counter_events import Counter, Event, events_of, values_found
from jwarp.analysis.ownership import owned_arrays
from jwarp.analysis.write_conflicts import counts_up
from jwarp.ir.attributes import Extent
from jwarp.ir.builder import make_block, zero
from jwarp.ir.contents import contents_of, native_arrays
from jwarp.ir.nodes import (
    Const,
    For,
    Kernel,
    Local,
    Node,
    Op,
    Operand,
    Order,
    Param,
    Value,
    While,
    renumbered,
    used_values,
    written_params,
)
from jwarp.ir.visit import Rebuilder, map_ops
from jwarp.passes.local_values import local_values
from jwarp.passes.prune import prune
from jwarp.passes.simplify import simplify
from jwarp.types import ArrayType, ScalarType, int32, int64

ZERO = Const(int32, 0)


@dataclass(frozen=True, eq=False)
class Counted:
    """A kernel that counts, taken apart.

    `slice` has the arrays `kept` of the kernel, in this order, then for each event of each counter two outputs of an
    element for each thread: which element of the counter it is on, from 1 on in the order of memory (0: on none), and
    with which value. `given` has the parameters of the kernel, then for each event the values that the operations, or
    the first one of a loop, find; it does not touch the counters.
    """

    counters: tuple[Counter, ...]
    slice: Kernel
    kept: tuple[int, ...]
    given: Kernel


def taken_apart(kernel: Kernel) -> Counted | None:
    """The two kernels; None if threads have to run in order.

    `kernel` has no calls. Where what one counter finds decides what is done to another one, they are those of the first
    counter, and the kernel that is given its values is to be taken apart again.
    """
    found = events_of(kernel)
    if found is None:
        return None
    unknown = values_found(found)
    counters = tuple(counter for counter in found if _slice(kernel, [counter], unknown) is not None)
    sliced = _slice(kernel, counters, unknown) if counters else None
    return None if sliced is None else Counted(counters, *sliced, _given(kernel, counters))


class _Replacing(Rebuilder):
    """Puts something else in the place of the operations on counters; a subclass says what."""

    def __init__(self, kernel: Kernel, counters: Sequence[Counter], arrays: int):
        super().__init__()
        self.kernel = kernel
        self.events = [event for counter in counters for event in counter.events]
        self.counter = {event: counter for counter in counters for event in counter.events}
        self.of_site = {n: event for event in self.events for n in event.sites}
        self.of_loop: dict[Node, list[Event]] = {}
        for event in self.events:
            if event.loop is not None:
                self.of_loop.setdefault(event.loop, []).append(event)
        self.first = len(kernel.params)  # of the new parameters
        self.arrays = arrays
        self.locals: list[Local] = []
        self.place: tuple[Value, ...] = tuple(Value(int32) for _ in range(kernel.tid_dims))

    def start(self) -> None:
        """Append the coordinates of the thread."""
        self.builder.span = self.kernel.span
        for axis, value in enumerate(self.place):
            self.builder.append(Op("tid", (), axis, value, self.kernel.span))

    def moved(self, node: Op) -> Op:
        """The operation, with the numbers that local arrays have behind the new parameters."""
        return renumbered(node, self.renumber)  # type: ignore[arg-type]

    def renumber(self, array: int) -> int:
        return array + self.arrays if array >= self.first else array

    def local(self, dtype: ScalarType) -> int:
        """A new local array of one element."""
        self.locals.append(Local("running", ArrayType(dtype, 1), (1,)))
        return self.first + self.arrays + len(self.kernel.locals) + len(self.locals) - 1

    def load(self, array: int, *place: Operand, dtype: ScalarType) -> Value:
        found = Value(dtype)
        self.builder.append(Op("load", place, array, found, self.builder.span))
        return found

    def dtype(self, event: Event) -> ScalarType:
        return self.kernel.params[event.counter].dtype

    def combined(self, event: Event, before: Operand, value: Operand) -> Operand:
        """The element after an operation."""
        counter = self.counter[event]
        if counter.operation:
            return self.builder.op(counter.operation, before, value)
        if counter.expected is None:
            return value
        return self.builder.op("select", self.builder.op("eq", before, counter.expected), value, before)

    def op(self, node: Op) -> None:
        event = self.of_site.get(node)
        if event is None:
            self.other(node)
        else:
            self.site(node, event)

    def other(self, node: Op) -> None:
        self.keep(self.moved(node))

    def loop(self, node: For | While) -> None:
        events = self.of_loop.get(node, ())
        for event in events:
            self.before(event)
        self.keep(node)
        for event in events:
            self.after(event)

    def site(self, node: Op, event: Event) -> None:
        raise NotImplementedError

    def before(self, event: Event) -> None:
        """Append what comes before the loop of an event."""

    def after(self, event: Event) -> None:
        """Append what comes after it."""

    def made(self, params: Sequence[Param]) -> Kernel:
        """The kernel of the new body, without the local arrays of this class."""
        self.start()
        start = len(self.builder.nodes)
        self.nodes(self.kernel.body)
        count = self.first + self.arrays + len(self.kernel.locals)
        names = range(count, count + len(self.locals))
        nodes = list(self.builder.nodes)
        nodes[start:start] = [Op("clear", (), name, None, self.kernel.span) for name in names]
        body = make_block(nodes, self.operands(self.kernel.body.yields))
        kernel = dataclasses.replace(
            self.kernel,
            params=(*self.kernel.params, *params),
            locals=(*self.kernel.locals, *self.locals),
            body=body,
            order=Order.ANY,
        )
        if not names:
            return kernel
        kernel = local_values(kernel, names)
        return dataclasses.replace(kernel, locals=self.kernel.locals)


class _Slice(_Replacing):
    """The kernel that stores the element and the value of each event."""

    def __init__(self, kernel: Kernel, counters: Sequence[Counter]):
        super().__init__(kernel, counters, 2 * sum(len(c.events) for c in counters))
        self.outputs = {event: self.first + 2 * k for k, event in enumerate(self.events)}
        self.running: dict[Event, tuple[int, int]] = {}

    def other(self, node: Op) -> None:
        # The launch itself checks, prints and has derivatives.
        if not node.row.is_lasting or node.row.changes_elements:
            super().other(node)

    def site(self, node: Op, event: Event) -> None:
        element, value = self.element(node), self.operand(node.values[-1])
        if event.loop is None:
            self.store(event, element, value)
            return
        at, total = self.running[event]
        dtype = self.dtype(event)
        following = self.combined(event, self.load(total, ZERO, dtype=dtype), value)
        self.builder.effect("store", ZERO, following, attr=total)
        self.builder.effect("store", ZERO, element, attr=at)

    def before(self, event: Event) -> None:
        dtype = self.dtype(event)
        self.running[event] = self.local(int32), self.local(dtype)
        self.builder.effect("store", ZERO, ZERO, attr=self.running[event][0])
        self.builder.effect("store", ZERO, self.identity(event), attr=self.running[event][1])

    def after(self, event: Event) -> None:
        at, total = self.running[event]
        self.store(event, self.load(at, ZERO, dtype=int32), self.load(total, ZERO, dtype=self.dtype(event)))

    def store(self, event: Event, element: Operand, value: Operand) -> None:
        array = self.outputs[event]
        self.builder.effect("store", *self.place, element, attr=array)
        self.builder.effect("store", *self.place, value, attr=array + 1)

    def identity(self, event: Event) -> Const:
        """The value that changes nothing."""
        counter, dtype = self.counter[event], self.dtype(event)
        if counter.expected is not None:
            return counter.expected
        ends = {"min": dtype.max, "max": dtype.min, "and": -1 if dtype.kind == "int" else dtype.max}
        return Const(dtype, ends.get(counter.operation, 0))

    def element(self, node: Op) -> Operand:
        """The number of an element, from 1 on; 0 outside of the array."""
        builder, indices = self.builder, self.operands(node.indices)
        number: Operand = Const(int64, 0)
        for axis, index in enumerate(indices):
            extent = Value(int32)
            builder.append(Op("shape", (), Extent(node.array, axis), extent, builder.span))
            length, place = (builder.op("cast", x, type=int64) for x in (extent, index))
            from_end = builder.op("add", place, length)
            place = builder.op("select", builder.op("lt", place, zero(int64)), from_end, place)
            number = builder.op("add", builder.op("mul", number, length), place)
        inside = builder.op("inside", *indices, attr=node.array)
        number = builder.op("cast", builder.op("add", number, Const(int64, 1)), type=int32)
        return builder.op("select", inside, number, ZERO)


def _named(kernel: Kernel, arrays: Sequence[tuple[Event, tuple[str, ScalarType]]]) -> list[Param]:
    """New parameters with an element for each thread: of an event, what they hold and its type."""
    taken, made = {p.name for p in kernel.params}, list[Param]()
    for event, (what, dtype) in arrays:
        first = f"{what}_{kernel.params[event.counter].name}"
        name = next(n for n in itertools.chain([first], (f"{first}_{k}" for k in itertools.count(2))) if n not in taken)
        taken.add(name)
        made.append(Param(name, ArrayType(dtype, kernel.tid_dims)))
    return made


def _slice(
    kernel: Kernel, counters: Sequence[Counter], unknown: frozenset[Value]
) -> tuple[Kernel, tuple[int, ...]] | None:
    """The slice, and the parameters of the kernel that it has; None if it depends on values that are `unknown`."""
    if native_arrays(kernel.body) or any(n.row.is_native or n.row.in_order for n in _lasting(kernel)):
        return None
    owned = owned_arrays(kernel)
    replacing = _Slice(kernel, counters)
    kinds = [(event, k) for event in replacing.events for k in (("element", int32), ("value", replacing.dtype(event)))]
    outputs = _named(kernel, kinds)
    full = replacing.made(outputs)
    first = len(kernel.params)
    returned = range(first, first + len(outputs))
    full = dataclasses.replace(full, gradients=(), variant="counts")
    full = simplify(dataclasses.replace(full, body=prune(full.body, returned)))
    full = simplify(dataclasses.replace(full, body=prune(full.body, returned)))
    changed = set(written_params(full)) - set(returned)
    before = set(written_params(kernel))
    if unknown & used_values(full.body) or not changed <= owned:
        return None
    if any(n.array in before - owned and n.row.reads_elements for n in _accesses(full) if n.array < first):
        return None
    return _with_few_params(full, first)


def _lasting(kernel: Kernel) -> list[Op]:
    return [n for n in contents_of(kernel.body).ops if not n.row.is_pure]


def _accesses(kernel: Kernel) -> tuple[Op, ...]:
    return contents_of(kernel.body).accesses


def _with_few_params(kernel: Kernel, count: int) -> tuple[Kernel, tuple[int, ...]]:
    """The kernel with those of its first parameters that it names, and which these are."""
    named: set[int] = set()

    def note(number: int) -> int:
        named.add(number)
        return number

    for node in contents_of(kernel.body).ops:
        renumbered(node, note)  # type: ignore[arg-type]
    kept = tuple(p for p in range(count) if p in named)
    numbers = {p: k for k, p in enumerate((*kept, *range(count, len(kernel.params) + len(kernel.locals))))}
    body = map_ops(kernel.body, lambda node: renumbered(node, numbers.__getitem__))
    params = (*(kernel.params[p] for p in kept), *kernel.params[count:])
    return dataclasses.replace(kernel, params=params, body=body), kept


class _Given(_Replacing):
    """The kernel that is given what the operations find."""

    def __init__(self, kernel: Kernel, counters: Sequence[Counter]):
        super().__init__(kernel, counters, sum(len(c.events) for c in counters))
        self.inputs = {event: self.first + k for k, event in enumerate(self.events)}
        self.running: dict[Event, int] = {}

    def site(self, node: Op, event: Event) -> None:
        dtype = self.dtype(event)
        if event.loop is None:
            self.find(node, event, self.load(self.inputs[event], *self.place, dtype=dtype))
            return
        running = self.running[event]
        before = self.load(running, ZERO, dtype=dtype)
        following = self.combined(event, before, self.operand(node.values[-1]))
        self.builder.effect("store", ZERO, following, attr=running)
        inside = self.builder.op("inside", *self.operands(node.indices), attr=node.array)
        self.find(node, event, self.builder.op("select", inside, before, zero(dtype)))

    def find(self, node: Op, event: Event, found: Operand) -> None:
        """Note what an operation finds, and with it that no other one finds the same, where that is so."""
        if node.result is None:
            return
        if all(counts_up(n) for e in self.counter[event].events for n in e.sites):
            found = self.builder.op("given", *self.operands(node.indices), found, attr=node.array)
        self.known[node.result] = found

    def before(self, event: Event) -> None:
        self.running[event] = self.local(self.dtype(event))
        found = self.load(self.inputs[event], *self.place, dtype=self.dtype(event))
        self.builder.effect("store", ZERO, found, attr=self.running[event])


def _given(kernel: Kernel, counters: Sequence[Counter]) -> Kernel:
    """The kernel that is given what operations find."""
    replacing = _Given(kernel, counters)
    made = replacing.made(_named(kernel, [(event, ("found", replacing.dtype(event))) for event in replacing.events]))
    gradients = tuple(
        dataclasses.replace(
            g,
            feeds=tuple(
                (kind, replacing.renumber(number) if kind == "array" else number, position)
                for kind, number, position in g.feeds
            ),
        )
        for g in kernel.gradients
    )
    return simplify(dataclasses.replace(made, gradients=gradients))


__all__ = ["Counted", "taken_apart"]
