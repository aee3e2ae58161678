"""Stores to elements that may lie anywhere: a scatter takes much code, in functions that a long kernel has once."""

from __future__ import annotations

from dataclasses import dataclass

from jwarp.analysis.uniformity import UNIFORM, VARYING
from jwarp.backend.cpu.access import instructions
from jwarp.backend.cpu.access.addresses import Memory
from jwarp.backend.cpu.access.descriptor import Access
from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.code import BODY, Code, Lanes, memory_type, scalar_type
from jwarp.ir.nodes import Block, Kernel, Param
from jwarp.types import ArrayType, ScalarType, int32
from jwarp.types.composites import of_components

# Sizes of numbers that functions take vectors of on all processors.
BITS = (32, 64)


@dataclass(frozen=True)
class Scatter:
    """Stores to components at `positions` of elements of `size` components, by indices of `types` in a row.

    `trusted` indices are neither tested nor counted from the end.
    """

    dtype: ScalarType
    size: int
    positions: tuple[int, ...]
    types: tuple[ScalarType, ...]
    trusted: bool

    @property
    def name(self) -> str:
        """The name of the function."""
        parts = (self.dtype.name, self.size, *self.positions, *(type.name for type in self.types))
        return f"@store.{'.'.join(map(str, parts))}{'.trusted' if self.trusted else ''}"

    @property
    def row(self) -> ArrayType:
        """The row as an array."""
        return ArrayType(of_components((self.size,), self.dtype) if self.size > 1 else self.dtype, len(self.types))


def store_by_function(body: Body, access: Access) -> list[str]:
    """Store to components of any elements by a function of the kernel's own."""
    first, code, memory = access.nodes[0], body.code, body.memory
    indices = [body.lanes(i) for i in first.args[: memory.arrays[first.array].dims]]
    axis = next(k for k, i in enumerate(indices) if not i.shape.is_uniform)
    row, extents = memory.row(first.array, indices[:axis], access.proved)
    assert access.components is not None
    types = tuple(i.type for i in indices[axis:])
    scatter = Scatter(access.type, access.size, access.components, types, access.proved)
    values = body.stored(access.nodes)
    given = [row, *extents, *map(body.vector, indices[axis:]), *values]
    if scatter.name not in code.functions:
        code.functions[scatter.name] = ""  # its declarations come with it
        code.functions[scatter.name] = _text(scatter, code)
    active = "-1" if body.mask is None else code.define(f"bitcast {code.vector('i1')} {body.mask} to i{code.width}")
    passed = zip(_types(scatter, code), [*given, active], strict=True)
    code.line(f"call fastcc void {scatter.name}({', '.join(f'{type} {text}' for type, text in passed)})")
    return []


def _types(scatter: Scatter, code: Code) -> list[str]:
    """LLVM's types of what the function takes: a row, its extents, indices, values and which lanes are active."""
    indices = [code.vector(scalar_type(type)) for type in scatter.types]
    values = [code.vector(memory_type(scatter.dtype))] * len(scatter.positions)
    return ["ptr", *["i64"] * len(indices), *indices, *values, f"i{code.width}"]


def _text(scatter: Scatter, outer: Code) -> str:
    code = Code(outer.options, shares=True)
    memory = Memory(code, Kernel("row", (Param("row", scatter.row),), 1, Block()), {0: 0})
    extents = [f"%extent{axis}" for axis in range(len(scatter.types))]
    memory.give_extents(extents)
    indices = [Lanes(f"%index{axis}", type, VARYING, BODY) for axis, type in enumerate(scatter.types)]
    values = [f"%value{k}" for k in range(len(scatter.positions))]
    names = ["%p0", *extents, *(i.text for i in indices), *values, "%active"]
    code.label("body")
    mask = code.define(f"bitcast i{code.width} %active to {code.vector('i1')}")
    for position, value in zip(scatter.positions, values, strict=True):
        place = [*indices, *([Lanes(str(position), int32, UNIFORM, BODY)] if scatter.size > 1 else [])]
        instructions.scatter(memory, memory.element(0, place, scatter.trusted), value, mask)
    outer.declarations |= code.declarations
    params = ", ".join(f"{type} {name}" for type, name in zip(_types(scatter, code), names, strict=True))
    entry, _, body = code.sections
    head = f"define internal fastcc void {scatter.name}({params}) noinline nounwind {{"
    return "\n".join([head, "entry:", *entry, "  br label %body", *body, "  ret void", "}"])
