"""The groups of facts that rows of the table of operations have: memory, values, threads, derivatives, code."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Memory(enum.Flag):
    """The memory that operations read and write apart from their operands and result."""

    NONE = 0
    ELEMENTS = enum.auto()  # of arrays
    EXTENTS = enum.auto()  # of arrays
    TAPE = enum.auto()  # records of values, the last one first
    LOG = enum.auto()  # records of the elements of one array, the last one first
    NOTES = enum.auto()  # of the values that were found in one array, which are read again in their order
    LINES = enum.auto()  # of text


class Stage(enum.Enum):
    """The stages of the pipeline that a kernel goes through, each with operations of its own."""

    READING = "while it is read from Python"
    WRITTEN = "as it was written"
    DERIVING = "while a derivative is made of it: arrays are named by origins"
    DERIVED = "a derivative of what was written, with a tape and logs"
    TILING = "while its tiles become loops"
    LOWERED = "without tiles, as backends take it"


# Stages that operations commonly belong to.
EVERYWHERE = frozenset(Stage)
BEFORE_LOWERING = frozenset(Stage) - {Stage.LOWERED}
BEFORE_DERIVATIVES = frozenset({Stage.READING, Stage.WRITTEN, Stage.DERIVING})
FROM_DERIVATIVES = frozenset({Stage.DERIVING, Stage.DERIVED, Stage.TILING, Stage.LOWERED})


@dataclass(frozen=True)
class Uses:
    """The memory that an operation reads and writes, and that it adds a record to or takes the last one away from.

    Elements and logs are those of the array that its attribute names. One that `reads_final` finds an element as the
    launch leaves it.
    """

    reads: Memory = Memory.NONE
    writes: Memory = Memory.NONE
    adds: Memory = Memory.NONE
    takes: Memory = Memory.NONE
    reads_final: bool = False


@dataclass(frozen=True)
class Numeric:
    """The result as a function of the operands.

    One that `is_total` has, and so have its derivatives, finite values for all finite operands that are not too large.
    One `without_new_nan` is NaN only where an operand is. One that `is_step` is constant between jumps, one that
    `jumps` is not; one that `is_count` is never negative. A sum has the `signs` of its terms. One that `absorbs` a
    bool gives it where an operand is it. One with a `partner` is cheaper together with that operation of the same
    operand.
    """

    is_total: bool = False
    without_new_nan: bool = False
    is_step: bool = False
    jumps: bool = False
    is_count: bool = False
    signs: tuple[int, ...] = ()
    absorbs: bool | None = None
    partner: str = ""


@dataclass(frozen=True)
class Transfer:
    """The result as an operand, or another form of one.

    One that `chooses` gives one of the operands after the first, which says which; one that `converts` gives a number
    of another type, and one that `reinterprets` the same bits. One that `moves_bits` takes floats of every width as
    they are.
    """

    chooses: bool = False
    converts: bool = False
    reinterprets: bool = False
    moves_bits: bool = False


@dataclass(frozen=True)
class Comparison:
    """The order or equality of two operands.

    The `opposite` holds where it does not (of numbers, not of NaN), `swapped` is the comparison of swapped operands.
    """

    opposite: str = ""
    swapped: str = ""
    holds_for_equal: bool | None = None


@dataclass(frozen=True)
class Threads:
    """The results that the threads get.

    One that `differ`s gives each thread its own, and one that `is_common` the same to all that run in lockstep; one
    that `is_affinity` says that adjacent threads have about the same, and one that `is_divergence`, of the condition of
    a loop, that they leave it apart. One that `is_target` depends on the device.
    """

    differ: bool = False
    is_common: bool = False
    is_affinity: bool = False
    is_divergence: bool = False
    is_target: bool = False


@dataclass(frozen=True)
class Derivative:
    """The operation in derivatives.

    What one says that is `only` for derivatives is of them alone: otherwise it is its first operand (its last one if
    it `is_given`: what an atomic operation found), or nothing. One that `has_replay` has another value where a
    derivative runs the kernel again.
    """

    only: bool = False
    has_replay: bool = False
    is_given: bool = False


@dataclass(frozen=True)
class Code:
    """The code of an operation.

    One that `is_elementary` takes tens of instructions for each value; one that `is_composed` of others becomes these
    before code is generated; one that `is_unit` works on whole shared arrays.
    """

    is_elementary: bool = False
    is_composed: bool = False
    is_unit: bool = False


Group = Uses | Numeric | Transfer | Comparison | Threads | Derivative | Code
# The field of a row for each kind of group.
FIELDS: dict[type, str] = {
    Uses: "uses",
    Numeric: "numeric",
    Transfer: "transfer",
    Comparison: "comparison",
    Threads: "threads",
    Derivative: "derivative",
    Code: "code",
}
