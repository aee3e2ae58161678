"""`@wp.struct`: classes of named fields, which kernels and JAX functions take as a whole."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar, dataclass_transform, overload

from jwarp.caches import cached
from jwarp.config import surface
from jwarp.errors import KernelTypeError
from jwarp.types.annotations import NO_UNIONS, in_place_of, is_union
from jwarp.types.arrays import AnyType, ArrayType, StructArrayType, StructType, Type, as_type, user_type
from jwarp.types.composites import CompositeType, CompositeValue
from jwarp.types.scalars import ScalarType, int32, uint64
from jwarp.types.tiles import MAX_DIMS

# Called with every struct there is and is to come: JAX learns of them by it.
_listeners: list[Callable[[StructType], None]] = []
_known: list[StructType] = []


def listen(listener: Callable[[StructType], None]) -> None:
    """Let `listener` know of every struct, of those made before too."""
    _listeners.append(listener)
    for struct_ in _known:
        listener(struct_)


def add_struct(made: StructType) -> None:
    """Tell all that listen of another struct."""
    for listener in _listeners:
        listener(made)


def declare_struct(made: StructType) -> None:
    """Tell of a struct to all that listen, and to those that will."""
    _known.append(made)
    add_struct(made)


class _Asked:
    """An attribute that functions of `dataclasses` read from a class, made at the first access."""

    def __set_name__(self, owner: StructType, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: StructType) -> Any:
        fields = [(name, user_type(kind)) for name, kind in owner.fields.items()]
        found = getattr(dataclasses.make_dataclass(owner.__name__, fields, init=False, repr=False, eq=False), self.name)
        type.__setattr__(owner, self.name, found)
        return found


class Struct(metaclass=StructType):
    """Base of the structs. `P(k=1.0)` or `p = P(); p.k = 1.0`; fields that are not given are zero, arrays None.

    `p.replace(k=2.0)` is another struct; `dataclasses.replace`, `dataclasses.fields`, `copy` and `pickle` know them
    too. As JAX traces values of any kind through structs, those that fields are given are checked at launches only.

    Raises:
        KernelTypeError: too many values, one for a field that there is not, or two for one field.
    """

    fields: ClassVar[dict[str, AnyType]] = {}
    __slots__ = ("_seen",)  # of which grid, tree, mesh or volume it is, and of which state of that
    __dataclass_fields__ = _Asked()
    __dataclass_params__ = _Asked()

    def __init__(self, /, *given: Any, **named: Any):
        kind, names = type(self), list(type(self).fields)
        if len(given) > len(names):
            raise KernelTypeError(f"{kind!r} has {len(names)} fields ({', '.join(names)}), {len(given)} values given")
        values = dict(zip(names, given, strict=False))
        for name, value in named.items():
            if name not in kind.fields:
                raise KernelTypeError(f"{kind!r} has no field '{name}'; there are {', '.join(names)}")
            if name in values:
                raise KernelTypeError(f"{kind!r}: field '{name}' is given twice")
            values[name] = value
        for name, field in kind.fields.items():
            if name in values and surface.is_warps:
                setattr(self, name, values[name])
            else:
                object.__setattr__(self, name, values[name] if name in values else _zero(field))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in type(self).fields:
            names = ", ".join(type(self).fields)
            raise KernelTypeError(f"{type(self)!r} has no field '{name}'; there are {names}")
        if surface.is_warps:
            value = ASSIGNED[0](type(self), name, value)
        object.__setattr__(self, name, value)

    def assign(self, value: Any) -> None:
        """Take all values of another struct of this type.

        Raises:
            KernelTypeError: it is of another type, or no struct.
        """
        if type(value) is not type(self):
            raise KernelTypeError(f"expected a {type(self)!r} to assign, got {type(value).__name__}", also=RuntimeError)
        for name in type(self).fields:
            setattr(self, name, getattr(value, name))

    def replace(self, /, **changes: Any) -> Any:
        """A struct with the values in `changes` for the fields of these names, and the same ones for others.

        Raises:
            KernelTypeError: there is no field of such a name.
        """
        values = {name: getattr(self, name) for name in type(self).fields}
        return type(self)(**{**values, **changes})

    def __getstate__(self) -> Any:
        """The fields. A copy is what it is, and is no longer of a grid, tree, mesh or volume that changes."""
        return None, {name: getattr(self, name) for name in type(self).fields}

    @property
    def _cls(self) -> StructType:
        """Its type, as Warp's instances of structs name it."""
        return type(self)

    @classmethod
    def numpy_dtype(cls) -> dict[str, Any]:
        """The fields as they lie in a structured array of NumPy: `np.zeros(n, dtype=S.numpy_dtype())`."""
        known = LAYOUT[0](cls)
        parts = [known.fields[name] for name in known.names]
        formats, offsets = [part[0] for part in parts], [part[1] for part in parts]
        return {"names": [*known.names], "formats": formats, "offsets": offsets, "itemsize": known.itemsize}

    def numpy_value(self) -> tuple[Any, ...]:
        """The values of the fields as an element of such an array takes them: numbers, lists and tuples."""
        row = LAYOUT[1](self)
        return tuple(row[name].tolist() for name in row.dtype.names)

    def to(self, device: Any) -> Any:
        """The struct with its arrays on a device: themselves where they are there, else copies.

        Raises:
            LaunchError: there is no such device.
        """

        def moved(x: Any) -> Any:
            if isinstance(x, Struct):
                return Struct.to(x, device)
            return x.to(device) if callable(getattr(x, "to", None)) else x

        return unchecked(type(self), {name: moved(getattr(self, name)) for name in type(self).fields})

    __replace__ = replace  # for copy.replace, from Python 3.13 on

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).fields)
        return f"{type(self)!r}({shown})"


def is_plain(value: Any) -> bool:
    """True for a struct of fields alone, which is of no grid, tree, mesh or volume."""
    return isinstance(value, Struct) and not (type(value).is_handle or type(value).holds_handles)


def copied(value: Any) -> Any:
    """A struct with the same values, whose vectors, matrices and inner structs are others; other values as they are."""
    if isinstance(value, CompositeValue):
        return value.copy()
    if not is_plain(value):
        return value
    kind: Any = type(value)
    return unchecked(kind, [copied(getattr(value, name)) for name in kind.fields])


def _zero(field: AnyType) -> Any:
    kind = user_type(field)
    if surface.is_warps and isinstance(kind, CompositeType):
        return kind(*[0] * kind.size)  # a transform, too, which is the identity where nothing is given
    if isinstance(kind, (StructType, CompositeType)):
        return kind()
    if surface.is_warps and isinstance(kind, ScalarType) and kind.kind != "bool":
        return kind(0)  # Warp's fields are numbers of their types
    return {"float": 0.0, "bool": False}.get(kind.kind, 0) if isinstance(kind, ScalarType) else None


def unchecked(kind: StructType, values: Mapping[str, Any] | list[Any] | tuple[Any, ...]) -> Any:
    """A struct with these values of its fields, whatever they are."""
    made: Any = object.__new__(kind)  # type: ignore[arg-type]
    pairs = values.items() if isinstance(values, Mapping) else zip(kind.fields, values, strict=True)
    for name, value in pairs:
        object.__setattr__(made, name, value)
    return made


# The value of a field for what a program gives: set where all types are known.
ASSIGNED: list[Callable[[Any, str, Any], Any]] = []

# The dtype of a struct type, and a struct as an element of it: set where arrays of structs are known.
LAYOUT: list[Callable[[Any], Any]] = []

Class = TypeVar("Class")


@overload
@dataclass_transform()
def struct(cls: type[Class]) -> type[Class]: ...


@overload
@dataclass_transform()
def struct(cls: None = None, **options: Any) -> Callable[[type[Class]], type[Class]]: ...


def struct(cls: type | None = None, **options: Any) -> Any:
    """Make a struct from a class with annotated fields.

    Fields are scalars, vectors, matrices, arrays and other structs. A struct is an argument of kernels, a value in
    kernels, and a JAX pytree whose leaves are its fields in order; `jax.export` stores it by module and name.
    `wp.array[P]` is an array of structs; outside kernels, it is one P whose leaves all have the array's axes in front.
    `@wp.func` functions in the class are methods. Structs have a method `replace`, and are copied and pickled like
    dataclasses.

    Raises:
        KernelTypeError: `cls` is not a class or has a base class, or a field has a type that kernels do not support or
            a reserved name.
    """
    if cls is None:
        return struct
    if not inspect.isclass(cls):
        raise KernelTypeError(f"@wp.struct needs a class, not {type(cls).__name__}")
    if cls.__bases__ != (object,):
        raise KernelTypeError(
            f"@wp.struct {cls.__name__} has a base class, {cls.__bases__[0].__name__}, whose fields it would not have: "
            "Warp structs must be defined as base classes",
            hint="make the other struct a field",
        )
    local = sys._getframe(1).f_locals
    fields: dict[str, AnyType] = {}
    for name, annotation in _annotations(cls, local).items():
        if is_union(annotation):
            text = f"@wp.struct {cls.__name__}: field '{name}' {NO_UNIONS}"
            raise KernelTypeError(text, hint=in_place_of(annotation))
        kind = as_type(annotation)
        if kind is None or annotation is cls:
            raise KernelTypeError(
                f"@wp.struct {cls.__name__}, field '{name}': {annotation!r} is not a type of kernels",
                hint="use a scalar, vector, matrix, array or struct type",
            )
        if is_empty(kind):
            raise KernelTypeError(f"@wp.struct {cls.__name__}: field '{name}' is {user_type(kind)!r}, of no components")
        if name in _TAKEN:
            raise KernelTypeError(
                f"@wp.struct {cls.__name__}: a field cannot be called '{name}', which structs have for themselves",
                hint="use another name",
            )
        if name in vars(cls) and not surface.is_warps and not _is_nothing(vars(cls)[name]):  # which Warp passes over
            raise KernelTypeError(
                f"@wp.struct {cls.__name__}: field '{name}' has a default other than zero, which structs do not have",
                hint="fields that are not given are zero",
            )
        fields[name] = kind
    kept = {
        k: v for k, v in vars(cls).items()
        if k not in ("__dict__", "__weakref__", "__init__", "__annotations__") and k not in fields
    }  # fmt: skip
    made = StructType(cls.__name__, (Struct,), {**kept, "fields": fields, "__slots__": tuple(fields)})
    made.__qualname__ = cls.__qualname__
    declare_struct(made)
    return made


def _is_nothing(default: Any) -> bool:
    """True for the value that a field has if none is given."""
    return default is None or (isinstance(default, (bool, int, float)) and default == 0)


def may_hold_handles(kind: StructType) -> tuple[str, ...]:
    """The fields of a struct that may be numbers which name a grid, tree, mesh or volume, or have such in them."""
    return tuple(
        name
        for name, field in kind.fields.items()
        if field is uint64 or (isinstance(field, StructType) and may_hold_handles(field))
    )


def with_fields(kind: StructType, changes: Mapping[str, StructType]) -> StructType:
    """The struct with other structs for some fields, which stands for it where functions are called."""
    return _with_fields(kind, tuple(changes.items()))


MAX_CHANGED = 256


@cached(MAX_CHANGED)
def _with_fields(kind: StructType, changes: tuple[tuple[str, StructType], ...]) -> StructType:
    shown = ", ".join(f"{name}={part.__qualname__}" for name, part in changes)
    kept = {k: v for k, v in vars(kind).items() if k not in kind.fields and k != "fields"}
    slots = {"fields": {**kind.fields, **dict(changes)}, "__slots__": tuple(kind.fields)}
    made = StructType(kind.__name__, (Struct,), {**kept, **slots})
    made.__qualname__ = f"{kind.__qualname__}({shown})"
    made.stands_for, made.holds_handles = kind, True
    add_struct(made)
    return made


def table_type(kind: StructType, dims: int = 1) -> StructType:
    """The struct that kernels are given for an array of ids of grids, trees or meshes, each of them a `kind`.

    `ids` is the array, `numbers` says for each element which object it names, from 1 on, 0 for none; `known[k]` is the
    id of object k, rising, after a 0. The further fields are the parts of a `kind`, of all objects, arrays one after
    the other: those of object k from `starts[k]` on.
    """
    return _table_type(kind, dims)


@cached(MAX_CHANGED)
def _table_type(kind: StructType, dims: int) -> StructType:
    parts = {name: ArrayType(part.element, 1) if part.dims == 0 else part for name, part in _parts(kind, "")}
    numbers: dict[str, Any] = {"ids": ArrayType(uint64, dims), "numbers": ArrayType(int32, dims)}
    fields = {**numbers, "known": ArrayType(uint64, 1), "starts": ArrayType(int32, 2), **parts}
    made = StructType(
        f"ids of {kind.__name__}" + (f", {dims}d" if dims > 1 else ""),
        (Struct,),
        {"fields": fields, "__slots__": tuple(fields)},
    )
    made.table_of = kind
    add_struct(made)
    return made


def _parts(kind: StructType, before: str) -> Iterator[tuple[str, ArrayType]]:
    for name, field in kind.fields.items():
        if isinstance(field, StructType):
            yield from _parts(field, f"{before}{name}_of_")
        elif isinstance(field, ArrayType):
            yield f"{before}{name}", field
        else:
            assert isinstance(field, ScalarType)
            yield f"{before}{name}", ArrayType(field, 0)


def is_empty(kind: AnyType) -> bool:
    """True for a vector of no components, passed by value."""
    return isinstance(kind, ArrayType) and 0 in kind.components


# Attributes of instances of every struct, and names that would hide them. A field may hide the last two.
_TAKEN = frozenset(dir(Struct)) - {"assign", "to"}


def _annotations(cls: type, local: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    module = vars(sys.modules.get(cls.__module__, object()) or object()) if cls.__module__ in sys.modules else {}
    for name, annotation in inspect.get_annotations(cls).items():
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, {**module, **local})  # the module's own text, as typing does it
            except Exception as error:
                raise KernelTypeError(
                    f"@wp.struct {cls.__name__}: the annotation of '{name}' cannot be evaluated: {error}"
                ) from None
        found[name] = annotation
    return found


def leaves(name: str, kind: AnyType) -> Iterator[tuple[str, Type]]:
    """The parameters that a parameter `name` of a struct, or of an array of structs, is taken apart into."""
    if isinstance(kind, StructType):
        for field, inner in kind.fields.items():
            yield from leaves(f"{name}.{field}", inner)
    elif isinstance(kind, StructArrayType):
        for path, inner in leaves(name, kind.struct):
            own = inner.dims if isinstance(inner, ArrayType) else 0
            if kind.dims + own > MAX_DIMS:
                raise KernelTypeError(
                    f"'{path}' has {own} dimension(s) and {kind!r}, which holds it, {kind.dims}: {MAX_DIMS} is the most"
                )
            yield path, ArrayType(inner.element if isinstance(inner, ArrayType) else inner, kind.dims + own)
    else:
        yield name, kind


def has_arrays(kind: AnyType) -> bool:
    """True for an array, and for a struct with an array among its fields."""
    if isinstance(kind, StructType):
        return any(has_arrays(inner) for inner in kind.fields.values())
    return isinstance(kind, StructArrayType) or (isinstance(kind, ArrayType) and kind.dims > 0)
