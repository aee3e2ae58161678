"""Finds the values that a thread may leave unchosen, although a derivative goes through them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from jwarp.analysis.activity import Activity
from jwarp.ir.nodes import Block, For, If, Kernel, Op, Operand, Value, While
from jwarp.ir.visit import Visitor

# The arguments that a pure operation chooses between, by their positions.
Chooses = Callable[[Op], Collection[int]]


def maybe_constant(kernel: Kernel, active: Activity, chooses: Chooses) -> frozenset[Value]:
    """The values that a choice may have made constants, of tangent zero, and what is made of such values alone."""
    made = _Sources(active, chooses)
    before = -1
    while made.found != before:
        before = made.found
        made.block(kernel.body)
    return frozenset(made.values)


def maybe_unchosen(kernel: Kernel, active: Activity, chooses: Chooses, contested: Iterable[int]) -> frozenset[Value]:
    """The values that reach a result only by way of a choice: as an argument of `select`, or of a branch or a loop.

    Of what is stored to arrays that are `contested`, one value stays. Where the thread chooses another value, the
    cotangent of such a value is zero.
    """
    uses = _Uses(active, chooses, frozenset(contested), len(kernel.params))
    before = -1
    while uses.found != before:  # loops and arrays hand values from later code to earlier code
        before = uses.found
        uses.block(kernel.body)
    return frozenset(x for x, is_certain in uses.settled.items() if is_certain is False)


@dataclass
class _Uses(Visitor):
    """Goes backward. `uses` says of each value that is used from here on if one of these uses is certain.

    `settled` says so of values whose definition has been reached: None if there is no use.
    """

    active: Activity
    chooses: Chooses
    contested: frozenset[int]
    params: int
    uses: dict[Value, bool] = field(default_factory=dict)
    settled: dict[Value, bool | None] = field(default_factory=dict)
    arrays: set[int] = field(default_factory=set)  # of which an element may be left unchosen
    carried: set[Value] = field(default_factory=set)  # parameters of loops that may be

    @property
    def found(self) -> int:
        return len(self.arrays) + len(self.carried)

    def use(self, x: Operand, is_certain: bool) -> None:
        if isinstance(x, Value) and x in self.active:
            self.uses[x] = self.uses.get(x, False) or is_certain

    def settle(self, x: Value | None) -> bool | None:
        """The uses of a value, whose definition this is."""
        if x is None:
            return None
        found = self.settled[x] = self.uses.pop(x, None)
        return found

    def block(self, block: Block) -> None:
        for node in reversed(block.nodes):
            self.node(node)

    def op(self, node: Op) -> None:
        row, is_certain = node.row, self.settle(node.result)
        if row.is_access:
            if is_certain is False:
                self.arrays.add(node.array)
            is_shared = node.array in self.arrays or node.array in self.contested or node.array >= self.params
            for x in node.values if row.is_write else ():
                self.use(x, not is_shared and not row.is_extremum)
        elif row.is_lasting:
            for x in node.args:
                self.use(x, True)
        elif is_certain is not None:
            chosen = self.chooses(node)
            for k, x in enumerate(node.args):
                self.use(x, is_certain and k not in chosen)

    def branch(self, node: If) -> None:
        results = [self.settle(result) for result in node.results]
        before, sides = self.uses, list[dict[Value, bool]]()
        for block in (node.then, node.orelse):
            self.uses = dict(before)
            for y, is_certain in zip(block.yields, results, strict=True):
                if is_certain is not None:
                    self.use(y, is_certain)
            self.block(block)
            sides.append(self.uses)
        then, orelse = sides
        self.uses = {x: then.get(x, False) and orelse.get(x, False) for x in (*then, *orelse)}

    def loop(self, node: For | While) -> None:
        results = [self.settle(result) for result in node.results]
        before, self.uses = self.uses, {}
        for k, y in enumerate(node.body.yields):
            if node.params[k] in self.active:
                self.use(y, results[k] is True and node.params[k] not in self.carried)
        self.block(node.body)
        params = [self.settle(param) for param in node.params]
        self.carried.update(param for param, is_certain in zip(node.params, params, strict=True) if is_certain is False)
        # A loop may have no iteration.
        self.uses = {x: before.get(x, False) for x in (*before, *self.uses)}
        for k, x in enumerate(node.init):
            self.use(x, results[k] is True and params[k] is True)


@dataclass
class _Sources(Visitor):
    """Goes forward. `values` are those found."""

    active: Activity
    chooses: Chooses
    values: set[Value] = field(default_factory=set)
    arrays: set[int] = field(default_factory=set)

    @property
    def found(self) -> int:
        return len(self.arrays) + len(self.values)

    def choose(self, result: Value, sources: Iterable[Operand]) -> None:
        """`result` is one of several values."""
        if result in self.active and any(x not in self.active or x in self.values for x in sources):
            self.values.add(result)

    def op(self, node: Op) -> None:
        if node.row.is_access:
            if node.row.is_write and any(x in self.values for x in node.values):
                self.arrays.add(node.array)
            if node.array in self.arrays and node.result is not None and node.result in self.active:
                self.values.add(node.result)
        elif node.result is not None and node.result in self.active:
            chosen = self.chooses(node)
            if chosen:
                self.choose(node.result, [node.args[k] for k in chosen])
            elif all(x in self.values for x in node.args if x in self.active) and any(
                x in self.active for x in node.args
            ):
                self.values.add(node.result)

    def branch(self, node: If) -> None:
        self.inside(node)
        for result, *sources in zip(node.results, node.then.yields, node.orelse.yields, strict=True):
            self.choose(result, sources)

    def loop(self, node: For | While) -> None:
        before = -1
        while before != self.found:
            before = self.found
            for param, *sources in zip(node.params, node.init, node.body.yields, strict=True):
                if param in self.active and any(x in self.values for x in sources):
                    self.values.add(param)
            self.inside(node)
        self.values.update(r for r, p in zip(node.results, node.params, strict=True) if p in self.values)
