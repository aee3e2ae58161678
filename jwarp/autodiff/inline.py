"""Gradients where they stand in a kernel, for `wp.grad`: forward mode in all directions at once.

What it makes are ordinary operations, so derivatives of the kernel go through them as through any others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from jwarp.autodiff.custom_gradients import Inlined
from jwarp.autodiff.scalar_rules import Applied
from jwarp.autodiff.tile_rules import rules_of
from jwarp.errors import CompileError, NotDifferentiableError
from jwarp.frontend.lowering.derivatives import Differentiated, install
from jwarp.ir.attributes import ArrayNumber, Detached, Rule
from jwarp.ir.builder import Builder, make_block, zero
from jwarp.ir.nodes import Block, Const, For, Gradient, If, Node, Op, Operand, Value, While
from jwarp.ir.operation import Operation
from jwarp.ir.visit import Rebuilder
from jwarp.types import TileType

# The tangents of a value, by the number of the input that they are tangents by.
Tangents = dict[int, Operand]


def gradients(
    builder: Builder,
    nodes: Sequence[Node],
    inputs: Sequence[tuple[Value, Operand]],
    results: Sequence[Operand],
    authored: Sequence[Gradient],
    function: Differentiated,
) -> list[Operand]:
    """The gradient of the sum of the float `results` by each of the `inputs`, of which `nodes` make them.

    Raises:
        NotDifferentiableError: there is no exact rule for an operation on the way; it names the line.
        CompileError: `nodes` write to other arrays.
    """
    twins: dict[tuple[int, int], int] = {}
    while True:  # until no more elements of arrays are found to change along some input
        made = _Directions(builder, authored, function, dict(twins))
        for k, (value, operand) in enumerate(inputs):
            made.known[value] = operand
            made.tangents[value] = {k: Const(value.type, 1.0)}
        with builder.block() as found_nodes:
            made.nodes(Block(tuple(nodes)))
        if made.twins == twins:
            break
        twins = made.twins
    builder.extend(found_nodes)
    builder.span = function.span
    found = []
    for k, (value, _) in enumerate(inputs):
        parts = [made.of(x)[k] for x in results if k in made.of(x)]
        total: Operand = zero(value.type)
        for number, part in enumerate(parts):
            same = builder.op("cast", part, type=value.type)
            total = builder.op("add", total, same) if number else same
        found.append(total)
    return found


def _is_plain_write(row: Operation) -> bool:
    """True if tangents are written by the same operation: it clears, stores or adds."""
    changes = row.attribute is ArrayNumber and row.changes_elements and not row.uses_log
    return changes and (not row.is_atomic or row.is_addition)


class _Directions(Rebuilder):
    """Builds operations with what their results change by along each input."""

    def __init__(
        self,
        builder: Builder,
        authored: Sequence[Gradient],
        function: Differentiated,
        twins: dict[tuple[int, int], int],
    ):
        """`twins` has the local arrays of the tangents of others, by their number and that of the input."""
        super().__init__()
        self.builder, self.authored, self.function, self.name = builder, authored, function, function.name
        self.twins = twins
        self.tangents: dict[Value, Tangents] = {}
        self.rules: dict[int, Op] = {}
        # The values that replace others where a derivative computes them again.
        self.again: dict[Value, Operand] = {}

    def of(self, x: Operand) -> Tangents:
        """The tangents of a value; a direction that is not among them has tangent zero."""
        return self.tangents.get(x, {}) if isinstance(x, Value) else {}

    # -- operations

    def op(self, node: Op) -> None:
        row = node.row
        if _is_plain_write(row) and node.array in self.function.own:
            self.keep(node)
            return self.write(node)
        if row.is_write or isinstance(getattr(node.result, "type", None), TileType):
            what = "uses tiles" if not row.is_write else "writes to an array"
            raise CompileError(f"`{self.name}` {what}, so wp.grad cannot take its gradient", node.span)
        if row.is_native:
            raise CompileError(
                f"`{self.name}` calls native code, through which wp.grad does not go", node.span,
                "let it call the function that stands for it on processors",
            )  # fmt: skip
        self.keep(node)
        if node.row.is_rule:
            self.rules[node.attr_as(Rule).gradient] = node
        if node.result is None:
            return
        self.repeat(node)
        self.tangents.pop(node.result, None)
        if node.row.is_detached:
            made = self.detached(node)
        elif node.row.is_load:
            made = self.loaded(node)
        else:
            made = self.pure(node) if any(self.of(x) for x in node.args) else {}
        if made:
            self.tangents[node.result] = made

    def write(self, node: Op) -> None:
        """Let the tangents of a local array change as its elements do."""
        if node.row.clears:
            for twin in self.twins_of(node.array).values():
                self.builder.effect("clear", attr=twin)
            return
        tangents = self.of(node.args[-1])
        for k in tangents:
            if (node.array, k) not in self.twins:
                self.twins[node.array, k] = self.function.twin(node.array)
        if node.args[-1] in self.again:
            raise NotDifferentiableError(
                f"wp.grad({self.name}): what a replay gives is stored in a local array", node.span, "use a variable"
            )
        before: Tangents = {}
        for k, twin in self.twins_of(node.array).items():
            args = (*self.operands(node.args[:-1]), tangents.get(k, zero(node.args[-1].type)))
            result = None if node.result is None else Value(node.result.type)
            self.builder.append(Op(node.name, args, twin, result, node.span))
            if result is not None:
                before[k] = result
        if node.result is not None:
            self.tangents[node.result] = before

    def loaded(self, node: Op) -> Tangents:
        assert node.result is not None
        found: Tangents = {}
        for k, twin in self.twins_of(node.array).items():
            found[k] = loaded = Value(node.result.type)
            self.builder.append(Op("load", self.operands(node.args), twin, loaded, node.span))
        return found

    def twins_of(self, array: int) -> dict[int, int]:
        """The arrays of the tangents of a local array, by the number of the input."""
        return {k: twin for (own, k), twin in self.twins.items() if own == array}

    def repeat(self, node: Op) -> None:
        """Note what a derivative takes the result of an operation for."""
        assert node.result is not None
        self.again.pop(node.result, None)
        args = self.repeated(node.args)
        if node.row.derivative.has_replay:
            self.again[node.result] = args[1]
        elif node.row.is_pure and args != self.operands(node.args):
            self.again[node.result] = self.builder.op(node.name, *args, attr=node.attr, type=node.result.type)

    def repeated(self, xs: Iterable[Operand]) -> tuple[Operand, ...]:
        return tuple(self.again.get(x, self.operand(x)) if isinstance(x, Value) else x for x in xs)

    def pure(self, node: Op) -> Tangents:
        assert node.result is not None
        if row_gives_none(node):
            return {}
        rules = rules_of(node)
        through_bits = any(a.type.is_int and self.of(a) for a in node.args) or node.row.transfer.reinterprets
        if rules is None or through_bits:
            raise NotDifferentiableError(
                f"wp.grad({self.name}): there is no derivative of {node.name}",
                node.span,
                "take the gradient of a function without it",
            )
        result = self.again.get(node.result, node.result)
        applied = Applied(self.builder, self.repeated(node.args), result, node.name, node.attr)
        found: Tangents = {}
        for x, rule in zip(node.args, rules, strict=True):
            if rule is None:
                continue
            for k, tangent in self.of(x).items():
                self.add(found, k, rule.forward(applied, tangent))
        return found

    def add(self, found: Tangents, direction: int, part: Operand) -> None:
        found[direction] = self.builder.op("add", found[direction], part) if direction in found else part

    def detached(self, node: Op) -> Tangents:
        """By the gradient that its author gave a function: a row of the Jacobian for one result."""
        if node.attr is None:
            return {}
        attr = node.attr_as(Detached)
        gradient = self.authored[attr.rule]
        arrays = {number for kind, number, _ in gradient.feeds if kind == "array"}
        # A stored value comes before the rule, and its numbers are the operands of the rule.
        is_stored = attr.result < 0
        given = node.args[1:] if is_stored else self.rules[attr.rule].args
        if not any(map(self.of, given)) and not any(map(self.twins_of, arrays)):
            return {}
        if arrays or is_stored:
            raise NotDifferentiableError(
                f"wp.grad({self.name}): a function on the way has a gradient of its own and takes arrays",
                node.span,
                "give it the elements that it needs",
            )
        rule, row = self.rules[attr.rule], dict[int, Operand]()

        def add(position: int, value: Operand) -> None:
            row[position] = self.builder.op("add", row[position], value) if position in row else value

        arguments: Any = self.operands(rule.args)
        nothing: Any = None  # of which it asks about arrays
        Inlined(self.builder, nothing, gradient, arguments, _unit(gradient, attr.result), nothing, add).run()
        found: Tangents = {}
        for position, slope in row.items():
            for k, tangent in self.of(rule.args[position]).items():
                same = self.builder.op("cast", self.builder.op("mul", slope, tangent), type=node.args[0].type)
                self.add(found, k, same)
        return found

    # -- control flow

    def branch(self, node: If) -> None:
        sides = [self.side(block) for block in (node.then, node.orelse)]
        places = sorted({(k, d) for _, tangents in sides for k, each in enumerate(tangents) for d in each})
        made = [Value(node.results[k].type) for k, _ in places]
        then, orelse = (self.yielding(nodes, block, tangents, places)
                        for (nodes, tangents), block in zip(sides, (node.then, node.orelse), strict=True))  # fmt: skip
        self.bind(node.results, places, made)
        self.builder.append(If(self.operand(node.cond), then, orelse, (*node.results, *made), node.span))

    def side(self, block: Block) -> tuple[list[Node], list[Tangents]]:
        with self.builder.block() as nodes:
            self.nodes(block)
        return nodes, [self.of(x) for x in block.yields]

    def yielding(
        self, nodes: Iterable[Node], block: Block, tangents: Sequence[Tangents], places: Sequence[tuple[int, int]]
    ) -> Block:
        extra = [tangents[k].get(d, zero(block.yields[k].type)) for k, d in places]
        return make_block(nodes, [*self.operands(block.yields), *extra])

    def bind(self, values: Sequence[Value], places: Sequence[tuple[int, int]], made: Sequence[Value]) -> None:
        for value in values:
            self.tangents.pop(value, None)
        for (k, d), tangent in zip(places, made, strict=True):
            self.tangents.setdefault(values[k], {})[d] = tangent

    def loop(self, node: For | While) -> None:
        places = sorted((k, d) for k, x in enumerate(node.init) for d in self.of(x))
        while True:  # until what the body hands on adds no direction
            params = [Value(node.params[k].type) for k, _ in places]
            self.bind(node.params, places, params)
            nodes, tangents = self.side(node.body)
            more = {(k, d) for k, each in enumerate(tangents) for d in each}.difference(places)
            if not more:
                break
            places = sorted({*places, *more})
        body = self.yielding(nodes, node.body, tangents, places)
        init = [
            *self.operands(node.init),
            *(self.of(node.init[k]).get(d, zero(node.params[k].type)) for k, d in places),
        ]
        results = [Value(node.results[k].type) for k, _ in places]
        self.bind(node.results, places, results)
        changed = dataclasses.replace(
            node, params=(*node.params, *params), init=tuple(init), results=(*node.results, *results), body=body
        )
        if isinstance(changed, While):
            test, _ = self.side(changed.cond)
            changed = dataclasses.replace(changed, cond=make_block(test, self.operands(changed.cond.yields)))
        else:
            changed = dataclasses.replace(changed, lo=self.operand(changed.lo), hi=self.operand(changed.hi))
        self.builder.append(changed)


def row_gives_none(node: Op) -> bool:
    """True if the result has no derivative: a truth value, or a float rounded to an integer."""
    assert node.result is not None
    rounded = node.result.type.is_int and not node.row.transfer.reinterprets
    return node.result.type.kind == "bool" or rounded


def _unit(gradient: Gradient, result: int) -> tuple[Operand, ...]:
    """Cotangents of the results of a call that are one for the scalar number `result` and zero for others."""
    found: list[Operand] = []
    for param, (kind, _, _) in zip(gradient.kernel.params, gradient.feeds, strict=True):
        if kind == "cotangent":
            count = 1
            for extent in getattr(param.type, "components", ()):
                count *= extent
            found += [zero(param.dtype)] * count
    found[result] = Const(found[result].type, 1.0)
    return tuple(found)


install(gradients)
