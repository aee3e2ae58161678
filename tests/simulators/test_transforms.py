"""Derivatives of a step of mujoco_warp by parameters of its model, and its batches, exports and shards."""

import mujoco_runs

pytestmark = mujoco_runs.needs_mujoco_warp


@mujoco_runs.long
def test_parameters():
    found = mujoco_runs.run("jwarp", "parameters", "cartpole", "sphere that slides")
    for name, errors in found.items():
        for key, (own, mujoco) in errors.items():
            assert own < 1e-2, (name, key, found)
            assert mujoco < 1e-5 or (name, key) == ("sphere that slides", "body_mass"), (name, key, found)


@mujoco_runs.long
def test_gradients_are_stopped_in_a_kernel_and_in_a_function():
    free, *stopped = mujoco_runs.run("jwarp", "stopped", "cartpole")["cartpole"]
    assert free > 1e-4 and stopped == [0.0, 0.0]


@mujoco_runs.long
def test_the_code_of_the_page():
    assert mujoco_runs.run("jwarp", "docs", "cartpole")["cartpole"] == [[1, 2, 1, 2]] * 4


@mujoco_runs.long
def test_batches_exports_and_shards():
    found = mujoco_runs.run("jwarp", "transforms", "pendulum")["pendulum"]
    assert found["worlds"] < 1e-6 and found["export"] == 0.0 and found["shards"] == 0.0, found
