"""Types of tiles in the IR: what a value of it may be."""

from __future__ import annotations

import math

from jwarp.caches import Cache
from jwarp.types.scalars import Scalar, ScalarType

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


# The type of a value of the IR: a scalar type, or the type of tiles of one.
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
