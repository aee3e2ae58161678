"""Debug mode refuses none of the kernels that are right, and changes what they compute by rounding at most."""

import types

import composite_expressions as table
import jax.numpy as jnp
import numpy as np
import pytest
import warp_parity_kernels

import jwarp as wp

KERNELS = [value for value in vars(warp_parity_kernels).values() if isinstance(value, wp.Kernel)]
N, ROWS = 64, 20


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_shared_kernels(kernel):
    rng = np.random.default_rng(21)
    integers = [rng.integers(1, 100, N).astype(np.int32) * rng.choice([-1, 1], N).astype(np.int32) for _ in range(2)]
    floats = [rng.uniform(0.5, 20, N).astype(np.float32) * rng.choice([-1, 1], N).astype(np.float32) for _ in range(2)]
    plain = wp.launch(kernel, N, [*integers, *floats], [(ROWS, N), (ROWS, N)])
    for setting in ({"debug": True}, {"bounds": "error"}):
        with wp.config(**setting):
            checked = wp.launch(kernel, N, [*integers, *floats], [(ROWS, N), (ROWS, N)])
        # Products that are looked at are rounded before they are added to something.
        tolerance = 1e-6 if setting.get("debug") else 0
        for one, other in zip(plain, checked, strict=True):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=0)


@pytest.fixture(scope="module")
def composites(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "composites.py"
    path.write_text(table.module("float32", own=True))
    module = types.ModuleType("composites")
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module


@pytest.mark.parametrize("kind", [kind for kind in table.ELEMENTS if kind != "int"])  # which makes NaNs on purpose
def test_vectors_and_matrices(composites, kind):
    rows, given = table.expressions("float32", own=True)[kind], table.inputs("float32", seed=6, outside=False)
    given = [*given[:-1], np.abs(given[-1]) % 3]  # debug mode refuses an index outside
    kernel = getattr(composites, f"{kind}_rows")
    shape = (len(rows), table.THREADS, *table.ELEMENTS[kind])
    arrays = [jnp.asarray(x) for x in given]
    (plain,) = wp.launch(kernel, table.THREADS, arrays, [shape])
    with wp.config(debug=True):
        (checked,) = wp.launch(kernel, table.THREADS, arrays, [shape])
    np.testing.assert_allclose(checked, plain, rtol=1e-6, atol=1e-6)
