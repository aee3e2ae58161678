"""Adjoint launches on JAX values: gradients of inputs from cotangents of outputs, as new arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jwarp.bind import values
from jwarp.bind.calls import bind_adjoint
from jwarp.launching import arguments
from jwarp.launching.adjoints import Request
from jwarp.launching.arguments import Argument, Fault
from jwarp.launching.descriptor import Descriptor


@dataclass(frozen=True)
class AdjointCall:
    """An adjoint launch, ready: a function of `operands`, the launch's own and then cotangents and seeds.

    Its results are the gradients of `wanted`, in order.
    """

    run: Callable[..., list[Any]]
    operands: list[Any]
    wanted: tuple[int, ...]


def adjoint_call(
    launch: Descriptor,
    operands: list[Any],
    zeros: tuple[tuple[int, ...], ...],
    request: Request,
    *,
    differentiable: bool,
) -> AdjointCall:
    """The adjoint of the launch that `launch`, `operands` and `zeros` describe."""
    program = launch.program
    extents = launch.extents([jnp.shape(x) for x in operands], zeros)
    arriving = {p: x for p, x in (request.cotangents or {}).items() if x is not None}
    seeds = {p: x for p, x in request.wanted.items() if x is not True}
    faults: list[Fault] = []
    added: dict[str, dict[int, Any]] = {"cotangents": {}, "seeds": {}}
    for kind, entries in (("cotangents", arriving), ("seeds", seeds)):
        for p, x in entries.items():
            argument = values.describe(x)
            param = program.params[p]
            fault = arguments.check_gradient(f"adjoint of '{param.name}'", param, extents[p] or (), argument)
            if fault is not None:
                faults.append(fault)
            else:
                added[kind][p] = _array(argument, param.dtype.dtype)
    arguments.raise_faults(program.name, faults)
    wanted, given = tuple(request.wanted), tuple(added["cotangents"])
    seeded = tuple(added["seeds"])
    count = len(operands)

    def run(*all_operands: Any) -> list[Any]:
        own, cotangents = all_operands[:count], all_operands[count : count + len(given)]
        found = bind_adjoint(
            launch, own, zeros, wanted, dict(zip(given, cotangents, strict=True)), differentiable=differentiable
        )
        gradients: Mapping[int, Any] = dict(zip(wanted, found, strict=True))
        starts = dict(zip(seeded, all_operands[count + len(given) :], strict=True))
        return [gradients[p] + starts[p] if p in starts else gradients[p] for p in wanted]

    return AdjointCall(run, [*operands, *added["cotangents"].values(), *added["seeds"].values()], wanted)


def _array(given: Argument, dtype: Any) -> Any:
    return jax.numpy.asarray(given.value, dtype) if given.origin == "number" else given.value
