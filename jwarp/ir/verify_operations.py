"""The rules of single operations that a well-formed kernel keeps, beyond the table of operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jwarp.ir.attributes import (
    Detached,
    Extent,
    NativeCall,
    RecordField,
    RecordFields,
    Rule,
)
from jwarp.ir.formats import conversions
from jwarp.ir.native import check_call, parts_of
from jwarp.ir.nodes import (
    Kernel,
    Op,
    Operand,
    Param,
    arrays_changed,
    arrays_read,
    walk,
)
from jwarp.ir.operation import INT
from jwarp.ir.ops import OPS
from jwarp.ir.row_groups import Stage
from jwarp.ir.tile_types import Misfit, tile_result
from jwarp.ir.units import unit_sizes
from jwarp.types import (
    ArrayType,
    ScalarType,
    ValueType,
    bool_,
    int32,
    int64,
    scalar_of,
    shape_of,
    with_shape,
)

# Fields of a record on the tape.
MAX_FIELDS = 4096


class Fault(Exception):
    """A fault of the current node, which becomes an InvalidIR that names the node."""


def _parameter(kernel: Kernel, index: Any) -> Param:
    if type(index) is not int or not 0 <= index < len(kernel.params):
        raise Fault(f"there is no parameter {index!r}")
    return kernel.params[index]


def _array(kernel: Kernel, index: Any) -> ArrayType:
    """The type of a parameter that is an array, or of a local array."""
    count = len(kernel.params) + len(kernel.locals)
    if type(index) is not int or not 0 <= index < count:
        raise Fault(f"there is no array {index!r}")
    array = kernel.array(index)
    if not isinstance(array.type, ArrayType):
        raise Fault(f"parameter {array.name} is not an array")
    return array.type


def _axis(axis: Any, count: int) -> None:
    if type(axis) is not int or not 0 <= axis < count:
        raise Fault(f"axis {axis!r} is not one of {count}")


def _element(kernel: Kernel, node: Op, indices: Sequence[Operand]) -> ValueType:
    """The type of what `node` accesses at `indices`: an element, or a tile of elements."""
    array = _array(kernel, node.array)
    if len(indices) != array.ndim:
        raise Fault(f"{len(indices)} indices for an array of {array.ndim} dimensions")
    if any(i.type.kind not in INT for i in indices):
        raise Fault("indices must be integers")
    shapes = {shape_of(i.type) for i in indices}
    if len(shapes) != 1:
        raise Fault(f"indices of several shapes: {', '.join(str(i.type) for i in indices)}")
    return with_shape(array.dtype, shapes.pop())


def _check_tid(kernel: Kernel, node: Op) -> None:
    _axis(node.number, kernel.tid_dims)


def _check_param(kernel: Kernel, node: Op) -> ScalarType:
    param = _parameter(kernel, node.number)
    if isinstance(param.type, ArrayType):
        raise Fault(f"parameter {param.name} is not a scalar")
    return param.type


def _check_shape(kernel: Kernel, node: Op) -> None:
    extent = node.attr_as(Extent)
    param = _parameter(kernel, extent.array)
    if not isinstance(param.type, ArrayType):
        raise Fault(f"parameter {param.name} is not an array")
    _axis(extent.axis, param.type.ndim)


def _check_load(kernel: Kernel, node: Op) -> ValueType:
    return _element(kernel, node, node.args)


def _check_write(kernel: Kernel, node: Op) -> ValueType | None:
    indices = node.indices
    element = _element(kernel, node, indices)
    for value in node.args[len(indices) :]:
        if value.type is not element:
            raise Fault(f"{value.type} is written to an array of {element}")
    return None if node.result is None or node.row.is_store else element


def _check_clear(kernel: Kernel, node: Op) -> None:
    _array(kernel, node.array)
    if kernel.local(node.array) is None:
        raise Fault(f"{kernel.array(node.array).name} is not a local array")


def _check_push(kernel: Kernel, node: Op) -> None:
    flags = node.attr_as(RecordFields).uniform
    if len(flags) != len(node.args) or len(flags) >= MAX_FIELDS:
        raise Fault(f"{len(flags)} flags for {len(node.args)} values, of which there may be {MAX_FIELDS}")


def _check_top(kernel: Kernel, node: Op) -> ValueType:
    field = node.attr_as(RecordField)
    record = _record(kernel, field.tape)
    if not 0 <= field.field < len(record.args):
        raise Fault(f"tape {field.tape} has no field {field.field}")
    return record.args[field.field].type


def _check_pop(kernel: Kernel, node: Op) -> None:
    _record(kernel, node.number)


def _record(kernel: Kernel, tape: int) -> Op:
    """The operation that adds records to a tape."""
    found = [n for n in walk(kernel.body) if isinstance(n, Op) and n.row.adds_to_tape]
    found = [n for n in found if n.attr_as(RecordFields).tape == tape]
    if len(found) != 1:
        raise Fault(f"tape {tape!r} has {len(found)} operations that add records")
    return found[0]


def _check_log(kernel: Kernel, node: Op) -> None:
    _element(kernel, node, node.args)


def _check_logged(kernel: Kernel, node: Op) -> None:
    _array(kernel, node.array)
    if node.row.restores_until and any(scalar_of(a.type) is not int64 for a in node.args):
        raise Fault("takes an int64")


def _check_bookmark(kernel: Kernel, node: Op) -> None:
    if kernel.block_dim:
        raise Fault("does not occur in a kernel with tiles")
    _array(kernel, node.array)


def _check_noted(kernel: Kernel, node: Op) -> ScalarType:
    _check_bookmark(kernel, node)
    return _array(kernel, node.array).dtype


def _check_note(kernel: Kernel, node: Op) -> None:
    if node.args[0].type is not _check_noted(kernel, node):
        raise Fault(f"takes a {kernel.array(node.array).dtype}, not {node.args[0].type}")


def _check_rewind(kernel: Kernel, node: Op) -> None:
    _check_bookmark(kernel, node)
    if node.args[0].type is not int64:
        raise Fault("takes an int64")


def _check_tile(kernel: Kernel, node: Op) -> ValueType:
    try:
        return tile_result(node.name, tuple(a.type for a in node.args), node.attr)
    except Misfit as reason:
        raise Fault(str(reason)) from None


def _check_unit(kernel: Kernel, node: Op) -> None:
    arrays = (*arrays_changed(node), *arrays_read(node))
    try:
        sizes = unit_sizes(node)
    except ValueError as error:
        raise Fault(str(error)) from None
    for number, size in zip(arrays, sizes, strict=True):
        local = kernel.local(number) if isinstance(number, int) and _array(kernel, number) else None
        if local is None or not local.shared or local.size != size or size < 1:
            raise Fault(f"array {number!r} holds no {size} elements of a block")
    if len(arrays) == 2 and len(set(arrays)) == 1:
        raise Fault("works on two arrays")


def _check_nothing(kernel: Kernel, node: Op) -> None:
    """The type of the attribute says all."""


def _check_rule(kernel: Kernel, node: Op) -> None:
    rule = node.attr_as(Rule)
    if not 0 <= rule.gradient < len(kernel.gradients):
        raise Fault(f"there is no gradient {rule.gradient}")
    for array in rule.arrays:
        _array(kernel, array)


def _check_detach(kernel: Kernel, node: Op) -> None:
    if not node.args:
        raise Fault("has no operand")
    if node.attr is not None:
        for array in node.attr_as(Detached).arrays:
            _array(kernel, array)
    elif len(node.args) > 1:
        raise Fault("has sources, but no rule")


def _check_native(kernel: Kernel, node: Op) -> ValueType:
    call = node.attr_as(NativeCall)
    for array in (*call.reads, *call.changes):
        _array(kernel, array)
    try:
        check_call(call, [a.type for a in node.args])
    except ValueError as error:
        raise Fault(str(error)) from None
    return int32


def _check_part(kernel: Kernel, node: Op) -> None:
    made = [n for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_native and n.result in node.args]
    if not made:
        raise Fault("is no part of what native code gives")
    parts = parts_of(made[0].attr_as(NativeCall))
    if node.number >= len(parts) or node.result is None or node.result.type is not parts[node.number]:
        raise Fault(f"there is no such part among {parts}")


def _check_call(kernel: Kernel, node: Op) -> None:
    if not 0 <= node.number < len(kernel.functions):
        raise Fault(f"there is no function {node.number!r}")
    wanted, given = [p.type for p in kernel.functions[node.number].params], [a.type for a in node.args]
    if wanted != given:
        raise Fault(f"takes {wanted}, not {given}")


def _check_inside(kernel: Kernel, node: Op) -> None:
    _element(kernel, node, node.args)


def _check_print(kernel: Kernel, node: Op) -> None:
    if "\0" in node.text:
        raise Fault("the format text ends too early")
    try:
        wanted = conversions(node.text)
    except ValueError as error:
        raise Fault(str(error)) from None
    if len(wanted) != len(node.args) or not all(w.takes(a.type) for w, a in zip(wanted, node.args, strict=True)):
        raise Fault("the arguments are not those that the format asks for")


def _check_bitcast(node: Op, result: ValueType) -> None:
    if result.bits != node.args[0].type.bits or scalar_of(result) is bool_:
        raise Fault("the result must have as many bits as the argument")


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
        raise Fault(f"gives int64s, not {result}")


# Rules beyond those for the type of a result that neither the table nor a parameter decides.
RESULT_RULES: dict[str, Callable[[Op, ValueType], None]] = {
    "bitcast": _check_bitcast,
    "mark": _check_mark,
    "bookmark": _check_mark,
}
