"""The parameter of kernels that look numbers up: all memory of the process, by type, and tables of what is alive."""

from __future__ import annotations

import hashlib

from jwarp.caches import cached
from jwarp.types.arrays import AnyType, ArrayType, StructArrayType, StructType
from jwarp.types.composites import vector
from jwarp.types.scalars import SCALARS, ScalarType, uint64
from jwarp.types.structs import MAX_CHANGED, Struct, add_struct, has_arrays

# The name of the parameter.
MEMORY = "_process_memory"

# The addresses that programs have, from the first one on that may be somebody's to the end.
BASE, TOP = 1 << 16, 1 << 47
WORD = 8
# A place that no memory has, as the number of a scalar.
NOWHERE = 1 << 62

# An array in an element of an array of structs, as Warp lays it out: the address, that of the gradient, four extents
# and four strides in bytes, two in a word, and the number of dimensions.
DESCRIPTOR_WORDS = 7
DESCRIPTOR = vector(DESCRIPTOR_WORDS, uint64)

# The tables, of which one is all memory, too: what kernels find out about addresses and ids is in memory that no kernel
# writes, so that no store makes it be read again.
_words = {
    "words": ArrayType(uint64, 1),
    "slots": ArrayType(uint64, 2),
    "moves": ArrayType(uint64, 1),
    "arguments": ArrayType(uint64, 2),
    "table": ArrayType(uint64, 1),
}
_fields = {**_words, **{name: ArrayType(kind, 1) for name, kind in SCALARS.items()}}
_HEAPS = {"table", *SCALARS}

# Of a derivative, `moves` has for each kind of scalars two words: where the content is that the launch found, and where
# the gradients are.
_MOVES = {name: 2 * k for k, name in enumerate(SCALARS)}
MOVES = 2 * len(SCALARS)
MEMORY_TYPE = StructType("Memory", (Struct,), {"fields": _fields, "__slots__": tuple(_fields)})
add_struct(MEMORY_TYPE)


@cached(MAX_CHANGED)
def kind_number(kind: StructType) -> int:
    """The number of a kind of grids, trees or meshes, in any process."""
    shown = f"{kind.__module__}.{kind.__qualname__}: {kind.fields}"
    return int.from_bytes(hashlib.sha256(shown.encode()).digest()[:8], "little")


def is_heap(name: str) -> bool:
    """True for a parameter of the IR that is all memory, as scalars of a type; also for its gradient."""
    return _field(name) in _HEAPS


def is_table(name: str) -> bool:
    """True for a parameter of the IR by which kernels read tables alone, which they cannot write."""
    return _field(name) in _words


def move_of(kind: ScalarType, *, of_gradients: bool) -> int:
    """The place of a word of `moves`."""
    return _MOVES[kind.name] + of_gradients


def _field(name: str) -> str:
    """The field of all memory that a parameter of the IR, or of a derivative, is; empty for any other parameter."""
    before, found, field = name.partition(f"{MEMORY}.")
    return field.rstrip("_") if found and before in _PREFIXES else ""


_PREFIXES = {"", "adj_", "final_", "claim_", "dot_"}


def holds_descriptors(kind: AnyType) -> bool:
    """True for an array of structs with arrays in them, and for a struct with such a field."""
    if isinstance(kind, StructType):
        return any(map(holds_descriptors, kind.fields.values()))
    return isinstance(kind, StructArrayType) and has_arrays(kind.struct)


def described(kind: AnyType) -> AnyType:
    """A type whose arrays of structs have descriptors for the arrays in these."""
    if isinstance(kind, StructArrayType):
        return StructArrayType(with_descriptors(kind.struct), kind.dims) if has_arrays(kind.struct) else kind
    if isinstance(kind, StructType) and holds_descriptors(kind):
        return _described_struct(kind)
    return kind


@cached(MAX_CHANGED)
def _described_struct(kind: StructType) -> StructType:
    return _copied(kind, {name: described(field) for name, field in kind.fields.items()})


@cached(MAX_CHANGED)
def with_descriptors(kind: StructType) -> StructType:
    """The struct as an element of an array has it: with descriptors for arrays."""

    def changed(field: AnyType) -> AnyType:
        if isinstance(field, StructType):
            return with_descriptors(field) if has_arrays(field) else field
        if isinstance(field, StructArrayType):
            return described(field)
        return ArrayType(DESCRIPTOR, 0) if isinstance(field, ArrayType) and field.dims else field

    return _copied(kind, {name: changed(field) for name, field in kind.fields.items()})


def _copied(kind: StructType, fields: dict[str, AnyType]) -> StructType:
    kept = {k: v for k, v in vars(kind).items() if k not in kind.fields and k != "fields"}
    made = StructType(kind.__name__, (Struct,), {**kept, "fields": fields, "__slots__": tuple(fields)})
    made.__qualname__, made.described_of = kind.__qualname__, kind
    add_struct(made)
    return made
