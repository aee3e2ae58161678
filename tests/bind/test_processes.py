"""Launches across processes: exports, the persistent cache, and the order of imports and backends."""

import pickle

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from fresh_python import run
from jax.experimental import serialize_executable
from launch_kernels import accumulate, scale
from numpy.testing import assert_array_equal

import jwarp as wp


def work(x):
    y = jax.vmap(lambda row: wp.launch(scale, 4, [row, 3.0], [4])[0])(x)
    return wp.launch(accumulate, 4, [y[0]], [y[1]])[0]


def test_an_export_runs_in_a_process_that_only_imports_jwarp(tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export needs it to serialise")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    exported = jax.export.export(jax.jit(work), disabled_checks=wp.EXPORT_CHECKS)(x)
    path = tmp_path / "work.bin"
    path.write_bytes(exported.serialize())
    printed = run(
        """
        import sys, pathlib, numpy, jax, jax.export, jwarp
        work = jax.export.deserialize(bytearray(pathlib.Path(sys.argv[1]).read_bytes()))
        print(*work.call(numpy.arange(8, dtype=numpy.float32).reshape(2, 4)))
        """,
        path,
    )
    assert_array_equal(np.array(printed.split(), np.float32), 3 * (x[0] + x[1]))


def energy(x, k):
    """A scan of launches with a gradient that needs them all, and a batched launch."""

    def step(c, _):
        return wp.launch(accumulate, 4, [c * k], [c])[0], None

    y, _ = jax.lax.scan(step, x, length=3)
    rows = jax.vmap(lambda a: wp.launch(scale, 4, [y, a], [4])[0])(jnp.arange(3.0))
    return (rows**2).sum()


LOAD = """
import sys, pathlib, pickle, numpy, jax, jax.export, jax.numpy as jnp
from jax.experimental import serialize_executable
import jwarp as wp
from launch_kernels import advance, increment

# This process has kernels of its own, whose compiled code must not be taken for that of the file.
wp.launch(increment, 4, {"x": jnp.ones(4)}, {"y": 4})
jax.grad(lambda x: wp.launch(advance, 4, [x, jnp.ones(4), 0.1, jnp.ones(4)])["energy"].sum())(jnp.ones(4))
folder = pathlib.Path(sys.argv[1])
x, k = numpy.arange(4, dtype=numpy.float32), numpy.float32(0.5)
exported = jax.export.deserialize(bytearray((folder / "export").read_bytes()))
print(float(exported.call(x, k)))
dx, dk = jax.jit(jax.grad(exported.call, argnums=(0, 1)))(x, k)
print(*dx, dk)
loaded = serialize_executable.deserialize_and_load(*pickle.loads((folder / "executable").read_bytes()))
print(*loaded(x, k)[0], loaded(x, k)[1])
"""


def test_exports_differentiate_and_executables_load_in_a_process_with_other_kernels(tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export needs it to serialise")
    x, k = np.arange(4, dtype=np.float32), np.float32(0.5)
    exported = jax.export.export(jax.jit(energy), disabled_checks=wp.EXPORT_CHECKS)(x, k)
    (tmp_path / "export").write_bytes(exported.serialize(vjp_order=1))
    compiled = jax.jit(jax.grad(energy, argnums=(0, 1))).lower(x, k).compile()
    (tmp_path / "executable").write_bytes(pickle.dumps(serialize_executable.serialize(compiled)))
    value, gradient, executed = run(LOAD, tmp_path).splitlines()
    # y = (1 + k)^3 x, and the rows are 0, 1 and 2 times y.
    growth, square = 1.5**3, float((x**2).sum())
    expected = np.array([*(10 * growth**2 * x), 5 * square * 2 * growth * 3 * 1.5**2])
    np.testing.assert_allclose(float(value), 5 * growth**2 * square, rtol=1e-6)
    for found in (gradient, executed):
        np.testing.assert_allclose(np.array(found.split(), float), expected, rtol=1e-6)
    dx, dk = compiled(x, k)
    np.testing.assert_allclose([*dx, dk], expected, rtol=1e-6)


def test_an_export_names_what_it_needs():
    with pytest.raises(ValueError, match="jwarp_launch_v1"):
        jax.export.export(jax.jit(work))(np.zeros((2, 4), np.float32)).serialize()


PROGRAM = """
import sys, jax, jax.numpy as jnp
{before}
import jwarp as wp
{after}
from launch_kernels import scale
print(*jax.jit(wp.jax_kernel(scale))(jnp.arange(4.0), 2.0)[0])
"""


@pytest.mark.parametrize(("before", "after"), [("jax.devices()", ""), ("", "jax.devices()")])
def test_the_backend_may_start_before_or_after_the_import(before, after):
    """That it may start with the first launch is in the test of the persistent cache."""
    printed = run(PROGRAM.format(before=before, after=after))
    assert printed.split() == ["0.0", "2.0", "4.0", "6.0"]


def test_the_persistent_cache_serves_a_fresh_process(tmp_path):
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    count = """
import jax
import jax.export
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name.endswith("/cache_hits")))
"""
    gradient = "print(*jax.jit(jax.grad(lambda x: (wp.jax_kernel(scale)(x, 2.0)[0] ** 2).sum()))(jnp.arange(4.0)))"
    program = count + PROGRAM.format(before="", after="") + gradient + "\nprint(sum(hits))"
    *values, hits = run(program, **settings).split()
    *cached, cached_hits = run(program, **settings).split()
    assert values == cached == ["0.0", "2.0", "4.0", "6.0", "0.0", "8.0", "16.0", "24.0"]
    assert int(hits) < int(cached_hits)
