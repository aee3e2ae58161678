"""Writes the files of this version, which every later version has to read: `python tests/formats/write_formats.py`.

A released version writes them once. Each program of `stored_programs.py` has an export of `jax.export`, with its first
derivatives, and its arguments and results as NumPy arrays. Launch descriptors are stored as bytes.
"""

from __future__ import annotations

import re
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np
import stored_programs
from stored_programs import Stored, all_programs

import jwarp as wp

FOLDER = Path(__file__).parent


def main() -> None:
    folder = FOLDER / ("v" + ".".join(version_of("jwarp").split(".")[:2]))
    folder.mkdir()
    # JAX writes where each operation comes from: the paths begin at this repository.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", f"{re.escape(str(FOLDER.parent.parent))}/")
    for name, program in all_programs().items():
        (folder / f"{name}.export").write_bytes(exported(program))
        np.savez_compressed(folder / f"{name}.npz", **values(program))
    for name, record in descriptors().items():
        (folder / f"{name}.descriptor").write_bytes(record.to_bytes())


def exported(program: Stored) -> bytes:
    """The program for its shapes, with what its first derivatives need."""
    function = jax.jit(program.function)
    shapes = program.shapes or program.arguments
    return bytes(
        jax.export.export(function, disabled_checks=wp.EXPORT_CHECKS)(*shapes).serialize(vjp_order=program.order)
    )


def values(program: Stored) -> dict[str, Any]:
    """The arguments `a0`, …, the results `r0`, …, and the gradients `g0`, … of the sum of all results."""
    found = {f"a{k}": leaf for k, leaf in enumerate(program.arguments)}
    found |= {f"r{k}": leaf for k, leaf in enumerate(jax.tree.leaves(program.function(*program.arguments)))}
    if not program.order:
        return found
    wanted = differentiable(program.arguments)

    def total(*arguments: Any) -> Any:
        return sum(leaf.sum() for leaf in jax.tree.leaves(program.function(*arguments)))

    gradients = jax.jit(jax.grad(total, argnums=wanted))(*program.arguments)
    return found | {f"g{k}": gradient for k, gradient in zip(wanted, gradients, strict=True)}


def differentiable(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    """The numbers of the arguments that are real."""
    return tuple(k for k, leaf in enumerate(arguments) if np.asarray(leaf).dtype.kind == "f")


def descriptors() -> dict[str, Any]:
    """Descriptors of a launch and of its adjoint."""
    x, y, out = (np.ones(8, np.float32) for _ in range(3))
    options: Any = {"dim": 8, "inputs": [x, y, out], "record_cmd": True}
    return {
        "launch": wp.launch(stored_programs.snippet, **options).descriptor,
        "adjoint_launch": wp.launch(
            stored_programs.snippet, adjoint=True, adj_inputs=[x, y, out], **options
        ).descriptor,
    }


if __name__ == "__main__":
    main()
