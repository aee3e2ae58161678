"""Loads by any index in a row of elements: they take much code, in functions of the runtime library."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jwarp.analysis.uniformity import UNIFORM, VARYING
from jwarp.backend.cpu.access.addresses import Memory
from jwarp.backend.cpu.access.components import MAX_COMPONENTS
from jwarp.backend.cpu.access.descriptor import Access
from jwarp.backend.cpu.access.instructions import gather
from jwarp.backend.cpu.access.patterns import Pattern
from jwarp.backend.cpu.access.rows import LENGTHS, LONGEST_ROW, MAX_NEAR, ShortRow, Window, has_tables
from jwarp.backend.cpu.access.strided import BLOCK, AnyElements
from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.code import BODY, ENTRY, Code, Lanes, Options, memory_type, scalar_type
from jwarp.backend.cpu.target import Target
from jwarp.ir.nodes import Block, Kernel, Param
from jwarp.types import SCALARS, ArrayType, ScalarType, int32
from jwarp.types.composites import of_components


@dataclass(frozen=True)
class Loading:
    """Components at `positions` of elements of `size` components, by indices of `types`, for `width` threads.

    The row may be of several axes. Short ones are taken `by_row` into registers; of others, elements are loaded `whole`
    and shuffled, or gathered. `trusted` indices are neither tested nor counted from the end. `extents` are those of the
    row, where they are known.
    """

    width: int
    type: str
    size: int
    positions: tuple[int, ...]
    types: tuple[str, ...]
    trusted: bool
    by_row: bool
    whole: bool
    extents: tuple[int, ...] = ()

    @property
    def symbol(self) -> str:
        """The load as an identifier."""
        parts = (self.width, self.type, self.size, *self.positions, *self.types, *(f"x{n}" for n in self.extents))
        flags = ((self.trusted, "trusted"), (self.by_row, "row"), (self.whole, "whole"))
        return "_".join(["jwarp_load", *map(str, parts), *(name for holds, name in flags if holds)])

    @property
    def dtype(self) -> ScalarType:
        """The type of the components."""
        return SCALARS[self.type]

    @property
    def row(self) -> ArrayType:
        """The row as an array."""
        return ArrayType(of_components((self.size,), self.dtype) if self.size > 1 else self.dtype, len(self.types))

    @property
    def result(self) -> str:
        """LLVM's type of what it gives: a vector for each position."""
        vector = f"<{self.width} x {memory_type(self.dtype)}>"
        return f"{{ {', '.join([vector] * len(self.positions))} }}"

    @property
    def params(self) -> tuple[str, ...]:
        """LLVM's types of what it takes: the row, extents that are not known, indices, and which lanes are active."""
        extents = () if self.extents else ("i64",) * len(self.types)
        vectors = (f"<{self.width} x {scalar_type(SCALARS[name])}>" for name in self.types)
        return ("ptr", *extents, *vectors, f"i{self.width}")

    @property
    def is_short(self) -> bool:
        """True if the row is known to be short."""
        return self.by_row and bool(self.extents) and self.size * math.prod(self.extents) <= LONGEST_ROW

    @property
    def length(self) -> int:
        """The numbers of a row that is known to be short, or a few more."""
        return next(n for n in LENGTHS if self.size * math.prod(self.extents) <= n)


def load_by_function(body: Body, access: Access) -> list[str]:
    """Load components of elements in a row by a function of the runtime library."""
    first, array, memory = access.nodes[0], body.memory.arrays[access.nodes[0].array], body.memory
    indices = [body.lanes(i) for i in first.args[: array.dims]]
    axis = next(k for k, i in enumerate(indices) if not i.shape.is_uniform)
    row, extents = memory.row(first.array, indices[:axis], access.proved)
    known = all(text.isdigit() for text in extents)
    assert access.components is not None
    load = Loading(
        access.target.width,
        "float32" if access.type.is_float else "int32",
        access.size,
        access.components,
        tuple(i.type.name for i in indices[axis:]),
        access.proved,
        is_in_row(access.elements, access.type, access.target),
        is_whole(access),
        tuple(map(int, extents)) if known else (),
    )
    given, code, name = [row, *([] if known else extents), *map(body.vector, indices[axis:])], body.code, load.symbol
    if access.short_kernel and (inlined := near(load)):
        code.inlined[load], name = None, inlined
    if name == load.symbol or not load.is_short:
        code.library[load] = None
    code.declarations.add(declaration(load, name))
    active = "-1" if body.mask is None else code.define(f"bitcast {code.vector('i1')} {body.mask} to i{code.width}")
    passed = ", ".join(f"{type} {text}" for type, text in zip(load.params, [*given, active], strict=True))
    called = code.define(f"call {load.result} @{name}({passed})")
    return [code.define(f"extractvalue {load.result} {called}, {k}") for k in range(len(load.positions))]


def is_in_row(elements: Pattern, type: ScalarType, target: Target) -> bool:
    """True if the lanes load elements of one row that registers may hold."""
    return elements is Pattern.ROW and type.bits == 32 and has_tables(target)


def is_in_short_row(access: Access) -> bool:
    """True if that row is known to be so short that they hold it."""
    return access.row_length is not None and access.row_length <= LONGEST_ROW


def is_whole(access: Access) -> bool:
    """True if elements are loaded whole and shuffled, rather than gathered."""
    if len(access.nodes) < 2 or not access.shuffles or not 1 < access.size <= MAX_COMPONENTS:
        return False
    return access.covers_element and (access.size >= BLOCK or access.target.masks)


def near(load: Loading) -> str | None:
    """The name of the form that short kernels inline, which calls the other one for rows that are not short."""
    return f"{load.symbol}.near" if load.by_row else None


def emit(load: Loading, target: Target, *, is_near: bool = False) -> str:
    """The LLVM module of a load, with one function: the one that is called, or the one to be inlined."""
    code = Code(Options(target), shares=True)
    names = [f"%extent{axis}" for axis in range(len(load.types))]
    memory = Memory(code, Kernel("row", (Param("row", load.row),), 1, Block()), {0: 0})
    memory.give_extents([str(n) for n in load.extents] or names)
    indices = [Lanes(f"%index{axis}", SCALARS[name], VARYING, BODY) for axis, name in enumerate(load.types)]
    params = ["%row", *([] if load.extents else names), *(i.text for i in indices), "%active"]
    given = ", ".join(f"{type} {name}" for type, name in zip(load.params, params, strict=True))
    vector = code.vector(memory_type(load.dtype))
    code.line(f"%p0 = select i1 {'true' if load.by_row else _some(memory)}, ptr %row, ptr @nothing", ENTRY)
    code.label("body")
    found: list[tuple[list[str], str]] = []
    if load.by_row:
        row = ShortRow(code, memory, indices, load.trusted)
        for length in (load.length,) if load.is_short else (LONGEST_ROW,) if is_near else LENGTHS:
            if not load.is_short:
                code.line(f"br i1 {row.fits(length)}, label %upto{length}, label %above{length}")
                code.label(f"upto{length}")
            found.append((row.load(load.positions, length), code.block))
            if not load.is_short:
                code.line("br label %done")
                code.label(f"above{length}")
    if not load.is_short:
        found += _ways(load, memory, indices, given if is_near else "")
    texts = found[0][0]
    if len(found) > 1:
        code.line("br label %done")
        code.label("done")
        texts = [
            code.define(f"phi {vector} " + ", ".join(f"[{text}, %{block}]" for text, block in ways))
            for ways in zip(*([(text, block) for text in made] for made, block in found), strict=True)
        ]
    result = "poison"
    for k, text in enumerate(texts):
        result = code.define(f"insertvalue {load.result} {result}, {vector} {text}, {k}")
    entry, _, body = code.sections
    head = f"define available_externally {load.result} @{near(load)}({given}) alwaysinline nounwind {{"
    lines = [
        f"@nothing = internal constant [{load.size * load.dtype.bits // 8} x i8] zeroinitializer, align 16",
        *sorted(code.declarations),
        head if is_near else f"define {load.result} @{load.symbol}({given}) nounwind {{",
        "entry:",
        *entry,
        "  br label %body",
        *body,
        f"  ret {load.result} {result}",
        "}",
        "",
    ]
    return "\n".join(lines)


def declaration(load: Loading, name: str = "") -> str:
    """The declaration that code has which calls a load."""
    return f"declare {load.result} @{name or load.symbol}({', '.join(load.params)}) nounwind memory(read)"


def _ways(load: Loading, memory: Memory, indices: list[Lanes], given: str) -> list[tuple[list[str], str]]:
    """The components, and the label of the block that has them, for elements close to each other, and anywhere.

    Inlined, the latter is a call with what is `given`.
    """
    code, found = memory.code, []
    mask = code.define(f"bitcast i{code.width} %active to {code.vector('i1')}")
    if has_tables(code.options.target) and load.size <= MAX_NEAR and set(load.types) == {int32.name}:
        window = Window(code, memory, indices, load.trusted, mask)
        code.line(f"br i1 {window.fits()}, label %near, label %far")
        code.label("near")
        found.append((window.load(load.positions), code.block))
        code.line("br label %done")
        code.label("far")
    if given:
        code.declarations.add(declaration(load))
        called = code.define(f"call {load.result} @{load.symbol}({given})")
        parts = [code.define(f"extractvalue {load.result} {called}, {k}") for k in range(len(load.positions))]
        found.append((parts, code.block))
    else:
        found.append((_any(load, memory, indices, mask), code.block))
    return found


def _any(load: Loading, memory: Memory, indices: list[Lanes], mask: str) -> list[str]:
    """The components, wherever the threads' elements are."""
    code = memory.code
    if load.whole:
        return AnyElements(code, memory, 0, indices, load.trusted).load_active(load.positions, mask)
    places = ([*indices, *([Lanes(str(p), int32, UNIFORM, ENTRY)] if load.size > 1 else [])] for p in load.positions)
    return [gather(memory, memory.element(0, place, load.trusted), mask) for place in places]


def _some(memory: Memory) -> str:
    """The condition that a row has an element: lanes that are not active load one, too."""
    code, holds = memory.code, ""
    for axis in range(memory.arrays[0].dims):
        some = code.define(f"icmp ne i64 {memory.extent(0, axis)}, 0", ENTRY)
        holds = code.define(f"and i1 {holds}, {some}", ENTRY) if holds else some
    return holds
