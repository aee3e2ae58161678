"""Launches and plans as tests write them, and the words that a kernel for CUDA is given."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np


def _load_wire() -> ModuleType:
    """The module without the package around it: tests with a driver of their own run in processes without JAX."""
    package = importlib.util.find_spec("jwarp")
    assert package is not None and package.origin is not None
    spec = importlib.util.spec_from_file_location("wire", Path(package.origin).parent / "wire.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


wire = _load_wire()
# Plain numbers, as tests pass them to processes of their own in Python.
CONSTANT, VARIABLE, ADD, MULTIPLY, FLOORDIV, MOD, MAX, MIN = map(int, wire.Step)
INPUT, ZEROS, IN_OUT = map(int, wire.Role)
UNKNOWN, STORED, OWN = map(int, wire.Cover)
PRED, S32, S64, F32, F64, U64 = (wire.DTYPES[n] for n in ("bool", "int32", "int64", "float32", "float64", "uint64"))
SCALAR, ARRAY = False, True
MAX_DIMS = 4
COLUMN_GROUP = 64

# Where the words of a launch on a GPU are, each of 8 bytes. After the symbols come a pointer for each parameter, and
# its strides along each batch axis.
WORDS = {"total": 0, "items": 1, "threads": 2, "failure": 3, "batch": 4, "symbols": 8}
BATCH_AXES = 4
SITE_BITS = 12  # of the word that a failed check is noted in; the rest is the thread


def make_launch(
    dims: Sequence[int],
    bindings: Sequence[tuple[int, int, int, int]],
    batch: Sequence[int] = (),
    repeat: int = 1,
    variables: int = 0,
    formulas: Sequence[Sequence[Sequence[int]]] = (),
) -> np.ndarray:
    """A launch; a binding is (operand or -1, result or -1, role, mask of batch axes), one for each parameter.

    A formula is a list of steps. Dims, repeat and batch extents below 0 are -1 minus the number of one.
    """
    padded = (*dims, *[1] * (MAX_DIMS - len(dims)))
    return wire.encode_launch(padded, bindings, batch, repeat, variables, formulas)


def make_plan(
    tid_dims: int,
    parameters: Sequence[tuple[bool, int, int, int]],
    clauses: Sequence[Sequence[tuple[Mapping[int, int], int]]] = (),
    sums: Sequence[int] = (),
    weight: int = 1,
    column_group: int = COLUMN_GROUP,
    apart: int = 0,
    ordered: bool = False,
) -> np.ndarray:
    """A plan of parameters (kind, rank, dtype, cover) and alternatives ({symbol: coefficient}, constant).

    `sums` are the parameters that are only added to, whose elements are kept `apart` in one way, and `column_group` the
    columns that stay together.
    """
    listed = [
        wire.Parameter(*parameter, p in sums, apart if p in sums else 0) for p, parameter in enumerate(parameters)
    ]
    alternatives = [[wire.Alternative((*terms.items(),), constant) for terms, constant in clause] for clause in clauses]
    return wire.encode_plan(tid_dims, listed, alternatives, weight, column_group, ordered)
