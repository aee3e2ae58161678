"""Makes a kernel smaller: folds, shares, and drops what nothing needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jwarp.ir.attributes import ArrayName
from jwarp.ir.builder import FALSE, TRUE, Builder, make_block, simplify_op
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
    blocks,
    changed_arrays,
    results,
    walk_node,
)
from jwarp.ir.ops import ELEMENTARY, OPS
from jwarp.types import bool_, scalar_of

MAX_ROUNDS = 4
# A branch of at most this many pure operations costs less than jumping over it.
MAX_FLATTENED_OPS = 8


def simplify(kernel: Kernel, *, flatten_branches: bool = False) -> Kernel:
    """`kernel` with constants folded, repeated operations shared and unused ones dropped.

    With `flatten_branches`, small branches without effects become selects. That is for code
    generation only: a derivative must not run the branch that was not taken.
    """
    for _ in range(MAX_ROUNDS):
        body = drop_unused(_Rewriter(flatten_branches).block(kernel.body))
        if body == kernel.body:
            break
        kernel = dataclasses.replace(kernel, body=body)
    return kernel


class _Rewriter:
    """Rewrites in program order, with what is known at each point in scoped tables."""

    def __init__(self, flatten_branches: bool):
        self.flatten_branches = flatten_branches
        self.builder = Builder()
        self.known: dict[Value, Operand] = {}
        self.seen: dict[tuple, Value] = {}
        self.definitions: dict[Value, Op] = {}

    def operand(self, x: Operand) -> Operand:
        while isinstance(x, Value) and x in self.known:
            x = self.known[x]
        return x

    def all(self, xs: Iterable[Operand]) -> tuple[Operand, ...]:
        return tuple(self.operand(x) for x in xs)

    def block(self, block: Block, facts: Iterable[tuple[Operand, Const]] = ()) -> Block:
        """Rewrite a block that runs where `facts` hold."""
        known, seen = dict(self.known), dict(self.seen)
        for value, constant in facts:
            self.learn(value, constant)
        with self.builder.block() as nodes:
            for node in block.nodes:
                self.node(node)
            result = make_block(nodes, self.all(block.yields))
        self.known, self.seen = known, seen
        return result

    def learn(self, x: Operand, constant: Const) -> None:
        """Note that `x`, a bool, has a known value here, and what that says of its parts."""
        if not isinstance(x, Value):
            return
        self.known[x] = constant
        definition = self.definitions.get(x)
        if definition is None:
            return
        if definition.name == "not":
            self.learn(definition.args[0], Const(constant.type, not constant.value))
        elif definition.name == ("and" if constant.value else "or"):
            for arg in definition.args:
                self.learn(arg, constant)

    def node(self, node: Node) -> None:
        match node:
            case Op():
                self.op(node)
            case If():
                self.branch(node)
            case For():
                self.counted(node)
            case While():
                self.conditional(node)
        self.forget_loads(changed_arrays(node))

    def forget_loads(self, arrays: set[ArrayName]) -> None:
        """Stop sharing loads of `arrays`, whose content changes here."""
        if arrays:
            self.seen = {k: v for k, v in self.seen.items() if k[0] != "load" or k[1] not in arrays}

    def op(self, node: Op) -> None:
        args = self.all(node.args)
        effect = OPS[node.name].effect
        if node.result is None or effect not in ("pure", "tile", "read"):
            self.builder.append(dataclasses.replace(node, args=args))
            return
        folded = simplify_op(node.name, args, node.result.type)
        key = (node.name, node.attr, args, node.result.type)
        if folded is None:
            folded = self.seen.get(key)
        if folded is not None:
            self.known[node.result] = folded
            return
        self.seen[key] = node.result
        made = dataclasses.replace(node, args=args)
        if scalar_of(node.result.type) is bool_:
            self.definitions[node.result] = made
        self.builder.append(made)

    def branch(self, node: If) -> None:
        cond = self.operand(node.cond)
        if isinstance(cond, Const):
            taken = node.then if cond.value else node.orelse
            for inner in taken.nodes:
                self.node(inner)
            self.known.update(zip(node.results, self.all(taken.yields), strict=True))
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
        flat = self.flatten_branches and _is_cheap(then) and _is_cheap(orelse)
        if flat or not (then.nodes or orelse.nodes):
            self.builder.extend([*then.nodes, *orelse.nodes])
            self.builder.span = node.span
            for k in kept:
                self.known[node.results[k]] = self.select(cond, then.yields[k], orelse.yields[k])
            return
        self.builder.append(
            If(cond, _keep(then, kept), _keep(orelse, kept), tuple(node.results[k] for k in kept), node.span)
        )

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
        kept = []
        init = self.all(node.init)
        for k, param in enumerate(node.params):
            following = node.body.yields[k]
            if following is param or (isinstance(following, Const) and following == init[k]):
                self.known[param] = self.known[node.results[k]] = init[k]
            else:
                kept.append(k)
        return kept

    def counted(self, node: For) -> None:
        lo, hi = self.operand(node.lo), self.operand(node.hi)
        if isinstance(lo, Const) and isinstance(hi, Const) and not range(lo.value, hi.value, node.step):
            self.known.update(zip(node.results, self.all(node.init), strict=True))
            return
        kept = self.constant_params(node)
        self.forget_loads(changed_arrays(node))  # in later trips the loop's own stores come before its loads
        init = self.all(node.init[k] for k in kept)
        body = _keep(self.block(node.body), kept)
        params, made = (tuple(vs[k] for k in kept) for vs in (node.params, node.results))
        lanes = None if node.lanes is None else tuple(node.lanes[k] for k in kept)
        self.builder.append(For(node.index, lo, hi, node.step, params, init, body, made, node.span, lanes))

    def conditional(self, node: While) -> None:
        kept = self.constant_params(node)
        self.forget_loads(changed_arrays(node))  # in later trips the loop's own stores come before its loads
        init = self.all(node.init[k] for k in kept)
        cond, body = self.block(node.cond), _keep(self.block(node.body), kept)
        params, made = (tuple(vs[k] for k in kept) for vs in (node.params, node.results))
        self.builder.append(While(params, init, cond, body, made, node.span))


def _keep(block: Block, positions: list[int]) -> Block:
    return Block(block.nodes, tuple(block.yields[k] for k in positions))


def _is_cheap(block: Block) -> bool:
    cheap = (isinstance(n, Op) and OPS[n.name].effect == "pure" and n.name not in ELEMENTARY for n in block.nodes)
    return len(block.nodes) <= MAX_FLATTENED_OPS and all(cheap)


def drop_unused(body: Block) -> Block:
    """`body` without operations, branches, loops and carried values that nothing needs."""
    needed = {x for x in body.yields if isinstance(x, Value)}
    before = -1
    while len(needed) != before:  # loops hand values back to their start
        before = len(needed)
        _mark(body, needed)
    return _sweep(body, needed)


def _has_effect(node: Node) -> bool:
    return any(isinstance(n, Op) and n.row.is_lasting for n in walk_node(node))


def _is_needed(node: Node, needed: set[Value]) -> bool:
    return _has_effect(node) or any(r in needed for r in results(node))


def _need(xs: Iterable[Operand], needed: set[Value]) -> None:
    needed.update(x for x in xs if isinstance(x, Value))


def _carried(node: For | While, needed: set[Value]) -> list[int]:
    """Positions of the carried values that something needs."""
    pairs = zip(node.params, node.results, strict=True)
    return [k for k, (param, result) in enumerate(pairs) if param in needed or result in needed]


def _mark(block: Block, needed: set[Value]) -> None:
    for node in reversed(block.nodes):
        if not _is_needed(node, needed):
            continue
        match node:
            case Op():
                _need(node.args, needed)
            case If():
                _need([node.cond], needed)
                for k, result in enumerate(node.results):
                    if result in needed:
                        _need([node.then.yields[k], node.orelse.yields[k]], needed)
            case For() | While():
                bounds = node.cond.yields if isinstance(node, While) else (node.lo, node.hi)
                _need(bounds, needed)
                for k in _carried(node, needed):
                    _need([node.init[k], node.body.yields[k]], needed)
        for inner in blocks(node):
            _mark(inner, needed)


def _sweep(block: Block, needed: set[Value]) -> Block:
    nodes: list[Node] = []
    for node in block.nodes:
        if not _is_needed(node, needed):
            continue
        match node:
            case Op():
                nodes.append(node)
            case If():
                kept = [k for k, r in enumerate(node.results) if r in needed]
                then, orelse = (_sweep(_keep(b, kept), needed) for b in (node.then, node.orelse))
                nodes.append(If(node.cond, then, orelse, tuple(node.results[k] for k in kept), node.span))
            case For() | While():
                kept = _carried(node, needed)
                params, made = (tuple(v[k] for k in kept) for v in (node.params, node.results))
                init = tuple(node.init[k] for k in kept)
                body = _sweep(_keep(node.body, kept), needed)
                loop = dataclasses.replace(node, params=params, init=init, results=made, body=body)
                if isinstance(loop, For) and loop.lanes is not None:
                    loop = dataclasses.replace(loop, lanes=tuple(loop.lanes[k] for k in kept))
                if isinstance(loop, While):
                    loop = dataclasses.replace(loop, cond=_sweep(loop.cond, needed))
                nodes.append(loop)
    return Block(tuple(nodes), block.yields)
