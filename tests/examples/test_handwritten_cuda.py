"""The example of handwritten CUDA agrees with JAX, compiles for GPUs, learns and draws."""

import importlib
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzz_profiles import needs_all

import jwarp as wp
from jwarp.backend.cuda import nvrtc

pytest.importorskip("matplotlib")
pytest.importorskip("optax")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("handwritten_cuda")
    finally:
        sys.path.remove(str(EXAMPLES))


@needs_all
def test_the_whole_example(example, tmp_path):
    errors, resources, found = example.main(quick=True, out=tmp_path / "picture.png")
    assert errors.loss < 1e-6 and errors.gradient < 1e-6
    assert np.all(found.losses[:, -1] < 0.7 * found.losses[:, 0])
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    if nvrtc.missing() is None:
        assert set(resources) == {"softmax_cross_entropy<float>", "softmax_cross_entropy_adjoint<float>"}
        lines = [line.split() for text in resources.values() for line in text.splitlines()]
        assert [line[0] for line in lines] == [*nvrtc.DEFAULT_ARCHITECTURES] * 2
        # bytes, registers, bytes of registers that are spilled
        assert all(1000 < int(line[1]) < 50_000 and 8 < int(line[3]) < 64 and line[5] == "0" for line in lines)


def test_the_gradient_of_both_results(example):
    random = np.random.default_rng(3)
    logits = jnp.asarray(random.normal(size=(6, 5)), jnp.float32)
    labels = jnp.asarray(random.integers(0, 5, 6), jnp.int32)

    def loss(compute):
        def value(logits):
            losses, log_sums = compute(logits)
            return (losses**2).sum() + jnp.sin(log_sums).sum()

        return jax.grad(value)

    def launched(logits):
        return wp.launch(example.kernel, 6, [logits, labels], [6, 6])

    expected = loss(lambda x: example.losses_on_cpu(x, labels))(logits)
    np.testing.assert_allclose(loss(launched)(logits), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
def test_eight_networks_take_two_launches(example):
    places, arms = example.spiral(example.ARMS, 50)

    def loss(layers):
        return example.cross_entropy(example.logits_of(layers, places), arms).mean()

    layers = jax.vmap(example.network)(jax.random.split(jax.random.key(0), 8))
    with wp.config(cuda_arch="sm_90"):
        step = jax.jit(jax.vmap(jax.value_and_grad(loss)))
        text = step.trace(layers).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("@jwarp_cuda_v1") == 2
