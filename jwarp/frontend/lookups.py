"""Look-ups of numbers when a kernel runs: what an id or an address is the number of, among all that is alive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.func import func
from jwarp.frontend.values.axes import Chosen, Located, Part
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    OneOf,
    PythonRef,
    StructValue,
    describe,
)
from jwarp.ir.builder import Builder
from jwarp.ir.nodes import Const, Operand
from jwarp.types import (
    MAX_DIMS,
    AnyType,
    ArrayType,
    CompositeType,
    ScalarType,
    StructArrayType,
    StructType,
    as_scalar,
    int32,
    int64,
    uint16,
    uint32,
    uint64,
    user_type,
)
from jwarp.types.all_memory import BASE, DESCRIPTOR, DESCRIPTOR_WORDS, kind_number
from jwarp.types.handles import SLOTS


class Emitter(Protocol):
    """The operations of the lowering that the rules below use."""

    builder: Builder
    debug: bool
    memory: StructValue | None

    def emit(self, name: str, *args: Operand, span: Span, type: ScalarType | None = None) -> Operand: ...
    def convert(self, binding: Binding, type: ScalarType, span: Span) -> Operand: ...
    def load(self, array: ArrayRef, indices: tuple[Operand, ...], span: Span) -> Binding: ...
    def scalar(self, binding: Binding, span: Span, role: str = "value") -> Operand: ...
    def of_options(self, array: OneOf, each: Callable[[ArrayRef], Binding], span: Span) -> Binding: ...
    def apply(self, function: PythonRef, values: list[Binding], spans: list[Span], span: Span) -> Binding: ...


@func
def span_of(words: Any, table: Any, address: uint64) -> Any:
    """The first byte of the living memory that an address is in, and the one after its last; zeros for none."""
    first = int64(table[0]) + int64(1)
    low = int64(0)
    high = int64(words[first - int64(1)])
    while low < high:
        middle = (low + high) // int64(2)
        if words[first + int64(2) * middle] <= address:
            low = middle + int64(1)
        else:
            high = middle
    start = uint64(0)
    end = uint64(0)
    if low > int64(0):
        start = words[first + int64(2) * (low - int64(1))]
        end = words[first + int64(2) * low - int64(1)]
        if address >= end:
            start = uint64(0)
            end = uint64(0)
    return start, end


@func
def record_of(words: Any, slots: Any, id: uint64, kind: uint64) -> Any:
    """The first word of the record that an id names, of that of nothing where it is of another kind or names none."""
    slot = int32(id % uint64(SLOTS))
    record = int64(slots[0, 1])
    if slots[slot, 0] == id:
        found = int64(slots[slot, 1])
        if words[found] == kind:
            record = found
    return record


def _memory(e: Emitter, span: Span, what: str) -> StructValue:
    """The parameter that has all memory.

    Raises:
        KernelTypeError: there is none, and so no `what`; it `needs_memory`.
    """
    if e.memory is None:
        error = KernelTypeError(
            f"{what} is looked up when the kernel runs, among all that is alive: only launches on mutable arrays that"
            " run now, in host memory, do so",
            span,
            "pass wp.array to wp.launch; under JAX, give arrays, grids, trees and meshes parameters or fields of"
            " structs of their own",
        )
        error.needs_memory = True
        raise error
    return e.memory


def _field(memory: StructValue, name: str) -> ArrayRef:
    found = memory.field(name)
    assert isinstance(found, ArrayRef)
    return found


def heap(memory: StructValue, kind: ScalarType) -> ArrayRef:
    """All memory as scalars of a type."""
    return _field(memory, kind.name)


def located_at(
    e: Emitter, address: Operand, kind: ArrayType, sizes: Sequence[Operand], strides: Sequence[Operand], span: Span,
    name: str,
) -> ArrayRef:  # fmt: skip
    """The array at an address, of which the accesses stay in the living memory there; nothing where there is none.

    `sizes` are int32, `strides` int64, in bytes.
    """
    memory = _memory(e, span, f"`{name}`")
    size = kind.dtype.dtype.itemsize
    shift = Const(int64, size.bit_length() - 1)
    known = e.apply(PythonRef(span_of), [_field(memory, "table"), _field(memory, "words"), address], [span] * 3, span)
    assert isinstance(known, tuple)
    first, end = (_signed(e, e.scalar(x, span), span) for x in known)
    place = _signed(e, address, span)

    def do(name: str, *args: Operand) -> Operand:
        return e.emit(name, *args, span=span)

    low = do("shr", do("add", first, Const(int64, size - 1 - BASE)), shift)
    count = do("shr", do("sub", end, first), shift)
    count = do("max", do("sub", count, Const(int64, _scalars(kind) - 1)), Const(int64, 0))
    fits = do("eq", do("and", place, Const(int64, size - 1)), Const(int64, 0))
    room = do("select", fits, count, Const(int64, 0))
    start = do("shr", do("sub", place, Const(int64, BASE)), shift)
    steps = tuple(do("shr", x, shift) for x in strides)
    at = Located(start, tuple(do("max", x, Const(int32, 0)) for x in sizes), steps, (low, room))
    return ArrayRef(heap(memory, kind.dtype).index, name, kind, (at,))


def array_of_number(e: Emitter, place: Operand, shape: Sequence[Binding], dtype: Any, span: Span) -> ArrayRef:
    """`wp.array(ptr=place, shape=…, dtype=…)` of a number: an array of living memory, or nothing."""
    wanted = dtype.object if isinstance(dtype, PythonRef) else dtype
    element = wanted if isinstance(wanted, CompositeType) else as_scalar(wanted)
    if element is None:
        raise KernelTypeError(
            f"an array of an address has elements of numbers, vectors or matrices, not {describe(dtype)}",
            span,
            "an array of structs has an array for each field: pass it as a parameter",
        )
    if not 1 <= len(shape) <= MAX_DIMS:
        raise KernelTypeError(f"an array has 1 to {MAX_DIMS} dimensions, not {len(shape)}", span)
    sizes = [e.convert(x, int32, span) for x in shape]
    kind = ArrayType(element, len(sizes))
    strides: list[Operand] = [Const(int64, kind.dtype.dtype.itemsize * _scalars(kind))]
    for size in reversed(sizes[1:]):
        wide = e.emit("cast", size, span=span, type=int64)
        strides.insert(0, e.emit("mul", wide, strides[0], span=span))
    return located_at(e, place, kind, sizes, strides, span, "wp.array(ptr=…)")


def described(e: Emitter, array: ArrayRef, indices: tuple[Operand, ...], kind: ArrayType, span: Span) -> ArrayRef:
    """The array that an element of an array of structs holds as a descriptor."""
    _memory(e, span, f"`{array.name}`")
    words = e.load(array, indices, span)
    assert isinstance(words, Composite)
    sizes, strides = _extents(e, words.items, kind.dims, span)
    return located_at(e, words.items[0], kind, sizes, strides, span, array.name)


def words_of(e: Emitter, array: ArrayRef, span: Span) -> Composite:
    """The descriptor of an array, as an element of an array of structs holds it.

    Raises:
        KernelTypeError: it is a local array, or shows elements that indices name.
    """
    if isinstance(array, OneOf):
        found = e.of_options(array, lambda one: words_of(e, one, span), span)
        assert isinstance(found, Composite)
        return found
    if array.is_missing:
        return Composite(DESCRIPTOR, (Const(uint64, 0),) * DESCRIPTOR_WORDS)
    memory = _memory(e, span, f"the address of `{array.name}`")
    if array.is_local or any(isinstance(axis, Chosen) for axis in array.axes):
        what = "a local array, which ends with its thread" if array.is_local else "an indexed array"
        raise KernelTypeError(f"`{array.name}` is {what}, and has no address", span, "pass an array as a parameter")
    place, sizes, strides = _place_of(e, memory, array, span)
    word = e.emit("bitcast", place, span=span, type=uint64)
    extents, steps = (_halves(e, values, span) for values in (sizes, strides))
    return Composite(DESCRIPTOR, (word, Const(uint64, 0), *extents, *steps, Const(uint64, len(sizes))))


def _place_of(
    e: Emitter, memory: StructValue, array: ArrayRef, span: Span
) -> tuple[Operand, list[Operand], list[Operand]]:
    """The address (int64), extents (int32) and strides in bytes (int64) of an array in memory."""

    def do(name: str, *args: Operand) -> Operand:
        return e.emit(name, *args, span=span)

    if array.located is not None:
        width = Const(int64, array.type.dtype.dtype.itemsize)
        start = do("add", do("mul", array.located.start, width), Const(int64, BASE))
        return start, list(array.located.sizes), [do("mul", x, width) for x in array.located.steps]
    row = Const(int32, array.index)
    base: list[Operand] = []
    for k in range(DESCRIPTOR_WORDS):
        base.append(e.scalar(e.load(_field(memory, "arguments"), (row, Const(int32, k)), span), span))
    axes = [*array.axes, *(None,) * (array.type.dims - sum(not isinstance(x, Operand) for x in array.axes))]
    sizes, strides = _extents(e, base, len(axes), span)
    start, shown, steps = _signed(e, base[0], span), list[Operand](), list[Operand]()
    for axis, size, stride in zip(axes, sizes, strides, strict=True):
        if isinstance(axis, Operand):
            negative = do("lt", axis, Const(axis.type, 0))
            counted = do("add", _wide(e, axis, span), do("select", negative, _wide(e, size, span), Const(int64, 0)))
            start = do("add", start, do("mul", counted, stride))
            continue
        step = stride
        if isinstance(axis, Part):
            start = do("add", start, do("mul", _wide(e, axis.start, span), stride))
            step = do("mul", stride, _wide(e, axis.step, span))
        shown.append(axis.count if isinstance(axis, Part) else size)
        steps.append(step)
    return start, shown, steps


def _halves(e: Emitter, values: Sequence[Operand], span: Span) -> tuple[Operand, Operand]:
    """Up to four numbers as two words, two in a word."""
    made: list[Operand] = []
    for value in [*values, *(Const(int32, 0),) * (4 - len(values))]:
        narrow = value if value.type is int32 else e.emit("cast", value, span=span, type=int32)
        made.append(e.emit("cast", e.emit("bitcast", narrow, span=span, type=uint32), span=span, type=uint64))
    first, second = (
        e.emit("or", low, e.emit("shl", high, Const(uint64, 32), span=span), span=span)
        for low, high in zip(made[::2], made[1::2], strict=True)
    )
    return first, second


def object_of(e: Emitter, id: Operand, kinds: Sequence[StructType], span: Span) -> StructValue:
    """The grid, tree, mesh or volume that an id names, an empty one where it names none; an error then in debug mode.

    A function that takes several `kinds` asks for what all of them have in the same words of their records.
    """
    kind = kinds[0]
    memory = _memory(e, span, "an id")
    words = _field(memory, "table")
    slots = _field(memory, "slots")
    nothing = e.emit("bitcast", e.scalar(e.load(slots, (Const(int32, 0), Const(int32, 1)), span), span), span=span,
                     type=int64)  # fmt: skip
    record: Operand = nothing
    for one in reversed(kinds):
        values: list[Binding] = [words, slots, id, Const(uint64, kind_number(one))]
        own = e.scalar(e.apply(PythonRef(record_of), values, [span] * 4, span), span)
        record = e.emit("select", e.emit("eq", own, nothing, span=span), record, own, span=span)
    if e.debug:
        before, e.builder.span = e.builder.span, span
        found = e.emit("ne", record, nothing, span=span)
        e.builder.check(found, f"this number is not the id of a wp.{kind.named} that is alive")
        e.builder.span = before
    place = 0

    def word() -> Operand:
        nonlocal place
        place += 1
        at = e.emit("add", record, Const(int64, place), span=span)
        return e.scalar(e.load(words, (at,), span), span)

    def part(kind: AnyType, name: str) -> Binding:
        if isinstance(kind, StructType):
            return StructValue(kind, tuple(part(inner, f"{name}.{key}") for key, inner in kind.fields.items()))
        assert not isinstance(kind, StructArrayType)
        if isinstance(kind, ArrayType) and kind.dims:
            return _trusted(e, memory, [word() for _ in range(DESCRIPTOR_WORDS)], kind, name, span)
        written = user_type(kind)
        if isinstance(written, CompositeType):
            return Composite(written, tuple(_from_bits(e, word(), written.dtype, span) for _ in range(written.size)))
        assert isinstance(kind, ScalarType)
        return _from_bits(e, word(), kind, span)

    made = part(kind, kind.named)
    assert isinstance(made, StructValue)
    return made


def _trusted(
    e: Emitter, memory: StructValue, words: Sequence[Operand], kind: ArrayType, name: str, span: Span
) -> ArrayRef:
    """An array of a record, which has what is alive alone; its elements lie one after the other."""
    sizes, strides = _extents(e, words, kind.dims, span)
    size, scalars = kind.dtype.dtype.itemsize, _scalars(kind)
    shift = Const(int64, size.bit_length() - 1)
    start = e.emit("sub", _signed(e, words[0], span), Const(int64, BASE), span=span)
    start = e.emit("shr", start, shift, span=span)
    steps = [*(e.emit("shr", x, shift, span=span) for x in strides[:-1]), Const(int64, scalars)]
    return ArrayRef(heap(memory, kind.dtype).index, name, kind, (Located(start, tuple(sizes), tuple(steps)),))


def _extents(e: Emitter, words: Sequence[Operand], dims: int, span: Span) -> tuple[list[Operand], list[Operand]]:
    """The extents, int32, and the strides in bytes, int64, that the words of a descriptor have."""

    def half(word: Operand, k: int, kind: ScalarType) -> Operand:
        if k:
            word = e.emit("shr", word, Const(uint64, 32), span=span)
        low = e.emit("cast", word, span=span, type=uint32)
        low = e.emit("bitcast", low, span=span, type=int32)
        return low if kind is int32 else e.emit("cast", low, span=span, type=kind)

    return (
        [half(words[2 + k // 2], k % 2, int32) for k in range(dims)],
        [half(words[4 + k // 2], k % 2, int64) for k in range(dims)],
    )


def _from_bits(e: Emitter, word: Operand, kind: ScalarType, span: Span) -> Operand:
    """The number whose bits are the low ones of a word."""
    if not kind.is_float:
        return e.emit("cast", word, span=span, type=kind)
    if kind.bits == 64:
        return e.emit("bitcast", word, span=span, type=kind)
    narrow = e.emit("cast", word, span=span, type={32: uint32, 16: uint16}[kind.bits])
    return e.emit("bitcast", narrow, span=span, type=kind)


def _wide(e: Emitter, x: Operand, span: Span) -> Operand:
    """An integer as int64."""
    return x if x.type is int64 else e.emit("cast", x, span=span, type=int64)


def _signed(e: Emitter, word: Operand, span: Span) -> Operand:
    return e.emit("bitcast", word, span=span, type=int64)


def _scalars(kind: ArrayType) -> int:
    """The scalars of an element."""
    count = 1
    for extent in kind.components:
        count *= extent
    return count
