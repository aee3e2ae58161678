"""A launch on JAX values, whatever its kernel is written in: bound, called eagerly, and differentiated."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.bind import compat, derivatives, primitive
from jwarp.bind.author_gradient import HandwrittenCall
from jwarp.bind.handwritten import handwritten_p, unbatched
from jwarp.bind.primitive import Shapes
from jwarp.compiler.handwritten_program import HandwrittenProgram
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.program_base import Program
from jwarp.launching.descriptor import Descriptor


class _Rules(abc.ABC):
    """How launches of one kind of program reach JAX; the functions below say what each does."""

    @staticmethod
    @abc.abstractmethod
    def bind(
        operands: Sequence[Any], launch: Any, zeros: Shapes, *, differentiable: bool, side_effect: bool
    ) -> list[Any]: ...

    @staticmethod
    @abc.abstractmethod
    def eager(launch: Any, zeros: Shapes, *, differentiable: bool, side_effect: bool) -> Callable[..., list[Any]]: ...

    @staticmethod
    @abc.abstractmethod
    def bind_adjoint(
        launch: Any,
        operands: Sequence[Any],
        zeros: Shapes,
        wanted: Sequence[int],
        cotangents: Mapping[int, Any],
        *,
        differentiable: bool,
    ) -> list[Any]: ...


class _Generated(_Rules):
    """jwarp's own derivatives."""

    bind = staticmethod(primitive.bind)
    eager = staticmethod(primitive.eager)
    bind_adjoint = staticmethod(derivatives.bind_adjoint)


class _Handwritten(_Rules):
    """The gradient that its author gives."""

    @staticmethod
    def bind(
        operands: Sequence[Any],
        launch: Descriptor[HandwrittenProgram],
        zeros: Shapes,
        *,
        differentiable: bool,
        side_effect: bool,
    ) -> list[Any]:
        operands = compat.placed_alike(operands)
        shapes = [jnp.shape(x) for x in operands]
        call = HandwrittenCall(launch, zeros, shapes, bind, differentiable=differentiable, side_effect=side_effect)
        return list(call.function()(*operands))

    @staticmethod
    def eager(
        launch: Descriptor[HandwrittenProgram], zeros: Shapes, *, differentiable: bool, side_effect: bool
    ) -> Callable[..., list[Any]]:
        return primitive.reporting(primitive.jitted(handwritten_p, unbatched(launch, zeros, side_effect)))

    @staticmethod
    def bind_adjoint(
        launch: Descriptor[HandwrittenProgram],
        operands: Sequence[Any],
        zeros: Shapes,
        wanted: Sequence[int],
        cotangents: Mapping[int, Any],
        *,
        differentiable: bool,
    ) -> list[Any]:
        given = dict(zip(launch.operands, operands, strict=True))

        def run(*moving: Any) -> list[Any]:
            values = {**given, **dict(zip(wanted, moving, strict=True))}
            return bind([values[p] for p in launch.operands], launch, zeros, differentiable=differentiable)

        results, pull = jax.vjp(run, *(given[p] for p in wanted))
        pairs = zip(launch.results, results, strict=True)
        return list(pull([cotangents[p] if p in cotangents else _zero_cotangent(x) for p, x in pairs]))


_RULES: Mapping[type[Program], type[_Rules]] = {GeneratedProgram: _Generated, HandwrittenProgram: _Handwritten}


def bind(
    operands: Sequence[Any],
    launch: Descriptor,
    zeros: Shapes,
    *,
    differentiable: bool = True,
    side_effect: bool = False,
) -> list[Any]:
    """One launch without batch axes; the results in order of the kernel's parameters."""
    rules = _RULES[type(launch.program)]
    return rules.bind(operands, launch, zeros, differentiable=differentiable, side_effect=side_effect)


def eager(
    launch: Descriptor, zeros: Shapes, *, differentiable: bool = True, side_effect: bool = False
) -> Callable[..., list[Any]]:
    """The function of concrete operands that `bind` runs, for who calls it again and again."""
    rules = _RULES[type(launch.program)]
    return rules.eager(launch, zeros, differentiable=differentiable, side_effect=side_effect)


def bind_adjoint(
    launch: Descriptor,
    operands: Sequence[Any],
    zeros: Shapes,
    wanted: Sequence[int],
    cotangents: Mapping[int, Any],
    *,
    differentiable: bool,
) -> list[Any]:
    """The gradients of the `wanted` parameters, from cotangents by parameter."""
    rules = _RULES[type(launch.program)]
    return rules.bind_adjoint(launch, operands, zeros, wanted, cotangents, differentiable=differentiable)


def _zero_cotangent(result: Any) -> Any:
    is_float = jnp.issubdtype(result.dtype, jnp.inexact)
    return jnp.zeros(result.shape, result.dtype) if is_float else np.zeros(result.shape, jax.dtypes.float0)
