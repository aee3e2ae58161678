"""Arrays and structs as types of parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from jwarp.errors import KernelTypeError
from jwarp.types.annotations import meant
from jwarp.types.composites import Composite, CompositeType
from jwarp.types.patterns import Bound, Pattern, as_pattern, filled, fits
from jwarp.types.scalars import ScalarType, as_scalar
from jwarp.types.tiles import MAX_DIMS

# The shape of each parameter of a kernel that is an array, None for the others.
Extents = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True)
class ArrayType:
    """An array parameter: what its elements are, and how many axes a kernel's indices run over.

    As JAX sees it, an array has `ndim` axes of `dtype`: the axes of the `components` of its elements come last.
    Of no `dims`, it is one vector or matrix, passed by value.
    """

    element: ScalarType | CompositeType
    dims: int
    # Properties that follow from these, computed once, because launches ask for them.
    dtype: ScalarType = field(init=False, repr=False, compare=False)
    components: tuple[int, ...] = field(init=False, repr=False, compare=False)
    ndim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        element = self.element
        scalar = element.dtype if isinstance(element, CompositeType) else element
        components = element.shape if isinstance(element, CompositeType) else ()
        if 0 in components and self.dims:
            raise KernelTypeError(f"an array cannot hold {element!r}, which has no components")
        # The dataclass is frozen.
        object.__setattr__(self, "dtype", scalar)
        object.__setattr__(self, "components", components)
        object.__setattr__(self, "ndim", self.dims + len(components))

    def __repr__(self) -> str:
        dims = self.dims
        return f"array{f'{dims}d' if dims > 1 else ''}[{self.element!r}]" if dims else repr(self.element)


@dataclass(frozen=True)
class Member:
    """A field of a struct; `type` is as users write it, `wp.vec3`."""

    label: str
    type: Any


class StructType(type):
    """Metaclass of the structs, which `jwarp.types.structs` makes: the names and types of the fields, in order."""

    fields: dict[str, AnyType]
    indexed: ArrayType | None = None  # of the structs that stand for indexed arrays: what kernels see
    # The type whose parameters of functions take it too, if any: uint64 for the arrays of a mesh, which it names.
    stands_for: Any = None
    static: tuple[str, ...] = ()  # the fields that are constants under JAX, and no leaves
    holds_handles = False  # whether it is another one with arrays of grids, trees and meshes for the numbers in that
    following: Any = None  # of what loops go over: the function that gives the next one, `while following(x, item):`
    # Of those whose items come in runs: the function that goes on to the next one, from x.slot up to x.end, and the one
    # that gives the item of a slot.
    in_runs: tuple[Any, Any] | None = None
    # Of those of several kinds that a condition may choose between: the struct for all, whose last field is a number of
    # the kind.
    general: tuple[StructType, int] | None = None
    described_of: StructType | None = None  # of those whose arrays are descriptors: the struct as it is written
    table_of: StructType | None = None  # of those that stand for arrays of ids: what these are the ids of

    @property
    def is_handle(cls) -> bool:
        """True if the struct is passed for a number that names it."""
        return cls.stands_for is not None and not isinstance(cls.stands_for, StructType)

    @property
    def written(cls) -> StructType:
        """The struct as its author wrote it: with numbers in the places of grids, trees and meshes."""
        return cls.stands_for if cls.holds_handles else cls

    @property
    def named(cls) -> str:
        """The user's name of the handle's type: Mesh, Bvh, HashGrid, Volume."""
        return cls.__name__.partition("Arrays")[0]

    @property
    def vars(cls) -> dict[str, Member]:
        """The fields by name, as Warp's structs tell of them."""
        return {name: Member(name, user_type(kind)) for name, kind in cls.fields.items()}

    @property
    def key(cls) -> str:
        """The name with those of what the struct is defined in, as Warp writes it: `f__locals__S`."""
        return re.sub(r"\W", "", cls.__qualname__.replace(".", "__"))

    @property
    def cls(cls) -> StructType:
        """The class that it was made of, as Warp's structs tell it: it is the struct."""
        return cls

    def __repr__(cls) -> str:
        return cls.__name__


@dataclass(frozen=True)
class StructArrayType:
    """An array of structs: on the JAX side one struct, all of whose leaves have the array's axes in front."""

    struct: StructType
    dims: int

    def __repr__(self) -> str:
        return f"array{f'{self.dims}d' if self.dims > 1 else ''}[{self.struct!r}]"


@dataclass(frozen=True, repr=False)
class ArrayPattern(Pattern):
    """Stands for the arrays of so many axes whose elements a pattern stands for."""

    element: Pattern
    dims: int

    def fits(self, kind: Any, bound: Bound) -> bool:
        if not isinstance(kind, (ArrayType, StructArrayType)) or kind.dims != self.dims:
            return False
        return fits(element_of(kind), self.element, bound)

    def filled(self, bound: Bound) -> Any:
        element = filled(self.element, bound)
        return array_of(element, self.dims)

    def __repr__(self) -> str:
        return f"array{f'{self.dims}d' if self.dims > 1 else ''}[{self.element!r}]"


def element_of(kind: ArrayType | StructArrayType) -> ScalarType | CompositeType | StructType:
    """The type of an array's elements."""
    return kind.struct if isinstance(kind, StructArrayType) else kind.element


def array_of(element: Any, dims: int) -> Any:
    """The type of arrays of scalars, composites or structs; a pattern where the element is one."""
    if isinstance(element, Pattern):
        return ArrayPattern(element, dims)
    return StructArrayType(element, dims) if isinstance(element, StructType) else ArrayType(element, dims)


Type = ScalarType | ArrayType
# Types that are taken apart into parameters of a `Type` each.
AnyType = Type | StructType | StructArrayType


def as_type(annotation: Any) -> AnyType | None:
    """The type of a parameter annotated with `annotation`, or None."""
    annotation = meant(annotation)
    if isinstance(annotation, (StructType, StructArrayType)):
        return annotation
    if isinstance(annotation, CompositeType) and annotation is not Composite:
        return ArrayType(annotation.plain, 0)
    return annotation if isinstance(annotation, ArrayType) else as_scalar(annotation)


def user_type(kind: AnyType | CompositeType) -> AnyType | CompositeType:
    """The type of a field or parameter as users write it: `wp.vec3` for a vector that is passed by value."""
    if isinstance(kind, StructType) and kind.indexed is not None:
        return kind.indexed
    return kind.element if isinstance(kind, ArrayType) and kind.dims == 0 else kind


def wanted_type(annotation: Any) -> Any:
    """The type that an annotation asks for as users write it, or a pattern of types; None if it is neither."""
    kind = as_type(annotation)
    return as_pattern(annotation, _written) if kind is None else user_type(kind)


def _written(annotation: Any) -> Any:
    kind = as_type(annotation)
    return None if kind is None else user_type(kind)


def _has_content(struct: StructType) -> bool:
    return any(_has_content(kind) if isinstance(kind, StructType) else True for kind in struct.fields.values())


def array_type(dtype: Any, ndim: Any) -> Any:
    """The type of arrays of `ndim` axes (or a `Literal` of that) of elements `dtype`; a pattern where that is one.

    Raises:
        KernelTypeError: there are no such arrays.
    """
    ndim = get_args(ndim)[0] if get_origin(ndim) is Literal else ndim
    is_composite = isinstance(dtype, CompositeType) and dtype is not Composite
    element = dtype.plain if is_composite else dtype if isinstance(dtype, StructType) else as_scalar(dtype)
    element = element or as_pattern(dtype, _written)
    if element is None or isinstance(element, ArrayPattern):
        raise KernelTypeError(
            f"wp.array: element type must be a scalar, vector, matrix or struct type, not {dtype!r}",
            hint="write wp.array[float], or wp.array(dtype=float)",
        )
    if isinstance(dtype, StructType) and not _has_content(dtype):
        raise KernelTypeError(f"wp.array: {dtype!r} has no fields, so that an array of it has no extents")
    if not isinstance(ndim, int) or not 1 <= ndim <= MAX_DIMS:
        raise KernelTypeError(f"wp.array: ndim must be 1 to {MAX_DIMS}, not {ndim!r}")
    return array_of(element, ndim)
