"""Facts about all nodes of a body that many analyses need, collected once per body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jwarp.caches import Cache
from jwarp.ir.attributes import ArrayName
from jwarp.ir.nodes import Block, Op, Value, arrays_read, used_values, walk

# The operation that defines each value, as far as one does.
Definitions = Mapping[Value, Op]


@dataclass(frozen=True, eq=False)
class Contents:
    """The operations of `body` in program order, what defines each value, the accesses to arrays, the values read."""

    body: Block
    ops: tuple[Op, ...]
    definitions: Definitions
    accesses: tuple[Op, ...]
    used: frozenset[Value]


# One analysis follows another of the same body.
_contents: Cache[Block, Contents] = Cache("contents of bodies", 4)


def contents_of(body: Block) -> Contents:
    """The contents of a body."""
    found = _contents.get(body)
    if found is None:
        ops = tuple([n for n in walk(body) if isinstance(n, Op)])
        definitions = {n.result: n for n in ops if n.result is not None}
        accesses = tuple([n for n in ops if n.row.is_access])
        found = Contents(body, ops, definitions, accesses, used_values(body))
        _contents.replace(body, found)
    return found


def definitions_of(body: Block) -> Definitions:
    """The operation that defines each value, as far as one does."""
    return contents_of(body).definitions


def native_arrays(body: Block) -> frozenset[ArrayName]:
    """The arrays that native code is given, which may do anything with their elements."""
    calls = (op for op in contents_of(body).ops if op.row.is_native)
    return frozenset(array for call in calls for array in arrays_read(call))
