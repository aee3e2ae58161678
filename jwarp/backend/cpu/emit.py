"""Emit the vector code of a kernel's body: one lane is one thread, branches become masks.

Where code is written, at least one lane of the mask is set, unless the code is a small branch that
is run without a jump; such a branch holds nothing that would be wrong with an empty mask.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from jwarp.analysis.lane_serialised import lane_serialised_loops
from jwarp.analysis.uniformity import VARYING, Shape
from jwarp.backend.cpu import effects, functions, quotients, repeated
from jwarp.backend.cpu.access.addresses import Element
from jwarp.backend.cpu.access.descriptor import describe, elements_of
from jwarp.backend.cpu.access.grouping import components_from, run_from
from jwarp.backend.cpu.access.instructions import gather, load_one, scatter, store_vector
from jwarp.backend.cpu.access.patterns import Pattern
from jwarp.backend.cpu.access.plain import prefetch
from jwarp.backend.cpu.access.shared_functions import is_in_row
from jwarp.backend.cpu.access.strategies import choose
from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.code import BODY, ENTRY, Lanes, scalar_type
from jwarp.backend.cpu.loops.strategies import choose_loop
from jwarp.backend.cpu.rules import LLVM_RULES
from jwarp.backend.cpu.tape import lane_max
from jwarp.ir.attributes import Extent, RecordField, RecordFields
from jwarp.ir.contents import Definitions, contents_of, definitions_of
from jwarp.ir.nodes import Block, For, If, Kernel, Node, Op, Operand, While, blocks, results, walk
from jwarp.ir.ops import OPS
from jwarp.types import ScalarType, bool_

# A branch of at most this many operations is run under its mask without testing for an empty mask.
MAX_UNTESTED_OPS = 6
# A block of at most so many is written a second time for vectors with all lanes active: in all, and for an access.
MAX_IN_FULL, MAX_IN_FULL_OF_ONE = 200, 16
# Lanes that go ways of their own run in lockstep if more than this share of a vector's does: their loads are gathers.
MANY = 0.5
# A vector of which no lane is looked at.
ANYTHING = "zeroinitializer"


class BodyEmitter(Body):
    """Writes the body of a kernel for one vector of threads."""

    @functools.cached_property
    def quotients(self) -> set[tuple[Operand, ...]]:
        """The operands that the kernel takes quotients of as well as remainders, which are then nearly free."""
        ops = contents_of(self.memory.kernel.body).ops
        return {op.args for op in ops if op.name in quotients.RULES and not op.row.is_remainder}

    @functools.cached_property
    def definitions(self) -> Definitions:
        """The operation that defines each value, as far as one does."""
        return definitions_of(self.memory.kernel.body)

    def block(self, block: Block) -> None:
        repeat = self.functions.repeats.get(block)
        if repeat is not None and not self.is_alone:
            repeated.call(self, block, repeat)
        else:
            self.nodes(block.nodes)

    def nodes(self, nodes: Sequence[Node]) -> None:
        """Write nodes one after the other."""
        at = 0
        while at < len(nodes):
            first = nodes[at]
            outer = self.code.begin_part(first.span)
            together = self.together(nodes, at) if isinstance(first, Op) and first.row.is_access else 0
            if not together:
                self.node(first)
            self.code.end_part(outer)
            at += together or 1

    def together(self, nodes: Sequence[Node], at: int) -> int:
        """Write the accesses from `at` on that one strategy makes together; how many these are."""
        run = run_from(nodes, at, self.definitions)
        if run and self.access(run, run=True):
            return len(run)
        made = components_from(nodes, at, self.memory.arrays)
        return len(made) if made and self.access(made) else 0

    def access(self, nodes: Sequence[Op], run: bool = False) -> bool:
        """Write an access by the strategy for it; False if there is none for several nodes together."""
        access = describe(self, nodes, run)
        strategy = choose(access)
        if strategy is None:
            return False
        for node, text in zip(nodes, strategy.write(self, access), strict=False):
            assert node.result is not None
            self.bind(node.result, text)
        for node in nodes:
            self.ways.setdefault(node, {}).update(dict.fromkeys(strategy.explained(access)))
        return True

    def single(self, node: Op) -> None:
        """Write an access by itself."""
        is_written = self.access([node])
        assert is_written

    def op(self, node: Op) -> None:
        special = SPECIAL_RULES.get(node.name)
        special(self, node) if special else self.pure(node)

    def branch(self, node: If) -> None:
        if self.lanes(node.cond).shape.is_uniform:
            self.uniform_if(node)
        else:
            self.varying_if(node)

    def loop(self, node: For | While) -> None:
        choose_loop(self, node).write(self, node)

    def pure(self, node: Op) -> None:
        """An operation of the rule table; of uniform values it is one scalar instruction."""
        assert node.result is not None
        shape = self.shapes[node.result]
        args = [self.lanes(a) for a in node.args]
        if node.row.threads.is_common and not args[0].shape.is_uniform:
            self.bind(node.result, COMMON[node.name](self, self.vector(args[0]), args[0].type))
            return
        if shape.is_varying:
            level, texts = BODY, [self.vector(a) for a in args]
        else:
            level, texts = max([a.level for a in args], default=ENTRY), [a.text for a in args]
        out = self.code.instructions(level, shape.is_varying)
        if node.row.is_remainder and shape.is_varying and args[1].shape.is_uniform and node.result.type.is_int:
            self.remainder(node, args[1], texts)
            return
        if shape.is_varying and quotients.divides(node, args[-1]):
            self.bind(node.result, quotients.divided(self.code, node, texts[0], args[1]), level=level)
            return
        self.bind(node.result, LLVM_RULES[node.name](out, node, texts), level=level)

    def settled_before(self, node: Op) -> None:
        raise AssertionError(f"{node.name} is not for this processor")

    def remainder(self, node: Op, divisor: Lanes, texts: list[str]) -> None:
        """Emit remainders by one divisor: zero where that is 1, as for parameters that all worlds share."""
        assert node.result is not None
        type = node.result.type

        def rest() -> str:
            if quotients.divides(node, divisor):
                return quotients.divided(self.code, node, texts[0], divisor)
            return LLVM_RULES["mod"](self.code.instructions(BODY, True), node, texts)

        if not divisor.text.startswith("%") or node.args in self.quotients:
            self.bind(node.result, rest())
            return
        one = self.code.instructions(divisor.level, False).compare("eq", type, divisor.text, "1")
        [text] = self.fast_or_slow(
            one,
            lambda: ["zeroinitializer"],
            lambda: [rest()],
            [self.code.vector(scalar_type(type))],
        )
        self.bind(node.result, text)
        self.zero_if[node.result] = one

    def tid(self, node: Op) -> None:
        assert node.result is not None
        self.values[node.result] = self.coordinates[node.number]

    def param(self, node: Op) -> None:
        assert node.result is not None
        self.bind(node.result, self.memory.argument(node.number, node.result.type), level=ENTRY)

    def shape(self, node: Op) -> None:
        assert node.result is not None
        extent = node.attr_as(Extent)
        wide = self.memory.extent(extent.array, extent.axis)
        self.bind(node.result, self.code.define(f"trunc i64 {wide} to i32", ENTRY), level=ENTRY)

    # -- memory

    def clear(self, node: Op) -> None:
        if node.array in self.blocks.arrays:
            self.blocks.clear(node.array)
            return
        self.private.clear(node.array, self.private_mask)

    def product(self, node: Op) -> None:
        self.blocks.product(node)

    # -- tape and logs

    def push(self, node: Op) -> None:
        lanes = [self.lanes(x) for x in node.args]
        record = node.attr_as(RecordFields)
        uniform = [True] * len(lanes) if record.tape in self.tape.whole else record.uniform
        texts = [x.text if is_uniform else self.vector(x) for x, is_uniform in zip(lanes, uniform, strict=True)]
        self.tape.push(node, texts)

    def top(self, node: Op) -> None:
        assert node.result is not None
        field = node.attr_as(RecordField)
        self.bind(node.result, self.tape.top(field.tape, field.field))

    def pop(self, node: Op) -> None:
        self.tape.pop(node.number)

    def save(self, node: Op) -> None:
        element = self.element(node, node.args, lane_by_lane=True)
        if node.array in self.private.arrays:
            loaded = self.private.load(element, self.mask)
        elif element.shape.is_uniform:
            loaded = self.code.splat(load_one(self.memory, element), scalar_type(element.type))
        else:
            loaded = gather(self.memory, element, self.mask)
        self.tape.save(node, element, loaded, self.mask)

    def mark(self, node: Op) -> None:
        assert node.result is not None
        self.bind(node.result, self.tape.mark(node.array))

    def undo(self, node: Op) -> None:
        element, value, there = self.tape.undo(node.array)
        if node.array in self.private.arrays:
            self.private.store(element, value, there)
        else:
            scatter(self.memory, element, value, there)

    def rollback(self, node: Op) -> None:
        head, body, done = (self.code.new_label(f"rollback.{part}") for part in ("head", "body", "done"))
        length = self.lanes(node.args[0])
        mark = length.text
        if length.shape.is_varying:  # all lanes noted the length of one log
            mark = lane_max(self.code, mark, length.type, self.mask)
        self.jump(head)
        self.code.label(head)
        self.jump_if(self.tape.is_above(node.array, mark), body, done)
        self.code.label(body)
        self.undo(node)
        self.jump(head)
        self.code.label(done)

    def take_down(self, node: Op) -> None:
        self.tape.note(node, self.vector(self.lanes(node.args[0])))

    def noted(self, node: Op) -> None:
        text = self.tape.noted(node.array)
        if node.result is not None:
            self.bind(node.result, text)

    def bookmark(self, node: Op) -> None:
        assert node.result is not None
        self.bind(node.result, self.tape.bookmark(node.array))

    def rewind(self, node: Op) -> None:
        place = self.lanes(node.args[0])
        text = place.text
        if place.shape.is_varying:  # all lanes noted one place
            text = lane_max(self.code, text, place.type, self.mask)
        self.tape.rewind(node.array, text)

    def lane_max(self, node: Op) -> None:
        assert node.result is not None
        lanes = self.lanes(node.args[0])
        uniform = lanes.shape.is_uniform
        text = lanes.text if uniform else lane_max(self.code, self.vector(lanes), lanes.type, self.mask)
        self.bind(node.result, text)

    def any_active(self, x: str, type: ScalarType) -> str:
        """The condition that x holds for an active lane."""
        return self.any_lane(x if self.mask is None else self.mask_and(self.mask, x))

    def many_active(self, x: str, type: ScalarType) -> str:
        """The condition that x holds for so many active lanes that they had better not run one after the other."""
        code, bits = self.code, f"i{self.code.width}"
        code.declare(bits, f"llvm.ctpop.{bits}", [bits])
        packed = code.define(f"bitcast {code.vector('i1')} {self.mask_and(self.mask, x)} to {bits}")
        count = code.define(f"call {bits} @llvm.ctpop.{bits}({bits} {packed})")
        return code.define(f"icmp ugt {bits} {count}, {int(self.code.width * MANY)}")

    def one_of(self, x: str, type: ScalarType) -> str:
        """The x of the first active lane, or of the last one where none is."""
        code, bits, lane = self.code, f"i{self.code.width}", "0"
        if self.mask is not None:
            code.declare(bits, f"llvm.cttz.{bits}", [bits, "i1"])
            packed = code.define(f"bitcast {code.vector('i1')} {self.mask} to {bits}")
            some = code.define(f"or {bits} {packed}, {1 << (code.width - 1) if code.width > 1 else 'true'}")
            lane = code.define(f"call {bits} @llvm.cttz.{bits}({bits} {some}, i1 true)")
        return code.define(f"extractelement {code.vector(scalar_type(type))} {x}, {bits} {lane}")

    def rule(self, node: Op) -> None:
        """A derivative is nothing to run."""

    def detach(self, node: Op) -> None:
        assert node.result is not None
        self.bind(node.result, self.lanes(node.args[0]).text)

    def zero_fill(self, params: Iterable[int]) -> None:
        """Zero the elements of this vector's own threads, for outputs where the launch asks for it."""
        for param in params:
            bit = self.code.define(f"and i64 %fill, {1 << param}")
            wanted = self.code.define(f"icmp ne i64 {bit}, 0")
            fill, after = self.code.new_label("fill"), self.code.new_label("filled")
            self.jump_if(wanted, fill, after)
            self.code.label(fill)
            element = self.memory.element(param, self.coordinates, proven=True)
            self.if_all_lanes(
                functools.partial(self.zero, element, None), functools.partial(self.zero, element, self.mask)
            )
            self.jump(after)
            self.code.label(after)

    def zero(self, element: Element, mask: str | None) -> list[str]:
        """Store zeros to the elements of the lanes' own threads."""
        zeros = "splat (i1 false)" if element.type is bool_ else "zeroinitializer"
        (store_vector if element.shape.stride == 1 else scatter)(self.memory, element, zeros, mask)
        return []

    # -- branches

    def uniform_if(self, node: If) -> None:
        then, orelse, done = (self.code.new_label(name) for name in ("then", "else", "endif"))
        self.jump_if(self.lanes(node.cond).text, then, orelse)
        ends, texts = [], []
        for label, block in ((then, node.then), (orelse, node.orelse)):
            self.code.label(label)
            texts.append(self.under_mask(block, block.yields, [self.shapes[r] for r in node.results]))
            ends.append(self.code.block)
            self.jump(done)
        self.code.label(done)
        for k, result in enumerate(node.results):
            type = self.llvm_type(result.type, self.shapes[result])
            self.bind(result, self.phi(type, (texts[0][k], ends[0]), (texts[1][k], ends[1])))
            one, other = node.then.yields[k], node.orelse.yields[k]
            both = [x for x in self.bases(one, self.mask) if x in self.bases(other, self.mask)]
            self.note_unchanged(result, both[0] if both else None, self.mask)

    def varying_if(self, node: If) -> None:
        """A branch on what differs: a result is what one side has from outside, but where the other side changes it."""
        outer, cond = self.mask, self.vector(self.lanes(node.cond))
        out = self.code.instructions(BODY, True)
        made = [{r for n in block.nodes for r in results(n)} for block in (node.then, node.orelse)]
        others: list[Operand | None] = []  # by result: what lanes have that do not run what makes it
        for one, other in zip(node.then.yields, node.orelse.yields, strict=True):
            others.append(other if other not in made[1] else one if one not in made[0] else None)
        texts = [ANYTHING if x is None else self.vector(self.lanes(x)) for x in others]
        masks: list[str | None] = [None, None]
        for side, block in enumerate((node.then, node.orelse)):
            if block.nodes:
                holds = out.binary("xor", bool_, cond, "splat (i1 true)") if side else cond
                masks[side] = self.mask = self.mask_and(outer, holds)
                here = [k for k, y in enumerate(block.yields) if y in made[side]]
                found = self.masked_block(block, [block.yields[k] for k in here], [(texts[k], others[k]) for k in here])
                for k, text in zip(here, found, strict=True):
                    texts[k] = text
        self.mask = outer
        for k, result in enumerate(node.results):
            one, other = node.then.yields[k], node.orelse.yields[k]
            if one not in made[0] and other not in made[1] and one != other:
                texts[k] = out.select(cond, result.type, self.vector(self.lanes(one)), texts[k])
            self.bind(result, texts[k])
            if others[k] is not None and (one in made[0] or other in made[1]):
                self.note_unchanged(result, others[k], masks[0] if one in made[0] else masks[1])

    def masked_block(
        self, block: Block, yields: Sequence[Operand], others: Sequence[tuple[str, Operand | None]]
    ) -> list[str]:
        """The block under the mask at hand, jumped over where no lane is set; some of its yields as vectors.

        In the lanes outside of the mask, these are `others`.
        """

        def written() -> list[str]:
            found = self.under_mask(block, yields, [VARYING] * len(yields))
            return [self.merged(y, text, *other) for y, text, other in zip(yields, found, others, strict=True)]

        if self.runs_untested(block):
            return written()
        assert self.mask is not None
        run, done = self.code.new_label("lanes"), self.code.new_label("none")
        self.jump_if(self.any_lane(self.mask), run, done)
        before = self.code.block
        self.code.label(run)
        texts = written()
        end = self.code.block
        self.jump(done)
        self.code.label(done)
        types = [self.code.vector(scalar_type(y.type)) for y in yields]
        return [
            self.phi(type, (text, end), (other, before))
            for type, text, (other, _) in zip(types, texts, others, strict=True)
        ]

    def merged(self, x: Operand, text: str, others: str, is_others: Operand | None) -> str:
        """`x` in the lanes of the mask at hand, and `others` outside of it."""
        if others == ANYTHING or (is_others is not None and is_others in self.bases(x, self.mask)):
            return text
        assert self.mask is not None
        return self.code.instructions(BODY, True).select(self.mask, x.type, text, others)

    def under_mask(self, block: Block, yields: Sequence[Operand], shapes: Sequence[Shape]) -> list[str]:
        """The block for the lanes of the mask at hand; its yields in `shapes`.

        Where it pays, there is code without a mask for when all lanes are active: on many processors loads and stores
        take several times as long with one, whatever it is.
        """

        def written() -> list[str]:
            self.block(block)
            return [self.shaped(y, shape) for y, shape in zip(yields, shapes, strict=True)]

        if self.mask is None or self.is_partial or not self.pays_in_full(block):
            return written()
        types = [self.llvm_type(y.type, shape) for y, shape in zip(yields, shapes, strict=True)]
        return self.if_all_lanes(lambda: self.in_full(written), lambda: self.in_part(written), types)

    def in_full(self, write: Callable[[], list[str]]) -> list[str]:
        """Have `write` write for a vector with all lanes active."""
        outer = self.mask, self.thread_mask, self.memory.active_lanes
        self.mask = self.thread_mask = None
        self.memory.active_lanes = str(self.code.width)
        texts = write()
        self.mask, self.thread_mask, self.memory.active_lanes = outer
        return texts

    def in_part(self, write: Callable[[], list[str]]) -> list[str]:
        """Have `write` write for a vector with some lane that is not active."""
        self.is_partial = True
        texts = write()
        self.is_partial = False
        return texts

    def pays_in_full(self, block: Block) -> bool:
        """True if a block is little more than accesses to consecutive elements; those of its branches are theirs.

        So is each of its loops then: where most of the time goes into a loop of other things, nothing else counts.
        """
        nodes = list(itertools.islice(walk(block), MAX_IN_FULL + 1))
        accesses = sum(self.is_consecutive(node) for node in _outside_branches(block))
        if len(nodes) > min(MAX_IN_FULL, MAX_IN_FULL_OF_ONE * accesses):
            return False
        return all(self.pays_in_full(node.body) for node in nodes if isinstance(node, (For, While)))

    def is_consecutive(self, node: Op) -> bool:
        """True if a node accesses one element after the other, in an array that threads share."""
        if not node.row.is_access or node.array in self.private.arrays:
            return False
        return elements_of(self, node) is Pattern.CONTIGUOUS

    def may_be_in_row(self, node: Op) -> bool:
        """True if a load may take its elements from a row in registers."""
        if not node.row.is_load or node.array in self.private.arrays:
            return False
        array, target = self.memory.arrays[node.array], self.code.options.target
        return is_in_row(elements_of(self, node), array.dtype, target)

    def runs_untested(self, block: Block) -> bool:
        if len(block.nodes) > MAX_UNTESTED_OPS:
            return False
        remainders = {node.result for node in block.nodes if isinstance(node, Op) and node.row.is_remainder}
        for node in block.nodes:
            if not isinstance(node, Op) or node.row.is_atomic or node.row.is_outlined or node.name in TAPE_RULES:
                return False
            if node.row.is_access and node.array not in self.private.arrays:
                # One access is made for all lanes, which may lie anywhere if there are none.
                others = [i for i in node.indices if i not in self.zero_if and i not in remainders]
                if self.may_be_in_row(node) or all(self.shape_of(i).is_uniform for i in others):
                    return False
        return True


def _outside_branches(block: Block) -> Iterator[Op]:
    """The operations of a block and of its loops."""
    for node in block.nodes:
        if isinstance(node, Op):
            yield node
        elif not isinstance(node, If):
            for inner in blocks(node):
                yield from _outside_branches(inner)


def emitter_of_function(caller: Body, kernel: Kernel) -> BodyEmitter:
    """The emitter of a function that is the whole of `kernel`."""
    code, memory = functions.nested(caller.code, kernel, caller.memory.first_extent)
    made = BodyEmitter(code, memory, dataclasses.replace(caller.proofs, kernel=kernel), {}, caller.trusted, ())
    made.functions, made.ways = caller.functions, caller.ways
    assert isinstance(caller, BodyEmitter)
    made.is_short, made.is_long = caller.is_short, caller.is_long
    made.serialised = lane_serialised_loops(kernel)
    return made


# These need a lane that is active: all lanes count records together.
TAPE_RULES = {
    "push": BodyEmitter.push,
    "top": BodyEmitter.top,
    "pop": BodyEmitter.pop,
    "save": BodyEmitter.save,
    "mark": BodyEmitter.mark,
    "undo": BodyEmitter.undo,
    "rollback": BodyEmitter.rollback,
    "note": BodyEmitter.take_down,
    "noted": BodyEmitter.noted,
    "bookmark": BodyEmitter.bookmark,
    "rewind": BodyEmitter.rewind,
    "lane_max": BodyEmitter.lane_max,
}
# The common values of lanes where they diverge.
COMMON = {
    "any_lane": BodyEmitter.any_active,
    "many_lanes": BodyEmitter.many_active,
    "one_of": BodyEmitter.one_of,
}
# Operations that the emitter itself knows; the others are rows of LLVM_RULES.
SPECIAL_RULES = {
    "tid": BodyEmitter.tid,
    "param": BodyEmitter.param,
    "shape": BodyEmitter.shape,
    "clear": BodyEmitter.clear,
    "tile_matmul": BodyEmitter.product,
    **TAPE_RULES,
    **{name: BodyEmitter.single for name, row in OPS.items() if row.is_access},
    "rule": BodyEmitter.rule,
    "detach": BodyEmitter.detach,
    "inside": effects.inside,
    "prefetch": prefetch,
    "thread": effects.thread,
    "check": effects.check,
    "print": effects.print_line,
    "call": functions.call,
    "call_part": functions.call_part,
    "on_gpu": BodyEmitter.settled_before,
    "native": BodyEmitter.settled_before,
    "native_part": BodyEmitter.settled_before,
}
