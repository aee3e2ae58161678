"""The numbers that describe kernels and launches to the native module, written down once for all tests."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

FORMAT = 2
MAX_DIMS = 4
# The steps of a formula; a constant and a variable are followed by a number.
CONSTANT, VARIABLE, ADD, MULTIPLY, FLOORDIV, MOD, MAX, MIN = range(8)
# What a parameter holds before the first thread runs: an operand that is only read, zeros, or its operand's content.
INPUT, ZEROS, IN_OUT = 0, 1, 2
# Codes of dtypes, kinds of parameters, and how threads cover an output.
PRED, S32, F32, F64, U64 = 1, 4, 11, 12, 9
SCALAR, ARRAY = 0, 1
UNKNOWN, STORED, OWN = 0, 1, 2


def make_launch(
    dims: Sequence[int],
    bindings: Sequence[tuple[int, int, int, int]],
    batch: Sequence[int] = (),
    repeat: int = 1,
    variables: int = 0,
    formulas: Sequence[Sequence[Sequence[int]]] = (),
) -> np.ndarray:
    """A launch; a binding is (operand or -1, result or -1, initial content, mask of batch axes), one per parameter.

    A formula is a list of steps. Dims, repeat and batch extents below 0 are -1 minus the number of one.
    """
    padded = (*dims, *[1] * (MAX_DIMS - len(dims)))
    numbers = [FORMAT, variables, len(formulas)]
    for formula in formulas:
        numbers += [len(formula), *itertools.chain(*formula)]
    numbers += [*padded, repeat, len(batch), *batch, len(bindings), *itertools.chain(*bindings)]
    return np.array(numbers, np.int64)


def make_plan(
    tid_dims: int,
    parameters: Sequence[tuple[int, int, int, int]],
    clauses: Sequence[Sequence[tuple[dict[int, int], int]]] = (),
    sums: Sequence[int] = (),
    weight: int = 1,
    column_unit: int = 64,
) -> np.ndarray:
    """A plan of parameters (kind, rank, dtype, cover) and alternatives ({symbol: coefficient}, constant).

    `sums` are the parameters that are only added to, and `column_unit` the columns that stay together.
    """
    flagged = [(*parameter, int(p in sums)) for p, parameter in enumerate(parameters)]
    numbers = [3, tid_dims, weight, column_unit, len(parameters), *itertools.chain(*flagged), len(clauses)]
    for clause in clauses:
        numbers.append(len(clause))
        for terms, constant in clause:
            numbers += [len(terms), *itertools.chain(*terms.items()), constant]
    return np.array(numbers, np.int64)
