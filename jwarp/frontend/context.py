"""The context of all lowering rules: the builder, the current function, the tiles, and checked operations."""

from __future__ import annotations

import ast
import contextlib
import functools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend import lookups
from jwarp.frontend.func import Func
from jwarp.frontend.syntax.python_operators import SYMBOLS
from jwarp.frontend.syntax.source import Source, count_loads, indexed_names
from jwarp.frontend.values import array_views
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Chosen,
    Composite,
    Number,
    OneOf,
    Part,
    PythonRef,
    Shape,
    StructArray,
    StructValue,
    TileRef,
    Unusable,
    as_operand,
    describe,
    flatten,
    is_id,
    layout,
    rebuild,
    spelling,
)
from jwarp.frontend.values.cells import TileMemory
from jwarp.frontend.values.composites import component_indices
from jwarp.ir.attributes import Attribute, Extent
from jwarp.ir.builder import FALSE, TRUE, Builder, make_block, zero
from jwarp.ir.nodes import Block, Const, Function, Gradient, If, Local, Op, Operand, Param, Value
from jwarp.ir.ops import OPS
from jwarp.types import (
    ArrayType,
    Bound,
    CompositeType,
    ScalarType,
    ValueType,
    bool_,
    float32,
    int32,
    int64,
    uint32,
    uint64,
)
from jwarp.types.queries import no_overload

# The bytes of local arrays that one thread may have. Sixteen threads at a time have theirs on the stack.
MAX_LOCAL_BYTES = 4096
# The same for the components of variables; those of further variables stay scalars.
MAX_STORED_BYTES = MAX_LOCAL_BYTES // 2
# The bytes of local arrays that all threads of a block may have, possibly in shared memory.
MAX_BLOCK_STORED_BYTES = 32 << 10


# So many calls are read one inside the other: Python's stack, which the caller of a launch shares, is short.
MOST_NESTED_CALLS = 16


class UsesTiles(Exception):
    """A function on tiles is met where a kernel is read for single threads."""


@dataclass
class Frame:
    """One function being read: the kernel itself, or a function that is read where it is called."""

    source: Source
    is_kernel: bool = False
    env: dict[str, Binding] = field(default_factory=dict)
    unset: set[str] = field(default_factory=set)  # names that some path leaves without a value
    statics: dict[str, Any] = field(default_factory=dict)  # variables of unrolled loops
    loops: frozenset[str] = frozenset()  # those of them of the loops around the point that is being read
    variables: Bound = field(default_factory=dict)  # the types that type variables stand for
    memory: dict[str, ArrayRef] = field(
        default_factory=dict
    )  # the arrays of variables that have their components there
    borrowed: frozenset[int] = frozenset()  # those of variables of the caller
    not_carried: frozenset[str] = frozenset()  # names from before the loop at hand that it must leave as they are
    given: frozenset[int] = frozenset()  # arrays that the function was called with
    is_dropped: bool = False  # whether nothing goes on from the point that is being read
    in_nest: bool = False  # whether this is a loop over constants that stays one, as there may be much code in it

    @functools.cached_property
    def loads(self) -> dict[str, int]:
        """How often each name is read."""
        return count_loads(self.source.tree.body)

    @functools.cached_property
    def indexed(self) -> frozenset[str]:
        """The names of variables that are indexed by values, as far as the text tells, or by functions they go to."""
        return indexed_names(self.source.tree)


# Warnings to be issued once the kernel is read, by place: a set in order.
Warnings = dict[tuple[Span, str], None]


@dataclass
class Kept:
    """Memoised lowering: the code and result of a function for one specialisation key.

    `code` is the number of an outlined function, or a block to copy. `result` is in terms of the first call's values:
    `given`, those of its arguments, and `made`, the results of `code`. `warnings` were given while it was read.
    """

    code: int | Block
    result: Binding
    given: tuple[Value, ...]
    made: tuple[Value, ...]
    warnings: Warnings


@dataclass
class Functions:
    """The functions of a kernel that is being read, and the calls by what was read of them: None is read each time."""

    made: list[Function] = field(default_factory=list)
    known: dict[Hashable, Kept | None] = field(default_factory=dict)


# Calls a function that is an argument of a builtin with values that are written at some places, as does `apply`.
Applied = Callable[["Context", PythonRef, list[Binding], list[Span], Span], Binding]


class Context:
    """The reading of one kernel, as far as it has come. The functions that the kernel calls are read in place.

    Rules get what they need here and know of each other by the tables that they stand in.
    """

    def __init__(
        self,
        frame: Frame,
        applied: Applied,
        max_unroll: int,
        first_local: int = 0,
        debug: bool = False,
        block_dim: int = 0,
    ):
        """`first_local` is the number of the first local array: one for each parameter comes before.

        `debug`: emit the checks of asserts and unset variables, and compute nothing that may be not needed.
        `block_dim` is how many threads a block has, 0 where a kernel has no blocks and no tiles.
        """
        self.frame = frame
        self.applied = applied
        self.max_unroll = max_unroll
        self.first_local = first_local
        self.debug = debug
        self.block_dim = block_dim
        self.builder = Builder()
        self.tiles = TileMemory(self.builder, debug)
        self.locals: list[Local] = []
        self.stored: list[Local] = []  # those of them that hold the components of a variable
        self.free: list[ArrayRef] = []  # those of functions that have been read
        self.tid_arity = 0
        self.warnings: Warnings = {}
        self.assigned_name = ""  # of the variable that the expression at hand is for
        self.unrolled = 1  # how many copies of the code at hand are being read
        self.stack: list[Func] = []  # the functions being read
        self.most_calls = MOST_NESTED_CALLS  # of which so many may be
        self.modules: dict[ModuleType, Any] = {}  # those that names were read of, with what each was loaded by
        self.gradients: list[Gradient] = []  # of calls of functions that have one of their own
        self.borrowed: frozenset[ast.Name] = frozenset()  # arguments that a call may change in place
        self.functions = Functions()
        self.only_scalars = False  # whether variables must not be in memory
        self.trials = 0  # how many bodies of loops, one inside the other, are being read for nothing
        self.is_counted = True  # whether all that is named is among the names of the functions' code
        self.memory: StructValue | None = None  # the parameter of kernels that look numbers up
        self.tables: dict[int, StructValue] = {}  # what the elements of arrays of ids name, by the arrays' numbers
        # Elements of arrays that may be such: of which of them, None for those of other numbers, and their index.
        self.named: dict[Value, tuple[StructValue | None, tuple[Operand, ...]]] = {}
        self.in_gradient = False  # whether this is such a gradient, of which no derivative is taken
        self.only_values = False  # whether to leave out what is for derivatives
        self.left_out = False  # whether something was
        self.in_lanes = False  # whether this is a loop whose iterations may run together, each of them in a lane

    # -- places in the source

    def span(self, node: ast.AST) -> Span:
        """Where `node` stands in the user's file."""
        return self.frame.source.span(node)

    @contextlib.contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Stamp what is built inside with the place of `node`."""
        before = self.builder.span
        self.builder.span = self.span(node)
        try:
            yield
        finally:
            self.builder.span = before

    # -- operations

    def emit(
        self, name: str, *args: Operand, span: Span, attr: Attribute | None = None, type: ValueType | None = None
    ) -> Operand:
        """Append an operation of the language, checking what it takes in the user's words."""
        row = OPS[name]
        types_ = tuple([a.type for a in args])
        if row.is_typed_by_operands and len(set(types_)) > 1 and not row.transfer.chooses:
            shown = SYMBOLS.get(name, f"wp.{name}")
            for_ints = "float" not in row.kinds and any(t.is_float for t in types_)
            hint = _kind_hint(name, types_) if for_ints else one_type_hint(args)
            raise KernelTypeError(
                f"`{shown}` needs arguments of one type: Input types must be the same, got {[t.name for t in types_]}",
                span,
                hint,
            )
        fits = all(t.kind in row.kinds for t in types_)
        if fits and type is None and row.result:
            type = row.result(types_)
            fits = type is not None
        if not fits:
            shown = SYMBOLS.get(name, f"wp.{name}")
            raise KernelTypeError(
                f"`{shown}` does not take ({', '.join(t.name for t in types_)}): {no_overload(name, types_)}",
                span,
                _kind_hint(name, types_),
            )
        before, self.builder.span = self.builder.span, span
        try:
            return self.builder.op(name, *args, attr=attr, type=type)
        finally:
            self.builder.span = before

    # -- scalars

    def scalar(self, binding: Binding, span: Span, role: str = "value") -> Operand:
        """`binding` as a scalar, or a KernelTypeError."""
        if isinstance(binding, Unusable):
            raise binding.error(span)
        operand = as_operand(binding, span)
        if operand is None:
            raise KernelTypeError(f"{role} must be a scalar, not {describe(binding)}", span, scalar_hint(binding))
        return operand

    def scalars(self, binding: Binding, span: Span) -> list[Operand]:
        """The scalars that `binding` is made of, or a KernelTypeError."""
        found = flatten(binding, span)
        return [self.scalar(binding, span)] if found is None else found

    def condition(self, binding: Binding, span: Span) -> Operand:
        """The truth of a bool, a number, or an array, which is true where it has elements."""
        array = binding.first if isinstance(binding, StructArray) else binding
        if isinstance(array, ArrayRef):
            sizes = (self.extent(array, axis, span) for axis in range(array.type.dims))
            return functools.reduce(
                lambda x, y: self.emit("and", x, y, span=span),
                [self.emit("ne", size, zero(int32), span=span) for size in sizes],
            )
        if is_id(binding):
            return TRUE  # only an id that is 0 names nothing, and that is a number
        operand = self.scalar(binding, span, "condition")
        return operand if operand.type is bool_ else self.emit("ne", operand, zero(operand.type), span=span)

    def convert(self, binding: Binding, type: ScalarType, span: Span) -> Operand:
        """`type(binding)`: a value conversion."""
        if isinstance(binding, Number):
            return binding.as_type(type, span)
        return self.emit("cast", self.scalar(binding, span), span=span, type=type)

    # -- threads

    def tid(self, arity: int, span: Span) -> Binding:
        """`wp.tid()` read into `arity` names; a kernel has as many coordinates as its longest reading."""
        if not self.frame.is_kernel:
            raise CompileError("wp.tid() can only be called in kernels", span, "pass the coordinates as arguments")
        if not 1 <= arity <= 4:
            raise CompileError(f"wp.tid() has 1 to 4 coordinates, not {arity}", span)
        self.tid_arity = max(self.tid_arity, arity)
        axes = tuple(self._thread_coordinate(axis, span) for axis in range(arity))
        return axes if arity > 1 else axes[0]

    def _thread_coordinate(self, axis: int, span: Span) -> Operand:
        # Not through `op`: an operation without arguments has nothing to fold.
        result = Value(int32)
        self.builder.append(Op("tid", (), axis, result, span))
        return result

    def require_tiles(self) -> None:
        """Note that the kernel is one with tiles."""
        if not self.block_dim:
            raise UsesTiles

    def barrier(self, span: Span) -> None:
        """Let the threads of a block wait for each other, which makes the kernel one with blocks."""
        self.require_tiles()
        self.builder.append(Op("barrier", (), None, None, span))

    # -- functions

    def apply(self, function: PythonRef, values: list[Binding], spans: list[Span], span: Span) -> Binding:
        """Apply `function`, an argument of the call at `span`, to `values`, which are written at `spans`."""
        return self.applied(self, function, values, spans, span)

    # -- parameters and arrays

    def parameter(self, index: int, param: Param, span: Span) -> Binding:
        """The binding of parameter `index`: an array, or the value that was passed."""
        if isinstance(param.type, ArrayType):
            array = ArrayRef(index, param.name, param.type)
            return self.load(array, (), span) if param.type.dims == 0 else array
        value = Value(param.type, param.name)
        self.builder.append(Op("param", (), index, value, span))
        return value

    def extent(self, array: ArrayRef, axis: int, span: Span) -> Operand:
        """`array.shape[axis]`."""
        if isinstance(array, OneOf):
            return self.scalar(self.of_options(array, lambda one: self.extent(one, axis, span), span), span)
        if array.located is not None:
            return array.located.sizes[axis]
        number, shown = array.shown[axis]
        if isinstance(shown, Part):
            return shown.count
        if isinstance(shown, Chosen):
            return self.extent(shown.indices, 0, span)
        if array.extents is not None:
            return Const(int32, array.extents[number])
        result = Value(int32)
        self.builder.append(Op("shape", (), Extent(array.index, number), result, span))
        return result

    def as_index(self, binding: Binding, array: ArrayRef, span: Span) -> Operand:
        """`binding` as an index of `array`, int32 or int64."""
        operand = self.scalar(binding, span, "array index")
        if not operand.type.is_int:
            raise KernelTypeError(
                f"index of `{array.name}` must be an integer, not {operand.type}", span, "convert it: int(x)"
            )
        if operand.type is uint64:  # beyond int64 it must stay outside of any array, not turn negative
            operand = self.emit("min", operand, Const(uint64, int64.max), span=span)
        wide = operand.type in (int64, uint64, uint32)
        return self.emit("cast", operand, span=span, type=int64 if wide else int32)

    def load(self, array: ArrayRef, indices: tuple[Operand, ...], span: Span) -> Binding:
        """The element of `array` at `indices`."""
        if isinstance(array, OneOf):
            return self.of_options(array, lambda one: self.load(one, indices, span), span)
        items: list[Operand] = []
        if array.is_missing:
            self.check_given(array, span)
            items = [zero(array.type.dtype)] * math.prod(array.type.components)
            return _element(array, items)
        indices = array_views.place(self, array, indices, span)
        for component in component_indices(array.type.components):
            result = Value(array.type.dtype)
            at = array_views.component_place(self, array, indices, component, span)
            self.builder.append(Op("load", at, array.index, result, span))
            items.append(result)
        if array.type.element is uint64 and array.index < self.first_local:
            self.named[items[0]] = self.tables.get(array.index), tuple(indices)  # type: ignore[index]
        return _element(array, items)

    def described(self, array: ArrayRef, indices: tuple[Operand, ...], kind: ArrayType, span: Span) -> ArrayRef:
        """The array that an element of an array of structs holds."""
        return lookups.described(self, array, indices, kind, span)

    def words_of(self, array: ArrayRef, span: Span) -> Composite:
        """The descriptor of an array."""
        return lookups.words_of(self, array, span)

    def of_options(self, array: OneOf, each: Callable[[ArrayRef], Binding], span: Span) -> Binding:
        """Build `each` for every option of an array that a condition selects, and select among the results."""

        def chosen(k: int) -> Binding:
            if k == len(array.options) - 1:
                return each(array.options[k])
            hit = self.emit("eq", array.which, Const(int32, k), span=span)
            if isinstance(hit, Const):
                return each(array.options[k]) if hit.value else chosen(k + 1)
            with self.builder.block() as then:
                x = each(array.options[k])
            with self.builder.block() as orelse:
                y = chosen(k + 1)
            xs, ys = self.scalars(x, span), self.scalars(y, span)
            results = tuple(Value(value.type) for value in xs)
            self.builder.append(If(hit, make_block(then, xs), make_block(orelse, ys), results, span))
            return rebuild(x, list(results))

        return chosen(0)

    def check_given(self, array: ArrayRef, span: Span) -> None:
        """Refuse an access to the array that nobody gave where it is made for certain, or debug mode finds it."""
        if not array.is_missing:
            return
        if self.builder.depth == 1:
            raise CompileError(f"the field `{array.name}` has no array yet", span, "assign one to it")
        if self.debug:
            before, self.builder.span = self.builder.span, span
            self.builder.check(FALSE, f"`{array.name}` has no array here")
            self.builder.span = before

    def atomic(
        self, name: str, array: ArrayRef, indices: list[Binding], values: list[Binding], spans: list[Span], span: Span
    ) -> Binding:
        """An atomic operation on an element, component by component; what was there before."""
        if isinstance(array, OneOf):
            return self.of_options(array, lambda one: self.atomic(name, one, indices, values, spans, span), span)
        kind = array.type.element
        for value, value_span in zip(values, spans[len(indices) :], strict=True):
            if layout(value, value_span) is not kind:
                raise KernelTypeError(
                    f"`{array.name}` holds {kind}, the value is {describe(value)}", value_span, "convert it"
                )
        if array.type.dtype.kind not in OPS[f"atomic_{name}"].kinds:
            raise KernelTypeError(f"wp.atomic_{name} does not take {array.type.dtype}", span)
        place = tuple(self.as_index(i, array, s) for i, s in zip(indices, spans, strict=False))
        place = array_views.place(self, array, place, span)
        before: list[Operand] = []
        if array.is_missing:
            self.check_given(array, span)
            return _element(array, [zero(array.type.dtype)] * math.prod(array.type.components))
        parts = zip(*(flatten(v, span) or () for v in values), strict=True)
        for component, scalars in zip(component_indices(array.type.components), parts, strict=True):
            result = Value(array.type.dtype)
            at = array_views.component_place(self, array, place, component, span)
            self.builder.append(Op(f"atomic_{name}", (*at, *scalars), array.index, result, span))
            before.append(result)
        return _element(array, before)

    def local_array(self, kind: ArrayType, extents: tuple[int, ...], span: Span) -> ArrayRef:
        """A new array of this thread's own, all zeros."""
        local = Local(self.assigned_name or "local array", kind, (*extents, *kind.components))
        self._check_room(local, span)
        return ArrayRef(self._new_local(local), local.name, kind, (), extents)

    def _check_room(self, local: Local, span: Span) -> None:
        written = _bytes_of([*self.locals, local]) - _bytes_of(self.stored)
        if written > MAX_LOCAL_BYTES:
            raise CompileError(
                f"the local arrays of a kernel may have {MAX_LOCAL_BYTES} bytes for each thread; with this one of "
                f"{local.size * local.dtype.bits // 8} bytes, `{local.name}`, they have more",
                span,
                "use a smaller array, or a parameter with an axis for the threads; an unrolled loop has the arrays "
                "of its body once for each iteration: wp.config.max_unroll",
            )

    def another_local(self, number: int, span: Span) -> int:
        """The number of a new local array like the one of this number, to be cleared where that is."""
        local = self.locals[number - self.first_local]
        self._check_room(local, span)
        self.locals.append(local)
        return self.first_local + len(self.locals) - 1

    def array_of_components(self, name: str, kind: CompositeType) -> ArrayRef | None:
        """A local array, all zeros, for the components of a variable; None if there are too many of these."""
        for array in self.free:
            if array.type.element is kind:
                self.free.remove(array)
                self.builder.effect("clear", attr=array.index)
                return array
        local = Local(name, ArrayType(kind.dtype, len(kind.shape)), kind.shape)
        size = _bytes_of([*self.stored, local])
        if size > MAX_STORED_BYTES or size * self.block_dim > MAX_BLOCK_STORED_BYTES:
            return None
        self.stored.append(local)
        return ArrayRef(self._new_local(local), name, ArrayType(kind, 0), (), ())

    def _new_local(self, local: Local) -> int:
        self.locals.append(local)
        number = self.first_local + len(self.locals) - 1
        self.builder.effect("clear", attr=number)
        return number


def _bytes_of(locals: Sequence[Local]) -> int:
    return sum(local.size * local.dtype.bits // 8 for local in locals)


def _element(array: ArrayRef, scalars: list[Operand]) -> Binding:
    """An element of an array, made of its scalars."""
    kind = array.type.element
    return Composite(kind, tuple(scalars)) if isinstance(kind, CompositeType) else scalars[0]


def one_type_hint(args: Sequence[Operand]) -> str:
    """How values of several types get one: that of the first that is a float, if there is one."""
    kinds = [arg.type for arg in args if isinstance(arg.type, ScalarType)]
    wanted = next((kind for kind in kinds if kind.is_float), kinds[0])
    other = next(arg for arg in args if arg.type is not wanted)
    if isinstance(other, Const) and wanted.is_float and other.type is int32:
        number = f"{float(other.value)}"
        return f"write {number if wanted is float32 else f'{spelling(wanted)}({number})'} instead of {other.value}"
    return f"convert the {other.type.name}: {spelling(wanted)}(…)"


def scalar_hint(binding: Binding) -> str:
    """How to get a scalar from `binding`."""
    if isinstance(binding, ArrayRef):
        return f"read an element: {binding.name}[{', '.join('ijkl'[: binding.type.dims])}]"
    if is_id(binding):
        return (
            "give it to functions as it is, or compare it by == or != with 0, which it is not; an element of an array "
            "of ids, wp.array([mesh.id], dtype=wp.uint64), is a number, too"
        )
    if isinstance(binding, StructValue):
        return f"name a field: {', '.join(binding.type.fields)}"
    if isinstance(binding, TileRef):
        return f"read an element, t[{', '.join('ijkl'[: len(binding.shape)])}], or apply a function with wp.tile_map"
    if isinstance(binding, Shape):
        return "read an extent: a.shape[0]"
    if isinstance(binding, PythonRef) and not callable(binding.object):
        return "arrays are parameters of the kernel; from outside it uses numbers, vectors, matrices and tuples of them"
    return ""


# Words of Python for `&` and `|` between conditions: these operators bind more tightly than comparisons.
_WORDS = {"and": "and", "or": "or"}


def _kind_hint(name: str, args: tuple[ScalarType, ...]) -> str:
    kinds = OPS[name].kinds
    if name == "pow" and all(t.is_int for t in args):
        return "multiply integers: i * i; or convert: float(i) ** 2.0"
    if kinds == {"float"} and any(t.is_int for t in args):
        return "it is for floats: convert with float(x)"
    if "float" not in kinds and any(t.is_float for t in args):
        hint = "it is for integers: convert with int(x)"
        return f"{hint}; of conditions, write `{_WORDS[name]}`" if name in _WORDS else hint
    if any(t is bool_ for t in args):
        return "bool is not a number in kernels: convert with int(x)"
    return ""
