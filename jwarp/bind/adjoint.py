"""Adjoint launches on JAX values as functions of arrays: gradients from cotangents, made once for those alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from jwarp.bind import primitive
from jwarp.bind.calls import bind_adjoint
from jwarp.launching.descriptor import Descriptor

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Gradients:
    """The parameters whose gradients are `wanted`, the outputs whose cotangents are `given`, and the wanted gradients
    that are `added` to arrays.
    """

    wanted: tuple[int, ...]
    given: tuple[int, ...]
    added: tuple[int, ...]


def function(
    launch: Descriptor, zeros: Shapes, gradients: Gradients, *, differentiable: bool
) -> Callable[..., list[Any]]:
    """The function of the operands, cotangents and starts of the gradients, in this order; it gives the gradients."""
    count, split = len(launch.operands), len(launch.operands) + len(gradients.given)

    def run(*operands: Any) -> list[Any]:
        cotangents = dict(zip(gradients.given, operands[count:split], strict=True))
        starts = dict(zip(gradients.added, operands[split:], strict=True))
        found = bind_adjoint(
            launch, operands[:count], zeros, gradients.wanted, cotangents, differentiable=differentiable
        )
        return [x + starts[p] if p in starts else x for p, x in zip(gradients.wanted, found, strict=True)]

    # Shown by JAX's profiler and compile log.
    run.__name__ = launch.program.name
    return run


def compiled(
    launch: Descriptor, zeros: Shapes, gradients: Gradients, *, differentiable: bool
) -> Callable[..., list[Any]]:
    """The same, compiled: made once."""

    def make() -> Callable[..., list[Any]]:
        return primitive.reporting(jax.jit(function(launch, zeros, gradients, differentiable=differentiable)))

    return primitive.made_once(launch, zeros, (gradients, differentiable), make)
