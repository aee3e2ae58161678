"""Finds blocks of a kernel that do the same with other values, as inlined copies of a function do."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jwarp.ir.nodes import Block, Const, For, If, Kernel, Node, Op, Operand, Value, While, blocks, operands, results
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
    """A block, how many nodes it has, a number that blocks have in common which may be the same, and those inside."""

    block: Block
    size: int
    key: int
    inner: list[_Seen]
    is_dead: bool = False  # a part of what will be a call

    def kill(self) -> None:
        self.is_dead = True
        for inner in self.inner:
            inner.kill()


# The property of a node or value that must be equal in all copies; None if it cannot be a copy.
Known = Callable[[Op], object]
KnownOfValue = Callable[[Value], object]


def repeated_blocks(kernel: Kernel, known: Known, of_value: KnownOfValue) -> dict[Block, Repeat]:
    """The blocks of a kernel's body that are repeated; of those inside others, the ones outside are taken.

    Copies have operations of the same names and attributes, of which, as of the values, the same is `known`.
    """
    finder = _Finder(known, of_value)
    finder.seen(kernel.body)
    found: dict[Block, Repeat] = {}
    number = 0
    dims = [param.type.dims if isinstance(param.type, ArrayType) else 0 for param in kernel.params]
    for group in sorted(finder.groups(), key=lambda g: -g[0].size):
        copies: dict[tuple[object, ...], list[tuple[_Seen, _Spelling]]] = {}
        for seen in group:
            if not seen.is_dead:
                spelling = _Spelling(known, of_value, dims).of(seen.block)
                copies.setdefault(tuple(spelling.tokens), []).append((seen, spelling))
        for alike in copies.values():
            if len(alike) < LEAST_COPIES:
                continue
            model, first = alike[0]
            places = [k for k, x in enumerate(first.constants) if any(own.constants[k] != x for _, own in alike)]
            passed = len(first.free) + len(places) + len(first.results)
            if (len(alike) - 1) * model.size - len(alike) * passed < LEAST_SAVED:
                continue
            others = {k: Value(first.constants[k].type) for k in places}
            block = _Lifting(others, dims).block(model.block) if others else model.block
            params = (*first.free, *others.values())
            for seen, own in alike:
                given: tuple[Operand, ...] = (*own.free, *(own.constants[k] for k in places))
                found[seen.block] = Repeat(
                    number, block, model.block, params, given, tuple(first.results), tuple(own.results)
                )
            for seen, _ in alike[1:]:
                for inner in seen.inner:
                    inner.kill()
            number += 1
    return found


class _Finder:
    """Goes through a body once and notes which blocks may be copies."""

    def __init__(self, known: Known, of_value: KnownOfValue):
        self.known, self.of_value = known, of_value
        self.by_key: dict[tuple[int, int], list[_Seen]] = {}

    def groups(self) -> Iterator[list[_Seen]]:
        return (group for group in self.by_key.values() if len(group) >= LEAST_COPIES)

    def seen(self, block: Block) -> _Seen | None:
        """The shape of a block for comparison; None if it cannot be a copy. Blocks inside of it may be."""
        size, parts, inner, may_be = 0, [], [], True
        for node in block.nodes:
            size += 1
            if isinstance(node, Op):
                known = self.known(node)
                may_be &= known is not None
                parts.append((node.name, known))
            else:
                parts.append(type(node).__name__)  # type: ignore[arg-type]
                may_be &= all(self.of_value(v) is not None for v in _bound(node))
                for part in blocks(node):
                    one = self.seen(part)
                    if one is None:
                        may_be = False
                    else:
                        size += one.size
                        parts.append(one.key)  # type: ignore[arg-type]
                        inner.append(one)
        if not may_be:
            return None
        made = _Seen(block, size, hash(tuple(parts)), inner)
        if size >= LEAST_SIZE:
            self.by_key.setdefault((made.key, size), []).append(made)
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


@dataclass
class _Spelling:
    """A block word by word: equal for two blocks that do the same with their `free` values."""

    known: Known
    of_value: KnownOfValue
    dims: Sequence[int]
    tokens: list[object] = field(default_factory=list)
    free: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    constants: list[Const] = field(default_factory=list)  # those that copies may have others of
    numbers: dict[Value, int] = field(default_factory=dict)  # of the values; those from outside are negative

    def of(self, block: Block) -> _Spelling:
        for node in block.nodes:
            self.node(node)
        made = {r for node in block.nodes for r in results(node)}
        self.results = list(dict.fromkeys(y for y in block.yields if isinstance(y, Value) and y in made))
        self.tokens += [self.numbers[r] for r in self.results]
        return self

    def node(self, node: Node) -> None:
        tokens = self.tokens
        if isinstance(node, Op):
            tokens += (node.name, node.attr, self.known(node))
            free = _liftable(node, self.dims)
            for k, x in enumerate(node.args):
                if k in free and isinstance(x, Const):
                    tokens.append(x.type)
                    self.constants.append(x)
                else:
                    self.read((x,))
            self.bind(() if node.result is None else (node.result,))
            return
        tokens.append(type(node).__name__)
        if isinstance(node, For):
            tokens += (node.step, node.lanes)
        self.read(operands(node))
        if not isinstance(node, If):
            self.bind((*((node.index,) if isinstance(node, For) else ()), *node.params))
        for block in blocks(node):
            tokens.append("(")
            for inner in block.nodes:
                self.node(inner)
            tokens.append(")")
            self.read(block.yields)
        self.bind(node.results)

    def read(self, given: Iterable[Operand]) -> None:
        for x in given:
            if isinstance(x, Const):
                self.tokens.append(x)
                continue
            number = self.numbers.get(x)
            if number is None:
                number = self.numbers[x] = -1 - len(self.free)
                self.free.append(x)
                self.tokens += (x.type, self.of_value(x))
            self.tokens.append(number)

    def bind(self, made: Iterable[Value]) -> None:
        for value in made:
            self.numbers[value] = len(self.numbers)
            self.tokens += (value.type, self.of_value(value))
