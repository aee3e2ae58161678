"""The smoke that the example finds from pictures is the smoke that was there."""

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
def example():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("smoke_tomography")
    finally:
        sys.path.remove(str(EXAMPLES))


@needs_all
def test_the_smoke_is_found(example, tmp_path):
    losses, likeness = example.main(quick=True, out=tmp_path / "smoke.png")
    assert (tmp_path / "smoke.png").read_bytes().startswith(b"\x89PNG")
    assert losses[-1] < 0.01 * losses[0] and likeness > 0.85


def test_light_through_a_slab_and_its_gradient(example):
    """Rays along x through smoke of one density lose the same share for each voxel that they cross."""
    voxel = 2.0 / 8
    volume, cameras = example.room_for_smoke(8), example.cameras_around(views=1, pixels=3)
    places = example.places_of(volume, voxel)
    slab = jnp.asarray(np.abs(places[:, 0]) < 0.6, jnp.float32)
    see = lambda roots: cameras.see(example.with_density(volume, roots), voxel)[0, 1, 1]  # noqa: E731
    assert abs(float(-jnp.log(see(slab))) - 5 * voxel) < 0.05
    by = jax.grad(see)(slab * 0.5)
    assert by.shape == slab.shape and float(by.min()) < -1e-2 and float(by.max()) <= 0.0
    change = 0.01 * slab
    moved = (float(see(slab * 0.5 + change)) - float(see(slab * 0.5 - change))) / 2
    np.testing.assert_allclose(jnp.vdot(by, change), moved, rtol=1e-2)
