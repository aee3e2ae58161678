"""Derivatives of launches: a linear primitive for the tangent of a launch, and the rules between the two."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.bind import compat
from jwarp.bind.counting import counted, given_launch
from jwarp.bind.devices import may_have_gpu
from jwarp.bind.primitive import LAUNCHES, Shapes, bind, core_extents, launch_primitive, note_ahead
from jwarp.bind.step_executor import StepExecutor
from jwarp.collector import no_collection
from jwarp.compiler.counting import CountedLaunch
from jwarp.compiler.derivative_steps import derivative_steps, variant_of
from jwarp.compiler.derive import derive, in_known_order, refuse_order, rounding_as, switched_off
from jwarp.compiler.derived import DerivedLaunch, Source, Variant
from jwarp.compiler.program import GeneratedProgram
from jwarp.errors import NotDifferentiableError
from jwarp.launching.batch import Batch, Mask
from jwarp.launching.descriptor import Descriptor, descriptor_of, extents_of
from jwarp.types.arrays import Extents
from jwarp.wire import Role

Launch = Descriptor[GeneratedProgram]

# Parameters:
#   launch          Descriptor of the launch that this is a derivative of
#   variant         which derivative
#   sources         what each operand is
#   extents         shapes of the launch's parameters without batch axes, () for scalars
#   batch           Batch of these operands and results
# One result for each parameter of `variant.wanted`, in order. Linear in the operands `given`, and in those `along`.
derivative_p = compat.Primitive("jwarp_derivative")
derivative_p.multiple_results = True
# The same of launches that XLA may cut into pieces.
cut_derivative_p = compat.Primitive("jwarp_cut_derivative")
cut_derivative_p.multiple_results = True
DERIVATIVES = (derivative_p, cut_derivative_p)


def launch_of_derivative(
    *operands: Any,
    launch: Launch,
    variant: Variant,
    sources: tuple[Source, ...],
    extents: Extents,
    batch: Batch,
) -> list[Any]:
    """The derivative as a launch of its kernel."""
    wanted = dict(zip(variant.wanted, batch.results, strict=True))
    run = _executor(launch, derive(launch.program, variant), wanted, extents, batch)
    found = run({source: (x, mask) for source, x, mask in zip(sources, operands, batch.operands, strict=True)})
    return [
        found[p] if p in found else jnp.zeros((*batch.shape(mask), *(extents[p] or ())), launch.program.dtypes[p])
        for p, mask in wanted.items()
    ]


def _executor(
    launch: Launch, derived: DerivedLaunch, wanted: Mapping[int, Mask], extents: Extents, batch: Batch
) -> StepExecutor:
    """The executor of the steps of a launch's derivative."""
    steps = derivative_steps(derived, launch.geometry, extents, launch.block_dim)
    return StepExecutor(steps, wanted, extents, batch, is_cut=launch.is_cut)


# Types, batching, lowering


def _abstract_eval(
    *avals: Any, launch: Launch, variant: Variant, sources: tuple[Source, ...], extents: Extents, batch: Batch
) -> list[Any]:
    if variant.is_adjoint and may_have_gpu() and 0 not in batch.extents:
        _note_ahead(launch, variant, sources, extents, batch)
    return [
        compat.output_aval((*batch.shape(mask), *(extents[p] or ())), launch.program.dtypes[p], avals)
        for p, mask in zip(variant.wanted, batch.results, strict=True)
    ]


def _note_ahead(launch: Launch, variant: Variant, sources: tuple[Source, ...], extents: Extents, batch: Batch) -> None:
    """Note the launch of an adjoint. Tangents are not lowered where they are transposed, as most are."""
    try:
        derived = derive(launch.program, variant)
    except NotDifferentiableError:
        return  # reported when it is lowered
    wanted = dict(zip(variant.wanted, batch.results, strict=True))
    run = _executor(launch, derived, wanted, extents, batch)
    for step, own in run.launches(dict(zip(sources, batch.operands, strict=True))):
        params = step.launch.program.kernel.params
        note_ahead(own.launch, own.batch, extents_of(params, step.shapes))


for _primitive in DERIVATIVES:
    _primitive.def_abstract_eval(_abstract_eval)
    _primitive.def_impl(launch_of_derivative)


def _batch(
    operands: Sequence[Any], axes: Sequence[int | None], *, batch: Batch, **params: Any
) -> tuple[list[Any], list[int]]:
    """One launch for the whole batch, whose results all have its axis."""
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    moved = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(operands, axes, strict=True)]
    wider = batch.wider(size, [axis is not None for axis in axes])
    results = _primitive_of(params["launch"]).bind(*moved, batch=wider, **params)
    return results, [0] * len(results)


def _primitive_of(launch: Launch) -> compat.Primitive:
    """The primitive that derivatives of a launch are bound as."""
    return cut_derivative_p if launch.is_cut else derivative_p


for _primitive in DERIVATIVES:
    compat.batching.primitive_batchers[_primitive] = _batch
    # Not inlined, as the launch it is made of is not.
    compat.mlir.register_lowering(
        _primitive, compat.mlir.lower_fun(launch_of_derivative, multiple_results=True), inline=False
    )


# From a launch to its tangent


@no_collection()
def _launch_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    launch: Launch,
    zeros: Shapes,
    batch: Batch,
    differentiable: bool,
    **params: Any,
) -> tuple[list[Any], list[Any]]:
    params.update(zeros=zeros, batch=batch, differentiable=differentiable)
    program = launch.program
    moving = {
        p: (tangent, mask)
        for p, tangent, mask in zip(launch.operands, tangents, batch.operands, strict=True)
        if not compat.is_known_zero(tangent)
    }
    floats = tuple(p for p in launch.results if jnp.issubdtype(program.dtypes[p], jnp.floating))
    if not moving or not floats:
        results = launch_primitive(launch).bind(*primals, launch=launch, **params)
        return results, [compat.zero_tangent(result) for result in results]
    if not differentiable:
        raise switched_off(program, next(iter(moving)))
    full = batch.all
    fresh = tuple(p for p in launch.results if launch.roles[p] is Role.ZEROS)
    values = {Source("primal", p): (x, m) for p, x, m in zip(launch.operands, primals, batch.operands, strict=True)}
    values |= {Source("given", p): pair for p, pair in moving.items()}
    extents = core_extents([jax.typeof(x) for x in primals], launch, zeros, batch)
    integers = known_integers(launch, dict(zip(launch.operands, primals, strict=True)))
    variant = variant_of(
        "tangent", program, launch.geometry, extents, floats, moving,
        integers=integers, fresh=fresh, for_gpu=may_have_gpu(),
    )  # fmt: skip
    ordered = in_known_order(program, _faces(variant))
    found = counted(launch, extents, batch) if ordered is not program or program.kernel.order else None
    if found is not None:
        return _given_jvp(found, primals, tangents, launch, params)
    launch = dataclasses.replace(launch, program=ordered)
    rounding = _rounding_as(launch, _read(launch.program, variant))
    results = launch_primitive(launch).bind(*primals, launch=rounding, **params)
    values |= {Source("final", p): (x, full) for p, x in zip(launch.results, results, strict=True)}
    outs = bind_variant(launch, variant, values, extents, batch.extents, dict.fromkeys(floats, full))
    made = dict(zip(floats, outs, strict=True))
    pairs = zip(launch.results, results, strict=True)
    return results, [made[p] if p in made else compat.zero_tangent(result) for p, result in pairs]


def _given_jvp(
    found: CountedLaunch, primals: Sequence[Any], tangents: Sequence[Any], launch: Launch, params: Mapping[str, Any]
) -> tuple[list[Any], list[Any]]:
    """The results and tangents of a launch whose threads count, in any order of theirs."""
    zeros, batch = params["zeros"], params["batch"]
    operands, given, zeros, wider, finals = given_launch(found, primals, launch, zeros, batch)
    moving = dict(zip(launch.operands, tangents, strict=True))
    directions = [
        moving[p] if p in moving else compat.zero_tangent(x) for p, x in zip(given.operands, operands, strict=True)
    ]
    changed = {**params, "zeros": zeros, "batch": wider}
    results, made = _launch_jvp(operands, directions, launch=given, **changed)
    values, slopes = (dict(zip(given.results, xs, strict=True)) for xs in (results, made))
    values |= finals
    slopes |= {p: compat.zero_tangent(x) for p, x in finals.items()}
    return [values[p] for p in launch.results], [slopes[p] for p in launch.results]


for _primitive in LAUNCHES:
    compat.ad.primitive_jvps[_primitive] = _launch_jvp


def _rounding_as(launch: Launch, sources: Iterable[Source]) -> Launch:
    """The launch that is run where it has a derivative with these sources."""
    program = rounding_as(launch.program, sources)
    made = descriptor_of(program, launch.geometry, launch.roles, launch.block_dim)
    return dataclasses.replace(made, is_cut=True) if launch.is_cut else made


def known_integers(launch: Descriptor, primals: Mapping[int, Any]) -> dict[int, int]:
    """The integer arguments that are one known number for all of a batch; `primals` are by parameter."""
    params = launch.program.kernel.params
    scalars = ((p, x) for p, x in primals.items() if not params[p].is_array and params[p].dtype.is_int)
    return {p: int(x) for p, x in scalars if not isinstance(x, compat.Tracer) and np.ndim(x) == 0}


def bind_variant(
    launch: Launch,
    variant: Variant,
    values: Mapping[Source, tuple[Any, Mask]],
    extents: Extents,
    batch: tuple[int, ...],
    result_masks: Mapping[int, Mask],
) -> list[Any]:
    """Bind a derivative with those of `values` that it reads, and all that are `given` or `along`."""
    read = _read(launch.program, variant)
    kept = {s: pair for s, pair in values.items() if s in read or s.kind in ("given", "along")}
    operands = compat.placed_alike([x for x, _ in kept.values()])
    return _primitive_of(launch).bind(
        *operands,
        launch=launch,
        variant=variant,
        sources=tuple(kept),
        extents=extents,
        batch=Batch(batch, tuple(mask for _, mask in kept.values()), tuple(result_masks[p] for p in variant.wanted)),
    )


def _read(program: GeneratedProgram, variant: Variant) -> frozenset[Source]:
    """The primal operands that a derivative or any transpose of it reads, so that it can be transposed later."""
    found: set[Source] = set()
    refusals = []
    faces = sorted(_faces(variant), key=lambda face: not face.is_adjoint)
    for face in faces:
        if found and not face.is_adjoint and _reads_no_more(program, face, found):
            continue
        try:
            found.update(derive(program, face).sources)
        except NotDifferentiableError as error:
            refusals.append((not face.is_adjoint, error))  # it counts where that face is launched
    if len(refusals) == len(faces):
        raise min(refusals, key=operator.itemgetter(0))[1]  # gradients are what is asked for most
    return frozenset(found)


def _reads_no_more(program: GeneratedProgram, tangent: Variant, known: set[Source]) -> bool:
    """True if a tangent provably reads no primal operands but `known`, without deriving it."""
    looked_at = None if tangent.along else program.looked_at
    if looked_at is None:
        return False
    return all(p in tangent.fresh or Source("primal", p) in known for p in looked_at)


def _faces(variant: Variant) -> list[Variant]:
    """The variant and its transposes: all are one form, w^T J v or w^T H[v, u], with another argument left open."""
    inputs, outputs, along = variant.given, variant.wanted, variant.along
    if variant.is_adjoint:
        inputs, outputs = outputs, inputs
    order = "2" if along else ""
    plain = dataclasses.replace(variant, shared=(), gathered=())

    def face(kind: str, wanted: tuple[int, ...], given: tuple[int, ...], along: tuple[int, ...]) -> Variant:
        return dataclasses.replace(plain, kind=kind + order, wanted=wanted, given=given, along=along)

    pairs = [(inputs, along)] if not along or inputs == along else [(inputs, along), (along, inputs)]
    made = [face("adjoint", v, outputs, u) for v, u in pairs] + [face("tangent", outputs, v, u) for v, u in pairs]
    return list(dict.fromkeys([variant, *made]))


def bind_adjoint(
    launch: Launch,
    operands: Sequence[Any],
    zeros: Shapes,
    wanted: Sequence[int],
    cotangents: Mapping[int, Any],
    *,
    differentiable: bool = True,
) -> list[Any]:
    """Gradients of the parameters `wanted` from `cotangents` of outputs; that of others is zero."""
    program = launch.program
    if not wanted:
        return []
    if not differentiable:
        raise switched_off(program, wanted[0])
    extents = launch.extents([jnp.shape(x) for x in operands], zeros)
    variant = variant_of(
        "adjoint", program, launch.geometry, extents, wanted, cotangents,
        integers=known_integers(launch, dict(zip(launch.operands, operands, strict=True))),
        fresh=tuple(p for p in launch.results if launch.roles[p] is Role.ZEROS), for_gpu=may_have_gpu(),
    )  # fmt: skip
    values: dict[Source, tuple[Any, Mask]] = {}
    values |= {Source("primal", p): (x, ()) for p, x in zip(launch.operands, operands, strict=True)}
    values |= {Source("given", p): (x, ()) for p, x in cotangents.items()}
    read = _read(program, variant)
    if any(source.kind == "final" for source in read):
        finals = bind(operands, _rounding_as(launch, read), zeros)
        values |= {Source("final", p): (x, ()) for p, x in zip(launch.results, finals, strict=True)}
    return bind_variant(launch, variant, values, extents, (), dict.fromkeys(wanted, ()))


# Linear in what is given: tangents of derivatives, and transposes


def _transposed(variant: Variant, wanted: Iterable[int], given: Iterable[int], along: Iterable[int] = ()) -> Variant:
    """The variant of the transpose, with gradients `wanted` from cotangents `given`."""
    order = "2" if variant.along else ""
    kind = ("tangent" if variant.is_adjoint else "adjoint") + order
    return dataclasses.replace(
        variant, kind=kind, wanted=tuple(wanted), given=tuple(given), along=tuple(along), shared=(), gathered=()
    )


def _derivative_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    launch: Launch,
    variant: Variant,
    sources: tuple[Source, ...],
    extents: Extents,
    batch: Batch,
) -> tuple[list[Any], list[Any]]:
    values = {s: (x, m) for s, x, m in zip(sources, primals, batch.operands, strict=True)}
    pairs = zip(sources, tangents, batch.operands, strict=True)
    moving = {s: (t, m) for s, t, m in pairs if not compat.is_known_zero(t)}
    wanted = dict(zip(variant.wanted, batch.results, strict=True))

    def bound(changed: Variant, values: Mapping[Source, tuple[Any, Mask]]) -> list[Any]:
        return bind_variant(launch, changed, values, extents, batch.extents, wanted)

    results = bound(variant, values)
    parts = []
    for kind in ("given", "along"):
        directions = {s: pair for s, pair in moving.items() if s.kind == kind}
        if directions:
            numbers: dict[str, Any] = {kind: tuple(s.param for s in directions)}
            fixed = {s: pair for s, pair in values.items() if s.kind != kind}
            parts.append(bound(dataclasses.replace(variant, **numbers), fixed | directions))
    curved = {Source("along", s.param): pair for s, pair in moving.items() if s.kind == "primal"}
    if curved and variant.along:
        raise NotDifferentiableError(
            f"kernel '{launch.program.name}': a third derivative was asked for",
            launch.program.span,
            "first and second derivatives are there: wrap what needs no more in jax.lax.stop_gradient",
        )
    if curved:
        along = tuple(s.param for s in curved)
        parts.append(bound(dataclasses.replace(variant, kind=variant.kind + "2", along=along), values | curved))
    if not parts:
        return results, [compat.zero_tangent(result) for result in results]
    return results, [sum(terms[1:], start=terms[0]) for terms in zip(*parts, strict=True)]


for _primitive in DERIVATIVES:
    compat.ad.primitive_jvps[_primitive] = _derivative_jvp


@no_collection()
def _transpose(
    cotangents: Sequence[Any],
    *operands: Any,
    launch: Launch,
    variant: Variant,
    sources: tuple[Source, ...],
    extents: Extents,
    batch: Batch,
) -> list[Any]:
    linear = [compat.ad.is_undefined_primal(x) for x in operands]
    if variant.along:
        refuse_order(launch.program)
    kind = next(s.kind for s, is_linear in zip(sources, linear, strict=True) if is_linear)
    pairs = zip(sources, operands, batch.operands, linear, strict=True)
    values = {s: (x, m) for s, x, m, is_linear in pairs if not is_linear}
    primals = {s: pair for s, pair in values.items() if s.kind in ("primal", "final")}
    others = {s.param: pair for s, pair in values.items() if s.kind in ("given", "along")}
    wanted = {s.param: m for s, m, is_linear in zip(sources, batch.operands, linear, strict=True) if is_linear}
    arriving = {
        p: (ct, m)
        for p, ct, m in zip(variant.wanted, cotangents, batch.results, strict=True)
        if not isinstance(ct, compat.ad.Zero)
    }
    if not arriving:
        return [compat.ad.Zero(x.aval) if is_linear else None for x, is_linear in zip(operands, linear, strict=True)]
    given, along = _exchanged(variant, kind, arriving, others)
    changed = _transposed(variant, wanted, given, along)
    if variant.kind == "adjoint2" and kind == "along":
        changed = dataclasses.replace(changed, kind="adjoint2")
    shared = tuple(p for p, mask in wanted.items() if not all(mask))
    gathered = tuple(p for p in changed.gatherable if changed.is_adjoint and p in wanted and p not in shared)
    changed = dataclasses.replace(changed, shared=shared, gathered=gathered)
    primals |= {Source("given", p): pair for p, pair in given.items()}
    primals |= {Source("along", p): pair for p, pair in along.items()}
    outs = iter(bind_variant(launch, changed, primals, extents, batch.extents, wanted))
    return [next(outs) if is_linear else None for is_linear in linear]


Pairs = dict[int, tuple[Any, Mask]]


def _exchanged(variant: Variant, kind: str, arriving: Pairs, others: Pairs) -> tuple[Pairs, Pairs]:
    """The `given` and `along` operands of the transpose by the operands of a kind.

    All four kinds are faces of one form, w^T H[v, u] (or w^T J v without the other direction).
    """
    if not variant.along:
        return arriving, {}
    if not variant.is_adjoint:
        return arriving, others  # w arrives; the direction that is left stays
    if kind == "given":
        return others, arriving  # H[v, c]
    return others, arriving  # w stays, c is the new direction


for _primitive in DERIVATIVES:
    compat.ad.primitive_transposes[_primitive] = _transpose


# Dead code: gradients that nothing uses are not computed


def _drop_unused(used: Sequence[bool], eqn: Any) -> tuple[list[bool], Any]:
    params = eqn.params
    if not any(used) and not eqn.effects:
        return [False] * len(eqn.invars), None
    if all(used):
        return [True] * len(eqn.invars), eqn
    variant: Variant = params["variant"]
    batch: Batch = params["batch"]
    wanted = tuple(p for p, is_used in zip(variant.wanted, used, strict=True) if is_used)
    narrower = dataclasses.replace(variant, wanted=wanted)
    read = _read(params["launch"].program, narrower)
    kept = [s in read or s.kind in ("given", "along") for s in params["sources"]]
    changed = dict(
        params,
        variant=narrower,
        sources=tuple(s for s, keep in zip(params["sources"], kept, strict=True) if keep),
        batch=dataclasses.replace(
            batch,
            operands=tuple(m for m, keep in zip(batch.operands, kept, strict=True) if keep),
            results=tuple(m for m, is_used in zip(batch.results, used, strict=True) if is_used),
        ),
    )
    invars = [x for x, keep in zip(eqn.invars, kept, strict=True) if keep]
    outvars = [x for x, is_used in zip(eqn.outvars, used, strict=True) if is_used]
    return kept, eqn.replace(invars=invars, outvars=outvars, params=changed)


for _primitive in DERIVATIVES:
    compat.register_dce(_primitive, _drop_unused)

__all__ = ["DERIVATIVES", "bind_adjoint", "bind_variant", "known_integers", "launch_of_derivative"]
