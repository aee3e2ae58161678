"""The example of rigid bodies runs, keeps what it should, and turns over as Euler's equations say."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def rigid_bodies():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("rigid_bodies")
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def result(rigid_bodies, tmp_path_factory):
    out = tmp_path_factory.mktemp("bodies") / "bodies.png"
    return *rigid_bodies.main(quick=True, out=out), out


def test_energy_and_momentum_are_kept(result):
    handles, chain, _, _ = result
    for track in (*handles.values(), chain):
        assert track.energy_error.max() < 3e-4 and track.momentum_error.max() < 1e-4


def test_the_gradient_is_that_of_the_difference(result):
    gradient, difference = result[2]
    assert gradient == pytest.approx(difference, rel=1e-6) and abs(gradient) > 0.1


def test_a_picture_is_drawn(result):
    assert result[-1].read_bytes().startswith(b"\x89PNG")


def test_joints_stay_closed(rigid_bodies, result):
    chain = result[1]
    arm = rigid_bodies.arms(chain.q, rigid_bodies.REACH)
    gaps = np.diff(chain.x, axis=1) - arm[:, 1:] - arm[:, :-1]
    assert chain.q.shape[1] == 5 and np.linalg.norm(gaps, axis=-1).max() < 0.01
    np.testing.assert_allclose(np.linalg.norm(chain.q, axis=-1), 1.0, atol=1e-6)


def test_handles_turn_over_as_eulers_equations_say(rigid_bodies, result):
    """The angular velocity in the handle's own frame, in float64 by Runge and Kutta."""
    moments = np.array(rigid_bodies.INERTIA)

    def change(w):
        return -np.cross(w, moments * w) / moments

    for tilt, track in list(result[0].items())[:2]:
        dt = 0.02
        w = rigid_bodies.SPIN * np.array([np.sin(tilt), np.cos(tilt), 0.0])
        expected = []
        for _ in track.time:
            expected.append(moments[1] * w[1] / np.linalg.norm(moments * w))
            k1 = change(w)
            k2 = change(w + 0.5 * dt * k1)
            k3 = change(w + 0.5 * dt * k2)
            k4 = change(w + dt * k3)
            w = w + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        assert min(expected) < -0.9 < 0.9 < max(expected)
        np.testing.assert_allclose(track.upright, expected, atol=0.02)


def test_the_map_is_of_the_same_handles(rigid_bodies, tmp_path):
    survey = importlib.import_module("tumbling_map").main(quick=True, out=tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG") and 0.0 < survey.energy_error < 5e-4
    assert survey.upright.shape == (16, 16) and np.abs(survey.upright).max() < 1.0 + 1e-5
    assert survey.upright.max() > 0.9 and survey.upright.min() < -0.9
