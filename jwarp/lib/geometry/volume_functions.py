"""The functions of volumes that kernels call: lookups, samples, stores and transforms."""

# Annotations are types here, as functions are defined in loops over types.
from typing import Any

from jwarp.arrays.array import array
from jwarp.frontend.builtins.table import library
from jwarp.frontend.func import func
from jwarp.lib.geometry.volumes import (
    KINDS,
    VolumeArrays,
    VolumeArraysD,
    index_of,
    kind_of,
    numbers_of,
    offset_of,
    sampled,
    sampled_gradient,
    tile_of,
    value_at,
    write,
)
from jwarp.types import NAMED, Reference, float32, float64, int32, int64, matrix, uint32

vec3, vec4, vec3d, vec4d = NAMED["vec3"], NAMED["vec4"], NAMED["vec3d"], NAMED["vec4d"]
mat33, mat33d = NAMED["mat33"], NAMED["mat33d"]
mat43, mat43d = matrix(shape=(4, 3), dtype=float32), matrix(shape=(4, 3), dtype=float64)

# The types of values, what a kernel is given for a volume of them, and the types of gradients.
_TYPES = (
    (float32, VolumeArrays, vec3),
    (float64, VolumeArraysD, vec3d),
    (vec3, VolumeArrays, mat33),
    (vec3d, VolumeArraysD, mat33d),
    (vec4, VolumeArrays, mat43),
    (vec4d, VolumeArraysD, mat43d),
    (int32, VolumeArrays, None),
    (int64, VolumeArraysD, None),
    (uint32, VolumeArrays, None),
)


# -- by the type of the values, which is that of what is given

for _type, _given, _gradient in _TYPES:

    @func
    def looked_up(id: _given, i: int32, j: int32, k: int32, zero: _type):
        """The value of a voxel."""
        return value_at(id, tile_of(id, i, j, k), offset_of(i, j, k), id, zero)

    @func
    def sample(id: _given, uvw: vec3, sampling_mode: int32, zero: _type):
        """The value at a place."""
        return sampled(id, uvw, sampling_mode, id, zero)

    @func
    def volume_store(id: _given, i: int32, j: int32, k: int32, value: _type):
        """Set the value of a voxel that has its own value.

        Other voxels, and volumes with values of another type, do not change. Threads that set the same voxel race."""
        tile = tile_of(id, i, j, k)
        if tile >= 0 and id.kind == kind_of(value):
            write(numbers_of(id, value), tile * 512 + offset_of(i, j, k), value)

    if _gradient is not None:

        @func
        def gradient_into(id: _given, uvw: vec3, sampling_mode: int32, gradient: Reference(_gradient), zero: _type):
            """Set the gradient, and return the value, at a place."""
            gradient = sampled_gradient(id, uvw, sampling_mode, id, zero, type(gradient)(0.0))
            return sampled(id, uvw, sampling_mode, id, zero)


volume_store = library("volume_store(id: uint64, i: int, j: int, k: int, value: Any) -> None")(volume_store)


@library("volume_lookup(id: uint64, i: int, j: int, k: int, dtype: type[T]) -> T")
@func
def volume_lookup(id: Any, i: int32, j: int32, k: int32, dtype: Any):
    """The value of a voxel, of a volume with values of type `dtype`.

    It is the value of the voxel, of its tile, or of the background; zero for a volume of another type."""
    return looked_up(id, i, j, k, dtype())


@library("volume_sample(id: uint64, uvw: vec3, sampling_mode: int, dtype: type[T]) -> T")
@func
def volume_sample(id: Any, uvw: vec3, sampling_mode: int32, dtype: Any):
    """The value at a position in index space, of a volume with values of type `dtype`.

    The mode is `wp.Volume.CLOSEST` or `wp.Volume.LINEAR`, between the eight voxels around. Derivatives are by the place
    and by the values."""
    return sample(id, uvw, sampling_mode, dtype())


@library("volume_sample_grad(id: uint64, uvw: vec3, sampling_mode: int, grad: Any, dtype: type[T]) -> T")
@func
def volume_sample_grad(id: Any, uvw: vec3, sampling_mode: int32, grad: Reference(Any), dtype: Any):
    """As `volume_sample`, with the gradient by the place: a vector, or for values of n components a matrix (n, 3)."""
    return gradient_into(id, uvw, sampling_mode, grad, dtype())


@library("volume_lookup_f(id: uint64, i: int, j: int, k: int) -> float")
@func
def volume_lookup_f(id: Any, i: int32, j: int32, k: int32):
    """`volume_lookup` of a volume of float32."""
    return looked_up(id, i, j, k, 0.0)


@library("volume_lookup_i(id: uint64, i: int, j: int, k: int) -> int")
@func
def volume_lookup_i(id: Any, i: int32, j: int32, k: int32):
    """`volume_lookup` of a volume of int32."""
    return looked_up(id, i, j, k, 0)


@library("volume_lookup_v(id: uint64, i: int, j: int, k: int) -> vec3")
@func
def volume_lookup_v(id: Any, i: int32, j: int32, k: int32):
    """`volume_lookup` of a volume of vec3."""
    return looked_up(id, i, j, k, vec3())


@library("volume_sample_f(id: uint64, uvw: vec3, sampling_mode: int) -> float")
@func
def volume_sample_f(id: Any, uvw: vec3, sampling_mode: int32):
    """`volume_sample` of a volume of float32."""
    return sample(id, uvw, sampling_mode, 0.0)


@library("volume_sample_i(id: uint64, uvw: vec3) -> int")
@func
def volume_sample_i(id: Any, uvw: vec3):
    """The value of the closest voxel of a volume of int32."""
    return sample(id, uvw, 0, 0)


@library("volume_sample_v(id: uint64, uvw: vec3, sampling_mode: int) -> vec3")
@func
def volume_sample_v(id: Any, uvw: vec3, sampling_mode: int32):
    """`volume_sample` of a volume of vec3."""
    return sample(id, uvw, sampling_mode, vec3())


@library("volume_sample_grad_f(id: uint64, uvw: vec3, sampling_mode: int, grad: vec3) -> float")
@func
def volume_sample_grad_f(id: Any, uvw: vec3, sampling_mode: int32, grad: Reference(vec3)):
    """`volume_sample_grad` of a volume of float32."""
    return gradient_into(id, uvw, sampling_mode, grad, 0.0)


@library("volume_store_f(id: uint64, i: int, j: int, k: int, value: float) -> None")
@func
def volume_store_f(id: Any, i: int32, j: int32, k: int32, value: float32):
    """`volume_store` in a volume of float32."""
    volume_store(id, i, j, k, value)


@library("volume_store_i(id: uint64, i: int, j: int, k: int, value: int) -> None")
@func
def volume_store_i(id: Any, i: int32, j: int32, k: int32, value: int32):
    """`volume_store` in a volume of int32."""
    volume_store(id, i, j, k, value)


@library("volume_store_v(id: uint64, i: int, j: int, k: int, value: vec3) -> None")
@func
def volume_store_v(id: Any, i: int32, j: int32, k: int32, value: vec3):
    """`volume_store` in a volume of vec3."""
    volume_store(id, i, j, k, value)


# -- of all volumes

for _given in KINDS:

    @func
    def volume_lookup_index(id: _given, i: int32, j: int32, k: int32):
        """The index of a voxel among those that have one, in the order of `Volume.get_voxels`; -1 for others."""
        return index_of(id, tile_of(id, i, j, k), offset_of(i, j, k))

    @func
    def volume_voxel_count(id: _given):
        """The number of voxels of a volume that have an index."""
        return id.count

    @func
    def volume_sample_index(id: _given, uvw: vec3, sampling_mode: int32, voxel_data: array[Any], background: Any):
        """As `volume_sample`, of the elements of `voxel_data` in the place of values.

        Voxels without an index have the value `background`. Derivatives are by the place and both of these."""
        return sampled(id, uvw, sampling_mode, voxel_data, background)

    @func
    def volume_sample_grad_index(
        id: _given, uvw: vec3, sampling_mode: int32, voxel_data: array[Any], background: Any, grad: Reference(Any)
    ):
        """As `volume_sample_index`, with the gradient by the place: a vector, or a matrix (n, 3)."""
        grad = sampled_gradient(id, uvw, sampling_mode, voxel_data, background, type(grad)(0.0))
        return sampled(id, uvw, sampling_mode, voxel_data, background)

    @func
    def volume_index_to_world_dir(id: _given, uvw: vec3):
        """A direction, from index space to world space."""
        return id.transform * uvw

    @func
    def volume_world_to_index_dir(id: _given, xyz: vec3):
        """A direction, from world space to index space."""
        return id.inverse * xyz

    @func
    def volume_index_to_world(id: _given, uvw: vec3):
        return id.transform * uvw + id.translation

    @func
    def volume_world_to_index(id: _given, xyz: vec3):
        return id.inverse * (xyz - id.translation)

    @func
    def volume_index_to_world(id: _given, uvw: vec3d):
        """A position, from index space to world space."""
        linear = mat33d(id.transform) + mat33d(id.transform_rest)
        return linear * uvw + vec3d(id.translation) + vec3d(id.translation_rest)

    @func
    def volume_world_to_index(id: _given, xyz: vec3d):
        """A position, from world space to index space."""
        linear = mat33d(id.inverse) + mat33d(id.inverse_rest)
        return linear * (xyz - vec3d(id.translation) - vec3d(id.translation_rest))


volume_lookup_index = library("volume_lookup_index(id: uint64, i: int, j: int, k: int) -> int")(volume_lookup_index)
volume_voxel_count = library("volume_voxel_count(id: uint64) -> int")(volume_voxel_count)
volume_sample_index = library(
    "volume_sample_index(id: uint64, uvw: vec3, sampling_mode: int, voxel_data: array[Any], background: Any) -> Any"
)(volume_sample_index)
volume_sample_grad_index = library(
    "volume_sample_grad_index(id: uint64, uvw: vec3, sampling_mode: int, voxel_data: array[Any], background: Any, "
    "grad: Any) -> Any"
)(volume_sample_grad_index)
volume_index_to_world_dir = library("volume_index_to_world_dir(id: uint64, uvw: vec3) -> vec3")(
    volume_index_to_world_dir
)
volume_world_to_index_dir = library("volume_world_to_index_dir(id: uint64, xyz: vec3) -> vec3")(
    volume_world_to_index_dir
)
volume_index_to_world = library(
    "volume_index_to_world(id: uint64, uvw: vec3) -> vec3\nvolume_index_to_world(id: uint64, uvw: vec3d) -> vec3d"
)(volume_index_to_world)
volume_world_to_index = library(
    "volume_world_to_index(id: uint64, xyz: vec3) -> vec3\nvolume_world_to_index(id: uint64, xyz: vec3d) -> vec3d"
)(volume_world_to_index)
