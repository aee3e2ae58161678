"""A launch on JAX values, whatever its kernel is written in; a handwritten one has the gradient its author gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from jwarp.bind import compat, derivatives, primitive
from jwarp.bind.handwritten import handwritten_p, keywords_of, unbatched, with_keywords
from jwarp.bind.prepare import prepare
from jwarp.errors import KernelTypeError, LaunchError, NotDifferentiableError
from jwarp.frontend.cuda_kernel import Definition
from jwarp.frontend.kernel import Kernel
from jwarp.launching.arguments import Matched
from jwarp.launching.derive import switched_off
from jwarp.launching.descriptor import Descriptor, Program, program_of
from jwarp.launching.handwritten_adjoint import Slot, slots_of
from jwarp.wire import Role

Shapes = tuple[tuple[int, ...], ...]


def bind(
    operands: Sequence[Any],
    launch: Descriptor,
    zeros: Shapes,
    *,
    differentiable: bool = True,
    side_effect: bool = False,
) -> list[Any]:
    """One launch without batch axes; the results in order of the kernel's parameters."""
    if launch.program.handwritten is None:
        return primitive.bind(operands, launch, zeros, differentiable=differentiable, side_effect=side_effect)
    operands = compat.placed_alike(operands)
    shapes = [jnp.shape(x) for x in operands]
    return list(_Call(launch, zeros, shapes, differentiable, side_effect).function()(*operands))


def eager(
    launch: Descriptor, zeros: Shapes, *, differentiable: bool = True, side_effect: bool = False
) -> Callable[..., list[Any]]:
    """The function of concrete operands that `bind` runs, for who calls it again and again."""
    if launch.program.handwritten is None:
        return primitive.eager(launch, zeros, differentiable=differentiable, side_effect=side_effect)
    return primitive.reporting(primitive.jitted(handwritten_p, unbatched(launch, zeros, side_effect)))


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
    if launch.program.handwritten is None:
        return derivatives.bind_adjoint(
            launch, operands, zeros, tuple(wanted), dict(cotangents), differentiable=differentiable
        )
    given = dict(zip(launch.operands, operands, strict=True))

    def run(*moving: Any) -> list[Any]:
        values = {**given, **dict(zip(wanted, moving, strict=True))}
        return bind([values[p] for p in launch.operands], launch, zeros, differentiable=differentiable)

    results, pull = jax.vjp(run, *(given[p] for p in wanted))
    arriving = [
        cotangents[p] if p in cotangents else _zero_cotangent(x) for p, x in zip(launch.results, results, strict=True)
    ]
    return list(pull(arriving))


def _zero_cotangent(result: Any) -> Any:
    is_float = jnp.issubdtype(result.dtype, jnp.inexact)
    return jnp.zeros(result.shape, result.dtype) if is_float else np.zeros(result.shape, jax.dtypes.float0)


@jax.tree_util.register_static
@dataclass(frozen=True)
class _Moving:
    """The parameters that a gradient is asked for, among the values that are kept for it."""

    params: frozenset[int]


def _no_gradient(program: Program, p: int) -> NotDifferentiableError:
    name = program.params[p].name
    return NotDifferentiableError(
        f"kernel '{program.name}', parameter '{name}': a gradient was asked for, and the kernel's adjoint gives none",
        program.span,
        f"let it write 'adj_{name}' if it is a kernel, and return an array if it is a function; in the body of a "
        "jax.shard_map all gradients are asked for together",
    )


class _Call:
    """A launch of a handwritten kernel as a function that differentiates by its author's rule."""

    def __init__(
        self,
        launch: Descriptor,
        zeros: Shapes,
        shapes: Sequence[tuple[int, ...]],
        differentiable: bool,
        side_effect: bool,
    ):
        assert launch.program.handwritten is not None
        fresh = (p for p, role in enumerate(launch.roles) if role is Role.ZEROS)
        self.launch = launch
        self.shapes = dict(zip(launch.operands, shapes, strict=True)) | dict(zip(fresh, zeros, strict=True))
        self.definition: Definition = launch.program.handwritten
        self.differentiable = differentiable
        self.params = unbatched(launch, zeros, side_effect)

    def function(self) -> Callable[..., tuple[Any, ...]]:
        """The function of the operands; not one for `jax.jvp`, which JAX says itself."""

        @jax.custom_vjp
        def run(*operands: Any) -> tuple[Any, ...]:
            return self.run(operands)

        # JAX does not say in the body of a shard_map what a gradient is asked for.
        if jax.sharding.get_abstract_mesh().manual_axes:
            run.defvjp(self.forward_of_all, self.backward)
        else:
            run.defvjp(self.forward, self.backward, symbolic_zeros=True)
        return run

    def run(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(handwritten_p.bind(*operands, **self.params))

    def forward(self, *operands: Any) -> tuple[tuple[Any, ...], Any]:
        """The results, and what the gradients need of the values."""
        moving = [p for p, x in zip(self.launch.operands, operands, strict=True) if x.perturbed]
        return self.forward_by(moving, [x.value for x in operands])

    def forward_of_all(self, *values: Any) -> tuple[tuple[Any, ...], Any]:
        """The same, for gradients of every input."""
        moving = [p for p in self.launch.operands if self.launch.program.params[p].dtype.is_float]
        return self.forward_by(moving, values)

    def forward_by(self, moving: Sequence[int], values: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        self.refuse(moving)
        # Where another derivative is taken of this one, it takes the same rule.
        results = self.function()(*values)
        kept = self.kept
        inputs = {p: x for p, x in zip(self.launch.operands, values, strict=True) if ("input", p) in kept}
        outputs = {p: x for p, x in zip(self.launch.results, results, strict=True) if ("result", p) in kept}
        return results, (inputs, outputs, _Moving(frozenset(moving)))

    def refuse(self, moving: Sequence[int]) -> None:
        """Raise NotDifferentiableError where a gradient is asked for that there is no rule for."""
        program, adjoint = self.launch.program, self.definition.adjoint
        if not moving:
            return
        if not self.differentiable:
            raise switched_off(program, moving[0])
        name = program.params[moving[0]].name
        if adjoint is None:
            raise NotDifferentiableError(
                f"kernel '{program.name}', parameter '{name}': a gradient was asked for, and the kernel is written in "
                "CUDA C++ without an adjoint",
                program.span,
                "give adjoint= to wp.cuda_kernel: a kernel or a JAX function",
            )

    @property
    def kept(self) -> set[tuple[str, int]]:
        """What the adjoint reads of the launch's values."""
        adjoint = self.definition.adjoint
        if isinstance(adjoint, Kernel):
            return {(slot.kind, slot.param) for slot in slots_of(self.definition, adjoint)}
        kept = {("input", p) for p in self.definition.inputs}
        if adjoint is not None and "outputs" in keywords_of(adjoint):
            kept |= {("result", p) for p in self.launch.results}
        return kept

    def backward(self, residuals: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        """The gradient of each operand, None for those without."""
        inputs, outputs, moving = residuals
        arriving = {}
        for p, x in zip(self.launch.results, cotangents, strict=True):
            if self.launch.program.params[p].dtype.is_float:
                arriving[p] = jnp.zeros(x.shape, x.dtype) if isinstance(x, SymbolicZero) else x
        # What started as zeros was no operand.
        for p in set(self.definition.in_outs) - set(self.launch.operands):
            inputs = {**inputs, p: jnp.zeros(self.shapes[p], self.launch.program.dtypes[p])}
        adjoint = self.definition.adjoint
        assert adjoint is not None
        if isinstance(adjoint, Kernel):
            found = self.of_kernel(adjoint, inputs, outputs, arriving)
        else:
            found = self.of_function(adjoint, inputs, outputs, arriving)
        for p in sorted(moving.params):
            if found.get(p) is None:
                raise _no_gradient(self.launch.program, p)
        return tuple(found.get(p) for p in self.launch.operands)

    @property
    def dims(self) -> tuple[int, ...]:
        """The launch dimensions, as many as were given."""
        return self.launch.geometry.dims[: self.launch.program.kernel.tid_dims]

    def of_kernel(
        self, adjoint: Kernel, inputs: Mapping[int, Any], outputs: Mapping[int, Any], arriving: Mapping[int, Any]
    ) -> dict[int, Any]:
        """The gradients that another kernel computes, launched over the same dimensions."""
        slots = slots_of(self.definition, adjoint)
        values = [self.value(slot, inputs, outputs, arriving) for slot in slots]
        roles = tuple(_ROLES.get(slot.kind, Role.READ) for slot in slots)
        written = tuple(k for k, role in enumerate(roles) if role is not Role.READ)
        program = program_of(adjoint, self.launch.program.settings)
        made = prepare(program, self.dims, Matched(roles, tuple(values), written))
        results = bind(made.operands, made.launch, made.zeros, differentiable=adjoint.enable_backward)
        by_index = dict(zip(made.launch.results, results, strict=True))
        return {slots[k].param: by_index[k].reshape(self.shapes[slots[k].param]) for k in written}

    def value(
        self, slot: Slot, inputs: Mapping[int, Any], outputs: Mapping[int, Any], arriving: Mapping[int, Any]
    ) -> Any:
        """What the adjoint's parameter is given: an array, or the shape of one that starts as zeros."""
        p = slot.param
        if slot.kind == "gradient":
            return (1, *self.shapes[p]) if self.definition.params[p].is_value else self.shapes[p]
        return {"input": inputs, "result": outputs}.get(slot.kind, arriving)[p]

    def of_function(
        self, adjoint: Callable, inputs: Mapping[int, Any], outputs: Mapping[int, Any], arriving: Mapping[int, Any]
    ) -> dict[int, Any]:
        """The gradients that a JAX function computes: one for each input, or each of floats."""
        program, params = self.launch.program, self.definition.inputs
        results = tuple(outputs.get(p) for p in self.launch.results)
        call = with_keywords(adjoint, dim=self.dims, outputs=results)
        found = call(*(inputs[p] for p in params), *arriving.values())
        found = found if isinstance(found, (tuple, list)) else (found,)
        floats = [p for p in params if program.params[p].dtype.is_float]
        if len(found) not in (len(params), len(floats)):
            names = ", ".join(program.params[p].name for p in params)
            raise LaunchError(
                f"kernel '{program.name}': its adjoint returned {len(found)} gradients, and there are {len(params)} "
                f"inputs ({names})",
                program.span,
                "return one for each input, None for those without",
            )
        pairs = zip(params if len(found) == len(params) else floats, found, strict=True)
        return {p: self.checked(p, x) for p, x in pairs if p in floats}

    def checked(self, p: int, gradient: Any) -> Any:
        """A gradient from the author's function, if it may be one."""
        if gradient is None:
            return None
        program = self.launch.program
        expected = (self.shapes[p], program.dtypes[p])
        got = (jnp.shape(gradient), jnp.result_type(gradient))
        if got != expected:
            raise KernelTypeError(
                f"kernel '{program.name}': its adjoint returned {got[1]}{list(got[0])} for '{program.params[p].name}', "
                f"expected {expected[1]}{list(expected[0])}",
                program.span,
            )
        return jnp.asarray(gradient)


# Other parameters of an adjoint are read.
_ROLES = {"gradient": Role.ZEROS, "changed": Role.IN_OUT}
