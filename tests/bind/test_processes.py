"""Launches across processes: exports, the persistent cache, and the order of imports and backends."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.export
import numpy as np
import pytest
from launch_kernels import accumulate, scale
from numpy.testing import assert_array_equal

import jwarp as wp


def run(code, *args, **environment):
    """Run `code` in a fresh Python; its standard output."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


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


PROGRAM = """
import sys, jax, jax.numpy as jnp
{before}
import jwarp as wp
{after}
sys.path.insert(0, sys.argv[1])
from launch_kernels import scale
print(*jax.jit(wp.jax_kernel(scale))(jnp.arange(4.0), 2.0)[0])
"""


@pytest.mark.parametrize(("before", "after"), [("jax.devices()", ""), ("", "jax.devices()"), ("", "")])
def test_the_backend_may_start_before_or_after_the_import(before, after):
    printed = run(PROGRAM.format(before=before, after=after), os.path.dirname(__file__))
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
    program = count + PROGRAM.format(before="", after="") + "\nprint(sum(hits))"
    *values, hits = run(program, os.path.dirname(__file__), **settings).split()
    *cached, cached_hits = run(program, os.path.dirname(__file__), **settings).split()
    assert values == cached == ["0.0", "2.0", "4.0", "6.0"]
    assert int(hits) < int(cached_hits)
