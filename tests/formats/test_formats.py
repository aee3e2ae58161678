"""Files that earlier versions wrote are read by this one, and compute the same."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from fresh_python import run

import jwarp as wp

pytest.importorskip("flatbuffers")

FOLDERS = sorted(Path(__file__).parent.glob("v*"))
EXPORTS = [path for folder in FOLDERS for path in sorted(folder.glob("*.export"))]
DESCRIPTORS = [path for folder in FOLDERS for path in sorted(folder.glob("*.descriptor"))]
KINDS = {"stencil", "symbolic", "batch", "adjoint", "second_order", "loop", "sums", "random", "struct", "matrices"}
KINDS |= {"tiles", "native", "mesh", "grid", "sparse"}


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def close(got, want):
    """The same but for the order of sums, which goes by the processor's vectors."""
    np.testing.assert_allclose(np.asarray(got), want, rtol=2e-5, atol=2e-6)


def numbered(values, letter: str) -> dict[int, np.ndarray]:
    found = {int(m[1]): values[m[0]] for name in values if (m := re.fullmatch(rf"{letter}(\d+)", name))}
    return dict(sorted(found.items()))


def test_every_version_left_all_kinds():
    assert FOLDERS
    for folder in FOLDERS:
        assert {path.stem for path in folder.glob("*.export")} >= KINDS
        assert len(list(folder.glob("*.descriptor"))) >= 2


@pytest.mark.parametrize("path", EXPORTS, ids=name_of)
def test_an_export_of_an_earlier_version_runs(path):
    loaded = jax.export.deserialize(bytearray(path.read_bytes()))
    with np.load(path.with_suffix(".npz")) as values:
        arguments = [jnp.asarray(a) for a in numbered(values, "a").values()]
        results = jax.tree.leaves(loaded.call(*arguments))
        wanted = list(numbered(values, "r").values())
        assert len(results) == len(wanted) > 0
        for got, want in zip(results, wanted, strict=True):
            assert np.abs(want).max() > 0
            close(got, want)
        by = numbered(values, "g")
        assert by or path.stem == "second_order"  # exported without a derivative
        if by:
            total = lambda *arguments: sum(leaf.sum() for leaf in jax.tree.leaves(loaded.call(*arguments)))  # noqa: E731
            gradients = jax.jit(jax.grad(total, argnums=tuple(by)))(*arguments)
            for got, want in zip(gradients, by.values(), strict=True):
                close(got, want)


@pytest.mark.parametrize("path", DESCRIPTORS, ids=name_of)
def test_a_descriptor_of_an_earlier_version_is_read(path):
    data = path.read_bytes()
    descriptor = wp.LaunchDescriptor.from_bytes(data)
    assert descriptor.kernel == "snippet" and descriptor.dims == (8,)
    assert descriptor.variant.startswith("adjoint" if path.stem.startswith("adjoint") else "forward")
    assert wp.LaunchDescriptor.from_bytes(descriptor.to_bytes()) == descriptor


CHANGED = """
    import jax, jax.export, jax.numpy as jnp
    import jwarp
    from jwarp.ir import serialize

    serialize.FORMAT += 1
    loaded = jax.export.deserialize(bytearray(open(FILE, "rb").read()))
    try:
        loaded.call(jnp.ones(11))
    except jax.errors.JaxRuntimeError as error:
        print("another version of jwarp: this one reads" in str(error))
    serialize.UPGRADES[serialize.FORMAT - 1] = lambda whole: whole
    print(float(abs(loaded.call(jnp.full(11, 4.0)) - 2.0).max()) < 1e-5)
"""


def test_a_file_runs_after_a_change_of_the_format():
    """The fingerprint that it claims is that of the earlier format; the kernel has another one now."""
    assert run(CHANGED.replace("FILE", repr(str(FOLDERS[0] / "loop.export")))) == "True\nTrue\n"
