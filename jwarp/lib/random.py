"""Random numbers as Warp makes them, written in the kernel language.

The generator is the hash PCG of 32 bits (Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9(3), 2020): its
state is its last number. Integers and floats between 0 and 1 have the bits of Warp's; what is computed from them by
elementary functions agrees to rounding. `state` is a variable of the caller, which finds it advanced; of any other
value a copy is advanced.
"""

from __future__ import annotations

import math

from jwarp.frontend.builtins.scalar import abs, acos, cos, exp, floor, log, pow, sin, sqrt
from jwarp.frontend.builtins.table import library
from jwarp.frontend.func import func
from jwarp.lib.polynomial import polynomial
from jwarp.lib.search import lower_bound
from jwarp.types import NAMED, Reference, array_type, float32, float64, int32, uint32

State = Reference(uint32, takes_values=True)
vec2, vec3 = NAMED["vec2"], NAMED["vec3"]

MULTIPLIER = uint32(747796405)
INCREMENT = uint32(2891336453)
SCRAMBLER = uint32(277803737)

UNIT = 2.0**-24  # randf gives multiples of it below 1
UNIT_64 = float64(UNIT)
TURN = 2.0 * float(float32(math.pi))


@func
def hashed(state: uint32) -> uint32:
    """The number after `state`."""
    inner = state * MULTIPLIER + INCREMENT
    word = ((inner >> ((inner >> uint32(28)) + uint32(4))) ^ inner) * SCRAMBLER
    return (word >> uint32(22)) ^ word


@func
def rand_init(seed: int32) -> uint32:
    """The state that `seed` gives."""
    return hashed(uint32(seed))


@library(
    """
    rand_init(seed: int) -> uint32
    rand_init(seed: int, offset: int) -> uint32"""
)
@func
def rand_init(seed: int32, offset: int32) -> uint32:  # noqa: F811 - an overload
    """The initial state of a random generator. `offset`, such as the thread index, selects one of many sequences."""
    return hashed(uint32(seed) + hashed(uint32(offset)))


@func
def randi(state: State) -> int32:
    """Any integer."""
    state = hashed(state)
    return int32(state)


@library(
    """
    randi(state: uint32) -> int
    randi(state: uint32, low: int, high: int) -> int"""
)
@func
def randi(state: State, low: int32, high: int32) -> int32:  # noqa: F811 - an overload
    """A random int32, or one in [low, high). The variable `state` advances."""
    state = hashed(state)
    return int32(state % uint32(high - low)) + low


@func
def randu(state: State) -> uint32:
    """Any unsigned integer."""
    state = hashed(state)
    return state


@library(
    """
    randu(state: uint32) -> uint32
    randu(state: uint32, low: uint32, high: uint32) -> uint32"""
)
@func
def randu(state: State, low: uint32, high: uint32) -> uint32:  # noqa: F811 - an overload
    """A random uint32, or one in [low, high). The variable `state` advances."""
    state = hashed(state)
    return state % (high - low) + low


@func
def randf(state: State) -> float32:
    """A multiple of 2**-24."""
    state = hashed(state)
    return float32(state >> uint32(8)) * UNIT


@library(
    """
    randf(state: uint32) -> float
    randf(state: uint32, low: float, high: float) -> float"""
)
@func
def randf(state: State, low: float32, high: float32) -> float32:  # noqa: F811 - an overload
    """A float in [0, 1), or in [low, high), with derivatives with respect to `low` and `high`.

    Between 0 and 1 it is a multiple of 2**-24. The variable `state` advances.
    """
    state = hashed(state)
    # The product is exact in float64, and so rounded apart from the sum, with the same bits wherever this runs.
    return float32(float64(high - low) * (float64(state >> uint32(8)) * UNIT_64)) + low


@library("randn(state: uint32) -> float")
@func
def randn(state: State) -> float32:
    """A float with the normal distribution of mean 0 and variance 1 (Box and Muller). It takes two random numbers."""
    size = sqrt(-2.0 * log(randf(state) + 5.96e-8))
    return size * cos(TURN * randf(state))


@library("sample_cdf(state: uint32, cdf: array[float]) -> int")
@func
def sample_cdf(state: State, cdf: array_type(float32, 1)) -> int32:
    """The index of the first element of `cdf`, sorted numbers up to 1, that is not below a random float."""
    return lower_bound(cdf, randf(state))


# -- points


@library("sample_triangle(state: uint32) -> vec2")
@func
def sample_triangle(state: State) -> vec2:
    """Two barycentric coordinates of a uniformly distributed point in a triangle."""
    size = sqrt(randf(state))
    return vec2(1.0 - size, randf(state) * size)


@func
def on_circle(angle: float32, size: float32) -> vec2:
    """The point at this angle and distance."""
    return vec2(size * cos(angle), size * sin(angle))


@func
def on_sphere(cosine: float32, angle: float32, size: float32) -> vec3:
    """The point at this cosine of the angle to the z axis, this angle around it, and this distance."""
    phi = acos(cosine)
    side = sin(phi)
    return vec3(size * (cos(angle) * side), size * (sin(angle) * side), size * cos(phi))


@library("sample_unit_ring(state: uint32) -> vec2")
@func
def sample_unit_ring(state: State) -> vec2:
    """A uniformly distributed point on the unit circle."""
    return on_circle(TURN * randf(state), 1.0)


@library("sample_unit_disk(state: uint32) -> vec2")
@func
def sample_unit_disk(state: State) -> vec2:
    """A uniformly distributed point in the unit disk."""
    size = sqrt(randf(state))
    return on_circle(TURN * randf(state), size)


@library("sample_unit_sphere_surface(state: uint32) -> vec3")
@func
def sample_unit_sphere_surface(state: State) -> vec3:
    """A uniformly distributed point on the unit sphere."""
    cosine = 1.0 - 2.0 * randf(state)
    return on_sphere(cosine, TURN * randf(state), 1.0)


@library("sample_unit_sphere(state: uint32) -> vec3")
@func
def sample_unit_sphere(state: State) -> vec3:
    """A uniformly distributed point in the unit ball."""
    cosine = 1.0 - 2.0 * randf(state)
    angle = TURN * randf(state)
    return on_sphere(cosine, angle, pow(randf(state), 1.0 / 3.0))


@library("sample_unit_hemisphere_surface(state: uint32) -> vec3")
@func
def sample_unit_hemisphere_surface(state: State) -> vec3:
    """A uniformly distributed point on the half of the unit sphere with z >= 0."""
    cosine = 1.0 - randf(state)
    return on_sphere(cosine, TURN * randf(state), 1.0)


@library("sample_unit_hemisphere(state: uint32) -> vec3")
@func
def sample_unit_hemisphere(state: State) -> vec3:
    """A uniformly distributed point in the half of the unit ball with z >= 0."""
    cosine = 1.0 - randf(state)
    angle = TURN * randf(state)
    return on_sphere(cosine, angle, pow(randf(state), 1.0 / 3.0))


@library("sample_unit_square(state: uint32) -> vec2")
@func
def sample_unit_square(state: State) -> vec2:
    """A uniformly distributed point in the square of side 1 around the origin."""
    x = randf(state) - 0.5
    return vec2(x, randf(state) - 0.5)


@library("sample_unit_cube(state: uint32) -> vec3")
@func
def sample_unit_cube(state: State) -> vec3:
    """A uniformly distributed point in the cube of side 1 around the origin."""
    x = randf(state) - 0.5
    y = randf(state) - 0.5
    return vec3(x, y, randf(state) - 0.5)


# -- Poisson's distribution

HALF_LOG_TURN = 0.9189385332046727  # log(2 * pi) / 2

# Of Stirling's series for the logarithm of the gamma function, B(2k) / (2k * (2k - 1)), highest k = 10 first.
STIRLING = tuple(
    b / (2 * k * (2 * k - 1))
    for k, b in reversed(
        list(enumerate((1/6, -1/30, 1/42, -1/30, 5/66, -691/2730, 7/6, -3617/510, 43867/798, -174611/330), 1))
    )
)  # fmt: skip


@func
def log_factorial(n: float32) -> float32:
    """log(n!), by Stirling's series where n is at least 6, else from one that far by division."""
    x = n + 1.0
    if x == 1.0 or x == 2.0:
        return 0.0
    steps = 0
    if x < 7.0:
        steps = int32(7.0 - x)
    top = x + float32(steps)
    inverse = 1.0 / top
    series = polynomial(STIRLING, inverse * inverse)
    result = series / top + HALF_LOG_TURN + (top - 0.5) * log(top) - top
    for _ in range(steps):
        top -= 1.0
        result -= log(top)
    return result


@func
def poisson_by_product(state: State, mean: float32) -> uint32:
    """How many random floats have a product above exp(-mean), for small means."""
    least = exp(-mean)
    count = uint32(0)
    product = randf(state)
    while product > least:
        count += uint32(1)
        product *= randf(state)
    return count


@func
def poisson_by_rejection(state: State, mean: float32) -> uint32:
    """Transformed rejection with squeeze, for means of 10 and more (Hörmann 1993, algorithm PTRS)."""
    root = sqrt(mean)
    log_mean = log(mean)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2.0)
    k = float32(0.0)
    rejected = True
    while rejected:
        u = randf(state) - 0.5
        v = randf(state)
        edge = 0.5 - abs(u)
        k = floor((2.0 * a / edge + b) * u + mean + 0.43)
        if edge >= 0.07 and v <= squeeze:
            rejected = False
        elif k >= 0.0 and (edge >= 0.013 or v <= edge):
            bound = -mean + k * log_mean - log_factorial(k)
            rejected = log(v) + log(inverse_alpha) - log(a / (edge * edge) + b) > bound
    return uint32(k)


@library("poisson(state: uint32, lam: float) -> uint32")
@func
def poisson(state: State, lam: float32) -> uint32:
    """A number with the Poisson distribution of mean `lam`. It uses several random numbers, none if `lam` is 0."""
    if lam >= 10.0:
        return poisson_by_rejection(state, lam)
    if lam == 0.0:
        return uint32(0)
    return poisson_by_product(state, lam)
