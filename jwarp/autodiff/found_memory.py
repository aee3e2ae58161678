"""Accesses of derivatives to memory that kernels find by numbers: at the content that was there, and at its gradient.

A kernel finds elements by their addresses. Its adjoint reads an element where the content is that the launch found, and
adds to the gradient where that of the array is. Rows of spans of memory, each with how far away that is, tell it: the
words of the parameter `moves` are the places of the rows among all words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from jwarp.autodiff.derived_parameters import KINDS, Derived
from jwarp.errors import NotDifferentiableError
from jwarp.ir.attributes import Origin
from jwarp.ir.builder import Builder, make_block
from jwarp.ir.nodes import (
    Const,
    Kernel,
    Node,
    Op,
    Operand,
    Param,
    Value,
    While,
    arrays_changed,
    arrays_read,
    renumbered,
)
from jwarp.ir.visit import Rewriter, map_ops
from jwarp.types import int64, shape_of
from jwarp.types.all_memory import MEMORY, NOWHERE, move_of

# Of a span, a row has three words: its first scalar, the one after its last, and the distance in scalars.
SPAN_WORDS = 3


def at_moved_places(made: Derived, kernel: Kernel) -> Derived:
    """A derivative of a kernel, with its accesses to what the kernel finds by numbers moved.

    Raises:
        NotDifferentiableError: it needs more of what is found than its content and its gradient.
    """
    found = [origin for origin in made.origins if _is_moved(kernel, origin)]
    if not found:
        return made
    tables = [_table(kernel, "moves"), _table(kernel, "table")]
    made = _with_parameters(made, {origin: kernel.params[origin.param] for origin in tables})
    moves, table = map(made.origins.index, tables)
    roles: dict[int, int] = {}
    for k, origin in enumerate(made.origins):
        if origin in found:
            if origin.kind not in _OF_GRADIENTS:
                raise NotDifferentiableError(
                    f"kernel `{kernel.name}`: a derivative was asked for that needs what arrays hold after the launch,"
                    " and the kernel finds them by numbers",
                    kernel.span,
                    "pass the array itself as a parameter",
                )
            kind = made.kernel.params[k].dtype
            roles[k] = move_of(kind, of_gradients=_OF_GRADIENTS[origin.kind])
    body = _Moved(made.kernel, roles, moves, table).block(made.kernel.body)
    return dataclasses.replace(made, kernel=dataclasses.replace(made.kernel, body=body))


_OF_GRADIENTS = {"primal": False, "work": False, "cotangent": True, "gradient": True}


def _is_moved(kernel: Kernel, origin: Origin) -> bool:
    if origin.kind == "dim" or origin.param >= len(kernel.params):
        return False
    param = kernel.params[origin.param]
    return param.is_heap and not param.is_table


def _table(kernel: Kernel, field: str) -> Origin:
    return Origin("primal", next(p for p, param in enumerate(kernel.params) if param.name == f"{MEMORY}.{field}"))


def _with_parameters(made: Derived, more: Mapping[Origin, Param]) -> Derived:
    """The derivative with more parameters, if it does not have them."""
    order = list(KINDS)
    params = {**more, **dict(zip(made.origins, made.kernel.params, strict=True))}
    origins = tuple(sorted(params, key=lambda s: (order.index(s.kind), s.param)))
    numbers = {k: origins.index(origin) for k, origin in enumerate(made.origins)}
    numbers |= {len(made.origins) + k: len(origins) + k for k in range(len(made.kernel.locals))}
    body = map_ops(made.kernel.body, lambda op: renumbered(op, numbers.__getitem__))  # type: ignore[arg-type]
    named = tuple(params[origin] for origin in origins)
    return Derived(dataclasses.replace(made.kernel, params=named, body=body), origins)


class _Moved(Rewriter):
    """Moves the accesses to the arrays in `roles`, which says where in `moves` the places of their rows are."""

    def __init__(self, kernel: Kernel, roles: Mapping[int, int], moves: int, table: int):
        self.kernel, self.roles, self.parameters, self.table = kernel, roles, moves, table

    def nodes(self, node: Node) -> Iterable[Node]:
        if not isinstance(node, Op):
            return super().nodes(node)
        if node.row.is_native and not self.roles.keys().isdisjoint([*arrays_read(node), *arrays_changed(node)]):
            raise self.refusal(node)
        if node.attr not in self.roles or not node.indices:
            return super().nodes(node)
        (index,) = node.indices
        if shape_of(index.type):
            raise self.refusal(node)
        builder = Builder()
        builder.span = node.span
        moved = self.place(builder, self.roles[node.array], index)
        args = tuple(moved if k == 0 else x for k, x in enumerate(node.args))
        builder.append(dataclasses.replace(node, args=args))
        return builder.nodes

    def refusal(self, node: Op) -> NotDifferentiableError:
        return NotDifferentiableError(
            f"kernel `{self.kernel.name}`: a derivative was asked for, and native code, or a tile, takes an array that"
            " the kernel finds by a number",
            node.span,
            "pass the array itself as a parameter",
        )

    def word(self, builder: Builder, array: int, place: Operand) -> Operand:
        found = Value(self.kernel.array(array).dtype)
        builder.append(Op("load", (place,), array, found, builder.span))
        return builder.op("bitcast", found, type=int64)

    def place(self, builder: Builder, role: int, index: Operand) -> Operand:
        """Where the scalar at an index is moved to; nowhere where no span has it."""
        one, two = Const(int64, 1), Const(int64, 2)
        if index.type is not int64:
            index = builder.op("cast", index, type=int64)
        row = self.word(builder, self.parameters, Const(int64, role))
        first = builder.op("add", row, one)

        def of_span(span: Operand, k: int) -> Operand:
            at = builder.op("add", first, builder.op("mul", span, Const(int64, SPAN_WORDS)))
            return self.word(builder, self.table, builder.op("add", at, Const(int64, k)))

        low, high, count = Value(int64), Value(int64), self.word(builder, self.table, row)
        with builder.block() as nodes:
            cond = make_block(nodes, [builder.op("lt", low, high)])
        with builder.block() as nodes:
            middle = builder.op("div", builder.op("add", low, high), two)
            after = builder.op("le", of_span(middle, 0), index)
            body = make_block(
                nodes,
                [
                    builder.op("select", after, builder.op("add", middle, one), low),
                    builder.op("select", after, high, middle),
                ],
            )
        found, _ = results = Value(int64), Value(int64)
        builder.append(While((low, high), (Const(int64, 0), count), cond, body, results, builder.span))
        span = builder.op("max", builder.op("sub", found, one), Const(int64, 0))
        inside = builder.op("lt", index, of_span(span, 1))
        inside = builder.op("and", inside, builder.op("ge", index, of_span(span, 0)))
        return builder.op("select", inside, builder.op("add", index, of_span(span, 2)), Const(int64, NOWHERE))
