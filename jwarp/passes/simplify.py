"""Makes a kernel smaller: folds, shares, and drops what nothing needs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable

from jwarp.caches import Cache
from jwarp.ir.attributes import ArrayName
from jwarp.ir.builder import FALSE, TRUE, simplify_op
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    If,
    Kernel,
    Node,
    Op,
    Operand,
    Value,
    While,
    arrays_changed,
    arrays_read,
    blocks,
    overlaps_of,
    walk,
    with_bodies,
)
from jwarp.ir.unchanged import unchanged
from jwarp.ir.visit import Rebuilder, same_code, with_args
from jwarp.passes.liveness import at, drop_unused, with_yields

# True if a block of a branch may run although the branch is not taken.
Flattened = Callable[[Block], bool]
# Arrays with all that may be the same memory.
Overlaps = Callable[[Collection[ArrayName]], Collection[ArrayName]]

MAX_ROUNDS = 4
# A body of more nodes is gone through again only if the last time changed their number by this part: what is left to
# find is rarely worth the time.
LONG_BODY, LEAST_CHANGE = 2000, 32
# A branch of at most this many pure operations costs less than jumping over it.
MAX_FLATTENED_OPS = 8


def simplify(kernel: Kernel, *, flatten: Flattened | None = None) -> Kernel:
    """`kernel` with constants folded, repeated operations shared and unused ones dropped.

    Branches become selects where `flatten` says so of both blocks.
    """
    overlaps = overlaps_of(kernel)
    return with_bodies(kernel, lambda body: _simplified(body, flatten, overlaps))


# Bodies that nothing is left to do in: one pass after another asks for them.
_settled: Cache[Block, bool] = Cache("simplified bodies", 16)


def _simplified(body: Block, flatten: Flattened | None, overlaps: Overlaps) -> Block:
    if _settled.get(body) and not _may_flatten(body, flatten):
        return body
    for _ in range(MAX_ROUNDS):
        simplifier = _Simplifier(flatten, overlaps)
        made = drop_unused(simplifier.block(body))
        same = same_code(made, body)
        # Each operation is looked at when all is known that comes before it. So only where branches or loops have
        # become others is there something to find for a second look; in a long body, where many have.
        settled = same or (not simplifier.reshapes and _shape(made) == _shape(body))
        if not settled and (size := _size(body)) > LONG_BODY:
            settled = abs(size - _size(made)) < size // LEAST_CHANGE
        body = body if same else made
        if settled:
            _settled.replace(body, True)
            break
    return body


def _may_flatten(body: Block, flatten: Flattened | None) -> bool:
    """True if some branch may become selects."""
    return flatten is not None and any(isinstance(n, If) and flatten(n.then) and flatten(n.orelse) for n in walk(body))


def _size(body: Block) -> int:
    return sum(1 for _ in walk(body))


def _shape(block: Block) -> tuple:
    """The branches and loops of a block, and how many values each of them has."""
    inner = ((len(n.results), *map(_shape, blocks(n))) for n in block.nodes if not isinstance(n, Op))
    return tuple(inner)


class _Simplifier(Rebuilder):
    """Rewrites in program order, with what is known at each point in scoped tables."""

    def __init__(self, flatten: Flattened | None, overlaps: Overlaps):
        super().__init__()
        self.flatten, self.overlaps = flatten, overlaps
        self.definitions: dict[Value, Op] = {}
        # Operations that can be shared, and those that the blocks that are open have added.
        self.seen: dict[tuple, Value] = {}
        self.added: list[tuple] = []
        # A number for what the elements of an array are now: loads that have it in common give the same.
        self.contents: dict[ArrayName, int] = {}
        self.numbers = itertools.count(1)
        self.changed: dict[Node, frozenset[ArrayName]] = {}  # by control flow
        self.reshapes = False  # whether there are other branches and loops now, or loops that carry less

    def operand(self, x: Operand) -> Operand:
        while isinstance(x, Value) and x in self.known:
            x = self.known[x]
        return x

    def operands(self, xs: Iterable[Operand]) -> tuple[Operand, ...]:
        known = self.known
        return tuple([x if isinstance(x, Const) or x not in known else self.operand(x) for x in xs])

    def block(self, block: Block, facts: Iterable[tuple[Operand, Const]] = ()) -> Block:
        """Rewrite a block that runs where `facts` hold."""
        contents, start, learnt = dict(self.contents), len(self.added), list[tuple[Value, Operand | None]]()
        for value, constant in facts:
            self.learn(value, constant, learnt)
        result = super().block(block)
        for key in self.added[start:]:
            del self.seen[key]
        del self.added[start:]
        for x, before in reversed(learnt):
            if before is None:
                del self.known[x]
            else:
                self.known[x] = before
        self.contents = contents
        return result

    def learn(self, x: Operand, constant: Const, learnt: list[tuple[Value, Operand | None]]) -> None:
        """Note that `x`, a bool, has a known value here, and what that says of its parts.

        To `learnt` goes what was known before of each value.
        """
        if not isinstance(x, Value):
            return
        learnt.append((x, self.known.get(x)))
        self.known[x] = constant
        definition = self.definitions.get(x)
        if definition is None:
            return
        if definition.row.is_complement:
            self.learn(definition.args[0], Const(constant.type, not constant.value), learnt)
        elif definition.row.numeric.absorbs is (not constant.value):
            for arg in definition.args:
                self.learn(arg, constant, learnt)

    def nodes(self, block: Block) -> None:
        builder = self.builder
        for node in block.nodes:
            builder.span = node.span
            if isinstance(node, Op):  # most nodes are
                self.op(node)
                if node.row.changes_elements:
                    self.forget_loads(arrays_changed(node))
            else:
                self.node(node)
                self.forget_loads(self.changed_by(node))

    def changed_by(self, node: Node) -> Collection[ArrayName]:
        """The arrays that a node of the kernel, or what is inside it, changes."""
        if isinstance(node, Op):
            return arrays_changed(node)
        found = self.changed.get(node)
        if found is None:
            inner = (self.changed_by(inside) for block in blocks(node) for inside in block.nodes)
            found = self.changed[node] = frozenset(itertools.chain.from_iterable(inner))
        return found

    def forget_loads(self, arrays: Collection[ArrayName]) -> None:
        """Stop sharing loads of `arrays`, whose content changes here."""
        for array in self.overlaps(arrays):
            self.contents[array] = next(self.numbers)

    def op(self, node: Op) -> None:
        args, row, result = self.operands(node.args), node.row, node.result
        made = with_args(node, args)
        if result is None or not row.is_shared:
            self.builder.append(made)
            return
        type = result.type
        folded = simplify_op(node.name, args, type)
        if folded is not None:
            self.known[result] = folded
            return
        contents = [self.contents.get(array, 0) for array in arrays_read(node)] if row.reads_elements else ()
        key = (node.name, node.attr, args, type, *contents)
        first = self.seen.setdefault(key, result)
        if first is not result:
            self.known[result] = first
            return
        self.added.append(key)
        if type.kind == "bool":
            self.definitions[result] = made
        self.builder.append(made)

    def branch(self, node: If) -> None:
        cond = self.operand(node.cond)
        if isinstance(cond, Const):
            self.reshapes = True
            taken = node.then if cond.value else node.orelse
            self.nodes(taken)
            self.known.update(zip(node.results, self.operands(taken.yields), strict=True))
            return
        then = self.block(node.then, [(cond, Const(cond.type, True))])
        orelse = self.block(node.orelse, [(cond, Const(cond.type, False))])
        kept = []
        for k, result in enumerate(node.results):
            x, y = then.yields[k], orelse.yields[k]
            if x is y or x == y:
                self.known[result] = x
            elif (x, y) == (TRUE, FALSE):
                self.known[result] = cond
            else:
                kept.append(k)
        self.reshapes |= len(kept) < len(node.results)
        flat = self.flatten is not None and self.flatten(then) and self.flatten(orelse)
        if flat or not (then.nodes or orelse.nodes):
            self.reshapes = True
            self.builder.extend([*then.nodes, *orelse.nodes])
            self.builder.span = node.span
            for k in kept:
                self.known[node.results[k]] = self.select(cond, then.yields[k], orelse.yields[k])
            return
        sides = with_yields(then, kept), with_yields(orelse, kept)
        self.builder.append(If(cond, *sides, at(node.results, kept), node.span))

    def select(self, cond: Operand, x: Operand, y: Operand) -> Operand:
        """select, written as logic where a bool is chosen against a constant."""
        op = self.builder.op
        if x == TRUE:
            return op("or", cond, y)
        if y == FALSE:
            return op("and", cond, x)
        if x == FALSE:
            return op("and", op("not", cond), y)
        if y == TRUE:
            return op("or", op("not", cond), x)
        return op("select", cond, x, y)

    def constant_params(self, node: For | While) -> list[int]:
        """Settle the carried values that never change; return the positions of the others."""
        found = unchanged(node, self.operand)
        for k, value in found.items():
            self.known[node.params[k]] = self.known[node.results[k]] = value
        return [k for k in range(len(node.params)) if k not in found]

    def loop(self, node: For | While) -> None:
        changed = self.changed_by(node)
        if isinstance(node, For):
            lo, hi = self.operand(node.lo), self.operand(node.hi)
            if isinstance(lo, Const) and isinstance(hi, Const) and not range(lo.value, hi.value, node.step):
                self.reshapes = True
                self.known.update(zip(node.results, self.operands(node.init), strict=True))
                return
            node = dataclasses.replace(node, lo=lo, hi=hi)
        kept = self.constant_params(node)
        is_less = len(kept) < len(node.params)
        self.forget_loads(changed)  # in later iterations the loop's own stores come before its loads
        init, params, made = self.operands(at(node.init, kept)), at(node.params, kept), at(node.results, kept)
        if isinstance(node, For):
            body = with_yields(self.block(node.body), kept)
            lanes = None if node.lanes is None else at(node.lanes, kept)
            node = dataclasses.replace(node, params=params, init=init, body=body, results=made, lanes=lanes)
        else:
            cond, body = self.block(node.cond), with_yields(self.block(node.body), kept)
            node = dataclasses.replace(node, params=params, init=init, cond=cond, body=body, results=made)
        # A carried value may turn out to be constant only now.
        self.reshapes |= is_less or bool(unchanged(node, self.operand))
        self.builder.append(node)


def is_cheap(block: Block) -> bool:
    """True if a block is small and without effects. That is for code generation only, for a derivative must not run the
    branch that was not taken: zero times an infinite slope is NaN."""
    cheap = (isinstance(n, Op) and n.row.is_pure and not n.row.code.is_elementary for n in block.nodes)
    return len(block.nodes) <= MAX_FLATTENED_OPS and all(cheap)


def has_finite_slopes(block: Block) -> bool:
    """True if all slopes of a block are finite, so that a derivative may run it speculatively.

    Of an operation that makes no NaN of anything, the slopes are finite.
    """
    return all(
        isinstance(n, Op)
        and n.row.is_pure
        and n.result is not None
        and not (n.row.makes_nan and n.result.type.is_float)
        for n in block.nodes
    )
