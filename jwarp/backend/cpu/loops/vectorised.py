"""Emit vectorised loops, whose iterations are lanes: those over the elements of tiles, and in lane-serialised loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jwarp.analysis.uniformity import Shape
from jwarp.backend.cpu.access.atomics import reduced
from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.code import BODY, Instructions, Lanes, literal, scalar_type
from jwarp.backend.cpu.rules import LLVM_RULES, convert
from jwarp.ir.evaluate import neutral
from jwarp.ir.nodes import For, Op, Value, While, walk
from jwarp.types import ScalarType, float32

# A body of more nodes than this is written once, with a mask for all vectors, if the last one is not full.
MAX_PEELED_NODES = 200
# A loop that carries values is written so many times over, each with values of its own: one vector need not wait for
# what the one before it makes of them. A body of more nodes has enough to do meanwhile.
CHAINS = 4
MAX_CHAINED_NODES = 40


@dataclass
class _State:
    """The values that each lane has carried so far, and the label of the block where that is so."""

    texts: list[str]


def vectors(emitter: Body, node: For | While) -> None:
    """Write the loop: full vectors, and one with a mask for what is left.

    A loop that counts down goes through the same vectors, the last one first.
    """
    assert isinstance(node, For)
    _Writer(emitter, node).write()


class _Writer:
    def __init__(self, emitter: Body, node: For):
        self.emitter, self.node, self.code = emitter, node, emitter.code
        self.out = emitter.code.instructions(BODY, False)
        self.kind = scalar_type(node.index.type)
        self.types = [p.type for p in node.params]
        self.outer = emitter.mask, emitter.thread_mask, emitter.is_partial, emitter.memory.active_lanes

    def write(self) -> None:
        node, e = self.node, self.emitter
        down = node.step < 0
        first, end = (e.lanes(x).text for x in ((node.hi, node.lo) if down else (node.lo, node.hi)))
        if down:
            first = self.plus(first, "1")
            end = self.plus(end, "1")
        carried = [
            self.code.splat(literal(neutral(kind, type)), scalar_type(type))
            for kind, type in zip(node.lanes or (), self.types, strict=True)
        ]
        count = self.count(first, end)
        width = self.code.width
        whole = (
            str(int(count) // width * width) if count.isdigit() else self.out.emit(f"and {self.kind} {count}, {-width}")
        )
        rest = str(int(count) % width) if count.isdigit() else self.out.emit(f"and {self.kind} {count}, {width - 1}")
        if rest != "0" and sum(1 for _ in walk(node.body)) > MAX_PEELED_NODES:
            carried = self.loop(first, self.rounded(count), carried, down, count)
        elif down:
            carried = self.tail(self.plus(first, whole), rest, carried)
            carried = self.loop(first, whole, carried, down)
        else:
            first, whole, carried = self.chains(first, whole, carried)
            carried = self.loop(first, whole, carried, down)
            carried = self.tail(self.plus(first, whole), rest, carried)
        e.mask, e.thread_mask, e.is_partial, e.memory.active_lanes = self.outer
        for k, (result, text) in enumerate(zip(node.results, carried, strict=True)):
            e.bind(result, self.combined(k, text))

    def plus(self, x: str, y: str) -> str:
        if x.lstrip("-").isdigit() and y.lstrip("-").isdigit():
            return str(int(x) + int(y))
        return self.out.binary("add", self.kind, x, y)

    def count(self, first: str, end: str) -> str:
        """The trip count."""
        if first.lstrip("-").isdigit() and end.lstrip("-").isdigit():
            return str(max(0, int(end) - int(first)))
        some = self.out.binary("sub", self.kind, end, first)
        return self.out.intrinsic("smax", self.kind, (self.kind, some), (self.kind, "0"))

    def rounded(self, count: str) -> str:
        """`count` up to the end of a vector."""
        width = self.code.width
        if count.isdigit():
            return str(-(-int(count) // width) * width)
        return self.out.binary("and", self.kind, self.out.binary("add", self.kind, count, str(width - 1)), str(-width))

    def chains(self, first: str, size: str, carried: list[str]) -> tuple[str, str, list[str]]:
        """Write the vectors that chains share evenly; where the others begin, their size, and what is carried."""
        stride = CHAINS * self.code.width
        if not carried or not size.isdigit() or int(size) < 2 * stride:
            return first, size, carried
        if sum(1 for _ in walk(self.node.body)) > MAX_CHAINED_NODES:
            return first, size, carried
        here = int(size) // stride * stride
        kept = self.loop(first, str(here), carried * CHAINS, False, chains=CHAINS)
        count = len(carried)
        while len(kept) > count:
            half = len(kept) // 2
            kept = [self.both(k % count, x, y) for k, (x, y) in enumerate(zip(kept[:half], kept[half:], strict=True))]
        return self.plus(first, str(here)), str(int(size) - here), kept

    def both(self, k: int, x: str, y: str) -> str:
        """Two vectors of what is carried at position `k`, combined lane by lane."""
        assert self.node.lanes is not None
        out, type = self.code.instructions(BODY, True), self.types[k]
        wide = float32 if type.is_float and type.bits == 16 else type
        total = _apply(out, self.node.lanes[k], wide, [convert(out, type, wide, text) for text in (x, y)])
        return convert(out, wide, type, total)

    def loop(
        self, first: str, size: str, carried: list[str], down: bool, count: str | None = None, chains: int = 1
    ) -> list[str]:
        """Vectors from `first` on for `size` elements: full ones, or those of `count` that are left.

        With several `chains`, each iteration has as many vectors, and `carried` the values of each chain in turn.
        """
        if size == "0":
            return carried
        if size == str(self.code.width) and count is None and chains == 1:  # one vector, and no loop
            return self.body(first, size, carried)
        types = self.types * chains
        code, e = self.code, self.emitter
        before, head, body, latch, done = (
            code.new_label(f"lanes.{name}") for name in ("start", "head", "body", "latch", "done")
        )
        start = self.out.emit(f"sub {self.kind} {size}, {code.width}") if down and not size.isdigit() else (
            str(int(size) - code.width) if down else "0"
        )  # fmt: skip
        e.jump(before)
        code.label(before)
        e.jump(head)
        code.label(head)
        at, following = code.name("at"), code.name("at")
        code.line(f"{at} = phi {self.kind} [{start}, %{before}], [{following}, %{latch}]")
        kept: list[str] = []
        phis: list[int] = []
        for t, x in zip(types, carried, strict=True):
            name, phi = code.carried(code.vector(scalar_type(t)), x, before)
            kept.append(name)
            phis.append(phi)
        more = self.out.emit(f"icmp {'sge' if down else 'slt'} {self.kind} {at}, {'0' if down else size}")
        e.jump_if(more, body, done)
        code.label(body)
        active = str(code.width)
        if count is not None:
            left = self.out.binary("sub", self.kind, count, at)
            active = self.out.intrinsic("smin", self.kind, (self.kind, left), (self.kind, str(code.width)))
        texts, own = [], len(self.types)
        for chain in range(chains):
            place = at if chain == 0 else self.out.emit(f"add {self.kind} {at}, {chain * code.width}")
            texts += self.body(self.plus(first, place), active, kept[chain * own : (chain + 1) * own])
        e.jump(latch)
        code.label(latch)
        for phi, text in zip(phis, texts, strict=True):
            code.carry(phi, text, latch)
        code.line(f"{following} = add {self.kind} {at}, {-code.width if down else chains * code.width}")
        e.jump(head)
        code.label(done)
        return kept

    def tail(self, first: str, rest: str, carried: list[str]) -> list[str]:
        """The `rest` of the elements, which do not fill a vector."""
        if rest == "0":
            return carried
        if rest.isdigit():
            return self.body(first, rest, carried)
        code, e = self.code, self.emitter
        run, done = code.new_label("lanes.rest"), code.new_label("lanes.ended")
        before = code.block
        e.jump_if(self.out.emit(f"icmp ne {self.kind} {rest}, 0"), run, done)
        code.label(run)
        texts = self.body(first, rest, carried)
        end = code.block
        e.jump(done)
        code.label(done)
        types = [code.vector(scalar_type(t)) for t in self.types]
        return [e.phi(t, (x, end), (y, before)) for t, x, y in zip(types, texts, carried, strict=True)]

    def body(self, first: str, active: str, carried: Sequence[str]) -> list[str]:
        """Write one vector of iterations, of which the first `active` run; what each lane carries after it."""
        e, code, node = self.emitter, self.code, self.node
        mask = None if active == str(code.width) else self.first_lanes(active)
        e.mask = e.thread_mask = mask
        e.is_partial = mask is not None
        e.memory.active_lanes = active if active.isdigit() or self.kind == "i64" else self.out.emit(
            f"zext {self.kind} {active} to i64"
        )  # fmt: skip
        e.bind(node.index, first, Shape(1))
        for param, text in zip(node.params, carried, strict=True):
            e.bind(param, text)
        e.block(node.body)
        e.mask = mask
        texts = [e.vector(e.lanes(y)) for y in node.body.yields]
        if mask is not None:
            out = code.instructions(BODY, True)
            texts = [
                out.select(mask, type, text, old)
                for type, text, old in zip(self.types, texts, carried, strict=True)
            ]  # fmt: skip
        return texts

    def first_lanes(self, active: str) -> str:
        """The mask of so many lanes."""
        code = self.code
        if active.isdigit():
            return "<" + ", ".join(f"i1 {'true' if k < int(active) else 'false'}" for k in code.lane_numbers) + ">"
        return code.define(f"icmp ult {code.vector(self.kind)} {code.iota(self.kind)}, {code.splat(active, self.kind)}")

    def combined(self, k: int, text: str) -> str:
        """Combine what all lanes carry, and what the loop started with, into one value."""
        assert self.node.lanes is not None
        kind, type, init = self.node.lanes[k], self.types[k], self.emitter.lanes(self.node.init[k]).text
        vector = self.code.instructions(BODY, True)
        wide = float32 if type.is_float and type.bits == 16 else type
        total = reduced(self.code, kind, wide, convert(vector, type, wide, text))
        both = _apply(self.out, kind, wide, [convert(self.out, type, wide, init), total])
        return convert(self.out, wide, type, both)


def _apply(out: Instructions, kind: str, type: ScalarType, texts: list[str]) -> str:
    node = Op(kind, (Value(type), Value(type)), None, Value(type))
    return LLVM_RULES[kind](out, node, texts)


__all__ = ["Lanes", "vectors"]
