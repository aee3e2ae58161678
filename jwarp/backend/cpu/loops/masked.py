"""Emit masked loops: lanes leave one after the other, and the last one ends the loop."""

from __future__ import annotations

from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.code import BODY, Lanes, scalar_type
from jwarp.ir.nodes import For, Operand, While
from jwarp.types import bool_


def counted(emitter: Body, node: For | While) -> None:
    """Write a counted loop, whose lanes make the same iterations or leave one after the other."""
    assert isinstance(node, For)
    lo, hi = emitter.lanes(node.lo), emitter.lanes(node.hi)
    index_shape = emitter.shapes[node.index]
    is_vector = index_shape.is_varying
    per_lane = not index_shape.is_uniform or not hi.shape.is_uniform
    kind = node.index.type
    type = emitter.llvm_type(kind, index_shape)
    out = emitter.code.instructions(BODY, is_vector)
    test = emitter.code.instructions(BODY, per_lane)
    sign = "s" if kind.kind == "int" else "u"
    less = sign + ("lt" if node.step > 0 else "gt")
    first = emitter.vector(lo) if is_vector else lo.text
    limit = emitter.vector(hi) if per_lane else hi.text
    loop = Loop(emitter, node, per_lane)
    index, following, wrapped = emitter.code.name("i"), emitter.code.name("i"), emitter.code.name("ok")
    loop.enter(
        [(index, type, first, following)]
        # Lanes whose next index would wrap have left: see `wrapped`.
        + ([(f"{wrapped}.in", test.type("i1"), test.spread("true", "i1"), wrapped)] if abs(node.step) > 1 else [])
    )

    def counted_to(text: str) -> str:
        return emitter.vector(Lanes(text, kind, index_shape, BODY)) if per_lane else text

    goes_on = test.compare(less, kind, counted_to(index), limit)
    if abs(node.step) > 1:
        goes_on = test.binary("and", bool_, goes_on, f"{wrapped}.in")
    emitter.bind(node.index, index, index_shape)
    loop.run(goes_on)
    emitter.block(node.body)
    step = out.constant(kind, node.step % (1 << kind.bits) if kind.kind == "uint" else node.step)
    emitter.code.line(f"{following} = add {type} {index}, {step}")
    if abs(node.step) > 1:
        grown = test.compare(sign + ("gt" if node.step > 0 else "lt"), kind, counted_to(following), counted_to(index))
        emitter.code.line(f"{wrapped} = and {test.type('i1')} {grown}, {test.spread('true', 'i1')}")
    loop.leave(node.body.yields)


def conditional(emitter: Body, node: For | While) -> None:
    """Write a loop that runs as long as its condition holds."""
    assert isinstance(node, While)
    shape = emitter.shape_of(node.cond.yields[0])
    loop = Loop(emitter, node, per_lane=not shape.is_uniform)
    loop.enter([])
    emitter.block(node.cond)
    goes_on = emitter.lanes(node.cond.yields[0])
    loop.run(emitter.vector(goes_on) if loop.per_lane else goes_on.text)
    emitter.block(node.body)
    loop.leave(node.body.yields)


class Loop:
    """The labels, carried values and mask of one loop. Lanes that have left keep their values."""

    def __init__(self, emitter: Body, node: For | While, per_lane: bool):
        self.emitter, self.node, self.per_lane = emitter, node, per_lane
        code = emitter.code
        self.before, self.head, self.body, self.done = (
            code.new_label(name) for name in ("loop", "loop.head", "loop.body", "loop.done")
        )
        self.outer_mask = emitter.mask

    def enter(self, counters: list[tuple[str, str, str, str]]) -> None:
        """Open the loop; `counters` are (name, type, first value, name of the next value)."""
        e, node = self.emitter, self.node
        code = e.code
        shapes = [e.shapes[p] for p in node.params]
        init = [e.shaped(x, s) for x, s in zip(node.init, shapes, strict=True)]
        pairs = list(zip(node.params, node.results, strict=True))
        # A value that is uniform inside leaves with what it was when each lane left.
        self.kept = [
            k for k, (p, r) in enumerate(pairs)
            if self.per_lane and not e.shapes[p].is_varying and r in e.used
        ]  # fmt: skip
        kept_init = [e.vector(e.lanes(node.init[k])) for k in self.kept]
        mask = self.outer_mask or "splat (i1 true)"
        e.jump(self.before)
        code.label(self.before)
        e.jump(self.head)
        code.label(self.head)
        self.latch = code.new_label("loop.latch")
        self.places: list[int] = []  # of what is carried, in the order in which `leave` gives the next values
        for name, type, first, following in counters:
            code.line(f"{name} = phi {type} [{first}, %{self.before}], [{following}, %{self.latch}]")
        for param, shape, first in zip(node.params, shapes, init, strict=True):
            e.bind(param, self.carried(e.llvm_type(param.type, shape), first), shape)
        self.kept_values = [
            self.carried(code.vector(scalar_type(node.params[k].type)), first)
            for k, first in zip(self.kept, kept_init, strict=True)
        ]
        if self.per_lane:
            e.mask = self.carried(code.vector("i1"), mask)
            e.within[e.mask] = self.outer_mask

    def carried(self, type: str, first: str) -> str:
        """The name of a value that the loop carries, whose next one `leave` gives."""
        name, place = self.emitter.code.carried(type, first, self.before)
        self.places.append(place)
        return name

    def run(self, goes_on: str) -> None:
        """Start the body for the lanes, or for all, for which `goes_on` holds."""
        e = self.emitter
        if self.per_lane:
            e.mask = e.mask_and(e.mask, goes_on)
            goes_on = e.any_lane(e.mask)
        e.jump_if(goes_on, self.body, self.done)
        e.code.label(self.body)
        self.body_mask = e.mask

    def leave(self, yields: tuple[Operand, ...]) -> None:
        """Close the body and bind what the loop results in."""
        e, node = self.emitter, self.node
        code = e.code
        out = code.instructions(BODY, True)
        texts = []
        for param, y in zip(node.params, yields, strict=True):
            shape = e.shapes[param]
            text = e.shaped(y, shape)
            if self.per_lane and shape.is_varying and param not in e.bases(y, self.body_mask):
                assert self.body_mask is not None
                text = out.select(self.body_mask, param.type, text, e.values[param].text)
            texts.append(text)
        kept = []
        for k, value in zip(self.kept, self.kept_values, strict=True):
            assert self.body_mask is not None
            kept.append(out.select(self.body_mask, node.params[k].type, e.vector(e.lanes(yields[k])), value))
        e.jump(self.latch)
        code.label(self.latch)
        following = texts + kept + ([self.body_mask or ""] if self.per_lane else [])
        for place, text in zip(self.places, following, strict=True):
            code.carry(place, text, self.latch)
        e.jump(self.head)
        code.label(self.done)
        e.mask = self.outer_mask
        snapshots = dict(zip(self.kept, self.kept_values, strict=True))
        for k, (param, result) in enumerate(zip(node.params, node.results, strict=True)):
            if self.per_lane and not e.shapes[param].is_varying and k not in snapshots:
                continue  # nothing reads it
            e.bind(result, snapshots.get(k, e.values[param].text))
            keeps = self.per_lane or param in e.bases(yields[k], self.outer_mask)
            e.note_unchanged(result, node.init[k] if keeps else None, self.outer_mask)
