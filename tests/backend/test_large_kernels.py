"""Kernels of very many operations compile, and in a time that grows with their size."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp


@wp.kernel
def nest(x: wp.array[float], y: wp.array2d[float]):
    i = wp.tid()
    for a in range(12):
        for b in range(12):
            for c in range(12):
                y[i, c] = y[i, c] + x[a] * x[b]


def test_nested_loops_that_could_all_be_unrolled():
    x = np.arange(12, dtype=np.float32)
    (y,) = wp.launch(nest, 8, [x], [(8, 12)])
    np.testing.assert_array_equal(y, x.sum() ** 2)


@pytest.mark.parametrize("count", [100, 1000])
def test_a_long_chain_through_memory(tmp_path, count):
    """Such chains once made a pass of LLVM end the process."""
    file = tmp_path / "chain.py"
    body = "    y[i] = y[i] + x[i]\n" * count
    file.write_text(
        f"import jwarp as wp\n@wp.kernel\ndef chain(x: wp.array[float], y: wp.array[float]):\n    i = wp.tid()\n{body}"
    )
    names: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    (y,) = wp.launch(names["chain"], 3, [jnp.array([1.0, 2.0, -1.0])], [3])
    np.testing.assert_array_equal(y, np.array([1.0, 2.0, -1.0]) * count)
