"""Derivatives of a step of mujoco_warp, as it is, are those that MuJoCo C has by differences in double."""

import mujoco_runs

pytestmark = mujoco_runs.needs_mujoco_warp


def assert_right(job, *names, most=1e-5):
    found = mujoco_runs.run("jwarp", job, *names)
    assert max(found.values()) < most, found


@mujoco_runs.long
def test_forward_mode():
    assert_right("forward", "pendulum", "cartpole", "sphere, Newton")


@mujoco_runs.long
def test_reverse_mode():
    assert_right("reverse", "pendulum", "cartpole", "sphere, Newton")


@mujoco_runs.long
def test_twenty_steps():
    assert_right("chained", "pendulum", "cartpole")


@mujoco_runs.long
def test_equalities_tendons_servos_and_sensors():
    assert_right("forward", "arm", most=1e-3)
    assert_right("reverse", "arm", most=1e-3)


@mujoco_runs.long
def test_robots():
    assert_right("forward", "quadruped", "finger")
    assert_right("reverse", "quadruped", "finger")


@mujoco_runs.long
def test_bodies_that_share_parents():
    assert_right("forward", "humanoid in the air")
    assert_right("reverse", "humanoid in the air")


@mujoco_runs.long
def test_implicit_rule_of_the_solver():
    found = mujoco_runs.run("jwarp", "rule", "hopper", "hopper, CG")
    for name, most in (("hopper", 1e-3), ("hopper, CG", 2e-2)):  # CG ends before it has converged
        assert found[name]["error"] < most, found
        unrolled, implicit = (found[name][way] - found[name]["value"] for way in ("unrolled", "implicit"))
        assert implicit < 0.6 * unrolled, found


@mujoco_runs.long
def test_through_contacts():
    assert_right("forward", "hopper, bent", most=1e-3)


@mujoco_runs.long
def test_balls_drives_and_what_is_held():
    assert_right("forward", "balls", "drives")
    assert_right("reverse", "balls", "drives")
    assert_right("forward", "held", most=1e-4)
    assert_right("reverse", "held", most=1e-4)


@mujoco_runs.long
def test_sensors():
    assert_right("sensors", "balls", "drives", most=1e-4)
