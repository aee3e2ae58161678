"""Launches that XLA cuts into pieces, one for each device, where their arrays are sharded under plain jit.

A launch has factors: launch axes along which it is independent, and the axes of its batch. XLA's partitioner is given
the axis of each operand and result that belongs to a factor. It asks for the program of a piece when it knows the
shardings.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from jwarp.analysis.independence import Obstacle, Split, independent_axes
from jwarp.bind import compat
from jwarp.bind.derivatives import DERIVATIVES
from jwarp.bind.primitive import Shapes, core_extents, cut_launch_p, launch_p
from jwarp.caches import PerOwner
from jwarp.compiler import pipeline
from jwarp.compiler.passes import run
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.program_base import Program
from jwarp.errors import CompileError, LaunchError
from jwarp.launching.batch import Batch
from jwarp.launching.descriptor import Descriptor
from jwarp.launching.sizes import Symbolic
from jwarp.wire import Role

_AXES: PerOwner[GeneratedProgram, str, tuple[Split | Obstacle, ...]] = PerOwner(
    "axes that a program is cut along", "one"
)


@dataclasses.dataclass(frozen=True)
class Factor:
    """An axis that may be cut: of the launch, or of its batch, by number.

    `operands` and `results` say which axis of which of them goes along, `sums` which results are added up.
    """

    name: str
    number: int
    is_batch: bool
    size: int
    operands: Mapping[int, int]
    results: Mapping[int, int]
    sums: frozenset[int]


def axes_of(program: GeneratedProgram) -> tuple[Split | Obstacle, ...]:
    """For each coordinate of the threads, how launches of a program are cut along it, or why they are not."""
    return _AXES.of(program).made(
        "forward", lambda: independent_axes(run(pipeline.PARTITIONED, program.kernel, program.context))
    )


def cut_launch(launch: Descriptor, rule: Any) -> Descriptor:
    """The launch, to be cut by a `sharding_rule`: "auto", or launch axes along which it has to be independent.

    Raises:
        LaunchError: the rule is none, or the kernel is not generated.
        CompileError: the kernel is not independent along one of the axes; it names the line.
    """
    program: Program = launch.program
    where = f"kernel '{program.name}': sharding_rule"
    if not isinstance(program, GeneratedProgram):
        raise LaunchError(
            f"{where} is for kernels in Python: what threads of a handwritten one reach is not known",
            hint="launch it in jax.shard_map",
        )
    count = program.kernel.tid_dims
    axes = axes_of(program)
    if rule != "auto":
        for axis in _read_axes(rule, count, where):
            found = axes[axis]
            if isinstance(found, Obstacle):
                raise CompileError(
                    f"{where}: the kernel is not independent along axis {axis} of its launch: it {found.reason}",
                    found.span if found.span.line else program.span,
                    "launch it in jax.shard_map, and send what pieces need of each other there",
                )
    # A launch that prints, checks or has effects runs whole, on each device.
    return launch if program.lasts or program.shadows else dataclasses.replace(launch, is_cut=True)


def _read_axes(rule: Any, count: int, where: str) -> tuple[int, ...]:
    entries = rule if isinstance(rule, (tuple, list)) else (rule,)
    try:
        axes = tuple(operator.index(x) for x in entries)
    except TypeError:
        axes = (-1,)
    if not axes or not all(0 <= axis < count for axis in axes):
        raise LaunchError(
            f"{where} must be 'auto' or launch axes, numbers from 0 to {count - 1}, got {rule!r}",
        )
    return axes


def factors_of(launch: Descriptor[GeneratedProgram], avals: Sequence[Any], zeros: Shapes, batch: Batch) -> list[Factor]:
    """The axes along which this launch may be cut."""
    extents = core_extents(avals, launch, zeros, batch)
    operands, results = launch.operands, launch.results
    in_front = [sum(mask) for mask in batch.operands], [sum(mask) for mask in batch.results]
    factors = []
    for axis, split in enumerate(axes_of(launch.program)):
        size = launch.geometry.dims[axis]
        if isinstance(split, Obstacle) or any((extents[p] or ())[a] != size for p, a in split.places.items()):
            continue
        if any(launch.roles[p] is not Role.ZEROS for p in split.sums if p in results):
            continue  # what they start from would be added by each piece
        factors.append(
            Factor(
                f"t{axis}", axis, False, size,
                {k: in_front[0][k] + split.places[p] for k, p in enumerate(operands) if p in split.places},
                {k: in_front[1][k] + split.places[p] for k, p in enumerate(results) if p in split.places},
                frozenset(k for k, p in enumerate(results) if p in split.sums),
            )
        )  # fmt: skip
    for axis, size in enumerate(batch.extents):
        lacking = [k for k, mask in enumerate(batch.results) if not mask[axis]]
        if any(launch.roles[results[k]] is not Role.ZEROS for k in lacking):
            continue
        factors.append(
            Factor(
                f"b{axis}", axis, True, size,
                {k: sum(mask[:axis]) for k, mask in enumerate(batch.operands) if mask[axis]},
                {k: sum(mask[:axis]) for k, mask in enumerate(batch.results) if mask[axis]},
                frozenset(lacking),
            )
        )  # fmt: skip
    return factors


def piece(
    launch: Descriptor[GeneratedProgram],
    zeros: Shapes,
    batch: Batch,
    cuts: Mapping[str, int],
    factors: Iterable[Factor],
) -> tuple[Descriptor[GeneratedProgram], Shapes, Batch]:
    """The launch of one of so many pieces along each factor."""
    dims, extents = list(launch.geometry.dims), list(batch.extents)
    fresh = [p for p, role in enumerate(launch.roles) if role is Role.ZEROS]
    shapes = [list(shape) for shape in zeros]
    for factor in factors:
        count = cuts.get(factor.name, 1)
        if factor.is_batch:
            extents[factor.number] //= count
            continue
        dims[factor.number] //= count
        for k, place in factor.results.items():
            p = launch.results[k]
            if p in fresh:
                shapes[fresh.index(p)][place - sum(batch.results[k])] //= count
    geometry = dataclasses.replace(launch.geometry, dims=tuple(dims))
    return (
        dataclasses.replace(launch, geometry=geometry, is_cut=False),
        tuple(map(tuple, shapes)),
        dataclasses.replace(batch, extents=tuple(extents)),
    )


# Lowering


def _lower(
    ctx: Any, *operands: Any, launch: Descriptor[GeneratedProgram], zeros: Shapes, batch: Batch, **params: Any
) -> Any:
    """By XLA's partitioner; whole inside of shard_map, and where there is one device."""
    if compat.is_exporting(ctx):
        raise LaunchError(
            f"kernel '{launch.program.name}' is launched with sharding_rule=, and such launches cannot be exported: "
            "the partitioner calls this process",
            hint="leave sharding_rule out of what is exported, and launch in jax.shard_map there",
        )
    whole = dataclasses.replace(launch, is_cut=False)
    run = functools.partial(launch_p.bind, launch=whole, zeros=zeros, batch=batch, **params)
    is_known = not any(isinstance(n, Symbolic) for n in (*launch.geometry.dims, *batch.extents))
    factors = factors_of(launch, ctx.avals_in, zeros, batch) if is_known and not compat.is_manual(ctx) else []
    if factors:
        run = _partitioned(run, launch, zeros, batch, params, factors, ctx.avals_in, ctx.avals_out)
    return compat.mlir.lower_fun(run, multiple_results=True)(ctx, *operands)


def _partitioned(
    run: Any, launch: Any, zeros: Shapes, batch: Batch, params: Any, factors: list[Factor], given: Any, made: Any
) -> Any:
    def cuts_of(mesh: Any, given: Sequence[Any], made: Sequence[Any]) -> dict[str, tuple[str, ...]]:
        """The axes of the mesh that each factor is cut along."""
        found: dict[str, tuple[str, ...]] = {}
        taken: set[str] = set()
        for factor in factors:
            wanted = [(made[k], axis) for k, axis in factor.results.items()]
            wanted += [(given[k], axis) for k, axis in factor.operands.items()]
            for value, axis in wanted:
                names = _axes_at(value, axis)
                count = _pieces(mesh, names)
                if count > 1 and factor.size % count == 0 and taken.isdisjoint(names):
                    found[factor.name] = names
                    taken.update(names)
                    break
        return found

    def shardings(mesh: Any, cuts: Mapping[str, tuple[str, ...]], shapes: Sequence[Any], which: str) -> list[Any]:
        entries: list[list[Any]] = [[None] * len(x.shape) for x in shapes]
        for factor in factors:
            for k, axis in getattr(factor, which).items():
                entries[k][axis] = cuts.get(factor.name)
        return [jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*row)) for row in entries]

    def partition(mesh: Any, given: Any, made: Any) -> Any:
        cuts = cuts_of(mesh, given, made)
        own, shapes, axes = piece(
            launch, zeros, batch, {name: _pieces(mesh, names) for name, names in cuts.items()}, factors
        )
        added = [tuple(x for f in factors if k in f.sums for x in cuts.get(f.name, ())) for k in range(len(made))]

        def lowered(*operands: Any) -> list[Any]:
            results = launch_p.bind(*operands, launch=own, zeros=shapes, batch=axes, **params)
            return [jax.lax.psum(x, names) if names else x for x, names in zip(results, added, strict=True)]

        return mesh, lowered, shardings(mesh, cuts, made, "results"), tuple(shardings(mesh, cuts, given, "operands"))

    def inferred(mesh: Any, given: Any, made: Any) -> Any:
        nothing = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in made]
        return shardings(mesh, cuts_of(mesh, given, nothing), made, "results")

    names = {which: [[f"{which[0]}{k}x{a}" for a in range(len(x.shape))] for k, x in enumerate(avals)]
             for which, avals in (("operands", given), ("results", made))}  # fmt: skip
    whole = {name for rows in names.values() for row in rows for name in row}
    for factor in factors:
        for which in ("operands", "results"):
            for k, axis in getattr(factor, which).items():
                whole.discard(names[which][k][axis])
                names[which][k][axis] = factor.name
    return compat.partitioned(run, partition, inferred, names["operands"], names["results"], sorted(whole))


def _axes_at(value: Any, axis: int) -> tuple[str, ...]:
    """The axes of the mesh over which an axis of a value is sharded."""
    spec = getattr(getattr(value, "sharding", None), "spec", None)
    names = spec[axis] if spec is not None and axis < len(spec) else None
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def _pieces(mesh: Any, names: Sequence[str]) -> int:
    count = 1
    for name in names:
        count *= mesh.shape[name]
    return count


compat.mlir.register_lowering(cut_launch_p, _lower, inline=False)
for _primitive in (cut_launch_p, DERIVATIVES[1]):
    compat.needs_devices(_primitive)
