"""Launches and adjoint launches on JAX values: new arrays come back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from jwarp.bind import adjoint, compat, values
from jwarp.bind.calls import bind, eager
from jwarp.bind.prepare import prepare
from jwarp.bind.primitive import is_fixed
from jwarp.bind.sharding import cut_launch
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.checks import Convert, converter
from jwarp.dispatch.executables.table import Plan, Ready, places_of_gradients
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Argument


class Forward(Ready):
    """A launch: its results are in order of the parameters."""

    _has_run = False

    def __init__(self, call: Call):
        super().__init__(call)
        program, threads = call.program.arranged(call.dims, call.block_dim)
        made = prepare(program, threads, call.matched, call.block_dim)
        self.launch, self.operands, self.zeros = made.launch, made.operands, made.zeros
        if call.sharding_rule is not None:
            self.launch = cut_launch(made.launch, call.sharding_rule)
        self.order = made.launch.results
        # Where each operand is among the values of a plan.
        self.places = made.launch.operands
        # Values that come back unchanged: numbers in structs of arrays.
        own = {p for u in call.given.outputs for p in call.kernel.groups[u]}
        self.kept = own.difference(call.matched.outputs)

    @functools.cached_property
    def _is_traced(self) -> bool:
        """True if JAX traces it, which stays so: a change to a traced value makes another one."""
        return any(isinstance(x, compat.Tracer) for x in self.operands)

    @property
    def is_empty(self) -> bool:
        """True if it computes nothing that anyone could see."""
        return not self.order and not self.call.program.lasts

    @property
    def _options(self) -> dict[str, bool]:
        call = self.call
        return {"differentiable": call.differentiable, "side_effect": call.side_effect or call.program.lasts}

    @functools.cached_property
    def compiled(self) -> Callable[..., Sequence[Any]]:
        """The function of concrete operands."""
        return _nothing if self.is_empty else eager(self.launch, self.zeros, **self._options)

    def traced(self) -> Sequence[Any]:
        """The results as JAX traces them, or as it runs a launch by itself."""
        return [] if self.is_empty else bind(self.operands, self.launch, self.zeros, **self._options)

    def __call__(self, stream: Any = None) -> Any:
        # The first time the primitive compiles itself, which is a look-up less for what runs once.
        is_again, self._has_run = self._has_run, True
        found = self.compiled(*self.operands) if is_again and not self._is_traced else self.traced()
        return self.call.results(dict(zip(self.order, found, strict=True)))

    def change(self, given: Mapping[int, Any]) -> bool:
        changed = list(self.operands)
        for p, value in given.items():
            operand = self._another(p, value)
            if operand is None:
                return False
            changed[self.launch.operands.index(p)] = operand
        self.operands = changed
        return True

    def _another(self, p: int, value: Any) -> Any:
        """The operand for another value of a parameter; None where that makes another launch."""
        param, outputs = self.launch.program.params[p], self.call.matched.outputs
        given = values.describe(value, param)
        if p not in self.launch.operands or p in self.kept or isinstance(value, compat.Tracer):
            return None
        if p in outputs and given.origin != "jax":
            return None  # a shape, or an array to write to: another kind of output
        before = self.operands[self.launch.operands.index(p)]
        if param.is_array and (given.shape, given.dtype) != (before.shape, before.dtype):
            return None
        return values.to_operand(param, given)

    def executable(self, values: Sequence[Any]) -> Plan | None:
        if not self.order or not is_fixed(self.launch, self.zeros) or max(self.places, default=0) >= len(values):
            return None
        feeds: list[tuple[int, Convert | None]] = []
        for k, (place, operand) in enumerate(zip(self.places, self.operands, strict=True)):
            if operand is values[place]:
                feeds.append((place, None))
                continue
            own = k < len(self.launch.operands)
            convert = converter(self.launch.program.params[place], type(values[place])) if own else None
            if convert is None:
                return None
            feeds.append((place, convert))
        returned = self.call.matched.outputs if self.call.request is None else self.order
        return Plan(self.compiled, tuple(feeds), tuple(map(self.order.index, returned)), self.call.names)


class Adjoint(Forward):
    """The adjoint of a launch: its results are the gradients that are wanted, in order.

    Its operands are the launch's own, then the cotangents, then what gradients are added to.
    """

    _has_run = True  # it is compiled as a whole from the first time on

    def __init__(self, call: Call):
        super().__init__(call)
        request = call.gradients
        cotangents = {p: x for p, x in (request.cotangents or {}).items() if x is not None}
        seeds = {p: x for p, x in request.wanted.items() if x is not True}
        given = self._read(cotangents, seeds)
        self.order = tuple(request.wanted)
        self._variant = adjoint.Gradients(self.order, tuple(cotangents), tuple(seeds))
        first, then = places_of_gradients(call)
        self.places = (*self.launch.operands, *(first[p] for p in cotangents), *(then[p] for p in seeds))
        self.operands = [*self.operands, *given]

    @functools.cached_property
    def compiled(self) -> Callable[..., Sequence[Any]]:
        return adjoint.compiled(self.launch, self.zeros, self._variant, differentiable=self.call.differentiable)

    def traced(self) -> Sequence[Any]:
        run = adjoint.function(self.launch, self.zeros, self._variant, differentiable=self.call.differentiable)
        return run(*self.operands)

    def _read(self, *gradients: Mapping[int, Any]) -> list[Any]:
        """The arrays that are given as gradients of parameters.

        Raises:
            KernelTypeError, LaunchError: some do not fit.
        """
        program = self.launch.program
        extents = self.launch.extents([jnp.shape(x) for x in self.operands], self.zeros)
        found, faults = [], []
        for p, x in (entry for entries in gradients for entry in entries.items()):
            given, param = values.describe(x), program.params[p]
            fault = arguments.check_gradient(f"adjoint of '{param.name}'", param, extents[p] or (), given)
            found.append(_array(given, param)) if fault is None else faults.append(fault)
        arguments.raise_faults(program.name, faults)
        return found


def _array(given: Argument, param: Param) -> Any:
    return jnp.asarray(given.value, param.dtype.dtype) if given.origin == "number" else given.value


def _nothing(*_: Any) -> list[Any]:
    return []
