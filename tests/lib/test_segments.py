"""Where two segments come closest: against the best of all candidates in float64, and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np

import jwarp as wp

EPSILON = 1e-6


@wp.kernel
def closest(ends: wp.array2d[wp.vec3], result: wp.array[wp.vec3]):
    i = wp.tid()
    result[i] = wp.closest_point_edge_edge(ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3], 1e-6)


def closest_fn(ends):
    return wp.launch(closest, len(ends), [ends], [len(ends)])


def at(ends, s, t):
    """The distance of the points at s and t."""
    p1, q1, p2, q2 = np.moveaxis(ends, 1, 0)
    return np.linalg.norm(p1 + s[:, None] * (q1 - p1) - p2 - t[:, None] * (q2 - p2), axis=1)


def least(ends):
    """The least distance: of the lines, where that is on the segments, or with an end of one."""
    p1, q1, p2, q2 = np.moveaxis(ends, 1, 0)

    def foot(point, start, end):
        way = end - start
        square = np.sum(way * way, axis=1)
        return np.clip(np.sum((point - start) * way, axis=1) / np.where(square > 0, square, 1), 0, 1)

    zero, one = np.zeros(len(ends)), np.ones(len(ends))
    found = [
        at(ends, zero, foot(p1, p2, q2)),
        at(ends, one, foot(q1, p2, q2)),
        at(ends, foot(p2, p1, q1), zero),
        at(ends, foot(q2, p1, q1), one),
    ]
    for k, (a, b, c, d) in enumerate(zip(p1, q1, p2, q2, strict=True)):
        s, t = np.linalg.lstsq(np.stack([b - a, c - d], axis=1), c - a, rcond=None)[0]
        if 0 <= s <= 1 and 0 <= t <= 1:
            found[0][k] = min(found[0][k], np.linalg.norm(a + s * (b - a) - c - t * (d - c)))
    return np.minimum.reduce(found)


def segments():
    rng = np.random.default_rng(5)
    ends = rng.uniform(-1, 1, (400, 4, 3))
    ends[:60, 3] = ends[:60, 2] + (ends[:60, 1] - ends[:60, 0]) * rng.uniform(-2, 2, (60, 1))  # parallel
    ends[60:80, 1] = ends[60:80, 0]
    ends[70:90, 3] = ends[70:90, 2]
    return ends.astype(np.float32)


def test_distances_are_least():
    ends = segments()
    s, t, distance = np.asarray(closest_fn(jnp.asarray(ends))[0], np.float64).T
    wide = ends.astype(np.float64)
    np.testing.assert_allclose(distance, least(wide), rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(at(wide, s, t), distance, rtol=1e-5, atol=1e-6)
    assert np.all((s >= 0) & (s <= 1) & (t >= 0) & (t <= 1))
    assert np.all(s[60:80] == 0) and np.all(t[70:90] == 0)


def test_derivatives():
    ends = jnp.asarray(segments()[90:140])
    wp.check_grads(closest_fn, (ends,))
    by = jax.jacobian(lambda e: closest_fn(e[None])[0][0, 2])(ends[0])
    np.testing.assert_allclose(jnp.sum(by, axis=0), 0.0, atol=1e-5)  # moving all ends changes no distance
