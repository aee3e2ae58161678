"""The replay example lands its craft, three ways to the same end, and draws it."""

import importlib
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def replay_loop():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("replay_loop")
    finally:
        sys.path.remove(str(EXAMPLES))


def test_the_craft_lands(replay_loop, tmp_path):
    landing, seconds = replay_loop.main(quick=True, out=tmp_path / "replay.png")
    assert landing.costs[-1] < 0.02 * landing.costs[0]
    assert np.hypot(*landing.paths[len(landing.costs) - 1][-1]) < 0.5
    assert set(seconds) == {"replayed", "wp.launch", "one jitted scan"}
    assert (tmp_path / "replay.png").stat().st_size > 10_000


def test_three_ways_find_the_same_thrust(replay_loop):
    buffers = [replay_loop.Buffers() for _ in range(2)]
    for make, own in zip((replay_loop.replayed, replay_loop.launched), buffers, strict=True):
        step = make(own)
        for _ in range(20):
            step()
    thrust, _ = replay_loop.jitted(20)(jnp.asarray(replay_loop.Buffers().thrust))
    np.testing.assert_array_equal(buffers[0].thrust, buffers[1].thrust)
    np.testing.assert_allclose(buffers[0].thrust, thrust, atol=1e-3)


def test_the_gradient_is_that_of_the_cost(replay_loop):
    buffers = replay_loop.Buffers()
    buffers.thrust += np.random.default_rng(2).normal(size=buffers.thrust.shape).astype(np.float32)
    replay_loop.wp.launch(replay_loop.land, 1, **buffers.forward, **buffers.adjoint)
    direction = np.random.default_rng(3).normal(size=buffers.thrust.shape).astype(np.float32)
    costs, h, middle = [], 1e-2, buffers.thrust.copy()
    for sign in (1, -1):
        buffers.thrust[:] = middle + sign * h * direction
        replay_loop.wp.launch(replay_loop.land, 1, **buffers.forward)
        costs.append(float(buffers.cost[0]))
    found = float((buffers.adj_thrust * direction).sum())
    assert (costs[0] - costs[1]) / (2 * h) == pytest.approx(found, rel=2e-3)
