"""What a row of the table of operations says."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jwarp.ir.attributes import ArrayNumber, Axis, Extent, FunctionNumber, NativeCall, ParamNumber, Text, checker
from jwarp.types import ScalarType, TileType, ValueType, bool_, scalar_of, shape_of, with_shape

Kinds = frozenset[str]
FLOAT: Kinds = frozenset({"float"})
INT: Kinds = frozenset({"int", "uint"})
NUMBER: Kinds = FLOAT | INT
BOOL: Kinds = frozenset({"bool"})
BITS: Kinds = INT | BOOL
ANY: Kinds = NUMBER | BOOL

Args = tuple[ScalarType, ...]
Types = tuple[ValueType, ...]


class Memory(enum.Flag):
    """What operations read and write beside their operands and result."""

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
    """What a condition chooses between: two values of one type."""
    return args[1] if args[0] is bool_ and args[1] is args[2] else None


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
    run in step. One that `moves_bits` takes floats of every
    width as they are. What one is `for_derivatives` says is of them alone: otherwise it is its first operand, or
    nothing. An atomic one (or one on an element of a tile) leaves what the operation `combines` makes of the element
    and the value, in any order of the threads. Where `arity` is None, there are operands, `least` of them.

    One that `is_composed` of others becomes these before code is generated.
    One that `chooses` gives one of the operands after the first, which says which; one that `converts` gives a number
    of another type, and one that `reinterprets` the same bits. One that `absorbs` a bool gives it where an operand is
    it. A comparison names its `opposite`, which holds where it does not (of numbers, not of NaN), and the comparison
    of `swapped` operands.

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
    moves_bits: bool = False
    chooses: bool = False
    converts: bool = False
    reinterprets: bool = False
    absorbs: bool | None = None
    opposite: str = ""
    swapped: str = ""
    for_derivatives: bool = False
    is_composed: bool = False
    combines: str = ""
    least: int = 1
    # What follows, for code that asks often. `fits` says whether an attribute is of the type that it should be.
    fits: Callable[[object], bool] = field(init=False)
    is_pure: bool = field(init=False)
    is_tile: bool = field(init=False)
    is_lasting: bool = field(init=False)  # kept where nothing reads its result
    reads_elements: bool = field(init=False)
    changes_elements: bool = field(init=False)
    is_access: bool = field(init=False)  # of the element at its indices: nothing but a load, a store, or both in one
    is_load: bool = field(init=False)  # such an access that only reads the element
    is_store: bool = field(init=False)  # such an access that only changes the element
    is_addition: bool = field(init=False)  # an atomic one that adds to the element
    is_coordinate: bool = field(init=False)  # the place of the thread along an axis of the launch
    is_parameter: bool = field(init=False)  # the value of a scalar parameter
    is_extent: bool = field(init=False)  # of an array along an axis
    is_call: bool = field(init=False)  # of a function of the kernel
    is_check: bool = field(init=False)  # ends the launch where a condition does not hold
    adds_to_tape: bool = field(init=False)
    reads_tape: bool = field(init=False)
    adds_to_log: bool = field(init=False)
    is_write: bool = field(init=False)  # such an access that changes the element
    is_atomic: bool = field(init=False)  # such an access that does both
    takes_all: bool = field(init=False)  # scalars of every kind
    is_logical: bool = field(init=False)  # combines bits
    changes_tile: bool = field(init=False)  # gives a tile with another element, or with other elements
    uses_log: bool = field(init=False)
    uses_tape: bool = field(init=False)
    uses_notes: bool = field(init=False)
    is_extremum: bool = field(init=False)  # such an access that leaves the smaller or larger of two numbers
    is_native: bool = field(init=False)  # runs a text in C++
    is_shared: bool = field(init=False)  # run once where it is written twice
    in_functions: bool = field(init=False)  # may be in a function of a kernel
    in_copies: bool = field(init=False)  # may be in what is copied to where a function is called again
    settles: bool = field(
        init=False
    )  # an atomic one that, done again with the same values, leaves the element as it is
    in_order: bool = field(init=False)  # happens in the order of the program: with the tape, logs and lines

    def __post_init__(self) -> None:
        if self.result is not None:
            object.__setattr__(self, "result", _mapped(self, self.result))
        used = self.reads | self.writes | self.adds | self.takes
        reads, changes = Memory.ELEMENTS in self.reads, Memory.ELEMENTS in self.writes
        at_indices = self.indices is not None and self.attribute is ArrayNumber
        is_access = at_indices and (reads or changes) and self.adds is Memory.NONE
        in_functions = (
            self.effect == "call"
            or (self.effect == "pure" and self.attribute is None and self.arity != 0)
            or self.reads is Memory.EXTENTS
            or (self.effect == "read" and is_access and not self.for_derivatives)
        )
        has_effect = is_access or self.effect in ("print", "check")
        facts = {
            "fits": checker(self.attribute),
            "is_pure": self.effect == "pure",
            "is_tile": self.effect == "tile",
            "is_lasting": self.effect in ("write", "check", "print", "rule"),
            "reads_elements": reads,
            "changes_elements": changes,
            "is_access": is_access,
            "is_load": is_access and not changes,
            "is_store": is_access and not reads,
            "is_addition": is_access and changes and reads and self.combines == "add",
            "is_coordinate": self.tells_threads and self.attribute is Axis,
            "is_parameter": self.attribute is ParamNumber and self.reads is Memory.NONE,
            "is_extent": self.attribute is Extent,
            "is_call": self.attribute is FunctionNumber,
            "is_check": self.effect == "check" and self.attribute is Text,
            "adds_to_tape": Memory.TAPE in self.adds,
            "reads_tape": Memory.TAPE in self.reads,
            "adds_to_log": Memory.LOG in self.adds,
            "is_write": is_access and changes,
            "is_atomic": is_access and changes and reads,
            "settles": is_access and changes and reads and self.combines not in ("add", "mul", "xor"),
            "is_extremum": self.combines in ("min", "max"),
            "takes_all": self.kinds == ANY,
            "is_logical": self.kinds == BITS,
            "changes_tile": self.effect == "tile" and self.indices is not None and self.indices.stop is not None,
            "uses_log": Memory.LOG in used,
            "uses_tape": Memory.TAPE in used,
            "is_native": self.attribute is NativeCall,
            "is_shared": self.effect in ("pure", "tile", "read", "call"),
            "in_functions": in_functions,
            "in_copies": in_functions or (has_effect and not self.for_derivatives),
            "makes_nan": self.makes_nan and self.effect == "pure",
            "uses_notes": Memory.NOTES in used,
            "in_order": bool(used & (Memory.LOG | Memory.TAPE | Memory.NOTES | Memory.LINES)),
        }
        for name, fact in facts.items():
            object.__setattr__(self, name, fact)

    @property
    def is_comparison(self) -> bool:
        """True for an operation that orders two numbers or tells whether they are equal."""
        return bool(self.opposite)

    @property
    def is_complement(self) -> bool:
        """True for the operation that is undone by itself and turns every bit, or a bool, into the other one."""
        return self.is_logical and self.arity == 1

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
