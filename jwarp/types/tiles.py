"""Types of tiles: what a value of the IR may be, and what a parameter of a function is annotated with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jwarp.caches import Cache
from jwarp.errors import KernelTypeError
from jwarp.types.composites import Composite, CompositeType
from jwarp.types.patterns import Bound, Pattern
from jwarp.types.scalars import Scalar, ScalarType, as_scalar

# Greatest number of dimensions of a launch, an array or a tile.
MAX_DIMS = 4

MAX_TILE_ELEMENTS = 1 << 20


class TileType(ScalarType):
    """Metaclass of the types of tiles: scalars of one type in a block of static shape.

    What is asked of a scalar type is answered for the elements.
    """

    scalar: ScalarType
    shape: tuple[int, ...]

    @property
    def size(cls) -> int:
        """Number of elements."""
        return math.prod(cls.shape)


_types: Cache[tuple[ScalarType, tuple[int, ...]], TileType] = Cache("tile types", "types that kernels name")


def tile_type(scalar: ScalarType, shape: tuple[int, ...]) -> TileType:
    """The type of tiles of `shape`, of one to four extents: one for each scalar type and shape, in all threads."""
    return _types.made((scalar, shape), lambda: _made(scalar, shape))


def _made(scalar: ScalarType, shape: tuple[int, ...]) -> TileType:
    assert 1 <= len(shape) <= MAX_DIMS and all(n >= 1 for n in shape)
    name = f"{scalar.name}[{'x'.join(map(str, shape))}]"
    fields = {"scalar": scalar, "shape": shape, "__module__": "jwarp"}
    return TileType(name, (Scalar,), fields, kind=scalar.kind, bits=scalar.bits, dtype=scalar.dtype)


# What a value of the IR may be: a scalar type, or the type of tiles of one.
ValueType = ScalarType


def scalar_of(type_: ValueType) -> ScalarType:
    """The type of the elements of a tile; a scalar type itself."""
    return type_.scalar if isinstance(type_, TileType) else type_


def shape_of(type_: ValueType) -> tuple[int, ...]:
    """The shape of a tile; () for a scalar."""
    return type_.shape if isinstance(type_, TileType) else ()


def with_shape(scalar: ScalarType, shape: tuple[int, ...]) -> ValueType:
    """The type of tiles of `shape`; for () the scalar type."""
    return tile_type(scalar, shape) if shape else scalar


@dataclass(frozen=True, repr=False)
class TileKind(Pattern):
    """The type of a tile in kernel code: what its elements are, and its shape. None stands for any."""

    dtype: ScalarType | CompositeType | None
    shape: tuple[int, ...] | None

    @property
    def scalar(self) -> ScalarType:
        """The scalar type of the elements, or of their components."""
        assert self.dtype is not None
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


def _tile_kind(dtype: Any, shape: Any) -> TileKind:
    element = dtype if isinstance(dtype, CompositeType) and dtype is not Composite else as_scalar(dtype)
    if element is None and dtype is not Any:
        raise KernelTypeError(
            f"wp.tile: the dtype of a tile must be a scalar, vector or matrix type, not {dtype!r}",
            hint="write wp.tile(dtype=float, shape=(8, 8)) or wp.tile[float, 8, 8]",
        )
    if shape is Any:
        return TileKind(element, None)
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    good = all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in extents)
    if not good or not 1 <= len(extents) <= MAX_DIMS:
        raise KernelTypeError(f"wp.tile: the shape of a tile is 1 to {MAX_DIMS} positive integers, not {shape!r}")
    return TileKind(element, extents)


class tile:
    """Annotation of a tile parameter of a `@wp.func`: `wp.tile(dtype=float, shape=(8, 8))`, `wp.tile[float, 8, 8]`.

    In kernels `wp.tile(x)` makes a tile of the values that the threads of a block have.
    """

    def __class_getitem__(cls, given: Any) -> Any:
        dtype, *extents = given if isinstance(given, tuple) else (given,)
        if len(extents) == 1 and isinstance(extents[0], tuple):
            (extents,) = extents
        return _tile_kind(dtype, tuple(extents) if extents else Any)

    def __new__(cls, dtype: Any, shape: Any = Any) -> Any:
        return _tile_kind(dtype, shape)
