"""Addresses of elements: indices, bounds and extents become pointers, or vectors of them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from jwarp.analysis.uniformity import UNIFORM, VARYING, Shape
from jwarp.backend.cpu.access.patterns import Pattern, pattern_of
from jwarp.backend.cpu.code import BODY, ENTRY, Code, Instructions, Lanes, memory_type, scalar_type
from jwarp.ir.nodes import Kernel, Local, Param
from jwarp.types import ArrayType, ScalarType, bool_

# The value of a load outside an array: as long as the elements of an access to a small vector or matrix.
ZEROS = "@zeros = internal constant [64 x i8] zeroinitializer, align 16"
ZEROS_BYTES = 64


@dataclass(frozen=True)
class Element:
    """The elements that a vector of threads accesses: one offset for all, consecutive ones, or any.

    `offset` plus `displacement` is the (first) element number: an i64, or a vector of them for any. `inside` is None
    where the access is proved to be in range, else an i1 (a vector of them for any).
    """

    param: int
    type: ScalarType
    shape: Shape
    offset: str
    level: int
    inside: str | None = None
    displacement: int = 0


# Patterns of which code has the number of one element, and for which that is enough.
_SCALAR = (Pattern.UNIFORM, Pattern.CONTIGUOUS)

# An index as code has it, or as it is known when code is generated.
Index = str | int


def _is_known(index: Lanes) -> bool:
    return index.shape.is_uniform and not index.text.startswith("%")


class Memory:
    """The arrays of one kernel. `mask` arguments are vectors of i1, None for all lanes."""

    def __init__(self, code: Code, kernel: Kernel, first_extent: dict[int, int]):
        self.code, self.kernel, self.first_extent = code, kernel, first_extent
        every: tuple[Param | Local, ...] = (*kernel.params, *kernel.locals)
        self.arrays = {k: array.type for k, array in enumerate(every) if isinstance(array.type, ArrayType)}
        self.active_lanes = ""  # i64: how many lanes of this vector are threads
        self._extents: dict[int, str] = {}
        self._copies: dict[str, str] = {}

    def copy_of_elements(self, kind: str, components: int) -> str:
        """The address of room for so many numbers of a type for each lane. It is one for all that ask.

        The `freeze` keeps LLVM from making registers of it: where parts are stored in another order than they lie in,
        its scalar replacement of aggregates (LLVM 22) joins them before the last one is made, which ends the process.
        """
        if kind not in self._copies:
            vector = self.code.vector(kind)
            room = self.code.define(f"alloca [{components} x {vector}], align 64", ENTRY)
            self._copies[kind] = self.code.define(f"freeze ptr {room}", ENTRY)
        return self._copies[kind]

    # -- extents and indices

    def symbol(self, index: int) -> str:
        """A launch symbol as i64, read once."""
        if index not in self._extents:
            place = self.code.define(f"getelementptr inbounds i64, ptr %symbols, i64 {index}", ENTRY)
            self._extents[index] = self.code.define(f"load i64, ptr {place}, align 8, !invariant.load !0", ENTRY)
        return self._extents[index]

    def give_extents(self, texts: Sequence[str]) -> None:
        """Use `texts` as the first launch symbols."""
        self._extents.update(enumerate(texts))

    def extent(self, param: int, axis: int) -> str:
        local = self.kernel.local(param)
        if local is not None:
            return str(local.shape[axis])
        array = self.arrays[param]
        if axis >= array.dims:  # code of a kernel runs only where elements have the components that it was made for
            return str(array.components[axis - array.dims])
        return self.symbol(self.first_extent[param] + axis)

    def wide(self, lanes: Lanes) -> str:
        """An index, or that of the first lane, as i64."""
        return self.widened(self.code.instructions(lanes.level, lanes.shape.is_varying), lanes.type, lanes.text)

    def wide_vector(self, lanes: Lanes) -> str:
        """An index as a vector of i64."""
        if lanes.shape.is_varying:
            return self.wide(lanes)
        if lanes.shape.is_uniform:
            return self.code.splat(self.wide(lanes), "i64", lanes.level)
        # Counted up before it is widened: it may wrap between a lane that is not active and one that is.
        assert lanes.shape.stride is not None
        kind = scalar_type(lanes.type)
        out = self.code.instructions(BODY, True)
        base = self.code.splat(lanes.text, kind, lanes.level)
        return self.widened(out, lanes.type, out.binary("add", kind, base, self.code.iota(kind, lanes.shape.stride)))

    def widened(self, out: Instructions, type: ScalarType, index: str) -> str:
        if type.bits == 64:
            return index
        return out.convert("sext" if type.kind == "int" else "zext", type, index, "i64")

    # -- elements

    def element(self, param: int, indices: list[Lanes], proven: bool) -> Element:
        """The elements at `indices`, each checked unless `proven`."""
        known = self.known_offset(param, indices)
        if known is not None:
            return Element(param, self.arrays[param].dtype, UNIFORM, str(known), ENTRY)
        is_vector = pattern_of([i.shape for i in indices], [i.type for i in indices]) not in _SCALAR
        shape = VARYING if is_vector else indices[-1].shape
        level = BODY if is_vector else max(i.level for i in indices)
        out = self.code.instructions(level, is_vector)
        texts = self.indices(indices, is_vector)
        inside: str | None = None
        if not proven:
            if shape.stride == 1:
                # Counting from the end and single lanes outside are left to the general case.
                texts[:-1], inside = self.wrapped(out, param, texts[:-1])
                consecutive = self.consecutive(out, param, str(texts[-1]))
                inside = consecutive if inside is None else out.binary("and", bool_, inside, consecutive)
            else:
                texts, inside = self.wrapped(out, param, texts)
        outs = None
        if not is_vector and proven:  # then what the first indices tell is worked out once for all columns
            outs = [self.code.instructions(level, False) for level in accumulate((i.level for i in indices), max)]
        offset, displacement = self.offset(out, param, texts, outs)
        if displacement and self.kernel.local(param) is not None:
            offset, displacement = self.plus(out, offset, displacement), 0
        return Element(param, self.arrays[param].dtype, shape, offset, level, inside, displacement)

    def indices(self, indices: Sequence[Lanes], is_vector: bool) -> list[Index]:
        """Indices as i64 or vectors of such, or as they are known."""
        return [
            int(i.text) if _is_known(i) else self.wide_vector(i) if is_vector else self.wide(i) for i in indices
        ]  # fmt: skip

    def known_offset(self, param: int, indices: list[Lanes]) -> int | None:
        """The number of an element inside a local array that constants name: then it can become a value."""
        local = self.kernel.local(param)
        if local is None or any(i.text.startswith("%") or not i.shape.is_uniform for i in indices):
            return None
        offset = 0
        for index, extent in zip(indices, local.shape, strict=True):
            position = int(index.text)
            position += extent if position < 0 else 0
            if not 0 <= position < extent:
                return None
            offset = offset * extent + position
        return offset

    def wrapped(self, out: Instructions, param: int, indices: Sequence[Index]) -> tuple[list[Index], str | None]:
        """Indices with negative ones counted from the end, and whether all are then in range (None: they are)."""
        inside: str | None = None
        result: list[Index] = []
        for axis, index in enumerate(indices):
            known = self.extent(param, axis)
            if isinstance(index, int) and known.isdigit():
                at = index + int(known) if index < 0 else index
                if 0 <= at < int(known):
                    result.append(at)
                    continue
            extent = self.spread_extent(out, param, axis)
            if (isinstance(index, int) and index >= 0) or self.is_heap(param):
                result.append(index)
            else:
                text = self.text(out, index)
                from_end = out.binary("add", "i64", text, extent)
                negative = out.compare("slt", "i64", text, out.spread("0", "i64"))
                result.append(out.select(negative, "i64", from_end, text))
            fits = out.compare("ult", "i64", self.text(out, result[-1]), extent)
            inside = fits if inside is None else out.binary("and", bool_, inside, fits)
        return result, inside

    def fits(self, param: int, indices: list[Lanes], out: Instructions) -> str:
        """The condition that all indices are in range, for each lane or for all."""
        _, inside = self.wrapped(out, param, self.indices(indices, bool(out.width)))
        return out.spread("true", "i1") if inside is None else inside

    def consecutive(self, out: Instructions, param: int, first: str) -> str:
        """The condition that all lanes with a thread are in range along the last axis, without wrapping."""
        extent = self.extent(param, self.arrays[param].ndim - 1)
        room = out.binary("sub", "i64", extent, self.active_lanes)
        low = out.compare("sge", "i64", first, "0")
        return out.binary("and", bool_, low, out.compare("sle", "i64", first, room))

    def is_heap(self, param: int) -> bool:
        """True for all memory of a type, which has no end that indices could count from."""
        array = self.kernel.array(param)
        return isinstance(array, Param) and array.is_heap

    def spread_extent(self, out: Instructions, param: int, axis: int) -> str:
        extent = self.extent(param, axis)
        return self.code.splat(extent, "i64", ENTRY) if out.width else extent

    def text(self, out: Instructions, index: Index) -> str:
        return out.spread(str(index), "i64") if isinstance(index, int) else index

    def plus(self, out: Instructions, index: str, number: int) -> str:
        return out.binary("add", "i64", index, out.spread(str(number), "i64")) if number else index

    def offset(
        self, out: Instructions, param: int, indices: Sequence[Index], outs: Sequence[Instructions] | None = None
    ) -> tuple[str, int]:
        """Row-major element number: what code computes, and a number to be added to it.

        Where given, `outs` are for the sums up to each index.
        """
        total, known, before = "", 0, outs[0] if outs else out
        for axis, index in enumerate(indices):
            out = outs[axis] if outs else out
            extent = self.extent(param, axis) if axis else "1"
            if known and not extent.isdigit():
                total, known = self.plus(before, total, known) if total else self.text(before, known), 0
            known *= int(extent) if extent.isdigit() else 1
            if total and extent != "1":
                total = before.binary("mul", "i64", total, self.spread_extent(before, param, axis))
            if isinstance(index, int):
                known += index
            else:
                total = out.binary("add", "i64", total, index) if total else index
            before = out
        return total or self.text(before, 0), known

    def number(self, element: Element) -> str:
        """The number of an element, or of the first, with its displacement."""
        return self.plus(
            self.code.instructions(element.level, element.shape.is_varying), element.offset, element.displacement
        )

    def row(self, param: int, leading: Sequence[Lanes], trusted: bool) -> tuple[str, list[str]]:
        """The address for uniform indices of the first axes, and the extents of the others.

        The first one of these is 0 if an index is outside of its axis.
        """
        out = self.code.instructions(max((i.level for i in leading), default=ENTRY), False)
        extents = [self.extent(param, axis) for axis in range(len(leading), self.arrays[param].dims)]
        if not leading:
            return f"%p{param}", extents
        texts, inside = self.indices(leading, False), None
        if not trusted:
            texts, inside = self.wrapped(out, param, texts)
        number = self.plus(out, *self.offset(out, param, texts))
        for extent in (*extents, *map(str, self.arrays[param].components)):
            number = out.binary("mul", "i64", number, extent)
        kind = memory_type(self.arrays[param].dtype)
        if inside is not None:
            extents[0] = out.select(inside, "i64", extents[0], "0")
        return out.emit(f"getelementptr {kind}, ptr %p{param}, i64 {number}"), extents

    def address(self, element: Element) -> str:
        """A pointer, or a vector of pointers."""
        out = self.code.instructions(element.level, element.shape.is_varying)
        base, numbers = self.base_of(element)
        return out.emit(f"getelementptr {memory_type(element.type)}, ptr {base}, {out.type('i64')} {numbers}")

    def base_of(self, element: Element) -> tuple[str, str]:
        """A pointer, and the number of elements from there, or a vector of such."""
        kind, base = memory_type(element.type), f"%p{element.param}"
        if element.displacement:  # of one base, so that it can be a part of the instruction
            base = self.code.define(f"getelementptr {kind}, ptr {base}, i64 {element.displacement}", element.level)
        return base, element.offset

    def address_or_zeros(self, element: Element) -> str:
        """A pointer to an element, or to zeros where it is outside."""
        if element.inside is None:
            return self.address(element)
        kind, displacement = memory_type(element.type), element.displacement
        if not 0 <= displacement < ZEROS_BYTES // (element.type.bits // 8):
            return self.code.define(f"select i1 {element.inside}, ptr {self.address(element)}, ptr @zeros")
        # Chosen before the displacement is added, so that it is one choice for all components of an element.
        first = self.address(dataclasses.replace(element, displacement=0))
        chosen = self.code.define(f"select i1 {element.inside}, ptr {first}, ptr @zeros")
        return self.code.define(f"getelementptr {kind}, ptr {chosen}, i64 {displacement}") if displacement else chosen

    @contextlib.contextmanager
    def inside(self, element: Element) -> Iterator[str]:
        """The address of one element; what is written meanwhile runs only if it is in its array."""
        code, address = self.code, self.address(element)
        if element.inside is None:
            yield address
            return
        inside, after = code.new_label("inside"), code.new_label("after")
        code.line(f"br i1 {element.inside}, label %{inside}, label %{after}")
        code.label(inside)
        yield address
        code.line(f"br label %{after}")
        code.label(after)

    def scatter_operands(self, element: Element, address: str, mask: str | None) -> tuple[str, str]:
        """The mask and the vector of pointers for an access lane by lane."""
        inside = element.inside
        if element.shape.is_uniform:
            address = self.code.splat(address, "ptr")
            inside = None if inside is None else self.code.splat(inside, "i1")
        return self.both(mask, inside) or "splat (i1 true)", address

    # -- values

    def argument(self, param: int, type: ScalarType) -> str:
        """A scalar parameter, read once."""
        text = f"load {memory_type(type)}, ptr %p{param}, align {type.bits // 8}"
        return self.from_memory(type, self.code.define(text, ENTRY), False, ENTRY)

    def from_memory(self, type: ScalarType, x: str, is_vector: bool, level: int = BODY) -> str:
        out = self.code.instructions(level, is_vector)
        return out.compare("ne", "i8", x, out.spread("0", "i8")) if type is bool_ else x

    def to_memory(self, type: ScalarType, x: str, is_vector: bool) -> str:
        out = self.code.instructions(BODY, is_vector)
        return out.convert("zext", "i1", x, "i8") if type is bool_ else x

    def both(self, x: str | None, y: str | None) -> str | None:
        if x is None or y is None:
            return x if y is None else y
        return self.code.instructions(BODY, True).binary("and", bool_, x, y)
