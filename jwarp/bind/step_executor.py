"""The executor of steps on JAX values: a list of steps as launches of a program that JAX traces or runs."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Mapping
from typing import Any, NamedTuple, assert_never

import jax.numpy as jnp
import numpy as np

from jwarp.bind.primitive import Shapes, launch_primitive
from jwarp.launching.batch import Batch, Mask
from jwarp.launching.descriptor import Descriptor
from jwarp.launching.steps import Add, Allocate, Copy, Launch, Slot, Steps
from jwarp.types.arrays import Extents
from jwarp.wire import Role


class Arranged(NamedTuple):
    """A launch of the steps for operands of some batch axes; `zeros` are the shapes of outputs that start so."""

    launch: Descriptor
    batch: Batch
    zeros: Shapes


class StepExecutor:
    """Runs steps for `wanted` gradients of parameters of some `extents`, each with the batch axes of its mask.

    With `is_cut`, XLA may cut the launches for several devices.
    """

    def __init__(self, steps: Steps, wanted: Mapping[int, Mask], extents: Extents, batch: Batch, *, is_cut: bool):
        self.steps, self.wanted, self.extents, self.batch, self.is_cut = steps, wanted, extents, batch, is_cut
        self._targets = {step.source: step.target for step in steps.steps if isinstance(step, Add)}

    def __call__(self, given: Mapping[Slot, tuple[Any, Mask]]) -> dict[int, Any]:
        """The gradients that steps add to; `given` has values with their batch axes."""
        values, parts = dict(given), dict[int, list[Any]]()
        for step in self.steps.steps:
            if isinstance(step, Allocate):
                if step.value is not None:
                    values[step.slot] = _filled(step), self.batch.nothing
            elif isinstance(step, Copy):
                values[step.target] = values[step.source]
            elif isinstance(step, Launch):
                self._launch(step, values)
            elif isinstance(step, Add):
                p = step.target.param
                mask = self.wanted[p]
                x = _fitted(values[step.source], mask, self.batch)
                # The gradient of a number is an array of one element.
                parts.setdefault(p, []).append(jnp.reshape(x, (*self.batch.shape(mask), *(self.extents[p] or ()))))
            else:
                assert_never(step)
        return {p: functools.reduce(operator.add, of) for p, of in parts.items()}

    def _launch(self, step: Launch, values: dict[Slot, tuple[Any, Mask]]) -> None:
        made = self.arranged(step, {slot: mask for slot, (_, mask) in values.items()})
        slots = [step.slots[k] for k in made.launch.operands]
        operands = [
            _fitted(values[slot], mask, self.batch) for slot, mask in zip(slots, made.batch.operands, strict=True)
        ]
        results = launch_primitive(made.launch).bind(
            *operands, launch=made.launch, zeros=made.zeros, batch=made.batch, differentiable=False, side_effect=False
        )
        for slot, x, mask in zip(step.written, results, made.batch.results, strict=True):
            values[slot] = x, mask

    def launches(self, given: Mapping[Slot, Mask]) -> list[tuple[Launch, Arranged]]:
        """The launches of the steps for operands of these batch axes."""
        masks, found = dict(given), []
        for step in self.steps.steps:
            if isinstance(step, Allocate):
                masks[step.slot] = self.batch.nothing
            elif isinstance(step, Copy):
                masks[step.target] = masks[step.source]
            elif isinstance(step, Launch):
                found.append((step, made := self.arranged(step, masks)))
                masks.update(zip(step.written, made.batch.results, strict=True))
            elif isinstance(step, Add):
                pass  # a gradient has the batch axes that are wanted
            else:
                assert_never(step)
        return found

    def arranged(self, step: Launch, masks: Mapping[Slot, Mask]) -> Arranged:
        """A launch for slots of these batch axes."""
        batch, roles = self.batch, step.launch.roles
        operands = [batch.all if roles[k] is Role.IN_OUT else masks[step.slots[k]] for k in step.launch.operands]
        results = []
        for k in step.launch.results:
            target = self._targets.get(step.slots[k]) if k in step.sums else None
            results.append(batch.all if target is None else self.wanted[target.param])
        zeros = tuple(shape for role, shape in zip(roles, step.shapes, strict=True) if role is Role.ZEROS)
        launch = dataclasses.replace(step.launch, is_cut=True) if self.is_cut else step.launch
        return Arranged(launch, Batch(batch.extents, tuple(operands), tuple(results)), zeros)


def _filled(step: Allocate) -> Any:
    return jnp.zeros(step.shape, step.dtype) if step.value == 0 else np.full(step.shape, step.value, step.dtype)


def _fitted(given: tuple[Any, Mask], wanted: Mask, batch: Batch) -> Any:
    """A value with the batch axes of `wanted`: summed over the others, repeated along those that it lacks."""
    x, own = given
    if own == wanted:
        return x
    extra = tuple(sum(own[:k]) for k in range(len(own)) if own[k] and not wanted[k])
    x, own = jnp.sum(x, extra, dtype=x.dtype) if extra else x, tuple(a and b for a, b in zip(own, wanted, strict=True))
    inside = jnp.shape(x)[sum(own) :]
    missing = [sum(wanted[:k]) for k in range(len(wanted)) if wanted[k] and not own[k]]
    return jnp.broadcast_to(jnp.expand_dims(x, missing), (*batch.shape(wanted), *inside))
