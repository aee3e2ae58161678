"""The types of vectors and matrices: scalars in one or two axes, of a kind that says what they are.

A kind is a row, and so is what its types can do in kernels (`jwarp.frontend.values.operators`). Types of two kinds
are never the same, whatever their components.
"""

from __future__ import annotations

import copyreg
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jwarp.caches import Cache
from jwarp.errors import KernelTypeError
from jwarp.types.patterns import Bound, Pattern, as_pattern, filled, fits
from jwarp.types.scalars import (
    ScalarType,
    as_scalar,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    range_of,
    uint8,
    uint16,
    uint32,
    uint64,
)

# What the names of types end with, as in Warp: vec3d, mat33h.
SUFFIXES = {
    "": float32, "b": int8, "ub": uint8, "s": int16, "us": uint16, "i": int32, "ui": uint32, "l": int64, "ul": uint64,
    "h": float16, "f": float32, "d": float64,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class CompositeKind:
    """What the composite types of one kind have in common.

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
    # What the components are called, from the first on: `v.x`.
    components: tuple[str, ...] = ()
    # Whether one number makes a whole value: it is each of the components.
    repeats: bool = True
    # Whether functions of scalars, such as abs and min, take values of the kind, component by component.
    by_component: bool = True

    @property
    def rank(self) -> int:
        """Number of component axes."""
        return len(self.named[0])

    def name_of(self, shape: tuple[int, ...], dtype: ScalarType) -> str:
        """How the type of this shape and component type is called."""
        suffix = next((suffix for suffix, known in SUFFIXES.items() if known is dtype), None)
        if suffix is not None and shape in self.named:
            return f"{self.stem}{'' if self.shape else ''.join(map(str, shape))}{suffix}"
        own = "" if self.shape else f"{shape[0] if len(shape) == 1 else shape}, "
        return f"{self.name}({own}{dtype})"

    def __repr__(self) -> str:
        return f"<composite kind {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return kind_named, (self.name,)


class CompositeType(type):
    """Metaclass of the composite types: their kind, component type, and shape of one or two extents."""

    name: str
    kind: CompositeKind
    dtype: ScalarType
    shape: tuple[int, ...]

    def __repr__(cls) -> str:
        return cls.name

    @property
    def size(cls) -> int:
        """Number of components."""
        return math.prod(cls.shape)

    @property
    def is_vector(cls) -> bool:
        """Whether it is a type of vectors; of other kinds of one axis it is not."""
        return cls.kind is VECTOR

    def is_like(cls, other: CompositeType) -> bool:
        """Whether the types differ in nothing but the type of the components."""
        return cls.kind is other.kind and cls.shape == other.shape

    @property
    def transposed(cls) -> CompositeType:
        """The matrix type with rows and columns exchanged."""
        return matrix((cls.shape[1], cls.shape[0]), cls.dtype)


class Composite(metaclass=CompositeType):
    """Base of the composite types. Called outside kernels, `wp.vec3(…)` gives a NumPy array.

    It has the type's shape and component dtype, and is made of nothing (zeros), of all components in any nesting,
    or of one number for all of them.

    Raises:
        KernelTypeError: another number of components, or values that the component type does not take.
    """

    def __new__(cls, *components: Any) -> Any:
        values = _components(cls, components)
        counts = (0, 1, cls.size) if cls.kind.repeats else (0, cls.size)
        if values.size not in counts:
            raise KernelTypeError(f"{cls.name} has {cls.size} components, {values.size} values given")
        whole = np.broadcast_to(values if values.size else 0, cls.size).reshape(cls.shape)
        made = whole.astype(cls.dtype.dtype).view(CompositeValue)
        made.kind = cls.kind
        return made


def _components(type_: CompositeType, components: tuple) -> np.ndarray:
    """The numbers that a composite is made of outside kernels."""
    scalar = type_.dtype
    try:
        given = np.asarray(components)
        values = np.asarray(components, scalar.dtype).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise KernelTypeError(
            f"{type_.name}{components!r}: these are no components of type {scalar}", hint=range_of(scalar)
        ) from None
    if scalar.is_int and given.size and given.dtype.kind not in "biu":
        raise KernelTypeError(f"{type_.name}{components!r}: these are no integers", hint="round them first")
    return values


class CompositeValue(np.ndarray):
    """A composite outside kernels: a NumPy array that kernels may refer to by name."""

    kind: CompositeKind | None = None

    def __array_finalize__(self, source: Any) -> None:
        self.kind = getattr(source, "kind", None)

    def __reduce__(self) -> Any:
        make, given, state = super().__reduce__()  # type: ignore[str-unpack]
        return make, given, (state, self.kind)

    def __setstate__(self, state: Any) -> None:
        content, self.kind = state
        super().__setstate__(content)

    def __deepcopy__(self, memo: dict[int, Any] | None) -> CompositeValue:
        return self.copy()

    def type_in_kernels(self, dtype: ScalarType) -> CompositeType:
        """What it is in kernels, where its dtype is `dtype`: of its kind, while it has the shape of one such."""
        if self.kind is not None and self.kind.shape == self.shape:
            return composite(self.kind, self.shape, dtype)
        return composite(PLAIN[self.ndim], self.shape, dtype)


_types: Cache[tuple[CompositeKind, tuple[int, ...], ScalarType], CompositeType] = Cache(
    "composite types", "types that kernels name"
)


def composite(kind: CompositeKind, shape: tuple[int, ...], dtype: ScalarType) -> CompositeType:
    """The type of composites of a kind, one in all threads; `shape` is one that the kind has."""
    return _types.made((kind, shape, dtype), lambda: _made(kind, shape, dtype))


def _made(kind: CompositeKind, shape: tuple[int, ...], dtype: ScalarType) -> CompositeType:
    assert len(shape) == kind.rank and kind.shape in (None, shape)
    name = kind.name_of(shape, dtype)
    fields = {"name": name, "kind": kind, "dtype": dtype, "shape": shape, "__module__": "jwarp"}
    return CompositeType(name, (Composite,), {**fields, "__doc__": f"{name} of {dtype}."})


def _described(type_: CompositeType) -> tuple[Any, ...]:
    return composite, (type_.kind, type_.shape, type_.dtype)


copyreg.pickle(CompositeType, _described)  # by description: most have no name to be found under

VECTOR = CompositeKind("vector", "vectors", "vec", ((2,), (3,), (4,)), tuple(SUFFIXES), components=("x", "y", "z", "w"))
MATRIX = CompositeKind("matrix", "matrices", "mat", ((2, 2), (3, 3), (4, 4)), ("", "h", "f", "d"))

KINDS = {kind.name: kind for kind in (VECTOR, MATRIX)}


def kind_named(name: str) -> CompositeKind:
    """The kind of that name."""
    return KINDS[name]


# What components are that belong to nothing else, by the number of their axes: rows and slices of other kinds.
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
    if not all(n is Any or (isinstance(n, int) and not isinstance(n, bool) and n >= 1) for n in shape):
        raise KernelTypeError(f"{what}: extents must be positive integers, not {shape}")
    return _type_or_pattern(kind, tuple(None if n is Any else n for n in shape), component)


def vector(length: Any, dtype: Any) -> CompositeType:
    """The type of vectors of `length` components of scalar type `dtype`: `wp.types.vector(5, wp.float32)`.

    Outside kernels a vector is an array of shape (length,). As the type of a parameter, `length` may be `Any`, and
    `dtype` `Any` or a type variable such as `wp.Float`: the kernel or function is generic then.

    Raises:
        KernelTypeError: `length` is no positive integer, or `dtype` no scalar type.
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
        raise KernelTypeError(f"wp.types.matrix: needs (rows, columns) and a scalar type, not {shape!r}, {dtype!r}")
    made: CompositeType = type_of_kind(MATRIX, tuple(shape), dtype)
    return made


# What makes the types of each kind: names of `jwarp.types`.
MAKERS: dict[str, Callable[..., CompositeType]] = {"vector": vector, "matrix": matrix}

# The types that have names of their own: names of `jwarp` and of `jwarp.types`.
NAMED: dict[str, CompositeType] = {
    f"{kind.stem}{'' if kind.shape else ''.join(map(str, shape))}{suffix}": composite(kind, shape, SUFFIXES[suffix])
    for kind in KINDS.values()
    for shape in kind.named
    for suffix in kind.suffixes
}
