"""Calls outside kernels on vectors, matrices and numbers, recorded once for their types and evaluated for each call.

The rule of a function is read once, with values that are not known: it emits operations. A call on other numbers of
the same types evaluates these operations, one after another, by the rules that fold constants. So the results have the
same bits as if the call had been read with its numbers for constants, and reading is what takes long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jwarp.caches import Cache
from jwarp.errors import JwarpError
from jwarp.frontend.context import Context, UsesTiles
from jwarp.frontend.values.bindings import Binding, Composite
from jwarp.ir.builder import make_block
from jwarp.ir.evaluate import EVAL_RULES, evaluate_quietly
from jwarp.ir.functions import inlined
from jwarp.ir.nodes import Block, Const, Kernel, Op, Operand, Value
from jwarp.types import CompositeValue, ScalarType, ValueType, float32, float64, number

MAX_PROGRAMS = 1024

# Numbers of other types may select what is computed, as an index of a component does.
_NUMBERS = {kind.dtype: kind for kind in (float32, float64)}


@dataclass(frozen=True)
class HostProgram:
    """Operations over slots: components of the arguments and constants come first, then a result of each step."""

    constants: tuple[Any, ...]
    steps: tuple[tuple[str, tuple[int, ...], ValueType], ...]
    result: tuple[Any, tuple[int, ...]]  # a scalar's or composite's type, and the slots of its components

    def __call__(self, args: Sequence[Any]) -> Any:
        """The result for arguments of the types that the program was recorded for."""
        slots: list[Any] = []
        for x in args:
            slots.extend(np.asarray(x).ravel())
        slots.extend(self.constants)
        with np.errstate(all="ignore"):
            for name, operands, kind in self.steps:
                slots.append(evaluate_quietly(name, [slots[k] for k in operands], kind))
        kind, items = self.result
        if isinstance(kind, ScalarType):
            return number(kind, slots[items[0]][()])
        return np.array([slots[k] for k in items], kind.dtype.dtype).reshape(kind.shape).view(kind)


_programs: Cache[tuple[Any, ...], HostProgram | None] = Cache("programs of calls outside kernels", MAX_PROGRAMS)


def program_for(
    function: Any,
    args: Sequence[Any],
    context: Callable[[], Context],
    read: Callable[[Context, list[Binding]], Binding],
) -> HostProgram | None:
    """The program of a function for the types of `args`; None where these, or what it does, must be known.

    `read` lowers the call on values in a context.
    """

    def recorded() -> HostProgram | None:
        kinds = [_kind(x) for x in args]
        return _recorded(kinds, context(), read) if args and None not in kinds else None

    return _programs.made((function, *map(_type_key, args)), recorded)


def _type_key(value: Any) -> Any:
    """The key of an argument's type; a view of a vector may have other components than its class says."""
    return (type(value), value.dtype, value.shape) if isinstance(value, np.ndarray) else type(value)


def _kind(value: Any) -> Any:
    """The type of an argument whose components may be unknown; None for others."""
    if isinstance(value, CompositeValue):
        kind = _NUMBERS.get(value.dtype)
        whole = kind is not None and value.size and getattr(type(value), "_shape_", None) == value.shape
        return value.type_in_kernels(kind) if whole and kind is not None else None
    return _NUMBERS.get(value.dtype) if isinstance(value, np.floating) else None


def body_of(ctx: Context, items: Any) -> Block:
    """The block that was read, without calls of functions, with these values as its results."""
    body = make_block(ctx.builder.nodes, items)
    return inlined(Kernel("outside", (), 1, body, functions=tuple(ctx.functions.made))).body


def _recorded(
    kinds: Sequence[Any], ctx: Context, read: Callable[[Context, list[Binding]], Binding]
) -> HostProgram | None:
    slots: dict[Operand, int] = {}

    def value(kind: ScalarType) -> Value:
        made = Value(kind)
        slots[made] = len(slots)
        return made

    values: list[Binding] = [
        value(kind)
        if isinstance(kind, ScalarType)
        else Composite(kind, tuple([value(kind.dtype) for _ in range(kind.size)]))
        for kind in kinds
    ]
    try:
        found = read(ctx, values)
    except (JwarpError, UsesTiles):
        return None  # reading the numbers themselves says why, or gives the result
    items = found.items if isinstance(found, Composite) else (found,)
    if ctx.locals or not all(isinstance(x, (Value, Const)) and isinstance(x.type, ScalarType) for x in items):
        return None
    whole = body_of(ctx, items)
    nodes = [node for node in whole.nodes if isinstance(node, Op) and _is_plain(node)]
    if len(nodes) < len(whole.nodes):
        return None
    constants: list[Any] = []

    def slot(operand: Operand) -> int:
        if operand not in slots:
            assert isinstance(operand, Const)
            slots[operand] = len(slots)
            constants.append(np.array(operand.value, operand.type.dtype)[()])
        return slots[operand]

    for operand in (*(x for node in nodes for x in node.args), *whole.yields):
        if isinstance(operand, Const):
            slot(operand)
    steps = []
    for node in nodes:
        assert node.result is not None
        steps.append((node.name, tuple(map(slot, node.args)), node.result.type))
        slots[node.result] = len(slots)
    kind = found.type if isinstance(found, Composite) else whole.yields[0].type
    return HostProgram(tuple(constants), tuple(steps), (kind, tuple(map(slot, whole.yields))))


def _is_plain(node: Op) -> bool:
    """True for an operation that depends on nothing but its arguments."""
    return node.name in EVAL_RULES and node.attr is None and node.result is not None
