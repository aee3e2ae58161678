"""Arrays and structs as types of parameters, and the annotations that users write for arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jwarp.errors import KernelTypeError
from jwarp.types.composites import Composite, CompositeType, composite
from jwarp.types.scalars import ScalarType, as_scalar
from jwarp.types.tiles import MAX_DIMS


@dataclass(frozen=True)
class ArrayType:
    """An array parameter as JAX sees it: component type, and number of axes.

    `element` is the shape of a vector or matrix element, whose axes are the last of the `ndim`. Where
    there are no others, the parameter is one vector or matrix, passed by value.
    """

    dtype: ScalarType
    ndim: int
    element: tuple[int, ...] = ()

    @property
    def dims(self) -> int:
        """Number of axes that a kernel's indices run over."""
        return self.ndim - len(self.element)

    @property
    def element_type(self) -> ScalarType | CompositeType:
        """What one element is."""
        return composite(self.element, self.dtype) if self.element else self.dtype

    def __repr__(self) -> str:
        dims = self.dims
        return f"array{f'{dims}d' if dims > 1 else ''}[{self.element_type!r}]" if dims else repr(self.element_type)


class StructType(type):
    """Metaclass of the structs, which `jwarp.types.structs` makes: the names and types of the fields, in order."""

    fields: dict[str, Any]

    def __repr__(cls) -> str:
        return cls.__name__


@dataclass(frozen=True)
class StructArrayType:
    """An array of structs: on the JAX side one struct, all of whose leaves have the array's axes in front."""

    struct: StructType
    dims: int

    def __repr__(self) -> str:
        return f"array{f'{self.dims}d' if self.dims > 1 else ''}[{self.struct!r}]"


Type = ScalarType | ArrayType
# What is taken apart into parameters of a `Type` each.
AnyType = Type | StructType | StructArrayType


def as_type(annotation: Any) -> AnyType | None:
    """The type of a parameter annotated with `annotation`, or None."""
    if isinstance(annotation, (StructType, StructArrayType)):
        return annotation
    if isinstance(annotation, CompositeType) and annotation is not Composite:
        return ArrayType(annotation.dtype, len(annotation.shape), annotation.shape)
    return annotation if isinstance(annotation, ArrayType) else as_scalar(annotation)


def _array_type(dtype: Any, ndim: Any) -> ArrayType | StructArrayType:
    element = dtype if isinstance(dtype, CompositeType) and dtype is not Composite else None
    scalar = element.dtype if element else as_scalar(dtype)
    if scalar is None and not isinstance(dtype, StructType):
        raise KernelTypeError(
            f"wp.array: element type must be a scalar, vector, matrix or struct type, not {dtype!r}",
            hint="write wp.array[float], or wp.array(dtype=float)",
        )
    if not isinstance(ndim, int) or not 1 <= ndim <= MAX_DIMS:
        raise KernelTypeError(f"wp.array: ndim must be 1 to {MAX_DIMS}, not {ndim!r}")
    if scalar is None:
        return StructArrayType(dtype, ndim)
    shape = element.shape if element else ()
    return ArrayType(scalar, ndim + len(shape), shape)


class array:
    """Annotation of an array parameter: `wp.array[float]` or `wp.array(dtype=float, ndim=2)`."""

    _ndim = 1

    def __class_getitem__(cls, dtype: Any) -> Any:
        return _array_type(dtype, cls._ndim)

    def __new__(cls, *given: Any, dtype: Any = None, ndim: int | None = None, **other: Any) -> Any:
        # In Warp this also makes arrays: wp.array(data, dtype=float, device="cpu").
        is_data = bool(given) and as_type(given[0]) is None and not isinstance(given[0], type)
        if is_data or other or len(given) > 1 or (given and dtype is not None):
            raise KernelTypeError(
                "wp.array is only the type of a parameter: it makes no arrays",
                hint="give NumPy or JAX arrays to wp.launch and to JAX functions as they are",
            )
        return _array_type(given[0] if given else dtype, cls._ndim if ndim is None else ndim)


class array1d(array):
    """Annotation of a 1-D array parameter."""


class array2d(array):
    """Annotation of a 2-D array parameter."""

    _ndim = 2


class array3d(array):
    """Annotation of a 3-D array parameter."""

    _ndim = 3


class array4d(array):
    """Annotation of a 4-D array parameter."""

    _ndim = 4
