"""The transpose of a launch, for kernels that are linear in some of their arguments: the adjoint, without their values.

JAX asks for it in `jax.linear_transpose`, and in gradients of `lax.custom_linear_solve` and of the solvers made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jwarp.analysis.linearity import Fault, nonlinearity
from jwarp.autodiff.tile_rules import derivative_reads
from jwarp.bind import compat
from jwarp.bind.derivatives import bind_variant, known_integers
from jwarp.bind.devices import may_have_gpu
from jwarp.bind.primitive import LAUNCHES, Shapes, core_extents
from jwarp.caches import MAX_SHAPES, PerOwner
from jwarp.compiler.derivative_steps import variant_of
from jwarp.compiler.derive import derive, switched_off
from jwarp.compiler.derived import Source, Variant
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.write_conflicts import write_conflicts
from jwarp.errors import NotDifferentiableError
from jwarp.launching.batch import Batch, Mask
from jwarp.launching.descriptor import Descriptor
from jwarp.wire import Role

Numbers = tuple[int, ...]

_FAULTS: PerOwner[GeneratedProgram, tuple[Numbers, Numbers], Fault | None] = PerOwner(
    "what a program is linear in", MAX_SHAPES
)


def _transpose_launch(
    cotangents: Sequence[Any],
    *operands: Any,
    launch: Descriptor[GeneratedProgram],
    zeros: Shapes,
    batch: Batch,
    differentiable: bool,
    **_: Any,
) -> list[Any]:
    """The gradients of the operands that are not known, None for the others.

    Raises:
        NotDifferentiableError: the launch is not linear in them; it names the line.
    """
    program = launch.program
    unknown = [compat.ad.is_undefined_primal(x) for x in operands]
    groups = zip(launch.operands, operands, batch.operands, unknown, strict=True)
    known: dict[int, tuple[Any, Mask]] = {p: (x, m) for p, x, m, is_unknown in groups if not is_unknown}
    wanted = {
        p: m for p, m, is_unknown in zip(launch.operands, batch.operands, unknown, strict=True)
        if is_unknown and jnp.issubdtype(program.dtypes[p], jnp.floating)
    }  # fmt: skip
    arriving = {
        p: (ct, m)
        for p, ct, m in zip(launch.results, cotangents, batch.results, strict=True)
        if not compat.is_known_zero(ct)
    }
    avals = [x.aval if is_unknown else jax.typeof(x) for x, is_unknown in zip(operands, unknown, strict=True)]
    if not arriving or not wanted:
        return [compat.ad.Zero(aval) if is_unknown else None for aval, is_unknown in zip(avals, unknown, strict=True)]
    if not differentiable:
        raise switched_off(program, next(iter(wanted)))
    _refuse_nonlinear(program, tuple(wanted), tuple(arriving))
    extents = core_extents(avals, launch, zeros, batch)
    variant = variant_of(
        "adjoint", program, launch.geometry, extents, wanted, arriving,
        integers=known_integers(launch, {p: x for p, (x, _) in known.items()}),
        fresh=tuple(p for p in launch.results if launch.roles[p] is Role.ZEROS),
        shared=tuple(p for p, mask in wanted.items() if not all(mask)), for_gpu=may_have_gpu(),
    )  # fmt: skip
    values = {Source("primal", p): pair for p, pair in known.items()}
    values |= {Source("given", p): pair for p, pair in arriving.items()}
    if any(source not in values for source in derive(program, variant).sources):
        raise _unknown_winner(program, variant)
    found = dict(zip(wanted, bind_variant(launch, variant, values, extents, batch.extents, wanted), strict=True))
    return [
        found[p] if p in found else compat.ad.Zero(aval) if is_unknown else None
        for p, aval, is_unknown in zip(launch.operands, avals, unknown, strict=True)
    ]


def _refuse_nonlinear(program: GeneratedProgram, wanted: Numbers, outputs: Numbers) -> None:
    """Refuse a kernel that is not linear in the parameters `wanted`, by the line that shows it."""

    def found(linear: Numbers) -> Fault | None:
        kernel = program.simplified
        return _FAULTS.of(program).made(
            (linear, outputs), lambda: nonlinearity(kernel, linear, outputs, derivative_reads)
        )

    fault = found(wanted)
    if fault is None:
        return
    # By one that it is not linear in alone, if there is one.
    alone = next((((p,), own) for p in wanted if (own := found((p,))) is not None), (wanted, fault))
    raise _refusal(program, *alone)


def _unknown_winner(program: GeneratedProgram, variant: Variant) -> NotDifferentiableError:
    """The adjoint of a linear kernel reads values where those that threads store may meet, to see which one stayed."""
    met = write_conflicts(program, repeated=variant.repeated)
    names = " and ".join(f"'{program.kernel.params[p].name}'" for p in sorted(met.arrays)) or "an output"
    return NotDifferentiableError(
        f"kernel '{program.name}' was to be transposed, and several threads may store to one element of {names}: only "
        "its values tell which one stays, and a transpose has none",
        program.span,
        "use wp.atomic_add, or an index that is made of the thread's coordinates",
    )


def _refusal(program: GeneratedProgram, params: Numbers, fault: Fault) -> NotDifferentiableError:
    names = " and ".join(f"'{program.kernel.params[p].name}'" for p in params)
    return NotDifferentiableError(
        f"kernel '{program.name}' was to be transposed, and is not linear in {names}, which {fault.reason}",
        fault.span,
        "use jax.vjp at a point, or let the kernel only add up its values, times what does not depend on them",
    )


for _primitive in LAUNCHES:
    compat.ad.primitive_transposes[_primitive] = _transpose_launch
