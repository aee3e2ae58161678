"""Launches of random kernels, and of what is derived from them, in the interpreter; and differences of these."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gradient_sources import INPUTS

from jwarp.autodiff.derived_parameters import Derived
from jwarp.autodiff.forward import jvp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run
from jwarp.ir.attributes import Origin
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Const, Kernel, Operand, Value, written_params
from jwarp.types import ArrayType, ScalarType, float32, float64

STEP = 1e-6

Values = dict[int, Any]


class Widened(Cloner):
    """Copies with float64 in the place of float32."""

    def fresh(self, value: Value) -> Value:
        self.known[value] = made = Value(wide(value.type), value.name)
        return made

    def operand(self, x: Operand) -> Operand:
        return Const(wide(x.type), x.value) if isinstance(x, Const) else super().operand(x)

    def operands(self, xs: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(map(self.operand, xs))


def wide(type: ScalarType) -> ScalarType:
    return float64 if type is float32 else type


def widened(kernel: Kernel) -> Kernel:
    params = tuple(
        p if isinstance(p.type, ArrayType) else dataclasses.replace(p, type=wide(p.type)) for p in kernel.params
    )
    return dataclasses.replace(kernel, params=params, body=Widened().block(kernel.body))


class Launch:
    """One kernel with arguments. Runs it, and what is derived from it, in the interpreter."""

    def __init__(
        self, ir: Kernel, dims: tuple[int, ...], args: list, rng: np.random.Generator, inputs: Sequence[int] = INPUTS
    ):
        self.ir, self.dims, self.args, self.rng, self.inputs = ir, dims, args, rng, tuple(inputs)
        self.written = tuple(p for p in written_params(ir) if ir.params[p].dtype.is_float)

    def direction(self, params: tuple[int, ...]) -> Values:
        values = {p: self.rng.normal(size=np.shape(self.args[p])) for p in params}
        return {p: v if np.shape(v) else float(v) for p, v in values.items()}

    def outputs(self, args: list, trace: list | None = None) -> Values:
        arrays = [p for p, param in enumerate(self.ir.params) if param.is_array]
        return dict(zip(arrays, run(self.ir, self.dims, args, trace), strict=True))

    @functools.cached_property
    def final(self) -> Values:
        """The contents of arrays after the launch."""
        return self.outputs(self.args)

    def operands(self, derived: Derived, given: Values) -> list:
        """The operands of a derived kernel: the values themselves, or zeros of their shape."""
        found, final = [], self.final
        for slot, param in zip(derived.origins, derived.kernel.params, strict=True):
            value = self.args[slot.param]
            if slot.kind in ("primal", "work"):
                found.append(value)
            elif slot.kind == "final":
                found.append(final[slot.param])
            elif slot.kind == "claim":
                found.append(np.zeros(np.shape(value), param.dtype.dtype))
            elif slot.kind == "gradient":
                found.append(np.zeros(np.shape(value) or (1,), param.dtype.dtype))
            else:
                found.append(given.get(slot.param, np.zeros(np.shape(value))))
        return found

    def run(self, kernel: Kernel, operands: list, trace: list | None = None) -> list:
        return run(kernel, self.dims, operands, trace)

    def slots(self, derived: Derived, results: list) -> dict[Origin, np.ndarray]:
        arrays = [s for s, p in zip(derived.origins, derived.kernel.params, strict=True) if p.is_array]
        return dict(zip(arrays, results, strict=True))


def moved(args: list, direction: Values, step: float) -> list:
    return [a + step * direction[p] if p in direction else a for p, a in enumerate(args)]


def dot(x: Values, y: Values) -> float:
    return float(sum(np.sum(np.asarray(x[p]) * np.asarray(y[p]).reshape(np.shape(x[p]))) for p in x))


def same_branches(traces: list[list]) -> bool:
    first, *others = traces
    return all(len(t) == len(first) and all(map(np.array_equal, t, first)) for t in others)


class Slopes:
    """Central differences of what `function` gives for a step along some direction, and a trace of its branches.

    The bound on their error grows by how far they are from those with twice the step.
    """

    def __init__(self, function: Callable[[float, list], Values]):
        steps = (0.0, STEP, -STEP, 2 * STEP, -2 * STEP)
        traces: list[list] = [[] for _ in steps]
        at, up, down, far_up, far_down = (function(h, t) for h, t in zip(steps, traces, strict=True))
        self.are_smooth = same_branches(traces)
        self.values = {k: (up[k] - down[k]) / (2 * STEP) for k in at}
        self.bounds = {
            k: np.abs((far_up[k] - far_down[k]) / (4 * STEP) - slope)
            + 1e-6 * (1.0 + np.abs(slope).max(initial=0.0) + np.abs(at[k]).max(initial=0.0))
            for k, slope in self.values.items()
        }

    def compare(self, k: int, found: np.ndarray, text: str) -> None:
        error = np.abs(found - self.values[k]) - 1e-5 * np.abs(self.values[k]) - self.bounds[k]
        assert np.all(error <= 0), f"{found}, by differences {self.values[k]}\n{text}"


def gradients(launch: Launch, derived: Derived, results: list, cotangents: Values) -> Values:
    """The gradients of the inputs; an array that only gets sums has that of its final content."""
    found = launch.slots(derived, results)
    kinds = {p: "cotangent" if p in launch.written else "gradient" for p in launch.inputs}
    others = {p: cotangents.get(p, np.zeros(np.shape(launch.args[p]))) for p in launch.inputs}
    return {p: found.get(Origin(kind, p), others[p]) for p, kind in kinds.items()}


def check_derivatives(kernel: Kernel, dims: tuple[int, ...], args: list, inputs: Sequence[int], **options: Any) -> None:
    """Assert that jvp and vjp of a kernel in float64 fit differences and each other; `options` are those of vjp."""
    launch = Launch(kernel, dims, args, np.random.default_rng(7), inputs)
    v, w = launch.direction(launch.inputs), launch.direction(launch.written)
    forward, reverse = jvp(kernel, launch.inputs), vjp(kernel, launch.inputs, launch.written, **options)
    tangents = launch.slots(forward, launch.run(forward.kernel, launch.operands(forward, v)))
    jv = {p: tangents[Origin("tangent", p)] for p in launch.written}
    wj = gradients(launch, reverse, launch.run(reverse.kernel, launch.operands(reverse, w)), w)
    slopes = Slopes(lambda step, trace: launch.outputs(moved(launch.args, v, step), trace))
    assert slopes.are_smooth and any(np.abs(x).max() > 0.1 for x in jv.values())
    for p in launch.written:
        slopes.compare(p, jv[p], kernel.name)
    assert abs(dot(w, jv) - dot(wj, v)) <= 1e-10 * (1.0 + sum(np.abs(x).sum() for x in wj.values()))
