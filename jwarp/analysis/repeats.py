"""Finds blocks of a kernel that do the same with other values, as inlined copies of a function do."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jwarp.ir.nodes import Block, Const, For, If, Kernel, Op, Operand, Value, While, blocks, operands
from jwarp.ir.visit import Rewriter, with_args
from jwarp.types import ArrayType

# Operations that sharing saves at least; a block that is looked at has as many.
LEAST_SAVED, LEAST_SIZE = 64, 20
LEAST_COPIES = 2


@dataclass(frozen=True)
class Repeat:
    """A block that does with `given` what `first` does with `params`; it yields `results` where that yields `made`.

    Where copies have other constants as indices or as what they store, these are params, too: `first` is then made of
    one of the copies, `model`.
    """

    number: int
    first: Block
    model: Block
    params: tuple[Value, ...]
    given: tuple[Operand, ...]
    made: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclass(eq=False)
class _Seen:
    """A block that may be a copy, as one who reads it from outside sees it.

    Blocks of one `form` do the same with their `free` values, in the order of these, and with their `constants`. The
    form does not say what they yield: `numbers` are those of the values that they make.
    """

    block: Block
    size: int  # nodes
    form: int
    free: tuple[Value, ...]
    constants: tuple[Const, ...]  # that copies may have others of
    numbers: dict[Value, int]
    inner: list[_Seen]
    is_dead: bool = False  # a part of what will be a call

    def kill(self) -> None:
        """Note that a call takes the place of the blocks around it."""
        if not self.is_dead:
            self.is_dead = True
            for inner in self.inner:
                inner.kill()

    @property
    def results(self) -> tuple[Value, ...]:
        """The values that it makes and yields."""
        return tuple(dict.fromkeys(y for y in self.block.yields if isinstance(y, Value) and y in self.numbers))


# The property of a node or value that must be equal in all copies; None if it cannot be a copy.
Known = Callable[[Op], object]
KnownOfValue = Callable[[Value], object]


def repeated_blocks(kernel: Kernel, known: Known, of_value: KnownOfValue) -> dict[Block, Repeat]:
    """The blocks of a kernel's body that are repeated; of those inside others, the ones outside are taken.

    Copies have operations of the same names and attributes, of which, as of the values, the same is `known`. Each node
    is read once, however deep it stands.
    """
    dims = [param.type.dims if isinstance(param.type, ArrayType) else 0 for param in kernel.params]
    reader = _Reader(known, of_value, dims)
    reader.seen(kernel.body)
    found: dict[Block, Repeat] = {}
    number = 0
    for group in sorted(reader.groups(), key=lambda g: -g[0].size):
        alike = [seen for seen in group if not seen.is_dead]
        if len(alike) < LEAST_COPIES:
            continue
        first = alike[0]
        places = [k for k, x in enumerate(first.constants) if any(own.constants[k] != x for own in alike)]
        passed = len(first.free) + len(places) + len(first.results)
        if (len(alike) - 1) * first.size - len(alike) * passed < LEAST_SAVED:
            continue
        others = {k: Value(first.constants[k].type) for k in places}
        block = _Lifting(others, dims).block(first.block) if others else first.block
        params = (*first.free, *others.values())
        for own in alike:
            given: tuple[Operand, ...] = (*own.free, *(own.constants[k] for k in places))
            found[own.block] = Repeat(number, block, first.block, params, given, first.results, own.results)
        for own in alike[1:]:
            for inner in own.inner:
                inner.kill()
        number += 1
    return found


class _Reader:
    """Reads a body once, from the inside to the outside, and gives equal blocks one form."""

    def __init__(self, known: Known, of_value: KnownOfValue, dims: Sequence[int]):
        self.known, self.of_value, self.dims = known, of_value, dims
        self._forms: dict[tuple[object, ...], int] = {}
        self._alike: dict[tuple[int, tuple[int, ...]], list[_Seen]] = {}

    def groups(self) -> Iterator[list[_Seen]]:
        """The blocks that are equal, and yield equal results."""
        return (group for group in self._alike.values() if len(group) >= LEAST_COPIES)

    def seen(self, block: Block) -> _Seen | None:
        """Read a block: None if it cannot be a copy. Blocks inside of it may be."""
        spelling, size, inner = _Spelling(self.of_value), 0, []
        may_be = True
        for node in block.nodes:
            size += 1
            if isinstance(node, Op):
                known = self.known(node)
                may_be &= known is not None
                if may_be:
                    spelling.op(node, known, _liftable(node, self.dims))
                continue
            may_be &= all(self.of_value(v) is not None for v in _bound(node))
            parts = [self.seen(part) for part in blocks(node)]
            whole = [part for part in parts if part is not None]
            inner += whole
            size += sum(part.size for part in whole)
            may_be &= len(whole) == len(parts)
            if may_be:
                spelling.control_flow(node, whole)
        if not may_be:
            return None
        form = self._forms.setdefault(tuple(spelling.tokens), len(self._forms))
        made = _Seen(block, size, form, tuple(spelling.free), tuple(spelling.constants), spelling.numbers, inner)
        if size >= LEAST_SIZE:
            results = tuple(made.numbers[r] for r in made.results)
            self._alike.setdefault((form, results), []).append(made)
        return made


def _liftable(node: Op, dims: Sequence[int]) -> Container[int]:
    """The operands of an access that may be any number: indices of elements, but not of components, and what it writes.

    Those of other operations are known so that code for them can be simpler.
    """
    if not node.row.is_access:
        return ()
    return {*range(dims[node.array]), *range(len(node.indices), len(node.args))}


class _Lifting(Rewriter):
    """Puts values in the place of constants, by their number among those that may be any."""

    def __init__(self, others: Mapping[int, Value], dims: Sequence[int]):
        self.others, self.dims, self.count = others, dims, 0

    def op(self, node: Op) -> Op:
        free, args = _liftable(node, self.dims), list(node.args)
        for k, x in enumerate(args):
            if k in free and isinstance(x, Const):
                args[k] = self.others.get(self.count, x)
                self.count += 1
        return with_args(node, tuple(args))


def _bound(node: If | For | While) -> tuple[Value, ...]:
    """The values that control flow defines itself."""
    if isinstance(node, If):
        return node.results
    return (*((node.index,) if isinstance(node, For) else ()), *node.params, *node.results)


class _Spelling:
    """A block word by word: equal for two blocks that do the same with their `free` values.

    A block inside of it is one word, its form, so that a word is never read again further out.
    """

    def __init__(self, of_value: KnownOfValue):
        self._of_value = of_value
        self.tokens: list[object] = []
        self.free: list[Value] = []
        self.constants: list[Const] = []
        self.numbers: dict[Value, int] = {}  # of the values that it makes
        self._outside: dict[Value, int] = {}  # of the free ones, negative

    def op(self, node: Op, known: object, free: Container[int]) -> None:
        """Spell an operation, whose constant operands `free` may differ."""
        self.tokens += (node.name, node.attr, known)
        for k, x in enumerate(node.args):
            if k in free and isinstance(x, Const):
                self.tokens.append(x.type)
                self.constants.append(x)
            else:
                self._read((x,))
        self._bind(() if node.result is None else (node.result,))

    def control_flow(self, node: If | For | While, parts: Iterable[_Seen]) -> None:
        """Spell a branch or a loop, whose blocks are known."""
        self.tokens.append(type(node).__name__)
        if isinstance(node, For):
            self.tokens += (node.step, node.lanes)
        self._read(operands(node))
        if not isinstance(node, If):
            self._bind((*((node.index,) if isinstance(node, For) else ()), *node.params))
        for part in parts:
            self.tokens += ("(", part.form)
            self._read(part.free)
            self.constants += part.constants
            self.tokens.append(")")
            for y in part.block.yields:
                inside = part.numbers.get(y) if isinstance(y, Value) else None
                if inside is None:
                    self._read((y,))
                else:
                    self.tokens += ("inside", inside)
        self._bind(node.results)

    def _read(self, given: Iterable[Operand]) -> None:
        for x in given:
            if isinstance(x, Const):
                self.tokens.append(x)
                continue
            number = self.numbers.get(x)
            if number is None:
                number = self._outside.get(x)
            if number is None:
                number = self._outside[x] = -1 - len(self.free)
                self.free.append(x)
                self.tokens += (x.type, self._of_value(x))
            self.tokens.append(number)

    def _bind(self, made: Iterable[Value]) -> None:
        for value in made:
            self.numbers[value] = len(self.numbers)
            self.tokens += (value.type, self._of_value(value))
