"""Random kernels: reverse mode, forward mode, second order and finite differences agree, compiled or not.

Kernels that mix float32 and float64 are differentiated as they are, and again with float64 throughout; the second
is what differences are good enough for, and the first has to agree with it.

`JWARP_FUZZ=long` tries many more kernels, other ones each time; JWARP_FUZZ_SECONDS says for how long.
"""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import language_sources
import numpy as np
import pytest
from compiled_variants import VARIANTS, Compiled
from derived_launches import Launch, Slopes, Values, dot, gradients, moved, same_branches, widened
from fuzz_profiles import LONG, check_seeds, quick, some
from gradient_sources import INPUTS, Writer, arguments
from kernel_sources import load

from jwarp.autodiff.checkpoints import Storage
from jwarp.autodiff.derived_parameters import Derived
from jwarp.autodiff.forward import jvp
from jwarp.autodiff.reverse import vjp
from jwarp.config import Settings
from jwarp.errors import KernelWarning, NotDifferentiableError
from jwarp.ir.attributes import Origin
from jwarp.ir.functions import inlined
from jwarp.ir.nodes import Kernel
from jwarp.ir.verify import verify

GROUP_SIZE = 3
LANGUAGE_FROM = 6000  # from this seed on every second kernel also has structs, quaternions, references and slices
CODE_EVERY = 6  # of the long profile's kernels, how many are compiled, as that takes longest: one of so many

DIMS = {1: [(1,), (5,), (19,)], 2: [(1, 1), (2, 5), (7, 3)]}


def read(seed: int, folder: Path) -> tuple[Writer, str, Kernel]:
    rng = random.Random(seed)
    kind = language_sources.Writer if seed % 2 and seed >= LANGUAGE_FROM else Writer
    writer = kind(rng, mixed=rng.random() < 0.2)
    source = writer.source()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        ir = load(source, folder).ir(Settings(max_unroll=random.Random(seed).choice([0, 4, 16])))
    return writer, source, inlined(ir)  # as what launches take derivatives of


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
        second = jvp(reverse.kernel, moving, of_derivative=True)
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
@pytest.mark.parametrize("first", [*quick(0, 2000), *some((4000, 6000), of=2)])
def test_random_kernels(first, tmp_path):
    reached = [check(first + k, tmp_path) for k in range(GROUP_SIZE)]
    assert "second order" in reached


@pytest.mark.skipif(not LONG, reason="JWARP_FUZZ=long is not set")
def test_many_random_kernels(tmp_path):
    check_seeds(lambda seed: check(seed, tmp_path))
