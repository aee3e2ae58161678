"""Arrays of ids of grids, trees and meshes: what kernels are given for one is made of all that it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.memory import HostMemory
from jwarp.bind.compat import is_not_tracing
from jwarp.caches import Cache
from jwarp.dispatch.held import held
from jwarp.errors import LaunchError
from jwarp.types import ArrayType, Geometry, Struct, StructType
from jwarp.types.handles import named
from jwarp.types.structs import table_type, unchecked


def table_of(name: str, value: Any, why_not: str) -> Any:
    """What a kernel is given for an array of ids, the parameter `name`; None for arrays of other numbers.

    Raises:
        LaunchError: the launch does not run now, and `why_not` says what it does, or some ids are of other kinds.
    """
    if type(value) is array and type(value.memory) is HostMemory:
        ids = value.host()
    elif isinstance(value, np.ndarray):
        ids = value
    else:
        return None
    if ids.dtype != np.uint64 or ids.ndim != 1:
        return None
    known = [int(number) for number in dict.fromkeys(ids.tolist()) if number]
    owners = named(known)
    if not owners:
        return None
    if why_not or not is_not_tracing():
        raise LaunchError(
            f"'{name}' is an array of ids, which launches read when they run, and {why_not or 'JAX traces this one'}",
            hint="give each grid, tree or mesh a parameter, or a field of a struct",
        )
    return _table(name, ids, known, list(owners.values()))


def _table(name: str, ids: np.ndarray, known: list[int], owners: list[Geometry]) -> Struct:
    kept = [held(owner) for owner in owners]
    structs = [owner.in_place if one is None else one.struct for one, owner in zip(kept, owners, strict=True)]
    kinds: dict[Any, None] = dict.fromkeys(map(type, structs))
    if len(kinds) > 1:
        shown = ", ".join(sorted({type(owner).__name__ for owner in owners}))
        raise LaunchError(f"'{name}' has ids of several kinds ({shown})", hint="let all name grids, trees or meshes")
    (kind,) = kinds
    numbers = np.zeros(len(ids), np.int32)
    for k, number in enumerate(known, 1):
        numbers[ids == number] = k
    states = tuple(owner.state for owner in owners)
    parts = [list(_leaves(struct)) for struct in structs]
    changing = None in kept or any(one.arrays for one in kept if one is not None)
    joined = None if changing else _JOINED.get(states)
    if joined is None:
        joined = _joined(kind, parts)
        if not changing:
            _JOINED.keep(states, joined)
    given = np.array(ids)
    given.flags.writeable = numbers.flags.writeable = False
    return unchecked(table_type(kind), [given, numbers, *joined])


_JOINED: Cache[tuple[object, ...], list[Any]] = Cache("what arrays of ids name", 16)


def _joined(kind: StructType, parts: list[list[Any]]) -> list[Any]:
    """Where each one's parts start, and the parts of all; the first one is none, and has nothing."""
    fields = list(table_type(kind).fields.values())[3:]
    starts = np.zeros((len(parts) + 2, len(fields)), np.int32)
    found: list[Any] = [starts]
    for k, (field, column, is_array) in enumerate(
        zip(fields, zip(*parts, strict=True), _are_arrays(kind), strict=True)
    ):
        assert isinstance(field, ArrayType)
        values = [leaf.host() if type(leaf) is array else np.asarray(leaf, field.dtype.dtype) for leaf in column]
        if is_array:
            starts[2:, k] = np.cumsum([len(value) for value in values])
            found.append(np.concatenate(values))
        else:
            found.append(np.stack([np.zeros_like(values[0]), *values]))
    for made in found:
        made.flags.writeable = False
    return found


def _are_arrays(kind: StructType) -> Iterator[bool]:
    """Of each part, whether it is an array, and no number or vector."""
    for field in kind.fields.values():
        if isinstance(field, StructType):
            yield from _are_arrays(field)
        else:
            yield isinstance(field, ArrayType) and field.dims > 0


def _leaves(struct: Struct) -> Iterator[Any]:
    for name in type(struct).fields:
        value = getattr(struct, name)
        if isinstance(value, Struct):
            yield from _leaves(value)
        else:
            yield value
