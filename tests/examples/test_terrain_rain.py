"""The terrain example runs, keeps its books, and its water lies where the ground is low."""

import importlib
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("optax")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def terrain_rain():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("terrain_rain")
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def result(terrain_rain, tmp_path_factory):
    out = tmp_path_factory.mktemp("terrain") / "rain.png"
    return *terrain_rain.main(quick=True, out=out), out


@pytest.fixture(scope="module")
def search(terrain_rain, tmp_path_factory):
    out = tmp_path_factory.mktemp("terrain") / "found.png"
    found = importlib.import_module("find_the_rain").main(quick=True, out=out)
    assert out.stat().st_size > 10_000
    return found


def test_mass_is_conserved(result):
    _, flood, *_ = result
    rained, drained, stored = flood.totals()
    assert min(rained, drained, stored) > 0.0
    assert flood.mass_error < 1e-6


def test_depths_are_finite_and_never_negative(result):
    _, flood, *_ = result
    assert np.isfinite(flood.depth).all()
    assert flood.depth.min() >= 0.0


def test_water_gathers_on_low_ground(result):
    terrain, flood, *_ = result
    where_water_is = np.average(terrain.ground, weights=flood.depth)
    assert where_water_is < terrain.ground.mean() - 0.25 * terrain.ground.std()


def test_rim_stays_dry(result):
    depth = result[1].depth
    assert not np.concatenate([depth[0], depth[-1], depth[:, 0], depth[:, -1]]).any()


def test_rain_is_found_by_its_gradient(search):
    assert search.losses[-1] < 0.1 * search.losses[0]
    inside = slice(1, -1), slice(1, -1)
    assert np.corrcoef(search.found[inside].ravel(), search.rain[inside].ravel())[0, 1] > 0.8


def test_flow_and_settle_match_numpy(terrain_rain):
    """A single step, against the same formulas on whole arrays in float64."""
    random = np.random.default_rng(7)
    ground = random.uniform(0.0, 3.0, (9, 7)).astype(np.float32)
    depth = random.uniform(0.0, 2.0, (9, 7)).astype(np.float32)
    east, south = random.uniform(-0.3, 0.3, (2, 9, 7)).astype(np.float32)
    east[:, -1], south[-1] = 0.0, 0.0
    depth[[0, -1]], depth[:, [0, -1]] = 0.0, 0.0
    width, height, dt, wet = 30.0, 40.0, 2.0, 1.5
    rain = random.uniform(0.0, 1.0e-3, (9, 7)).astype(np.float32)

    wp, dim = terrain_rain.wp, ground.shape
    flows = wp.launch(
        terrain_rain.flow, dim, [ground, depth, width, height, dt], [jnp.asarray(east), jnp.asarray(south)]
    )
    after, _, drained = wp.launch(
        terrain_rain.settle,
        dim,
        [*flows, width, height, rain, dt, wet],
        [jnp.asarray(depth), jnp.asarray(0.0 * depth), dim],
    )

    new_east, new_south = np.zeros(dim), np.zeros(dim)
    new_east[:, :-1] = _discharge(east[:, :-1], ground[:, :-1], depth[:, :-1], ground[:, 1:], depth[:, 1:], width, dt)
    new_south[:-1] = _discharge(south[:-1], ground[:-1], depth[:-1], ground[1:], depth[1:], height, dt)
    gain = -dt * (new_east / width + new_south / height)
    gain[:, 1:] += dt * new_east[:, :-1] / width
    gain[1:] += dt * new_south[:-1] / height
    rim = np.ones(dim, bool)
    rim[1:-1, 1:-1] = False
    np.testing.assert_allclose(flows[0], new_east, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(flows[1], new_south, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after, np.where(rim, depth, depth + gain + wet * rain), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(drained, np.where(rim, gain, 0.0), rtol=1e-5, atol=1e-6)


def _discharge(flux, ground, depth, next_ground, next_depth, length, dt):
    flux, ground, depth, next_ground, next_depth = (
        x.astype(np.float64) for x in (flux, ground, depth, next_ground, next_depth)
    )
    drop = ground + depth - next_ground - next_depth
    stream = np.maximum(ground + depth, next_ground + next_depth) - np.maximum(ground, next_ground)
    pushed = flux + 9.81 * stream * dt * drop / length
    friction = 9.81 * 0.05**2 * dt / np.maximum(stream, 1e-9) ** (7 / 3)
    # The root of moved + friction * moved * |moved| = pushed that has the sign of `pushed`.
    moved = np.sign(pushed) * (np.sqrt(1.0 + 4.0 * friction * np.abs(pushed)) - 1.0) / (2.0 * friction)
    limited = np.clip(moved, -0.2 * length / dt * next_depth, 0.2 * length / dt * depth)
    return np.where(stream < 1e-5, 0.0, limited)
