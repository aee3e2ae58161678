"""Random kernels: reverse mode, forward mode, second order and finite differences agree, compiled or not.

`JWARP_FUZZ=long` tries many more kernels, other ones each time; JWARP_FUZZ_SECONDS says for how long.
"""

from __future__ import annotations

import os
import random
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gradient_sources import INPUTS, OUTPUTS, Writer, arguments
from harness import VARIANTS, Compiled
from test_fuzz_kernels import load

from jwarp.backend.interpreter import run
from jwarp.config import Settings
from jwarp.errors import KernelWarning, NotDifferentiableError
from jwarp.ir.nodes import Kernel, written_params
from jwarp.ir.verify import verify
from jwarp.transform.jvp import jvp
from jwarp.transform.slots import Derived, Slot
from jwarp.transform.vjp import vjp

LONG = os.environ.get("JWARP_FUZZ") == "long"
SECONDS = float(os.environ.get("JWARP_FUZZ_SECONDS", "600"))
GROUPS, GROUP_SIZE = 4, 3
STEP = 1e-6

Values = dict[int, Any]


def read(seed: int, folder: Path) -> tuple[str, Kernel]:
    source = Writer(random.Random(seed)).source()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        return source, load(source, folder).ir(Settings(max_unroll=random.Random(seed).choice([0, 4, 16])))


class Launch:
    """One kernel with arguments. Runs it, and what is derived from it, in the interpreter."""

    def __init__(self, ir: Kernel, seed: int):
        self.ir = ir
        self.threads = random.Random(seed).choice([1, 5, 19])
        self.args = arguments(seed, self.threads)
        self.rng = np.random.default_rng(seed)
        self.written = tuple(p for p in OUTPUTS if p in written_params(ir))

    def direction(self, params: tuple[int, ...]) -> Values:
        values = {p: self.rng.normal(size=np.shape(self.args[p])) for p in params}
        return {p: v if np.shape(v) else float(v) for p, v in values.items()}

    def outputs(self, args: list, trace: list | None = None) -> Values:
        arrays = [p for p, param in enumerate(self.ir.params) if param.is_array]
        return dict(zip(arrays, run(self.ir, (self.threads,), args, trace), strict=True))

    def operands(self, derived: Derived, given: Values) -> list:
        """What each parameter of a derived kernel is given: the values themselves, or zeros of their shape."""
        found = []
        for slot in derived.slots:
            value = self.args[slot.param]
            if slot.kind in ("primal", "work"):
                found.append(value)
            elif slot.kind == "gradient":
                found.append(np.zeros(np.shape(value) or (1,)))
            else:
                found.append(given.get(slot.param, np.zeros(np.shape(value))))
        return found

    def run(self, kernel: Kernel, operands: list, trace: list | None = None) -> list:
        return run(kernel, (self.threads,), operands, trace)

    def slots(self, derived: Derived, results: list) -> dict[Slot, np.ndarray]:
        arrays = [s for s, p in zip(derived.slots, derived.kernel.params, strict=True) if p.is_array]
        return dict(zip(arrays, results, strict=True))


def moved(args: list, direction: Values, step: float) -> list:
    return [a + step * direction[p] if p in direction else a for p, a in enumerate(args)]


def dot(x: Values, y: Values) -> float:
    return float(sum(np.sum(np.asarray(x[p]) * np.asarray(y[p]).reshape(np.shape(x[p]))) for p in x))


def same_branches(traces: list[list]) -> bool:
    first, *others = traces
    return all(len(t) == len(first) and all(map(np.array_equal, t, first)) for t in others)


def gradients(launch: Launch, derived: Derived, results: list, cotangents: Values) -> Values:
    """The gradients of the inputs; an array that only gets sums has that of its final content."""
    found = launch.slots(derived, results)
    kinds = {p: "cotangent" if p in launch.written else "gradient" for p in INPUTS}
    others = {p: cotangents.get(p, np.zeros(np.shape(launch.args[p]))) for p in INPUTS}
    return {p: found.get(Slot(kind, p), others[p]) for p, kind in kinds.items()}


def check(seed: int, folder: Path) -> str:
    """Derive one kernel in all ways; what could be compared."""
    source, ir = read(seed, folder)
    launch = Launch(ir, seed)
    v, w = launch.direction(INPUTS), launch.direction(launch.written)
    forward, reverse = jvp(ir, INPUTS), vjp(ir, INPUTS, launch.written)
    verify(forward.kernel)
    verify(reverse.kernel)
    tangents = launch.slots(forward, launch.run(forward.kernel, launch.operands(forward, v)))
    # An array that only gets sums without a tangent keeps that of its initial content.
    others = {p: v.get(p, np.zeros(np.shape(launch.args[p]))) for p in launch.written}
    jv = {p: tangents.get(Slot("tangent", p), other) for p, other in others.items()}
    operands = launch.operands(reverse, w)
    results = launch.run(reverse.kernel, operands)
    wj = gradients(launch, reverse, results, w)
    scale = 1.0 + sum(np.abs(x).sum() for x in wj.values())
    assert np.isfinite(scale), source
    # <w, J v> = <J^T w, v>, for each input on its own.
    assert abs(dot(w, jv) - dot(wj, v)) <= 1e-10 * scale, source
    check_slots(launch, wj, w, source)
    check_code(launch, reverse, operands, results, seed, source)
    traces: list[list] = [[], [], []]
    ends = [launch.outputs(moved(launch.args, v, h), t) for h, t in zip((STEP, -STEP, 0.0), traces, strict=True)]
    if not same_branches(traces):
        return "kink"
    difference = {p: (ends[0][p] - ends[1][p]) / (2 * STEP) for p in launch.written}
    for p in launch.written:
        bound = 1e-6 * (1.0 + np.abs(difference[p]).max(initial=0.0))
        np.testing.assert_allclose(jv[p], difference[p], rtol=1e-5, atol=bound, err_msg=source)
    return check_second(launch, reverse, operands, source)


def check_slots(launch: Launch, expected: Values, w: Values, source: str) -> None:
    """The policy of fixed slots gives the same gradients, or refuses."""
    try:
        slots = vjp(launch.ir, INPUTS, launch.written, policy="slots")
    except NotDifferentiableError:
        return
    verify(slots.kernel)
    found = gradients(launch, slots, launch.run(slots.kernel, launch.operands(slots, w)), w)
    for p, value in expected.items():
        np.testing.assert_allclose(found[p], value, rtol=1e-9, atol=1e-11, err_msg=source)


def check_code(launch: Launch, derived: Derived, operands: list, results: list, seed: int, source: str) -> None:
    """Compiled code gives what the interpreter gives."""
    variant = random.Random(seed).choice(VARIANTS)
    found = Compiled(derived.kernel, variant).run((launch.threads,), operands, threads=1 + seed % 2)
    for slot, x, y in zip(launch.slots(derived, results), found, results, strict=True):
        if slot.kind != "work":
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9, err_msg=f"{variant}, {slot}\n{source}")


def check_second(launch: Launch, reverse: Derived, operands: list, source: str) -> str:
    """The tangent of the adjoint, against differences of gradients."""
    moving = tuple(
        k for k, (slot, param) in enumerate(zip(reverse.slots, reverse.kernel.params, strict=True))
        if slot.kind in ("primal", "work", "cotangent") and param.dtype.is_float
    )  # fmt: skip
    inner = Launch(reverse.kernel, 0)
    inner.threads, inner.args, inner.rng = launch.threads, operands, launch.rng
    direction = inner.direction(moving)
    second = jvp(reverse.kernel, moving)
    verify(second.kernel)
    tangents = inner.slots(second, inner.run(second.kernel, inner.operands(second, direction)))
    traces: list[list] = [[], [], []]
    ends = [inner.outputs(moved(operands, direction, h), t) for h, t in zip((STEP, -STEP, 0.0), traces, strict=True)]
    if not same_branches(traces):
        return "first order"
    for k, slot in enumerate(reverse.slots):
        if slot.kind not in ("gradient", "cotangent"):
            continue
        difference = (ends[0][k] - ends[1][k]) / (2 * STEP)
        found = tangents.get(Slot("tangent", k), np.zeros_like(difference))
        bound = 1e-6 * (1.0 + np.abs(difference).max(initial=0.0) + np.abs(ends[2][k]).max(initial=0.0))
        np.testing.assert_allclose(found, difference, rtol=1e-5, atol=bound, err_msg=f"{slot}\n{source}")
    return "second order"


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_kernels(group, tmp_path):
    reached = [check(1000 * group + k, tmp_path) for k in range(GROUP_SIZE)]
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
