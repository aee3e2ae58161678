"""Bindings, the things that names stand for while a kernel is read; and how Python constants become bindings."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.canonicalise import canonical
from jwarp.frontend.values.axes import Axis as Axis
from jwarp.frontend.values.axes import Chosen as Chosen
from jwarp.frontend.values.axes import Located, axis_layout, rebuilt_axis, scalars_of
from jwarp.frontend.values.axes import Part as Part
from jwarp.frontend.values.views import View
from jwarp.ir.evaluate import fold
from jwarp.ir.nodes import Const, Operand, Value
from jwarp.types import (
    ArrayType,
    CompositeType,
    CompositeValue,
    ElementType,
    ScalarType,
    StackKind,
    Struct,
    StructArrayType,
    StructType,
    TileKind,
    bool_,
    float32,
    float64,
    from_dtype,
    int32,
    int64,
    user_type,
)
from jwarp.types.structs import with_fields


@dataclass(frozen=True, eq=False)
class Number:
    """A Python number that has no type yet: an int becomes int32, a float float32, a bool bool."""

    value: bool | int | float

    def __eq__(self, other: object) -> bool:  # 1, 1.0 and True differ, and so do 0.0 and -0.0
        return isinstance(other, Number) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))

    @property
    def type(self) -> ScalarType:
        """The type that the number gets where nothing asks for another one."""
        if isinstance(self.value, bool):
            return bool_
        return int32 if isinstance(self.value, int) else float32

    def as_type(self, type: ScalarType, span: Span) -> Const:
        """The number converted to `type`, from its full precision."""
        value = self.value
        if isinstance(value, int) and type.is_int and not isinstance(value, bool):
            if not -(1 << 63) <= value < 1 << 64:
                raise KernelTypeError(f"the integer {value} does not fit 64 bits", span)
            wrapped = value & ((1 << type.bits) - 1)
            return Const(type, wrapped - (1 << type.bits) if wrapped > type.max else wrapped)
        if isinstance(value, bool):
            source = bool_
        elif not isinstance(value, int):
            source = float64
        elif int64.min <= value <= int64.max:
            source = int64
        else:
            source, value = float64, _as_float(value, span)
        constant = fold("cast", (Const(source, value),), type) if source is not type else Const(type, value)
        assert constant is not None
        return constant


def _as_float(value: int, span: Span) -> float:
    try:
        return float(value)
    except OverflowError:
        raise KernelTypeError("this integer does not fit any type of the kernel language", span) from None


# The number of the array that nobody gave.
NO_ARRAY = -1


@dataclass(frozen=True)
class ArrayRef:
    """An array of the kernel, or a view of one: rows of it, every second element, those that indices name.

    `index` is the array's number in the IR, `axes` says what is shown of its first axes; the others are shown whole.
    `type` is that of the view. A local array has known `extents`, all of its own, a parameter has not. The array that
    nobody gave, Warp's null array, has the number `NO_ARRAY` and no elements.
    """

    index: int
    name: str
    type: ArrayType
    axes: tuple[Axis, ...] = ()
    extents: tuple[int, ...] | None = None

    @property
    def is_local(self) -> bool:
        """True for a local array, which belongs to one thread."""
        return self.extents is not None

    @property
    def located(self) -> Located | None:
        """Where an array is that was found by a number: then this is its only axis."""
        first = self.axes[0] if self.axes else None
        return first if isinstance(first, Located) else None

    @property
    def is_missing(self) -> bool:
        """True for the array that the caller did not pass."""
        return self.index == NO_ARRAY

    @property
    def shown(self) -> list[tuple[int, Part | Chosen | None]]:
        """For each axis of the view, which one of the array it is, and what it shows of that."""
        known = [(k, axis) for k, axis in enumerate(self.axes) if axis is None or isinstance(axis, (Part, Chosen))]
        rest = range(len(self.axes), len(self.axes) + self.type.dims - len(known))
        return [*known, *((k, None) for k in rest)]

    @property
    def row(self) -> tuple[Operand, ...] | None:
        """The indices of the row that it is, () for a whole array; None if it is neither."""
        found = tuple(axis for axis in self.axes if isinstance(axis, (Value, Const)))
        return found if len(found) == len(self.axes) else None


# The number of an array that is one of several: there is none in the IR.
ONE_OF_SEVERAL = -2
FIRST = Const(int32, 0)


@dataclass(frozen=True)
class OneOf(ArrayRef):
    """One of several arrays, or views of arrays, all of one type: which one is known when the kernel runs.

    `which` is the number of the one among the `options`. What the others show does not matter.
    """

    options: tuple[ArrayRef, ...] = ()
    which: Operand = FIRST

    @property
    def row(self) -> None:
        """It is no row of one array."""
        return None

    def with_options(self, options: Sequence[ArrayRef]) -> OneOf:
        """The same views of other options."""
        return dataclasses.replace(self, type=options[0].type, options=tuple(options))


@dataclass(frozen=True)
class Composite:
    """A vector or matrix, as its components in row-major order."""

    type: CompositeType
    items: tuple[Operand, ...]

    @property
    def rows(self) -> tuple[tuple[Operand, ...], ...]:
        """The components of each row of a matrix; of others, all in one row."""
        width = self.type.shape[-1] or 1
        return tuple(self.items[k : k + width] for k in range(0, len(self.items), width))

    @property
    def transposed(self) -> Composite:
        """The matrix with rows and columns exchanged."""
        return Composite(self.type.transposed, tuple(x for column in zip(*self.rows, strict=True) for x in column))


@dataclass(frozen=True)
class Stored:
    """A variable that is a vector or matrix and has its components in a local array: what that holds when it is read.

    Only the table of variables and what a function returns have it; who reads the variable gets a `Composite`.
    """

    array: ArrayRef

    @property
    def type(self) -> CompositeType:
        """The type of the vector or matrix."""
        assert isinstance(self.array.type.element, CompositeType)
        return self.array.type.element


@dataclass(frozen=True)
class Referenced(Stored):
    """A parameter of a function that is an element of an array, or a part of one: it is read and changed there.

    `array` shows that element alone, in no dimensions.
    """

    array: ArrayRef | StructArray  # type: ignore[assignment]

    @property
    def type(self) -> Any:
        """The type of the element."""
        return self.array.type.struct if isinstance(self.array, StructArray) else self.array.type.element


@dataclass(frozen=True)
class Tile:
    """The value of a tile: for each component of its elements, a tile of scalars.

    `origins` are the cells of the variables that it was the tile of: Python would call it the same object.
    """

    type: TileKind
    items: tuple[Operand, ...]
    origins: frozenset[int] = field(default=frozenset(), compare=False)


@dataclass(frozen=True)
class TileRef:
    """A tile that has a place to be changed in: the cell `cell`, or as much of it as `view` shows.

    Several names may stand for one place: views of a tile, and what a function calls its argument.
    """

    dtype: ElementType
    cell: int
    view: View

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what is shown."""
        return self.view.shape

    @property
    def type(self) -> TileKind:
        """The element type and shape."""
        return TileKind(self.dtype, self.shape)


@dataclass(frozen=True)
class TileStack:
    """A stack that the threads of a block share: a tile with the number of its elements, and one with these."""

    type: StackKind
    items: tuple[TileRef | Tile, ...]


@dataclass(frozen=True)
class StructValue:
    """A struct: one binding for each field, in order. It is a value: who changes a field has another one."""

    type: StructType
    items: tuple[Binding, ...]

    @staticmethod
    def of(kind: StructType, items: tuple[Binding, ...]) -> StructValue:
        """A struct that is written as `kind`, whose type says where it has grids, trees or meshes for numbers."""
        fields = zip(kind.fields.items(), items, strict=True)
        changes = {name: x.type for (name, own), x in fields if isinstance(x, StructValue) and x.type is not own}
        return StructValue(with_fields(kind, changes) if changes else kind, items)

    def field(self, name: str) -> Binding:
        """The value of the field of that name."""
        return self.items[list(self.type.fields).index(name)]

    def with_field(self, path: tuple[str, ...], value: Binding) -> StructValue:
        """The struct with another value of the field at `path`."""
        name, *inner = path
        if inner:
            value = self.field(name).with_field(tuple(inner), value)  # type: ignore[union-attr]
        pairs = zip(self.type.fields, self.items, strict=True)
        return StructValue.of(self.type.written, tuple(value if known == name else item for known, item in pairs))


@dataclass(frozen=True)
class StructArray:
    """An array of structs, or a view of one: for each field an array, or again an array of structs."""

    type: StructArrayType
    name: str
    items: tuple[ArrayRef | StructArray, ...]

    @property
    def first(self) -> ArrayRef:
        """The array of the first scalar, vector or matrix, with the axes that are those of all."""
        item = self.items[0]
        found = item.first if isinstance(item, StructArray) else item
        if found.type.dims == self.type.dims:
            return found
        return dataclasses.replace(found, type=ArrayType(found.type.element, self.type.dims))

    def field(self, name: str) -> ArrayRef | StructArray:
        """The array of the field of that name of all elements."""
        return self.items[list(self.type.struct.fields).index(name)]


@dataclass(frozen=True)
class Shape:
    """`a.shape` of an array."""

    array: ArrayRef


@dataclass(frozen=True)
class Address:
    """`a.ptr` of an array of the thread's own, or the address `offset` bytes after it."""

    array: ArrayRef
    offset: int = 0


@dataclass(frozen=True, eq=False)
class PythonRef:
    """A Python object met by name: a type, a function, a builtin or a module."""

    object: Any

    def __eq__(self, other: object) -> bool:  # the objects' own idea of equality is not asked
        return isinstance(other, PythonRef) and self.object is other.object

    def __hash__(self) -> int:
        return id(self.object)


@dataclass(frozen=True)
class Unusable:
    """A name that cannot be read here, why, and what to do instead."""

    reason: str
    hint: str = ""

    def error(self, span: Span) -> CompileError:
        """The error to raise where it is read."""
        return CompileError(self.reason, span, self.hint)


# A tuple stands for several bindings, as in `i, j = wp.tid()` or a function with two results.
Binding = (
    Value
    | Const
    | Number
    | Composite
    | Stored
    | Tile
    | TileRef
    | TileStack
    | StructValue
    | ArrayRef
    | StructArray
    | Shape
    | Address
    | PythonRef
    | Unusable
    | tuple
)


def is_id(binding: Binding) -> TypeGuard[StructValue]:
    """True for the id of a known grid, tree, mesh or volume, which is not 0."""
    return isinstance(binding, StructValue) and binding.type.is_handle


def describe(binding: Binding) -> str:
    """The binding's type, in the user's words."""
    match binding:
        case Value() | Const() | Number() | Composite():
            return binding.type.name
        case Stored():
            return getattr(binding.type, "name", None) or repr(binding.type)
        case StructValue() if binding.type.is_handle:
            return f"the id of a wp.{binding.type.named}"
        case StructValue() if binding.type.holds_handles:
            return f"{binding.type!r} with ids that are known"
        case ArrayRef() | StructArray() | StructValue() | Tile() | TileRef() | TileStack():
            return repr(binding.type)
        case Shape():
            return "shape"
        case Address():
            return "an address"
        case tuple():
            return f"the tuple ({', '.join(describe(b) for b in binding)})" if binding else "nothing"
        case PythonRef(object=obj):
            if isinstance(obj, type):
                return f"the type `{obj.__name__}`"
            if inspect.ismodule(obj):
                return f"the module `{obj.__name__}`"
            return "a function" if callable(obj) else f"a Python {type(obj).__name__}"
        case Unusable():
            return "nothing usable"


def way_to(wanted: object, binding: Binding) -> str:
    """How to make a value of the type `wanted` of what is bound, for the help of an error; empty if there is no way."""
    if not isinstance(wanted, (ScalarType, CompositeType)):
        return ""
    if isinstance(binding, (Value, Const, Number)):
        return f"convert it: wp.{wanted}(…)"
    if isinstance(binding, ArrayRef):
        return f"read an element: {binding.name}[{', '.join('ijkl'[: binding.type.dims])}]"
    if is_id(binding):
        return (
            "it is no number that a kernel can keep: give it to functions as it is, or pass the kernel an array of "
            "ids, wp.array([mesh.id], dtype=wp.uint64), and keep the index"
        )
    if not isinstance(binding, Composite):
        return ""
    if isinstance(wanted, ScalarType):
        first = ", ".join("0" for _ in binding.type.shape)
        return f"take a component, such as v[{first}]"
    return f"convert it: wp.{wanted}(…)" if wanted.shape == binding.type.shape else ""


def bind_python(obj: Any, name: str, span: Span) -> Binding:
    """The binding of a captured Python object."""
    obj = canonical(obj)
    if isinstance(obj, enum.Enum) and isinstance(obj.value, int):
        obj = int(obj.value)
    if isinstance(obj, np.generic):
        kind = from_dtype(obj.dtype)
        if kind is None:
            raise KernelTypeError(f"`{name}` has dtype {obj.dtype}, which kernels do not know", span)
        return Const(kind, obj.item() if kind.kind != "float" else float(obj))
    if isinstance(obj, (bool, int, float)):
        return Number(obj)
    if isinstance(obj, CompositeValue) and obj.ndim in (1, 2):
        kind = from_dtype(obj.dtype)
        if kind is None:
            raise KernelTypeError(f"`{name}` has dtype {obj.dtype}, which kernels do not know", span)
        items = tuple(Const(kind, x.item() if kind.kind != "float" else float(x)) for x in np.asarray(obj).ravel())
        return Composite(obj.type_in_kernels(kind), items)
    if isinstance(obj, tuple):
        return tuple(bind_python(item, name, span) for item in obj)
    if isinstance(obj, Struct):
        return _bind_struct(obj, name, span)
    return PythonRef(obj)


def _bind_struct(obj: Struct, name: str, span: Span) -> Binding:
    """A struct from outside, of numbers, vectors and matrices."""
    items = []
    for part, kind in type(obj).fields.items():
        value = bind_python(getattr(obj, part), f"{name}.{part}", span)
        if isinstance(kind, ScalarType) and isinstance(value, Number):
            value = value.as_type(kind, span)
        if isinstance(kind, StructArrayType) or (isinstance(kind, ArrayType) and kind.dims):
            value = Unusable(f"`{name}.{part}` is an array from outside", "arrays are parameters of the kernel")
        wanted = user_type(kind)
        if not isinstance(value, Unusable) and getattr(value, "type", None) is not wanted:
            raise KernelTypeError(f"`{name}.{part}` must be {wanted!r}, not {describe(value)}", span)
        items.append(value)
    return StructValue(type(obj), tuple(items))


def as_operand(binding: Binding, span: Span) -> Operand | None:
    """The scalar that `binding` is, or None if it is not a scalar."""
    match binding:
        case Value() | Const():
            return binding
        case Number(value=value):
            if isinstance(value, int) and not isinstance(value, bool) and not int32.min <= value <= int32.max:
                raise KernelTypeError(
                    f"the integer {value} does not fit int32", span, "write wp.int64(…) or wp.uint32(…) around it"
                )
            return binding.as_type(binding.type, span)
    return None


def flatten(binding: Binding, span: Span) -> list[Operand] | None:
    """The scalars that `binding` is made of, or None if part of it is neither a scalar nor an array.

    Those of an array say what it shows of one, those of what a tile holds are tiles.
    """
    if isinstance(binding, (Composite, Tile)):
        return list(binding.items)
    if isinstance(binding, (StructValue, StructArray, TileStack)):
        return flatten(binding.items, span)
    if isinstance(binding, Stored):
        return []
    if isinstance(binding, OneOf):
        return [binding.which, *(x for option in binding.options for x in flatten(option, span) or ())]
    if isinstance(binding, ArrayRef):
        return [x for axis in binding.axes for x in scalars_of(axis)]
    if isinstance(binding, tuple):
        parts = [flatten(item, span) for item in binding]
        return None if any(p is None for p in parts) else [x for p in parts if p is not None for x in p]
    scalar = as_operand(binding, span)
    return None if scalar is None else [scalar]


def layout(binding: Binding, span: Span) -> Any:
    """The structure of a binding without its scalars; None as for `flatten`."""
    if isinstance(binding, (Composite, Tile, TileRef)):
        return binding.type
    if isinstance(binding, (StructValue, StructArray, TileStack)):
        inner = layout(binding.items, span)
        return None if inner is None else (binding.type, *inner)
    if isinstance(binding, Referenced):
        return (binding.type, layout(binding.array, span))
    if isinstance(binding, Stored):
        return (binding.array.index, binding.type)
    if isinstance(binding, OneOf):
        return (binding.type, *(layout(option, span) for option in binding.options))
    if isinstance(binding, ArrayRef):
        return (binding.index, binding.type, *map(axis_layout, binding.axes))
    if isinstance(binding, tuple):
        parts = tuple(layout(item, span) for item in binding)
        return None if any(p is None for p in parts) else parts
    scalar = as_operand(binding, span)
    return None if scalar is None else scalar.type


def type_of(binding: Binding, span: Span) -> Any:
    """The type to compare with an annotation: a type, a tuple of such, or None for a binding that has none."""
    if isinstance(binding, tuple):
        return tuple(type_of(item, span) for item in binding)
    if isinstance(binding, (ArrayRef, Stored, StructArray, StructValue, TileStack)):
        return binding.type
    return layout(binding, span)


def holds_array(binding: Binding | None) -> bool:
    """True if `binding` is an array, or a tuple or struct with one in it."""
    if isinstance(binding, (StructValue, StructArray)):
        return holds_array(binding.items)
    return isinstance(binding, ArrayRef) or (isinstance(binding, tuple) and any(map(holds_array, binding)))


def rebuild(binding: Binding, scalars: list[Operand]) -> Binding:
    """A binding shaped like `binding` made of `scalars`, which are used up from the front."""
    if isinstance(binding, Composite):
        return Composite(binding.type, tuple(scalars.pop(0) for _ in binding.items))
    if isinstance(binding, Tile):
        return dataclasses.replace(binding, items=tuple(scalars.pop(0) for _ in binding.items))
    if isinstance(binding, (StructValue, StructArray, TileStack)):
        items: Any = tuple(rebuild(item, scalars) for item in binding.items)
        return dataclasses.replace(binding, items=items)
    if isinstance(binding, OneOf):
        which, options = scalars.pop(0), [rebuild(option, scalars) for option in binding.options]
        return dataclasses.replace(binding, which=which, options=tuple(options))  # type: ignore[arg-type]
    if isinstance(binding, ArrayRef):
        return dataclasses.replace(binding, axes=tuple(rebuilt_axis(axis, scalars) for axis in binding.axes))
    if isinstance(binding, tuple):
        return tuple(rebuild(item, scalars) for item in binding)
    return binding if isinstance(binding, Stored) else scalars.pop(0)


def spelling(type: ScalarType) -> str:
    """How a scalar type is written in a kernel."""
    return {"int32": "int", "float32": "float", "bool": "bool"}.get(type.name, f"wp.{type.name}")
