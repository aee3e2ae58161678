"""Checks that a kernel is well formed: definitions, types, attributes and structure."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jwarp.errors import Span
from jwarp.ir.attributes import (
    Detached,
    Extent,
    NativeCall,
    RecordField,
    RecordFields,
    Rule,
    described,
)
from jwarp.ir.evaluate import represents
from jwarp.ir.formats import conversions
from jwarp.ir.functions import reading_what_changes
from jwarp.ir.native import check_call, parts_of
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
    Param,
    Value,
    While,
    arrays_changed,
    arrays_read,
    operands,
    results,
    walk,
)
from jwarp.ir.operation import INT, Operation
from jwarp.ir.ops import COMBINERS, OPS
from jwarp.ir.printing import short_file
from jwarp.ir.row_groups import Stage
from jwarp.ir.tile_types import Misfit, tile_result
from jwarp.ir.units import unit_sizes
from jwarp.types import (
    MAX_DIMS,
    SCALARS,
    ArrayType,
    ScalarType,
    TileType,
    ValueType,
    bool_,
    int32,
    int64,
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
# Fields of a record on the tape.
MAX_FIELDS = 4096


class InvalidIR(ValueError):
    """A kernel that breaks a rule of the IR; the text names the kernel and the node."""


def verify(kernel: Kernel, stage: Stage = Stage.DERIVED) -> None:
    """Raise InvalidIR unless every rule of the IR holds for a kernel at a stage of the pipeline.

    A derivative may have all that a kernel has as it was written, and so the default takes both.
    """
    _Verifier(kernel, stage).run()


class _Fault(Exception):
    """A fault of the current node, which becomes an InvalidIR that names the node."""


def _parameter(kernel: Kernel, index: Any) -> Param:
    if type(index) is not int or not 0 <= index < len(kernel.params):
        raise _Fault(f"there is no parameter {index!r}")
    return kernel.params[index]


def _array(kernel: Kernel, index: Any) -> ArrayType:
    """The type of a parameter that is an array, or of a local array."""
    count = len(kernel.params) + len(kernel.locals)
    if type(index) is not int or not 0 <= index < count:
        raise _Fault(f"there is no array {index!r}")
    array = kernel.array(index)
    if not isinstance(array.type, ArrayType):
        raise _Fault(f"parameter {array.name} is not an array")
    return array.type


def _axis(axis: Any, count: int) -> None:
    if type(axis) is not int or not 0 <= axis < count:
        raise _Fault(f"axis {axis!r} is not one of {count}")


def _element(kernel: Kernel, node: Op, indices: Sequence[Operand]) -> ValueType:
    """The type of what `node` accesses at `indices`: an element, or a tile of elements."""
    array = _array(kernel, node.array)
    if len(indices) != array.ndim:
        raise _Fault(f"{len(indices)} indices for an array of {array.ndim} dimensions")
    if any(i.type.kind not in INT for i in indices):
        raise _Fault("indices must be integers")
    shapes = {shape_of(i.type) for i in indices}
    if len(shapes) != 1:
        raise _Fault(f"indices of several shapes: {', '.join(str(i.type) for i in indices)}")
    return with_shape(array.dtype, shapes.pop())


def _check_tid(kernel: Kernel, node: Op) -> None:
    _axis(node.number, kernel.tid_dims)


def _check_param(kernel: Kernel, node: Op) -> ScalarType:
    param = _parameter(kernel, node.number)
    if isinstance(param.type, ArrayType):
        raise _Fault(f"parameter {param.name} is not a scalar")
    return param.type


def _check_shape(kernel: Kernel, node: Op) -> None:
    extent = node.attr_as(Extent)
    param = _parameter(kernel, extent.array)
    if not isinstance(param.type, ArrayType):
        raise _Fault(f"parameter {param.name} is not an array")
    _axis(extent.axis, param.type.ndim)


def _check_load(kernel: Kernel, node: Op) -> ValueType:
    return _element(kernel, node, node.args)


def _check_write(kernel: Kernel, node: Op) -> ValueType | None:
    indices = node.indices
    element = _element(kernel, node, indices)
    for value in node.args[len(indices) :]:
        if value.type is not element:
            raise _Fault(f"{value.type} is written to an array of {element}")
    return None if node.result is None or node.row.is_store else element


def _check_clear(kernel: Kernel, node: Op) -> None:
    _array(kernel, node.array)
    if kernel.local(node.array) is None:
        raise _Fault(f"{kernel.array(node.array).name} is not a local array")


def _check_push(kernel: Kernel, node: Op) -> None:
    flags = node.attr_as(RecordFields).uniform
    if len(flags) != len(node.args) or len(flags) >= MAX_FIELDS:
        raise _Fault(f"{len(flags)} flags for {len(node.args)} values, of which there may be {MAX_FIELDS}")


def _check_top(kernel: Kernel, node: Op) -> ValueType:
    field = node.attr_as(RecordField)
    record = _record(kernel, field.tape)
    if not 0 <= field.field < len(record.args):
        raise _Fault(f"tape {field.tape} has no field {field.field}")
    return record.args[field.field].type


def _check_pop(kernel: Kernel, node: Op) -> None:
    _record(kernel, node.number)


def _record(kernel: Kernel, tape: int) -> Op:
    """The operation that adds records to a tape."""
    found = [n for n in walk(kernel.body) if isinstance(n, Op) and n.row.adds_to_tape]
    found = [n for n in found if n.attr_as(RecordFields).tape == tape]
    if len(found) != 1:
        raise _Fault(f"tape {tape!r} has {len(found)} operations that add records")
    return found[0]


def _check_log(kernel: Kernel, node: Op) -> None:
    _element(kernel, node, node.args)


def _check_logged(kernel: Kernel, node: Op) -> None:
    _array(kernel, node.array)
    if node.row.restores_until and any(scalar_of(a.type) is not int64 for a in node.args):
        raise _Fault("takes an int64")


def _check_bookmark(kernel: Kernel, node: Op) -> None:
    if kernel.block_dim:
        raise _Fault("does not occur in a kernel with tiles")
    _array(kernel, node.array)


def _check_noted(kernel: Kernel, node: Op) -> ScalarType:
    _check_bookmark(kernel, node)
    return _array(kernel, node.array).dtype


def _check_note(kernel: Kernel, node: Op) -> None:
    if node.args[0].type is not _check_noted(kernel, node):
        raise _Fault(f"takes a {kernel.array(node.array).dtype}, not {node.args[0].type}")


def _check_rewind(kernel: Kernel, node: Op) -> None:
    _check_bookmark(kernel, node)
    if node.args[0].type is not int64:
        raise _Fault("takes an int64")


def _check_tile(kernel: Kernel, node: Op) -> ValueType:
    try:
        return tile_result(node.name, tuple(a.type for a in node.args), node.attr)
    except Misfit as reason:
        raise _Fault(str(reason)) from None


def _check_unit(kernel: Kernel, node: Op) -> None:
    arrays = (*arrays_changed(node), *arrays_read(node))
    try:
        sizes = unit_sizes(node)
    except ValueError as error:
        raise _Fault(str(error)) from None
    for number, size in zip(arrays, sizes, strict=True):
        local = kernel.local(number) if isinstance(number, int) and _array(kernel, number) else None
        if local is None or not local.shared or local.size != size or size < 1:
            raise _Fault(f"array {number!r} holds no {size} elements of a block")
    if len(arrays) == 2 and len(set(arrays)) == 1:
        raise _Fault("works on two arrays")


def _check_nothing(kernel: Kernel, node: Op) -> None:
    """The type of the attribute says all."""


def _check_rule(kernel: Kernel, node: Op) -> None:
    rule = node.attr_as(Rule)
    if not 0 <= rule.gradient < len(kernel.gradients):
        raise _Fault(f"there is no gradient {rule.gradient}")
    for array in rule.arrays:
        _array(kernel, array)


def _check_detach(kernel: Kernel, node: Op) -> None:
    if not node.args:
        raise _Fault("has no operand")
    if node.attr is not None:
        for array in node.attr_as(Detached).arrays:
            _array(kernel, array)
    elif len(node.args) > 1:
        raise _Fault("has sources, but no rule")


def _check_native(kernel: Kernel, node: Op) -> ValueType:
    call = node.attr_as(NativeCall)
    for array in (*call.reads, *call.changes):
        _array(kernel, array)
    try:
        check_call(call, [a.type for a in node.args])
    except ValueError as error:
        raise _Fault(str(error)) from None
    return int32


def _check_part(kernel: Kernel, node: Op) -> None:
    made = [n for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_native and n.result in node.args]
    if not made:
        raise _Fault("is no part of what native code gives")
    parts = parts_of(made[0].attr_as(NativeCall))
    if node.number >= len(parts) or node.result is None or node.result.type is not parts[node.number]:
        raise _Fault(f"there is no such part among {parts}")


def _check_call(kernel: Kernel, node: Op) -> None:
    if not 0 <= node.number < len(kernel.functions):
        raise _Fault(f"there is no function {node.number!r}")
    wanted, given = [p.type for p in kernel.functions[node.number].params], [a.type for a in node.args]
    if wanted != given:
        raise _Fault(f"takes {wanted}, not {given}")


def _check_inside(kernel: Kernel, node: Op) -> None:
    _element(kernel, node, node.args)


def _check_print(kernel: Kernel, node: Op) -> None:
    if "\0" in node.text:
        raise _Fault("the format text ends too early")
    try:
        wanted = conversions(node.text)
    except ValueError as error:
        raise _Fault(str(error)) from None
    if len(wanted) != len(node.args) or not all(w.takes(a.type) for w, a in zip(wanted, node.args, strict=True)):
        raise _Fault("the arguments are not those that the format asks for")


def _check_bitcast(node: Op, result: ValueType) -> None:
    if result.bits != node.args[0].type.bits or scalar_of(result) is bool_:
        raise _Fault("the result must have as many bits as the argument")


# Rules beyond the table of operations and the types of attributes, and the result type where a parameter decides it.
ATTR_RULES: dict[str, Callable[[Kernel, Op], ValueType | None]] = {
    **{name: _check_tile for name, row in OPS.items() if row.is_tile and Stage.DERIVED in row.stages},
    **{name: _check_unit for name, row in OPS.items() if row.code.is_unit},
    "tid": _check_tid,
    "param": _check_param,
    "shape": _check_shape,
    "load": _check_load,
    "recall": _check_load,
    "clear": _check_clear,
    "push": _check_push,
    "top": _check_top,
    "pop": _check_pop,
    "save": _check_log,
    "mark": _check_logged,
    "undo": _check_logged,
    "rollback": _check_logged,
    "note": _check_note,
    "noted": _check_noted,
    "bookmark": _check_bookmark,
    "rewind": _check_rewind,
    "thread": _check_nothing,
    "rule": _check_rule,
    "detach": _check_detach,
    "lane_max": _check_nothing,
    "inside": _check_inside,
    "prefetch": _check_inside,
    "on_gpu": _check_nothing,
    "native": _check_native,
    "native_part": _check_part,
    "call": _check_call,
    "call_part": _check_nothing,
    "check": _check_nothing,
    "print": _check_print,
    **{name: _check_write for name, row in OPS.items() if row.is_write},
}


def _check_mark(node: Op, result: ValueType) -> None:
    if scalar_of(result) is not int64:
        raise _Fault(f"gives int64s, not {result}")


# Rules beyond those for the type of a result that neither the table nor a parameter decides.
RESULT_RULES: dict[str, Callable[[Op, ValueType], None]] = {
    "bitcast": _check_bitcast,
    "mark": _check_mark,
    "bookmark": _check_mark,
}


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
                raise _Fault(f"tid_dims must be 1 to {MAX_DIMS}, not {kernel.tid_dims!r}")
            if len({p.name for p in kernel.params}) != len(kernel.params):
                raise _Fault("two parameters have the same name")
            for param in kernel.params:
                if not _is_type(param.type):
                    raise _Fault(f"parameter {param.name} has type {param.type!r}")
            for local in kernel.locals:
                _check_local(local)
            if type(kernel.block_dim) is not int or not 0 <= kernel.block_dim <= MAX_BLOCK_DIM:
                raise _Fault(f"block_dim must be 0 to {MAX_BLOCK_DIM}, not {kernel.block_dim!r}")
            for shared, limit in ((False, MAX_LOCAL_BYTES), (True, MAX_SHARED_BYTES)):
                arrays = [local for local in kernel.locals if local.shared is shared]
                if sum(local.size * local.dtype.bits // 8 for local in arrays) > limit:
                    raise _Fault(f"the local arrays need more than {limit} bytes")
            for number, function in enumerate(kernel.functions):
                self.function(number, function)
            self.block(kernel.body, (), ())
            if (wrong := reading_what_changes(kernel)) is not None:
                raise _Fault(f"function {wrong.name} reads an array that is no parameter, or that the kernel changes")
        except _Fault as fault:
            raise InvalidIR(self.message(str(fault), "", kernel.span)) from None

    def function(self, number: int, function: Function) -> None:
        """Check a function, which calls those before it alone."""
        for node in walk(function.body):
            if isinstance(node, Op) and not node.row.in_functions:
                raise _Fault(f"{node.name} in function {function.name}")
            if isinstance(node, Op) and node.row.is_call and not node.number < number:
                raise _Fault(f"function {function.name} calls function {node.number}, which is not before it")
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
            except _Fault as fault:
                name = node.name if isinstance(node, Op) else type(node).__name__
                raise InvalidIR(self.message(str(fault), f"{name}: ", node.span)) from None
        self.use(block.yields)
        if [y.type for y in block.yields] != list(yields):
            raise _Fault(f"yields {[y.type for y in block.yields]} where {list(yields)} are expected")
        self.visible, self.cleared = before, cleared

    def define(self, values: Sequence[Value]) -> None:
        for value in values:
            if not isinstance(value, Value) or not self.is_value_type(value.type):
                raise _Fault(f"{value!r} is not a value")
            if self.mapped and shape_of(value.type) != self.mapped:
                raise _Fault(f"{value.type} is defined where every value is a tile of shape {self.mapped}")
            if value in self.defined:
                raise _Fault("a value is defined twice")
            self.defined.add(value)
            self.visible.add(value)

    def use(self, used: Sequence[Operand]) -> None:
        for position, operand in enumerate(used):
            if isinstance(operand, Const):
                if not self.is_value_type(operand.type) or not represents(scalar_of(operand.type), operand.value):
                    raise _Fault(f"constant {operand.value!r} is not exactly one of {operand.type}")
            elif not isinstance(operand, Value):
                raise _Fault(f"{operand!r} is not a value")
            elif operand not in self.visible:
                reason = "is not visible here" if operand in self.defined else "is not defined"
                raise _Fault(f"operand {position} of type {operand.type} {reason}")

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
            raise _Fault(f"control by {control} where every value is a tile of shape {before}")
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
            raise _Fault(f"does not occur in a kernel {self.stage.value}")
        kinds = [a.type.kind for a in node.args]
        if row.arity is not None and len(node.args) != row.arity:
            raise _Fault(f"takes {row.arity} arguments, not {len(node.args)}")
        if row.arity is None and len(node.args) < row.least:
            raise _Fault("takes arguments")
        if any(kind not in row.kinds for kind in kinds):
            raise _Fault(f"does not take arguments of kinds {', '.join(kinds)}")
        if self.mapped and row.is_tile:
            raise _Fault(f"is no operation for the single elements of a tile of shape {self.mapped}")
        if not row.is_tile and row.shape_of(tuple(a.type for a in node.args)) is None:
            raise _Fault(f"does not take operands of several shapes: {', '.join(str(a.type) for a in node.args)}")
        if not row.fits(node.attr):
            wanted = "has no attr" if row.attribute is None else f"attr must be {described(row.attribute)}"
            raise _Fault(f"{wanted}, but here it is {node.attr!r}")
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
                raise _Fault(f"local array {local.name} is not cleared before")

    def call(self, node: Op) -> None:
        """Check that a part is one of a call."""
        if node.row.is_call:
            assert node.result is not None
            self.calls[node.result] = node
            return
        made = self.calls.get(node.args[0])
        if made is None:
            raise _Fault("is no part of what a function gives")
        parts = [y.type for y in self.kernel.functions[made.number].body.yields]
        if node.number >= len(parts) or node.result is None or node.result.type is not parts[node.number]:
            raise _Fault(f"there is no such part among {parts}")

    def result(self, node: Op, row: Operation, from_attr: ValueType | None) -> None:
        if row.is_lasting:
            if node.result is not None and (from_attr is None or node.result.type is not from_attr):
                raise _Fault(f"gives {from_attr}, not {node.result.type}" if from_attr else "has no result")
            return
        if node.result is None:
            raise _Fault("has a result, but here it has none")
        expected = from_attr
        if row.result is not None:
            expected = row.result(tuple(a.type for a in node.args))
            if expected is None:
                raise _Fault(f"does not take arguments of types {[a.type for a in node.args]}")
        if expected is not None and node.result.type is not expected:
            raise _Fault(f"gives {expected}, not {node.result.type}")
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
        raise _Fault(f"local array {local.name} has type {kind!r}")
    extents = type(shape) is tuple and all(type(n) is int and 1 <= n <= MAX_SHARED_BYTES for n in shape)
    if not extents or len(shape) != kind.ndim or shape[kind.dims :] != kind.components:
        raise _Fault(f"local array {local.name} of type {kind} has extents {shape}")


def _require_bool(cond: Operand) -> None:
    if scalar_of(cond.type) is not bool_:
        raise _Fault(f"the condition is {cond.type}, not bool")


def _check_counting(node: For) -> None:
    type_ = node.index.type
    if not type_.is_int or node.lo.type is not type_ or node.hi.type is not type_:
        raise _Fault(f"index {type_} runs from {node.lo.type} to {node.hi.type}")
    if type(node.step) is not int or not 0 < abs(node.step) <= type_.max:
        raise _Fault(f"step {node.step!r} does not fit {type_}")
    if node.lanes is not None and (len(node.lanes) != len(node.params) or not set(node.lanes) <= set(COMBINERS)):
        raise _Fault(f"{node.lanes!r} does not combine {len(node.params)} values")


def _carried_types(node: For | While) -> list[ValueType]:
    """The types that a loop carries, after checking that its lists agree on them."""
    types = [p.type for p in node.params]
    if [i.type for i in node.init] != types or [r.type for r in node.results] != types:
        raise _Fault("the carried values, their initial values and the results differ in type or number")
    return types
