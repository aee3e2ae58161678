"""The pendulum example runs, keeps its energy, and swings as the equations of motion say."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def lessons():
    """The three examples of pendulums, by name."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield {name: importlib.import_module(name) for name in ("pendulum_batch", "fit_pendulum", "pendulum_race")}
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def pendulum_batch(lessons):
    return lessons["pendulum_batch"]


@pytest.fixture(scope="module")
def result(pendulum_batch, tmp_path_factory):
    out = tmp_path_factory.mktemp("pendulum") / "batch.png"
    return *pendulum_batch.main(quick=True, out=out), out


@pytest.fixture
def pendulums():
    """States, lengths and drags of seven pendulums."""
    random = np.random.default_rng(3)
    states = random.uniform(-2.5, 2.5, (7, 4)).astype(np.float32)
    return states, *random.uniform([[0.3], [0.0]], [[2.0], [0.4]], (2, 7)).astype(np.float32)


def test_energy_is_kept_without_drag(result):
    assert 0.0 < result[0].energy_error < 1e-4


def test_one_pendulum_is_found_by_its_gradient(lessons, tmp_path):
    fitted = lessons["fit_pendulum"].main(quick=True, out=tmp_path / "fit.png")
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")
    np.testing.assert_allclose(fitted.found, fitted.true, rtol=1e-3)
    assert fitted.misfits[-1] < 1e-6 < 1e-2 < fitted.misfits[0]


def test_a_picture_is_drawn(result):
    assert result[-1].read_bytes().startswith(b"\x89PNG")


def test_three_ways_are_timed_and_drawn(lessons, tmp_path):
    costs = lessons["pendulum_race"].main(quick=True, out=tmp_path / "race.png")
    assert len(costs) == 3 and min(costs.values()) > 0.0
    assert (tmp_path / "race.png").read_bytes().startswith(b"\x89PNG")


def test_drag_keeps_twins_together(result):
    together = result[0].together
    assert together.shape == (24, 24) and (together > 0.0).all()
    assert together[:4].mean() <= together[-4:].mean()


def test_tracks_start_at_the_release_and_twins_together(pendulum_batch, result):
    for track in result[1]:
        assert np.isfinite(track.angles).all()
        np.testing.assert_allclose(track.angles[:, 0], pendulum_batch.RELEASE[1], atol=0.05)
        assert np.abs(track.angles[0] - track.angles[1])[:20].max() < 0.01


def test_batch_threads_and_jax_agree_with_the_equations_of_motion(lessons, pendulums):
    """A second of motion, against the Lagrangian's mass matrix solved in float64 with a quarter of the step."""
    states, lower, drag = pendulums
    race = lessons["pendulum_race"]
    dt, steps = 0.005, 200
    for one, two in zip(states, states[::-1], strict=True):
        expected = np.array([_swung(x, lower, drag, dt / 4.0, 4 * steps) for x in (one, two)])
        for swing in (race.swing_batch, race.swing_all_fn, race.swing_jnp):
            found = np.array(swing(one, two, lower, drag, dt, steps)[:2])
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


def test_together_is_the_time_until_twins_part(lessons, pendulums):
    states, lower, drag = pendulums
    dt, steps = 0.005, 200
    one, two = states[0], states[0] + np.float32([0.9, 0.0, 0.5, 0.0])
    every = [
        [np.array(x) for x in lessons["pendulum_race"].swing_all_fn(one, two, lower, drag, dt, n)]
        for n in range(1, steps + 1)
    ]
    apart = np.array([np.abs(x - y)[:, :2].max(1) > 1.0 for x, y, _ in every])
    expected = dt * np.where(apart.any(0), apart.argmax(0) + 1, steps)
    assert apart.any()
    np.testing.assert_allclose(every[-1][2], expected, rtol=1e-6)


def _swung(state, lower, drag, dt, steps):
    """The states of pendulums of several lengths and drags after `steps` steps."""
    x = np.repeat(np.asarray(state, np.float64)[:, None], len(lower), 1)
    lower, drag = lower.astype(np.float64), drag.astype(np.float64)
    for _ in range(steps):
        k1 = _motion(x, lower, drag)
        k2 = _motion(x + 0.5 * dt * k1, lower, drag)
        k3 = _motion(x + 0.5 * dt * k2, lower, drag)
        k4 = _motion(x + dt * k3, lower, drag)
        x = x + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return x.T


def _motion(x, lower, drag):
    """Mass matrix times acceleration is the force of gravity, of the other bob, and of drag."""
    (a, b), speeds = x[:2], x[2:]
    cosine, sine = np.cos(a - b), np.sin(a - b)
    mass = np.array([[2.0 + 0.0 * lower, lower * cosine], [lower * cosine, lower**2]])
    whirl = lower * sine * np.array([-(speeds[1] ** 2), speeds[0] ** 2])
    weight = -9.81 * np.array([2.0 * np.sin(a), lower * np.sin(b)])
    force = whirl + weight - drag * np.einsum("ijn,jn->in", mass, speeds)
    return np.concatenate([speeds, np.linalg.solve(mass.transpose(2, 0, 1), force.T[..., None])[..., 0].T])
