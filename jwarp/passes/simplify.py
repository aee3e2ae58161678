"""Makes a kernel smaller: folds, shares, and drops what nothing needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jwarp.ir.attributes import ArrayName
from jwarp.ir.builder import FALSE, TRUE, simplify_op
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Node, Op, Operand, Value, While, changed_arrays
from jwarp.ir.ops import OPS
from jwarp.ir.visit import Rebuilder
from jwarp.passes.liveness import at, drop_unused, with_yields
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
        body = drop_unused(_Simplifier(flatten_branches).block(kernel.body))
        if body == kernel.body:
            break
        kernel = dataclasses.replace(kernel, body=body)
    return kernel


class _Simplifier(Rebuilder):
    """Rewrites in program order, with what is known at each point in scoped tables."""

    def __init__(self, flatten_branches: bool):
        super().__init__()
        self.flatten_branches = flatten_branches
        self.seen: dict[tuple, Value] = {}
        self.definitions: dict[Value, Op] = {}

    def operand(self, x: Operand) -> Operand:
        while isinstance(x, Value) and x in self.known:
            x = self.known[x]
        return x

    def block(self, block: Block, facts: Iterable[tuple[Operand, Const]] = ()) -> Block:
        """Rewrite a block that runs where `facts` hold."""
        known, seen = dict(self.known), dict(self.seen)
        for value, constant in facts:
            self.learn(value, constant)
        result = super().block(block)
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
        super().node(node)
        self.forget_loads(changed_arrays(node))

    def forget_loads(self, arrays: set[ArrayName]) -> None:
        """Stop sharing loads of `arrays`, whose content changes here."""
        if arrays:
            self.seen = {k: v for k, v in self.seen.items() if k[1] not in arrays or not OPS[k[0]].reads_elements}

    def op(self, node: Op) -> None:
        args = self.operands(node.args)
        row = node.row
        if node.result is None or not (row.is_pure or row.is_tile or row.effect == "read"):
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
        flat = self.flatten_branches and _is_cheap(then) and _is_cheap(orelse)
        if flat or not (then.nodes or orelse.nodes):
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
        kept = []
        init = self.operands(node.init)
        for k, param in enumerate(node.params):
            following = node.body.yields[k]
            if following is param or (isinstance(following, Const) and following == init[k]):
                self.known[param] = self.known[node.results[k]] = init[k]
            else:
                kept.append(k)
        return kept

    def loop(self, node: For | While) -> None:
        if isinstance(node, For):
            lo, hi = self.operand(node.lo), self.operand(node.hi)
            if isinstance(lo, Const) and isinstance(hi, Const) and not range(lo.value, hi.value, node.step):
                self.known.update(zip(node.results, self.operands(node.init), strict=True))
                return
            node = dataclasses.replace(node, lo=lo, hi=hi)
        kept = self.constant_params(node)
        self.forget_loads(changed_arrays(node))  # in later trips the loop's own stores come before its loads
        init, params, made = self.operands(at(node.init, kept)), at(node.params, kept), at(node.results, kept)
        if isinstance(node, For):
            body = with_yields(self.block(node.body), kept)
            lanes = None if node.lanes is None else at(node.lanes, kept)
            node = dataclasses.replace(node, params=params, init=init, body=body, results=made, lanes=lanes)
        else:
            cond, body = self.block(node.cond), with_yields(self.block(node.body), kept)
            node = dataclasses.replace(node, params=params, init=init, cond=cond, body=body, results=made)
        self.builder.append(node)


def _is_cheap(block: Block) -> bool:
    cheap = (isinstance(n, Op) and n.row.is_pure and not n.row.is_elementary for n in block.nodes)
    return len(block.nodes) <= MAX_FLATTENED_OPS and all(cheap)
