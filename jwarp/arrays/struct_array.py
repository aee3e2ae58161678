"""Arrays of structs: one array for each number, vector or matrix in a struct, which are shown as one array."""

from __future__ import annotations

import copy as copying
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.array import OF_STRUCTS, array
from jwarp.arrays.changes import CHANGES
from jwarp.arrays.copies import attributes, of_class
from jwarp.arrays.living import descriptor, table
from jwarp.arrays.view import View, components_of, itemsize_of, read_shape, scalar_of
from jwarp.devices import Device, get_device
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import (
    ArrayType,
    Geometry,
    Struct,
    StructArrayType,
    StructType,
    array_of,
    uint64,
    unchecked,
    user_type,
)
from jwarp.types.all_memory import DESCRIPTOR
from jwarp.types.structs import LAYOUT


class StructArray(array):
    """A `wp.array` whose elements are structs: `parts` has an array for each field, or more of them for structs.

    Its arguments are those of `wp.array`.
    """

    parts: dict[str, array]
    derived_from: type = array  # the class in the program

    def __init__(
        self,
        data: Any = None,
        dtype: Any = None,
        shape: Any = None,
        strides: Any = None,
        ptr: Any = None,
        capacity: int | None = None,
        device: Any = None,
        pinned: bool = False,
        copy: bool = True,
        deleter: Any = None,
        ndim: int | None = None,
        grad: array | None = None,
        requires_grad: bool = False,
        retain_grad: bool = False,
    ):
        where = get_device(data.device if device is None and isinstance(data, array) else device)
        if ptr is not None or strides is not None or grad is not None or not copy:
            raise LaunchError(
                f"wp.array: an array of {dtype!r} has an array for each field, and so shares no memory with others",
                hint="leave ptr=, strides=, grad= and copy= out: data= is copied",
            )
        extents = None if shape is None and data is not None else read_shape(shape)
        content = None if data is None else _content(dtype, data)
        extents = read_shape(content.shape if extents is None and content is not None else extents)
        if content is not None:
            content = content.reshape(extents)
        self._join(dtype, {name: _part(kind, extents, where) for name, kind in _fields(dtype)})
        if content is not None:
            self._set(content)
        if requires_grad:
            self.requires_grad = True

    def _join(self, dtype: StructType, parts: dict[str, array]) -> None:
        first = next(iter(parts.values()))
        self.parts, self.dtype = parts, dtype
        self.shape, self.ndim, self.size = first.shape, first.ndim, first.size
        itemsize = struct_dtype(dtype).itemsize
        self.strides = tuple(stride // first.strides[-1] * itemsize if first.size else 0 for stride in first.strides)
        self.device = first.device
        self._retain_grad = False

    @classmethod
    def joined(cls, dtype: StructType, parts: dict[str, array]) -> StructArray:
        """The array whose fields are these arrays."""
        made = object.__new__(StructArray)
        made._join(dtype, parts)
        return made

    def _each(self, change: Callable[[array], array]) -> StructArray:
        return StructArray.joined(self.dtype, {name: change(part) for name, part in self.parts.items()})

    def leaves(self) -> Iterator[array]:
        """The arrays of numbers, vectors and matrices, in order."""
        for part in self.parts.values():
            if isinstance(part, StructArray):
                yield from part.leaves()
            else:
                yield part

    # -- what it is

    @property
    def is_contiguous(self) -> bool:
        """True if the arrays of all fields are contiguous."""
        return all(leaf.is_contiguous for leaf in self.leaves())

    @property
    def capacity(self) -> int:
        """The bytes of all fields."""
        return sum(leaf.capacity for leaf in self.leaves())

    @property
    def ptr(self) -> Any:
        """The address of the first field's array."""
        return next(self.leaves()).ptr

    def __repr__(self) -> str:
        return f"array(shape={self.shape}, dtype={self.dtype!r})"

    def __str__(self) -> str:
        return str(self.numpy())

    @property
    def grad(self) -> Any:
        """The gradients of the fields, or None."""
        if not self.requires_grad:
            return None

        def gradient(part: array) -> array:
            if isinstance(part, StructArray):
                return part._each(gradient)
            if part.grad is None:  # one of integers
                part._grad = array(shape=part.shape, dtype=part.dtype, device=part.device)
                part._grad.zero_()
                CHANGES.note()
            return part.grad  # type: ignore[return-value]

        return self._each(gradient)

    @grad.setter
    def grad(self, grad: array | None) -> None:
        if grad is not None:
            raise LaunchError("the gradients of an array of structs are those of its fields", hint="requires_grad=True")
        self.requires_grad = False

    @property
    def requires_grad(self) -> bool:
        """True if fields of floats have gradients."""
        return any(leaf.requires_grad for leaf in self.leaves())

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        for leaf in self.leaves():
            if not wanted or scalar_of(leaf.dtype).is_float:
                leaf.requires_grad = wanted

    # -- views

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, array) for k in keys):
            return self._named(keys)
        return self._each(lambda part: part[key])

    def reshape(self, shape: Any) -> StructArray:
        """A view of the same elements in another shape."""
        return self._each(lambda part: part.reshape(shape))

    def flatten(self) -> StructArray:
        """A view of the elements along one dimension."""
        return self._each(lambda part: part.flatten())

    def transpose(self, axes: Any = None) -> StructArray:
        """A view with the dimensions in another order."""
        return self._each(lambda part: part.transpose(axes))

    def view(self, dtype: Any) -> array:
        """Refused: the fields are arrays of their own."""
        raise LaunchError(f"an array of {self.dtype!r} has an array for each field, and no bytes to be viewed")

    def to(self, device: Any, requires_grad: bool | None = None) -> StructArray:
        """The array on a device: itself where it is there, else a copy."""
        return self if get_device(device) is self.device else self._each(lambda part: part.to(device, requires_grad))

    def contiguous(self) -> StructArray:
        """The array, or a copy of one that is not contiguous."""
        return self if self.is_contiguous else self._each(lambda part: part.contiguous())

    # -- content

    def host(self) -> np.ndarray:
        """As `numpy`."""
        return self.numpy()

    def numpy(self) -> np.ndarray:
        """A copy of the elements as a structured array of NumPy, laid out as Warp's."""
        made = np.zeros(self.shape, struct_dtype(self.dtype))
        for (name, kind), part in zip(_fields(self.dtype), self.parts.values(), strict=True) if self.size else ():
            content = part.numpy()
            made[name] = content.view(DESCRIPTOR_DTYPE)[..., 0] if isinstance(kind, ArrayType) else content
        return made

    def list(self) -> list[Any]:
        """The elements in order, as structs."""
        return [_struct(self.dtype, row) for row in self.numpy().reshape(-1)]

    def _set(self, content: np.ndarray) -> None:
        for name, part in self.parts.items() if self.size else ():
            if isinstance(part, StructArray):
                part._set(content[name])
            elif part.dtype is DESCRIPTOR:
                words = np.ascontiguousarray(content[name])[..., None].view(np.uint64)
                part.assign(words)
            else:
                part.assign(content[name])

    def zero_(self) -> None:
        """Set all fields of all elements to zero."""
        for leaf in self.leaves():
            leaf.zero_()

    def fill_(self, value: Any) -> None:
        """Set all elements to a struct; 0 sets all fields to zero.

        Raises:
            KernelTypeError: it is no such struct.
        """
        if isinstance(value, (int, float)) and value == 0:
            return self.zero_()
        if type(value) is not self.dtype:
            raise KernelTypeError(f"an array of {self.dtype!r} cannot be filled with {value!r}")
        kind: Any = self.dtype
        self._set(np.broadcast_to(_content(kind, [value])[0], self.shape))
        return None

    def assign(self, src: Any) -> None:
        """Take the content of an array of such structs, a structured array of NumPy, or a sequence of structs."""
        if isinstance(src, StructArray):
            for mine, other in both_leaves(self, src):
                mine.assign(other)
        else:
            self._set(_content(self.dtype, src).reshape(self.shape))

    def __reduce__(self) -> Any:
        return _restored, (type(self).derived_from, self.dtype, self.parts), attributes(self)

    def __copy__(self) -> Any:
        made = of_class(type(self), self._each(lambda part: part))
        made.__setstate__(attributes(self))
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = of_class(type(self), self._each(lambda part: copying.deepcopy(part, memo)))
        made.__setstate__(copying.deepcopy(attributes(self), memo))
        return made

    def __dlpack__(self, **options: Any) -> Any:
        raise LaunchError(f"an array of {self.dtype!r} has an array for each field, and no memory to export as one")


def _of_structs(kind: type) -> type:
    """The class of arrays of structs for `wp.array` or a class that a program derives from it."""
    if kind is array:
        return StructArray
    if issubclass(kind, StructArray):
        return kind
    made: Any = vars(kind).get("_of_structs")
    if made is None:
        content = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "derived_from": kind}
        made = type(kind.__name__, (kind, StructArray), content)
        kind._of_structs = made  # type: ignore[attr-defined]
    return made


def _restored(kind: type, dtype: StructType, parts: dict[str, array]) -> Any:
    return of_class(_of_structs(kind), StructArray.joined(dtype, parts))


StructArray.plain_class = StructArray
OF_STRUCTS.append(_of_structs)


# A descriptor as Warp shows it.
DESCRIPTOR_DTYPE = np.dtype(
    {
        "names": ["data", "grad", "shape", "strides", "ndim"],
        "formats": ["u8", "u8", ("i4", (4,)), ("i4", (4,)), "i4"],
        "offsets": [0, 8, 16, 32, 48],
        "itemsize": 56,
    }
)


def _fields(dtype: StructType) -> Sequence[tuple[str, Any]]:
    """The fields as users write their types; arrays are among them in arrays without elements alone."""
    return [(name, user_type(kind)) for name, kind in dtype.fields.items()]


def _part(kind: Any, shape: tuple[int, ...], device: Device) -> array:
    """The array of a field, of zeros; of a field of arrays, one of descriptors."""
    if isinstance(kind, StructArrayType):
        raise KernelTypeError(f"an array of structs has no fields of arrays of structs, such as {kind!r}")
    made = array(shape=shape, dtype=DESCRIPTOR if isinstance(kind, ArrayType) else kind, device=device)
    made.zero_()
    return made


def struct_dtype(kind: StructType) -> np.dtype:
    """The dtype of structs in memory, one after the other: each field at a multiple of the size of its numbers."""
    names, formats, offsets, end, most = [], [], [], 0, 1
    for name, field in _fields(kind):
        if isinstance(field, StructType):
            written, step = struct_dtype(field), struct_dtype(field).alignment
        elif isinstance(field, ArrayType):
            written, step = DESCRIPTOR_DTYPE, 8
        else:
            scalar = scalar_of(field).dtype
            written, step = np.dtype((scalar, components_of(field))), scalar.itemsize
        end += -end % step
        names.append(name)
        formats.append(written)
        offsets.append(end)
        end, most = end + written.itemsize, max(most, step)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": end + -end % most}, align=True)


def _content(kind: StructType, data: Any) -> np.ndarray:
    """Structs as a structured array."""
    if isinstance(data, StructArray):
        return data.numpy()
    if isinstance(data, np.ndarray) and data.dtype.names is not None:
        if data.dtype.names != tuple(kind.fields):
            raise KernelTypeError(f"wp.array: elements with the fields {data.dtype.names} are no {kind!r}")
        return data
    if isinstance(data, (list, tuple)) and all(type(x) is kind for x in data):
        made = np.zeros(len(data), struct_dtype(kind))
        for k, value in enumerate(data):
            _put(made[k : k + 1], value)
        return made
    raise KernelTypeError(
        f"wp.array: data for an array of {kind!r} is a list of such structs, or a structured array of NumPy",
        hint=f"for example [{kind!r}()]",
    )


def _put(row: np.ndarray, value: Struct) -> None:
    for name in type(value).fields:
        given = field_content(value, name)
        if isinstance(given, Struct):
            _put(row[name], given)
        elif isinstance(user_type(type(value).fields[name]), ArrayType):
            row[name] = given.view(DESCRIPTOR_DTYPE)
        elif type(given) is int and given < 0 and row.dtype[name] == np.uint64:
            row[name] = given & (1 << 64) - 1  # as launches take it: the id of nothing
        else:
            row[name] = given


def field_content(value: Struct, name: str) -> Any:
    """The content of a field as an element of an array has it: the words for an array, the id for a grid or tree.

    Raises:
        KernelTypeError: it is not of the field's type of arrays.
        LaunchError: it is an array that is not in host memory.
    """
    given = getattr(value, name)
    kind = user_type(type(value).fields[name])
    if isinstance(kind, ArrayType):
        _check_array(type(value), name, kind, given)
        return descriptor(given)
    return int(given.id) if kind is uint64 and isinstance(given, Geometry) else given


def _check_array(kind: StructType, name: str, wanted: ArrayType, given: Any) -> None:
    """Refuse what is no array that such a field of an element holds."""
    if given is None:
        return
    if not isinstance(given, array) or given.dtype is not wanted.element or given.ndim != wanted.dims:
        shown = repr(array_of(given.dtype, given.ndim)) if isinstance(given, array) else type(given).__name__
        raise KernelTypeError(f"field {name!r} of {kind!r} holds {wanted!r} in an element, got {shown}")


def _struct(kind: StructType, row: Any) -> Any:
    values: dict[str, Any] = {}
    for name, field in _fields(kind):
        if isinstance(field, StructType):
            values[name] = _struct(field, row[name])
        elif isinstance(field, ArrayType):
            values[name] = _living(field, row[name])
        else:
            found = row[name]
            values[name] = found.item() if not components_of(field) else field(*np.ravel(found))
    return unchecked(kind, values)


def _living(kind: ArrayType, row: Any) -> array | None:
    """The array whose descriptor an element has, or one of the same memory; None if that is gone."""
    address, dims = int(row["data"]), kind.dims
    memory = table.memory_at(address) if address and row["ndim"] == dims else None
    if memory is None:
        return None
    shape, strides = (tuple(map(int, row[name][:dims])) for name in ("shape", "strides"))
    layout = View(kind.element, shape, strides, address - memory.start)
    for known in table.arrays(by_addresses=True):
        if not isinstance(known, StructArray) and known.memory is memory and known.layout == layout:
            return known
    ends = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    low = layout.offset + sum(min(end, 0) for end in ends)
    high = layout.offset + sum(max(end, 0) for end in ends) + itemsize_of(kind.element)
    # Words that a program has made up name no array.
    if min(shape) <= 0 or low < 0 or high > memory.buffer.nbytes or address % scalar_of(kind.element).dtype.itemsize:
        return None
    return array.of(memory, layout)


def both_leaves(target: array, source: array) -> list[tuple[array, array]]:
    """The arrays of the fields of two arrays of the same structs.

    Raises:
        KernelTypeError: they are not.
    """
    if not isinstance(target, StructArray) or not isinstance(source, StructArray) or target.dtype is not source.dtype:
        raise KernelTypeError(f"elements of {source.dtype!r} cannot be copied to an array of {target.dtype!r}")
    return list(zip(target.leaves(), source.leaves(), strict=True))


def fields_of(value: StructArray) -> Mapping[str, Any]:
    """The arrays of the fields, by name; dicts for fields that are structs."""
    return {name: fields_of(part) if isinstance(part, StructArray) else part for name, part in value.parts.items()}


def _element(value: Any) -> Any:
    kind: Any = type(value)
    return _content(kind, [value])[0]


LAYOUT[:] = [struct_dtype, _element]
