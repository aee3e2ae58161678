"""The wire format of launches and kernels for the native module: numbers in a fixed order, their codes, and structs.

`cuda/runtime` has the other half. The native module tells its numbers, and a test compares them with these. The fields
of a launch and of a plan have the names by which the native module complains of damage. Nothing of the package is
imported here, so that tests may use it in processes without JAX.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

LAUNCH_FORMAT = 2
PLAN_FORMAT = 5

# The codes of dtypes are those of XLA.
DTYPES = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8,
    "uint64": 9, "float16": 10, "float32": 11, "float64": 12, "bfloat16": 16,
}  # fmt: skip

Field = tuple[str, int]

# -- launches


class Step(enum.IntEnum):
    """A step of a formula, which is a program for a stack of integers; the first two are followed by a number."""

    CONSTANT = 0
    VARIABLE = 1
    ADD = 2
    MULTIPLY = 3
    FLOORDIV = 4
    MOD = 5
    MAX = 6
    MIN = 7


class Role(enum.IntEnum):
    """The role of a parameter in a launch."""

    READ = 0
    ZEROS = 1  # a result that starts as zeros
    IN_OUT = 2  # a result that starts as its operand's content


Formula = Sequence[Sequence[int]]  # steps, each with the number that follows it


class Binding(NamedTuple):
    """Where a launch finds a parameter.

    `operand` and `result` are numbers of those, or -1; bit k of `mask` says that it has batch axis k.
    """

    operand: int
    result: int
    role: int
    mask: int


def encode_launch(
    dims: Sequence[int],
    bindings: Iterable[Sequence[int]],
    batch: Sequence[int] = (),
    repeat: int = 1,
    variables: int = 0,
    formulas: Sequence[Formula] = (),
) -> np.ndarray:
    """A launch as int64 numbers, with a `Binding` for each parameter of its kernel.

    Of dims, repeat and batch extents, those below 0 are -1 minus the number of a formula.
    """
    return _numbers(launch_fields(dims, bindings, batch, repeat, variables, formulas))


def launch_fields(
    dims: Sequence[int],
    bindings: Iterable[Sequence[int]],
    batch: Sequence[int],
    repeat: int,
    variables: int,
    formulas: Sequence[Formula],
) -> Iterator[Field]:
    """The fields of a launch in their order."""
    yield "the format", LAUNCH_FORMAT
    yield "the number of variables", variables
    yield "the number of formulas", len(formulas)
    for formula in formulas:
        yield "the number of steps of a formula", len(formula)
        for step, *number in formula:
            yield "a step of a formula", step
            for given in number:
                yield "a constant" if step == Step.CONSTANT else "a variable", given
    for dim in dims:
        yield "a launch dimension", dim
    yield "the repeat count", repeat
    yield "the number of batch axes", len(batch)
    for extent in batch:
        yield "a batch extent", extent
    bound = tuple(bindings)
    yield "the number of parameters", len(bound)
    for operand, result, role, mask in bound:
        yield "an operand index", operand
        yield "a result index", result
        yield "a role", role
        yield "a batch mask", mask


# -- plans: what launches must know of a kernel


class Cover(enum.IntEnum):
    """The common pattern of all accesses to a parameter."""

    UNKNOWN = 0
    STORED = 1  # every thread stores to the element of its own coordinates, and nothing else happens
    OWN = 2  # every access is to the element of the thread's own coordinates


class Parameter(NamedTuple):
    """A parameter of a kernel; `rank` is 0 for a scalar, and of an array that `is_sum` threads only add to elements.

    The elements of a sum are kept `apart` by the first coordinate of threads for 1, not by it for 0, and for more where
    the last dimension is no longer than that.
    """

    is_array: bool
    rank: int
    dtype: int
    cover: int
    is_sum: bool
    apart: int = 0


class Alternative(NamedTuple):
    """Holds if `constant` and `coefficient * symbol` for all `terms` of symbol and coefficient add up to 0 or more."""

    terms: Sequence[tuple[int, int]]
    constant: int


Clause = Sequence[Alternative]  # holds if one of them does


def encode_plan(
    tid_dims: int,
    parameters: Iterable[Parameter],
    clauses: Sequence[Clause],
    weight: int,
    column_group: int,
    ordered: bool = False,
) -> np.ndarray:
    """A plan as int64 numbers.

    `clauses` are what the fast version relies on, `weight` estimates a thread's work in tenths of a nanosecond, a
    row of threads is only split at multiples of `column_group`, and those of a batch element run one after the other if
    they are `ordered`.
    """
    return _numbers(plan_fields(tid_dims, parameters, clauses, weight, column_group, ordered))


def plan_fields(
    tid_dims: int,
    parameters: Iterable[Parameter],
    clauses: Sequence[Clause],
    weight: int,
    column_group: int,
    ordered: bool,
) -> Iterator[Field]:
    """The fields of a plan in their order."""
    yield "the format", PLAN_FORMAT
    yield "the number of thread dimensions", tid_dims
    yield "the weight of a thread", weight
    yield "the columns that stay together", column_group
    yield "whether threads run in order", int(ordered)
    listed = tuple(parameters)
    yield "the number of parameters", len(listed)
    for parameter in listed:
        yield "the kind of a parameter", int(parameter.is_array)
        yield "the rank of a parameter", parameter.rank
        yield "the dtype of a parameter", parameter.dtype
        yield "the cover of a parameter", parameter.cover
        yield "whether a parameter is a sum", int(parameter.is_sum)
        yield "how the elements of a sum are told apart", parameter.apart
    yield "the number of clauses", len(clauses)
    for clause in clauses:
        yield "the number of alternatives", len(clause)
        for terms, constant in clause:
            yield "the number of terms", len(terms)
            for symbol, coefficient in terms:
                yield "a symbol", symbol
                yield "a coefficient", coefficient
            yield "a constant", constant


def _numbers(fields: Iterable[Field]) -> np.ndarray:
    return np.array([number for _, number in fields], np.int64)


# -- texts


def escape(text: str) -> str:
    """A text without a zero character, which would end it."""
    return text.replace("\0", "\\0")


def join_texts(texts: Iterable[str]) -> str:
    """Several texts as one attribute of a custom call."""
    return "\0".join(map(escape, texts))


# -- structs: what a compiled kernel is called with on the CPU. Members and their types in LLVM, each of 8 bytes.

FRAME = (
    ("operands", "ptr"),  # one pointer for each parameter
    ("symbols", "ptr"),
    ("row_begin", "i64"),
    ("row_end", "i64"),
    ("column_begin", "i64"),
    ("column_end", "i64"),
    ("fill", "i64"),
    ("first_thread", "i64"),
    ("tapes", "ptr"),
    ("failed_site", "i64"),
    ("failed_row", "i64"),
    ("failed_column", "i64"),
)
TAPE = (("data", "ptr"), ("top", "i64"), ("capacity", "i64"))
TAPES = (("grow", "ptr"), ("failed", "i64"))  # a tape for records follows, and then those for logs
MAX_LOGS = 64


def offsets(struct: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Where the members of a struct are, in bytes."""
    return {name: 8 * k for k, (name, _) in enumerate(struct)}


def type_of(struct: Sequence[tuple[str, str]]) -> str:
    """A struct as a type of LLVM."""
    return f"{{ {', '.join(kind for _, kind in struct)} }}"
