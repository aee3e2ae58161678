"""Emit tapes, logs and notes of arrays: stacks of whole vectors in the worker's memory.

All threads of a vector share one stack, so a record has a lane for each of them, active or not.
"""

from __future__ import annotations

from dataclasses import dataclass

from jwarp.analysis.uniformity import VARYING
from jwarp.backend.cpu.access.addresses import Element, Memory
from jwarp.backend.cpu.code import BODY, ENTRY, Code, memory_type, scalar_type
from jwarp.errors import CompileError
from jwarp.ir import row_groups
from jwarp.ir.attributes import RecordFields
from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import Block, For, Kernel, Op, blocks, walk
from jwarp.types import ScalarType, bool_, int64
from jwarp.wire import MAX_LOGS, TAPE, TAPES, offsets

ALIGNMENT = 64
_TAPE_BYTES = 8 * len(TAPE)
_TYPES, _OFFSETS = dict(TAPE), offsets(TAPE)


def _member(stack: int, name: str) -> str:
    return f"%stack{stack}.{name}"


@dataclass(frozen=True)
class Field:
    """One value of a record: a scalar, or a vector with a lane for each thread."""

    type: ScalarType
    is_uniform: bool
    offset: int


@dataclass(frozen=True)
class Record:
    """The places of the fields of a record, and the bytes that it takes."""

    fields: tuple[Field, ...]
    size: int


def whole_tapes(kernel: Kernel) -> frozenset[int]:
    """The tapes of a kernel with tiles whose records are of scalars, the same for all lanes."""
    if not kernel.block_dim:
        return frozenset()
    loops = [n for n in walk(kernel.body) if isinstance(n, For) and n.lanes is not None]
    return _pushed(kernel.body) - frozenset().union(*(_pushed(loop.body) for loop in loops))


def _pushed(body: Block) -> frozenset[int]:
    """The tapes that a block adds to."""
    return frozenset(n.attr_as(RecordFields).tape for n in walk(body) if isinstance(n, Op) and n.row.adds_to_tape)


class TapeMemory:
    """The tape of a kernel (stack 0), and the logs and notes of its arrays (the stacks after it)."""

    def __init__(self, code: Code, memory: Memory, kernel: Kernel):
        self.code, self.memory = code, memory
        ops = contents_of(kernel.body).ops
        self.whole = whole_tapes(kernel)
        self.records: dict[int, Record] = {}
        for n in ops:
            if n.row.adds_to_tape:
                fields = n.attr_as(RecordFields)
                is_whole = fields.tape in self.whole
                pairs = zip(n.args, fields.uniform, strict=True)
                self.records[fields.tape] = self.record([(x.type, flag or is_whole) for x, flag in pairs])
        logged = dict.fromkeys(n.array for n in ops if n.row.uses_log)
        noted = dict.fromkeys(n.array for n in ops if n.row.uses_notes)
        if len(logged) + len(noted) > MAX_LOGS:
            raise CompileError(
                f"kernel `{kernel.name}`: it keeps logs of {len(logged) + len(noted)} arrays, at most {MAX_LOGS} are "
                "possible",
                kernel.span,
                "let a derivative go through fewer arrays that are written over: split the kernel",
            )
        self.stack_of = {array: k for k, array in enumerate(logged, 1)}
        self.log_records = {
            array: self.record([(int64, False), (memory.arrays[array].dtype, False)]) for array in logged
        }
        self.notes_of = {array: k for k, array in enumerate(noted, 1 + len(logged))}
        self.note_records = {array: self.record([(memory.arrays[array].dtype, False)]) for array in noted}
        sizes = {stack: self.log_records[array].size for array, stack in self.stack_of.items()}
        sizes |= {stack: self.note_records[array].size for array, stack in self.notes_of.items()}
        if self.records:
            sizes[0] = max(record.size for record in self.records.values())
        for stack, size in sizes.items():
            # Room for one record, so that reading the top of an empty stack stays in memory.
            grow = code.define("load ptr, ptr %tapes, align 8", ENTRY)
            code.define(f"call i1 {grow}(ptr %tapes, i64 {stack}, i64 {max(size, 1 << 16)})", ENTRY)
            # The descriptor lives in registers while the kernel runs.
            for name, type in TAPE:
                code.line(f"{_member(stack, name)} = alloca {type}, align 8", ENTRY)
            self.reload(stack, ENTRY)
        self.stacks = tuple(sizes)
        self.room: dict[Op, int] = {}  # by operation that adds to a tape or log: the bytes that it makes sure of
        if self.stacks:
            self._make_room(kernel.body)

    def _make_room(self, block: Block) -> set[int]:
        """The first operation of a block that adds to a stack makes sure of what later ones add, too; the stacks.

        Blocks inside make sure of what they add: after one that adds to a stack, the next operation begins anew. What
        takes records away leaves more room. Notes are not among these stacks: reading them moves on in them.
        """
        first: dict[int, Op] = {}  # by stack
        stacks: set[int] = set()
        for node in block.nodes:
            if not isinstance(node, Op):
                for inner in map(self._make_room, blocks(node)):
                    stacks |= inner
                    for stack in inner:
                        first.pop(stack, None)
            elif node.row.uses.adds in (row_groups.Memory.TAPE, row_groups.Memory.LOG):
                stack, record = self._added(node)
                stacks.add(stack)
                self.room.setdefault(node, 0)  # more than enough where a node stands in several blocks
                self.room[first.setdefault(stack, node)] += record.size
        return stacks

    def _added(self, node: Op) -> tuple[int, Record]:
        """The stack that an operation adds a record to, and the record."""
        if node.row.uses_tape:
            return 0, self.records[node.attr_as(RecordFields).tape]
        if node.row.uses_log:
            return self.stack_of[node.array], self.log_records[node.array]
        return self.notes_of[node.array], self.note_records[node.array]

    def record(self, fields: list[tuple[ScalarType, bool]]) -> Record:
        placed, offset = [], 0
        for type, is_uniform in fields:
            size = max(8, type.bits // 8) if is_uniform else self.code.width * type.bits // 8
            offset += -offset % min(size, ALIGNMENT)
            placed.append(Field(type, is_uniform, offset))
            offset += size
        return Record(tuple(placed), max(ALIGNMENT, offset + -offset % ALIGNMENT))

    def start(self) -> None:
        """Empty the stacks, for the next vector of threads."""
        for stack in self.stacks:
            self.code.line(f"store i64 0, ptr {_member(stack, 'top')}, align 8")

    def reload(self, stack: int, level: int = BODY) -> None:
        """Read where the runtime has the memory of a stack, and how much."""
        for name in ("data", "capacity"):
            place = 8 * len(TAPES) + _TAPE_BYTES * stack + _OFFSETS[name]
            at = self.code.define(f"getelementptr i8, ptr %tapes, i64 {place}", level)
            type = _TYPES[name]
            loaded = self.code.define(f"load {type}, ptr {at}, align 8", level)
            self.code.line(f"store {type} {loaded}, ptr {_member(stack, name)}, align 8", level)

    def member(self, stack: int, name: str) -> str:
        type = _TYPES[name]
        return self.code.define(f"load {type}, ptr {_member(stack, name)}, align 8")

    # -- one stack

    def grown(self, node: Op) -> tuple[Record, str]:
        """The record that an operation adds to a stack, and a pointer to it. Without memory the kernel ends here."""
        code, (stack, record) = self.code, self._added(node)
        top = self.member(stack, "top")
        if room := self.room.get(node, record.size):
            self.make_sure(stack, code.define(f"add i64 {top}, {room}"))
        self.shrink(stack, code.define(f"add i64 {top}, {record.size}"))
        data = self.member(stack, "data")
        return record, code.define(f"getelementptr i8, ptr {data}, i64 {top}")

    def make_sure(self, stack: int, following: str) -> None:
        """Let a stack have so many bytes."""
        code = self.code
        capacity = self.member(stack, "capacity")
        fits = code.define(f"icmp ule i64 {following}, {capacity}")
        full, grown, failed, ready = (code.new_label(name) for name in ("full", "grown", "failed", "ready"))
        code.line(f"br i1 {fits}, label %{ready}, label %{full}")
        code.label(full)
        grow = code.define("load ptr, ptr %tapes, align 8")
        done = code.define(f"call i1 {grow}(ptr %tapes, i64 {stack}, i64 {following})")
        code.line(f"br i1 {done}, label %{grown}, label %{failed}")
        code.label(failed)
        code.line("ret void")
        code.label(grown)
        self.reload(stack)
        code.line(f"br label %{ready}")
        code.label(ready)

    def last(self, stack: int, size: int) -> tuple[str, str]:
        """The begin of the last `size` bytes: as an offset, and as a pointer."""
        code = self.code
        top = self.member(stack, "top")
        code.declare("i64", "llvm.usub.sat.i64", ["i64", "i64"])
        begin = code.define(f"call i64 @llvm.usub.sat.i64(i64 {top}, i64 {size})")
        data = self.member(stack, "data")
        return begin, code.define(f"getelementptr i8, ptr {data}, i64 {begin}")

    def shrink(self, stack: int, top: str) -> None:
        self.code.line(f"store i64 {top}, ptr {_member(stack, 'top')}, align 8")

    def write(self, record: str, field: Field, text: str) -> None:
        at = self.code.define(f"getelementptr i8, ptr {record}, i64 {field.offset}")
        stored = self.memory.to_memory(field.type, text, not field.is_uniform)
        self.code.line(f"store {self.type(field)} {stored}, ptr {at}, {self.align(field)}")

    def read(self, record: str, field: Field) -> str:
        at = self.code.define(f"getelementptr i8, ptr {record}, i64 {field.offset}")
        loaded = self.code.define(f"load {self.type(field)}, ptr {at}, {self.align(field)}")
        return self.memory.from_memory(field.type, loaded, not field.is_uniform)

    def type(self, field: Field) -> str:
        kind = memory_type(field.type)
        return kind if field.is_uniform else self.code.vector(kind)

    def align(self, field: Field) -> str:
        # realloc gives 16 bytes.
        size = field.type.bits // 8
        return f"align {min(16, size if field.is_uniform else size * self.code.width)}"

    # -- the tape

    def push(self, node: Op, texts: list[str]) -> None:
        record, at = self.grown(node)
        for field, text in zip(record.fields, texts, strict=True):
            self.write(at, field, text)

    def top(self, tape: int, position: int) -> str:
        record = self.records[tape]
        return self.read(self.last(0, record.size)[1], record.fields[position])

    def pop(self, tape: int) -> None:
        self.shrink(0, self.last(0, self.records[tape].size)[0])

    # -- logs

    def save(self, node: Op, element: Element, value: str, mask: str | None) -> None:
        """Add where the elements are, or -1 for lanes that have none, and what they hold."""
        offsets = self.memory.number(element)
        if not element.shape.is_varying:
            offsets = self.code.splat(offsets, "i64", element.level)
        inside = element.inside
        if inside is not None and not element.shape.is_varying:
            inside = self.code.splat(inside, "i1")
        there = self.memory.both(mask, inside)
        if there is not None:
            offsets = self.code.instructions(BODY, True).select(there, int64, offsets, "splat (i64 -1)")
        record, at = self.grown(node)
        for field, text in zip(record.fields, (offsets, value), strict=True):
            self.write(at, field, text)

    def mark(self, array: int) -> str:
        return self.member(self.stack_of[array], "top")

    def undo(self, array: int) -> tuple[Element, str, str]:
        """Pop the last record: the elements, their old values, and the mask of lanes that had one."""
        stack, record = self.stack_of[array], self.log_records[array]
        top = self.mark(array)
        begin, at = self.last(stack, record.size)
        offsets, value = (self.read(at, field) for field in record.fields)
        self.shrink(stack, begin)
        out = self.code.instructions(BODY, True)
        # An empty log has no record, whatever kernel asks for one.
        any = self.code.define(f"icmp uge i64 {top}, {record.size}")
        there = out.compare("sge", "i64", offsets, out.spread("0", "i64"))
        there = out.binary("and", bool_, there, self.code.splat(any, "i1"))
        return Element(array, self.memory.arrays[array].dtype, VARYING, offsets, BODY), value, there

    def is_above(self, array: int, mark: str) -> str:
        """The condition that the log has grown since it was at `mark`."""
        return self.code.define(f"icmp sgt i64 {self.mark(array)}, {mark}")

    # -- notes, which are read again in the order in which they were added

    def note(self, node: Op, text: str) -> None:
        """Add a value to the notes of an array."""
        record, at = self.grown(node)
        self.write(at, record.fields[0], text)

    def noted(self, array: int) -> str:
        """The next value. Past the end of the memory it is the first one, whatever kernel asks for it."""
        code, stack, record = self.code, self.notes_of[array], self.note_records[array]
        place = self.bookmark(array)
        following = code.define(f"add i64 {place}, {record.size}")
        fits = code.define(f"icmp ule i64 {following}, {self.member(stack, 'capacity')}")
        self.shrink(stack, code.define(f"select i1 {fits}, i64 {following}, i64 {place}"))
        begin = code.define(f"select i1 {fits}, i64 {place}, i64 0")
        data = self.member(stack, "data")
        return self.read(code.define(f"getelementptr i8, ptr {data}, i64 {begin}"), record.fields[0])

    def bookmark(self, array: int) -> str:
        return self.member(self.notes_of[array], "top")

    def rewind(self, array: int, place: str) -> None:
        """Go back to a place, which is that of a record whatever the number is."""
        code = self.code
        code.declare("i64", "llvm.umin.i64", ["i64", "i64"])
        earlier = code.define(f"call i64 @llvm.umin.i64(i64 {place}, i64 {self.bookmark(array)})")
        self.shrink(self.notes_of[array], code.define(f"and i64 {earlier}, {-ALIGNMENT}"))


def lane_max(code: Code, text: str, type: ScalarType, mask: str | None) -> str:
    """The largest lane that is active."""
    kind = scalar_type(type)
    vector = code.vector(kind)
    if mask is not None:
        lowest = f"splat ({kind} {type.min})"
        text = code.define(f"select {code.vector('i1')} {mask}, {vector} {text}, {vector} {lowest}")
    name = f"llvm.vector.reduce.{'smax' if type.kind == 'int' else 'umax'}.v{code.width}{kind}"
    code.declare(kind, name, [vector])
    return code.define(f"call {kind} @{name}({vector} {text})")
