"""Checks that a kernel is well formed: definitions, types, attributes and structure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from jwarp.errors import Span
from jwarp.ir.attributes import (
    described,
)
from jwarp.ir.evaluate import represents
from jwarp.ir.functions import reading_what_changes
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    Function,
    If,
    Kernel,
    Local,
    Node,
    Op,
    Operand,
    Value,
    While,
    operands,
    results,
    walk,
)
from jwarp.ir.operation import Operation
from jwarp.ir.ops import COMBINERS
from jwarp.ir.printing import short_file
from jwarp.ir.row_groups import Stage
from jwarp.ir.verify_operations import ATTR_RULES, RESULT_RULES, Fault
from jwarp.types import (
    MAX_DIMS,
    SCALARS,
    ArrayType,
    ScalarType,
    TileType,
    ValueType,
    bool_,
    scalar_of,
    shape_of,
    tile_type,
    with_shape,
)

# Local arrays live on the stack, a vector of threads at a time: so many bytes for each thread.
MAX_LOCAL_BYTES = 16 << 10
# Tiles live there too, once for each worker.
MAX_SHARED_BYTES = 1 << 20
MAX_BLOCK_DIM = 1024


class InvalidIR(ValueError):
    """A kernel that breaks a rule of the IR; the text names the kernel and the node."""


def verify(kernel: Kernel, stage: Stage = Stage.DERIVED) -> None:
    """Raise InvalidIR unless every rule of the IR holds for a kernel at a stage of the pipeline.

    A derivative may have all that a kernel has as it was written, and so the default takes both.
    """
    _Verifier(kernel, stage).run()


class _Verifier:
    def __init__(self, kernel: Kernel, stage: Stage):
        self.kernel, self.stage = kernel, stage
        self.defined: set[Value] = set()
        self.visible: set[Value] = set()
        self.cleared = {  # local arrays that hold something here
            number for number, local in enumerate(kernel.locals, len(kernel.params)) if local.shared
        }
        self.calls: dict[Operand, Op] = {}  # by what stands for their results
        self.mapped: tuple[int, ...] = ()  # the shape of the mapped control flow at hand

    def run(self) -> None:
        kernel = self.kernel
        try:
            if type(kernel.tid_dims) is not int or not 1 <= kernel.tid_dims <= MAX_DIMS:
                raise Fault(f"tid_dims must be 1 to {MAX_DIMS}, not {kernel.tid_dims!r}")
            if len({p.name for p in kernel.params}) != len(kernel.params):
                raise Fault("two parameters have the same name")
            for param in kernel.params:
                if not _is_type(param.type):
                    raise Fault(f"parameter {param.name} has type {param.type!r}")
            for local in kernel.locals:
                _check_local(local)
            if type(kernel.block_dim) is not int or not 0 <= kernel.block_dim <= MAX_BLOCK_DIM:
                raise Fault(f"block_dim must be 0 to {MAX_BLOCK_DIM}, not {kernel.block_dim!r}")
            for shared, limit in ((False, MAX_LOCAL_BYTES), (True, MAX_SHARED_BYTES)):
                arrays = [local for local in kernel.locals if local.shared is shared]
                if sum(local.size * local.dtype.bits // 8 for local in arrays) > limit:
                    raise Fault(f"the local arrays need more than {limit} bytes")
            for number, function in enumerate(kernel.functions):
                self.function(number, function)
            self.block(kernel.body, (), ())
            if (wrong := reading_what_changes(kernel)) is not None:
                raise Fault(f"function {wrong.name} reads an array that is no parameter, or that the kernel changes")
        except Fault as fault:
            raise InvalidIR(self.message(str(fault), "", kernel.span)) from None

    def function(self, number: int, function: Function) -> None:
        """Check a function, which calls those before it alone."""
        for node in walk(function.body):
            if isinstance(node, Op) and not node.row.in_functions:
                raise Fault(f"{node.name} in function {function.name}")
            if isinstance(node, Op) and node.row.is_call and not node.number < number:
                raise Fault(f"function {function.name} calls function {node.number}, which is not before it")
        self.block(function.body, function.params, [y.type for y in function.body.yields])

    def message(self, reason: str, node: str, span: Span) -> str:
        where = f" ({short_file(span)}:{span.line})" if span.line else ""
        return f"kernel {self.kernel.name}{where}: {node}{reason}"

    def block(self, block: Block, inside: tuple[Value, ...], yields: Sequence[ValueType]) -> None:
        """Check a block that also sees `inside` and must yield values of the given types."""
        before, cleared = set(self.visible), set(self.cleared)
        self.define(inside)
        for node in block.nodes:
            try:
                self.node(node)
            except Fault as fault:
                name = node.name if isinstance(node, Op) else type(node).__name__
                raise InvalidIR(self.message(str(fault), f"{name}: ", node.span)) from None
        self.use(block.yields)
        if [y.type for y in block.yields] != list(yields):
            raise Fault(f"yields {[y.type for y in block.yields]} where {list(yields)} are expected")
        self.visible, self.cleared = before, cleared

    def define(self, values: Sequence[Value]) -> None:
        for value in values:
            if not isinstance(value, Value) or not self.is_value_type(value.type):
                raise Fault(f"{value!r} is not a value")
            if self.mapped and shape_of(value.type) != self.mapped:
                raise Fault(f"{value.type} is defined where every value is a tile of shape {self.mapped}")
            if value in self.defined:
                raise Fault("a value is defined twice")
            self.defined.add(value)
            self.visible.add(value)

    def use(self, used: Sequence[Operand]) -> None:
        for position, operand in enumerate(used):
            if isinstance(operand, Const):
                if not self.is_value_type(operand.type) or not represents(scalar_of(operand.type), operand.value):
                    raise Fault(f"constant {operand.value!r} is not exactly one of {operand.type}")
            elif not isinstance(operand, Value):
                raise Fault(f"{operand!r} is not a value")
            elif operand not in self.visible:
                reason = "is not visible here" if operand in self.defined else "is not defined"
                raise Fault(f"operand {position} of type {operand.type} {reason}")

    def node(self, node: Node) -> None:
        self.use(operands(node))
        match node:
            case Op():
                self.operation(node)
            case If():
                types = [r.type for r in node.results]
                _require_bool(node.cond)
                with self.inside(node.cond.type):
                    self.block(node.then, (), types)
                    self.block(node.orelse, (), types)
            case For():
                _check_counting(node)
                with self.inside(node.index.type):
                    self.block(node.body, (node.index, *node.params), _carried_types(node))
            case While():
                types = _carried_types(node)
                # The body sees the params too, so they are defined around both blocks.
                before = set(self.visible)
                goes_on = node.cond.yields[0].type if node.cond.yields else bool_
                with self.inside(goes_on):
                    self.define(node.params)
                    self.block(node.cond, (), [with_shape(bool_, shape_of(goes_on))])
                    self.block(node.body, (), types)
                self.visible = before
        self.define(results(node))

    @contextlib.contextmanager
    def inside(self, control: ValueType) -> Iterator[None]:
        """Check what control flow decided by a value of type `control` has inside, and results in."""
        before, shape = self.mapped, shape_of(control)
        if before and shape != before:
            raise Fault(f"control by {control} where every value is a tile of shape {before}")
        self.mapped = shape
        yield
        self.mapped = before

    def is_value_type(self, type_: Any) -> bool:
        """True if values of the kernel may have this type."""
        if isinstance(type_, TileType):
            return self.kernel.block_dim > 0 and tile_type(type_.scalar, type_.shape) is type_
        return _is_scalar(type_)

    def operation(self, node: Op) -> None:
        row = node.row
        if self.stage not in row.stages:
            raise Fault(f"does not occur in a kernel {self.stage.value}")
        kinds = [a.type.kind for a in node.args]
        if row.arity is not None and len(node.args) != row.arity:
            raise Fault(f"takes {row.arity} arguments, not {len(node.args)}")
        if row.arity is None and len(node.args) < row.least:
            raise Fault("takes arguments")
        if any(kind not in row.kinds for kind in kinds):
            raise Fault(f"does not take arguments of kinds {', '.join(kinds)}")
        if self.mapped and row.is_tile:
            raise Fault(f"is no operation for the single elements of a tile of shape {self.mapped}")
        if not row.is_tile and row.shape_of(tuple(a.type for a in node.args)) is None:
            raise Fault(f"does not take operands of several shapes: {', '.join(str(a.type) for a in node.args)}")
        if not row.fits(node.attr):
            wanted = "has no attr" if row.attribute is None else f"attr must be {described(row.attribute)}"
            raise Fault(f"{wanted}, but here it is {node.attr!r}")
        rule = ATTR_RULES.get(node.name)
        from_attr = rule(self.kernel, node) if rule else None
        self.result(node, row, from_attr)
        if row.is_outlined:
            self.call(node)
        if node.row.clears:
            self.cleared.add(node.array)
        elif row.is_access:
            local = self.kernel.local(node.array)
            if local is not None and node.array not in self.cleared:
                raise Fault(f"local array {local.name} is not cleared before")

    def call(self, node: Op) -> None:
        """Check that a part is one of a call."""
        if node.row.is_call:
            assert node.result is not None
            self.calls[node.result] = node
            return
        made = self.calls.get(node.args[0])
        if made is None:
            raise Fault("is no part of what a function gives")
        parts = [y.type for y in self.kernel.functions[made.number].body.yields]
        if node.number >= len(parts) or node.result is None or node.result.type is not parts[node.number]:
            raise Fault(f"there is no such part among {parts}")

    def result(self, node: Op, row: Operation, from_attr: ValueType | None) -> None:
        if row.is_lasting:
            if node.result is not None and (from_attr is None or node.result.type is not from_attr):
                raise Fault(f"gives {from_attr}, not {node.result.type}" if from_attr else "has no result")
            return
        if node.result is None:
            raise Fault("has a result, but here it has none")
        expected = from_attr
        if row.result is not None:
            expected = row.result(tuple(a.type for a in node.args))
            if expected is None:
                raise Fault(f"does not take arguments of types {[a.type for a in node.args]}")
        if expected is not None and node.result.type is not expected:
            raise Fault(f"gives {expected}, not {node.result.type}")
        if rule := RESULT_RULES.get(node.name):
            rule(node, node.result.type)


def _is_scalar(type_: Any) -> bool:
    return isinstance(type_, ScalarType) and SCALARS.get(type_.name) is type_


def _is_type(type_: Any) -> bool:
    if isinstance(type_, ArrayType):
        components = type_.components
        counts = type(type_.dims) is int and 0 <= type_.dims <= MAX_DIMS and type_.ndim >= 1
        return _is_scalar(type_.dtype) and all(type(n) is int and n >= 1 for n in components) and counts
    return _is_scalar(type_)


def _check_local(local: Local) -> None:
    shape, kind = local.shape, local.type
    if not isinstance(kind, ArrayType) or not _is_type(kind) or kind.dims == 0:
        raise Fault(f"local array {local.name} has type {kind!r}")
    extents = type(shape) is tuple and all(type(n) is int and 1 <= n <= MAX_SHARED_BYTES for n in shape)
    if not extents or len(shape) != kind.ndim or shape[kind.dims :] != kind.components:
        raise Fault(f"local array {local.name} of type {kind} has extents {shape}")


def _require_bool(cond: Operand) -> None:
    if scalar_of(cond.type) is not bool_:
        raise Fault(f"the condition is {cond.type}, not bool")


def _check_counting(node: For) -> None:
    type_ = node.index.type
    if not type_.is_int or node.lo.type is not type_ or node.hi.type is not type_:
        raise Fault(f"index {type_} runs from {node.lo.type} to {node.hi.type}")
    if type(node.step) is not int or not 0 < abs(node.step) <= type_.max:
        raise Fault(f"step {node.step!r} does not fit {type_}")
    if node.lanes is not None and (len(node.lanes) != len(node.params) or not set(node.lanes) <= set(COMBINERS)):
        raise Fault(f"{node.lanes!r} does not combine {len(node.params)} values")


def _carried_types(node: For | While) -> list[ValueType]:
    """The types that a loop carries, after checking that its lists agree on them."""
    types = [p.type for p in node.params]
    if [i.type for i in node.init] != types or [r.type for r in node.results] != types:
        raise Fault("the carried values, their initial values and the results differ in type or number")
    return types
