"""Arrays of ids of grids, trees and meshes: what kernels are given for one is made of all that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.writes import refuse_cuda
from jwarp.bind.compat import Tracer
from jwarp.bind.control import objects_here
from jwarp.bind.traced_memory import value_of
from jwarp.caches import Cache
from jwarp.dispatch.call.cached_geometry import cached_content, leaves_of
from jwarp.errors import JwarpError, KernelTypeError, LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.types import ArrayType, Geometry, Struct, StructType, uint64
from jwarp.types.handles import named
from jwarp.types.structs import table_type, unchecked

# The field of a table from which on it has the parts of what is named.
PARTS = 4
# Why a launch that a tape records reads no ids: their gradients would be missed.
ON_TAPE = "a tape is open"


def table_of(name: str, value: Any, why_not: str) -> Any:
    """The struct that a kernel is given for an array of ids, the parameter `name`; None for arrays of other numbers.

    It is the same struct as long as neither the ids nor what they name have changed.

    Raises:
        LaunchError: the launch does not run now, and `why_not` says what it does, or some ids are of other kinds.
    """
    if type(value) is array and value.dtype is uint64:
        refuse_cuda(f"'{name}', an array of ids", value)
    if type(value) is array and type(value.memory) is HostMemory:
        ids = value.host()
    elif isinstance(value, (np.ndarray, jax.Array)) and not isinstance(value, Tracer):
        ids = np.asarray(value)
    else:
        return None
    if ids.dtype != np.uint64:
        return None
    numbered = _NUMBERED.made((ids.tobytes(), ids.shape), lambda: Numbered(ids))
    owners = named(numbered.known)
    if not owners:
        return None
    _check_runs(name, why_not)
    return _table(name, numbered, list(objects_here(owners).values()))


class Numbered:
    """Ids, as an array, and for each of them the number of the object that it names, from 1 on; 0 for none."""

    __slots__ = ("known", "leaves")

    def __init__(self, ids: np.ndarray):
        given = np.array(ids)
        rising = np.unique(np.append(given.ravel(), np.uint64(0)))
        numbers = np.searchsorted(rising, given).astype(np.int32)
        self.known: list[int] = rising[1:].tolist()
        self.leaves = [_read_only(made) for made in (given, numbers, rising)]


_NUMBERED: Cache[tuple[bytes, tuple[int, ...]], Numbered] = Cache("arrays of ids", 32)


def _check_runs(name: str, why_not: str) -> None:
    if why_not:
        raise LaunchError(
            f"'{name}' is an array of ids, which launches read when they run, and {why_not}",
            hint="give each grid, tree, mesh or volume a parameter, or a field of a struct",
        )


def names_nothing(value: Any) -> bool:
    """True if it is what an array of ids is where there are no grids, trees or meshes: zeros."""
    if type(value) is array and value.dtype is uint64 and type(value.memory) is HostMemory:
        value = value.host()
    return isinstance(value, np.ndarray) and value.dtype == np.uint64 and not value.any()


def kinds_of_nothing(kernel: Kernel, places: Sequence[int], before: Mapping[int, Any]) -> dict[int, Any]:
    """The types of arrays of ids that name nothing, of the parameters at `places`, where a kernel asks for that.

    The rest of its arrays of ids are `before`. A kernel that cannot be read has an error at its launch.
    """
    found: dict[int, Any] = {}

    def wanted() -> tuple[Any, Any] | None:
        made = {**before, **found}
        try:
            (kernel.with_handles(made) if made else kernel).ir()
        except KernelTypeError as error:
            return error.wanted_handle, str(error)
        except JwarpError:
            return None, None
        return None

    asked = wanted()
    while asked is not None and asked[0] is not None:
        for place in set(places) - set(found):
            kind = kernel.signature[place].type
            assert isinstance(kind, ArrayType)
            found[place] = table_type(asked[0], kind.dims)
            now = wanted()
            if now != asked:
                asked = now
                break
            del found[place]
        else:
            return {}
    return found


def table_of_nothing(name: str, value: Any, kind: StructType, why_not: str) -> Struct:
    """As `table_of`, for an array that names nothing, which the kernel takes for a table of this `kind`."""
    if why_not != ON_TAPE:
        _check_runs(name, why_not)
    # Among mutable arrays they are such, too: a tape goes back through these, and launches on them are repeated.
    is_changing = type(value) is array
    parts = _NOTHING.made((kind, value.shape, is_changing), lambda: _nothing(kind, value.shape, is_changing))
    if not is_changing:
        value = _read_only(np.array(value))
    return unchecked(kind, [value, *parts])


_NOTHING: Cache[tuple[Any, tuple[int, ...], bool], list[Any]] = Cache("tables of ids that name nothing", 64)


def _nothing(kind: StructType, shape: tuple[int, ...], as_arrays: bool) -> list[Any]:
    """A table of this kind for ids of this shape that name nothing, but for the ids."""
    assert kind.table_of is not None
    fields = list(kind.fields.values())
    table: list[Any] = [np.zeros(shape, np.int32), np.zeros(1, np.uint64), np.zeros((2, len(fields) - PARTS), np.int32)]
    for field, is_array in zip(fields[PARTS:], _are_arrays(kind.table_of), strict=True):
        assert isinstance(field, ArrayType)
        table.append(np.zeros((0 if is_array else 1, *(0,) * (field.dims - 1), *field.components), field.dtype.dtype))
    table = [_read_only(part) for part in table]
    if as_arrays:
        elements = [field.element for field in fields[1:] if isinstance(field, ArrayType)]
        table = [array(part, dtype=element, copy=False) for part, element in zip(table, elements, strict=True)]
    return table


def _table(name: str, numbered: Numbered, owners: list[Geometry]) -> Struct:
    """The struct for ids: the parts of all that they name, one after the other, in copies."""
    kept = [cached_content(owner) for owner in owners]
    structs = [owner.in_place if one is None else one.struct for one, owner in zip(kept, owners, strict=True)]
    kinds: dict[Any, None] = dict.fromkeys(map(type, structs))
    if len(kinds) > 1:
        shown = ", ".join(sorted({type(owner).__name__ for owner in owners}))
        raise LaunchError(f"'{name}' has ids of several kinds ({shown})", hint="let all name grids, trees or meshes")
    (kind,) = kinds
    parts = [one for one in kept if one is not None]
    versions = [_version(a) for one in parts for a in one.arrays]
    if len(parts) < len(kept) or None in versions:
        return _joined_table(kind, numbered, structs)  # which may change unseen
    states = numbered, *[one.state for one in parts]
    known = _TABLES.get(states)
    if known is None or known[0] != versions:
        known = versions, _joined_table(kind, numbered, structs)
        _TABLES.replace(states, known)
    return known[1]


# By the ids and the states of what they name: the versions of what else may change there, and the struct.
_TABLES: Cache[tuple[object, ...], tuple[list[int | None], Struct]] = Cache("what arrays of ids name", 16)


def _joined_table(kind: StructType, numbered: Numbered, structs: list[Struct]) -> Struct:
    made = table_type(kind, numbered.leaves[0].ndim)
    fields = list(made.fields.values())[PARTS:]
    # Where each one's parts start. The first one is none, and has nothing.
    starts = np.zeros((len(structs) + 2, len(fields)), np.int32)
    leaves: list[Any] = [*numbered.leaves, starts]
    columns = zip(*map(leaves_of, structs), strict=True)
    for k, (field, column, is_array) in enumerate(zip(fields, columns, _are_arrays(kind), strict=True)):
        assert isinstance(field, ArrayType)
        dtype = field.dtype.dtype
        known = map(_known, column)
        found = [leaf if isinstance(leaf, (array, Tracer)) else np.asarray(leaf, dtype) for leaf in known]
        if is_array:
            starts[2:, k] = np.cumsum([leaf.shape[0] for leaf in found])
            leaves.append(_joined(found))
        else:
            first = found[0]
            leaves.append(_numpy_of(found).stack([np.zeros(first.shape, first.dtype), *found]))
    _read_only(starts)
    struct = unchecked(made, leaves)
    object.__setattr__(struct, "_seen", (None, object()))  # of no object, and of a state of its own
    return struct


def _known(leaf: Any) -> Any:
    """A part of an object; for an array that stands for a value of JAX, that."""
    return value_of(leaf.memory, leaf.layout) if type(leaf) is array and leaf.memory.is_traced else leaf


def _version(value: Any) -> int | None:
    """That of the memory of an array; None for memory that others may write to without saying so."""
    memory = getattr(value, "memory", None)
    return None if getattr(memory, "is_open", True) else memory.version  # type: ignore[union-attr]


def _joined(column: list[Any]) -> Any:
    if _numpy_of(column) is jax.numpy:  # which differentiates it
        return jax.numpy.concatenate([leaf.host() if type(leaf) is array else leaf for leaf in column])
    return _read_only(np.concatenate([leaf.host() if type(leaf) is array else leaf for leaf in column]))


def _numpy_of(column: list[Any]) -> Any:
    """The library that joins these: JAX's where it traces some."""
    return jax.numpy if any(isinstance(leaf, Tracer) for leaf in column) else np


def _read_only(made: np.ndarray) -> np.ndarray:
    made.flags.writeable = False
    return made


def _are_arrays(kind: StructType) -> Iterator[bool]:
    """Of each part, whether it is an array, and no number or vector."""
    for field in kind.fields.values():
        if isinstance(field, StructType):
            yield from _are_arrays(field)
        else:
            yield isinstance(field, ArrayType) and field.dims > 0
