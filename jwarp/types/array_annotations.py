"""Annotations of arrays as objects, `wp.array[float]`: what is written, and the type that this stands for."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args, get_origin

from jwarp.config import surface
from jwarp.errors import KernelTypeError
from jwarp.types.annotations import Written
from jwarp.types.arrays import StructType, array_type, element_of
from jwarp.types.composites import MATRIX, NAMED, QUATERNION, TRANSFORM, VECTOR, CompositeType
from jwarp.types.patterns import ANY
from jwarp.types.scalars import ScalarType, as_scalar
from jwarp.types.tiles import MAX_DIMS


class ArrayAnnotation(Written):
    """The type of a parameter or field that `wp.array[float]` denotes: elements `dtype`, along `ndim` axes.

    It compares by these, is shown as it is written, and stands in unions. In programs it may be of elements or of a
    number of axes that kernels do not know, `typing.Any` axes among these, as long as no kernel takes it.

    Raises:
        KernelTypeError: `ndim` is not from 1 to 4; it is a ValueError, too.
    """

    __slots__ = ("_fault", "_type", "dtype", "ndim")

    family: ClassVar[str] = "array"
    number: ClassVar[int] = 0  # of the family, in the tables of programs

    def __init__(self, dtype: Any, ndim: Any = 1):
        self.ndim = one_value(ndim)
        if type(self.ndim) is int and not 1 <= self.ndim <= MAX_DIMS:
            text = f"wp.{self.family}: ndim must be between 1 and {MAX_DIMS}, not {self.ndim}"
            raise KernelTypeError(text, also=ValueError)
        self._fault: KernelTypeError | None = None
        try:
            of_data = array_type(dtype, self.ndim)
            self._type, self.dtype = self._of(of_data), element_or_any(of_data)
        except KernelTypeError as error:
            if not surface.is_warps:
                raise
            self._fault, self._type = error, None
            self.dtype = as_scalar(dtype) or dtype

    @staticmethod
    def _of(of_data: Any) -> Any:
        """The type that kernels see, where `of_data` is that of an ordinary array."""
        return of_data

    @property
    def array_type(self) -> Any:
        """The type that it stands for.

        Raises:
            KernelTypeError: kernels know none.
        """
        if self._fault is not None:
            raise KernelTypeError(self._fault.diagnostic.message, hint=self._fault.diagnostic.hint)
        return self._type

    def __repr__(self) -> str:
        rank = self.ndim if type(self.ndim) is int else 0
        is_short = type(self) is ArrayAnnotation and rank > 1
        name = f"wp.{self.family}{f'{rank}d' if is_short else ''}"
        last = "" if rank == 1 or is_short else f", {f'Literal[{rank}]' if rank else 'Any'}"
        return f"{name}[{_written(self.dtype)}{last}]"

    def __reduce__(self) -> Any:
        return type(self), (self.dtype, self.ndim)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ArrayAnnotation):
            return type(self) is type(other) and (self.dtype, self.ndim) == (other.dtype, other.ndim)
        return isinstance(other, Written) and self._type is not None and self._type == other.array_type

    def __hash__(self) -> int:
        return hash((self.family, self.dtype, self.ndim))


def element_or_any(kind: Any) -> Any:
    """The type of elements of a type of arrays: `typing.Any` where that is open."""
    found = getattr(kind, "element", None) or element_of(kind)
    return Any if found is ANY else found


def one_value(written: Any) -> Any:
    """The number that `Literal[2]` stands for; anything else as it is."""
    if get_origin(written) is not Literal:
        return written
    if len(get_args(written)) != 1:
        raise KernelTypeError(f"Expected a single Literal value, not {written!r}")
    return get_args(written)[0]


def _written(dtype: Any) -> str:
    """The name of a type of elements in an annotation, as users write it."""
    from jwarp.types.queries import type_repr  # which knows annotations

    if dtype is Any:
        return "Any"
    if isinstance(dtype, ScalarType):
        return f"wp.{type_repr(dtype)}"
    if isinstance(dtype, CompositeType):
        if NAMED.get(dtype.full_name) is dtype:
            return f"wp.{dtype.full_name}"
        return type_repr(dtype) if dtype.kind in (VECTOR, MATRIX, QUATERNION, TRANSFORM) else repr(dtype)
    return dtype.__qualname__ if isinstance(dtype, (type, StructType)) else repr(dtype)
