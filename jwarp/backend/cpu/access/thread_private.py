"""Thread-private arrays: each element is a vector with one lane for each thread, on the stack or in registers."""

from __future__ import annotations

from jwarp.backend.cpu.access.addresses import Element, Memory
from jwarp.backend.cpu.access.instructions import masked_gather, masked_scatter
from jwarp.backend.cpu.code import ENTRY, Code, memory_type
from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import Kernel, Local
from jwarp.types import ScalarType


class PrivateMemory:
    """Writes the accesses to local arrays. `mask` arguments are vectors of i1, None for all lanes.

    What lanes without a thread hold does not matter, so that their mask needs no attention.
    """

    def __init__(self, code: Code, memory: Memory, kernel: Kernel):
        self.code, self.memory = code, memory
        locals_ = () if kernel.block_dim else kernel.locals  # those of a block are no thread's own
        self.arrays: dict[int, Local] = {len(kernel.params) + k: local for k, local in enumerate(locals_)}
        clears = [op.array for op in contents_of(kernel.body).ops if op.row.clears]
        self.cleared_once = {array for array in self.arrays if clears.count(array) == 1}
        for array, local in self.arrays.items():
            vector = code.vector(memory_type(local.dtype))
            code.line(f"{_name(array)} = alloca [{local.size} x {vector}], {self._align(local.dtype)}", ENTRY)

    def load(self, element: Element, mask: str | None) -> str:
        """Load at `element`, as a vector; outside is zero."""
        code, kind = self.code, memory_type(element.type)
        if element.shape.is_varying:
            active = self.memory.both(mask, element.inside) or "splat (i1 true)"
            loaded = masked_gather(code, kind, self._pointers(element), f"align {element.type.bits // 8}", active)
            return self.memory.from_memory(element.type, loaded, True)
        vector = code.vector(kind)
        loaded = code.define(f"load {vector}, ptr {self._address(element)}, {self._align(element.type)}")
        if element.inside is not None:
            loaded = code.define(f"select i1 {element.inside}, {vector} {loaded}, {vector} zeroinitializer")
        return self.memory.from_memory(element.type, loaded, True)

    def store(self, element: Element, value: str, mask: str | None) -> None:
        """Store a vector; lanes outside the array store nothing."""
        code, memory = self.code, self.memory
        stored = memory.to_memory(element.type, value, True)
        if element.shape.is_varying:
            active = memory.both(mask, element.inside) or "splat (i1 true)"
            align = f"align {element.type.bits // 8}"
            masked_scatter(code, memory_type(element.type), stored, self._pointers(element), align, active)
            return
        inside = None if element.inside is None else code.splat(element.inside, "i1")
        self._blend(element.type, self._address(element), stored, memory.both(mask, inside))

    def clear(self, array: int, mask: str | None) -> None:
        """Set all elements to zero."""
        local, code = self.arrays[array], self.code
        vector = code.vector(memory_type(local.dtype))
        # Every access comes after a clear of its own block. Where there is only one, no lane that is not
        # active now reads what it held before.
        if mask is None or array in self.cleared_once:
            code.declare("void", "llvm.memset.p0.i64", ["ptr", "i8", "i64", "i1"])
            size = local.size * code.width * local.dtype.bits // 8
            code.line(f"call void @llvm.memset.p0.i64(ptr {_name(array)}, i8 0, i64 {size}, i1 false)")
            return
        for k in range(local.size):
            address = code.define(f"getelementptr {vector}, ptr {_name(array)}, i64 {k}")
            self._blend(local.dtype, address, "zeroinitializer", mask)

    def _blend(self, type: ScalarType, address: str, stored: str, mask: str | None) -> None:
        """Store the lanes of `mask`. Not by a masked store, which keeps an array out of registers."""
        vector, align = self.code.vector(memory_type(type)), self._align(type)
        if mask is not None:
            old = self.code.define(f"load {vector}, ptr {address}, {align}")
            lanes = self.code.vector("i1")
            stored = self.code.define(f"select {lanes} {mask}, {vector} {stored}, {vector} {old}")
        self.code.line(f"store {vector} {stored}, ptr {address}, {align}")

    def _address(self, element: Element) -> str:
        """The address of the vector of an element that is the same for all lanes."""
        offset = element.offset
        if element.inside is not None:
            offset = self.code.define(f"select i1 {element.inside}, i64 {offset}, i64 0")
        vector = self.code.vector(memory_type(element.type))
        return self.code.define(f"getelementptr {vector}, ptr {_name(element.param)}, i64 {offset}")

    def _pointers(self, element: Element) -> str:
        """The address of each lane's element."""
        code, offsets = self.code, self.code.vector("i64")
        first = code.define(f"mul {offsets} {element.offset}, {code.splat(str(code.width), 'i64')}")
        own = code.define(f"add {offsets} {first}, {code.iota('i64')}")
        return code.define(f"getelementptr {memory_type(element.type)}, ptr {_name(element.param)}, {offsets} {own}")

    def _align(self, type: ScalarType) -> str:
        return f"align {min(64, self.code.width * type.bits // 8)}"


def _name(array: int) -> str:
    return f"%local{array}"
