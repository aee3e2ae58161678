"""Programs of all kinds of kernels, as functions of JAX arrays, whose exports later versions have to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

import jwarp as wp


class Stored(NamedTuple):
    """A function with its arguments.

    `shapes` are those that it is exported for, where they are symbolic, `order` that of the derivatives in its export.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    shapes: tuple[Any, ...] = ()
    order: int = 1


RNG = np.random.default_rng(2)


def random(*shape: int) -> jax.Array:
    return jnp.asarray(RNG.uniform(0.2, 1.5, shape), jnp.float32)


# -- control flow, functions and memory


@wp.func
def saturated(x: float, limit: float):
    if x > limit:
        return limit + wp.log(x / limit)
    return x


@wp.kernel
def heat(u: wp.array2d[float], rate: float, out: wp.array2d[float]):
    i, j = wp.tid()
    left = u[i, wp.max(j - 1, 0)]
    right = u[i, j + 1] if j + 1 < u.shape[1] else u[i, j]
    out[i, j] = saturated(u[i, j] + rate * (left - 2.0 * u[i, j] + right), 1.0)


@wp.kernel
def newton(a: wp.array[float], root: wp.array[float]):
    i = wp.tid()
    x = a[i]
    steps = 0
    while wp.abs(x * x - a[i]) > 1.0e-5 * a[i] and steps < 30:
        x = 0.5 * (x + a[i] / x)
        steps += 1
    root[i] = x


@wp.kernel
def statistics(x: wp.array[float], keys: wp.array[int], total: wp.array[float], largest: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(total, keys[i], wp.exp(-x[i]))
    wp.atomic_max(largest, 0, x[i])


@wp.kernel
def walk(seed: int, steps: wp.array[float], place: wp.array[wp.vec2]):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    p = wp.vec2(0.0, 0.0)
    for _ in range(5):
        p += steps[i] * wp.sample_unit_disk(state)
    place[i] = p


# -- values of several components


@wp.struct
class Body:
    mass: float
    velocity: wp.array[wp.vec3]
    turn: wp.array[wp.quat]


@wp.kernel
def momenta(body: Body, momentum: wp.array[wp.vec3]):
    i = wp.tid()
    momentum[i] = body.mass * wp.quat_rotate(wp.normalize(body.turn[i]), body.velocity[i])


@wp.kernel
def singular(a: wp.array[wp.mat33], sigma: wp.array[wp.vec3]):
    i = wp.tid()
    u, s, v = wp.svd3(a[i])
    sigma[i] = s + 0.0 * (wp.get_diag(u) + wp.get_diag(v))


# -- tiles, and code by hand

TILE = wp.constant(16)


@wp.kernel
def product(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(TILE, TILE), dtype=float)
    for k in range(a.shape[1] // TILE):
        x = wp.tile_load(a, shape=(TILE, TILE), offset=(i * TILE, k * TILE))
        y = wp.tile_load(b, shape=(TILE, TILE), offset=(k * TILE, j * TILE))
        wp.tile_matmul(x, y, total)
    wp.tile_store(c, total, offset=(i * TILE, j * TILE))


@wp.func_native("return x * x + 0.5f * y;", adj_snippet="adj_x += 2.0f * x * adj_ret; adj_y += 0.5f * adj_ret;")
def by_hand(x: float, y: float) -> float: ...


@wp.kernel
def snippet(x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = by_hand(x[i], y[i])


# -- geometry and sparse matrices


@wp.kernel
def closest(mesh: wp.uint64, where: wp.array[wp.vec3], distance: wp.array[float]):
    i = wp.tid()
    q = wp.mesh_query_point(mesh, where[i], 10.0)
    if q.result:
        distance[i] = q.sign * wp.length(where[i] - wp.mesh_eval_position(mesh, q.face, q.u, q.v))


@wp.kernel
def density(grid: wp.uint64, points: wp.array[wp.vec3], out: wp.array[float]):
    i = wp.tid()
    total = 0.0
    for j in wp.hash_grid_query(grid, points[i], 0.4):
        total += wp.exp(-wp.length_sq(points[i] - points[j]))
    out[i] = total


CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)


def distances(corners: jax.Array, where: jax.Array) -> jax.Array:
    mesh = wp.Mesh(corners, jnp.asarray(FACES.ravel()))
    return wp.launch(closest, len(where), [mesh.id, where], [len(where)])[0]


def densities(points: jax.Array) -> jax.Array:
    grid = wp.HashGrid(8, 8, 8)
    grid.build(points, 0.4)
    return wp.launch(density, len(points), [grid.id, points], [len(points)])[0]


def sparse_product(values: jax.Array, x: jax.Array) -> jax.Array:
    rows, columns = jnp.array([0, 1, 1, 3]), jnp.array([2, 0, 3, 1])
    matrix = wp.sparse.bsr_from_triplets(4, 4, rows, columns, values)
    return wp.sparse.bsr_mv(matrix, x, jnp.zeros(4))


# -- what JAX makes of them


def smooth(u: jax.Array, rate: Any) -> jax.Array:
    return wp.launch(heat, u.shape, [u, rate], [u.shape])[0]


def batched(u: jax.Array, rates: jax.Array) -> jax.Array:
    return jax.vmap(smooth)(u, rates)


def with_gradient(u: jax.Array, rate: Any) -> Any:
    return jax.value_and_grad(lambda u, rate: jnp.sum(smooth(u, rate) ** 2), argnums=(0, 1))(u, rate)


def second_order(u: jax.Array, rate: Any) -> Any:
    return jax.grad(lambda v: jnp.sum(with_gradient(v, rate)[1][0] ** 2))(u)


def any_size() -> Stored:
    n, m = jax.export.symbolic_shape("n, m")
    return Stored(smooth, (random(5, 7), 0.1), (jax.ShapeDtypeStruct((n, m), jnp.float32), 0.1))


def all_programs() -> dict[str, Stored]:
    keys = jnp.asarray(RNG.integers(0, 4, 30), jnp.int32)
    body = lambda velocity, turn, mass: wp.launch(momenta, 6, [Body(mass=mass, velocity=velocity, turn=turn)], [6])[0]  # noqa: E731
    return {
        "stencil": Stored(smooth, (random(6, 9), 0.1)),
        "symbolic": any_size(),
        "batch": Stored(batched, (random(3, 6, 9), random(3))),
        "adjoint": Stored(with_gradient, (random(6, 9), 0.1)),
        "second_order": Stored(second_order, (random(6, 9), 0.1), order=0),
        "loop": Stored(lambda a: wp.launch(newton, 11, [a], [11])[0], (random(11),)),
        "sums": Stored(lambda x, keys: wp.launch(statistics, 30, [x, keys], [4, 1]), (random(30), keys)),
        "random": Stored(lambda steps: wp.launch(walk, 9, [3, steps], [9])[0], (random(9),)),
        "struct": Stored(body, (random(6, 3), random(6, 4), 1.5)),
        "matrices": Stored(lambda a: wp.launch(singular, 5, [a], [5])[0], (random(5, 3, 3),)),
        "tiles": Stored(
            lambda a, b: wp.launch_tiled(product, [2, 1], [a, b], [(32, 16)], block_dim=64)[0],
            (random(32, 48), random(48, 16)),
        ),
        "native": Stored(lambda x, y: wp.launch(snippet, 8, [x, y], [8])[0], (random(8), random(8))),
        "mesh": Stored(distances, (jnp.asarray(CORNERS), random(12, 3))),
        "grid": Stored(densities, (random(40, 3),)),
        "sparse": Stored(sparse_product, (random(4), random(4))),
    }
