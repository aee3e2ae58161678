"""Smoke found from its shadows, through a sparse volume by its gradient
=====================================================================

Light shines through a cloud of smoke from a few sides, and cameras behind it see how much is left. The program looks
for the density of each voxel that gives these pictures: tomography by gradients.

The density is a `wp.Volume`. A kernel follows a ray for each pixel and adds up samples of the volume: the optical
depth, of which light keeps exp(-depth). The values of the volume are a leaf of a JAX pytree, so `jax.grad` of the
differences between pictures reaches every voxel, and Adam (Kingma and Ba, 2015) improves them. Densities are squares,
since there is no negative smoke.

To run it::

    python examples/smoke_tomography.py               # writes smoke_tomography.png
    python examples/smoke_tomography.py --quick       # few voxels, pixels and steps

Needs matplotlib, optax and tqdm. Lengths are in units of the box's half edge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure

import drawing
import jwarp as wp

REACH = 1.8  # of rays within the box, which they all cross


@wp.kernel
def follow(smoke: wp.uint64, start: wp.array[wp.vec3], toward: wp.array[wp.vec3], step: float, depth: wp.array[float]):
    """Add up the smoke along a ray, in steps of one length."""
    i = wp.tid()
    total = 0.0
    for k in range(int(wp.ceil(2.0 * wp.static(REACH) / step))):
        place = start[i] + (float(k) + 0.5) * step * toward[i]
        total += wp.volume_sample_f(smoke, wp.volume_world_to_index(smoke, place), wp.Volume.LINEAR) * step
    depth[i] = total


@dataclass(frozen=True)
class Cameras:
    """A ray for each pixel of each view, one view after the other."""

    start: np.ndarray
    toward: np.ndarray
    views: int
    pixels: int

    def see(self, smoke: wp.Volume, voxel: float) -> jax.Array:
        """The light that is left, of shape (views, pixels, pixels)."""
        (depth,) = wp.launch(follow, len(self.start), [smoke, self.start, self.toward, 0.7 * voxel], [len(self.start)])
        return jnp.exp(-depth).reshape(self.views, self.pixels, self.pixels)


def cameras_around(views: int, pixels: int) -> Cameras:
    """Cameras on a half circle, whose rays are parallel."""
    side = np.linspace(-1.0, 1.0, pixels)
    v, u = np.meshgrid(side, side, indexing="ij")
    starts, directions = [], []
    for angle in np.arange(views) * np.pi / views:
        forward, right = np.array([np.cos(angle), np.sin(angle), 0.0]), np.array([-np.sin(angle), np.cos(angle), 0.0])
        starts.append(
            (u[..., None] * right + v[..., None] * np.array([0.0, 0.0, 1.0]) - REACH * forward).reshape(-1, 3)
        )
        directions.append(np.broadcast_to(forward, (pixels * pixels, 3)))
    start, toward = (np.concatenate(each).astype(np.float32) for each in (starts, directions))
    return Cameras(start, toward, views, pixels)


def room_for_smoke(voxels: int) -> wp.Volume:
    """An empty volume: the tiles that a ball touches, since cameras see no more from all sides."""
    axis = np.arange(voxels) - (voxels - 1) / 2
    places = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3) * (2.0 / voxels)
    inside = places[np.linalg.norm(places, axis=1) < 1.0].astype(np.float32)
    return wp.Volume.allocate_by_tiles(wp.array(inside, dtype=wp.vec3), voxel_size=2.0 / voxels, bg_value=0.0)


def cloud(places: np.ndarray) -> np.ndarray:
    """The smoke to find: two rings that are linked, and a puff between."""
    x, y, z = places.T
    flat = np.hypot(np.hypot(x + 0.2, y) - 0.42, z)
    upright = np.hypot(np.hypot(x - 0.25, z) - 0.42, y)
    puff = np.sqrt(x**2 + (y - 0.45) ** 2 + (z - 0.4) ** 2)
    return 5.0 * np.exp(-((np.minimum(flat, upright) / 0.11) ** 2)) + 4.0 * np.exp(-((puff / 0.15) ** 2))


def places_of(volume: wp.Volume, voxel: float) -> np.ndarray:
    """Where the values of a volume are, but for the background, which is the last one."""
    return volume.get_voxels().numpy() * voxel


def with_density(volume: wp.Volume, roots: jax.Array) -> wp.Volume:
    """The volume whose density is the square of these, and 0 outside."""
    return wp.replace(volume, values=jnp.append(roots**2, 0.0))


def search(
    volume: wp.Volume, see: Callable[[wp.Volume], jax.Array], seen: jax.Array, steps: int
) -> tuple[jax.Array, np.ndarray]:
    """The roots of densities after so many steps, and the mean squared difference of pictures before each."""
    rule = optax.adam(0.08, b1=0.8)

    @jax.jit
    def improve(roots: jax.Array, state: optax.OptState) -> tuple[jax.Array, optax.OptState, jax.Array]:
        loss, by = jax.value_and_grad(lambda r: jnp.mean((see(with_density(volume, r)) - seen) ** 2))(roots)
        change, state = rule.update(by, state)
        return optax.apply_updates(roots, change), state, loss

    roots, losses = jnp.full(volume.values.size - 1, 0.4), []
    state = rule.init(roots)
    for _ in drawing.progress(range(steps), desc="looking for the smoke"):
        roots, state, loss = improve(roots, state)
        losses.append(float(loss))
    return roots, np.array(losses)


def slice_of(places: np.ndarray, density: np.ndarray, voxels: int, axis: int) -> np.ndarray:
    """The density summed along an axis, as a picture."""
    at = np.rint(places * voxels / 2.0).astype(int) + voxels // 2 + 4
    grid = np.zeros((voxels + 8,) * 3)
    keep = ((at >= 0) & (at < voxels + 8)).all(1)
    grid[tuple(at[keep].T)] = density[keep]
    return grid.sum(axis).T


def main(quick: bool = False, out: Path = Path("smoke_tomography.png")) -> tuple[np.ndarray, float]:
    voxels, steps = (16, 40) if quick else (48, 200)
    voxel = 2.0 / voxels
    volume, cameras = room_for_smoke(voxels), cameras_around(views=6 if quick else 12, pixels=voxels)
    places = places_of(volume, voxel)
    true = cloud(places)
    see = lambda smoke: cameras.see(smoke, voxel)  # noqa: E731
    seen = see(with_density(volume, jnp.sqrt(jnp.asarray(true, jnp.float32))))
    roots, losses = search(volume, see, seen, steps)
    found = np.asarray(roots) ** 2
    likeness = float(np.corrcoef(found, true)[0, 1])
    print(f"difference {losses[0]:.2e} -> {losses[-1]:.2e} in {steps} steps; densities correlate by {likeness:.3f}")
    figure = Figure((11, 6), layout="constrained")
    shown = figure.subplot_mosaic([["a", "b", "seen"], ["c", "d", "loss"]])
    for name, density, axis, title in (
        ("a", true, 2, "the smoke from above"),
        ("b", true, 1, "from the front"),
        ("c", found, 2, "found, from above"),
        ("d", found, 1, "found, from the front"),
    ):
        shown[name].imshow(slice_of(places, density, voxels, axis), origin="lower", cmap="magma")
        shown[name].set_axis_off()
        drawing.titled(shown[name], title, bare=False)
    shown["seen"].imshow(seen[1], origin="lower", cmap="Greys_r", vmin=0, vmax=1)
    shown["seen"].set_axis_off()
    drawing.titled(shown["seen"], f"one of {cameras.views} pictures", bare=False)
    shown["loss"].semilogy(losses, color=drawing.WARM)
    shown["loss"].set(xlabel="step", ylabel="mean square")
    drawing.titled(shown["loss"], "difference of the pictures")
    figure.savefig(out, dpi=110)
    return losses, likeness


if __name__ == "__main__":
    drawing.run(main, __doc__, "smoke_tomography.png")
