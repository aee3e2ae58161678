"""Adds to a kernel the checks that a setting asks for: bounds, NaN and races."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from jwarp.errors import Span
from jwarp.ir.attributes import ArrayNumber
from jwarp.ir.builder import make_block, zero
from jwarp.ir.nodes import (
    Block,
    Const,
    If,
    Kernel,
    Node,
    Op,
    Operand,
    Param,
    Value,
    blocks,
    failure_texts,
    is_found,
    operands,
    walk,
)
from jwarp.ir.visit import Rebuilder, Rewriter
from jwarp.types import ArrayType, ScalarType, int64, shape_of, uint32, with_shape

# How an access touches its element, and what is said of the other thread.
_DOES = {"store": "stores to", "load": "reads", "atomic": "changes atomically"}


def instrument(kernel: Kernel, *, bounds: bool, values: bool) -> Kernel:
    """Add a check of every access (`bounds`), and of NaN and races (`values`).

    For these the kernel gets parameters, after its own, that start as zeros: an array like that of each `shadowed` one.
    """
    if not (bounds or values):
        return kernel
    made = _Instrumenter(kernel, bounds, values)
    body = made.whole_body()
    return dataclasses.replace(kernel, params=(*kernel.params, *made.hidden), body=body)


def shadowed(kernel: Kernel) -> tuple[int, ...]:
    """The parameters that checks of races have an array for, one for each manner of access; of either kernel."""
    return tuple(param for param, manners in _racing(kernel).items() for _ in manners)


def without_checks(kernel: Kernel) -> Kernel:
    """`kernel` without any check."""
    return dataclasses.replace(kernel, body=_Unchecked().block(kernel.body)) if failure_texts(kernel) else kernel


class _Unchecked(Rewriter):
    def nodes(self, node: Node) -> Iterable[Node]:
        return () if isinstance(node, Op) and node.row.is_check else super().nodes(node)


def _manner(node: Op) -> str:
    return "atomic" if node.row.is_atomic else node.name


def _racing(kernel: Kernel) -> dict[int, tuple[str, ...]]:
    """How the arrays are touched on which threads can race: written, and not only by atomic operations."""
    touched: dict[int, dict[str, None]] = {}
    for node in walk(kernel.body):
        if isinstance(node, Op) and node.row.is_access:
            touched.setdefault(node.array, {})[_manner(node)] = None
    shared = {p: tuple(how) for p, how in touched.items() if kernel.local(p) is None and not is_found(kernel, p)}
    return {p: how for p, how in shared.items() if set(how) not in ({"load"}, {"atomic"})}


@dataclass(frozen=True)
class Test:
    """A check: a condition, and the message and place of its failure."""

    holds: Operand
    text: str
    span: Span


def _only_selected(body: Block) -> set[Operand]:
    """The values that nothing but a `select` reads, to choose them or not."""
    chosen: set[Operand] = set()
    read: set[Operand] = set(body.yields)
    for node in walk(body):
        used = operands(node)
        if isinstance(node, Op) and node.row.transfer.chooses:
            chosen.update(used[1:])
            used = used[:1]
        read.update(used, *(block.yields for block in blocks(node)))
    return chosen - read


class _Instrumenter(Rebuilder):
    """Puts checks around the operations of a kernel."""

    def __init__(self, kernel: Kernel, bounds: bool, values: bool):
        super().__init__()
        self.kernel, self.bounds, self.values = kernel, bounds, values
        # Indices that have been tested in this block or around it.
        self.tested: set[tuple] = set()
        self.racing = _racing(kernel) if values else {}
        # One array for each manner of touching: who did it to each element, 0 for nobody.
        pairs = [(param, manner) for param, manners in self.racing.items() for manner in manners]
        self.shadows = {pair: len(kernel.params) + k for k, pair in enumerate(pairs)}
        self.hidden = [self._shadow(*pair) for pair in pairs]
        self.marks: dict[ScalarType, Operand] = {}
        self.selected = _only_selected(kernel.body) if values else set()
        self.pending: dict[Value, list[Test]] = {}

    def _shadow(self, param: int, manner: str) -> Param:
        shadowed = self.kernel.params[param]
        assert isinstance(shadowed.type, ArrayType)
        return Param(f"{manner} of {shadowed.name}", ArrayType(uint32, shadowed.type.ndim))

    def whole_body(self) -> Block:
        with self.builder.block() as nodes:
            if self.racing:
                number = Value(int64)
                self.builder.append(Op("thread", (), None, number))
                mark = self.builder.op("cast", self.builder.op("add", number, Const(int64, 1)), type=uint32)
                self.marks[uint32] = mark
                ops = (n for n in walk(self.kernel.body) if isinstance(n, Op))
                accesses = (n for n in ops if n.row.is_access and n.array in self.racing)
                for shape in sorted({shape_of(n.args[0].type) for n in accesses} - {()}):
                    self.marks[with_shape(uint32, shape)] = self.builder.op("fill", mark, attr=shape)
            self.nodes(self.kernel.body)
        return make_block(nodes)

    def block(self, block: Block) -> Block:
        before = set(self.tested)
        made = super().block(block)
        self.tested = before
        return made

    def op(self, node: Op) -> None:
        row = node.row
        if row.is_access and self.bounds:
            self.check_bounds(node)
        if row.is_access and node.array in self.racing:
            self.check_races(node)
        if row.attribute is ArrayNumber:
            self.builder.append(dataclasses.replace(node, attr=self.number(node.array)))
        else:
            self.builder.append(node)
        if self.values and node.result is not None and node.result.type.is_float:
            self.check_nan(node, node.result)

    def number(self, array: int) -> int:
        """The number of array `array` after hidden parameters are inserted before the local arrays."""
        return array + len(self.hidden) * (array >= len(self.kernel.params))

    def check_bounds(self, node: Op) -> None:
        array = self.kernel.array(node.array)
        assert isinstance(array.type, ArrayType)
        indices, dims = node.indices, array.type.dims
        pairs = zip(indices[dims:], array.type.components, strict=True)
        if all(isinstance(i, Const) and 0 <= i.value < extent for i, extent in pairs):
            # The components of an element are inside together.
            indices = (*indices[:dims], *(zero(i.type) for i in indices[dims:]))
        key = (node.attr, indices)
        # A derivative finds by numbers the gradient of an array, which may have none.
        if is_found(self.kernel, node.array) and self.kernel.variant != "forward":
            return
        # Tiles may stick out of arrays: what they load there is zero.
        if dims == 0 or key in self.tested or shape_of(indices[0].type):
            return
        self.tested.add(key)
        is_inside = self.builder.op("inside", *indices, attr=self.number(node.array))
        named = "an array that the kernel finds by a number" if is_found(self.kernel, node.array) else f"`{array.name}`"
        self.builder.check(is_inside, f"index outside of {named}")

    def check_nan(self, node: Op, result: Value) -> None:
        """Refuse a NaN made of numbers; one that a `select` may pass over, where it is selected."""
        tests = self.selected_tests(node) if node.row.transfer.chooses else self.own_test(node, result)
        if result in self.selected:
            self.pending[result] = tests
            return
        for test in tests:
            self.builder.span = test.span
            self.builder.check(test.holds, test.text)

    def own_test(self, node: Op, result: Value) -> list[Test]:
        if not node.row.makes_nan:
            return []
        op = self.builder.op
        holds = op("eq", result, result)
        for arg in node.args:
            if arg.type.is_float:
                holds = op("or", holds, op("ne", arg, arg))
        return [Test(holds, f"`{node.name}` gives NaN", node.span)]

    def selected_tests(self, node: Op) -> list[Test]:
        """The tests of what a `select` chooses from, which count for what it chooses."""
        op = self.builder.op
        cond, *options = node.args
        found = []
        for passed_over, option in zip((op("not", cond), cond), options, strict=True):
            tests = self.pending.get(option, []) if isinstance(option, Value) else []
            for test in tests:
                holds = op("select", passed_over, Const(test.holds.type, True), test.holds)
                found.append(dataclasses.replace(test, holds=holds))
        return found

    def check_races(self, node: Op) -> None:
        """Leave this thread's number at the element, then look for those of others.

        Of two threads at one element, the one that comes second finds the other's number.
        """
        op, place, manner = self.builder.op, node.indices, _manner(node)
        own, mark = self.shadows[node.array, manner], with_shape(uint32, shape_of(place[0].type))
        before = op("atomic_cas", *place, zero(mark), self.mark(mark), attr=own, type=mark)
        if manner == "store":
            self.refuse_other(before, node, manner)
        else:
            with self.builder.block() as nodes:
                self.builder.append(Op("atomic_exch", (*place, Const(mark, uint32.max)), own, None, node.span))
            another = op("not", self.nobody_else(before))
            self.builder.append(If(another, make_block(nodes), make_block([]), (), node.span))
        for other in self.racing[node.array]:
            if other != manner:
                # An exchange that changes nothing: a plain load could move to before this thread's mark.
                shadow = self.shadows[node.array, other]
                seen = op("atomic_cas", *place, zero(mark), zero(mark), attr=shadow, type=mark)
                self.refuse_other(seen, node, other)

    def mark(self, type_: ScalarType) -> Operand:
        """The number of this thread, or of this block for each element of a tile."""
        return self.marks[type_]

    def nobody_else(self, seen: Operand) -> Operand:
        op = self.builder.op
        return op("or", op("eq", seen, zero(seen.type)), op("eq", seen, self.mark(seen.type)))

    def refuse_other(self, seen: Operand, node: Op, other: str) -> None:
        name = self.kernel.params[node.array].name
        text = f"race: this thread {_DOES[_manner(node)]} an element of `{name}` that another thread {_DOES[other]}"
        self.builder.check(self.nobody_else(seen), text)
