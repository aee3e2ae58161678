"""Functions of a kernel: what they read; puts in line those that are called too seldom, or more for what knows none."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from jwarp.ir.attributes import numbers_in
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import (
    Block,
    For,
    Function,
    If,
    Kernel,
    Node,
    Op,
    Operand,
    Value,
    While,
    blocks,
    overlaps_of,
    walk,
    written_params,
)
from jwarp.ir.visit import Rewriter, with_operands
from jwarp.types import ArrayType

# A function stays out of line where that saves so many operations: machine code is slower with calls in it.
LEAST_SAVED = 128


def inlined(kernel: Kernel) -> Kernel:
    """The kernel with all of its functions where they are called."""
    return _with(kernel, {}) if kernel.functions else kernel


def without_reading_functions(kernel: Kernel) -> Kernel:
    """The kernel with those of its functions in line that read arrays, for what has to see how."""
    if not kernel.functions:
        return kernel
    pure = [number for number, arrays in enumerate(arrays_of_functions(kernel)) if not arrays]
    return _with(kernel, {number: k for k, number in enumerate(pure)})


def arrays_in(node: Op) -> tuple[int, ...]:
    """The arrays that an operation names, by their numbers."""
    row = node.row
    if row.attribute is None:
        return ()
    return tuple(number for role, number in numbers_in(node.attr, row.attribute) if role.what == "array")


def arrays_of_functions(kernel: Kernel) -> list[frozenset[int]]:
    """For each function of a kernel, the parameters that it or what it calls reads elements or extents of."""
    found: list[frozenset[int]] = []
    for function in kernel.functions:
        own: set[int] = set()
        for node in walk(function.body):
            if isinstance(node, Op):
                own |= found[node.number] if node.row.is_call else set(arrays_in(node))
        found.append(frozenset(own))
    return found


def reading_what_changes(kernel: Kernel) -> Function | None:
    """A function that reads something else than parameters that the kernel leaves as they are, if there is one."""
    if not kernel.functions:
        return None
    fixed = frozenset(range(len(kernel.params))).difference(overlaps_of(kernel)(written_params(kernel)))
    reading = zip(kernel.functions, arrays_of_functions(kernel), strict=True)
    return next((function for function, arrays in reading if not arrays <= fixed), None)


def settled_functions(kernel: Kernel) -> Kernel:
    """The kernel with those of its functions in line that save too little, or read arrays that the kernel changes.

    A call is an operation without effect that gives the same wherever it stands. So what it reads must stay the same.
    What reads an array where its thread says does so in line: there it is seen that neighbours read neighbours.
    """
    kernel = _worthwhile(kernel)
    while neighbours := _reading_neighbours(kernel):
        others = [number for number in range(len(kernel.functions)) if number not in neighbours]
        kernel = _with(kernel, {number: k for k, number in enumerate(others)})
    return kernel


def _worthwhile(kernel: Kernel) -> Kernel:
    if not kernel.functions:
        return kernel
    kept: list[int] = []
    sites, arrays, written = (
        _calls(kernel.body),
        arrays_of_functions(kernel),
        frozenset(overlaps_of(kernel)(written_params(kernel))),
    )
    for number in reversed(range(len(kernel.functions))):  # all callers of a function come after it
        count, body = sites.get(number, 0), kernel.functions[number].body
        saves = (count - 1) * sum(1 for _ in walk(body)) >= LEAST_SAVED
        if stays := saves and arrays[number].isdisjoint(written):
            kept.append(number)
        for callee, calls in _calls(body).items():
            sites[callee] = sites.get(callee, 0) + (calls if stays else calls * count)
    return _with(kernel, {number: k for k, number in enumerate(sorted(kept))})


def _reading_neighbours(kernel: Kernel) -> set[int]:
    """The functions that the kernel calls to read elements whose last index follows from a thread's coordinates."""
    places: list[frozenset[int]] = []  # of each function, the parameters from which such an index follows
    for function in kernel.functions:
        places.append(
            frozenset(
                number
                for number, param in enumerate(function.params)
                if param.type.is_int and _reads_neighbour(kernel, function.body, {param}, places)
            )
        )
    if not any(places):
        return set()
    own: set[Value] = set()
    _follow(kernel.body, own)
    return {
        node.number
        for node in walk(kernel.body)
        if isinstance(node, Op) and node.row.is_call and any(node.args[k] in own for k in places[node.number])
    }


def _reads_neighbour(kernel: Kernel, block: Block, own: set[Value], places: Sequence[frozenset[int]]) -> bool:
    """True if a block, or a function that it calls, reads an element whose last index depends on `own`."""
    _follow(block, own)
    for node in walk(block):
        if not isinstance(node, Op):
            continue
        if node.row.is_call:
            if any(node.args[k] in own for k in places[node.number]):
                return True
        elif node.row.is_access and node.array < len(kernel.params):
            kind = kernel.params[node.array].type
            if isinstance(kind, ArrayType) and kind.dims and node.indices[kind.dims - 1] in own:
                return True
    return False


def _follow(block: Block, own: set[Value]) -> None:
    """Add the integers that are calculated, and not read, from those in `own` and from a thread's coordinates."""

    def follow(into: Iterable[Value], values: Iterable[Operand]) -> None:
        own.update(value for value, x in zip(into, values, strict=True) if isinstance(x, Value) and x in own)

    for node in block.nodes:
        match node:
            case Op(result=Value() as result, row=row):
                calculated = row.is_pure and any(isinstance(x, Value) and x in own for x in node.args)
                if result.type.is_int and (calculated or row.threads.differ):
                    own.add(result)
            case If():
                for branch in blocks(node):
                    _follow(branch, own)
                    follow(node.results, branch.yields)
            case For() | While():
                if isinstance(node, For):
                    follow((node.index,), (node.lo,))
                follow(node.params, node.init)
                for inner in blocks(node):
                    _follow(inner, own)
                follow(node.results, node.init)
                follow(node.results, node.body.yields)


def _calls(block: Block) -> dict[int, int]:
    """How often each function is called in a block."""
    found: dict[int, int] = {}
    for node in walk(block):
        if isinstance(node, Op) and node.row.is_call:
            found[node.number] = found.get(node.number, 0) + 1
    return found


def _with(kernel: Kernel, kept: Mapping[int, int]) -> Kernel:
    """The kernel with the functions `kept` under new numbers, and the others in line."""
    if len(kept) == len(kernel.functions):
        return kernel
    inliner = _Inliner(kernel, kept)
    bodies = [inliner.add(function) for function in kernel.functions]
    body = inliner.block(kernel.body)
    resolver = _Resolver(inliner.known)
    functions = [dataclasses.replace(kernel.functions[k], body=resolver.block(bodies[k])) for k in kept]
    return dataclasses.replace(kernel, body=resolver.block(body), functions=tuple(functions))


class _Inliner(Rewriter):
    """Puts functions in the place of their calls, but for those that are kept.

    The only call of a function takes the nodes themselves, and other calls take copies. Operands stay what they were:
    `known` says what parameters and results stand for, so that each node is gone through once, however deep it ends up.
    """

    def __init__(self, kernel: Kernel, kept: Mapping[int, int]):
        self.kept = kept
        self.known: dict[Value, Operand] = {}
        self.made: list[tuple[Function, Block]] = []  # with what it calls in line
        self.yields: dict[Operand, tuple[Operand, ...]] = {}  # of calls, by what stands for them
        self.calls: Counter[int] = Counter()
        for block in (kernel.body, *(function.body for function in kernel.functions)):
            self.calls.update(_calls(block))

    def add(self, function: Function) -> Block:
        """The body of a function, whose callees have been added."""
        self.made.append((function, self.block(function.body)))
        return self.made[-1][1]

    def nodes(self, node: Node) -> Sequence[Node]:
        if not isinstance(node, Op) or not node.row.is_outlined or node.result is None:
            return (self.node(node),)
        if not node.row.is_call:
            if node.args[0] not in self.yields:
                return (node,)
            self.known[node.result] = self.yields[node.args[0]][node.number]
            return ()
        if node.number in self.kept:
            return (dataclasses.replace(node, attr=self.kept[node.number]),)
        function, body = self.made[node.number]
        given = dict(zip(function.params, node.args, strict=True))
        if self.calls[node.number] > 1:
            body = _Copier(given, self.known).block(body)
        else:
            self.known.update(given)
        self.yields[node.result] = body.yields
        return body.nodes


def _resolved(known: dict[Value, Operand], x: Operand) -> Operand:
    """The operand that a value stands for, in any number of steps, which are one step afterwards."""
    steps: list[Value] = []
    while isinstance(x, Value) and (following := known.get(x)) is not None:
        steps.append(x)
        x = following
    for step in steps[:-1]:
        known[step] = x
    return x


class _Copier(Cloner):
    """Copies the body of a function for one of its calls, whose operands are `given` for parameters."""

    def __init__(self, given: dict[Value, Operand], known: dict[Value, Operand]):
        super().__init__(given)
        self.resolved = known

    def operand(self, x: Operand) -> Operand:
        x = _resolved(self.resolved, x)
        return self.known.get(x, x) if isinstance(x, Value) else x

    def operands(self, xs: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple([self.operand(x) for x in xs])


class _Resolver(Rewriter):
    """Writes what values stand for."""

    def __init__(self, known: dict[Value, Operand]):
        self.known = known

    def operand(self, x: Operand) -> Operand:
        return _resolved(self.known, x)

    def block(self, block: Block) -> Block:
        made = super().block(block)
        yields = tuple(map(self.operand, block.yields))
        return made if yields == made.yields else Block(made.nodes, yields)

    def nodes(self, node: Node) -> Sequence[Node]:
        return (with_operands(self.node(node), self.operand),)
