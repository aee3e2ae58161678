"""The examples of a dam break and of a ray caster run, and what they find is so."""

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
def examples():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(str(EXAMPLES))


@needs_all
def test_water_runs_through_the_tank(examples, tmp_path):
    dam_break = examples("dam_break")
    states = dam_break.main(quick=True, out=tmp_path / "dam.png")
    assert (tmp_path / "dam.png").read_bytes().startswith(b"\x89PNG")
    first, last = (np.asarray(state[0]) for state in (states[0], states[-1]))
    assert np.isfinite(last).all() and (last > -0.05).all() and (last < np.array(dam_break.TANK) + 0.05).all()
    assert last[:, 0].max() > 1.5 and last[:, 2].mean() < 0.7 * first[:, 2].mean()


def test_a_step_of_water_is_that_of_all_pairs_and_has_a_gradient(examples):
    dam_break = examples("dam_break")
    water = dam_break.Water(0.1)
    x, v = water.at_rest()
    v = v + jnp.asarray(np.random.default_rng(0).normal(size=v.shape), jnp.float32)
    sound, reach = dam_break.SOUND, water.reach

    def by_pairs(x):
        apart = x[:, None] - x
        alone = jnp.eye(len(x))
        distance = jnp.sqrt((apart**2).sum(-1) + alone) - alone
        q, rest = distance / reach, jnp.maximum(1 - distance / reach, 0)
        density = water.scale * (rest**4 * (1 + 4 * q)).sum(1)
        own = jnp.maximum(sound**2 / 7 * (density**7 - 1), 0) / density**2
        along = apart / (distance + alone)[..., None]
        closing = jnp.minimum(((v[:, None] - v) * along).sum(-1), 0)
        friction = -dam_break.VISCOSITY * sound * closing * 2 / (density[:, None] + density)
        slope = -20 * q * rest**3 * (1 - alone)
        push = -((water.scale / reach * slope * (own[:, None] + own + friction))[..., None] * along).sum(1)
        return v + water.dt * (push - jnp.array([0, 0, 9.81]))

    after = water.step((x, v))[0][1]
    np.testing.assert_allclose(after, by_pairs(x), rtol=1e-3, atol=2e-3)
    slope = jax.jit(jax.grad(lambda x: (water.step((x, v))[0][1] ** 2).sum()))(x)
    expected = jax.grad(lambda x: (by_pairs(x) ** 2).sum())(x)
    np.testing.assert_allclose(slope, expected, rtol=1e-2, atol=1e-2 * float(jnp.abs(expected).max()))


@needs_all
def test_a_shape_is_found_from_its_picture(examples, tmp_path):
    found = examples("render_mesh").main(quick=True, out=tmp_path / "mesh.png")
    assert (tmp_path / "mesh.png").read_bytes().startswith(b"\x89PNG")
    assert found.losses[-1] < 0.15 * found.losses[0]
    first, last = (np.linalg.norm(found.scenes[k].place - found.wanted.place) for k in (0, -1))
    assert last < 0.95 * first
