"""The statements of a kernel in CUDA C++: names, variables, branches and loops, and the places of elements."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from jwarp.backend.cuda.common_sums import Together
from jwarp.backend.cuda.names import array_names
from jwarp.backend.cuda.native import (
    native_functions,
)
from jwarp.backend.cuda.quads import quads_of
from jwarp.backend.cuda.records import Log, Notes, Tape, grows, logs_of, notes_of, tapes_of
from jwarp.backend.cuda.rules import C_TYPES, bare, literal
from jwarp.backend.cuda.texts import (
    cannot_overflow,
    certain,
    constant_place,
    file,
    inlinable_values,
)
from jwarp.backend.cuda.unroll_and_jam import jams_of, write_jammed
from jwarp.errors import NO_SPAN
from jwarp.ir.contents import definitions_of
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
    used_values,
    written_params,
)
from jwarp.ir.visit import Visitor
from jwarp.types import uint64

# Where a failed check leaves to: past everything that the thread would still do.
DONE = "done"
_WORD = re.compile(r"[A-Za-z_]\w*")


class Statements(Visitor):
    """Writes statements to `lines`, each with `depth` levels of indentation in front.

    Subclasses write operations.
    """

    place_type = "long long"  # of the numbers of elements

    def __init__(
        self,
        kernel: Kernel,
        trusted: Container[Node],
        failures: Sequence[str],
        sums: Sequence[tuple] = (),
        thread: str = "place.thread",
        item: str = "",
    ):
        """`trusted` holds the accesses that need no test to stay inside their arrays.

        `failures` are the texts of checks, in the order in which the runtime numbers them. `sums` are elements,
        as (array, *indices), that each thread sums up before it adds to them. `thread` is the number of the thread,
        `item` that of its batch element, if there are several.
        """
        self.kernel, self.trusted, self.thread_number = kernel, trusted, thread
        self.sites = {text: site for site, text in enumerate(failures, 1)}
        self.sums = {element: f"sum{k}" for k, element in enumerate(sums)}
        self.written = frozenset(written_params(kernel))
        self.names = array_names(kernel)
        self.taken = frozenset(self.names.values())
        self.tapes: dict[int, Tape] = tapes_of(kernel)
        self.logs: dict[int, Log] = logs_of(kernel)
        self.notes: dict[int, Notes] = notes_of(kernel)
        self.grows = grows(kernel)
        self.used = used_values(kernel.body)
        self.together = Together(kernel, lambda node: constant_place(node) in self.sums, self.place_type, item)
        self.quads = quads_of(kernel, trusted)
        self.jams = jams_of(kernel, self.together.groups.values())
        self.inlinable, self.definitions = inlinable_values(kernel.body), definitions_of(kernel.body)
        self.values: dict[Value, str] = {}
        self.natives = native_functions(kernel)
        self.native_results: dict[Value, list[str]] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.span = NO_SPAN
        self.count = 0
        self.end = "end"  # how labels end

    # -- text

    def line(self, text: str) -> None:
        """Write a statement, and before it which line of the user's source it comes from."""
        if self.span.line:
            self.lines.append(f'#line {self.span.line} "{file(self.span.file)}"')
        self.lines.append("  " * self.depth + text)

    def name(self, value: Value | None = None) -> str:
        """A new name, like that of the value in the user's source where it has one."""
        stem = re.sub(r"\W", "", value.name, flags=re.ASCII).strip("_") if value is not None else ""
        while True:
            self.count += 1
            name = f"{stem or 'v'}_{self.count}"
            if name not in self.taken:
                return name

    def text(self, x: Operand) -> str:
        """The operand as it may stand next to any operator."""
        return literal(x) if isinstance(x, Const) else self.values[x]

    def define(self, value: Value, text: str) -> None:
        name = self.name(value)
        self.line(f"const {C_TYPES[value.type]} {name} = {bare(text)};")
        self.values[value] = name

    # -- nodes

    def node(self, node: Node) -> None:
        self.span = node.span
        super().node(node)

    def branch(self, node: If) -> None:
        cond = bare(self.text(node.cond))
        names = [self.declare(value) for value in node.results]
        self.line(f"if ({cond}) {{")
        self.arm(node.then, names)
        if node.orelse.nodes or names:
            self.line("} else {")
            self.arm(node.orelse, names)
        self.line("}")

    def declare(self, value: Value, start: str | None = None) -> str:
        """A variable, which `value` is the final content of."""
        name = self.name(value)
        self.line(f"{C_TYPES[value.type]} {name}{'' if start is None else f' = {bare(start)}'};")
        self.values[value] = name
        return name

    def arm(self, block: Block, names: Sequence[str]) -> None:
        self.depth += 1
        self.block(block)
        for name, value in zip(names, block.yields, strict=True):
            self.line(f"{name} = {bare(self.text(value))};")
        self.depth -= 1

    def carry(self, params: Sequence[Value], init: Sequence[Operand]) -> list[str]:
        """Variables for what a loop carries."""
        starts = [self.text(x) for x in init]
        return [self.declare(p, start) for p, start in zip(params, starts, strict=True)]

    def hand_on(self, names: Sequence[str], yields: Sequence[Operand]) -> None:
        """Set what is carried to its next values, all at once."""
        changes = [(n, self.text(y), y.type) for n, y in zip(names, yields, strict=True)]
        changes = [(n, text, type) for n, text, type in changes if n != text]
        for k, (name, text, type) in enumerate(changes):
            later = {word for _, t, _ in changes[k + 1 :] for word in _WORD.findall(t)}
            if name in later:
                # Later code reads the old content.
                old = self.name()
                self.line(f"const {C_TYPES[type]} {old} = {name};")
                changes[k + 1 :] = [(n, re.sub(rf"\b{name}\b", old, t), ty) for n, t, ty in changes[k + 1 :]]
            self.line(f"{name} = {bare(text)};")

    def counted(self, node: For) -> None:
        lo, hi = self.text(node.lo), self.text(node.hi)
        names = self.carry(node.params, node.init)
        index, type = self.name(node.index), C_TYPES[node.index.type]
        self.values[node.index] = index
        sign = "<" if node.step > 0 else ">"
        if cannot_overflow(node):
            step = f"{'++' if node.step > 0 else '--'}{index}" if abs(node.step) == 1 else f"{index} += {node.step}"
            start = f"{type} {index} = {bare(lo)}"
            if node in self.jams:
                start = write_jammed(self, node, self.jams[node], start, index, names)
            self.line(f"for ({start}; {index} {sign} {hi}; {step}) {{")
            self.iteration(node, names)
            self.line("}")
        else:
            # The index ends where the next one would not fit its type.
            left = f"jw_sub({hi}, {index})" if node.step > 0 else f"jw_sub({index}, {hi})"
            self.line(f"if ({lo} {sign} {hi}) for ({type} {index} = {bare(lo)};; {index} += {node.step}) {{")
            self.iteration(node, names)
            self.line(f"  if ((jw_unsigned<{type}>){left} <= {abs(node.step)}) break;")
            self.line("}")
        self.bind_results(node, names)

    def iteration(self, node: For, names: Sequence[str]) -> None:
        self.depth += 1
        self.block(node.body)
        self.hand_on(names, node.body.yields)
        self.depth -= 1

    def conditional(self, node: While) -> None:
        names = self.carry(node.params, node.init)
        self.line("while (true) {")
        self.depth += 1
        self.block(node.cond)
        self.line(f"if (!{self.text(node.cond.yields[0])}) break;")
        self.block(node.body)
        self.hand_on(names, node.body.yields)
        self.depth -= 1
        self.line("}")
        self.bind_results(node, names)

    def bind_results(self, node: For | While, names: Sequence[str]) -> None:
        self.values.update(zip(node.results, names, strict=True))

    # -- memory

    def extent(self, array: int, axis: int) -> str:
        local = self.kernel.local(array)
        return str(local.shape[axis]) if local is not None else f"{self.names[array]}_n{axis}"

    def offset(self, array: int, indices: Sequence[str]) -> str:
        """Row-major element number."""
        total = indices[0]
        for axis, index in enumerate(indices[1:], 1):
            total = f"({total}) * {self.extent(array, axis)} + {index}" if axis > 1 else (
                f"{total} * {self.extent(array, axis)} + {index}"
            )  # fmt: skip
        return total

    def element(self, node: Op) -> tuple[str, str | None]:
        """The element that an access is to, as C++ names it, and the condition that it is there."""
        indices = node.indices
        name = self.names[node.number]
        local = self.kernel.local(node.array)
        if node in self.trusted or (local is not None and certain(indices, local.shape)):
            return f"{name}[{bare(self.placed(node.array, self.known_place(node)))}]", None
        places, tests = [], []
        for axis, index in enumerate(indices):
            place = self.name()
            text = bare(self.text(index))
            self.line(f"long long {place} = {f'jw_index({text})' if index.type is uint64 else text};")
            places.append(place)
            tests.append(f"jw_inside({place}, {self.extent(node.array, axis)})")
        inside = self.name()
        self.line(f"const bool {inside} = {' & '.join(tests)};")
        return f"{name}[{self.placed(node.array, self.offset(node.array, places))}]", inside

    def known_place(self, node: Op) -> str:
        """The number of an element that is there, in 64 bits from the first product on."""
        texts = [self.text(i) for i in node.indices]
        wide = texts[0] if len(texts) == 1 or self.kernel.local(node.array) is not None else f"(long long){texts[0]}"
        return self.offset(node.array, [wide, *texts[1:]])

    def placed(self, array: int, offset: str) -> str:
        """The place of a numbered element in the memory of an array."""
        return offset

    def guard(self, array: int | None, inside: str | None) -> str:
        """The condition under which a thread changes the array, or writes a line, as C++ begins a statement."""
        return "" if inside is None else f"if ({inside}) "

    def parted(self, node: Op, element: str) -> tuple[str, str]:
        """The array of an element, and its number in there."""
        name = self.names[node.number]
        return name, element[len(name) + 1 : -1]

    def found(self, node: Op, text: str) -> None:
        """Define the result of a load or an atomic operation."""
        assert node.result is not None
        self.define(node.result, text)

    def leaving(self) -> str:
        """The label at which a thread goes on whose check has failed."""
        return f"goto {DONE};"
