"""mujoco_warp as it is: states after 100 steps are those of Warp's CPU run, one launch at a time and as a jitted loop.

`warp_states.json` has Warp's, and how far Warp is from itself where the start differs by 1e-7:
`cd /tmp && python …/tests/helpers/mujoco_runs.py warp reference pendulum cartpole …` prints them.
"""

import json
from pathlib import Path

import mujoco_runs
import numpy as np
import pytest

pytestmark = mujoco_runs.needs_mujoco_warp

WARP = json.loads(Path(__file__).with_name("warp_states.json").read_text())


def assert_like_warp(name, state):
    wanted = WARP[name]
    # Differences that rounding makes are of any size between none and what a start 1e-7 away makes.
    np.testing.assert_allclose(state, wanted["state"], rtol=0, atol=2 * wanted["apart"])


def test_states_of_a_pendulum():
    found = mujoco_runs.run("jwarp", "traced", "pendulum")
    assert_like_warp("pendulum", found["pendulum"])


@mujoco_runs.long
@pytest.mark.parametrize("job", ["states", "traced"])
def test_states(job):
    found = mujoco_runs.run("jwarp", job, *WARP)
    for name in WARP:
        assert_like_warp(name, found[name])
