"""Rays of adjacent threads, which go through a tree together, hit what each of them hits alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(4)
SIDE = 48


def bumpy(rows):
    """A ball with bumps, and a flat floor of faces that share sides on whole numbers, so that rays meet two at once."""
    v, u = np.meshgrid(np.linspace(0, np.pi, rows + 1), np.linspace(0, 2 * np.pi, 2 * rows), indexing="ij")
    r = 1 + 0.1 * np.sin(5 * u) * np.sin(v)
    ball = np.stack([r * np.cos(u) * np.sin(v), r * np.sin(u) * np.sin(v), r * np.cos(v)], -1)
    x, y = np.meshgrid(np.linspace(-2, 2, 17), np.linspace(-2, 2, 17), indexing="ij")
    floor = np.stack([x, y, np.full_like(x, -1.5)], -1)
    points, faces = [], []
    for part in (ball, floor):
        n, m = part.shape[:2]
        i, j = (k.ravel() for k in np.mgrid[: n - 1, : m - 1])
        base = sum(len(p) for p in points)
        a, b, c, d = (base + k * m + q for k, q in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)))
        points.append(part.reshape(-1, 3))
        faces += [np.stack([a, b, c], -1), np.stack([a, c, d], -1)]
    return np.concatenate(points).astype(np.float32), np.concatenate(faces).astype(np.int32)


@wp.kernel
def cast(
    mesh: wp.uint64,
    starts: wp.array[wp.vec3],
    ways: wp.array[wp.vec3],
    kinds: wp.array[int],
    t: wp.array[float],
    where: wp.array[wp.vec3],
    faces: wp.array2d[int],
):
    i = wp.tid()
    q = wp.mesh_query_ray(mesh, starts[i], ways[i], 100.0)
    if q.result:
        t[i] = q.t
        where[i] = wp.mesh_eval_position(mesh, q.face, q.u, q.v)
        faces[i, 0] = q.face
    if kinds[i] == 1:  # some of the threads alone
        near = wp.mesh_query_ray(mesh, starts[i], ways[i], 2.5)
        faces[i, 1] = near.face + int(near.result)
        faces[i, 2] = int(wp.mesh_query_ray_anyhit(mesh, starts[i], ways[i], 2.5))


def picture():
    grid = np.linspace(-2.1, 2.1, SIDE + 1)[:-1]  # with those through corners of the floor
    u, v = np.meshgrid(np.r_[grid[::2], np.linspace(-2, 2, SIDE // 2)], grid, indexing="ij")
    starts = np.stack([u, v, np.full_like(u, 3.0)], -1).reshape(-1, 3).astype(np.float32)
    ways = np.broadcast_to(np.float32([0.0, 0.0, -1.0]), starts.shape).copy()
    ways[: len(ways) // 3] += RNG.normal(0, 0.01, (len(ways) // 3, 3)).astype(np.float32)
    begun = slice(len(ways) // 2, len(ways) // 2 + 400)  # on the floor, where faces meet: at 0 or -0
    starts[begun] = np.c_[RNG.integers(-2, 3, (400, 2)) * 0.25, np.full(400, -1.5)]
    ways[begun] += RNG.normal(0, 0.3, (400, 3)).astype(np.float32)
    starts[7::50] = np.nan
    ways[13::60] = 0.0
    ways[20:23] *= -1.0
    return starts, ways, RNG.integers(0, 2, len(ways)).astype(np.int32)


@pytest.mark.parametrize("groups", [False, True])
def test_a_beam_hits_what_its_rays_hit_in_any_order(groups):
    points, faces = bumpy(40)
    faces[5], faces[11] = [3, 3, 4], [0, 1, 10**6]
    own = RNG.integers(0, 3, len(faces)).astype(np.int32) if groups else None
    mesh = wp.Mesh(points, faces.ravel(), groups=own)
    given = picture()
    count = len(given[0])
    sizes = [count, count, (count, 3)]
    together = wp.launch(cast, count, [mesh, *given], sizes)
    order = RNG.permutation(count)
    alone = wp.launch(cast, count, [mesh, *(x[order] for x in given)], sizes)
    assert np.asarray(together[0]).astype(bool).mean() > 0.5
    for beam, rays in zip(together, alone, strict=True):
        np.testing.assert_array_equal(np.asarray(beam)[order], rays)


def test_a_beam_has_the_derivatives_of_its_rays():
    points, faces = bumpy(30)
    starts, ways, kinds = (x[len(x) // 2 :] for x in picture())
    starts, ways = np.nan_to_num(starts, nan=9.0), ways + np.float32([0.013, 0.027, 0.0])
    order = RNG.permutation(len(starts))

    def total(points, starts, ways, kinds):
        mesh = wp.Mesh(points, faces.ravel())
        sizes = {"t": len(starts), "where": len(starts), "faces": (len(starts), 3)}
        t, where, _ = wp.jax_kernel(cast, num_outputs=3, output_dims=sizes)(mesh, starts, ways, kinds)
        return (t * t).sum() + jnp.sin(where).sum()

    slopes = jax.jit(jax.grad(total, argnums=(0, 1, 2)))
    together = slopes(jnp.asarray(points), starts, ways, kinds)
    alone = slopes(jnp.asarray(points), starts[order], ways[order], kinds[order])
    assert float(jnp.abs(together[0]).max()) > 0.1
    np.testing.assert_allclose(together[0], alone[0], rtol=1e-4, atol=1e-4)
    for beam, rays in zip(together[1:], alone[1:], strict=True):
        np.testing.assert_allclose(np.asarray(beam)[order], rays, rtol=1e-5, atol=1e-6)
