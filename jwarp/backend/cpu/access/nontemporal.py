"""Non-temporal stores, to arrays that the caches could not keep: half of what a plain store moves is saved.

A plain store reads what it writes over. A non-temporal one does not, where it writes whole lines one after the other.
"""

from __future__ import annotations

import math

from jwarp.backend.cpu.access.addresses import Element, Memory
from jwarp.backend.cpu.access.instructions import store_vector
from jwarp.backend.cpu.code import BODY, ENTRY, memory_type
from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import Kernel
from jwarp.types import ArrayType
from jwarp.wire import Cover

# The alignment in bytes that such a store needs: all arrays have it, but for views of some.
ALIGNMENT = 16
# Shorter rows have too many lines at their ends that are not written as a whole.
SHORTEST_ROW = 1024


class NonTemporal:
    """Writes such stores for the arrays that threads store thread-private elements of, once each, and nothing else."""

    def __init__(self, memory: Memory, kernel: Kernel, covers: tuple[Cover, ...]):
        self.memory, self.code, self.least = memory, memory.code, memory.code.options.target.past_caches
        stored = [op.array for op in contents_of(kernel.body).accesses]
        self.columns = kernel.tid_dims - 1
        self.arrays = {
            p for p, cover in enumerate(covers)
            if self.least and cover is Cover.STORED and stored.count(p) == 1 and self.is_plain(kernel.params[p].type)
        }  # fmt: skip

    def is_plain(self, type: object) -> bool:
        """True if the elements are numbers, of which a vector is a number of such stores."""
        bits = type.dtype.bits if isinstance(type, ArrayType) and not type.components else 0
        return bits in (32, 64) and self.code.width * bits // 8 % ALIGNMENT == 0

    def pays(self, param: int) -> str:
        """The condition that an array of this launch is too long for the caches, and its rows are long."""
        array, code = self.memory.arrays[param], self.code
        out, count = code.instructions(ENTRY, False), "1"
        for axis in range(array.dims):
            count = out.binary("mul", "i64", count, self.memory.extent(param, axis))
        is_long = out.compare("uge", "i64", count, str(math.ceil(self.least / (array.dtype.bits // 8))))
        has_rows = out.compare("uge", "i64", self.memory.symbol(self.columns), str(SHORTEST_ROW))
        return out.binary("and", "i1", is_long, has_rows)

    def store(self, element: Element, value: str) -> None:
        """Store a vector whose lanes are all active."""
        memory, code = self.memory, self.code
        address, vector = memory.address(element), code.vector(memory_type(element.type))
        out = code.instructions(BODY, False)
        low = out.binary("and", "i64", code.define(f"ptrtoint ptr {address} to i64"), str(ALIGNMENT - 1))
        aligned = out.compare("eq", "i64", low, "0")
        past, plain, done = (code.new_label(name) for name in ("past", "plain", "stored"))
        code.line(f"br i1 {out.binary('and', 'i1', aligned, self.pays(element.param))}, label %{past}, label %{plain}")
        code.label(past)
        code.line(f"store {vector} {value}, ptr {address}, align {ALIGNMENT}, !nontemporal !{{i32 1}}")
        code.line(f"br label %{done}")
        code.label(plain)
        store_vector(memory, element, value, None)
        code.line(f"br label %{done}")
        code.label(done)

    def end(self) -> list[str]:
        """The fence after which other threads see all that this one has stored."""
        if not self.arrays:
            return []
        self.code.declare("void", "llvm.x86.sse.sfence", [])
        return ["  call void @llvm.x86.sse.sfence()"]
