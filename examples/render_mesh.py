"""A shape, its place and the light are found from a picture: gradients through a ray caster of meshes
=====================================================================================================

Each pixel sends a ray to a mesh (`wp.mesh_query_ray`), and has the colour of the light that falls on the face there: a
red, a green and a blue lamp shine from three sides (Woodham 1980, "Photometric method for determining surface
orientation from multiple images"). The picture is a function of the points of the mesh, of where it stands, and of the
lamps, and JAX differentiates it: by where a ray hits a face, by the weights of its corners, and by their normals. The
tree that rays go through is built inside of `jax.jit`, of the points of each step; it has no derivative, and needs
none.

At the outline a picture has no gradient, as it is a matter of hit or miss. So each ray asks as well how far it passes
from the mesh, or how deep in it goes (`wp.mesh_query_point_no_sign`), where it is closest to the middle: where a
ray hits that should miss, or the other way round, that distance counts.

From a ball, the search is for a carved one: how high each point of it is, where it is, and from where the light comes.
Heights follow a smoothed gradient (Nicolet, Jacobson and Jakob 2021, "Large Steps in Inverse Rendering of Geometry").

To run it::

    python examples/render_mesh.py               # writes render_mesh.png
    python examples/render_mesh.py --quick       # a small picture, a few seconds

Needs matplotlib, optax and tqdm.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure
from tqdm import tqdm

import jwarp as wp

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


@dataclass(frozen=True)
class Ball:
    """A ball of triangles: directions of its points, and faces."""

    ways: np.ndarray  # (points, 3)
    faces: np.ndarray  # (faces, 3)

    @staticmethod
    def of(rounds: int) -> Ball:
        """An icosahedron whose faces are cut in four, so many times."""
        golden = (1 + 5**0.5) / 2
        ways = [(0, a, b * golden) for a in (-1, 1) for b in (-1, 1)]
        ways = np.array([np.roll(way, k) for k in range(3) for way in ways], float)
        ways /= np.linalg.norm(ways, axis=1, keepdims=True)
        near = np.linalg.norm(ways[:, None] - ways, axis=-1) < 1.2
        faces = [
            (i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] and near[j, k] and near[i, k]
        ]
        faces = np.array([f if np.linalg.det(ways[list(f)]) > 0 else f[::-1] for f in faces])
        for _ in range(rounds):
            pairs = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
            sides, which = np.unique(pairs, axis=0, return_inverse=True)
            ab, bc, ca = len(ways) + which.reshape(3, -1)
            middle = ways[sides].sum(1)
            ways = np.concatenate([ways, middle / np.linalg.norm(middle, axis=1, keepdims=True)])
            a, b, c = faces.T
            faces = np.concatenate([np.stack(f, 1) for f in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))])
        return Ball(ways.astype(np.float32), faces.astype(np.int32))

    def carved(self) -> np.ndarray:
        """Heights with a spiral of ridges and a few dents."""
        x, y, z = self.ways.T
        angle, tilt = np.arctan2(y, x), np.arccos(np.clip(z, -1, 1))
        height = 1.0 + 0.045 * np.sin(3 * angle + 9 * tilt) * np.sin(tilt)
        for way in ((0.35, 0.45, 0.8), (-0.5, -0.2, 0.85), (0.2, -0.55, 0.8)):
            apart = np.linalg.norm(self.ways - np.array(way) / np.linalg.norm(way), axis=1)
            height -= 0.13 * np.exp(-((apart / 0.2) ** 2))
        return height.astype(np.float32)


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


def picture_of(ball: Ball, scene: Scene, size: int) -> jax.Array:
    """The picture of a scene, size by size."""
    return render(ball, scene, jnp.full((size, size), -1))[0]


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
    target = picture_of(ball, wanted, size)
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
    for _ in tqdm(range(rounds), desc="gradients", leave=False):
        begun = time.perf_counter()
        scene, state, value = jax.block_until_ready(step(scene, state))
        costs.append(time.perf_counter() - begun)
        scenes.append(scene)
        losses.append(float(value))
    return Found(np.asarray(target), wanted, scenes, np.array(losses), float(np.median(costs)))


# -- the picture


def draw(ball: Ball, found: Found, size: int, path: Path) -> None:
    figure = Figure(figsize=(15.0, 8.4), dpi=120, layout="constrained")
    axes = figure.subplots(2, 4)

    def show(place: tuple[int, int], picture: np.ndarray, title: str, **more: Any) -> None:
        axes[place].imshow(np.clip(picture, 0.0, 1.0) ** 0.8 if not more else picture, **more)
        axes[place].axis("off")
        axes[place].set_title(title, loc="left", fontsize=12, fontweight="bold")

    def seen(scene: Scene) -> np.ndarray:
        return np.asarray(picture_of(ball, scene, size))

    show((0, 0), found.target, "The picture that is given")
    rounds = len(found.losses)
    for k, at in enumerate((0, rounds // 12, rounds)):
        show((0, k + 1), seen(found.scenes[at]), "At first" if at == 0 else f"After {at} gradients")
    white = jnp.tile(jnp.array([0.9, 0.8, 0.5]), (3, 1))  # a lamp that the search has not seen
    last = found.scenes[-1]
    show((1, 0), seen(found.wanted._replace(lamps=white)), "In other light: wanted")
    show((1, 1), seen(last._replace(lamps=white)), "In other light: found")
    off = last.height - found.wanted.height
    picture = render_values(ball, last, off, size)
    show((1, 2), picture, "Heights: found, less wanted", cmap="RdBu", vmin=-0.1, vmax=0.1)
    axes[1, 3].semilogy(np.arange(1, rounds + 1), found.losses, color="#20304f")
    axes[1, 3].set(xlabel="gradients", ylabel="mean squared difference")
    axes[1, 3].set_title(f"A gradient takes {1e3 * found.seconds:.0f} ms", loc="left", fontsize=12, fontweight="bold")
    axes[1, 3].spines[["top", "right"]].set_visible(False)
    axes[1, 3].grid(alpha=0.3)
    figure.savefig(path)


@wp.kernel
def look(mesh: wp.uint64, values: wp.array[float], place: wp.vec3, picture: wp.array2d[float]):
    """The value of the points at what each pixel sees."""
    i, j = wp.tid()
    start = wp.vec3(EYE[0], EYE[1], EYE[2]) - place
    hit = wp.mesh_query_ray(mesh, start, way_of(i, j, picture.shape[0]), 100.0)
    if hit.result:
        first = 3 * hit.face
        picture[i, j] = (
            hit.u * values[wp.mesh_get_index(mesh, first)]
            + hit.v * values[wp.mesh_get_index(mesh, first + 1)]
            + (1.0 - hit.u - hit.v) * values[wp.mesh_get_index(mesh, first + 2)]
        )


def render_values(ball: Ball, scene: Scene, values: jax.Array, size: int) -> np.ndarray:
    """A picture of a value of the points."""
    mesh = wp.Mesh(scene.height[:, None] * ball.ways, jnp.asarray(ball.faces.ravel()))
    return np.asarray(wp.launch(look, (size, size), [mesh, values, scene.place], [(size, size)])[0])


def main(quick: bool = False, out: Path | None = None) -> Found:
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
    out = out or Path("render_mesh.png")
    draw(ball, found, size, out)
    print(f"wrote {out}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small picture")
    parser.add_argument("--out", type=Path, help="where the picture goes")
    given = parser.parse_args()
    main(given.quick, given.out)
