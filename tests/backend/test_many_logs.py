"""An adjoint that keeps logs of more arrays than a worker has tapes for is refused; it would write beyond them."""

from __future__ import annotations

import importlib.util

import jax
import jax.numpy as jnp
import pytest

import jwarp as wp
from jwarp.wire import MAX_LOGS


def test_more_logs_than_tapes(tmp_path):
    count = MAX_LOGS + 1
    names = [f"x{k}" for k in range(count)]
    parameters = ", ".join(f"{name}: wp.array[float]" for name in names)
    lines = [f"        {name}[i] = wp.sin({name}[i]) * {name}[i - k]" for name in names]
    head = f"import jwarp as wp\n\n@wp.kernel\ndef many({parameters}):\n    i = wp.tid()\n    for k in range(2 + i):\n"
    path = tmp_path / "many_arrays.py"
    path.write_text(head + "\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location("many_arrays", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    f = wp.jax_kernel(module.many, num_outputs=count, in_out_argnames=names)
    with pytest.raises(wp.CompileError, match=f"logs of {count} arrays, at most {MAX_LOGS}"):
        jax.grad(lambda arrays: sum(out.sum() for out in f(*arrays)))([jnp.ones(4)] * count)
