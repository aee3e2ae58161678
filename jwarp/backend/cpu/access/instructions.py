"""Instructions that access memory: one number for all lanes, consecutive numbers, or any (gather and scatter)."""

from __future__ import annotations

from jwarp.backend.cpu.access.addresses import Element, Memory
from jwarp.backend.cpu.code import Code, memory_type, suffix

# -- by address, for the lanes of a mask


def masked_load(code: Code, kind: str, address: str, align: str, mask: str) -> str:
    """Load consecutive numbers, zero in the lanes outside of the mask."""
    return _load(code, kind, f"llvm.masked.load.{suffix(kind, code.width)}.p0", "ptr", f"{align} {address}", mask)


def masked_gather(code: Code, kind: str, addresses: str, align: str, mask: str) -> str:
    """Load a number for each lane, zero in those outside of the mask."""
    name = f"llvm.masked.gather.{suffix(kind, code.width)}.v{code.width}p0"
    return _load(code, kind, name, code.vector("ptr"), f"{align} {addresses}", mask)


def _load(code: Code, kind: str, name: str, pointers: str, address: str, mask: str) -> str:
    vector, lanes = code.vector(kind), code.vector("i1")
    code.declare(vector, name, [pointers, lanes, vector])
    loaded = code.define(f"call {vector} @{name}({pointers} {address}, {lanes} {mask}, {vector} zeroinitializer)")
    # LLVM's instcombine merges a select by the same mask into the load, and moves the load to the select:
    # past stores that change what it loads. It does not see through `freeze`, which costs nothing.
    return code.define(f"freeze {vector} {loaded}")


def masked_store(code: Code, kind: str, value: str, address: str, align: str, mask: str) -> None:
    """Store the lanes of the mask to consecutive numbers."""
    _store(code, kind, f"llvm.masked.store.{suffix(kind, code.width)}.p0", value, "ptr", f"{align} {address}", mask)


def masked_scatter(code: Code, kind: str, value: str, addresses: str, align: str, mask: str) -> None:
    """Store each lane of the mask to a place of its own, one after the other."""
    name = f"llvm.masked.scatter.{suffix(kind, code.width)}.v{code.width}p0"
    _store(code, kind, name, value, code.vector("ptr"), f"{align} {addresses}", mask)


def _store(code: Code, kind: str, name: str, value: str, pointers: str, address: str, mask: str) -> None:
    vector, lanes = code.vector(kind), code.vector("i1")
    code.declare("void", name, [vector, pointers, lanes])
    code.line(f"call void @{name}({vector} {value}, {pointers} {address}, {lanes} {mask})")


# -- by element


def load_one(memory: Memory, element: Element) -> str:
    """Load the one element of all lanes; zero where it is outside of its array."""
    kind, align = memory_type(element.type), element.type.bits // 8
    address = memory.address_or_zeros(element)
    return memory.from_memory(element.type, memory.code.define(f"load {kind}, ptr {address}, align {align}"), False)


def load_vector(memory: Memory, element: Element, mask: str | None) -> str:
    """Load consecutive elements; zero in the lanes outside of the mask."""
    code, kind, at = memory.code, memory_type(element.type), _aligned(memory, element)
    if mask is None:
        address, align = at
        return memory.from_memory(
            element.type, code.define(f"load {code.vector(kind)}, ptr {address}, {align}"), True
        )  # fmt: skip
    return memory.from_memory(element.type, masked_load(code, kind, *at, mask), True)


def gather(memory: Memory, element: Element, mask: str | None) -> str:
    """Load any elements; zero in the lanes outside of the mask, and outside of the array."""
    code, kind, at = memory.code, memory_type(element.type), _aligned(memory, element)
    mask = memory.both(mask, element.inside) or "splat (i1 true)"
    return memory.from_memory(element.type, masked_gather(code, kind, *at, mask), True)


def store_one(memory: Memory, element: Element, value: str) -> None:
    """Store one value to the one element of all lanes, if it is in its array."""
    stored = memory.to_memory(element.type, value, False)
    with memory.inside(element) as place:
        memory.code.line(
            f"store {memory_type(element.type)} {stored}, ptr {place}, align {element.type.bits // 8}"
        )  # fmt: skip


def store_vector(memory: Memory, element: Element, value: str, mask: str | None) -> None:
    """Store to consecutive elements those of a vector's values that are in the mask."""
    code, kind = memory.code, memory_type(element.type)
    stored = memory.to_memory(element.type, value, True)
    address, align = _aligned(memory, element)
    if mask is None:
        code.line(f"store {code.vector(kind)} {stored}, ptr {address}, {align}")
    elif mask.count("true") == 1 and mask.startswith("<i1 true"):
        # LLVM 22 takes a masked store of one lane of a narrowed vector for a store of the wide element.
        first = code.define(f"extractelement {code.vector(kind)} {stored}, i64 0")
        code.line(f"store {kind} {first}, ptr {address}, {align}")
    else:
        masked_store(code, kind, stored, address, align, mask)


def scatter(memory: Memory, element: Element, value: str, mask: str | None) -> None:
    """Store a vector to any elements, lane after lane; lanes outside of the array store nothing."""
    code, kind = memory.code, memory_type(element.type)
    stored = memory.to_memory(element.type, value, True)
    address, align = _aligned(memory, element)
    mask, address = memory.scatter_operands(element, address, mask)
    masked_scatter(code, kind, stored, address, align, mask)


def _aligned(memory: Memory, element: Element) -> tuple[str, str]:
    return memory.address(element), f"align {element.type.bits // 8}"
