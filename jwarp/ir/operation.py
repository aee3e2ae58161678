"""The row of the table of operations: the facts that are written down, and those that follow."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from jwarp.ir.attributes import (
    ArrayNumber,
    Axis,
    BlockMatmul,
    Detached,
    Extent,
    FunctionNumber,
    NativeCall,
    ParamNumber,
    Part,
    Reduction,
    Separation,
    Text,
    checker,
)
from jwarp.types import ScalarType, TileType, ValueType, bool_, scalar_of, shape_of, with_shape

Kinds = frozenset[str]
FLOAT: Kinds = frozenset({"float"})
INT: Kinds = frozenset({"int", "uint"})
NUMBER: Kinds = FLOAT | INT
BOOL: Kinds = frozenset({"bool"})
BITS: Kinds = INT | BOOL
ANY: Kinds = NUMBER | BOOL

T = TypeVar("T")
Args = tuple[ScalarType, ...]
Types = tuple[ValueType, ...]


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


def same(args: Args) -> ScalarType | None:
    """The one type that all arguments have, or None."""
    return args[0] if all(a is args[0] for a in args) else None


def to_bool(args: Args) -> ScalarType | None:
    """bool, if all arguments have one type."""
    return bool_ if same(args) else None


def selected(args: Args) -> ScalarType | None:
    """The type of the two values that a condition chooses between."""
    return args[1] if args[0] is bool_ and args[1] is args[2] else None


class fact(Generic[T]):
    """A property of a row that follows from its fields: computed once, as code asks often."""

    def __init__(self, compute: Callable[[Any], T]):
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, row: Any, owner: type) -> T:
        found = row.__dict__[self.name] = self.compute(row)
        return found


@dataclass(frozen=True)
class Operation:
    """One operation: `result` maps argument types to the result type (None: they do not fit).

    `kinds` are the scalar kinds that arguments may have. `effect` is `pure`, `tile` (pure, too, but not element by
    element), `read` (memory), `look` (at what changes while the kernel runs: it stays where it is), `write` (memory),
    `check`, `print`, `rule` or `call` (pure, of a function of the kernel).
    An operation of `result` None either has no result, or takes it from outside (`cast`,
    `load`, …), which `typed_by` then says.

    `attribute` is the type of its attribute, or None. `indices` are the operands that are indices of an element; the
    values come after them. `reads` and `writes` say what memory it looks at and changes, `adds` and `takes` of which it
    adds a record or takes the last one away: of elements and logs, those of the array that its attribute names. It may
    occur in the `stages`. With `collects`, it takes operands of several
    shapes, which it only keeps together. One that `is_unit` works on whole shared arrays.

    The result of one that `is_step` is constant between jumps, that of one that `jumps` is not; one that `is_count` is
    never negative; one that `tells_threads` gives each thread its own, and one that `is_common` the same to all that
    run in step. Lanes leave a loop apart where its condition is of one that `parts_lanes`. One that `moves_bits` takes
    floats of every width as they are. What one is `for_derivatives` says is of them alone: otherwise it is its first
    operand, or nothing.
    An atomic one (or one on an element of a tile) leaves what the operation `combines` makes of the element
    and the value, in any order of the threads. Where `arity` is None, there are operands, `least` of them.

    One that `is_composed` of others becomes these before code is generated.
    One that `chooses` gives one of the operands after the first, which says which; one that `converts` gives a number
    of another type, and one that `reinterprets` the same bits. One that `absorbs` a bool gives it where an operand is
    it. A comparison names its `opposite`, which holds where it does not (of numbers, not of NaN), and the comparison
    of `swapped` operands, and says if it `holds_for_equal` operands. One with a `partner` is cheaper together with that
    operation of the same operand. A sum has the `signs` of its terms. One that `reads_final` finds an element as the
    launch leaves it; one that `has_replay` has another value where a derivative runs the kernel again; one that
    `asks_target` depends on the device.

    `is_elementary` are those that take tens of instructions for each value. `makes_nan` says whether the
    result of a pure operation may be NaN where no operand is. Those that are `is_total` have, and so have their
    derivatives, finite values for all finite operands that are not too large.
    """

    name: str
    arity: int | None
    kinds: Kinds
    result: Callable[[Any], ValueType | None] | None
    doc: str
    effect: str = "pure"
    typed_by: str = ""
    attribute: Any = None
    indices: slice | None = None
    reads: Memory = Memory.NONE
    writes: Memory = Memory.NONE
    adds: Memory = Memory.NONE
    takes: Memory = Memory.NONE
    stages: frozenset[Stage] = EVERYWHERE
    is_elementary: bool = False
    is_total: bool = False
    makes_nan: bool = True
    collects: bool = False
    is_unit: bool = False
    is_step: bool = False
    jumps: bool = False
    is_count: bool = False
    tells_threads: bool = False
    is_common: bool = False
    parts_lanes: bool = False
    moves_bits: bool = False
    chooses: bool = False
    converts: bool = False
    reinterprets: bool = False
    reads_final: bool = False
    has_replay: bool = False
    asks_target: bool = False
    absorbs: bool | None = None
    opposite: str = ""
    swapped: str = ""
    holds_for_equal: bool | None = None
    partner: str = ""
    signs: tuple[int, ...] = ()
    for_derivatives: bool = False
    is_composed: bool = False
    combines: str = ""
    least: int = 1

    def __post_init__(self) -> None:
        if self.result is not None:
            object.__setattr__(self, "result", _mapped(self, self.result))
        object.__setattr__(self, "makes_nan", self.makes_nan and self.effect == "pure")

    # -- memory

    @fact
    def reads_elements(self) -> bool:
        """It reads elements of arrays."""
        return Memory.ELEMENTS in self.reads

    @fact
    def changes_elements(self) -> bool:
        """It changes elements of arrays."""
        return Memory.ELEMENTS in self.writes

    @fact
    def is_access(self) -> bool:
        """It accesses the element at its indices: nothing but a load, a store, or both in one."""
        return self.at_indices and (self.reads_elements or self.changes_elements) and self.adds is Memory.NONE

    @fact
    def at_indices(self) -> bool:
        """It is about the element of one array at its indices."""
        return self.indices is not None and self.attribute is ArrayNumber

    @fact
    def is_load(self) -> bool:
        """An access that only reads the element."""
        return self.is_access and not self.changes_elements

    @fact
    def is_write(self) -> bool:
        """An access that changes the element."""
        return self.is_access and self.changes_elements

    @fact
    def is_store(self) -> bool:
        """An access that only changes the element."""
        return self.is_write and not self.reads_elements

    @fact
    def is_atomic(self) -> bool:
        """An access that reads and changes the element in one step."""
        return self.is_write and self.reads_elements

    @fact
    def is_addition(self) -> bool:
        """An atomic one that adds to the element."""
        return self.is_atomic and self.combines == "add"

    @fact
    def is_exchange(self) -> bool:
        """An atomic one that leaves the value, whatever the element was."""
        return self.is_atomic and not self.combines and self.indices == slice(-1)

    @fact
    def settles(self) -> bool:
        """An atomic one that, done again with the same values, leaves the element as it is."""
        return self.is_atomic and self.combines not in ("add", "mul", "xor")

    @fact
    def is_extremum(self) -> bool:
        """It leaves the smaller or larger of two numbers."""
        return self.combines in ("min", "max")

    @fact
    def clears(self) -> bool:
        """It sets all elements of an array to zero."""
        return self.changes_elements and self.arity == 0 and self.attribute is ArrayNumber

    @fact
    def is_extent(self) -> bool:
        """It gives an extent of an array."""
        return self.attribute is Extent

    @fact
    def is_bounds_test(self) -> bool:
        """It tells if indices are those of an element."""
        return self.reads is Memory.EXTENTS and self.attribute is ArrayNumber

    @fact
    def adds_to_tape(self) -> bool:
        """It adds a record to a tape."""
        return Memory.TAPE in self.adds

    @fact
    def reads_tape(self) -> bool:
        """It reads a record of a tape."""
        return Memory.TAPE in self.reads

    @fact
    def adds_to_log(self) -> bool:
        """It adds a record to a log."""
        return Memory.LOG in self.adds

    @fact
    def reads_log(self) -> bool:
        """It tells how many records a log has."""
        return Memory.LOG in self.reads

    @fact
    def uses_tape(self) -> bool:
        """It is about a tape."""
        return Memory.TAPE in self.used

    @fact
    def uses_log(self) -> bool:
        """It is about a log."""
        return Memory.LOG in self.used

    @fact
    def uses_notes(self) -> bool:
        """It is about notes."""
        return Memory.NOTES in self.used

    @fact
    def restores(self) -> bool:
        """It takes records from the log of an array, and restores their elements."""
        return Memory.LOG in self.takes

    @fact
    def restores_until(self) -> bool:
        """It restores elements until the log has a given number of records."""
        return self.restores and self.arity == 1

    @fact
    def reads_notes(self) -> bool:
        """It gives the next value in the notes of an array."""
        return Memory.NOTES in self.writes and self.typed_by == "array"

    @fact
    def in_order(self) -> bool:
        """It happens in the order of the program: with the tape, logs and lines."""
        return bool(self.used & (Memory.LOG | Memory.TAPE | Memory.NOTES | Memory.LINES))

    @fact
    def used(self) -> Memory:
        """All memory that it has to do with."""
        return self.reads | self.writes | self.adds | self.takes

    # -- effects

    @fact
    def is_pure(self) -> bool:
        """It depends on its operands alone, and does nothing else."""
        return self.effect == "pure"

    @fact
    def is_tile(self) -> bool:
        """It is pure, but not element by element."""
        return self.effect == "tile"

    @fact
    def is_lasting(self) -> bool:
        """It is kept where nothing reads its result."""
        return self.effect in ("write", "check", "print", "rule")

    @fact
    def is_shared(self) -> bool:
        """It is run once where it is written twice."""
        return self.effect in ("pure", "tile", "read", "call")

    @fact
    def is_check(self) -> bool:
        """It ends the launch where a condition does not hold."""
        return self.effect == "check" and self.attribute is Text

    @fact
    def prints(self) -> bool:
        """It prints a line."""
        return self.effect == "print"

    @fact
    def is_call(self) -> bool:
        """It calls a function of the kernel."""
        return self.attribute is FunctionNumber

    @fact
    def is_outlined(self) -> bool:
        """It calls a function of the kernel, or takes a result of the call."""
        return self.effect == "call"

    @fact
    def is_native(self) -> bool:
        """It runs a text in C++."""
        return self.attribute is NativeCall

    @fact
    def is_part(self) -> bool:
        """It takes a result of a call: of a function of the kernel, or of native code."""
        return self.typed_by == "call"

    @fact
    def is_native_part(self) -> bool:
        """It takes a result of native code."""
        return self.is_part and not self.is_shared

    @fact
    def is_barrier(self) -> bool:
        """The threads of a block wait here for each other."""
        return self.effect == "check" and self.attribute is None

    @fact
    def is_product(self) -> bool:
        """It multiplies matrices in the memory of a block."""
        return self.attribute is BlockMatmul

    @fact
    def changes_tile(self) -> bool:
        """It gives a tile with another element, or with other elements."""
        return self.effect == "tile" and self.indices is not None and self.indices.stop is not None

    @fact
    def takes_element(self) -> bool:
        """It gives the element of a tile at indices."""
        return self.effect == "tile" and self.indices is not None and self.indices.stop is None

    @fact
    def adds_to_tile(self) -> bool:
        """It gives a tile with values added to some of its elements."""
        return self.effect == "tile" and self.combines == "add"

    @fact
    def is_reduction(self) -> bool:
        """It combines the elements of a tile along axes."""
        return self.attribute is Reduction

    @fact
    def is_element_of_thread(self) -> bool:
        """It gives each thread of a block its own element of a tile."""
        return self.effect == "tile" and self.tells_threads

    @fact
    def is_rule(self) -> bool:
        """It is a derivative that the author of a function wrote."""
        return self.effect == "rule"

    @fact
    def is_detached(self) -> bool:
        """It is a value that has no derivative but that of a rule."""
        return self.attribute == Detached | None

    @fact
    def is_slope(self) -> bool:
        """It is a value with a derivative besides its own, by the author of a function that its attribute may name."""
        return self.attribute == Text | None

    @fact
    def is_decomposed(self) -> bool:
        """It is a part of a decomposition, which another one computes for derivatives of symmetric functions."""
        return self.attribute is Part

    @fact
    def is_separation(self) -> bool:
        """It says how far apart the values of a decomposition are to be."""
        return self.attribute is Separation

    @fact
    def in_functions(self) -> bool:
        """It may be in a function of a kernel."""
        return (
            self.effect == "call"
            or (self.is_pure and self.attribute is None and self.arity != 0)
            or self.reads is Memory.EXTENTS
            or (self.is_load and not self.for_derivatives)
        )

    @fact
    def in_copies(self) -> bool:
        """It may be in what is copied to where a function is called again."""
        has_effect = self.is_access or self.prints or self.effect == "check"
        return self.in_functions or (has_effect and not self.for_derivatives)

    # -- values

    @fact
    def is_coordinate(self) -> bool:
        """It gives the place of the thread along an axis of the launch."""
        return self.tells_threads and self.attribute is Axis

    @fact
    def is_thread_number(self) -> bool:
        """It gives the number of the thread among all of its launch."""
        return self.tells_threads and self.attribute is None and self.arity == 0

    @fact
    def is_parameter(self) -> bool:
        """It gives the value of a scalar parameter."""
        return self.attribute is ParamNumber and self.reads is Memory.NONE

    @fact
    def is_comparison(self) -> bool:
        """It orders two numbers or tells if they are equal."""
        return bool(self.opposite)

    @fact
    def equality(self) -> bool | None:
        """A comparison that tells if operands are equal: True if it holds then, False if otherwise, else None."""
        return self.holds_for_equal if self.is_comparison and self.swapped == self.name else None

    @fact
    def is_logical(self) -> bool:
        """It combines bits."""
        return self.kinds == BITS

    @fact
    def is_complement(self) -> bool:
        """It turns every bit, or a bool, into the other one, and is undone by itself."""
        return self.is_logical and self.arity == 1

    @fact
    def takes_all(self) -> bool:
        """It takes scalars of every kind."""
        return self.kinds == ANY

    @fact
    def fits(self) -> Callable[[object], bool]:
        """The test if an attribute is of the type that it should be."""
        return checker(self.attribute)

    def shape_of(self, types: Types) -> tuple[int, ...] | None:
        """The shape that it works on element by element, () for scalars; None where operands do not fit."""
        if self.collects:
            return ()
        # One condition may choose between two tiles.
        first = 1 if self.chooses and types and not shape_of(types[0]) else 0
        shapes = {shape_of(t) for t in types[first:]}
        return shapes.pop() if len(shapes) == 1 else None if shapes else ()


def _mapped(row: Operation, result: Callable[[Args], ScalarType | None]) -> Callable[[Types], ValueType | None]:
    """The type rule of an operation on scalars, for tiles too."""

    def of_types(types: Types) -> ValueType | None:
        for type in types:
            if isinstance(type, TileType):
                break
        else:  # as nearly always
            return result(types)
        shape = row.shape_of(types)
        scalar = result(tuple(map(scalar_of, types))) if shape is not None else None
        return with_shape(scalar, shape) if scalar is not None and shape else scalar

    return of_types
