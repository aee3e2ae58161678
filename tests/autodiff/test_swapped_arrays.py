"""Derivatives of kernels that swap the names of two arrays while they loop, as those that clip polygons do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

SIDES = 8
N = 40


@wp.func
def inside(a: wp.vec2, normal: wp.vec2, p: wp.vec2) -> bool:
    return wp.dot(p - a, normal) > -1.0e-10


@wp.kernel
def clip(
    clipping: wp.array2d[wp.vec2],
    clipped: wp.array2d[wp.vec2],
    first: wp.array2d[wp.vec2],
    second: wp.array2d[wp.vec2],
    area: wp.array[float],
    sides: wp.array[int],
):
    """The part of one quadrangle that is in another one: its corners go from one array to the other, side by side."""
    i = wp.tid()
    polygon, other = first[i], second[i]
    count = 4
    for k in range(4):
        polygon[k] = clipped[i, k]
    for e in range(4):
        a, b = clipping[i, e], clipping[i, (e + 1) % 4]
        normal = wp.vec2(a[1] - b[1], b[0] - a[0])
        found = 0
        for k in range(count):
            p, q = polygon[k], polygon[(k + 1) % count]
            from_inside, to_inside = inside(a, normal, p), inside(a, normal, q)
            if not from_inside and not to_inside:
                continue
            if from_inside != to_inside:
                t = wp.dot(a - p, normal) / wp.dot(q - p, normal)
                other[found] = p + wp.clamp(t, 0.0, 1.0) * (q - p)
                found += 1
            if to_inside:
                other[found] = q
                found += 1
        swapped = polygon
        polygon = other
        other = swapped
        count = found
    total = 0.0
    for k in range(count):
        p, q = polygon[k], polygon[(k + 1) % count]
        total += 0.5 * (p[0] * q[1] - p[1] * q[0])
    area[i] = total
    sides[i] = count


def _in_numpy(clipping, polygon):
    """The area in float64, and what of the corners was inside: what decides where there is a derivative."""
    decided = []
    for a, b in zip(clipping, np.roll(clipping, -1, 0), strict=True):
        normal = np.array([a[1] - b[1], b[0] - a[0]])
        made = []
        for p, q in zip(polygon, np.roll(polygon, -1, 0), strict=True):
            one, two = ((x - a) @ normal > 0 for x in (p, q))
            decided.append((one, two))
            if one != two:
                made.append(p + (a - p) @ normal / ((q - p) @ normal) * (q - p))
            if two:
                made.append(q)
        if not made:
            return 0.0, decided
        polygon = np.array(made)
    x, y = polygon.T
    return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1)), decided


def _quadrangles(rng, *, turned=0.0):
    """Convex ones around the origin, by their corners in turn."""
    angles = np.pi / 2 * np.arange(4) + rng.uniform(-0.3, 0.3, (N, 4)) + turned
    sizes = rng.uniform(0.8, 1.2, (N, 4))
    return np.stack([sizes * np.cos(angles), sizes * np.sin(angles)], -1).astype(np.float32)


@pytest.mark.parametrize("turned", [0.0, 0.6])
def test_polygons_that_are_clipped(turned):
    rng = np.random.default_rng(0)
    clipping, clipped = _quadrangles(rng), _quadrangles(rng, turned=turned)
    room = (N, SIDES)

    def areas(clipping, clipped):
        return wp.launch(clip, N, [clipping, clipped], [room, room, N, N])[2]

    own = [_in_numpy(*pair)[0] for pair in zip(clipping.astype(float), clipped.astype(float), strict=True)]
    np.testing.assert_allclose(areas(clipping, clipped), own, rtol=1e-5)
    directions = [rng.normal(size=clipping.shape) for _ in range(2)]
    tangents = [jnp.asarray(d, jnp.float32) for d in directions]
    _, forward = jax.jvp(areas, (jnp.asarray(clipping), jnp.asarray(clipped)), tuple(tangents))
    reverse = jax.grad(lambda *x: areas(*x).sum(), argnums=(0, 1))(jnp.asarray(clipping), jnp.asarray(clipped))
    backwards = sum(np.einsum("ikc,ikc->i", g, d) for g, d in zip(reverse, directions, strict=True))
    compared, h = 0, 1e-6
    for i in range(N):
        (up, one), (down, two) = (
            _in_numpy(
                *(x[i].astype(float) + s * h * d[i] for x, d in zip((clipping, clipped), directions, strict=True))
            )
            for s in (1, -1)
        )
        if one == two:
            compared += 1
            wanted = (up - down) / (2 * h)
            assert forward[i] == pytest.approx(wanted, rel=1e-3, abs=1e-4)
            assert backwards[i] == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    assert compared > N // 2
