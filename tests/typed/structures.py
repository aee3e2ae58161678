"""Structs, gradients written by hand, types without a name, and views: type checkers find nothing here."""

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

import jwarp as wp

if TYPE_CHECKING:
    vec5 = Any  # what a call makes is no type to a checker
else:
    vec5 = wp.types.vector(length=5, dtype=float)


@wp.struct
class Particle:
    mass: float
    velocity: wp.vec3


@wp.struct
class Track:
    last: Particle
    masses: wp.array[float]


@wp.func
def along(x: float, y: wp.vec3) -> float:
    return x * y[0]


@wp.func_grad(along)
def adjoint_of_along(x: float, y: wp.vec3, adj: float) -> None:
    wp.adjoint[x] += adj * y[0]
    wp.adjoint[y] += wp.vec3(adj * x, 0.0, 0.0)


@wp.kernel
def push(
    particles: wp.array[Particle], q: wp.array[vec5], y: wp.array3d[float], forces: wp.array2d[wp.vec3], track: Track
) -> None:
    i, j = wp.tid()
    p = particles[i]
    p.velocity = p.velocity * 2.0
    p.mass += particles.mass[i] + track.masses[j] * track.last.mass
    particles[i] = p
    wide = q[i]
    y[i, j, 0] = wide[0] + wide[4] + along(p.mass, p.velocity)
    row = y[i, j]
    row[0] = y[i][j, 0] + y[i, j, :][0]
    forces[i, j] += wp.vec3(*p.velocity)
    forces[i, j][0] = 1.0
    counts = wp.zeros(shape=3, dtype=int)
    counts[i % 3] = counts[0] | 1
    a, b = wp.vec2(1.0, 2.0)
    y[i, j, 1] = a + b


@wp.kernel
def tiles(values: wp.array2d[float], vectors: wp.array2d[wp.vec3]) -> None:
    i, _lane = wp.tid()
    t = wp.tile_load(vectors[i], 4)
    s = wp.tile_load(values[i], 4)
    wp.tile_store(vectors[i], s * wp.vec3(1.0))
    wp.tile_store(vectors[i], s * t + t * 2.0)
    wp.tile_store(values[i], wp.tile_map(wp.add, s, wp.tile_map(wp.abs, s)))
    total = wp.tile_reduce(wp.max, s)
    whole = wp.tile(total[0])
    values[i, 0] = wp.untile(whole) + wp.tile_sum(wp.tile_ones(shape=4))[0]


def main() -> None:
    last = Particle(mass=1.0, velocity=wp.vec3(1.0, 0.0, 0.0))
    track = Track(last, masses=jnp.ones(2))
    several: dict[str, Any] = {"mass": jnp.ones(2), "velocity": jnp.ones((2, 3))}  # leaves with one axis more
    outputs = {"particles": Particle(**several), "y": (2, 2, 2), "forces": (2, 2)}
    wp.launch(push, (2, 2), {"q": jnp.zeros((2, 5)), "track": track}, outputs)
    wp.launch(tiles, (2, 32), [], [jnp.ones((2, 4)), jnp.ones((2, 4, 3))], block_dim=32)
    print(Particle(1.0, jnp.zeros(3)))


if __name__ == "__main__":
    main()
