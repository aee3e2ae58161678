"""The data types of the IR: a kernel is a tree of blocks of operations over scalars and tiles.

Control flow is structured and there are no variables: what a branch or a loop changes leaves it as a
result, what a loop carries enters as `params`. `break`, `continue` and early `return` have become
conditions by the time code is IR. Arrays are named by number: the parameters, then the local arrays.

Operations and control flow over tiles of one shape are mapped: they do for each element what they do for a
scalar. Inside mapped control flow, elements go their own ways.

Nodes and blocks are equal only to themselves. So an analysis keeps its facts in a plain dict or set of nodes, blocks
or values: `proven[node]`. Such a table keeps its nodes alive. A rewrite makes other nodes, which have no facts until a
pass gives them some on purpose. `visit.same_code` compares what blocks say.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from jwarp import forks
from jwarp.errors import NO_SPAN, Span
from jwarp.ir.attributes import ArrayName, ArrayNumber, Attribute, Origin, numbers_in, with_numbers
from jwarp.ir.operation import Operation
from jwarp.ir.ops import OPS
from jwarp.ir.record import record
from jwarp.types import ArrayType, ScalarType, Type, ValueType
from jwarp.types.all_memory import is_heap, is_table


@record(eq=False)
class Value:
    """The result of one operation, or a parameter of a block. Equal only to itself."""

    type: ValueType
    name: str = ""


@record(eq=False)
class Const:
    """A constant: `value` is a Python bool, int or float that `type` represents exactly; a tile is filled with it."""

    type: ValueType
    value: Any

    def __eq__(self, other: object) -> bool:  # 0.0 and -0.0 differ, NaN equals itself
        if self is other:
            return True
        if not isinstance(other, Const) or self.type != other.type:
            return False
        x, y = self.value, other.value
        if x == y:
            return bool(x) or not self.type.is_float or math.copysign(1.0, x) == math.copysign(1.0, y)
        return bool(x != x and y != y)

    def __hash__(self) -> int:
        return hash((self.type, self.value if self.value == self.value else None))


Operand = Value | Const


A = TypeVar("A")


@record(eq=False)
class Op:
    """One row of the table of operations, `row`, applied to `args`.

    `attr` is what is known at compile time, of the type that the row says: read it as the `array` that the
    operation is about, as a `number` of something else, as a `text`, or as a dataclass by `attr_as`.
    """

    name: str
    args: tuple[Operand, ...]
    attr: Attribute | None = None
    result: Value | None = None
    span: Span = NO_SPAN
    row: Operation = dataclasses.field(init=False, repr=False, compare=False)  # what the table says of the operation

    def __post_init__(self) -> None:
        self.row = OPS[self.name]  # type: ignore[misc]  # of a record

    @property
    def array(self) -> int:
        """The number of the one array that the attribute names."""
        assert isinstance(self.attr, int)
        return self.attr

    @property
    def array_name(self) -> ArrayName:
        """The one array that the attribute names, by its number or by its origin."""
        assert isinstance(self.attr, (int, Origin))
        return self.attr

    @property
    def origin(self) -> Origin:
        """The origin of the array that the attribute names, while a derivative is made."""
        assert isinstance(self.attr, Origin)
        return self.attr

    @property
    def number(self) -> int:
        """The attribute, where it is the number of an axis, a parameter or a tape."""
        assert isinstance(self.attr, int)
        return self.attr

    @property
    def text(self) -> str:
        """The attribute, where it is a text."""
        assert isinstance(self.attr, str)
        return self.attr

    def attr_as(self, kind: type[A]) -> A:
        """The attribute, which is of this kind."""
        assert isinstance(self.attr, kind)
        return self.attr

    @property
    def indices(self) -> tuple[Operand, ...]:
        """The operands that are indices of an element, of an array or tile."""
        return self.args[self.row.indices] if self.row.indices is not None else ()

    @property
    def values(self) -> tuple[Operand, ...]:
        """The operands after the indices: what an access writes or compares."""
        indices = self.row.indices
        return () if indices is None or indices.stop is None else self.args[indices.stop :]


@record(eq=False)
class Block:
    """Nodes in order, then the values the block hands to the node that owns it."""

    nodes: tuple[Node, ...] = ()
    yields: tuple[Operand, ...] = ()


@record(eq=False)
class If:
    """Runs one of two blocks; `results` are what that block yields.

    Threads that run in step and do not agree run `then` before `orelse`.
    """

    cond: Operand
    then: Block
    orelse: Block
    results: tuple[Value, ...]
    span: Span = NO_SPAN


@record(eq=False)
class For:
    """Counted loop: `index` is lo, lo+step, … while below hi (above, for a negative step).

    The counting is exact: it ends even where `index + step` would not fit the index type.
    `params` are the carried values inside the body, `body.yields` their next values.

    In a loop with `lanes`, iterations may run together and in any order: none reads what another one stores. It has
    the name of an associative operation for each carried value, to which every iteration applies that operation.
    """

    index: Value
    lo: Operand
    hi: Operand
    step: int
    params: tuple[Value, ...]
    init: tuple[Operand, ...]
    body: Block
    results: tuple[Value, ...]
    span: Span = NO_SPAN
    lanes: tuple[str, ...] | None = None


@record(eq=False)
class While:
    """Loop while `cond` yields true; both blocks see `params`."""

    params: tuple[Value, ...]
    init: tuple[Operand, ...]
    cond: Block
    body: Block
    results: tuple[Value, ...]
    span: Span = NO_SPAN


Node = Op | If | For | While


@dataclass(frozen=True, slots=True)
class Param:
    """A kernel parameter: scalars are read by `param`, arrays by `load`, `store` and `shape`.

    A vector or matrix is an array of its components, and so is an element of an array: component axes
    come last.
    """

    name: str
    type: Type

    @property
    def is_array(self) -> bool:
        return isinstance(self.type, ArrayType)

    @property
    def is_heap(self) -> bool:
        """True if the parameter is all memory, as scalars of a type: its elements are those of any array."""
        return is_heap(self.name)

    @property
    def is_table(self) -> bool:
        """True if the parameter has what numbers name, which no kernel changes."""
        return is_table(self.name)

    @property
    def dtype(self) -> ScalarType:
        """The scalar type of the parameter, of its elements for an array."""
        return self.type.dtype if isinstance(self.type, ArrayType) else self.type

    @property
    def is_value(self) -> bool:
        """True if the parameter is a scalar, vector or matrix, passed by value."""
        return not isinstance(self.type, ArrayType) or self.type.dims == 0


@dataclass(frozen=True, slots=True)
class Local:
    """An array that every thread has for itself, of fixed extents; component axes come last.

    It holds nothing before a `clear` that every access comes after. One that is `shared` holds tiles: a block
    has it for all of its lanes, and anything before the first store. A table holds `values`, and is only read.
    """

    name: str
    type: ArrayType
    shape: tuple[int, ...]
    shared: bool = False
    values: tuple[Any, ...] | None = None

    @property
    def dtype(self) -> ScalarType:
        """The scalar type of the elements."""
        return self.type.dtype

    @property
    def size(self) -> int:
        """Number of scalars."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Gradient:
    """The derivative of a call that its author wrote: a kernel that adds up gradients of the call's arguments.

    `feeds` says what each of its parameters is, as (kind, number, position), where operands are those of the
    operation `rule`: a `value`, the operands from `position`; an `array`, number `number` of the caller from
    the row that the operands from `position` choose; a `cotangent`, of the results from `position`; or a
    `gradient`, of what parameter `number` is.
    """

    kernel: Kernel
    feeds: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the kernel calls: `params` stand for the arguments, what `body` yields are the results.

    It has no effect: arithmetic, control flow, calls of functions before it, elements and extents of parameters that
    the kernel does not change; nothing of other arrays and of threads.
    """

    name: str
    params: tuple[Value, ...]
    body: Block


class Order(enum.IntEnum):
    """The orders in which the threads of a batch element may run."""

    ANY = 0
    NUMBERS = 1  # that of their numbers, as if one ended before the next one begins
    STEPS = 2  # one that is the same for a kernel and its derivatives: vectors of threads in step, or as above
    APART = 3  # that of their numbers, and never in step: what a thread stores and loads again is its own meanwhile


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A whole kernel, equal only to itself. `tid_dims` is how many launch dimensions `wp.tid()` reads, at least 1.

    `variant` says what it is: the kernel as it was written, or a derivative of that. One that is `exact`
    compares what it computes with what another kernel did, so it must round as that one does. `gradients`
    are what the operations `rule` refer to; compiled kernels have none.

    A kernel with a `block_dim` has tiles: it is run once for each block of so many lanes, and what it calls threads
    are blocks. What differs between the lanes of a block is a tile.

    Where the order of its threads shows, `order` says which one they have. Derivatives are of kernels without
    `functions`: `ir.functions` puts these where they are called.
    """

    name: str
    params: tuple[Param, ...]
    tid_dims: int
    body: Block
    span: Span = NO_SPAN
    locals: tuple[Local, ...] = ()
    variant: str = "forward"
    exact: bool = False
    gradients: tuple[Gradient, ...] = ()
    block_dim: int = 0
    order: Order = Order.ANY
    functions: tuple[Function, ...] = ()

    def array(self, number: int) -> Param | Local:
        """The array that loads and stores call `number`: a parameter, or a local after all of these."""
        count = len(self.params)
        return self.params[number] if number < count else self.locals[number - count]

    def local(self, number: int) -> Local | None:
        """The local array that loads and stores call `number`; None for a parameter."""
        return self.locals[number - len(self.params)] if number >= len(self.params) else None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a kernel that every launch needs, so that its body need not be read for them.

    `encoded` is the kernel in bytes, `fingerprint` names it by its content, both without its gradients; `files` are the
    files of its source, as names in `encoded` and paths. The others are what the functions of these names say, and
    whether there is nothing in it that is for derivatives only.
    """

    encoded: bytes
    fingerprint: str
    written_params: tuple[int, ...]
    failure_texts: tuple[str, ...]
    prints: bool
    rounds_as_written: bool
    is_plain: bool
    files: tuple[tuple[str, str], ...]


class KnownKernel(Kernel):
    """A kernel of which `facts` are known. Its body may be made when it is first looked at.

    Another one that `dataclasses.replace` makes of it is a kernel like any other.
    """

    __slots__ = ("_content", "_read", "facts")

    facts: Facts
    _read: Callable[[], tuple[tuple[Function, ...], Block]]

    def __new__(cls, *args: Any, **fields: Any) -> Any:
        return Kernel(*args, **fields)

    @staticmethod
    def of(head: Kernel, facts: Facts, read: Callable[[], tuple[tuple[Function, ...], Block]]) -> KnownKernel:
        """The kernel `head` with the functions and the body that `read` gives."""
        made = object.__new__(KnownKernel)
        for field in dataclasses.fields(Kernel):
            if field.name not in ("body", "functions"):
                object.__setattr__(made, field.name, getattr(head, field.name))
        object.__setattr__(made, "facts", facts)
        object.__setattr__(made, "_read", read)
        return made

    @property
    def body(self) -> Block:
        return self._made[1]

    @property
    def functions(self) -> tuple[Function, ...]:
        return self._made[0]

    @property
    def _made(self) -> tuple[tuple[Function, ...], Block]:
        found: tuple[tuple[Function, ...], Block] | None = getattr(self, "_content", None)
        if found is None:
            with _reading:  # its values are those of one reading
                found = getattr(self, "_content", None)
                if found is None:
                    found = self._read()
                    object.__setattr__(self, "_content", found)
        return found


_reading = forks.Lock(is_shared=True)


def operands(node: Node) -> tuple[Operand, ...]:
    """The operands of `node` itself, without those of its blocks."""
    match node:
        case Op():
            return node.args
        case If():
            return (node.cond,)
        case For():
            return (node.lo, node.hi, *node.init)
        case While():
            return node.init


def results(node: Node) -> tuple[Value, ...]:
    """The values that `node` defines for the nodes after it."""
    if isinstance(node, Op):
        return () if node.result is None else (node.result,)
    return node.results


def blocks(node: Node) -> tuple[Block, ...]:
    """The blocks that `node` owns."""
    if isinstance(node, Op):
        return ()
    if isinstance(node, If):
        return (node.then, node.orelse)
    return (node.body,) if isinstance(node, For) else (node.cond, node.body)


def inner_params(node: Node) -> tuple[Value, ...]:
    """The values that `node` defines for the blocks that it owns."""
    match node:
        case For():
            return (node.index, *node.params)
        case While():
            return node.params
        case _:
            return ()


def walk(block: Block) -> Iterator[Node]:
    """Every node of `block` and of the blocks inside it, in program order."""
    return _in_order(list(reversed(block.nodes)))


def walk_node(node: Node) -> Iterator[Node]:
    """`node`, then every node of the blocks inside it, in program order."""
    return _in_order([node])


def _in_order(left: list[Node]) -> Iterator[Node]:
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, Op):
            for block in reversed(blocks(node)):
                left.extend(reversed(block.nodes))


def walk_all(kernel: Kernel) -> Iterator[Node]:
    """Every node of the kernel's functions, then of its body."""
    for function in kernel.functions:
        yield from walk(function.body)
    yield from walk(kernel.body)


def with_bodies(kernel: Kernel, change: Callable[[Block], Block]) -> Kernel:
    """The kernel with `change` done to the bodies of its functions and to its own; the same one if nothing changes."""
    functions = tuple(
        f if (made := change(f.body)) is f.body else dataclasses.replace(f, body=made) for f in kernel.functions
    )
    body, same = change(kernel.body), all(f is g for f, g in zip(functions, kernel.functions, strict=True))
    return kernel if same and body is kernel.body else dataclasses.replace(kernel, body=body, functions=functions)


def used_values(body: Block) -> frozenset[Value]:
    """The values that some node or block of `body` reads."""
    read: set[Value] = set()

    def need(xs: tuple[Operand, ...]) -> None:
        read.update([x for x in xs if isinstance(x, Value)])  # constants take long to hash

    need(body.yields)
    for node in walk(body):
        if isinstance(node, Op):
            need(node.args)
        else:
            need(operands(node))
            for block in blocks(node):
                need(block.yields)
    return frozenset(read)


def failure_texts(kernel: Kernel) -> tuple[str, ...]:
    """The messages of the kernel's checks, each once."""
    if isinstance(kernel, KnownKernel):
        return kernel.facts.failure_texts
    checks = (n for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_check)
    return tuple(dict.fromkeys(check.text for check in checks))


def prints(kernel: Kernel) -> bool:
    """True if the kernel prints."""
    if isinstance(kernel, KnownKernel):
        return kernel.facts.prints
    return any(isinstance(n, Op) and n.row.prints for n in walk(kernel.body))


def rounds_as_written(kernel: Kernel) -> bool:
    """True if no two operations may be contracted into one, for the sake of this kernel or of its derivatives.

    Which value an atomic minimum or maximum took, a derivative finds by computing the values once more. They
    must have the same bits again, although other operations around them are left out.
    """
    if isinstance(kernel, KnownKernel):
        return kernel.facts.rounds_as_written
    extrema = (n for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_extremum)
    return kernel.exact or any(kernel.array(n.array).dtype.is_float for n in extrema)


def arrays_read(node: Op) -> tuple[ArrayName, ...]:
    """The arrays whose elements an operation reads; an atomic one reads what it changes."""
    row = node.row
    if not row.reads_elements:
        return ()
    if row.attribute is ArrayNumber:
        return (node.array_name,)
    return tuple(number for role, number in numbers_in(node.attr, row.attribute) if role.reads)


def arrays_changed(node: Op) -> tuple[ArrayName, ...]:
    """The arrays whose elements an operation changes."""
    row = node.row
    if not row.changes_elements:
        return ()
    if row.attribute is ArrayNumber:
        return (node.array_name,)
    return tuple(number for role, number in numbers_in(node.attr, row.attribute) if role.writes)


def is_plain(kernel: Kernel) -> bool:
    """True if nothing in the kernel is for its derivatives only."""
    if isinstance(kernel, KnownKernel):
        return kernel.facts.is_plain
    return not any(isinstance(n, Op) and n.row.derivative.only for n in walk_all(kernel))


def has_native_code(body: Block) -> bool:
    """True if the body contains native code."""
    return any(isinstance(n, Op) and n.row.is_native for n in walk(body))


def renumbered(node: Op, change: Callable[[ArrayName], ArrayName]) -> Op:
    """The operation on other arrays and parameters: `change` says which stands for which."""
    attr = with_numbers(node.attr, node.row.attribute, change)
    return node if attr == node.attr else dataclasses.replace(node, attr=attr)


def changed_arrays(node: Node) -> set[ArrayName]:
    """The arrays that `node`, or what is inside it, changes."""
    if isinstance(node, Op):
        return set(arrays_changed(node)) if node.row.changes_elements else set()
    found: set[ArrayName] = set()
    for block in blocks(node):
        for inner in block.nodes:
            found |= changed_arrays(inner)
    return found


def written_params(kernel: Kernel) -> tuple[int, ...]:
    """Indices of the array parameters that the kernel stores to, ascending."""
    if isinstance(kernel, KnownKernel):
        return kernel.facts.written_params
    changed = {array for node in kernel.body.nodes for array in changed_arrays(node)}
    return tuple(sorted(n for n in changed if isinstance(n, int) and n < len(kernel.params)))


def overlaps_of(kernel: Kernel) -> Callable[[Collection[ArrayName]], Collection[ArrayName]]:
    """A function that adds to arrays of a kernel all parameters that may be the same memory.

    A launch is given parameters that are different arrays, or makes them one (`merge_arrays`). All memory that a kernel
    looks numbers up in has the elements of any of them, as scalars of any type.
    """
    found = frozenset(p for p, param in enumerate(kernel.params) if param.is_array and not param.is_table)
    heaps = frozenset(p for p in found if kernel.params[p].is_heap)
    if not heaps:
        return lambda arrays: arrays

    def overlaps(arrays: Collection[ArrayName]) -> Collection[ArrayName]:
        if not heaps.isdisjoint(arrays):
            return found.union(arrays)
        return arrays if found.isdisjoint(arrays) else heaps.union(arrays)

    return overlaps


def is_found(kernel: Kernel, array: ArrayName) -> bool:
    """True for a parameter that is all memory, whose elements kernels find by numbers."""
    return isinstance(array, int) and array < len(kernel.params) and kernel.params[array].is_heap


def touched_by_gradients(kernel: Kernel) -> frozenset[int]:
    """The arrays that gradients of calls read or add to."""
    return frozenset(number for g in kernel.gradients for kind, number, _ in g.feeds if kind == "array")
