"""Random kernels: reverse mode, forward mode, second order and finite differences agree, compiled or not.

Kernels that mix float32 and float64 are differentiated as they are, and again with float64 throughout; the second
is what differences are good enough for, and the first has to agree with it.

`JWARP_FUZZ=long` tries many more kernels, other ones each time; JWARP_FUZZ_SECONDS says for how long.
"""

from __future__ import annotations

import dataclasses
import os
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gradient_sources import INPUTS, OUTPUTS, Writer, arguments
from harness import VARIANTS, Compiled
from kernel_sources import load

from jwarp.autodiff.checkpoints import Storage
from jwarp.autodiff.derived_parameters import Derived
from jwarp.autodiff.forward import jvp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run
from jwarp.config import Settings
from jwarp.errors import KernelWarning, NotDifferentiableError
from jwarp.ir.attributes import Origin
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Const, Kernel, Operand, Value, written_params
from jwarp.ir.verify import verify
from jwarp.types import ArrayType, ScalarType, float32, float64

LONG = os.environ.get("JWARP_FUZZ") == "long"
SECONDS = float(os.environ.get("JWARP_FUZZ_SECONDS", "600"))
FIRST_SEEDS, GROUP_SIZE = (0, 1000, 2000, 4000), 3
STEP = 1e-6
CODE_EVERY = 6  # of the long profile's kernels, how many are compiled, as that takes longest: one of so many

Values = dict[int, Any]


DIMS = {1: [(1,), (5,), (19,)], 2: [(1, 1), (2, 5), (7, 3)]}


def read(seed: int, folder: Path) -> tuple[Writer, str, Kernel]:
    rng = random.Random(seed)
    writer = Writer(rng, mixed=rng.random() < 0.2)
    source = writer.source()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        return writer, source, load(source, folder).ir(Settings(max_unroll=random.Random(seed).choice([0, 4, 16])))


class Widened(Cloner):
    """Copies with float64 in the place of float32."""

    def fresh(self, value: Value) -> Value:
        self.known[value] = made = Value(wide(value.type), value.name)
        return made

    def operand(self, x: Operand) -> Operand:
        return Const(wide(x.type), x.value) if isinstance(x, Const) else super().operand(x)


def wide(type: ScalarType) -> ScalarType:
    return float64 if type is float32 else type


def widened(kernel: Kernel) -> Kernel:
    params = tuple(
        p if isinstance(p.type, ArrayType) else dataclasses.replace(p, type=wide(p.type)) for p in kernel.params
    )
    return dataclasses.replace(kernel, params=params, body=Widened().block(kernel.body))


class Launch:
    """One kernel with arguments. Runs it, and what is derived from it, in the interpreter."""

    def __init__(self, ir: Kernel, dims: tuple[int, ...], args: list, rng: np.random.Generator):
        self.ir, self.dims, self.args, self.rng = ir, dims, args, rng
        self.written = tuple(p for p in OUTPUTS if p in written_params(ir))

    def direction(self, params: tuple[int, ...]) -> Values:
        values = {p: self.rng.normal(size=np.shape(self.args[p])) for p in params}
        return {p: v if np.shape(v) else float(v) for p, v in values.items()}

    def outputs(self, args: list, trace: list | None = None) -> Values:
        arrays = [p for p, param in enumerate(self.ir.params) if param.is_array]
        return dict(zip(arrays, run(self.ir, self.dims, args, trace), strict=True))

    def operands(self, derived: Derived, given: Values) -> list:
        """What each parameter of a derived kernel is given: the values themselves, or zeros of their shape."""
        found, final = [], self.outputs(self.args)
        for slot, param in zip(derived.origins, derived.kernel.params, strict=True):
            value = self.args[slot.param]
            if slot.kind in ("primal", "work"):
                found.append(value)
            elif slot.kind == "final":
                found.append(final[slot.param])
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
    kinds = {p: "cotangent" if p in launch.written else "gradient" for p in INPUTS}
    others = {p: cotangents.get(p, np.zeros(np.shape(launch.args[p]))) for p in INPUTS}
    return {p: found.get(Origin(kind, p), others[p]) for p, kind in kinds.items()}


def check(seed: int, folder: Path) -> str:
    """Derive one kernel in all ways; what could be compared."""
    writer, source, ir = read(seed, folder)
    dims = random.Random(seed).choice(DIMS[writer.rank])
    args = arguments(seed, dims, writer.own)
    launch = Launch(widened(ir), dims, args, np.random.default_rng(seed))
    v, w = launch.direction(INPUTS), launch.direction(launch.written)
    jv, wj, reverse = both_modes(launch, v, w, 1e-10, source)
    check_slots(launch, wj, w, source)
    if not LONG or seed % CODE_EVERY == 0:
        check_code(launch, reverse, w, seed, source)
    if writer.mixed:
        check_mixed(Launch(ir, dims, args, launch.rng), v, w, (jv, wj), launch, source)
    slopes = Slopes(lambda step, trace: launch.outputs(moved(launch.args, v, step), trace))
    if not slopes.are_smooth:
        return "kink"
    for p in launch.written:
        slopes.compare(p, jv[p], source)
    return check_second(launch, reverse, w, source)


def both_modes(launch: Launch, v: Values, w: Values, accuracy: float, source: str) -> tuple[Values, Values, Derived]:
    """Tangents of all outputs, gradients of all inputs, which fit together, and the adjoint."""
    forward, reverse = jvp(launch.ir, INPUTS), vjp(launch.ir, INPUTS, launch.written)
    verify(forward.kernel)
    verify(reverse.kernel)
    tangents = launch.slots(forward, launch.run(forward.kernel, launch.operands(forward, v)))
    # An array that only gets sums without a tangent keeps that of its initial content.
    others = {p: v.get(p, np.zeros(np.shape(launch.args[p]))) for p in launch.written}
    jv = {p: tangents.get(Origin("tangent", p), other) for p, other in others.items()}
    wj = gradients(launch, reverse, launch.run(reverse.kernel, launch.operands(reverse, w)), w)
    scale = 1.0 + sum(np.abs(x).sum() for x in wj.values())
    assert np.isfinite(scale), source
    # <w, J v> = <J^T w, v>
    assert abs(dot(w, jv) - dot(wj, v)) <= accuracy * scale, source
    return jv, wj, reverse


def check_mixed(
    launch: Launch, v: Values, w: Values, expected: tuple[Values, Values], wide: Launch, source: str
) -> None:
    """With float32 where it is written, derivatives are the same but for rounding, on the same side of all kinks."""
    found = both_modes(launch, v, w, 1e-4, source)[:2]
    traces: list[list] = [[], []]
    for one, trace in zip((launch, wide), traces, strict=True):
        one.outputs(one.args, trace)
    if not same_branches(traces):
        return
    for x, y in zip(found, expected, strict=True):
        for p, value in y.items():
            bound = 1e-3 * (1.0 + np.abs(value).max(initial=0.0))
            np.testing.assert_allclose(x[p].reshape(np.shape(value)), value, rtol=1e-2, atol=bound, err_msg=source)


def check_slots(launch: Launch, expected: Values, w: Values, source: str) -> None:
    """The policy of fixed slots gives the same gradients, or refuses."""
    try:
        slots = vjp(launch.ir, INPUTS, launch.written, storage=Storage.CHECKPOINTS)
    except NotDifferentiableError:
        return
    verify(slots.kernel)
    found = gradients(launch, slots, launch.run(slots.kernel, launch.operands(slots, w)), w)
    for p, value in expected.items():
        np.testing.assert_allclose(found[p], value, rtol=1e-8, atol=1e-10, err_msg=source)


def check_code(launch: Launch, derived: Derived, w: Values, seed: int, source: str) -> None:
    """Compiled code gives what the interpreter gives."""
    variant = random.Random(seed).choice(VARIANTS)
    operands = launch.operands(derived, w)
    results = launch.run(derived.kernel, operands)
    if any(slot.kind == "final" for slot in derived.origins):
        # Functions are rounded otherwise in compiled code, and which value an atomic took is a question of bits.
        arrays = [p for p, param in enumerate(launch.ir.params) if param.is_array]
        final = dict(zip(arrays, Compiled(launch.ir, variant).run(launch.dims, launch.args), strict=True))
        pairs = zip(derived.origins, operands, strict=True)
        operands = [final[slot.param] if slot.kind == "final" else x for slot, x in pairs]
    found = Compiled(derived.kernel, variant).run(launch.dims, operands, threads=1 + seed % 2)
    for slot, x, y in zip(launch.slots(derived, results), found, results, strict=True):
        if slot.kind not in ("work", "final"):
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9, err_msg=f"{variant}, {slot}\n{source}")


def check_second(launch: Launch, reverse: Derived, w: Values, source: str) -> str:
    """The tangent of the adjoint, against differences of gradients."""
    moving = tuple(
        k for k, (slot, param) in enumerate(zip(reverse.origins, reverse.kernel.params, strict=True))
        if slot.kind in ("primal", "work", "cotangent") and param.dtype.is_float
    )  # fmt: skip
    inner = Launch(reverse.kernel, launch.dims, launch.operands(reverse, w), launch.rng)
    direction = inner.direction(moving)
    try:
        second = jvp(reverse.kernel, moving)
    except NotDifferentiableError:
        assert "wp.atomic_min(" in source or "wp.atomic_max(" in source
        return "first order"
    verify(second.kernel)
    tangents = inner.slots(second, inner.run(second.kernel, inner.operands(second, direction)))

    def gradients_at(step: float, trace: list) -> Values:
        operands = moved(inner.args, direction, step)
        args = list(launch.args)
        for slot, value in zip(reverse.origins, operands, strict=True):
            if slot.kind in ("primal", "work"):
                args[slot.param] = value
        final = launch.outputs(args)
        pairs = zip(reverse.origins, operands, strict=True)
        return inner.outputs([final[slot.param] if slot.kind == "final" else x for slot, x in pairs], trace)

    slopes = Slopes(gradients_at)
    if not slopes.are_smooth:
        return "first order"
    for k, slot in enumerate(reverse.origins):
        if slot.kind in ("gradient", "cotangent"):
            found = tangents.get(Origin("tangent", k), np.zeros_like(slopes.values[k]))
            slopes.compare(k, found, f"{slot}\n{source}")
    return "second order"


@pytest.mark.skipif(LONG, reason="the long profile runs instead")
@pytest.mark.parametrize("first", FIRST_SEEDS)
def test_random_kernels(first, tmp_path):
    reached = [check(first + k, tmp_path) for k in range(GROUP_SIZE)]
    assert "second order" in reached


@pytest.mark.skipif(not LONG, reason="JWARP_FUZZ=long is not set")
def test_many_random_kernels(tmp_path):
    first, end, count = random.SystemRandom().randrange(1 << 40), time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        try:
            check(first + count, tmp_path)
        except Exception as error:
            raise AssertionError(f"seed {first + count}") from error
        count += 1
    print(f"{count} kernels from seed {first}")
