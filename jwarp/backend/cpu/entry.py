"""Wraps a kernel's body in the loops over its threads, and in the entry that the runtime calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.analysis.ranges import Proofs, components_fit
from jwarp.backend.cpu.body import Functions
from jwarp.backend.cpu.code import BODY, ENTRY, ROW, Code, Lanes, Options
from jwarp.backend.cpu.emit import BodyEmitter, emitter_of_function
from jwarp.backend.cpu.memory import ZEROS, Memory
from jwarp.backend.cpu.shapes import UNIFORM, Shape, shapes_of
from jwarp.ir.nodes import Kernel, walk_all
from jwarp.types import ArrayType, int32
from jwarp.wire import FRAME, Cover, type_of

# The members of the frame that are read at once. A failed check writes to those after them.
READ = FRAME[: next(k for k, (name, _) in enumerate(FRAME) if name == "failed_site")]
NAMES = {name: name.replace("column", "col").replace("_", ".") for name, _ in READ}
NUMBERS = tuple(NAMES[name] for name, type in READ if type == "i64")


@dataclass(frozen=True)
class Generated:
    """One version of a kernel as LLVM assembly.

    For the ids of its accesses, `ways` holds the instructions that make them, most used first, and
    `trusted` has those that are not tested. `units` are the functions of the runtime that it
    calls, and `in_line` those that it has a form of in line.
    """

    text: str
    ways: Mapping[int, tuple[str, ...]]
    trusted: frozenset[int]
    units: tuple[Any, ...]
    in_line: tuple[Any, ...]


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
    shapes, trusted = shapes_of(kernel), _trusted(proofs, checked, bounds)
    emitter = BodyEmitter(code, memory, proofs, shapes, trusted, failures)
    emitter.functions = Functions(emitter_of_function)
    runs = _has_components(memory) if checked and bounds else ""
    body = _body(emitter, runs)
    pointers = [f"ptr noalias %p{k}" for k in range(len(kernel.params))]
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
        tuple(code.units),
        tuple(code.in_line),
    )


def _trusted(proofs: Proofs, checked: bool, bounds: bool) -> frozenset[int]:
    """The ids of the accesses that a version makes without testing them."""
    if not bounds:
        return frozenset(map(id, walk_all(proofs.kernel)))
    given = components_fit(proofs.kernel, proofs.symbols)
    return frozenset(node for node, condition in proofs.proven.items() if not checked or condition <= given)


def _has_components(memory: Memory) -> str:
    """Whether the elements of all arrays have the components that the code is made for; empty if there are none.

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
    """Unpack the frame; parameters of a function can be told not to overlap, loaded pointers cannot."""
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
        return _assembled(code, rows, starts, following, "rest", runs)
    # Without cheap masked accesses the whole vectors of a row get code of their own.
    peeled = not code.options.target.masks and code.width > 1
    loops = ["whole", "rest"] if peeled else ["rest"]
    for loop, before in zip(loops, ["row.start", *loops], strict=False):
        _vector_loop(emitter, coordinates, loop, before)
    return _assembled(code, rows, starts, following, loops[0], runs)


def _assembled(
    code: Code, rows: list[str], starts: list[str], following: list[str], first: str, runs: str
) -> list[str]:
    """The sections of code in the loop over rows, each of which begins with the loop `first` over its columns."""
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
        f"  br label %{first}.head",
        *body,
        "row.latch:",
        "  %row.next = add i64 %row, 1",
        "  %row.more = icmp slt i64 %row.next, %row.end",
        "  br i1 %row.more, label %row.start, label %exit",
        "exit:",
        "  ret void",
    ]


def _vector_loop(emitter: BodyEmitter, rows: list[Lanes], loop: str, before: str) -> None:
    """A loop over the columns: `whole`, full vectors without a mask; `rest`, all that is left."""
    code, memory, kernel = emitter.code, emitter.memory, emitter.proofs.kernel
    width, whole = code.width, loop == "whole"
    col = f"%{loop}.col"
    begin, edge = ("%col.begin", "row.start") if before == "row.start" else (f"%{before}.col", f"{before}.head")
    code.label(f"{loop}.head")
    code.line(f"{col} = phi i64 [{begin}, %{edge}], [{col}.next, %{loop}.latch]")
    code.line(f"%{loop}.left = sub i64 %col.end, {col}")
    code.line(f"%{loop}.more = icmp sge i64 %{loop}.left, {width if whole else 1}")
    code.line(f"br i1 %{loop}.more, label %{loop}.body, label %{'rest.head' if whole else 'row.latch'}")
    code.label(f"{loop}.body")
    if whole:
        memory.active_lanes, emitter.mask = str(width), None
    else:
        code.declare("i64", "llvm.smin.i64", ["i64", "i64"])
        memory.active_lanes = code.define(f"call i64 @llvm.smin.i64(i64 %{loop}.left, i64 {width})")
        lanes = code.splat(code.define(f"trunc i64 {memory.active_lanes} to i32"), "i32")
        emitter.mask = code.define(f"icmp ult {code.vector('i32')} {code.iota('i32')}, {lanes}")
    emitter.thread_mask = emitter.mask
    first = Lanes(code.define(f"trunc i64 {col} to i32"), int32, Shape(1), BODY)
    emitter.coordinates, emitter.first_column = [*rows, first], col
    emitter.tape.start()
    emitter.zero_fill(p for p, cover in enumerate(emitter.proofs.covers) if cover is Cover.OWN)
    emitter.block(kernel.body)
    code.line(f"br label %{loop}.latch")
    code.label(f"{loop}.latch")
    code.line(f"{col}.next = add i64 {col}, {width}")
    code.line(f"br label %{loop}.head")


def _block_loop(emitter: BodyEmitter, rows: list[Lanes]) -> None:
    """A loop over the columns of a kernel with tiles, each of which is a block."""
    code, memory, kernel = emitter.code, emitter.memory, emitter.proofs.kernel
    col = "%rest.col"
    code.label("rest.head")
    code.line(f"{col} = phi i64 [%col.begin, %row.start], [{col}.next, %rest.latch]")
    code.line(f"%rest.more = icmp slt i64 {col}, %col.end")
    code.line("br i1 %rest.more, label %rest.body, label %row.latch")
    code.label("rest.body")
    memory.active_lanes = "1"
    # What is not done for the elements of tiles is done once, as if by a vector with one lane that is active.
    emitter.mask = "<" + ", ".join(f"i1 {'false' if k else 'true'}" for k in code.lane_numbers) + ">"
    emitter.thread_mask = emitter.mask
    column = Lanes(code.define(f"trunc i64 {col} to i32"), int32, UNIFORM, BODY)
    emitter.coordinates, emitter.first_column = [*rows, column], col
    emitter.tape.start()
    emitter.zero_fill(p for p, cover in enumerate(emitter.proofs.covers) if cover is Cover.OWN)
    emitter.block(kernel.body)
    code.line("br label %rest.latch")
    code.label("rest.latch")
    code.line(f"{col}.next = add i64 {col}, 1")
    code.line("br label %rest.head")


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
