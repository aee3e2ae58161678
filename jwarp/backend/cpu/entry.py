"""The entry that the runtime calls, and the loops over threads around a kernel's body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.analysis.lane_serialised import lane_serialised_loops
from jwarp.analysis.ranges import Proofs, components_fit
from jwarp.analysis.uniformity import UNIFORM, Shape
from jwarp.analysis.vector_lanes import ShapesOfCalls, shapes_of
from jwarp.backend.cpu.access.addresses import ZEROS, Memory
from jwarp.backend.cpu.body import Functions
from jwarp.backend.cpu.code import BODY, ENTRY, ROW, Code, Lanes, Options
from jwarp.backend.cpu.emit import BodyEmitter, emitter_of_function
from jwarp.backend.cpu.repeated import repeats_of
from jwarp.ir.functions import arrays_of_functions
from jwarp.ir.nodes import Kernel, Node, walk_all
from jwarp.types import ArrayType, int32
from jwarp.wire import FRAME, Cover, type_of

# The members of the frame that are read at once. A failed check writes to those after them.
READ = FRAME[: next(k for k, (name, _) in enumerate(FRAME) if name == "failed_site")]
NAMES = {name: name.replace("column", "col").replace("_", ".") for name, _ in READ}
NUMBERS = tuple(NAMES[name] for name, type in READ if type == "i64")


@dataclass(frozen=True)
class Generated:
    """One version of a kernel as LLVM assembly.

    For its accesses, `ways` holds the instructions that make them, most used first, and
    `trusted` has those that are not tested. `library` are the functions of the runtime
    library that it calls, and `inlined` those that it inlines a form of.
    """

    text: str
    ways: Mapping[Node, tuple[str, ...]]
    trusted: frozenset[Node]
    library: tuple[Any, ...]
    inlined: tuple[Any, ...]


def generate(
    proofs: Proofs, name: str, options: Options, *, checked: bool, bounds: bool, failures: Sequence[str] = ()
) -> Generated:
    """The LLVM module of one version of the analysed kernel, whose entry is called `name`.

    The version tests every access, except what is proved without a condition, if `checked`; every access
    that is not proved, otherwise; and none without `bounds`.
    """
    kernel = proofs.kernel
    code = Code(options, shares=True)
    first_extent = {p: proofs.symbols.extents[p, 0].index for p, param in enumerate(kernel.params) if param.is_array}
    memory = Memory(code, kernel, first_extent)
    of_calls = ShapesOfCalls(kernel)
    serialised = lane_serialised_loops(kernel)
    shapes, trusted = shapes_of(kernel, of_calls, serialised), _trusted(proofs, checked, bounds)
    emitter = BodyEmitter(code, memory, proofs, shapes, trusted, failures)
    emitter.serialised = serialised
    emitter.functions = Functions(emitter_of_function, of_calls, arrays_of_functions(kernel))
    if emitter.is_long:
        emitter.functions.repeats = repeats_of(emitter)
    runs = _has_components(memory) if checked and bounds else ""
    body = _body(emitter, runs)
    # All memory of a type is that of any other parameter, too.
    apart = "" if any(param.is_heap for param in kernel.params) else "noalias "
    pointers = [f"ptr {apart}%p{k}" for k in range(len(kernel.params))]
    numbers = [f"i64 %{n}" for n in NUMBERS]
    params = ", ".join(
        [*pointers, "ptr noalias readonly %symbols", "ptr noalias %failure", *numbers, "ptr noalias %tapes"]
    )
    text = "\n".join(
        [
            f"; {kernel.name}: {'every access checked' if checked else 'accesses proved at launch'}",
            ZEROS,
            *code.text_definitions(),
            *sorted(code.declarations),
            "",
            f"define internal void @{name}.rows({params}) nounwind{code.source.of_function()} {{",
            *body,
            "}",
            "",
            *code.functions.values(),
            "",
            f"define void @{name}(ptr noalias %frame) nounwind {{",
            *_trampoline(kernel, name),
            "}",
            "",
            "!0 = !{}",
            *code.source.metadata(),
            "",
        ]
    )
    return Generated(
        text,
        {node: tuple(ways) for node, ways in emitter.ways.items()},
        trusted,
        tuple(code.library),
        tuple(code.inlined),
    )


def _trusted(proofs: Proofs, checked: bool, bounds: bool) -> frozenset[Node]:
    """The accesses that a version makes without testing them."""
    if not bounds:
        return frozenset(walk_all(proofs.kernel))
    given = components_fit(proofs.kernel, proofs.symbols)
    return frozenset(node for node, condition in proofs.proven.items() if not checked or condition <= given)


def _has_components(memory: Memory) -> str:
    """The condition that elements of arrays have the components that the code is made for; empty if there are none.

    Launches see to it; a damaged program may come with others, and then runs no thread. What needs no test without a
    condition may be proved by it.
    """
    code, fits = memory.code, ""
    for p, param in enumerate(memory.kernel.params):
        if isinstance(param.type, ArrayType):
            for axis, extent in enumerate(param.type.components, param.type.dims):
                given = memory.symbol(memory.first_extent[p] + axis)
                same = code.define(f"icmp eq i64 {given}, {extent}", ENTRY)
                fits = code.define(f"and i1 {fits}, {same}", ENTRY) if fits else same
    return fits


def _trampoline(kernel: Kernel, name: str) -> list[str]:
    """Unpack the frame; parameters of a function can be declared not to overlap, loaded pointers cannot."""
    lines = ["entry:"]
    args = []
    frame = type_of(FRAME)
    for k, (field, type) in enumerate(READ):
        value = NAMES[field]
        lines.append(f"  %{value}.at = getelementptr inbounds {frame}, ptr %frame, i32 0, i32 {k}")
        lines.append(f"  %{value} = load {type}, ptr %{value}.at, align 8")
    for k in range(len(kernel.params)):
        lines.append(f"  %p{k}.at = getelementptr inbounds ptr, ptr %operands, i64 {k}")
        lines.append(f"  %p{k} = load ptr, ptr %p{k}.at, align 8")
        args.append(f"ptr %p{k}")
    lines.append(f"  %failure = getelementptr inbounds {frame}, ptr %frame, i32 0, i32 {len(READ)}")
    args += ["ptr %symbols", "ptr %failure", *(f"i64 %{n}" for n in NUMBERS), "ptr %tapes"]
    return [*lines, f"  call void @{name}.rows({', '.join(args)})", "  ret void"]


def _body(emitter: BodyEmitter, runs: str) -> list[str]:
    """Rows of threads, vector by vector; sections of code that belong to the entry and to a row.

    Without `runs`, if it is not empty, nothing is done.
    """
    code, memory = emitter.code, emitter.memory
    leading = list(range(emitter.proofs.kernel.tid_dims - 1))
    starts = _row_starts(memory, leading)
    rows = [f"%row.{axis}" for axis in leading]
    coordinates = [Lanes(code.define(f"trunc i64 {row} to i32", ROW), int32, UNIFORM, ROW) for row in rows]
    following = _next_row(code, memory, leading)
    if emitter.proofs.kernel.block_dim:
        _block_loop(emitter, coordinates)
    else:
        _vector_loop(emitter, coordinates)
    return _assembled(code, rows, starts, following, runs, emitter.nontemporal.end())


def _assembled(
    code: Code, rows: list[str], starts: list[str], following: list[str], runs: str, ending: list[str]
) -> list[str]:
    """The sections of code in the loop over rows."""
    entry, row, body = code.sections
    return [
        "entry:",
        *entry,
        f"  br i1 {runs}, label %row.start, label %exit" if runs else "  br label %row.start",
        "row.start:",
        "  %row = phi i64 [%row.begin, %entry], [%row.next, %row.latch]",
        *(
            f"  {name} = phi i64 [{start}, %entry], [{then}, %row.latch]"
            for name, start, then in zip(rows, starts, following, strict=True)
        ),
        *row,
        "  br label %col.head",
        *body,
        "row.latch:",
        "  %row.next = add i64 %row, 1",
        "  %row.more = icmp slt i64 %row.next, %row.end",
        "  br i1 %row.more, label %row.start, label %exit",
        "exit:",
        *ending,
        "  ret void",
    ]


def _vector_loop(emitter: BodyEmitter, rows: list[Lanes]) -> None:
    """A loop over the columns, vector by vector. Where it pays, full vectors have code of their own, without a mask."""
    code, memory, kernel = emitter.code, emitter.memory, emitter.proofs.kernel
    width = code.width
    own = [p for p, cover in enumerate(emitter.proofs.covers) if cover is Cover.OWN]
    _loop_head(code)
    first = Lanes(code.define("trunc i64 %col to i32"), int32, Shape(1), BODY)
    emitter.coordinates, emitter.first_column = [*rows, first], "%col"
    emitter.tape.start()

    def write() -> list[str]:
        emitter.zero_fill(own)
        emitter.block(kernel.body)
        return []

    def write_part() -> list[str]:
        lanes = code.splat(code.define(f"trunc i64 {memory.active_lanes} to i32"), "i32")
        emitter.mask = emitter.thread_mask = code.define(f"icmp ult {code.vector('i32')} {code.iota('i32')}, {lanes}")
        return write()

    # Without cheap masked accesses it always pays.
    if width == 1:
        emitter.in_full(write)
    elif emitter.pays_in_full(kernel.body) or not code.options.target.masks:
        memory.active_lanes = "%left"
        is_full = code.define(f"icmp sge i64 %left, {width}")
        emitter.fast_or_slow(is_full, lambda: emitter.in_full(write), lambda: emitter.in_part(write_part))
    else:
        code.declare("i64", "llvm.smin.i64", ["i64", "i64"])
        memory.active_lanes = code.define(f"call i64 @llvm.smin.i64(i64 %left, i64 {width})")
        write_part()
    _loop_end(code, width)


def _loop_head(code: Code) -> None:
    """The start of the loop over the columns of a row: `%col` is the one at hand, `%left` says how many there are."""
    code.label("col.head")
    code.line("%col = phi i64 [%col.begin, %row.start], [%col.next, %col.latch]")
    code.line("%left = sub i64 %col.end, %col")
    code.line("%col.more = icmp sge i64 %left, 1")
    code.line("br i1 %col.more, label %col.body, label %row.latch")
    code.label("col.body")


def _loop_end(code: Code, step: int) -> None:
    code.line("br label %col.latch")
    code.label("col.latch")
    code.line(f"%col.next = add i64 %col, {step}")
    code.line("br label %col.head")


def _block_loop(emitter: BodyEmitter, rows: list[Lanes]) -> None:
    """A loop over the columns of a kernel with tiles, each of which is a block."""
    code, memory, kernel = emitter.code, emitter.memory, emitter.proofs.kernel
    _loop_head(code)
    memory.active_lanes = "1"
    # Operations that are not on elements of tiles happen once, as if in a vector with one active lane.
    emitter.mask = "<" + ", ".join(f"i1 {'false' if k else 'true'}" for k in code.lane_numbers) + ">"
    emitter.thread_mask, emitter.is_partial = emitter.mask, code.width > 1
    column = Lanes(code.define("trunc i64 %col to i32"), int32, UNIFORM, BODY)
    emitter.coordinates, emitter.first_column = [*rows, column], "%col"
    emitter.tape.start()
    emitter.zero_fill(p for p, cover in enumerate(emitter.proofs.covers) if cover is Cover.OWN)
    emitter.block(kernel.body)
    _loop_end(code, 1)


def _row_starts(memory: Memory, leading: list[int]) -> list[str]:
    """Coordinates of the first row along the leading axes."""
    code = memory.code
    rest = "%row.begin"
    starts: list[str] = []
    for axis in reversed(leading):
        extent = memory.symbol(axis)
        starts.insert(0, code.define(f"urem i64 {rest}, {extent}", ENTRY))
        rest = code.define(f"udiv i64 {rest}, {extent}", ENTRY)
    return starts


def _next_row(code: Code, memory: Memory, leading: list[int]) -> list[str]:
    """Coordinates of the row after this one: count up the last axis, carry into the ones before."""
    following: list[str] = []
    carry = "1"
    for axis in reversed(leading):
        up = code.define(f"add i64 %row.{axis}, {carry}", ROW)
        full = code.define(f"icmp eq i64 {up}, {memory.symbol(axis)}", ROW)
        following.insert(0, code.define(f"select i1 {full}, i64 0, i64 {up}", ROW))
        carry = code.define(f"zext i1 {full} to i64", ROW)
    return following
