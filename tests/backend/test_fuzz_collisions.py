"""Random kernels whose threads meet: they store to elements of each other, and take numbers of counters.

The interpreter notes each store: who made it, and what value; differences of two such runs say how that value changes.
Of an element, the derivative must be that of a value which is there, and which its thread has not overwritten.

`JWARP_FUZZ=long` tries many more kernels, other ones each time; JWARP_FUZZ_SECONDS says for how long.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from collision_sources import INPUTS, NAMES, TOLD, UNTOLD, Writer, arguments
from compiled_variants import VARIANTS, Compiled
from derived_launches import STEP, Launch, Values, gradients, moved, same_branches
from fuzz_profiles import ALL, LONG, check_seeds
from kernel_sources import load

from jwarp.autodiff.checkpoints import Storage
from jwarp.autodiff.derived_parameters import Derived
from jwarp.autodiff.forward import jvp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter import machine
from jwarp.config import Settings
from jwarp.errors import KernelWarning, NotDifferentiableError
from jwarp.ir.attributes import Origin
from jwarp.ir.nodes import Kernel
from jwarp.ir.verify import verify

COUNT, GROUPS = 100 if ALL else 50, 1  # of the short profile
SMALL, COUNTING = 0.9, 0.4  # of kernels, how many are short, and how many have counters
CODE_EVERY, SLOTS_EVERY, SECOND_EVERY = 50, 5, 10  # of how many one is compiled, and so on
DIMS = {1: [(1,), (5,), (13,)], 2: [(1, 1), (2, 3), (4, 3)]}
MOST_CHOICES = 512

# Of each element of an array, by thread: the place among all stores, and the value.
Stores = dict[int, dict[int, dict[int, tuple[int, float]]]]


@contextlib.contextmanager
def noted() -> Iterator[tuple[Stores, list[float]]]:
    """Record the last store to each element of the arrays that are only stored to, and all values in order."""
    stores: Stores = {p: {} for p in (*TOLD, UNTOLD)}
    values: list[float] = []
    rules = dict(machine._STATE_RULES)

    def noting(name):
        def rule(interpreter, array, args, active):
            if array in stores and interpreter.kernel.array(array).name == NAMES[array]:
                there, element = interpreter.inside(array, args[:-1], active)
                flat = np.ravel_multi_index(element, interpreter.data[array].shape)
                given = np.broadcast_to(args[-1], active.shape)[there]
                threads = np.broadcast_to(interpreter.thread(None, (), active), active.shape)[there]
                for thread, place, value in zip(threads, flat, given, strict=True):
                    stores[array].setdefault(int(place), {})[int(thread)] = (len(values), float(value))
                    values.append(float(value))
            return rules[name](interpreter, array, args, active)

        return rule

    machine._STATE_RULES.update({name: noting(name) for name in ("store", "atomic_exch")})
    try:
        yield stores, values
    finally:
        machine._STATE_RULES.update(rules)


class Truth:
    """The bounds of the derivative in direction `v`, by differences of the stores and of other outputs."""

    def __init__(self, launch: Launch, v: Values, width: float = STEP):
        steps = (0.0, width, -width, 2 * width, -2 * width)
        traces, runs = [[] for _ in steps], []
        for step, trace in zip(steps, traces, strict=True):
            with noted() as (stores, values):
                outputs = launch.outputs(moved(launch.args, v, step), trace)
            runs.append((outputs, stores, np.array(values)))
        self.launch, self.v = launch, v
        self.outputs, self.stores, _ = runs[0]
        same = all({p: {e: list(t) for e, t in s.items()} for p, s in run[1].items()} == {
            p: {e: list(t) for e, t in s.items()} for p, s in self.stores.items()} for run in runs)  # fmt: skip
        self.are_smooth = same_branches(traces) and same
        self.meets = any(len(threads) > 1 for p in TOLD for threads in self.stores[p].values())
        self.refused = any(len(threads) > 1 for threads in self.stores[UNTOLD].values())
        if self.are_smooth:
            at, up, down, far_up, far_down = (run[2] for run in runs)
            self.slopes, self.bounds = _slopes(at, up, down, far_up, far_down, width)
            others = [p for p in launch.written if p not in TOLD]
            self.others = {p: _slopes(*(run[0][p] for run in runs), width) for p in others}

    def converges(self) -> bool:
        """True if differences over a smaller step agree; they do not where a value is steep for a short distance."""
        finer = Truth(self.launch, self.v, STEP / 64)
        if not finer.are_smooth:
            return False
        pairs = [((self.slopes, self.bounds), (finer.slopes, finer.bounds))]
        pairs += [(self.others[p], finer.others[p]) for p in self.others]
        return all(np.all(np.abs(slope - other) <= bound) for (slope, bound), (other, _) in pairs)

    def choices(self, p: int, content: np.ndarray) -> dict[int, list[tuple[float, float]]]:
        """For each element of an array, the derivatives that it may have, and the bounds of their errors."""
        found = {}
        for place, threads in self.stores[p].items():
            there = content.reshape(-1)[place]
            gap = min(abs(value - there) for _, value in threads.values())
            assert gap <= 1e-9 * (1 + abs(there)), "nobody stored what is there"
            same = [k for k, value in threads.values() if abs(value - there) <= max(gap, 1e-12 * abs(there))]
            found[place] = list({round(self.slopes[k], 12): (self.slopes[k], self.bounds[k]) for k in same}.values())
        return found

    def check_tangents(self, jv: Values, text: str) -> None:
        for p, (slope, bound) in self.others.items():
            assert np.all(np.abs(jv[p] - slope) <= bound), f"{p}: {jv[p]}, by differences {slope}\n{text}"
        for p in TOLD:
            if p not in jv:
                continue
            found, choices = jv[p].reshape(-1), self.choices(p, self.outputs[p])
            for place, tangent in enumerate(self.v[p].reshape(-1)):
                allowed = choices.get(place, [(tangent, 1e-12)])
                assert any(abs(found[place] - s) <= b for s, b in allowed), (
                    f"{p}, {place}: {found[place]} {allowed}\n{text}"
                )

    def check_gradients(self, wj: Values, w: Values, contents: Values, text: str) -> None:
        """<J^T w, v> is the sum over outputs, with one choice for each element."""
        total = bound = 0.0
        open_: list[list[float]] = []
        for p in self.launch.written:
            if p in self.others:
                slope, error = self.others[p]
                total, bound = total + float(np.sum(w[p] * slope)), bound + float(np.sum(np.abs(w[p]) * error))
                continue
            choices, flat = self.choices(p, contents[p]), w[p].reshape(-1)
            for place, tangent in enumerate(self.v[p].reshape(-1)):
                allowed = choices.get(place, [(tangent, 1e-12)])
                bound += abs(flat[place]) * max(b for _, b in allowed)
                if len(allowed) == 1:
                    total += flat[place] * allowed[0][0]
                else:
                    open_.append([flat[place] * s for s, _ in allowed])
        if np.prod([len(o) for o in open_], dtype=float) > MOST_CHOICES:
            return
        found = sum(float(np.sum(np.asarray(wj[p]).reshape(np.shape(self.v[p])) * self.v[p])) for p in wj)
        gaps = [abs(found - total - sum(choice)) for choice in itertools.product(*open_)]
        assert min(gaps) <= bound, f"{found}, by differences {total} and {open_}\n{text}"


def _slopes(at, up, down, far_up, far_down, step=STEP):
    slope = (up - down) / (2 * step)
    size = 1.0 + np.abs(slope) + np.abs(at)
    return slope, np.abs((far_up - far_down) / (4 * step) - slope) + 2e-6 * size + 1e-5 * np.abs(slope)


def read(seed: int, folder: Path) -> tuple[Writer, str, Kernel]:
    rng = random.Random(seed)
    writer = Writer(rng, small=rng.random() < SMALL, counts=rng.random() < COUNTING)
    source = writer.source()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        kernel = load(source, folder).ir(Settings(max_unroll=rng.choice([0, 4, 16])))
    return writer, source, dataclasses.replace(kernel, order=writer.counts)


def tangents(launch: Launch, v: Values) -> Values:
    forward = jvp(launch.ir, INPUTS)
    verify(forward.kernel)
    found = launch.slots(forward, launch.run(forward.kernel, launch.operands(forward, v)))
    others = {p: v.get(p, np.zeros(np.shape(launch.args[p]))) for p in launch.written}
    return {p: found.get(Origin("tangent", p), other) for p, other in others.items()}


def reversed_by(launch: Launch, derived: Derived, w: Values) -> Values:
    return gradients(launch, derived, launch.run(derived.kernel, launch.operands(derived, w)), w)


def check(seed: int, folder: Path) -> str:
    """Derive one kernel in all ways; what could be compared. Differences that do not converge tell nothing."""
    writer, source, ir = read(seed, folder)
    text = f"seed {seed}\n{source}"
    dims = random.Random(seed).choice(DIMS[writer.rank])
    launch = Launch(ir, dims, arguments(seed, dims, writer.own), np.random.default_rng(seed), INPUTS)
    v, w = launch.direction(INPUTS), launch.direction(launch.written)
    truth = Truth(launch, v)
    reverse = vjp(ir, INPUTS, launch.written)
    verify(reverse.kernel)
    if truth.refused:
        for run in (lambda: tangents(launch, v), lambda: reversed_by(launch, reverse, w)):
            with pytest.raises(RuntimeError, match=r"two threads store to one element of `\w+`"):
                run()
        return "refused"
    if not truth.are_smooth:
        return "kink"
    try:
        return compare(seed, launch, truth, reverse, w, text)
    except AssertionError:
        if truth.converges():
            raise
        return "steep"


def compare(seed: int, launch: Launch, truth: Truth, reverse: Derived, w: Values, text: str) -> str:
    """Compare the derivatives of one kernel with differences, and with each other."""
    truth.check_tangents(tangents(launch, truth.v), text)
    wj = reversed_by(launch, reverse, w)
    truth.check_gradients(wj, w, truth.outputs, text)
    if seed % SLOTS_EVERY == 0:
        with contextlib.suppress(NotDifferentiableError):
            slots = vjp(launch.ir, INPUTS, launch.written, storage=Storage.CHECKPOINTS)
            verify(slots.kernel)
            for p, x in reversed_by(launch, slots, w).items():
                np.testing.assert_allclose(x, wj[p], rtol=1e-8, atol=1e-10, err_msg=text)
    if seed % CODE_EVERY == 0:
        check_code(truth, reverse, w, seed, text)
    if seed % SECOND_EVERY == 0:
        check_second(launch, truth, reverse, w, text)
    return "met" if truth.meets else "apart"


def check_code(truth: Truth, reverse: Derived, w: Values, seed: int, text: str) -> None:
    """Compiled code goes by what compiled code leaves, on one or two threads of the processor."""
    launch, variant = truth.launch, random.Random(seed).choice(VARIANTS)
    if launch.ir.order:
        variant = dataclasses.replace(variant, target="1")  # threads one after the other
    arrays = [p for p, param in enumerate(launch.ir.params) if param.is_array]
    exact = dataclasses.replace(launch.ir, exact=True)
    left = Compiled(exact, variant).run(launch.dims, launch.args, threads=1 + seed % 2)
    final = dict(zip(arrays, left, strict=True))
    operands = [
        final[slot.param] if slot.kind == "final" else x
        for slot, x in zip(reverse.origins, launch.operands(reverse, w), strict=True)
    ]
    found = Compiled(reverse.kernel, variant).run(launch.dims, operands, threads=1 + seed % 2)
    truth.check_gradients(gradients(launch, reverse, found, w), w, final, f"{variant}\n{text}")


def check_second(launch: Launch, truth: Truth, reverse: Derived, w: Values, text: str) -> None:
    """The tangent of the adjoint along the arguments, against differences of gradients; where no values are equal."""
    if any(len(c) > 1 for p in TOLD if p in launch.written for c in truth.choices(p, truth.outputs[p]).values()):
        return
    moving = tuple(
        k for k, (slot, param) in enumerate(zip(reverse.origins, reverse.kernel.params, strict=True))
        if slot.kind in ("primal", "work") and param.dtype.is_float
    )  # fmt: skip
    inner = Launch(reverse.kernel, launch.dims, launch.operands(reverse, w), launch.rng, moving)
    taken = [k for k, slot in enumerate(reverse.origins) if slot.kind in ("cotangent", "claim")]
    try:
        second = jvp(reverse.kernel, moving, taken=taken, of_derivative=True)
    except NotDifferentiableError:
        assert "wp.atomic_m" in text
        return
    verify(second.kernel)
    direction = {p: truth.v[slot.param] for p, slot in enumerate(reverse.origins) if p in moving}
    found = inner.slots(second, inner.run(second.kernel, inner.operands(second, direction)))

    def gradients_at(step: float) -> np.ndarray:
        there = Launch(launch.ir, launch.dims, moved(launch.args, truth.v, step), launch.rng, INPUTS)
        return np.concatenate([np.ravel(g) for g in reversed_by(there, reverse, w).values()])

    at, *others = (gradients_at(step) for step in (0.0, STEP, -STEP, 2 * STEP, -2 * STEP))
    slopes, bounds = _slopes(at, *others)
    kinds = {p: "cotangent" if p in launch.written else "gradient" for p in INPUTS}
    numbers = {slot: k for k, slot in enumerate(reverse.origins)}
    parts = []
    for p, kind in kinds.items():
        k = numbers.get(Origin(kind, p))
        nothing = np.zeros(np.shape(launch.args[p]))
        parts.append(np.ravel(nothing if k is None else found.get(Origin("tangent", k), nothing)))
    gaps = np.abs(np.concatenate(parts) - slopes)
    assert np.all(gaps <= 10 * bounds + 1e-6 * np.abs(slopes).max(initial=0.0)), f"{np.max(gaps - bounds)}\n{text}"


@pytest.mark.skipif(LONG, reason="the long profile runs instead")
@pytest.mark.parametrize("group", range(GROUPS))
def test_random_kernels(group, tmp_path):
    size = COUNT // GROUPS
    reached = Counter(check(group * size + k, tmp_path) for k in range(size))
    assert reached["met"] > size // 3 and reached["refused"] and reached["steep"] < size // 50


@pytest.mark.skipif(not LONG, reason="JWARP_FUZZ=long is not set")
def test_many_random_kernels(tmp_path):
    check_seeds(lambda seed: check(seed, tmp_path))
