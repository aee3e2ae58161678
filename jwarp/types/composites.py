"""The types of vectors, matrices, quaternions and transforms: scalars in one or two axes, and a kind.

A kind is a row, and so is what its types can do in kernels (`jwarp.frontend.values.operators`). Types of two kinds
are never the same, whatever their components.
"""

from __future__ import annotations

import copyreg
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from jwarp.caches import Cache
from jwarp.errors import KernelTypeError
from jwarp.types.components import components_of, wrong_components
from jwarp.types.patterns import Bound, Pattern, as_pattern, filled, fits
from jwarp.types.scalars import (
    ScalarType,
    as_scalar,
    float16,
    float32,
    float64,
    from_dtype,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

# The endings of the names of types, as in Warp: vec3d, mat33h.
SUFFIXES = {
    "": float32, "b": int8, "ub": uint8, "s": int16, "us": uint16, "i": int32, "ui": uint32, "l": int64, "ul": uint64,
    "h": float16, "f": float32, "d": float64,
}  # fmt: skip
FLOAT_SUFFIXES = ("", "h", "f", "d")


@dataclass(frozen=True, eq=False)
class Part:
    """Components that are a composite themselves: `extent` of them from `first` on, of the kind `kind`."""

    first: int
    extent: int
    kind: CompositeKind


@dataclass(frozen=True, eq=False)
class CompositeKind:
    """A kind of composite types.

    `named` are the shapes whose types have names such as `vec3d`: the `stem`, the extents where the kind has
    several shapes, and one of `suffixes`. Other types are called `vector(5, float32)`.
    """

    name: str
    plural: str
    stem: str
    named: tuple[tuple[int, ...], ...]
    suffixes: tuple[str, ...]
    # The one shape of all types of the kind. None: any positive extents, of as many axes as `named` has.
    shape: tuple[int, ...] | None = None
    # The names of the components, from the first on: `v.x`.
    components: tuple[str, ...] = ()
    # True if one number makes a whole value: each component is that number.
    repeats: bool = True
    # The functions of scalars, such as abs and min, that take values of the kind, component by component. None: all.
    by_component: tuple[str, ...] | None = None
    # The names of parts: `t.p`.
    parts: tuple[tuple[str, Part], ...] = ()
    # Shapes whose types have a name that says nothing of the shape, with suffixes for floats only.
    titles: tuple[tuple[tuple[int, ...], str], ...] = ()
    # The components of what is made of nothing outside kernels. None: zeros, as in kernels.
    initial: tuple[float, ...] | None = None
    # The names that arguments may have where a value is made, for each way to make one of a shape.
    parameters: tuple[tuple[tuple[int, ...], tuple[str, ...]], ...] = ()

    @property
    def rank(self) -> int:
        """Number of component axes."""
        return len(self.named[0])

    def name_of(self, shape: tuple[int, ...], dtype: ScalarType) -> str:
        """How the type of this shape and component type is called."""
        suffix = next((suffix for suffix, known in SUFFIXES.items() if known is dtype), None)
        title = dict(self.titles).get(shape)
        if suffix in FLOAT_SUFFIXES and title:
            return f"{title}{suffix}"
        if suffix is not None and shape in self.named:
            return f"{self.stem}{'' if self.shape else ''.join(map(str, shape))}{suffix}"
        own = "" if self.shape else f"{shape[0] if len(shape) == 1 else shape}, "
        return f"{self.name}({own}{dtype})"

    def takes(self, function: str) -> bool:
        """True if a function of scalars takes values of the kind, component by component."""
        return self.by_component is None or function in self.by_component

    def __repr__(self) -> str:
        return f"<composite kind {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return kind_named, (self.name,)


class CompositeType(type):
    """Metaclass of the composite types: their kind, component type, and shape of one or two extents.

    The types are classes of NumPy arrays, whose `shape` and `dtype` are of the array; what a type has of these names is
    here, and in the names by which libraries for Warp read it.
    """

    kind: CompositeKind
    _shape_: tuple[int, ...]
    _length_: int
    _wp_scalar_type_: ScalarType
    _name: str
    _plain: CompositeType

    name: str = property(operator.attrgetter("_name"))  # type: ignore[assignment]
    dtype: ScalarType = property(operator.attrgetter("_wp_scalar_type_"))  # type: ignore[assignment]
    shape: tuple[int, ...] = property(operator.attrgetter("_shape_"))  # type: ignore[assignment]
    # Number of components.
    size: int = property(operator.attrgetter("_length_"))  # type: ignore[assignment]
    # The type itself, without what a class made of it has of its own.
    plain: CompositeType = property(operator.attrgetter("_plain"))  # type: ignore[assignment]

    def __new__(cls, name: str, bases: tuple[type, ...], content: dict[str, Any]) -> CompositeType:
        """A type. A class that is made of one, and has nothing of its own, is that type by another name."""
        made: CompositeType | None = getattr(bases[0], "_plain", None) if bases else None
        if made is not None and not any(callable(x) or not own.startswith("__") for own, x in content.items()):
            return made
        return super().__new__(cls, name, bases, content)

    def __repr__(cls) -> str:
        return cls.name

    @property
    def full_name(cls) -> str:
        """The name with the suffix of its components, also where that is left out: `vec3f`."""
        return f"{cls.name}f" if (cls.name.isidentifier() and f"{cls.name}f" in NAMED) else cls.name

    @property
    def is_vector(cls) -> bool:
        """True for a type of vectors; other kinds with one axis are none."""
        return cls.kind is VECTOR

    def is_like(cls, other: CompositeType) -> bool:
        """True if the types differ at most in the type of the components."""
        return cls.kind is other.kind and cls.shape == other.shape

    def in_order(cls, count: int, names: Iterable[str]) -> tuple[str, ...] | None:
        """The names of arguments, as they come after `count` that have none; None where there are no such arguments."""
        given = {*names}
        rests = (known[count:][: len(given)] for shape, known in cls.kind.parameters if shape == cls.shape)
        return () if not given else next((rest for rest in rests if {*rest} == given), None)

    @property
    def transposed(cls) -> CompositeType:
        """The matrix type with rows and columns exchanged."""
        return matrix((cls.shape[1], cls.shape[0]), cls.dtype)


# Gives the value of a type at an address: from above, where arrays are known.
AT_ADDRESS: list[Callable[[Any, int], Any]] = []

# The function that applies an operator as kernels do: set where the operators are known.
OPERATE: list[Callable[[str, Any, Any], Any]] = []


def _operator(name: str, method: str) -> Any:
    """A method of composites outside kernels: between two of which one has operators of its own, that of kernels."""
    plain = getattr(np.ndarray, method)

    def apply(self: CompositeValue, other: Any) -> Any:
        plain_kinds = (None, *PLAIN.values())
        if not isinstance(other, CompositeValue) or (self.own_kind in plain_kinds and other.own_kind in plain_kinds):
            return plain(self, other)
        return OPERATE[0](name, self, other)

    return apply


def plain_operator(name: str) -> Callable[[Any, Any], Any]:
    """Python's operator on arrays of NumPy that has that name in kernels."""
    found: Callable[[Any, Any], Any] = operator.truediv if name == "div" else getattr(operator, name)
    return found


class CompositeValue(np.ndarray):
    """A composite outside kernels: a NumPy array that kernels may refer to by name.

    Its components and parts have names, as in kernels: `v.x`, `t.p`. Two of which one is a quaternion or transform have
    the operators of kernels, all others those of NumPy.
    """

    kind: CompositeKind | None = None

    def __array_finalize__(self, source: Any) -> None:
        """Make an array that NumPy derives from a value one of the type that it has by its shape and dtype."""
        given: Any = type(source if isinstance(source, CompositeValue) and source.kind is not None else self)
        if given.kind is None:
            return
        if given._shape_ != self.shape or given._wp_scalar_type_.dtype != self.dtype:
            given = _class_of(given.kind, self.shape, self.dtype)
        if given is not type(self):
            self.__class__ = given

    def __eq__(self, other: object) -> Any:
        return False if other is None else super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return True if other is None else super().__ne__(other)

    def __bool__(self) -> bool:
        """True, whatever it holds, as in Warp; comparisons of components stay arrays of NumPy's kind."""
        return super().__bool__() if self.dtype == bool or self.own_kind is None else True

    def __reduce__(self) -> Any:
        return _restored, (type(self), np.array(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __deepcopy__(self, memo: dict[int, Any] | None) -> CompositeValue:
        return self.copy()

    @property
    def own_kind(self) -> CompositeKind | None:
        """Its kind, while it has the shape of one such; else what its components are by themselves."""
        if self.kind is not None and self.kind.shape in (self.shape, None) and self.ndim == self.kind.rank:
            return self.kind
        return PLAIN.get(self.ndim)

    def type_in_kernels(self, dtype: ScalarType) -> CompositeType:
        """The type in kernels with components of `dtype`: of its own kind, provided that the kind has this shape."""
        kind = self.own_kind
        assert kind is not None
        return composite(kind, self.shape, dtype)

    def __repr__(self) -> str:
        kind, dtype = self.own_kind, from_dtype(self.dtype)
        if kind is None or dtype is None:
            return repr(self.view(np.ndarray))
        shown = np.array2string(self.view(np.ndarray), separator=", ")
        return f"{composite(kind, self.shape, dtype)}({shown})"

    def __str__(self) -> str:
        """The components as Python's numbers, a line for each row, as Warp has them."""
        rows = self.view(np.ndarray).tolist()
        if self.own_kind is None or self.ndim != 2:
            return str(rows) if self.ndim == 1 else str(self.view(np.ndarray))
        lines = ",\n ".join(map(str, rows))
        return f"[{lines}]"

    def _selected(self, name: str) -> tuple[Any, CompositeKind | None] | None:
        """The index of what a name selects, and its kind if it is a part."""
        kind = self.own_kind
        if kind is None or self.ndim != 1:
            return None
        if name in kind.components[: self.size]:
            return kind.components.index(name), None
        part = dict(kind.parts).get(name)
        return None if part is None else (slice(part.first, part.first + part.extent), part.kind)

    def _lacks(self, name: str) -> NoReturn:
        kind = getattr(type(self), "full_name", "composite")
        raise AttributeError(f"'{kind}' object has no attribute '{name}'", name=name, obj=self)

    def __getattr__(self, name: str) -> Any:
        # Others are asked for often, by those who look for hooks.
        found = self._selected(name) if len(name) < 4 else None
        if found is None:
            self._lacks(name)
        value = self[found[0]]
        if found[1] is not None:
            mine: Any = type(self)
            value.__class__ = composite(found[1], found[1].shape or value.shape, mine.dtype)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        found = self._selected(name) if len(name) < 4 else None
        if found is None and name and not {*name}.difference("xyzw"):
            self._lacks(name)
        if found is None:
            return object.__setattr__(self, name, value)
        self[found[0]] = value

    __add__, __iadd__ = _operator("add", "__add__"), _operator("add", "__iadd__")
    __sub__, __isub__ = _operator("sub", "__sub__"), _operator("sub", "__isub__")
    __mul__, __imul__ = _operator("mul", "__mul__"), _operator("mul", "__imul__")
    __truediv__, __itruediv__ = _operator("div", "__truediv__"), _operator("div", "__itruediv__")
    __matmul__ = _operator("matmul", "__matmul__")


class Composite(CompositeValue, metaclass=CompositeType):
    """Base of the composite types. Called outside kernels, `wp.vec3(…)` gives a value: a NumPy array of that class.

    A value has the type's shape and component dtype, and is made of nothing (zeros; a transform is the identity), of
    all components in any nesting, or of one number for all of them. A transform of three numbers has no rotation; one
    of `p=` or `q=` alone has no other part.

    Raises:
        KernelTypeError: another number of components, or values that the component type does not take.
    """

    def __new__(cls, *components: Any, **named: Any) -> Any:
        initial = np.zeros(cls._length_) if cls.kind.initial is None else np.asarray(cls.kind.initial)
        parts = dict(cls.kind.parts)
        if named and not components and {*named} < {*parts}:  # a part that is left out is that of the identity
            rest = {name: initial[part.first : part.first + part.extent] for name, part in parts.items()}
            named = {**rest, **named}
        order = cls.in_order(len(components), named)
        if order is None:
            for name in (name for name in named if name not in parts):
                hint = f"{cls.name} takes {', '.join(parts) or 'none'}"
                raise KernelTypeError(f"got an unexpected keyword argument '{name}'", hint=hint)
            hint = f"{cls.name} takes its components, or {' and '.join(parts)}"
            raise KernelTypeError(f"multiple values for argument '{next(iter(named))}'", hint=hint)
        given = (*components, *(named[name] for name in order))
        values = components_of(cls, given)
        if values.size == 1 and cls.kind.repeats:
            values = np.repeat(values, cls._length_)
        elif values.size in (0, *(part.first for _, part in cls.kind.parts)):
            values = np.concatenate([values, initial[values.size :]])
        if values.size != cls._length_:
            raise wrong_components(cls, given, values.size)
        return cls._over(values.astype(cls._wp_scalar_type_.dtype))

    @classmethod
    def from_buffer(cls, source: Any, offset: int = 0) -> Any:
        """The value whose components are in the memory of `source`, `offset` bytes from its start, as in Warp."""
        return cls._over(np.frombuffer(source, cls._wp_scalar_type_.dtype, cls._length_, offset))

    @classmethod
    def from_buffer_copy(cls, source: Any, offset: int = 0) -> Any:
        """As `from_buffer`, with memory of its own."""
        return cls.from_buffer(source, offset).copy()

    @classmethod
    def from_ptr(cls, ptr: int) -> Any:
        """The value whose components are at an address, as in Warp: that of an element of a living array.

        Raises:
            KernelTypeError: the address is 0.
            LaunchError: no array that is alive on the host has this address.
        """
        if not ptr:
            raise KernelTypeError(f"{cls.name}.from_ptr: the address is 0: NULL pointer exception")
        return AT_ADDRESS[0](cls, ptr)

    @classmethod
    def _over(cls, values: np.ndarray) -> Any:
        return values.reshape(cls._shape_).view(cls)


_types: Cache[tuple[CompositeKind, tuple[int, ...], ScalarType], CompositeType] = Cache(
    "composite types", "types that kernels name"
)


def composite(kind: CompositeKind, shape: tuple[int, ...], dtype: ScalarType) -> CompositeType:
    """The type of composites of a kind, one in all threads; `shape` is one that the kind has."""
    return _types.made((kind, shape, dtype), lambda: _made(kind, shape, dtype))


def _made(kind: CompositeKind, shape: tuple[int, ...], dtype: ScalarType) -> CompositeType:
    assert len(shape) == kind.rank and kind.shape in (None, shape)
    name = kind.name_of(shape, dtype)
    is_short = name in (kind.stem, f"{kind.stem}{''.join(map(str, shape))}")
    called = f"{name}f" if is_short and shape in kind.named else name  # the class, as Warp has it
    fields = {"_name": name, "kind": kind, "_wp_scalar_type_": dtype, "_shape_": shape, "_length_": math.prod(shape)}
    fields |= {"_wp_generic_type_str_": f"{kind.stem}_t", "_type_": dtype._type_}  # as Warp's types have them
    made = CompositeType(called, (Composite,), {**fields, "__module__": "jwarp", "__doc__": f"{name} of {dtype}."})
    made._plain = made
    return made


# NumPy makes arrays of any size of values, by broadcasting; those of more components are of no type.
_MOST_COMPONENTS = 256


def _class_of(kind: CompositeKind, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """The class of an array that NumPy derives from a value of a kind: its type, if there is one in kernels."""
    known = from_dtype(dtype)
    if kind.shape not in (None, shape) or len(shape) != kind.rank:
        kind = PLAIN.get(len(shape), kind)
    if known is None or len(shape) not in PLAIN or math.prod(shape) > _MOST_COMPONENTS:
        return CompositeValue
    return composite(kind, shape, known)


def _restored(cls: type[CompositeValue], content: np.ndarray) -> CompositeValue:
    """A value from a pickle."""
    return content.view(cls)


def _described(type_: CompositeType) -> tuple[Any, ...]:
    return composite, (type_.kind, type_.shape, type_.dtype)


copyreg.pickle(CompositeType, _described)  # by description: most have no name to be found under

VECTOR = CompositeKind(
    "vector", "vectors", "vec", ((2,), (3,), (4,)), tuple(SUFFIXES),
    components=("x", "y", "z", "w"), titles=(((6,), "spatial_vector"),),
    parameters=(((6,), ("w", "v")), ((6,), ("wx", "wy", "wz", "vx", "vy", "vz"))),
)  # fmt: skip
MATRIX = CompositeKind(
    "matrix", "matrices", "mat", ((2, 2), (3, 3), (4, 4)), FLOAT_SUFFIXES, titles=(((6, 6), "spatial_matrix"),)
)
QUATERNION = CompositeKind(
    "quaternion", "quaternions", "quat", ((4,),), FLOAT_SUFFIXES,
    shape=(4,), components=("x", "y", "z", "w"), repeats=False,
    parameters=(((4,), ("x", "y", "z", "w")), ((4,), ("ijk", "real")), ((4,), ("quat",))),
    by_component=("pos", "lerp", "isnan", "isinf", "isfinite"),
)  # fmt: skip
TRANSFORM = CompositeKind(
    "transformation", "transforms", "transform", ((7,),), FLOAT_SUFFIXES,
    shape=(7,), by_component=("pos", "lerp", "isnan", "isinf", "isfinite"),
    parts=(("p", Part(0, 3, VECTOR)), ("q", Part(3, 4, QUATERNION))), initial=(0, 0, 0, 0, 0, 0, 1),
    parameters=(((7,), ("p", "q")),),
)  # fmt: skip

KINDS = {kind.name: kind for kind in (VECTOR, MATRIX, QUATERNION, TRANSFORM)}


def kind_named(name: str) -> CompositeKind:
    """The kind of that name."""
    return KINDS[name]


# The type of components without an owner, by the number of their axes: rows and slices of other kinds.
PLAIN = {1: VECTOR, 2: MATRIX}


def of_components(shape: tuple[int, ...], dtype: ScalarType) -> ScalarType | CompositeType:
    """The type of components of `shape`, at most two extents: a vector or matrix type; for () the scalar type."""
    return composite(PLAIN[len(shape)], shape, dtype) if shape else dtype


@dataclass(frozen=True, repr=False)
class CompositePattern(Pattern):
    """Stands for the composites of one kind, some of whose extents (None) or component types are open."""

    kind: CompositeKind
    shape: tuple[int | None, ...]
    dtype: ScalarType | Pattern

    def fits(self, kind: Any, bound: Bound) -> bool:
        return (
            isinstance(kind, CompositeType)
            and kind.kind is self.kind
            and all(wanted in (None, n) for wanted, n in zip(self.shape, kind.shape, strict=True))
            and fits(kind.dtype, self.dtype, bound)
        )

    def filled(self, bound: Bound) -> Any:
        return _type_or_pattern(self.kind, self.shape, filled(self.dtype, bound))

    def __repr__(self) -> str:
        extents = tuple("Any" if n is None else n for n in self.shape)
        shown = "" if self.kind.shape else f"{extents[0] if len(extents) == 1 else extents}, ".replace("'", "")
        return f"{self.kind.name}({shown}{self.dtype})"


def _type_or_pattern(kind: CompositeKind, shape: tuple[int | None, ...], dtype: ScalarType | Pattern) -> Any:
    if isinstance(dtype, Pattern) or None in shape:
        return CompositePattern(kind, shape, dtype)
    return composite(kind, shape, dtype)  # type: ignore[arg-type]


def type_of_kind(kind: CompositeKind, shape: tuple[Any, ...], dtype: Any) -> Any:
    """The type of composites of a kind; a pattern where an extent is `Any`, or the dtype is `Any` or a type variable.

    Raises:
        KernelTypeError: an extent is no positive integer, or `dtype` no scalar type.
    """
    what = f"wp.types.{kind.name}"
    component = as_scalar(dtype) or as_pattern(dtype)
    if component is None:
        raise KernelTypeError(f"{what}: the component type must be a scalar type, not {dtype!r}")
    # A vector of no components is for values in kernels: programs that go through dimensions end with it.
    least = 0 if kind is VECTOR else 1
    if not all(n is Any or (isinstance(n, int) and not isinstance(n, bool) and n >= least) for n in shape):
        raise KernelTypeError(f"{what}: extents must be positive integers, not {shape}")
    return _type_or_pattern(kind, tuple(None if n is Any else n for n in shape), component)


def vector(length: Any, dtype: Any) -> CompositeType:
    """The type of vectors of `length` components of scalar type `dtype`: `wp.types.vector(5, wp.float32)`.

    Outside kernels a vector is an array of shape (length,). As the type of a parameter, `length` may be `Any`, and
    `dtype` `Any` or a type variable such as `wp.Float`: the kernel or function is generic then. A vector of length 0 is
    a value in kernels, and no parameter of kernels, field or element.

    Raises:
        KernelTypeError: `length` is negative or no integer, or `dtype` no scalar type.
    """
    made: CompositeType = type_of_kind(VECTOR, (length,), dtype)
    return made


def matrix(shape: Any, dtype: Any) -> CompositeType:
    """The type of matrices of `shape` (rows, columns) with components of scalar type `dtype`.

    Outside kernels a matrix is an array of that shape. As the type of a parameter, rows and columns may be `Any`, and
    `dtype` `Any` or a type variable.

    Raises:
        KernelTypeError: `shape` is no pair of positive integers, or `dtype` no scalar type.
    """
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        text = f"wp.types.matrix: needs (rows, columns) and a scalar type, not {shape!r}, {dtype!r}"
        if isinstance(shape, (tuple, list)):
            count = f"{len(shape)} dimension{'' if len(shape) == 1 else 's'}"
            text += f": Matrix shape must have exactly two dimensions, got {count} in shape {tuple(shape)}"
        raise KernelTypeError(text, also=ValueError)
    made: CompositeType = type_of_kind(MATRIX, tuple(shape), dtype)
    return made


def quaternion(dtype: Any) -> CompositeType:
    """The type of quaternions x, y, z, w with components of the float type `dtype`.

    Outside kernels a quaternion is an array of shape (4,). As the type of a parameter, `dtype` may be `Any` or a type
    variable.

    Raises:
        KernelTypeError: `dtype` is no float type.
    """
    return _of_floats(QUATERNION, dtype)


def transformation(dtype: Any) -> CompositeType:
    """The type of rigid transforms, a position p and a quaternion q, with components of the float type `dtype`.

    Outside kernels a transform is an array of shape (7,): p.x, p.y, p.z, q.x, q.y, q.z, q.w. As the type of a
    parameter, `dtype` may be `Any` or a type variable.

    Raises:
        KernelTypeError: `dtype` is no float type.
    """
    return _of_floats(TRANSFORM, dtype)


def _of_floats(kind: CompositeKind, dtype: Any) -> CompositeType:
    scalar = as_scalar(dtype)
    if scalar is not None and not scalar.is_float:
        raise KernelTypeError(f"wp.types.{kind.name}: the component type must be a float type, not {scalar}")
    assert kind.shape is not None
    made: CompositeType = type_of_kind(kind, kind.shape, dtype)
    return made


# The functions that make the types of each kind: names of `jwarp.types`.
MAKERS: dict[str, Callable[..., CompositeType]] = {
    "vector": vector, "matrix": matrix, "quaternion": quaternion, "transformation": transformation,
}  # fmt: skip


def _names(kind: CompositeKind) -> Iterator[tuple[str, CompositeType]]:
    for shape in kind.named:
        stem = f"{kind.stem}{'' if kind.shape else ''.join(map(str, shape))}"
        yield from ((f"{stem}{suffix}", composite(kind, shape, SUFFIXES[suffix])) for suffix in kind.suffixes)
    for shape, title in kind.titles:
        yield from ((f"{title}{suffix}", composite(kind, shape, SUFFIXES[suffix])) for suffix in FLOAT_SUFFIXES)


# The types that have names of their own: names of `jwarp` and of `jwarp.types`.
NAMED: dict[str, CompositeType] = {name: type for kind in KINDS.values() for name, type in _names(kind)}


def transform_expand(t: Any) -> Any:
    """The transform with the seven numbers in `t`: a position, and a quaternion x, y, z, w.

    For use outside kernels; in kernels, write `wp.transform(*t)`.

    Raises:
        KernelTypeError: `t` does not have seven numbers.
    """
    numbers = list(t)
    if len(numbers) != 7:
        raise KernelTypeError(f"wp.transform_expand: a transform has 7 numbers, not {len(numbers)}")
    return NAMED["transform"](*numbers)
