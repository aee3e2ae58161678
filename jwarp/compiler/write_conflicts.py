"""The facts of a launch that choose its derivative: gathered gradients, write conflicts, single threads."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from jwarp.analysis.affine import UNKNOWN, Condition, both, evaluate, symbols_of
from jwarp.analysis.ownership import Reach, owned_arrays, reaches
from jwarp.analysis.races import Race, find_race
from jwarp.analysis.ranges import prove
from jwarp.analysis.stencils import stencils, within_high
from jwarp.analysis.summary import decoded_condition, encoded_condition
from jwarp.analysis.write_conflicts import WriteConflicts, ambiguity, conflicting_stores
from jwarp.caches import MAX_SHAPES, PerOwner
from jwarp.compiler.program import GeneratedProgram
from jwarp.errors import NotDifferentiableError
from jwarp.ir import nodes
from jwarp.ir.attributes import decode, encode
from jwarp.launching.geometry import Geometry
from jwarp.launching.sizes import are_known, is_known
from jwarp.types.arrays import Extents


def gatherable(
    program: GeneratedProgram, geometry: Geometry, extents: Extents, scalars: Mapping[int, int]
) -> tuple[int, ...]:
    """The parameters whose gradients can be gathered in a launch, with known values of `scalars`.

    They are read at constant distances from each thread's place, clamped or not, and never outside: an index that
    counts from the end would be somewhere else. Which launch covers their elements must be known, too.
    """
    dims = geometry.dims
    if geometry.may_repeat or not are_known((dims, *extents)):
        return ()
    found = _stencils(program)
    if not found:
        return ()
    symbols = symbols_of(program.users_kernel)
    known: dict[int, int | None] = dict(enumerate(dims))
    known |= {symbol.index: scalars.get(p) for p, symbol in symbols.scalars.items()}
    for (p, axis), symbol in symbols.extents.items():
        shape = extents[p]
        known[symbol.index] = shape[axis] if shape is not None else None
    return tuple(p for p, own in found.items() if all(evaluate(condition, known) for condition in own.conditions))


def exceeded(
    program: GeneratedProgram, geometry: Geometry, extents: Extents, gathered: Sequence[int]
) -> tuple[int, ...]:
    """The arrays among `gathered` that have fewer elements than the launch that covers all of these has threads."""
    found = _stencils(program) if gathered else {}
    dims = list(geometry.dims)
    pairs = [(p, axis, n) for p in gathered for axis, n in zip(found[p].axes, extents[p] or (), strict=False)]
    for _, axis, n in pairs:
        dims[axis] = max(dims[axis], n)
    return tuple(sorted({p for p, axis, n in pairs if n < dims[axis]}))


def depends_on_integers(program: GeneratedProgram) -> bool:
    """True if `gatherable` may depend on the values of scalars."""
    return bool(_stencils(program)) and bool(symbols_of(program.users_kernel).scalars)


@dataclasses.dataclass(frozen=True)
class Stencil:
    """The launch axis of each index of an array, and conditions on launches in which its gradient may be gathered."""

    axes: tuple[int, ...]
    conditions: list[Condition]


Stencils = dict[int, Stencil]

_STENCILS: PerOwner[GeneratedProgram, str, Stencils] = PerOwner("what is proved of stencils", "one for a program")


def _stencils(program: GeneratedProgram) -> Stencils:
    """The parameters that are read at constant distances or clamped, with conditions on launches that this needs."""

    kernel = program.users_kernel

    def found() -> Stencils:
        simple = program.simplified
        owned = owned_arrays(simple)
        places = {p: axes for p, axes in sorted(stencils(simple).items()) if p not in owned}
        if not places:
            return {}
        proven = prove(simple).proven
        loads = [n for n in nodes.walk(simple.body) if isinstance(n, nodes.Op) and n.row.is_load]
        symbols = symbols_of(simple)

        def condition(load: nodes.Op) -> Condition:
            return both(proven.get(load, UNKNOWN), within_high(load, simple, symbols))

        every = {p: Stencil(axes, [condition(n) for n in loads if n.attr == p]) for p, axes in places.items()}
        return {p: own for p, own in every.items() if UNKNOWN not in own.conditions}

    def write(known: Stencils) -> list[Any]:
        return [[p, own.axes, [encoded_condition(c) for c in own.conditions]] for p, own in known.items()]

    def read(content: list[Any]) -> Stencils:
        return {p: Stencil(tuple(axes), [decoded_condition(c, kernel) for c in own]) for p, axes, own in content}

    return _STENCILS.of(program).made("forward", lambda: program.cache.value("stencils", found, write, read))


_WRITE_CONFLICTS: PerOwner[GeneratedProgram, bool, WriteConflicts] = PerOwner(
    "write conflicts of a program", "two for a program"
)


def write_conflicts(program: GeneratedProgram, *, repeated: bool) -> WriteConflicts:
    """The arrays that threads of a program may store to at one element; without slots."""

    def found() -> WriteConflicts:
        return dataclasses.replace(conflicting_stores(program.simplified, repeated=repeated), slots={})

    def write(met: WriteConflicts) -> list[list[int]]:
        return [sorted(met.decided_by_final), sorted(met.ambiguous), sorted(met.same_value)]

    def read(content: list[list[int]]) -> WriteConflicts:
        decided, ambiguous, same = map(frozenset, content)
        return WriteConflicts(decided, ambiguous, same)

    name = f"write conflicts {repeated}"
    return _WRITE_CONFLICTS.of(program).made(repeated, lambda: program.cache.value(name, found, write, read))


_REACHES: PerOwner[GeneratedProgram, str, frozenset[Reach]] = PerOwner(
    "what the indices of a program may be", "one for a program"
)


def may_coincide(program: GeneratedProgram, geometry: Geometry) -> bool:
    """True if threads may have the indices of others, although their coordinates tell them apart.

    They have where the launch repeats threads, and where it is so large that an index wraps: `i * 2**30` of int32 is
    zero for thread 4, too.
    """
    if geometry.may_repeat:
        return True

    def write(found: frozenset[Reach]) -> list[Any]:
        return sorted(map(encode, found))

    def read(content: list[Any]) -> frozenset[Reach]:
        return frozenset(decode(reach, Reach) for reach in content)

    def made() -> frozenset[Reach]:
        return program.cache.value("reaches", lambda: reaches(program.simplified), write, read)

    reached = _REACHES.of(program).made("forward", made)
    return bool(reached) and (not is_known(*geometry.dims) or any(reach.wraps(geometry.dims) for reach in reached))


def is_alone(program: GeneratedProgram, geometry: Geometry) -> bool:
    """True if a launch has one thread only, where that makes its derivative another one."""
    sizes = (*geometry.dims, geometry.repeat)
    return is_known(*sizes) and math.prod(sizes) == 1 and bool(write_conflicts(program, repeated=False))


_SINGLE: PerOwner[GeneratedProgram, tuple[int, ...], bool] = PerOwner(
    "axes of one thread that decide what threads of a program meet", MAX_SHAPES
)


def single_axes(program: GeneratedProgram, geometry: Geometry) -> tuple[int, ...]:
    """The axes along which a launch of several threads has one, where that makes its derivative another one.

    For blocks they are those of blocks: a kernel may read the number of a lane as well.
    """
    if geometry.may_repeat or is_alone(program, geometry) or not write_conflicts(program, repeated=False):
        return ()
    sizes = enumerate(geometry.dims[: program.kernel.tid_dims])
    single = tuple(axis for axis, size in sizes if is_known(size) and size == 1)

    def decides() -> bool:
        kernel = program.simplified
        return conflicting_stores(kernel, single=single) != conflicting_stores(kernel)

    return single if single and _SINGLE.of(program).made(single, decides) else ()


_RACES: PerOwner[GeneratedProgram, tuple[Geometry, Extents], Race | None] = PerOwner("races of a program", MAX_SHAPES)


def refuse_race(program: GeneratedProgram, geometry: Geometry, extents: Extents) -> None:
    """Two threads that store to one element leave one value there, and nobody knows whose.

    Where the content of the array tells whose it is, that thread gets the gradient. With symbolic sizes, no such
    threads are certain.
    """
    if not are_known((geometry.dims, (geometry.repeat,), *extents)):
        return
    ambiguous = write_conflicts(program, repeated=may_coincide(program, geometry)).ambiguous
    if not ambiguous:
        return

    def found() -> Race | None:
        return find_race(program.differentiated, geometry.dims, extents, ambiguous, geometry.may_repeat)

    race = _RACES.of(program).made((geometry, extents), found)
    if race is None:
        return
    kernel = program.differentiated
    first, second = race.threads
    where = f"{kernel.params[race.param].name}[{', '.join(map(str, race.element))}]"
    raise NotDifferentiableError(
        f"kernel '{program.name}': threads {first} and {second} both store to {where}, "
        f"{ambiguity(kernel, race.param)}, so that nothing tells whose value the gradient goes to",
        race.span,
        "store to another array than one that is read, use wp.atomic_add to add up, or guard the store so that one "
        "thread makes it",
    )
