"""Volumes: values and indices of voxels, and samples between them, written in the kernel language.

Voxels are in tiles of 8 by 8 by 8. A grid has the tiles by their coordinates where they fill a box, or else a hash
table; further hash tables have the tiles of 128 and of 4096 voxels along an edge that have one value. So each voxel of
space has a place in the row of values: one of its own, that of a tile with one value, or the background's. Derivatives
by values are those of the loads.
"""

# Annotations are types here, as functions are defined in loops over types.
from typing import Any

from jwarp.arrays.array import array
from jwarp.frontend.builtins.scalar import bit_count, floor, round, where
from jwarp.frontend.builtins.vector import outer
from jwarp.frontend.func import func
from jwarp.lib.float_types import Real
from jwarp.lib.geometry.hash_grid import coordinate
from jwarp.types import NAMED, float32, float64, int32, int64, struct, uint32, uint64, vector

vec3, vec4, vec3d, vec4d = NAMED["vec3"], NAMED["vec4"], NAMED["vec3d"], NAMED["vec4d"]
vec3i, vec4i, mat33, mat33d = NAMED["vec3i"], NAMED["vec4i"], NAMED["mat33"], NAMED["mat33d"]

CLOSEST, LINEAR = 0, 1
# An entry of the table: three coordinates, and the tile. Tiles with one value have numbers from ONE_VALUE down.
NOTHING, ONE_VALUE = -1, -2
WORDS = 16  # of 32 voxels in a tile


@struct
class VolumeArrays:
    """A volume of values in 32 bits, or of indices: what a kernel is given for it.

    `values` or `integers` has the numbers of 512 voxels for each tile, then one for each tile with one value, and the
    background last; of vectors, one component after the other. `sizes` are those of the tables of tiles with 8, 128 and
    4096 voxels along an edge, powers of two or 0. `dense` has the tiles of a box, `extents` tiles from `low` on, in
    the place of the first table. Where only some voxels of a tile have indices, `masks` tells which, in 16 words for
    a tile, and `starts` how many come before each word.
    """

    table: array[vec4i]
    dense: array[int32]
    low: vec3i
    extents: vec3i
    masks: array[uint32]
    starts: array[int32]
    values: array[float32]
    integers: array[int32]
    sizes: vec3i
    kind: int32  # the number of the type in NanoVDB
    single: int32  # the place of the first tile with one value
    background: int32  # the place of the background
    count: int32  # of voxels with indices
    transform: mat33
    inverse: mat33
    translation: vec3
    transform_rest: mat33  # what float32 leaves of the float64
    inverse_rest: mat33
    translation_rest: vec3


@struct
class VolumeArraysD:
    """As VolumeArrays, with values in 64 bits."""

    table: array[vec4i]
    dense: array[int32]
    low: vec3i
    extents: vec3i
    masks: array[uint32]
    starts: array[int32]
    values: array[float64]
    integers: array[int64]
    sizes: vec3i
    kind: int32
    single: int32
    background: int32
    count: int32
    transform: mat33
    inverse: mat33
    translation: vec3
    transform_rest: mat33
    inverse_rest: mat33
    translation_rest: vec3


KINDS = (VolumeArrays, VolumeArraysD)
for _kind in KINDS:
    _kind.stands_for = uint64


# -- places


@func
def hashed(x: int32, y: int32, z: int32):
    """The hash of the coordinates of a tile; the builder of tables computes the same."""
    mixed = (uint32(x) * uint32(73856093)) ^ (uint32(y) * uint32(19349663)) ^ (uint32(z) * uint32(83492791))
    return mixed ^ (mixed >> uint32(15))


@func
def tile_at(id: Any, start: int32, size: int32, x: int32, y: int32, z: int32):
    """The tile with these coordinates in one of the tables; NOTHING if it has none."""
    found = -1
    steps = int32(0)
    slot = int32(hashed(x, y, z) & uint32(size - 1))
    while steps < size:
        entry = id.table[start + slot]
        slot = (slot + 1) & (size - 1)
        steps += 1
        if entry[3] == -1:
            steps = size
        elif entry[0] == x and entry[1] == y and entry[2] == z:
            found = entry[3]
            steps = size
    return found


@func
def tile_of(id: Any, i: int32, j: int32, k: int32):
    """The smallest tile that a voxel is in."""
    tile = -1
    if id.sizes[0] > 0:
        tile = tile_at(id, 0, id.sizes[0], i >> 3, j >> 3, k >> 3)
    else:
        # Coordinates below `low` are large numbers without a sign.
        x, y, z = uint32((i >> 3) - id.low[0]), uint32((j >> 3) - id.low[1]), uint32((k >> 3) - id.low[2])
        if x < uint32(id.extents[0]) and y < uint32(id.extents[1]) and z < uint32(id.extents[2]):
            tile = id.dense[(int32(x) * id.extents[1] + int32(y)) * id.extents[2] + int32(z)]
    if tile == -1 and id.sizes[1] > 0:
        tile = tile_at(id, id.sizes[0], id.sizes[1], i >> 7, j >> 7, k >> 7)
    if tile == -1 and id.sizes[2] > 0:
        tile = tile_at(id, id.sizes[0] + id.sizes[1], id.sizes[2], i >> 12, j >> 12, k >> 12)
    return tile


@func
def offset_of(i: int32, j: int32, k: int32):
    """The number of a voxel in its tile."""
    return ((i & 7) << 6) | ((j & 7) << 3) | (k & 7)


@func
def index_of(id: Any, tile: int32, offset: int32):
    """The index of a voxel of a tile, -1 for none."""
    index = -1
    if tile >= 0:
        if id.masks.shape[0] == 0:
            index = tile * 512 + offset
        else:
            word = id.masks[tile * 16 + (offset >> 5)]
            bit = uint32(1) << uint32(offset & 31)
            if (word & bit) != uint32(0):
                index = id.starts[tile * 16 + (offset >> 5)] + bit_count(word & (bit - uint32(1)))
    return index


# -- values: `zero`, that of a type, chooses the function


@func
def read(numbers: Any, place: int32, zero: vector(length=Any, dtype=Any)):
    """A number, or the components of a vector, at a place."""
    value = zero
    for c in range(len(zero)):
        value[c] = numbers[len(zero) * place + c]
    return value


@func
def read(numbers: Any, place: int32, zero: Any):
    return type(zero)(numbers[place])


@func
def write(numbers: Any, place: int32, value: vector(length=Any, dtype=Any)):
    """Set a number, or the components of a vector, at a place."""
    for c in range(len(value)):
        numbers[len(value) * place + c] = value[c]


@func
def write(numbers: Any, place: int32, value: Any):
    numbers[place] = value


@func
def numbers_of(id: Any, zero: int32):
    return id.integers


@func
def numbers_of(id: Any, zero: int64):
    return id.integers


@func
def numbers_of(id: Any, zero: uint32):
    """The row that has the values of a type."""
    return id.integers


@func
def numbers_of(id: Any, zero: Any):
    return id.values


@func
def kind_of(zero: float32):
    return 1


@func
def kind_of(zero: float64):
    return 2


@func
def kind_of(zero: int32):
    return 4


@func
def kind_of(zero: int64):
    return 5


@func
def kind_of(zero: vec3):
    return 6


@func
def kind_of(zero: vec3d):
    return 7


@func
def kind_of(zero: uint32):
    return 10


@func
def kind_of(zero: vec4):
    return 17


@func
def kind_of(zero: vec4d):
    """The number of a type in NanoVDB."""
    return 18


# -- values of voxels: `source` has them, an array by the indices of voxels, or the volume itself


@func
def value_at(id: Any, tile: int32, offset: int32, source: array[Any], background: Any):
    """The value of a voxel of a tile: an element of an array, or the background where it has no index."""
    value = background
    index = index_of(id, tile, offset)
    if index >= 0:
        value = source[index]
    return value


@func
def value_at(id: Any, tile: int32, offset: int32, source: Any, zero: Any):
    """The value of a voxel of a tile; zero of a volume of another type."""
    value = zero
    place = id.background
    if tile >= 0:
        place = tile * 512 + offset
    elif tile < -1:
        place = id.single - 2 - tile
    if id.kind == kind_of(zero) and place >= 0:
        value = read(numbers_of(id, zero), place, zero)
    return value


# -- samples


@func
def interpolated(weight: float32, value: float32):
    return weight * value


@func
def interpolated(weight: float32, value: vector(length=Any, dtype=float32)):
    return weight * value


@func
def interpolated(weight: float32, value: vector(length=Any, dtype=float64)):
    """A value times a weight."""
    return float64(weight) * value


@func
def interpolated(weight: float32, value: Real):
    return type(value)(float64(weight) * float64(value))


@func
def along(value: float32, slopes: vec3):
    return value * slopes


@func
def along(value: float64, slopes: vec3):
    return value * vec3d(slopes)


@func
def along(value: vector(length=Any, dtype=float32), slopes: vec3):
    return outer(value, slopes)


@func
def along(value: vector(length=Any, dtype=float64), slopes: vec3):
    """The gradient of a value whose weight has these slopes along the axes."""
    return outer(value, vec3d(slopes))


@func
def weight_of(fraction: float32, side: int32):
    """The weight of the lower or the upper side along an axis."""
    return where(side == 1, fraction, 1.0 - fraction)


@func
def sign_of(side: int32):
    """The slope of the weight of a side."""
    return where(side == 1, 1.0, -1.0)


@func
def slopes_of(fx: float32, fy: float32, fz: float32, a: int32, b: int32, c: int32):
    """The slopes of the weight of a corner along the axes."""
    wx = weight_of(fx, a)
    wy = weight_of(fy, b)
    wz = weight_of(fz, c)
    return vec3(sign_of(a) * wy * wz, sign_of(b) * wx * wz, sign_of(c) * wx * wy)


@func
def corner_value(id: Any, first: int32, i: int32, j: int32, k: int32, corner: int32, source: Any, background: Any):
    """The value of one of the eight voxels from `i, j, k` on, which is in the tile `first`."""
    x, y, z = i + (corner >> 2), j + ((corner >> 1) & 1), k + (corner & 1)
    tile = first
    if ((i ^ x) | (j ^ y) | (k ^ z)) >> 3 != 0:
        tile = tile_of(id, x, y, z)
    return value_at(id, tile, offset_of(x, y, z), source, background)


@func
def sampled(id: Any, uvw: vec3, sampling_mode: int32, source: Any, background: Any):
    """The value at a place in index space; zero for another mode."""
    value = type(background)(0.0)
    if sampling_mode == 0:
        i, j, k = coordinate(round(uvw[0])), coordinate(round(uvw[1])), coordinate(round(uvw[2]))
        value = value_at(id, tile_of(id, i, j, k), offset_of(i, j, k), source, background)
    elif sampling_mode == 1:
        x, y, z = floor(uvw[0]), floor(uvw[1]), floor(uvw[2])
        i, j, k = coordinate(x), coordinate(y), coordinate(z)
        first = tile_of(id, i, j, k)
        for corner in range(8):
            a, b, c = corner >> 2, (corner >> 1) & 1, corner & 1
            weight = weight_of(uvw[0] - x, a) * weight_of(uvw[1] - y, b) * weight_of(uvw[2] - z, c)
            value += interpolated(weight, corner_value(id, first, i, j, k, corner, source, background))
    return value


@func
def sampled_gradient(id: Any, uvw: vec3, sampling_mode: int32, source: Any, background: Any, gradient: Any):
    """The gradient of the value at a place by the place; `gradient`, which is zero, for any mode but LINEAR."""
    total = gradient
    if sampling_mode == 1:
        x, y, z = floor(uvw[0]), floor(uvw[1]), floor(uvw[2])
        i, j, k = coordinate(x), coordinate(y), coordinate(z)
        first = tile_of(id, i, j, k)
        for corner in range(8):
            a, b, c = corner >> 2, (corner >> 1) & 1, corner & 1
            slopes = slopes_of(uvw[0] - x, uvw[1] - y, uvw[2] - z, a, b, c)
            total += along(corner_value(id, first, i, j, k, corner, source, background), slopes)
    return total


__all__ = ["KINDS", "VolumeArrays", "VolumeArraysD"]
