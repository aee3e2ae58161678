"""Arrays of ids of grids, trees and meshes: what kernels are given for one is made of all that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.writes import refuse_cuda
from jwarp.bind.compat import is_not_tracing
from jwarp.caches import Cache
from jwarp.dispatch.held import held
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
    """What a kernel is given for an array of ids, the parameter `name`; None for arrays of other numbers.

    Raises:
        LaunchError: the launch does not run now, and `why_not` says what it does, or some ids are of other kinds.
    """
    if type(value) is array and value.dtype is uint64:
        refuse_cuda(f"'{name}', an array of ids", value)
    if type(value) is array and type(value.memory) is HostMemory:
        ids = value.host()
    elif isinstance(value, np.ndarray):
        ids = value
    else:
        return None
    if ids.dtype != np.uint64:
        return None
    known = [number for number in np.unique(ids).tolist() if number]
    owners = named(known)
    if not owners:
        return None
    _check_runs(name, why_not)
    return _table(name, ids, known, list(owners.values()))


def _check_runs(name: str, why_not: str) -> None:
    if why_not or not is_not_tracing():
        raise LaunchError(
            f"'{name}' is an array of ids, which launches read when they run, and {why_not or 'JAX traces this one'}",
            hint="give each grid, tree or mesh a parameter, or a field of a struct",
        )


def names_nothing(value: Any) -> bool:
    """Whether it is what an array of ids is where there are no grids, trees or meshes: zeros."""
    if type(value) is array and value.dtype is uint64 and type(value.memory) is HostMemory:
        value = value.host()
    return isinstance(value, np.ndarray) and value.dtype == np.uint64 and not value.any()


def kinds_of_nothing(kernel: Kernel, places: Sequence[int], before: Mapping[int, Any]) -> dict[int, Any]:
    """What a kernel takes arrays of ids for that name nothing, of the parameters at `places`, where it asks for that.

    The rest of its arrays of ids are `before`. A kernel that cannot be read has an error at its launch.
    """
    found: dict[int, Any] = {}

    def wanted() -> tuple[Any, Any] | None:
        made = {**before, **found}
        try:
            (kernel.with_handles(tuple(sorted(made.items(), key=lambda pair: pair[0]))) if made else kernel).ir()
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
    # Among arrays that change they are such, too: a tape goes back through these, and launches on them are repeated.
    is_changing = type(value) is array
    parts = _NOTHING.made((kind, value.shape, is_changing), lambda: _nothing(kind, value.shape, is_changing))
    if not is_changing:
        value = np.array(value)
        value.flags.writeable = False
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
    for part in table:
        part.flags.writeable = False
    if as_arrays:
        elements = [field.element for field in fields[1:] if isinstance(field, ArrayType)]
        table = [array(part, dtype=element, copy=False) for part, element in zip(table, elements, strict=True)]
    return table


def _table(name: str, ids: np.ndarray, known: list[int], owners: list[Geometry]) -> Struct:
    kept = [held(owner) for owner in owners]
    structs = [owner.in_place if one is None else one.struct for one, owner in zip(kept, owners, strict=True)]
    kinds: dict[Any, None] = dict.fromkeys(map(type, structs))
    if len(kinds) > 1:
        shown = ", ".join(sorted({type(owner).__name__ for owner in owners}))
        raise LaunchError(f"'{name}' has ids of several kinds ({shown})", hint="let all name grids, trees or meshes")
    (kind,) = kinds
    numbers = np.zeros(ids.shape, np.int32)
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
    given, sorted_ids = np.array(ids), np.array([0, *known], np.uint64)
    given.flags.writeable = numbers.flags.writeable = sorted_ids.flags.writeable = False
    return unchecked(table_type(kind, ids.ndim), [given, numbers, sorted_ids, *joined])


_JOINED: Cache[tuple[object, ...], list[Any]] = Cache("what arrays of ids name", 16)


def _joined(kind: StructType, parts: list[list[Any]]) -> list[Any]:
    """Where each one's parts start, and the parts of all; the first one is none, and has nothing."""
    fields = list(table_type(kind).fields.values())[PARTS:]
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
