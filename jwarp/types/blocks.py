"""Types of what the threads of a block share, as kernels name them: tiles, and stacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from jwarp.errors import KernelTypeError
from jwarp.types.arrays import StructType
from jwarp.types.composites import Composite, CompositeType
from jwarp.types.patterns import Bound, Pattern
from jwarp.types.scalars import ScalarType, as_scalar
from jwarp.types.tiles import MAX_DIMS, MAX_TILE_ELEMENTS

# The types of an element of a tile.
ElementType = ScalarType | CompositeType | StructType


@dataclass(frozen=True, repr=False)
class TileKind(Pattern):
    """The type of a tile in kernel code: what its elements are, and its shape. None stands for any."""

    is_block = True
    dtype: ElementType | None
    shape: tuple[int, ...] | None

    @property
    def scalar(self) -> ScalarType:
        """The scalar type of the elements, or of their components; structs have no such."""
        assert self.dtype is not None and not isinstance(self.dtype, StructType)
        return self.dtype.dtype if isinstance(self.dtype, CompositeType) else self.dtype

    def fits(self, kind: Any, bound: Bound) -> bool:
        return (
            isinstance(kind, TileKind)
            and self.dtype in (None, kind.dtype)
            and (self.shape is None or self.shape == kind.shape)
        )

    def filled(self, bound: Bound) -> Any:
        return self

    def __repr__(self) -> str:
        dtype = "Any" if self.dtype is None else repr(self.dtype)
        return f"tile({dtype}, shape={'Any' if self.shape is None else self.shape})"


def as_element(dtype: Any) -> ElementType | None:
    """The type of elements of tiles that `dtype` is, or None."""
    if isinstance(dtype, StructType) or (isinstance(dtype, CompositeType) and dtype is not Composite):
        return dtype
    return as_scalar(dtype)


def _tile_kind(dtype: Any, shape: Any) -> TileKind:
    element = as_element(dtype)
    if element is None and dtype is not Any:
        raise KernelTypeError(
            f"wp.tile: the dtype of a tile must be a scalar, vector, matrix or struct type, not {dtype!r}",
            hint="write wp.tile(dtype=float, shape=(8, 8)) or wp.tile[float, 8, 8]",
        )
    if shape is Any:
        return TileKind(element, None)
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    good = all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in extents)
    if not good or not 1 <= len(extents) <= MAX_DIMS:
        raise KernelTypeError(f"wp.tile: the shape of a tile is 1 to {MAX_DIMS} positive integers, not {shape!r}")
    return TileKind(element, extents)


def value_of(written: Any) -> Any:
    """The value that `Literal[8]` stands for, as type checkers want numbers written; anything else as it is."""
    return get_args(written)[0] if get_origin(written) is Literal and len(get_args(written)) == 1 else written


class tile:
    """Annotation of a tile parameter of a `@wp.func`: `wp.tile(dtype=float, shape=(8, 8))`, `wp.tile[float, 8, 8]`.

    In kernels `wp.tile(x)` makes a tile of the values that the threads of a block have.
    """

    def __class_getitem__(cls, given: Any) -> Any:
        if given == ():
            raise KernelTypeError("wp.tile[…] requires at least a dtype", hint="wp.tile[float, 8, 8]")
        dtype, *extents = [value_of(x) for x in (given if isinstance(given, tuple) else (given,))]
        if len(extents) == 1 and isinstance(extents[0], tuple):
            (extents,) = extents
        return _tile_kind(dtype, tuple(extents) if extents else Any)

    def __new__(cls, dtype: Any, shape: Any = Any) -> Any:
        return _tile_kind(dtype, shape)


@dataclass(frozen=True, repr=False)
class StackKind:
    """The type of a stack in kernel code: what its elements are, and how many it holds at most."""

    dtype: ElementType
    capacity: int

    def __repr__(self) -> str:
        return f"tile_stack({self.dtype!r}, capacity={self.capacity})"


class tile_stack:
    """Annotation of a stack that is a parameter of a `@wp.func`: `wp.tile_stack(capacity=64, dtype=int)`.

    In kernels `wp.tile_stack(capacity, dtype)` makes a stack.
    """

    def __class_getitem__(cls, given: Any) -> Any:
        dtype, capacity = given
        return cls(value_of(capacity), dtype)

    def __new__(cls, capacity: int, dtype: Any) -> Any:
        element = as_element(dtype)
        if element is None or type(capacity) is not int or not 1 <= capacity <= MAX_TILE_ELEMENTS:
            raise KernelTypeError(
                f"wp.tile_stack: ({capacity!r}, {dtype!r}) are no positive integer and type of elements",
                hint="write wp.tile_stack(capacity=64, dtype=int)",
            )
        return StackKind(element, capacity)
