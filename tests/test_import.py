"""`import jwarp` imports little, and the first use of a public name the rest."""

from __future__ import annotations

import pickle
import types

import jax
from fresh_python import run

import jwarp as wp


def test_little_is_imported_before_a_name_is_used():
    said = run(
        """
        import sys, jax
        before = set(sys.modules)
        import jwarp
        first = {name for name in sys.modules if name not in before}
        assert not hasattr(jwarp, "ir") and not hasattr(jwarp, "_nothing") and not hasattr(jwarp, "__wrapped__")
        assert jwarp.config.bounds == "safe" and issubclass(jwarp.LaunchError, Exception)
        assert jwarp.types.array.__name__ == "array" and "jwarp.public" not in sys.modules
        namespace = {}
        exec("from jwarp import *", namespace)
        assert namespace["launch"] is jwarp.launch and namespace["bool"] is jwarp.bool
        print(len(first), "llvmlite" in first, any(name.startswith("jwarp.frontend") for name in first))
        """
    )
    count, *heavy = said.split()
    assert int(count) < 60 and heavy == ["False", "False"]


@wp.kernel
def double(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def test_an_exported_launch_runs_after_a_bare_import(tmp_path):
    path = tmp_path / "exported"
    exported = jax.export.export(jax.jit(wp.jax_kernel(double)), disabled_checks=wp.EXPORT_CHECKS)
    path.write_bytes(exported(jax.ShapeDtypeStruct((4,), "float32")).serialize())
    said = run(
        """
        import sys, jax, jax.numpy as jnp, jwarp
        (y,) = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read())).call(jnp.arange(4.0))
        print(y.tolist(), "jwarp.public" in sys.modules)
        """,
        path,
        JWARP_CACHE_DIR="",
    )
    assert said == "[0.0, 2.0, 4.0, 6.0] False\n"


def test_all_names_are_listed_and_pickled():
    listed = set(wp.__all__)
    assert {"launch", "kernel", "vec3", "sin", "optim", "config", "PI"} <= listed <= set(dir(wp))
    assert not any(name.startswith("_") for name in listed)
    modules = {name for name in listed if isinstance(getattr(wp, name), types.ModuleType)}
    assert modules == {"device", "optim", "sparse", "types", "utils"}
    assert all(pickle.loads(pickle.dumps(value)) is value for value in (wp.launch, wp.vec3, wp.float32, wp.Tape))
