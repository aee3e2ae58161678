"""Random kernels under `jax.vmap`, and their gradients inside and outside of it, against loops over the batch.

`JWARP_FUZZ=long` tries many more kernels, other ones each time; JWARP_FUZZ_SECONDS says for how long.
"""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import gradient_sources
import jax
import jax.numpy as jnp
import language_sources
import numpy as np
import pytest
from fuzz_profiles import LONG, check_seeds
from gradient_sources import INPUTS, PARAMS, arguments
from kernel_sources import load

import jwarp as wp
from jwarp.errors import KernelWarning

NAMES = tuple(PARAMS)
DIMS = {1: [(1,), (5,), (19,)], 2: [(1, 1), (2, 5), (7, 3)]}
DTYPES = {"h": np.float32, "n": np.int32, "at": np.int32}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


def close(found, expected, message: str) -> None:
    # What a batch shares of float32 is summed in it.
    accuracy = 1e-4 if np.asarray(found).dtype == np.float32 else 1e-9
    np.testing.assert_allclose(found, expected, rtol=accuracy, atol=accuracy, err_msg=message)


def check(seed: int, folder: Path) -> str:
    """One kernel with every parameter in the batch or not, along any axis; what could be compared."""
    rng = random.Random(seed)
    writer = rng.choice([gradient_sources, language_sources]).Writer(rng)
    source = writer.source()
    kernel, dims, size = load(source, folder), rng.choice(DIMS[writer.rank]), rng.choice([1, 2, 3])
    sets = [arguments(seed + b, dims, writer.own) for b in range(size)]
    axes = [rng.choice([None, 0, 0, -1, rng.randint(0, np.ndim(value))]) for value in sets[0]]
    axes[rng.randrange(len(axes))] = 0
    shared = [[sets[0][p] if axes[p] is None else given[p] for p in range(len(NAMES))] for given in sets]
    each = [[jnp.asarray(x, DTYPES.get(n, np.float64)) for n, x in zip(NAMES, one, strict=True)] for one in shared]
    batch = [each[0][p] if axis is None else jnp.stack([one[p] for one in each], axis) for p, axis in enumerate(axes)]

    def launch(*args):
        return wp.launch(kernel, dims, args)

    try:
        results = [launch(*one) for one in each]
    except wp.LaunchError as error:
        assert "is outside axis" in str(error)
        return "outside"
    mapped = jax.vmap(launch, tuple(axes))
    found = (jax.jit(mapped) if rng.random() < 0.5 else mapped)(*batch)
    for name, value in found.items():
        close(value, np.stack([r[name] for r in results]), f"{name}, {axes}\n{source}")
    weights = {n: np.random.default_rng(seed).normal(size=x.shape) for n, x in results[0].items()}

    def loss(*args):
        return sum((weights[n] * x).sum() for n, x in launch(*args).items())

    slopes = [jax.grad(loss, INPUTS)(*one) for one in each]
    inside = jax.vmap(jax.grad(loss, INPUTS), tuple(axes))
    inside = (jax.jit(inside) if rng.random() < 0.5 else inside)(*batch)
    outside = jax.grad(lambda *args: jax.vmap(loss, tuple(axes))(*args).sum(), INPUTS)(*batch)
    for k, p in enumerate(INPUTS):
        message = f"gradient by {NAMES[p]}, {axes}\n{source}"
        rows = np.stack([one[k] for one in slopes])
        close(inside[k], rows, message)
        close(outside[k], rows.sum(0) if axes[p] is None else np.stack(rows, axes[p]), message)
    return "gradients"


def quiet_check(seed: int, folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        return check(seed, folder)


@pytest.mark.skipif(LONG, reason="the long profile runs instead")
@pytest.mark.parametrize("seed", [119, 120])
def test_random_kernels(seed, tmp_path):
    assert quiet_check(seed, tmp_path) == "gradients"


@pytest.mark.skipif(not LONG, reason="JWARP_FUZZ=long is not set")
def test_many_random_kernels(tmp_path):
    check_seeds(lambda seed: quiet_check(seed, tmp_path))
