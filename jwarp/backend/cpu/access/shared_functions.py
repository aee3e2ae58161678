"""Accesses to any elements of a row by functions: their code is long, and would be in a kernel many times.

Loads are functions of the runtime library, stores are functions of the kernel's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jwarp.analysis.uniformity import UNIFORM, VARYING
from jwarp.backend.cpu.access.addresses import Memory
from jwarp.backend.cpu.access.components import MAX_COMPONENTS
from jwarp.backend.cpu.access.descriptor import Access
from jwarp.backend.cpu.access.instructions import gather, scatter
from jwarp.backend.cpu.access.patterns import Pattern
from jwarp.backend.cpu.access.rows import LENGTHS, LONGEST_ROW, MAX_NEAR, ShortRow, Window, has_tables
from jwarp.backend.cpu.access.strided import BLOCK, AnyElements
from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.code import BODY, ENTRY, Code, Lanes, Options, memory_type, scalar_type
from jwarp.backend.cpu.target import Target
from jwarp.ir.nodes import Block, Kernel, Param
from jwarp.types import SCALARS, ArrayType, ScalarType, int32
from jwarp.types.composites import of_components

# Sizes of numbers that stores take vectors of on all processors.
BITS = (32, 64)


@dataclass(frozen=True)
class RowAccess:
    """Components at `positions` of elements of `size` components, by indices of `types`, for `width` threads.

    The row may be of several axes. `trusted` indices are neither tested nor counted from the end.
    """

    width: int
    type: str
    size: int
    positions: tuple[int, ...]
    types: tuple[str, ...]
    trusted: bool

    @property
    def dtype(self) -> ScalarType:
        """The type of the components."""
        return SCALARS[self.type]

    @property
    def row(self) -> ArrayType:
        """The row as an array."""
        return ArrayType(of_components((self.size,), self.dtype) if self.size > 1 else self.dtype, len(self.types))

    @property
    def vector(self) -> str:
        """LLVM's type of a component of the elements of all threads."""
        return f"<{self.width} x {memory_type(self.dtype)}>"

    @property
    def index_types(self) -> tuple[str, ...]:
        """LLVM's types of the indices."""
        return tuple(f"<{self.width} x {scalar_type(SCALARS[name])}>" for name in self.types)

    @property
    def extent_names(self) -> list[str]:
        return [f"%extent{axis}" for axis in range(len(self.types))]

    def start(self, code: Code, extents: Sequence[str]) -> tuple[Memory, list[Lanes]]:
        """The memory and the indices of the function, which begins here."""
        memory = Memory(code, Kernel("row", (Param("row", self.row),), 1, Block()), {0: 0})
        memory.give_extents(list(extents))
        return memory, [Lanes(f"%index{k}", SCALARS[n], VARYING, BODY) for k, n in enumerate(self.types)]

    def places(self, indices: Sequence[Lanes], level: int) -> list[list[Lanes]]:
        """The indices of each component by itself."""
        last = ([Lanes(str(p), int32, UNIFORM, level)] if self.size > 1 else [] for p in self.positions)
        return [[*indices, *component] for component in last]


def _row_of(body: Body, access: Access) -> tuple[str, list[str], list[Lanes]]:
    """The row that the lanes' elements are in, its extents, and their indices in it."""
    first, memory = access.nodes[0], body.memory
    indices = [body.lanes(i) for i in first.args[: memory.arrays[first.array].dims]]
    axis = next(k for k, i in enumerate(indices) if not i.shape.is_uniform)
    return *memory.row(first.array, indices[:axis], access.proved), indices[axis:]


def _active(body: Body) -> str:
    code = body.code
    return "-1" if body.mask is None else code.define(f"bitcast {code.vector('i1')} {body.mask} to i{code.width}")


def _mask(code: Code) -> str:
    return code.define(f"bitcast i{code.width} %active to {code.vector('i1')}")


def _typed(types: Iterable[str], texts: Iterable[str]) -> str:
    return ", ".join(f"{type} {text}" for type, text in zip(types, texts, strict=True))


# -- stores


@dataclass(frozen=True)
class Storing(RowAccess):
    """Stores to components of any elements of a row."""

    @property
    def name(self) -> str:
        """The name of the function."""
        parts = (self.type, self.size, *self.positions, *self.types)
        return f"@store.{'.'.join(map(str, parts))}{'.trusted' if self.trusted else ''}"

    @property
    def params(self) -> tuple[str, ...]:
        """LLVM's types of what it takes: a row, its extents, indices, values and which lanes are active."""
        values = [self.vector] * len(self.positions)
        return ("ptr", *["i64"] * len(self.types), *self.index_types, *values, f"i{self.width}")


def store_by_function(body: Body, access: Access) -> list[str]:
    """Store to components of any elements by a function of the kernel's own."""
    code, components = body.code, access.components
    row, extents, indices = _row_of(body, access)
    assert components is not None
    types = tuple(i.type.name for i in indices)
    store = Storing(code.width, access.type.name, access.size, components, types, access.proved)
    values = body.stored(access.nodes)
    given = [row, *extents, *map(body.vector, indices), *values]
    if store.name not in code.functions:
        code.functions[store.name] = ""  # its declarations come with it
        code.functions[store.name] = _storing(store, code)
    code.line(f"call fastcc void {store.name}({_typed(store.params, [*given, _active(body)])})")
    return []


def _storing(store: Storing, outer: Code) -> str:
    """The text of the function."""
    code = Code(outer.options, shares=True)
    memory, indices = store.start(code, store.extent_names)
    values = [f"%value{k}" for k in range(len(store.positions))]
    params = _typed(store.params, ["%p0", *store.extent_names, *(i.text for i in indices), *values, "%active"])
    code.label("body")
    mask = _mask(code)
    for place, value in zip(store.places(indices, BODY), values, strict=True):
        scatter(memory, memory.element(0, place, store.trusted), value, mask)
    outer.declarations |= code.declarations
    entry, _, body = code.sections
    head = f"define internal fastcc void {store.name}({params}) noinline nounwind {{"
    return "\n".join([head, "entry:", *entry, "  br label %body", *body, "  ret void", "}"])


# -- loads


@dataclass(frozen=True)
class Loading(RowAccess):
    """Loads of components of any elements of a row.

    Short rows are taken `by_row` into registers; of others, elements are loaded `whole` and shuffled, or gathered.
    `extents` are those of the row, where they are known.
    """

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
    def result(self) -> str:
        """LLVM's type of what it gives: a vector for each position."""
        return f"{{ {', '.join([self.vector] * len(self.positions))} }}"

    @property
    def params(self) -> tuple[str, ...]:
        """LLVM's types of what it takes: the row, extents that are not known, indices, and which lanes are active."""
        extents = () if self.extents else ("i64",) * len(self.types)
        return ("ptr", *extents, *self.index_types, f"i{self.width}")

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
    row, extents, indices = _row_of(body, access)
    known = all(text.isdigit() for text in extents)
    assert access.components is not None
    load = Loading(
        access.target.width,
        "float32" if access.type.is_float else "int32",
        access.size,
        access.components,
        tuple(i.type.name for i in indices),
        access.proved,
        is_in_row(access.elements, access.type, access.target),
        is_whole(access),
        tuple(map(int, extents)) if known else (),
    )
    given, code, name = [row, *([] if known else extents), *map(body.vector, indices)], body.code, load.symbol
    if access.short_kernel and (inlined := near(load)):
        code.inlined[load], name = None, inlined
    if name == load.symbol or not load.is_short:
        code.library[load] = None
    code.declarations.add(declaration(load, name))
    return _called(code, load, name, _typed(load.params, [*given, _active(body)]))


def _called(code: Code, load: Loading, name: str, given: str) -> list[str]:
    """The components that a call gives."""
    called = code.define(f"call {load.result} @{name}({given})")
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
    memory, indices = load.start(code, [str(n) for n in load.extents] or load.extent_names)
    names = [] if load.extents else load.extent_names
    given = _typed(load.params, ["%row", *names, *(i.text for i in indices), "%active"])
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
            code.define(f"phi {load.vector} " + ", ".join(f"[{text}, %{block}]" for text, block in ways))
            for ways in zip(*([(text, block) for text in made] for made, block in found), strict=True)
        ]
    result = "poison"
    for k, text in enumerate(texts):
        result = code.define(f"insertvalue {load.result} {result}, {load.vector} {text}, {k}")
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
    mask = _mask(code)
    if has_tables(code.options.target) and load.size <= MAX_NEAR and set(load.types) == {int32.name}:
        window = Window(code, memory, indices, load.trusted, mask)
        code.line(f"br i1 {window.fits()}, label %near, label %far")
        code.label("near")
        found.append((window.load(load.positions), code.block))
        code.line("br label %done")
        code.label("far")
    if given:
        code.declarations.add(declaration(load))
        found.append((_called(code, load, load.symbol, given), code.block))
    else:
        found.append((_any(load, memory, indices, mask), code.block))
    return found


def _any(load: Loading, memory: Memory, indices: list[Lanes], mask: str) -> list[str]:
    """The components, wherever the threads' elements are."""
    code = memory.code
    if load.whole:
        return AnyElements(code, memory, 0, indices, load.trusted).load_active(load.positions, mask)
    places = load.places(indices, ENTRY)
    return [gather(memory, memory.element(0, place, load.trusted), mask) for place in places]


def _some(memory: Memory) -> str:
    """The condition that a row has an element: lanes that are not active load one, too."""
    code, holds = memory.code, ""
    for axis in range(memory.arrays[0].dims):
        some = code.define(f"icmp ne i64 {memory.extent(0, axis)}, 0", ENTRY)
        holds = code.define(f"and i1 {holds}, {some}", ENTRY) if holds else some
    return holds
