"""The gradient of a launch of a handwritten kernel: the rule that its author gives, as JAX takes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from jwarp.bind.handwritten import Launch, dims_of, handwritten_p, keywords_of, unbatched, with_keywords
from jwarp.bind.prepare import prepare
from jwarp.bind.primitive import Shapes
from jwarp.compiler.derive import switched_off
from jwarp.compiler.program import program_of
from jwarp.compiler.program_base import Program
from jwarp.errors import KernelTypeError, LaunchError, NotDifferentiableError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching.arguments import Matched
from jwarp.launching.handwritten_adjoint import AdjointParameter, parameters_of
from jwarp.wire import Role

# How a launch on JAX values is bound, whatever its kernel is written in.
Bind = Callable[..., list[Any]]


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


class HandwrittenCall:
    """A launch of a handwritten kernel as a function that differentiates by its author's rule.

    `bind` launches the adjoint, where that is a kernel.
    """

    def __init__(
        self,
        launch: Launch,
        zeros: Shapes,
        shapes: Sequence[tuple[int, ...]],
        bind: Bind,
        *,
        differentiable: bool,
        side_effect: bool,
    ):
        fresh = (p for p, role in enumerate(launch.roles) if role is Role.ZEROS)
        self.launch = launch
        self.shapes = dict(zip(launch.operands, shapes, strict=True)) | dict(zip(fresh, zeros, strict=True))
        self.definition = launch.program.definition
        self.bind = bind
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
        """The values of the launch that the adjoint reads."""
        adjoint = self.definition.adjoint
        if isinstance(adjoint, Kernel):
            return {(known.kind, known.param) for known in parameters_of(self.definition, adjoint)}
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
        # An array that started as zeros was no operand.
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

    def of_kernel(
        self, adjoint: Kernel, inputs: Mapping[int, Any], outputs: Mapping[int, Any], arriving: Mapping[int, Any]
    ) -> dict[int, Any]:
        """The gradients that another kernel computes, launched over the same dimensions."""
        params = parameters_of(self.definition, adjoint)
        values = [self.value(param, inputs, outputs, arriving) for param in params]
        roles = tuple(_ROLES.get(param.kind, Role.READ) for param in params)
        written = tuple(k for k, role in enumerate(roles) if role is not Role.READ)
        program = program_of(adjoint, self.launch.program.settings)
        program, threads = program.arranged(dims_of(self.launch), None)
        made = prepare(program, threads, Matched(roles, tuple(values), written))
        results = self.bind(made.operands, made.launch, made.zeros, differentiable=adjoint.enable_backward)
        by_index = dict(zip(made.launch.results, results, strict=True))
        return {params[k].param: by_index[k].reshape(self.shapes[params[k].param]) for k in written}

    def value(
        self,
        param: AdjointParameter,
        inputs: Mapping[int, Any],
        outputs: Mapping[int, Any],
        arriving: Mapping[int, Any],
    ) -> Any:
        """The argument for a parameter of the adjoint: an array, or the shape of one that starts as zeros."""
        p = param.param
        if param.kind == "gradient":
            return (1, *self.shapes[p]) if self.definition.params[p].is_value else self.shapes[p]
        return {"input": inputs, "result": outputs}.get(param.kind, arriving)[p]

    def of_function(
        self, adjoint: Callable, inputs: Mapping[int, Any], outputs: Mapping[int, Any], arriving: Mapping[int, Any]
    ) -> dict[int, Any]:
        """The gradients that a JAX function computes: one for each input, or each of floats."""
        program, params = self.launch.program, self.definition.inputs
        results = tuple(outputs.get(p) for p in self.launch.results)
        call = with_keywords(adjoint, dim=dims_of(self.launch), outputs=results)
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
