"""Finding a shape, its position and the light from a picture: gradients through a ray caster of meshes
====================================================================================================

Each pixel sends a ray to a mesh (`wp.mesh_query_ray`). Its colour is that of the light on the face that the ray hits:
a red, a green and a blue lamp shine from three sides (Woodham 1980, "Photometric method for determining surface
orientation from multiple images"). The picture is a function of the vertices, the position of the mesh and the lamps,
and JAX differentiates it: through the point where a ray hits a face, the barycentric weights and the normals. The
tree for the rays is built inside `jax.jit` from the vertices of each step. It has no derivative, and needs none.

At the silhouette, where a ray changes from hit to miss, the picture has no gradient. So each ray also asks how far it
passes from the mesh, or how deep it enters (`wp.mesh_query_point_no_sign`), at its point closest to the centre. If a
ray hits that should miss, or the reverse, this distance contributes to the loss.

The search starts from a ball and looks for a carved one: the height of each vertex, the position of the ball, and the
directions of the lamps. Heights follow a smoothed gradient (Nicolet, Jacobson and Jakob 2021, "Large Steps in Inverse
Rendering of Geometry").

To run it::

    python examples/render_mesh.py               # writes render_mesh.png
    python examples/render_mesh.py --quick       # a small picture, a few seconds

Needs matplotlib, optax and tqdm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import drawing
import jwarp as wp
from drawing.meshes import Ball, draw

EYE = (0.0, 0.0, 4.0)  # the camera looks along -z
FIELD = 0.62  # the width of the picture at distance 1
AMBIENT = 0.06
LAMPS = np.array([[0.9, 0.5, 0.8], [-0.9, 0.6, 0.7], [0.0, -0.9, 0.8]], np.float32)  # red, green, blue: from where


@wp.func
def way_of(i: int, j: int, size: int) -> wp.vec3:
    """The direction of the ray through a pixel."""
    x = (float(j) + 0.5) / float(size) - 0.5
    y = 0.5 - (float(i) + 0.5) / float(size)
    return wp.normalize(wp.vec3(FIELD * x, FIELD * y, -1.0))


@wp.kernel
def shade(
    mesh: wp.uint64,
    normals: wp.array[wp.vec3],
    place: wp.vec3,
    lamps: wp.mat33,
    wanted: wp.array2d[int],
    picture: wp.array2d[wp.vec3],
    beside: wp.array2d[float],
):
    """One pixel: the light of each lamp that falls on what its ray meets.

    Where the ray hits though 0 is wanted, or misses though 1 is, it is said how deep in the mesh, or how far from it.
    """
    i, j = wp.tid()
    way = way_of(i, j, picture.shape[0])
    start = wp.vec3(EYE[0], EYE[1], EYE[2]) - place
    hit = wp.mesh_query_ray(mesh, start, way, 100.0)
    if hit.result:
        first = 3 * hit.face
        a = normals[wp.mesh_get_index(mesh, first)]
        b = normals[wp.mesh_get_index(mesh, first + 1)]
        c = normals[wp.mesh_get_index(mesh, first + 2)]
        light = lamps * wp.normalize(hit.u * a + hit.v * b + (1.0 - hit.u - hit.v) * c)
        bright = wp.max(light, wp.vec3(0.0, 0.0, 0.0))
        picture[i, j] = AMBIENT * wp.vec3(1.0, 1.0, 1.0) + (1.0 - AMBIENT) * bright
    if (hit.result and wanted[i, j] == 0) or (not hit.result and wanted[i, j] == 1):
        middle = start - wp.dot(start, way) * way
        near = wp.mesh_query_point_no_sign(mesh, middle, 100.0)
        beside[i, j] = wp.length(wp.mesh_eval_position(mesh, near.face, near.u, near.v) - middle)


class Scene(NamedTuple):
    """What is looked for."""

    height: jax.Array  # of each point
    place: jax.Array
    lamps: jax.Array  # (3, 3), where the light of each comes from, of any length


def normals_of(points: jax.Array, faces: np.ndarray) -> jax.Array:
    """The normal at each point: the mean of the faces there, by area."""
    a, b, c = (points[faces[:, k]] for k in range(3))
    of_faces = jnp.cross(b - a, c - a)
    total = jnp.zeros_like(points).at[faces.ravel()].add(jnp.repeat(of_faces, 3, 0))
    return total / jnp.linalg.norm(total, axis=1, keepdims=True)


def render(ball: Ball, scene: Scene, wanted: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The picture of a scene in three colours, and how far rays are from what is wanted: 1 for a hit, 0 for none."""
    points = scene.height[:, None] * ball.ways
    mesh = wp.Mesh(points, jnp.asarray(ball.faces.ravel()))
    given = [mesh.id, normals_of(points, ball.faces), scene.place, unit(scene.lamps), wanted]
    return wp.launch(shade, wanted.shape, given, [wanted.shape, wanted.shape])


def unit(x: jax.Array) -> jax.Array:
    """Directions of length 1."""
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def smoother(ball: Ball, rounds: int) -> Callable[[jax.Array], jax.Array]:
    """What takes a change of the heights to a smooth one: so many times the mean with what is beside it."""
    pairs = np.concatenate([ball.faces[:, [0, 1]], ball.faces[:, [1, 2]], ball.faces[:, [2, 0]]])
    count = np.bincount(pairs[:, 0], minlength=len(ball.ways)).astype(np.float32)

    def smooth(change: jax.Array) -> jax.Array:
        def once(_: int, x: jax.Array) -> jax.Array:
            return 0.5 * x + 0.5 * jnp.zeros_like(x).at[pairs[:, 0]].add(x[pairs[:, 1]]) / count

        return jax.lax.fori_loop(0, rounds, once, change)

    return smooth


@dataclass(frozen=True)
class Found:
    """Scenes on the way, and the losses."""

    target: np.ndarray
    wanted: Scene
    scenes: list[Scene]
    losses: np.ndarray
    seconds: float  # for a picture and its gradient


def search(ball: Ball, size: int, rounds: int) -> Found:
    """Adam, from a ball in the wrong place under the wrong light."""
    wanted = Scene(jnp.asarray(ball.carved()), jnp.array([0.08, -0.06, 0.0]), jnp.asarray(LAMPS))
    target, _ = render(ball, wanted, jnp.full((size, size), -1))
    inside = target.max(-1) > 0.0
    turned = LAMPS @ np.array([[0.9, 0.3, -0.3], [-0.3, 0.95, 0.1], [0.3, 0.0, 0.95]])
    scene = Scene(jnp.ones(len(ball.ways)), jnp.zeros(3), jnp.asarray(turned, jnp.float32))
    smooth = smoother(ball, len(ball.ways) // 200)

    def loss(scene: Scene) -> jax.Array:
        picture, beside = render(ball, scene, inside.astype(jnp.int32))
        both = inside & (picture.max(-1) > 0.0)
        colours = jnp.where(both[..., None], (picture - target) ** 2, 0.0).sum()
        return (colours + 50.0 * (beside**2).sum()) / inside.sum() + 0.1 * ((scene.height - 1.0) ** 2).mean()

    rates = Scene(0.004, 0.006, 0.02)
    optimizer = optax.adam(optax.cosine_decay_schedule(1.0, rounds, 0.05), b2=0.99)

    @jax.jit
    def step(scene: Scene, state: optax.OptState) -> tuple[Scene, optax.OptState, jax.Array]:
        value, slope = jax.value_and_grad(loss)(scene)
        change, state = optimizer.update(slope._replace(height=smooth(slope.height)), state)
        change = change._replace(height=smooth(change.height))
        return jax.tree.map(lambda x, d, rate: x + rate * d, scene, change, rates), state, value

    state = optimizer.init(scene)
    scenes, losses, costs = [scene], [], []
    for _ in drawing.progress(range(rounds), desc="gradients"):
        begun = time.perf_counter()
        scene, state, value = jax.block_until_ready(step(scene, state))
        costs.append(time.perf_counter() - begun)
        scenes.append(scene)
        losses.append(float(value))
    return Found(np.asarray(target), wanted, scenes, np.array(losses), float(np.median(costs)))


def main(quick: bool = False, out: Path = Path("render_mesh.png")) -> Found:
    """Search, report, draw."""
    cuts, size, rounds = (3, 40, 40) if quick else (4, 128, 120)
    ball = Ball.of(cuts)
    found = search(ball, size, rounds)
    last = found.scenes[-1]
    turns = np.degrees(np.arccos(np.clip((unit(last.lamps) * unit(found.wanted.lamps)).sum(-1), -1, 1)))
    apart = np.linalg.norm(np.asarray(last.place - found.wanted.place)[:2])
    print(f"{len(ball.faces)} faces, {size * size} rays; a picture and its gradient take {1e3 * found.seconds:.0f} ms")
    print(f"the difference falls from {found.losses[0]:.2g} to {found.losses[-1]:.2g}")
    print(f"the lamps are {', '.join(f'{turn:.1f}' for turn in turns)} degrees off, the place {apart:.3f}")
    draw(ball, found, lambda scene: np.asarray(render(ball, scene, jnp.full((size, size), -1))[0]), out)
    print(f"wrote {out}")
    return found


if __name__ == "__main__":
    drawing.run(main, __doc__, "render_mesh.png")
