"""The example of a learned potential runs, learns, and its forces are those of its energies."""

import importlib
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzz_profiles import needs_all

pytest.importorskip("equinox")
pytest.importorskip("matplotlib")
pytest.importorskip("optax")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("learned_potential")
    finally:
        sys.path.remove(str(EXAMPLES))


def test_forces_are_those_of_the_energy_of_all_pairs(example):
    x, _, near = example.melt(3)
    net = example.Net(*example.START)

    def energy(x):
        d = x[:, None] - x[None]
        d = d - example.BOX * jnp.round(d / example.BOX)
        r = jnp.sqrt(jnp.sum(d * d, -1) + jnp.eye(len(x)))
        pairs = jax.vmap(jax.vmap(lambda r: example.lennard_jones(r) + example.learned(r, net)))(r)
        return 0.5 * jnp.sum(jnp.where((r < example.CUTOFF) & (jnp.eye(len(x)) == 0), pairs, 0.0))

    np.testing.assert_allclose(example.modelled(x, near, net), -jax.grad(energy)(x), rtol=1e-3, atol=1e-3)


@needs_all
def test_a_short_training_learns_and_draws(example, tmp_path):
    losses, alone, helped = example.main(quick=True, out=tmp_path / "learned.png")
    assert losses[-1] < 0.9 * losses[0]
    assert helped[-1] < alone[-1]
    assert (tmp_path / "learned.png").read_bytes().startswith(b"\x89PNG")
