"""Writes the body of a kernel as CUDA C++: what one thread does for each operation."""

from __future__ import annotations

from collections.abc import Sequence

from jwarp.backend.cuda.common_sums import Addition
from jwarp.backend.cuda.native import (
    array_argument,
    c_type,
    function_of,
    made,
)
from jwarp.backend.cuda.native import parts as native_parts
from jwarp.backend.cuda.records import FULL
from jwarp.backend.cuda.rules import C_TYPES, CUDA_RULES, bare
from jwarp.backend.cuda.statements import Statements
from jwarp.backend.cuda.texts import (
    constant_place,
    is_atom,
    quoted,
    zero,
)
from jwarp.errors import CompileError
from jwarp.ir.attributes import Extent, NativeCall, RecordField, RecordFields
from jwarp.ir.builder import TRUE
from jwarp.ir.formats import Conversion, parse
from jwarp.ir.native import BY_SCALARS, element_of
from jwarp.ir.nodes import (
    Op,
    Operand,
    Value,
)
from jwarp.ir.ops import OPS
from jwarp.passes.reciprocal_roots import inverse_root
from jwarp.types import bool_

# The last check for which the runtime has bits; failures of further checks are noted without a text.
MAX_SITE = 4095
# Values that `printf` of CUDA takes.
MOST_PRINTED = 32
# Longer expressions get a name, so that lines stay readable.
MAX_INLINE = 72


class BodyEmitter(Statements):
    """Writes the statements of operations."""

    def op(self, node: Op) -> None:
        special = SPECIAL_RULES.get(node.name)
        special(self, node) if special else self.pure(node)

    def pure(self, node: Op) -> None:
        assert node.result is not None
        root = inverse_root(node, self.definitions)
        if root is not None:
            text = f"jw_inverse_root({bare(self.text(root))})"
        else:
            text = CUDA_RULES[node.name](node, [self.text(a) for a in node.args])
        if node.result in self.inlinable and len(text) <= MAX_INLINE:
            self.values[node.result] = text if is_atom(text) else f"({text})"
        else:
            self.define(node.result, text)

    # -- where a thread is, and what it is given

    def tid(self, node: Op) -> None:
        assert node.result is not None
        self.values[node.result] = f"i{node.number}"

    def thread(self, node: Op) -> None:
        assert node.result is not None
        self.values[node.result] = self.thread_number

    def param(self, node: Op) -> None:
        assert node.result is not None
        self.values[node.result] = self.names[node.number]

    def shape(self, node: Op) -> None:
        assert node.result is not None
        extent = node.attr_as(Extent)
        self.values[node.result] = self.extent(extent.array, extent.axis)

    # -- memory

    def load(self, node: Op) -> None:
        assert node.result is not None
        type = node.result.type
        quads = self.quads.get(node) if self.is_constant(node) else None
        if quads is not None:
            if node is quads.nodes[0]:
                self.values[quads.value] = name = self.name()
                self.line(f"const auto {name} = {quads.access(self.names[node.array], self.element(node)[0])};")
            self.values[node.result] = f"{self.text(quads.value)}.at[{quads.places[node]}]"
            return
        element, inside = self.element(node)
        read = element
        if self.is_constant(node):
            read = f"jw_read(&{element})"
        if type is bool_:
            read = f"{read} != 0"
        self.found(node, read if inside is None else f"{inside} ? {read} : {zero(type)}")

    def is_constant(self, node: Op) -> bool:
        """True if an element is in an array that nothing changes while the kernel runs."""
        return node.array < len(self.kernel.params) and node.array not in self.written

    def store(self, node: Op) -> None:
        element, inside = self.element(node)
        value = bare(self.text(node.args[-1]))
        self.line(f"{self.guard(node.array, inside)}{element} = {value};")

    def clear(self, node: Op) -> None:
        local = self.kernel.local(node.array)
        assert local is not None
        k = self.name()
        nothing = "0" if local.dtype is bool_ else zero(local.dtype)
        guard = self.guard(node.array, None)
        element = f"{self.names[node.array]}[{self.placed(node.array, k)}]"
        self.line(f"{guard}for (int {k} = 0; {k} < {local.size}; ++{k}) {element} = {nothing};")

    def atomic(self, node: Op) -> None:
        indices = node.indices
        values = [bare(self.text(x)) for x in node.args[len(indices) :]]
        total = self.sums.get(constant_place(node))
        if total is not None:
            added = f"{total} + {values[0]}" if node.args[-1].type.is_float else f"jw_add({total}, {values[0]})"
            self.line(f"{total} = {added};")
            return
        element, inside = self.element(node)
        if node in self.together:
            addition = Addition(*self.parted(node, element), values[0], self.together.line_of(node))
            self.add_together(node, addition, inside)
            return
        call = f"jw_{node.name}(&{element}, {', '.join(values)})"
        if node.result is None or node.result not in self.used:
            self.line(f"{self.guard(node.array, inside)}{call};")
        else:
            self.found(node, call if inside is None else f"{inside} ? {call} : {zero(node.result.type)}")

    def add_together(self, node: Op, addition: Addition, inside: str | None) -> None:
        """One that needs a test cannot wait for others, which may need none."""
        if inside is not None:
            self.line(f"{self.guard(node.array, inside)}{self.together.at_once(node, addition, self.text)}")
        statement = self.together.after(node, addition if inside is None else None, self.text)
        if statement is not None:
            self.line(statement)

    def is_inside(self, node: Op) -> None:
        assert node.result is not None
        if node in self.trusted:
            self.values[node.result] = "true"
            return
        _, inside = self.element(node)
        self.values[node.result] = inside or "true"

    # -- records of what was

    def push(self, node: Op) -> None:
        tape = self.tapes[node.attr_as(RecordFields).tape]
        self.make_room(tape.fields, tape.size)
        for field, value in zip(tape.fields, node.args, strict=True):
            self.line(f"{field}[{tape.size}] = {bare(self.text(value))};")
        self.line(f"++{tape.size};")

    def make_room(self, rows: Sequence[str], size: str) -> None:
        """Let rows of records have a place for the next one; a check fails where there is no memory."""
        if self.grows and rows:
            site = self.sites[FULL] if self.sites[FULL] <= MAX_SITE else 0  # one that has no text
            has = " & ".join(f"{row}.has({size})" for row in rows)
            self.line(f"if ({self.lacking(has)}) {{ jw_fail(args.failure, n, {site}); {self.leaving()} }}")

    def lacking(self, has: str) -> str:
        """True if there is no memory for records."""
        return f"!({has})"

    def top(self, node: Op) -> None:
        assert node.result is not None
        field = node.attr_as(RecordField)
        tape = self.tapes[field.tape]
        read = f"{tape.fields[field.field]}[{tape.size} - 1]"
        self.define(node.result, f"{read} != 0" if node.result.type is bool_ else read)

    def pop(self, node: Op) -> None:
        self.line(f"--{self.tapes[node.number].size};")

    def save(self, node: Op) -> None:
        """Keep an element with its place; one that is outside has none."""
        log = self.logs[node.array]
        self.make_room((log.places, log.contents), log.size)
        element, inside = self.element(node)
        _, place = self.parted(node, element)
        self.line(f"{log.places}[{log.size}] = {place if inside is None else f'{inside} ? {place} : -1'};")
        self.line(f"{'' if inside is None else f'if ({inside}) '}{log.contents}[{log.size}] = {element};")
        self.line(f"++{log.size};")

    def mark(self, node: Op) -> None:
        assert node.result is not None
        self.define(node.result, self.logs[node.array].size)

    def undo(self, node: Op) -> None:
        log, name = self.logs[node.array], self.names[node.number]
        self.line(f"--{log.size};")
        guard = self.guard(node.array, f"{log.places}[{log.size}] >= 0")
        self.line(f"{guard}{name}[{log.places}[{log.size}]] = {log.contents}[{log.size}];")

    def rollback(self, node: Op) -> None:
        self.line(f"while ({self.logs[node.array].size} > {self.text(node.args[0])}) {{")
        self.depth += 1
        self.undo(node)
        self.depth -= 1
        self.line("}")

    def note(self, node: Op) -> None:
        notes = self.notes[node.array]
        self.make_room((notes.contents,), notes.place)
        self.line(f"{notes.contents}[{notes.place}++] = {bare(self.text(node.args[0]))};")

    def noted(self, node: Op) -> None:
        notes = self.notes[node.array]
        if node.result is None:
            self.line(f"++{notes.place};")
        else:
            self.define(node.result, f"{notes.contents}[{notes.place}++]")

    def bookmark(self, node: Op) -> None:
        assert node.result is not None
        self.define(node.result, self.notes[node.array].place)

    def rewind(self, node: Op) -> None:
        self.line(f"{self.notes[node.array].place} = {bare(self.text(node.args[0]))};")

    def same(self, node: Op) -> None:
        """The condition for all threads in lockstep is that of this one; of a derivative there is nothing to run."""
        assert node.result is not None
        text = self.text(node.args[0])
        if text.isidentifier():
            self.values[node.result] = text
        else:
            self.define(node.result, text)

    def rule(self, node: Op) -> None:
        """A derivative is nothing to run, nor is a hint for processors."""

    # -- native code

    def in_line(self, node: Op) -> None:
        raise AssertionError(f"{node.name} is inlined before")

    def on_gpu(self, node: Op) -> None:
        assert node.result is not None
        self.values[node.result] = "true"

    def native(self, node: Op) -> None:
        call, scalars = node.attr_as(NativeCall), [bare(self.text(x)) for x in node.args]
        reads, changes = iter(call.reads), iter(call.changes)
        arguments, parts = [], []
        for param in call.params:
            if param.kind in BY_SCALARS:
                count = element_of(param.element).size
                value, scalars = made(param.element, scalars[:count]), scalars[count:]
                if param.kind == "reference":
                    name = self.name()
                    self.line(f"{c_type(param.element)} {name} = {value};")
                    parts += native_parts(param.element, name)
                    value = name
                arguments.append(value)
            else:
                array = next(reads if param.kind == "read" else changes)
                dims = getattr(self.kernel.array(array).type, "dims", 0)
                extents = [self.extent(array, axis) for axis in range(dims)]
                arguments.append(array_argument(param, self.names[array], extents))
        text = f"{self.natives[function_of(call)]}({', '.join(arguments)})"
        if call.result:
            name = self.name()
            self.line(f"const {c_type(call.result)} {name} = {text};")
            parts = [*native_parts(call.result, name), *parts]
        else:
            self.line(f"{text};")
        if node.result is not None:
            self.native_results[node.result] = parts

    def native_part(self, node: Op) -> None:
        assert node.result is not None and isinstance(node.args[0], Value)
        self.values[node.result] = self.native_results[node.args[0]][node.number]

    # -- effects

    def check(self, node: Op) -> None:
        if node.args[0] != TRUE:
            site = self.sites[node.text] if self.sites[node.text] <= MAX_SITE else 0  # one that has no text
            self.line(f"if (!{self.text(node.args[0])}) {{ jw_fail(args.failure, n, {site}); {self.leaving()} }}")

    def print_line(self, node: Op) -> None:
        given = iter(node.args)
        format, values = "", []
        for part in parse(node.text):
            if isinstance(part, str):
                format += part.replace("%", "%%")
            else:
                format += f"%{part.options}{'ll' if part.letter in 'diuoxX' else ''}{part.letter}"
                values.append(self.promoted(part, next(given)))
        if len(values) > MOST_PRINTED:
            raise CompileError(
                f"kernel `{self.kernel.name}`: a line of {len(values)} values was asked for, and CUDA prints "
                f"{MOST_PRINTED} at most",
                node.span,
                "print some of them in another line",
            )
        text = "".join(map(quoted, format))
        self.line(f'{self.guard(None, None)}printf("{text}"{"".join(f", {v}" for v in values)});')

    def promoted(self, conversion: Conversion, x: Operand) -> str:
        """An argument as C passes it to a function of any arguments."""
        text = self.text(x)
        if conversion.letter == "s":
            return f'{text} ? "True" : "False"'
        if x.type.is_float:
            return f"(double){text if x.type.bits >= 32 else f'jw_widen({bare(text)})'}"
        if conversion.letter == "c":
            return f"(int){text}"
        if conversion.letter not in "di" and x.type.kind == "int":
            text = f"(jw_unsigned<{C_TYPES[x.type]}>){text}"
        return f"(long long){text}"


# Operations that the emitter itself knows; the others are rows of CUDA_RULES.
SPECIAL_RULES = {
    "tid": BodyEmitter.tid,
    "param": BodyEmitter.param,
    "shape": BodyEmitter.shape,
    "load": BodyEmitter.load,
    "store": BodyEmitter.store,
    "clear": BodyEmitter.clear,
    **{name: BodyEmitter.atomic for name, row in OPS.items() if row.is_atomic},
    "push": BodyEmitter.push,
    "top": BodyEmitter.top,
    "pop": BodyEmitter.pop,
    "save": BodyEmitter.save,
    "mark": BodyEmitter.mark,
    "undo": BodyEmitter.undo,
    "rollback": BodyEmitter.rollback,
    "note": BodyEmitter.note,
    "noted": BodyEmitter.noted,
    "bookmark": BodyEmitter.bookmark,
    "rewind": BodyEmitter.rewind,
    "lane_max": BodyEmitter.same,
    "rule": BodyEmitter.rule,
    "detach": BodyEmitter.same,
    "inside": BodyEmitter.is_inside,
    "prefetch": BodyEmitter.rule,
    "thread": BodyEmitter.thread,
    "check": BodyEmitter.check,
    "print": BodyEmitter.print_line,
    "call": BodyEmitter.in_line,
    "call_part": BodyEmitter.in_line,
    "on_gpu": BodyEmitter.on_gpu,
    "native": BodyEmitter.native,
    "native_part": BodyEmitter.native_part,
}
