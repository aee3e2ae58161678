"""The code of a kernel's body while it is written: values in the forms that code needs, masks, fast and slow paths."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jwarp.analysis.ranges import Proofs
from jwarp.analysis.repeats import Repeat
from jwarp.analysis.sums import sums_of
from jwarp.analysis.uniformity import UNIFORM, VARYING, Shape
from jwarp.analysis.vector_lanes import ShapesOfCalls
from jwarp.backend.cpu.access.addresses import Element, Memory
from jwarp.backend.cpu.access.block_memory import BlockMemory
from jwarp.backend.cpu.access.nontemporal import NonTemporal
from jwarp.backend.cpu.access.thread_private import PrivateMemory
from jwarp.backend.cpu.code import BODY, ENTRY, Code, Lanes, literal, scalar_type
from jwarp.backend.cpu.tape import TapeMemory
from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import Block, Const, For, Kernel, Node, Op, Operand, Value, While, walk_all
from jwarp.ir.visit import Visitor
from jwarp.types import ScalarType, bool_

# Each inlined load takes LLVM 4 ms, and saves as much as a call takes: of what longer kernels take, that is little.
MAX_NODES = 60
# Longer kernels have scatters and blocks that they repeat in functions, and treat elements at equal distances as any:
# LLVM takes half as long, and a call some cycles.
MAX_NODES_IN_LINE = 2000

# Writes code and gives the texts of its results.
Writer = Callable[[], list[str]]


@dataclass(frozen=True)
class Made:
    """A function in the code: its name, the type of its results together, whether it takes a mask, and its pointers.

    `bases` are the parameters that the results are known to be in the lanes outside of the mask.
    """

    name: str
    type: str
    takes_mask: bool
    pointers: tuple[str, ...] = ()
    bases: tuple[int | None, ...] = ()


@dataclass
class Functions:
    """The functions of one module, by number and which arguments are uniform; and the results of calls."""

    begin: Callable[[Body, Kernel], Body]  # what writes a body of its own, given the one that calls
    shapes: ShapesOfCalls
    arrays: Sequence[frozenset[int]]  # that each function reads
    made: dict[tuple[int, tuple[bool, ...]], Made] = field(default_factory=dict)
    results: dict[Operand, tuple[str, Made]] = field(default_factory=dict)
    repeats: dict[Block, Repeat] = field(default_factory=dict)  # blocks that are calls
    of_blocks: dict[tuple[int, bool], Made] = field(default_factory=dict)  # by number, and for all lanes or some


class Body(Visitor):
    """The code of a kernel's body while it is written: what every rule for a node takes."""

    def __init__(
        self,
        code: Code,
        memory: Memory,
        proofs: Proofs,
        shapes: Mapping[Value, Shape],
        trusted: Container[Node],
        failures: Sequence[str],
    ):
        """`trusted` holds the accesses that need no test to stay inside their arrays.

        `failures` are the texts of checks, in the order in which the runtime numbers them.
        """
        self.code, self.memory, self.proofs, self.shapes = code, memory, proofs, shapes
        self.trusted = trusted
        self.sites = {text: site for site, text in enumerate(failures, 1)}
        self.serialised: frozenset[For | While] = frozenset()  # the loops that lanes run one after the other
        self.used, self.sums = contents_of(proofs.kernel.body).used, sums_of(proofs.kernel)
        self.values: dict[Value, Lanes] = {}
        self.unchanged: dict[Value, tuple[Operand, str]] = {}  # what values are in the lanes outside of a mask
        self.within: dict[str, str | None] = {}  # masks, and those that hold wherever they do
        self.zero_if: dict[Operand, str] = {}  # remainders, and when they are zero for all lanes
        self.ways: dict[Node, dict[str, None]] = {}  # by access, in order: a second one is for what the first is not
        self.private = PrivateMemory(code, memory, proofs.kernel)
        self.blocks = BlockMemory(code, memory, proofs.kernel)
        self.tape = TapeMemory(code, memory, proofs.kernel)
        self.nontemporal = NonTemporal(memory, proofs.kernel, proofs.covers)
        self.coordinates: list[Lanes] = []
        self.first_column = ""  # of the vector at hand
        self.mask: str | None = None
        self.functions: Functions
        self.line_buffer = ""
        self.thread_mask: str | None = None  # of the lanes that are threads
        self.is_alone = False  # whether one thread runs, with iterations of a loop as lanes
        self.is_partial = False  # whether some lane is known not to be active

    @functools.cached_property
    def is_short(self) -> bool:
        """True if the kernel is so short that loads are inlined."""
        return not self.has_more_nodes(MAX_NODES)

    @functools.cached_property
    def is_long(self) -> bool:
        """True if the kernel is so long that what takes much code is in functions."""
        return self.has_more_nodes(MAX_NODES_IN_LINE)

    def has_more_nodes(self, count: int) -> bool:
        return any(True for _ in itertools.islice(walk_all(self.proofs.kernel), count, None))

    def nodes(self, nodes: Sequence[Node]) -> None:
        """Write nodes one after the other."""
        raise NotImplementedError

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
        self.unchanged.pop(value, None)

    def shape_of(self, x: Operand) -> Shape:
        return UNIFORM if isinstance(x, Const) else self.shapes[x]

    def stored(self, nodes: Sequence[Op]) -> list[str]:
        """The values of stores, or of additions, as vectors."""
        return [self.vector(self.lanes(node.args[-1])) for node in nodes]

    def element(self, node: Op, indices: tuple[Operand, ...], lane_by_lane: bool = False) -> Element:
        """The elements that a node accesses, of which each lane's may be anywhere if they are taken `lane_by_lane`."""
        lanes = [self.lanes(i) for i in indices]
        if lane_by_lane and any(not i.shape.is_uniform for i in lanes):
            lanes = [Lanes(self.vector(i), i.type, VARYING, BODY) for i in lanes]
        return self.memory.element(node.array, lanes, node in self.trusted)

    # -- masks and jumps

    def mask_and(self, x: str | None, y: str) -> str:
        if x is None:
            return y
        both = self.code.instructions(BODY, True).binary("and", bool_, x, y)
        self.within[both] = x
        return both

    def is_within(self, mask: str, outer: str | None) -> bool:
        """True if a mask is known to hold in no lane in which another one, None for all, does not."""
        inner: str | None = mask
        while inner is not None and inner != outer:
            inner = self.within.get(inner)
        return inner == outer

    def note_unchanged(self, x: Value, base: Operand | None, mask: str | None) -> None:
        """Note that `x`, as it was bound last, is `base` in all lanes outside of a mask, if there are both."""
        if base is not None and mask is not None:
            self.unchanged[x] = base, mask

    def bases(self, x: Operand, mask: str | None) -> Iterator[Operand]:
        """The values that `x` is known to be in all lanes outside of a mask, itself first."""
        yield x
        while isinstance(x, Value) and x in self.unchanged:
            x, where = self.unchanged[x]
            if not self.is_within(where, mask):
                return
            yield x

    @property
    def private_mask(self) -> str | None:
        """The mask for what only threads read."""
        return None if self.mask is self.thread_mask else self.mask

    @property
    def first_lanes_active(self) -> bool:
        """True if the active lanes are all that have a thread, which the processor can select in memory."""
        return self.mask is not None and self.mask == self.thread_mask and self.code.options.target.masks

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

    # -- fast and slow paths

    def fast_or_slow(self, cond: str, fast: Writer, slow: Writer, types: Sequence[str] = ()) -> list[str]:
        """The results, of `types`, of the fast path where a condition holds, and of the slow path elsewhere."""
        labels = [self.code.new_label(name) for name in ("fast", "slow", "done")]
        self.jump_if(cond, *labels[:2])
        incoming = []
        for label, write in zip(labels, (fast, slow), strict=False):
            self.code.label(label)
            texts = write()
            incoming.append([(text, self.code.block) for text in texts])
            self.jump(labels[2])
        self.code.label(labels[2])
        return [self.phi(type, *pair) for type, *pair in zip(types, *incoming, strict=True)]

    def if_all_lanes(
        self, fast: Writer, slow: Writer, types: Sequence[str] = (), inside: str | None = None
    ) -> list[str]:
        """The results of the fast path where all lanes are active, and a condition `inside` holds if there is one."""
        if self.is_partial:
            return slow()
        holds = inside
        if self.mask is not None:
            width = self.code.width
            bits = self.code.define(f"bitcast {self.code.vector('i1')} {self.mask} to i{width}")
            holds = self.code.define(f"icmp eq i{width} {bits}, -1")
            if inside is not None:
                holds = self.code.define(f"and i1 {holds}, {inside}")
        return fast() if holds is None else self.fast_or_slow(holds, fast, slow, types)
