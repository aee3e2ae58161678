"""The grid example's gradients are those of the closed form, and its picture is drawn."""

import importlib
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def grid_gravity():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("grid_gravity")
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def result(grid_gravity, tmp_path_factory):
    out = tmp_path_factory.mktemp("grid") / "gravity.png"
    return *grid_gravity.main(quick=True, out=out), out


def test_gradients_are_those_of_the_closed_form(grid_gravity, result):
    grid, found, off, _ = result
    assert off < 1e-5
    # The closed form itself, against a difference in double precision, where no wall is near.
    place = (9, 11, 10)
    expected = grid_gravity.closed_form(grid)
    p, m = grid.momentum[place].astype(np.float64), float(grid.mass[place])
    wanted = grid.wanted[place].astype(np.float64)

    def miss(m):
        return 0.5 * ((p / m + [0.0, grid_gravity.GRAVITY * grid_gravity.STEP, 0.0] - wanted) ** 2).sum()

    h = 1e-5 * m
    assert expected.mass[place] == pytest.approx((miss(m + h) - miss(m - h)) / (2 * h), rel=1e-6)
    assert (found.mass[grid.mass == 0.0] == 0.0).all()
    assert (found.momentum[grid.mass == 0.0] == 0.0).all()


def test_walls_take_part(grid_gravity):
    random = np.random.default_rng(8)
    shape = (9, 8, 7)
    mass = random.uniform(0.5, 2.0, shape).astype(np.float32)
    momentum, wanted = random.normal(size=(2, *shape, 3)).astype(np.float32)
    grid = grid_gravity.Grid(mass, momentum, wanted)
    found = grid_gravity.gradients(grid)
    assert grid_gravity.error(found, grid_gravity.closed_form(grid)) < 1e-5
    assert 0.1 < (found.momentum == 0.0).mean() < 0.6


def test_gravity_and_step_have_gradients_for_those_who_ask(grid_gravity):
    grid = grid_gravity.blob(12)
    args = (jnp.asarray(grid.mass), jnp.asarray(grid.momentum), -9.81, 0.02, jnp.asarray(grid.wanted))
    gravity, dt = jax.grad(grid_gravity.loss, argnums=(2, 3))(*args)
    assert float(gravity) / 0.02 == pytest.approx(float(dt) / -9.81, rel=1e-5)
    assert abs(float(dt)) > 0.1


def test_a_picture_is_drawn(result):
    assert result[3].read_bytes().startswith(b"\x89PNG")
