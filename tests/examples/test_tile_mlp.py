"""The network of the tile example computes what JAX does, learns, and has only the products that it needs."""

import importlib
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("optax")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def tile_mlp():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("tile_mlp")
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def result(tile_mlp, tmp_path_factory):
    out = tmp_path_factory.mktemp("mlp") / "tile_mlp.png"
    return tile_mlp.main(quick=True, out=out), out


def test_it_learns_and_draws(result):
    trained, out = result
    assert trained.losses[-1] < 0.1 * trained.losses[0]
    assert out.stat().st_size > 10_000


def test_loss_and_gradients_are_those_of_jax(tile_mlp):
    picture = tile_mlp.photograph(25)
    weights = {name: x + 0.1 for name, x in tile_mlp.initial_weights(4).items()}

    def reference(weights):
        h = picture.features
        for layer in "12":
            h = jax.nn.relu(h @ weights["w" + layer] + weights["b" + layer])
        return jnp.mean((h @ weights["w3"] + weights["b3"] - picture.colours) ** 2)

    value, gradient = jax.value_and_grad(tile_mlp.loss)(weights, picture)
    expected = jax.jit(jax.value_and_grad(reference))(weights)
    np.testing.assert_allclose(value, expected[0], rtol=1e-4)
    for name, found in gradient.items():
        scale = float(jnp.abs(expected[1][name]).max())
        np.testing.assert_allclose(found, expected[1][name], rtol=1e-3, atol=1e-4 * scale)


def test_products_for_gradients_come_only_with_gradients(result):
    trained, _ = result
    forward, whole = ({e.variant for e in events} for events in (trained.forward, trained.adjoint))
    assert any(v.startswith("tile_matmul[") for v in forward)
    assert not any(" nt " in v or " tn " in v for v in forward)
    assert any(" nt " in v for v in whole) and any(" tn " in v for v in whole)
