"""Activity takes time linear in the kernel, however deep its branches are."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

pytestmark = pytest.mark.quick

RETURNS = 40


def test_many_early_returns_have_gradients(tmp_path):
    lines = ["import jwarp as wp", "@wp.kernel", "def walk(x: wp.array[float], y: wp.array[float]):"]
    lines += ["    i = wp.tid()", "    v = x[i]"]
    for k in range(RETURNS):
        lines += [f"    if v > {k + 1}.0:", "        return", "    v = v * 1.01"]
    lines += ["    y[i] = v"]
    path = tmp_path / "walks.py"
    path.write_text("\n".join(lines))
    specification = importlib.util.spec_from_file_location("walks", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    walk = wp.jax_kernel(module.walk)
    x = jnp.asarray(np.random.default_rng(3).uniform(0.1, 2.0, 50), jnp.float32)
    (y,) = walk(x)
    gradient = jax.grad(lambda x: walk(x)[0].sum())(x)
    assert 0 < np.count_nonzero(y) < x.size
    np.testing.assert_allclose(gradient, np.where(np.asarray(y) != 0, 1.01**RETURNS, 0.0), rtol=1e-4)
