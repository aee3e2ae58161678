"""Perlin's gradient noise in one to four dimensions, and its curl, as Warp computes them, in the kernel language.

Each point of the integer lattice has a random gradient (Perlin, Improving Noise, 2002: the same polynomial of degree 5
joins them, which has two continuous derivatives). Corners of a cell are numbered with a bit for each axis, the first
axis the lowest. Loops over them stay loops, which keeps the code small.
"""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.scalar import floor, rolled, where
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import dot, normalize, vector
from jwarp.frontend.func import func
from jwarp.lib.random import rand_init, randf
from jwarp.types import NAMED, float32, int32, uint32

vec2, vec3, vec4 = NAMED["vec2"], NAMED["vec3"], NAMED["vec4"]

PRIMES = tuple(map(uint32, (73856093, 19349663, 53471161, 10000019)))  # of the hash of a lattice point
FIELDS = (10019689, 13112221)  # offsets between the three fields of a curl
ONE = uint32(1)


@func
def lattice_gradient(state: uint32, point: Any):
    """The random gradient at a point of the lattice: of length 1, in one dimension from -1 to 1."""
    last = len(point) - 1
    mixed = uint32(point[last]) * PRIMES[last] + state
    for axis in range(last):
        mixed = mixed ^ (uint32(point[axis]) * PRIMES[axis])
    gradient = vector(length=len(point), dtype=float32)
    if last == 0:
        gradient[0] = randf(mixed, -1.0, 1.0)
        return gradient
    for axis in range(len(point)):
        gradient[axis] = randf(mixed) - 0.5
    return normalize(gradient)


@func
def blend(t: float32):
    """How much the far side counts, 0 at t = 0 and 1 at t = 1."""
    return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)


@func
def blend_slope(t: float32):
    """The derivative of `blend`."""
    return 30.0 * t * t * (t * (t - 2.0) + 1.0)


@func
def corner_noise(state: uint32, corner: int32, first: Any, second: Any, inside: Any):
    """The gradient of a corner, how much it counts, and its slope times the way to the place `inside` the cell."""
    point = first
    way = inside
    weight = float32(1.0)
    for axis in range(len(inside)):
        is_far = ((corner >> axis) & 1) == 1
        share = blend(inside[axis])
        point[axis] = where(is_far, second[axis], first[axis])
        way[axis] = where(is_far, inside[axis] - 1.0, inside[axis])
        weight *= where(is_far, share, 1.0 - share)
    gradient = lattice_gradient(state, point)
    return gradient, weight, dot(gradient, way)


@func
def weight_slope(corner: int32, along: Any, inside: Any):
    """The derivative of the weight of a corner along an axis."""
    result = float32(1.0)
    for axis in range(len(inside)):
        share = blend(inside[axis])
        slope = blend_slope(inside[axis])
        is_far = ((corner >> axis) & 1) == 1
        if axis == along:
            result *= where(is_far, slope, -slope)
        else:
            result *= where(is_far, share, 1.0 - share)
    return result


@func
def cell_noise(state: uint32, first: Any, second: Any, inside: Any):
    """The noise at a place `inside` the cell of the lattice between two points."""
    total = float32(0.0)
    for corner in range(rolled(1 << len(inside))):
        _, weight, value = corner_noise(state, corner, first, second, inside)
        total += weight * value
    return total


@func
def cell_noise_gradient(state: uint32, first: Any, second: Any, inside: Any):
    """The gradient of `cell_noise` by `inside`."""
    total = vector(length=len(inside), dtype=float32)
    for corner in range(rolled(1 << len(inside))):
        gradient, weight, value = corner_noise(state, corner, first, second, inside)
        total += weight * gradient
        for axis in range(len(inside)):
            total[axis] += value * weight_slope(corner, axis, inside)
    return total


@func
def cell_of(place: Any):
    """The lattice points at the lower and upper ends of the cell around `place`, and where in it that is."""
    first = vector(length=len(place), dtype=int32)
    second = vector(length=len(place), dtype=int32)
    inside = place
    for axis in range(len(place)):
        low = floor(place[axis])
        inside[axis] = place[axis] - low
        first[axis] = int32(low)
        second[axis] = first[axis] + 1
    return first, second, inside


@func
def noise_at(state: uint32, place: Any):
    """The noise at a place of one to four dimensions."""
    first, second, inside = cell_of(place)
    return cell_noise(state, first, second, inside)


@func
def periodic_noise_at(state: uint32, place: Any, periods: Any):
    """The noise on a lattice that repeats."""
    first, _, inside = cell_of(place)
    second = first
    for axis in range(len(place)):
        first[axis] = first[axis] % periods[axis]
        second[axis] = (first[axis] + 1) % periods[axis]
    return cell_noise(state, first, second, inside)


# -- noise and pnoise


@func
def noise(state: uint32, x: float32) -> float32:
    """In one dimension."""
    return noise_at(state, vector(x, length=1, dtype=float32))


@func
def noise(state: uint32, xy: vec2) -> float32:  # noqa: F811 - an overload
    """In two dimensions."""
    return noise_at(state, xy)


@func
def noise(state: uint32, xyz: vec3) -> float32:  # noqa: F811 - an overload
    """In three dimensions."""
    return noise_at(state, xyz)


@library(
    """
    noise(state: uint32, x: float) -> float
    noise(state: uint32, xy: vec2) -> float
    noise(state: uint32, xyz: vec3) -> float
    noise(state: uint32, xyzt: vec4) -> float"""
)
@func
def noise(state: uint32, xyzt: vec4) -> float32:  # noqa: F811 - an overload
    """Perlin noise at a position: smooth, and zero at integers. `state` selects the field and does not change."""
    return noise_at(state, xyzt)


@func
def pnoise(state: uint32, x: float32, px: int32) -> float32:
    """In one dimension."""
    return periodic_noise_at(state, vector(x, length=1, dtype=float32), (px,))


@func
def pnoise(state: uint32, xy: vec2, px: int32, py: int32) -> float32:  # noqa: F811 - an overload
    """In two dimensions."""
    return periodic_noise_at(state, xy, (px, py))


@func
def pnoise(state: uint32, xyz: vec3, px: int32, py: int32, pz: int32) -> float32:  # noqa: F811 - an overload
    """In three dimensions."""
    return periodic_noise_at(state, xyz, (px, py, pz))


@library(
    """
    pnoise(state: uint32, x: float, px: int) -> float
    pnoise(state: uint32, xy: vec2, px: int, py: int) -> float
    pnoise(state: uint32, xyz: vec3, px: int, py: int, pz: int) -> float
    pnoise(state: uint32, xyzt: vec4, px: int, py: int, pz: int, pt: int) -> float"""
)
@func
def pnoise(state: uint32, xyzt: vec4, px: int32, py: int32, pz: int32, pt: int32) -> float32:  # noqa: F811
    """Perlin noise that repeats after `px` units along the first axis and so on, at places that are not negative."""
    return periodic_noise_at(state, xyzt, (px, py, pz, pt))


# -- curls


@func
def field_gradient(state: uint32, place: Any):
    """The gradient of the noise at a place."""
    first, second, inside = cell_of(place)
    return cell_noise_gradient(state, first, second, inside)


@func
def curl_of_fields(state: uint32, place: Any, octaves: uint32, lacunarity: float32, gain: float32) -> vec3:
    """The curl by the first three coordinates of a vector of three fields of noise, summed over octaves."""
    curl = vec3()
    frequency = float32(1.0)
    amplitude = float32(1.0)
    for _ in range(octaves):
        x = field_gradient(state, frequency * place)
        state = rand_init(int32(state), FIELDS[0])
        y = field_gradient(state, frequency * place)
        state = rand_init(int32(state), FIELDS[1])
        z = field_gradient(state, frequency * place)
        curl += amplitude * vec3(z[1] - y[2], x[2] - z[0], y[0] - x[1])
        amplitude *= gain
        frequency *= lacunarity
    return curl


@func
def curlnoise(state: uint32, xy: vec2, octaves: uint32 = ONE, lacunarity: float32 = 2.0, gain: float32 = 0.5) -> vec2:
    """In two dimensions: the gradient, turned by a right angle."""
    total = vec2()
    frequency = float32(1.0)
    amplitude = float32(1.0)
    for _ in range(octaves):
        total += amplitude * field_gradient(state, frequency * xy)
        amplitude *= gain
        frequency *= lacunarity
    return vec2(-total[1], total[0])


@func
def curlnoise(  # noqa: F811 - an overload
    state: uint32, xyz: vec3, octaves: uint32 = ONE, lacunarity: float32 = 2.0, gain: float32 = 0.5
) -> vec3:
    """In three dimensions."""
    return curl_of_fields(state, xyz, octaves, lacunarity, gain)


@library(
    """
    curlnoise(state: uint32, xy: vec2, octaves: uint32 = ..., lacunarity: float = 2.0, gain: float = 0.5) -> vec2
    curlnoise(state: uint32, xyz: vec3, octaves: uint32 = ..., lacunarity: float = 2.0, gain: float = 0.5) -> vec3
    curlnoise(state: uint32, xyzt: vec4, octaves: uint32 = ..., lacunarity: float = 2.0, gain: float = 0.5) -> vec3"""
)
@func
def curlnoise(  # noqa: F811 - an overload
    state: uint32, xyzt: vec4, octaves: uint32 = ONE, lacunarity: float32 = 2.0, gain: float32 = 0.5
) -> vec3:
    """A divergence-free field: the curl of Perlin noise, summed over `octaves`.

    Each octave has `lacunarity` times the frequency and `gain` times the amplitude of the one before.
    """
    return curl_of_fields(state, xyzt, octaves, lacunarity, gain)
