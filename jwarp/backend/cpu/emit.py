"""Generates the vector code of a kernel's body: one lane is one thread, branches become masks.

Where code is written, at least one lane of the mask is set, unless the code is a small branch that
is run without a jump; such a branch holds nothing that would be wrong with an empty mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from jwarp.backend.cpu import elements
from jwarp.backend.cpu.code import BODY, ENTRY, Code, Lanes, literal, scalar_type
from jwarp.backend.cpu.memory import Element, Memory
from jwarp.backend.cpu.rules import LLVM_RULES
from jwarp.backend.cpu.shapes import UNIFORM, Shape
from jwarp.errors import KernelTypeError
from jwarp.ir.nodes import (
    ATOMICS,
    WRITES,
    Block,
    Const,
    For,
    If,
    Node,
    Op,
    Operand,
    Value,
    While,
    indices_of,
    operands,
)
from jwarp.transform.affine import ALWAYS
from jwarp.transform.ranges import Proofs
from jwarp.types import ScalarType, bool_

# A branch of at most this many operations is run under its mask without testing for an empty mask.
MAX_UNTESTED_OPS = 6


# Writes code and gives the text of its result, if it has one.
Way = Callable[[], str | None]


def _used(body: Block) -> set[Value]:
    """Values that some node or block reads."""
    used: set[Value] = set()

    def visit(block: Block) -> None:
        used.update(x for x in block.yields if isinstance(x, Value))
        for node in block.nodes:
            used.update(x for x in operands(node) if isinstance(x, Value))
            for name in ("then", "orelse", "cond", "body"):
                inner = getattr(node, name, None)
                if isinstance(inner, Block):
                    visit(inner)

    visit(body)
    return used


class BodyEmitter:
    """Writes the body of a kernel for one vector of threads."""

    def __init__(
        self,
        code: Code,
        memory: Memory,
        proofs: Proofs,
        shapes: Mapping[Value, Shape],
        checked: bool,
        bounds: bool,
    ):
        self.code, self.memory, self.proofs, self.shapes = code, memory, proofs, shapes
        self.checked, self.bounds = checked, bounds
        self.used = _used(proofs.kernel.body)
        self.values: dict[Value, Lanes] = {}
        self.coordinates: list[Lanes] = []
        self.mask: str | None = None

    # -- values in the forms that code needs

    def lanes(self, x: Operand) -> Lanes:
        if isinstance(x, Const):
            return Lanes(literal(x), x.type, UNIFORM, ENTRY)
        return self.values[x]

    def vector(self, lanes: Lanes) -> str:
        """The value as a vector."""
        if lanes.shape.is_varying:
            return lanes.text
        kind = scalar_type(lanes.type)
        base = self.code.splat(lanes.text, kind, lanes.level)
        if lanes.shape.is_uniform:
            return base
        assert lanes.shape.stride is not None
        return self.code.define(f"add {self.code.vector(kind)} {base}, {self.code.iota(kind, lanes.shape.stride)}")

    def shaped(self, x: Operand, shape: Shape) -> str:
        """The text of `x` as a value of `shape`: a vector if that is varying."""
        lanes = self.lanes(x)
        return self.vector(lanes) if shape.is_varying else lanes.text

    def llvm_type(self, type: ScalarType, shape: Shape) -> str:
        return self.code.vector(scalar_type(type)) if shape.is_varying else scalar_type(type)

    def bind(self, value: Value, text: str, shape: Shape | None = None, level: int = BODY) -> None:
        self.values[value] = Lanes(text, value.type, shape or self.shapes[value], level)

    # -- masks and jumps

    def mask_and(self, x: str | None, y: str) -> str:
        return y if x is None else self.code.instructions(BODY, True).binary("and", bool_, x, y)

    def any_lane(self, mask: str) -> str:
        width = self.code.width
        bits = self.code.define(f"bitcast {self.code.vector('i1')} {mask} to i{width}")
        return self.code.define(f"icmp ne i{width} {bits}, 0")

    def jump(self, label: str) -> None:
        self.code.line(f"br label %{label}")

    def jump_if(self, cond: str, then: str, orelse: str) -> None:
        self.code.line(f"br i1 {cond}, label %{then}, label %{orelse}")

    def phi(self, type: str, *incoming: tuple[str, str]) -> str:
        return self.code.define(f"phi {type} " + ", ".join(f"[{text}, %{label}]" for text, label in incoming))

    # -- nodes

    def block(self, block: Block) -> None:
        at = 0
        while at < len(block.nodes):
            accesses = elements.group(block.nodes, at, self.memory.arrays)
            if self.wide_access(accesses):
                at += len(accesses)
            else:
                self.node(block.nodes[at])
                at += 1

    def node(self, node: Node) -> None:
        match node:
            case Op():
                special = _SPECIAL.get(node.name)
                special(self, node) if special else self.pure(node)
            case If():
                if self.lanes(node.cond).shape.is_uniform:
                    self.uniform_if(node)
                else:
                    self.varying_if(node)
            case For():
                self.counted(node)
            case While():
                self.conditional(node)

    def pure(self, node: Op) -> None:
        """An operation of the rule table; of uniform values it is one scalar instruction."""
        assert node.result is not None
        shape = self.shapes[node.result]
        args = [self.lanes(a) for a in node.args]
        level = max((a.level for a in args), default=ENTRY)
        texts = [self.vector(a) for a in args] if shape.is_varying else [a.text for a in args]
        if shape.is_varying:
            level = BODY
        out = self.code.instructions(level, shape.is_varying)
        self.bind(node.result, LLVM_RULES[node.name](out, node, texts), level=level)

    def tid(self, node: Op) -> None:
        assert node.result is not None
        self.values[node.result] = self.coordinates[node.attr]

    def param(self, node: Op) -> None:
        assert node.result is not None
        self.bind(node.result, self.memory.argument(node.attr, node.result.type), level=ENTRY)

    def shape(self, node: Op) -> None:
        assert node.result is not None
        wide = self.memory.extent(*node.attr)
        self.bind(node.result, self.code.define(f"trunc i64 {wide} to i32", ENTRY), level=ENTRY)

    # -- memory

    def element(self, node: Op, indices: tuple[Operand, ...], lane_by_lane: bool = False) -> Element:
        proven = self.is_proven(node)
        lanes = [self.lanes(i) for i in indices]
        if lane_by_lane and any(not i.shape.is_uniform for i in lanes):
            lanes = [Lanes(self.vector(i), i.type, Shape(None), BODY) for i in lanes]
        return self.memory.element(node.attr, lanes, proven)

    def load(self, node: Op) -> None:
        assert node.result is not None
        element = self.element(node, node.args)
        if element.shape.stride == 1 and element.inside is not None:
            general = self.element(node, node.args, lane_by_lane=True)
            kind = self.code.vector(scalar_type(element.type))
            whole = self.either_way(
                element.inside,
                lambda: self.memory.load(_proved(element), self.mask),
                lambda: self.memory.load(general, self.mask),
                kind,
            )
            self.bind(node.result, whole)
            return
        self.bind(node.result, self.memory.load(element, self.mask))

    def store(self, node: Op) -> None:
        element, value = self.element(node, node.args[:-1]), self.lanes(node.args[-1])
        if element.shape.is_uniform and value.shape.is_uniform:
            self.memory.store_uniform(element, value.text)
            return
        text = self.vector(value)
        if element.shape.stride == 1 and element.inside is not None:
            general = self.element(node, node.args[:-1], lane_by_lane=True)
            self.either_way(
                element.inside,
                lambda: self.memory.store(_proved(element), text, self.mask),
                lambda: self.memory.store(general, text, self.mask),
            )
            return
        self.memory.store(element, text, self.mask)

    def is_proven(self, node: Op) -> bool:
        """Whether an access is known to stay inside its array in the version that is being written."""
        condition = self.proofs.proven.get(id(node))
        return not self.bounds or condition == ALWAYS or (condition is not None and not self.checked)

    def wide_access(self, accesses: list[Op]) -> bool:
        """Write the accesses to components of one element together, if that pays; whether it was done."""
        if len(accesses) < 2 or self.checked or not all(map(self.is_proven, accesses)):
            return False
        first = accesses[0]
        array = self.memory.arrays[first.attr]
        indices = [self.lanes(i) for i in first.args[: array.dims]]
        if not elements.counts_up(indices):
            return False
        size, loads = math.prod(array.element), first.name == "load"
        if len(accesses) * 2 < size if loads else len(accesses) < size:
            return False
        wide = elements.WideElements(self.code, self.memory, first.attr, indices)
        positions = [elements.component_of(node, array) or 0 for node in accesses]
        if loads:
            one_by_one = lambda: [self.gathered(node) for node in accesses]  # noqa: E731
            texts = self.if_all_lanes(array.dtype, lambda: wide.load(positions), one_by_one)
            for node, text in zip(accesses, texts, strict=True):
                assert node.result is not None
                self.bind(node.result, text)
            return True
        values = [self.vector(self.lanes(node.args[-1])) for node in accesses]
        in_order = [value for _, value in sorted(zip(positions, values, strict=True))]

        def scatter() -> list[str]:
            for node, value in zip(accesses, values, strict=True):
                self.memory.store(self.element(node, node.args[:-1]), value, self.mask)
            return []

        def store() -> list[str]:
            wide.store(in_order)
            return []

        self.if_all_lanes(array.dtype, store, scatter)
        return True

    def gathered(self, node: Op) -> str:
        return self.memory.load(self.element(node, node.args), self.mask)

    def if_all_lanes(
        self, type: ScalarType, whole: Callable[[], list[str]], masked: Callable[[], list[str]]
    ) -> list[str]:
        """The results of `whole` where all lanes are threads that are active, else those of `masked`."""
        if self.mask is None:
            return whole()
        width = self.code.width
        bits = self.code.define(f"bitcast {self.code.vector('i1')} {self.mask} to i{width}")
        full = self.code.define(f"icmp eq i{width} {bits}, -1")
        labels = [self.code.new_label(name) for name in ("whole", "partial", "joined")]
        self.jump_if(full, labels[0], labels[1])
        incoming = []
        for label, write in zip(labels, (whole, masked), strict=False):
            self.code.label(label)
            texts = write()
            incoming.append([(text, self.code.block) for text in texts])
            self.jump(labels[2])
        self.code.label(labels[2])
        vector = self.code.vector(scalar_type(type))
        return [self.phi(vector, *pair) for pair in zip(*incoming, strict=True)]

    def atomic(self, node: Op) -> None:
        """One lane after the other, each as one indivisible step."""
        indices = indices_of(node)
        element = self.element(node, indices, lane_by_lane=True)
        if element.type.is_float and element.type.bits == 16:
            raise KernelTypeError(
                f"atomic operations on {element.type} are not available yet", node.span, "accumulate in float32"
            )
        values = [self.vector(self.lanes(x)) for x in node.args[len(indices) :]]
        wanted = node.result is not None and node.result in self.used
        before = self.memory.atomic(node.name.removeprefix("atomic_"), element, values, self.mask, wanted)
        if node.result is not None and wanted:
            self.bind(node.result, before)

    def either_way(self, cond: str, then: Way, orelse: Way, type: str = "") -> str:
        """Two ways of doing one thing; the result, if it has a type."""
        labels = [self.code.new_label(name) for name in ("fast", "slow", "done")]
        self.jump_if(cond, labels[0], labels[1])
        results = []
        for label, write in zip(labels, (then, orelse), strict=False):
            self.code.label(label)
            text = write() or ""
            results.append((text, self.code.block))
            self.jump(labels[2])
        self.code.label(labels[2])
        return self.phi(type, *results) if type else ""

    def zero_fill(self, params: Iterable[int]) -> None:
        """Zero the elements of this vector's own threads, for outputs where the launch asks for it."""
        for param in params:
            bit = self.code.define(f"and i64 %fill, {1 << param}")
            wanted = self.code.define(f"icmp ne i64 {bit}, 0")
            fill, after = self.code.new_label("fill"), self.code.new_label("filled")
            self.jump_if(wanted, fill, after)
            self.code.label(fill)
            element = self.memory.element(param, self.coordinates, proven=True)
            zeros = "zeroinitializer"
            if element.type is bool_:
                zeros = "splat (i1 false)"
            self.memory.store(element, zeros, self.mask)
            self.jump(after)
            self.code.label(after)

    # -- branches

    def uniform_if(self, node: If) -> None:
        then, orelse, done = (self.code.new_label(name) for name in ("then", "else", "endif"))
        self.jump_if(self.lanes(node.cond).text, then, orelse)
        ends, texts = [], []
        for label, block in ((then, node.then), (orelse, node.orelse)):
            self.code.label(label)
            self.block(block)
            texts.append([self.shaped(y, self.shapes[r]) for y, r in zip(block.yields, node.results, strict=True)])
            ends.append(self.code.block)
            self.jump(done)
        self.code.label(done)
        for k, result in enumerate(node.results):
            type = self.llvm_type(result.type, self.shapes[result])
            self.bind(result, self.phi(type, (texts[0][k], ends[0]), (texts[1][k], ends[1])))

    def varying_if(self, node: If) -> None:
        outer = self.mask
        cond = self.vector(self.lanes(node.cond))
        out = self.code.instructions(BODY, True)
        not_cond = out.binary("xor", bool_, cond, "splat (i1 true)") if node.orelse.nodes else ""
        sides = []
        for block, holds in ((node.then, cond), (node.orelse, not_cond)):
            yields = [self.vector(self.lanes(y)) for y in block.yields] if not block.nodes else None
            if yields is None:
                self.mask = self.mask_and(outer, holds)
                yields = self.masked_block(block)
            sides.append(yields)
        self.mask = outer
        for k, result in enumerate(node.results):
            self.bind(result, out.select(cond, result.type, sides[0][k], sides[1][k]))

    def masked_block(self, block: Block) -> list[str]:
        """The block under the mask at hand, jumped over where no lane is set; its yields as vectors."""
        if self.runs_untested(block):
            self.block(block)
            return [self.vector(self.lanes(y)) for y in block.yields]
        assert self.mask is not None
        run, done = self.code.new_label("lanes"), self.code.new_label("none")
        self.jump_if(self.any_lane(self.mask), run, done)
        before = self.code.block
        self.code.label(run)
        self.block(block)
        texts = [self.vector(self.lanes(y)) for y in block.yields]
        end = self.code.block
        self.jump(done)
        self.code.label(done)
        types = [self.code.vector(scalar_type(y.type)) for y in block.yields]
        return [self.phi(t, (x, end), ("zeroinitializer", before)) for t, x in zip(types, texts, strict=True)]

    def runs_untested(self, block: Block) -> bool:
        if len(block.nodes) > MAX_UNTESTED_OPS:
            return False
        for node in block.nodes:
            if not isinstance(node, Op) or node.name.startswith("atomic_"):
                return False
            in_memory = node.name == "load" or node.name in WRITES
            if in_memory and all(self.shape_of(i).is_uniform for i in indices_of(node)):
                return False
        return True

    def shape_of(self, x: Operand) -> Shape:
        return UNIFORM if isinstance(x, Const) else self.shapes[x]

    # -- loops

    def counted(self, node: For) -> None:
        lo, hi = self.lanes(node.lo), self.lanes(node.hi)
        index_shape = self.shapes[node.index]
        is_vector = index_shape.is_varying
        per_lane = is_vector or not hi.shape.is_uniform
        kind = node.index.type
        type = self.llvm_type(kind, index_shape)
        out = self.code.instructions(BODY, is_vector)
        test = self.code.instructions(BODY, per_lane)
        sign = "s" if kind.kind == "int" else "u"
        less = sign + ("lt" if node.step > 0 else "gt")
        first = self.vector(lo) if is_vector else lo.text
        limit = self.vector(hi) if per_lane else hi.text
        loop = _Loop(self, node, per_lane)
        index, following, wrapped = self.code.name("i"), self.code.name("i"), self.code.name("ok")
        loop.enter(
            [(index, type, first, following)]
            # Lanes whose next index would wrap have left: see `wrapped`.
            + ([(f"{wrapped}.in", test.type("i1"), test.spread("true", "i1"), wrapped)] if abs(node.step) > 1 else [])
        )
        counter = index if is_vector or not per_lane else self.code.splat(index, scalar_type(kind))
        goes_on = test.compare(less, kind, counter, limit)
        if abs(node.step) > 1:
            goes_on = test.binary("and", bool_, goes_on, f"{wrapped}.in")
        self.bind(node.index, index, index_shape)
        loop.run(goes_on)
        self.block(node.body)
        step = out.constant(kind, node.step % (1 << kind.bits) if kind.kind == "uint" else node.step)
        self.code.line(f"{following} = add {type} {index}, {step}")
        if abs(node.step) > 1:
            grown = out.compare(sign + ("gt" if node.step > 0 else "lt"), kind, following, index)
            if per_lane and not is_vector:
                grown = self.code.splat(grown, "i1")
            self.code.line(f"{wrapped} = and {test.type('i1')} {grown}, {test.spread('true', 'i1')}")
        loop.leave(node.body.yields)

    def conditional(self, node: While) -> None:
        shape = self.shape_of(node.cond.yields[0])
        loop = _Loop(self, node, per_lane=not shape.is_uniform)
        loop.enter([])
        self.block(node.cond)
        goes_on = self.lanes(node.cond.yields[0])
        loop.run(self.vector(goes_on) if loop.per_lane else goes_on.text)
        self.block(node.body)
        loop.leave(node.body.yields)


class _Loop:
    """The labels, carried values and mask of one loop. Lanes that have left keep their values."""

    def __init__(self, emitter: BodyEmitter, node: For | While, per_lane: bool):
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
        self.next = [code.name("next") for _ in node.params]
        self.kept_next = [code.name("kept") for _ in self.kept]
        self.next_mask = code.name("mask")
        for name, type, first, following in counters:
            code.line(f"{name} = phi {type} [{first}, %{self.before}], [{following}, %{self.latch}]")
        for param, shape, first, following in zip(node.params, shapes, init, self.next, strict=True):
            type = e.llvm_type(param.type, shape)
            e.bind(param, e.phi(type, (first, self.before), (following, self.latch)), shape)
        self.kept_values = [
            e.phi(code.vector(scalar_type(node.params[k].type)), (first, self.before), (following, self.latch))
            for k, first, following in zip(self.kept, kept_init, self.kept_next, strict=True)
        ]
        if self.per_lane:
            e.mask = e.phi(code.vector("i1"), (mask, self.before), (self.next_mask, self.latch))

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
            if self.per_lane and shape.is_varying:
                assert self.body_mask is not None
                text = out.select(self.body_mask, param.type, text, e.values[param].text)
            texts.append(text)
        kept = []
        for k, value in zip(self.kept, self.kept_values, strict=True):
            assert self.body_mask is not None
            kept.append(out.select(self.body_mask, node.params[k].type, e.vector(e.lanes(yields[k])), value))
        e.jump(self.latch)
        code.label(self.latch)
        # The next values get their names here, by copies that cost nothing.
        for name, text, param in zip(self.next, texts, node.params, strict=True):
            code.line(f"{name} = {_copy(e.llvm_type(param.type, e.shapes[param]), text)}")
        for name, text, k in zip(self.kept_next, kept, self.kept, strict=True):
            code.line(f"{name} = {_copy(code.vector(scalar_type(node.params[k].type)), text)}")
        if self.per_lane:
            code.line(f"{self.next_mask} = {_copy(code.vector('i1'), self.body_mask or '')}")
        e.jump(self.head)
        code.label(self.done)
        e.mask = self.outer_mask
        snapshots = dict(zip(self.kept, self.kept_values, strict=True))
        for k, (param, result) in enumerate(zip(node.params, node.results, strict=True)):
            if self.per_lane and not e.shapes[param].is_varying and k not in snapshots:
                continue  # nothing reads it
            e.bind(result, snapshots.get(k, e.values[param].text))


def _copy(type: str, text: str) -> str:
    return f"bitcast {type} {text} to {type}"


def _proved(element: Element) -> Element:
    return Element(element.param, element.type, element.shape, element.offset, element.level)


_SPECIAL = {
    "tid": BodyEmitter.tid,
    "param": BodyEmitter.param,
    "shape": BodyEmitter.shape,
    "load": BodyEmitter.load,
    "store": BodyEmitter.store,
    **dict.fromkeys((f"atomic_{name}" for name in ATOMICS), BodyEmitter.atomic),
    "assert": lambda emitter, node: None,  # debug mode turns it into a test before code is generated
}

# Operations that the emitter itself knows; the others are rows of LLVM_RULES.
SPECIAL_OPS = frozenset(_SPECIAL)
