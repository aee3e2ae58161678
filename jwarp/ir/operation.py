"""The row of the table of operations: the facts that are written down, and those that follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
    Strided,
    Text,
    checker,
)
from jwarp.ir.row_groups import (
    EVERYWHERE,
    Code,
    Comparison,
    Derivative,
    Memory,
    Numeric,
    Stage,
    Threads,
    Transfer,
    Uses,
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
    values come after them. It may occur in the `stages`. With `collects`, it takes operands of several shapes, which it
    only keeps together. Where `arity` is None, there are operands, `least` of them. An atomic one (or one on an element
    of a tile) leaves what the operation `combines` makes of the element and the value, in any order of the threads.

    The other facts are in groups (`ir/row_groups.py`).
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
    stages: frozenset[Stage] = EVERYWHERE
    collects: bool = False
    least: int = 1
    combines: str = ""
    uses: Uses = field(default_factory=Uses)
    numeric: Numeric = field(default_factory=Numeric)
    transfer: Transfer = field(default_factory=Transfer)
    comparison: Comparison = field(default_factory=Comparison)
    threads: Threads = field(default_factory=Threads)
    derivative: Derivative = field(default_factory=Derivative)
    code: Code = field(default_factory=Code)

    def __post_init__(self) -> None:
        if self.result is not None:
            object.__setattr__(self, "result", _mapped(self, self.result))

    # -- memory

    @fact
    def reads_elements(self) -> bool:
        """It reads elements of arrays."""
        return Memory.ELEMENTS in self.uses.reads

    @fact
    def changes_elements(self) -> bool:
        """It changes elements of arrays."""
        return Memory.ELEMENTS in self.uses.writes

    @fact
    def is_access(self) -> bool:
        """It accesses the element at its indices: nothing but a load, a store, or both in one."""
        return self.at_indices and (self.reads_elements or self.changes_elements) and self.uses.adds is Memory.NONE

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
        return self.uses.reads is Memory.EXTENTS and self.attribute is ArrayNumber

    @fact
    def adds_to_tape(self) -> bool:
        """It adds a record to a tape."""
        return Memory.TAPE in self.uses.adds

    @fact
    def reads_tape(self) -> bool:
        """It reads a record of a tape."""
        return Memory.TAPE in self.uses.reads

    @fact
    def adds_to_log(self) -> bool:
        """It adds a record to a log."""
        return Memory.LOG in self.uses.adds

    @fact
    def reads_log(self) -> bool:
        """It tells how many records a log has."""
        return Memory.LOG in self.uses.reads

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
        return Memory.LOG in self.uses.takes

    @fact
    def restores_until(self) -> bool:
        """It restores elements until the log has a given number of records."""
        return self.restores and self.arity == 1

    @fact
    def reads_notes(self) -> bool:
        """It gives the next value in the notes of an array."""
        return Memory.NOTES in self.uses.writes and self.typed_by == "array"

    @fact
    def in_order(self) -> bool:
        """It happens in the order of the program: with the tape, logs and lines."""
        return bool(self.used & (Memory.LOG | Memory.TAPE | Memory.NOTES | Memory.LINES))

    @fact
    def used(self) -> Memory:
        """All memory that it has to do with."""
        return self.uses.reads | self.uses.writes | self.uses.adds | self.uses.takes

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
    def is_movable(self) -> bool:
        """It gives the same wherever it is: it is pure, element by element or not."""
        return self.is_pure or self.is_tile

    @fact
    def only_reads(self) -> bool:
        """It depends on memory, and does nothing else."""
        return self.effect == "read"

    @fact
    def changes_memory(self) -> bool:
        """It changes memory: elements, tapes, logs or notes."""
        return self.effect == "write"

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
        return self.effect == "tile" and self.threads.differ

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
            or self.uses.reads is Memory.EXTENTS
            or (self.is_load and not self.derivative.only)
        )

    @fact
    def in_copies(self) -> bool:
        """It may be in what is copied to where a function is called again."""
        has_effect = self.is_access or self.prints or self.effect == "check"
        return self.in_functions or (has_effect and not self.derivative.only)

    # -- values

    @fact
    def is_coordinate(self) -> bool:
        """It gives the place of the thread along an axis of the launch."""
        return self.threads.differ and self.attribute is Axis

    @fact
    def is_thread_number(self) -> bool:
        """It gives the number of the thread among all of its launch."""
        return self.threads.differ and self.attribute is None and self.arity == 0

    @fact
    def is_parameter(self) -> bool:
        """It gives the value of a scalar parameter."""
        return self.attribute is ParamNumber and self.uses.reads is Memory.NONE

    @fact
    def makes_nan(self) -> bool:
        """It is pure, and may be NaN where no operand is."""
        return self.is_pure and not self.numeric.without_new_nan

    @fact
    def is_comparison(self) -> bool:
        """It orders two numbers or tells if they are equal."""
        return bool(self.comparison.opposite)

    @fact
    def equality(self) -> bool | None:
        """A comparison that tells if operands are equal: True if it holds then, False if otherwise, else None."""
        return self.comparison.holds_for_equal if self.is_comparison and self.comparison.swapped == self.name else None

    @fact
    def is_logical(self) -> bool:
        """It combines bits."""
        return self.kinds == BITS

    @fact
    def is_complement(self) -> bool:
        """It turns every bit, or a bool, into the other one, and is undone by itself."""
        return self.is_logical and self.arity == 1

    @fact
    def is_remainder(self) -> bool:
        """It gives what is left of a number by a quotient of whole numbers, where that one steps."""
        return self.numeric.jumps

    @fact
    def has_target(self) -> bool:
        """It gives a type that each operation chooses: of a number or of its bits."""
        return self.typed_by == "target"

    @fact
    def is_typed_by_operands(self) -> bool:
        """Its operands tell the type of its result."""
        return not self.typed_by

    @fact
    def is_typed_by_attribute(self) -> bool:
        """Its operands and its attribute tell the type of its result."""
        return self.typed_by == "attr"

    @fact
    def is_view(self) -> bool:
        """It gives a tile of elements of another one, which it only moves."""
        return self.attribute is Strided and self.takes_all

    @fact
    def spreads(self) -> bool:
        """It moves the elements of a tile to places in zeros, where they add up."""
        return self.attribute is Strided and not self.takes_all and self.arity == 1

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
        first = 1 if self.transfer.chooses and types and not shape_of(types[0]) else 0
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
