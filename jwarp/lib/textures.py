"""Samples of textures, written in the kernel language: ordinary loads, so that derivatives by texels and places exist.

An axis is read in two steps: a coordinate becomes a place among the texels, then the address mode says which texel a
number outside is. Texels that are none have the number -1 and the value zero.
"""

# Annotations are types here, as functions are defined in loops over types.
from typing import Any

from jwarp.arrays.textures import Texture1D, Texture2D, Texture3D, TextureAddressMode, TextureFilterMode
from jwarp.frontend.builtins.scalar import clamp, floor, lerp, max
from jwarp.frontend.builtins.table import library
from jwarp.frontend.func import func
from jwarp.types import NAMED, float32, float64, int32, vector

vec2, vec3 = NAMED["vec2"], NAMED["vec3"]
WRAP, MIRROR = int(TextureAddressMode.WRAP), int(TextureAddressMode.MIRROR)
CLAMP, LINEAR = int(TextureAddressMode.CLAMP), int(TextureFilterMode.LINEAR)


@func
def repeats(mode: int32):
    """True for WRAP and MIRROR, which are 0 and 2."""
    return mode % 2 == 0


@func
def addressed(place: int32, size: int32, mode: int32):
    """The texel that a number along an axis stands for; -1 for none."""
    found = place
    if mode == WRAP:
        found = place % size
        if found < 0:
            found += size
    elif mode == MIRROR:
        found = place % (2 * size)
        if found < 0:
            found += 2 * size
        if found >= size:
            found = 2 * size - 1 - found
    elif mode == CLAMP:
        found = clamp(place, 0, size - 1)
    elif place < 0 or place >= size:
        found = -1
    return found


@func
def closest(coordinate: float32, normalized: bool, base: int32, size: int32, mode: int32):
    """The texel that a coordinate is in. In float64, as coordinates next to 0 have a side."""
    wide = float64(coordinate)
    unit = float64(1.0)
    if not normalized:
        unit = float64(base)
    if mode == WRAP:
        wide = wide % unit
    elif mode == MIRROR:
        wide = wide % (float64(2.0) * unit)
    place = wide * float64(size) / unit
    if normalized:
        place = wide * float64(size)
    if not repeats(mode):
        place = clamp(place, float64(-1.0), float64(size))
    return addressed(int32(floor(place)), size, mode)


@func
def place_of(coordinate: float32, normalized: bool, base: int32, size: int32, mode: int32):
    """The place of a coordinate between the centres of texels, of which the first is at 0."""
    x = coordinate
    if repeats(mode):
        period = 1.0
        if not normalized:
            period = float32(base)
        if mode == MIRROR:
            period = 2.0 * period
        x = x % period
        if x < 0.0:
            x += period
    if not normalized:
        x = x / float32(base)
    place = x * float32(size) - 0.5
    if mode == CLAMP:
        place = clamp(place, 0.0, float32(size - 1))
    elif not repeats(mode):
        place = clamp(place, -2.0, float32(size))
    return place


@func
def texel(tex: Any, start: int32, row: int32, x: int32, zero: vector(length=Any, dtype=float32)):
    value = zero
    if row >= 0 and x >= 0:
        first = start + (row + x) * tex.num_channels
        for c in range(len(zero)):
            if c < tex.num_channels:
                value[c] = tex.texels[first + c]
    return value


@func
def texel(tex: Any, start: int32, row: int32, x: int32, zero: float32):
    """The value of a texel of a row, which begins at the texel `row` of a level; zero if one of both is none."""
    value = zero
    if row >= 0 and x >= 0:
        value = tex.texels[start + (row + x) * tex.num_channels]
    return value


@func
def row_of(z: int32, y: int32, height: int32, width: int32):
    """The first texel of a row; -1 for none."""
    row = -1
    if z >= 0 and y >= 0:
        row = (z * height + y) * width
    return row


@func
def extent(base: int32, level: int32):
    """The extent of a level."""
    return max(1, base >> level)


@func
def start_of(tex: Any, level: int32):
    """The first element of a level."""
    start = int32(0)
    for k in range(level):
        start += extent(tex.width, k) * extent(tex.height, k) * extent(tex.depth, k)
    return start * tex.num_channels


@func
def between(tex: Any, start: int32, row: int32, x: float32, width: int32, zero: Any):
    """The value at a place of a row."""
    low = int32(floor(x))
    first = addressed(low, width, tex.address_mode_u)
    second = addressed(low + 1, width, tex.address_mode_u)
    fraction = x - floor(x)
    return lerp(texel(tex, start, row, first, zero), texel(tex, start, row, second, zero), fraction)


@func
def at_level(tex: Texture1D, u: float32, level: int32, zero: Any):
    width, start = extent(tex.width, level), start_of(tex, level)
    value = zero
    if tex.filter_mode == LINEAR:
        x = place_of(u, tex.normalized_coords, tex.width, width, tex.address_mode_u)
        value = between(tex, start, 0, x, width, zero)
    else:
        value = texel(tex, start, 0, closest(u, tex.normalized_coords, tex.width, width, tex.address_mode_u), zero)
    return value


@func
def plane(tex: Any, start: int32, z: int32, x: float32, y: float32, width: int32, height: int32, zero: Any):
    """The value at a place of a plane."""
    low = int32(floor(y))
    first = row_of(z, addressed(low, height, tex.address_mode_v), height, width)
    second = row_of(z, addressed(low + 1, height, tex.address_mode_v), height, width)
    fraction = y - floor(y)
    return lerp(between(tex, start, first, x, width, zero), between(tex, start, second, x, width, zero), fraction)


@func
def at_level(tex: Texture2D, uv: vec2, level: int32, zero: Any):
    width, height, start = extent(tex.width, level), extent(tex.height, level), start_of(tex, level)
    value = zero
    if tex.filter_mode == LINEAR:
        x = place_of(uv[0], tex.normalized_coords, tex.width, width, tex.address_mode_u)
        y = place_of(uv[1], tex.normalized_coords, tex.height, height, tex.address_mode_v)
        value = plane(tex, start, 0, x, y, width, height, zero)
    else:
        i = closest(uv[0], tex.normalized_coords, tex.width, width, tex.address_mode_u)
        j = closest(uv[1], tex.normalized_coords, tex.height, height, tex.address_mode_v)
        value = texel(tex, start, row_of(0, j, height, width), i, zero)
    return value


@func
def at_level(tex: Texture3D, uvw: vec3, level: int32, zero: Any):
    """The value at a place of a level."""
    width, height, depth = extent(tex.width, level), extent(tex.height, level), extent(tex.depth, level)
    start = start_of(tex, level)
    value = zero
    if tex.filter_mode == LINEAR:
        x = place_of(uvw[0], tex.normalized_coords, tex.width, width, tex.address_mode_u)
        y = place_of(uvw[1], tex.normalized_coords, tex.height, height, tex.address_mode_v)
        z = place_of(uvw[2], tex.normalized_coords, tex.depth, depth, tex.address_mode_w)
        low = int32(floor(z))
        first = addressed(low, depth, tex.address_mode_w)
        second = addressed(low + 1, depth, tex.address_mode_w)
        value = lerp(
            plane(tex, start, first, x, y, width, height, zero),
            plane(tex, start, second, x, y, width, height, zero),
            z - floor(z),
        )
    else:
        i = closest(uvw[0], tex.normalized_coords, tex.width, width, tex.address_mode_u)
        j = closest(uvw[1], tex.normalized_coords, tex.height, height, tex.address_mode_v)
        k = closest(uvw[2], tex.normalized_coords, tex.depth, depth, tex.address_mode_w)
        value = texel(tex, start, row_of(k, j, height, width), i, zero)
    return value


@func
def at_lod(tex: Any, place: Any, lod: float32, zero: Any):
    """The value at a place, between levels where `lod` is not negative; zero of an empty texture."""
    value = zero
    if tex.width > 0:
        last = tex.num_mip_levels - 1
        if lod < 0.0 or last <= 0:
            value = at_level(tex, place, 0, zero)
        elif tex.mip_filter_mode == LINEAR:
            fine = clamp(lod, 0.0, float32(last))
            level = int32(floor(fine))
            value = at_level(tex, place, level, zero)
            if level < last:
                value = lerp(value, at_level(tex, place, level + 1, zero), fine - floor(fine))
        else:
            value = at_level(tex, place, clamp(int32(floor(clamp(lod, 0.0, float32(last)) + 0.5)), 0, last), zero)
    return value


@func
def texture_sample(tex: Texture1D, u: float32, dtype: Any, lod: float32 = -1.0):
    return at_lod(tex, u, lod, dtype())


@func
def texture_sample(tex: Texture2D, uv: vec2, dtype: Any, lod: float32 = -1.0):
    return at_lod(tex, uv, lod, dtype())


@func
def texture_sample(tex: Texture2D, u: float32, v: float32, dtype: Any, lod: float32 = -1.0):
    return at_lod(tex, vec2(u, v), lod, dtype())


@func
def texture_sample(tex: Texture3D, u: float32, v: float32, w: float32, dtype: Any, lod: float32 = -1.0):
    return at_lod(tex, vec3(u, v, w), lod, dtype())


@library(
    """texture_sample(tex: Any, u: float, dtype: type[T], lod: float = -1.0) -> T
    texture_sample(tex: Any, uv: vec2, dtype: type[T], lod: float = -1.0) -> T
    texture_sample(tex: Any, u: float, v: float, dtype: type[T], lod: float = -1.0) -> T
    texture_sample(tex: Any, uvw: vec3, dtype: type[T], lod: float = -1.0) -> T
    texture_sample(tex: Any, u: float, v: float, w: float, dtype: type[T], lod: float = -1.0) -> T"""
)
@func
def texture_sample(tex: Texture3D, uvw: vec3, dtype: Any, lod: float32 = -1.0):
    """The value of a texture at coordinates: `u` along its width, `v` along its height, `w` along its depth.

    `dtype` is `float`, `vec2` or `vec4`: channels that the texture has not are 0. `lod` is the level of detail, if it
    is not negative. Derivatives are by the coordinates, the texels and `lod`; with `CLOSEST`, by the texels."""
    return at_lod(tex, uvw, lod, dtype())
