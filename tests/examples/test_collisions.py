"""The example of discs that collide runs, its gradient is that of differences, and the loss falls."""

import importlib
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzz_profiles import needs_all

pytest.importorskip("matplotlib")
pytest.importorskip("optax")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def collisions():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("collisions")
    finally:
        sys.path.remove(str(EXAMPLES))


@needs_all
def test_the_loss_falls_and_a_picture_is_drawn(collisions, tmp_path):
    given, found = collisions.main(quick=True, out=tmp_path / "discs.png")
    assert given.start.shape == given.goal.shape == found.velocity.shape == (256, 2)
    assert found.losses.min() < 0.1 * found.losses[0] and np.isfinite(found.losses).all()
    assert (tmp_path / "discs.png").read_bytes().startswith(b"\x89PNG")


def crowd(collisions):
    """Discs that overlap, and some that touch a wall."""
    random = np.random.default_rng(3)
    x = random.uniform(0.003, 0.1, (60, 2)).astype(np.float32)
    return x, random.normal(size=(60, 2)).astype(np.float32)


def moved_by_numpy(collisions, x, v):
    """A step, with all pairs of discs."""
    x, v = x.astype(np.float64), v.astype(np.float64)
    apart = x[:, None] - x[None]
    distance = np.linalg.norm(apart, axis=-1) + np.eye(len(x))
    normal = apart / distance[..., None]
    closing = ((v[None] - v[:, None]) * normal).sum(-1)
    push = collisions.STIFFNESS * (2 * collisions.RADIUS - distance) + collisions.DAMPING * closing
    force = (np.where(distance < 2 * collisions.RADIUS, push, 0.0)[..., None] * normal).sum(1)
    force += collisions.STIFFNESS * np.maximum(collisions.RADIUS - x, 0.0)
    v = (v + collisions.STEP * force) / (1.0 + collisions.STEP * collisions.DRAG)
    return x + collisions.STEP * v, v


def test_a_step_is_that_of_all_pairs(collisions):
    x, v = crowd(collisions)
    (after, faster), (fullest, contacts) = collisions.step((jnp.asarray(x), jnp.asarray(v)))
    expected, speeds = moved_by_numpy(collisions, x, v)
    np.testing.assert_allclose(after, expected, atol=2e-6)
    np.testing.assert_allclose(faster, speeds, rtol=1e-4, atol=1e-3)
    assert 20 < contacts < 180 and 1 < fullest <= collisions.ROOM


def test_the_gradient_goes_through_contacts(collisions):
    """Through several steps, against differences in float64 of the same steps with all pairs."""
    x, v = crowd(collisions)
    weights = np.random.default_rng(4).normal(size=x.shape)
    along = np.random.default_rng(5).normal(size=x.shape)
    steps = 5

    def loss(v):
        return jnp.vdot(collisions.simulate((jnp.asarray(x), v), 1, steps)[0][0], weights)

    def by_numpy(v):
        place, speed = x, v
        for _ in range(steps):
            place, speed = moved_by_numpy(collisions, place, speed)
        return np.vdot(place, weights)

    h = 1e-6
    difference = (by_numpy(v + h * along) - by_numpy(v - h * along)) / (2 * h)
    assert abs(difference) > 0.01
    np.testing.assert_allclose(np.vdot(jax.grad(loss)(jnp.asarray(v)), along), difference, rtol=1e-3)
