"""Derivatives of random kernels with tiles: forward mode against differences, reverse mode against forward mode."""

import numpy as np
import pytest
from fuzz_profiles import LONG
from tile_kernels import COLUMNS, ROWS, Program

from jwarp.autodiff.forward import jvp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run
from jwarp.ir.printing import format_kernel
from jwarp.ir.verify import verify

pytestmark = pytest.mark.quick

BLOCKS = 3
NAMES = Program.PARAMS


def operands(derived, values):
    """The operands of a derived kernel, from values by kind and parameter."""
    return [np.array(values[slot.kind, slot.param]) for slot in derived.origins]


def outcome(derived, values):
    """The final arrays of a derived kernel, by kind and parameter."""
    left = run(derived.kernel, (BLOCKS,), operands(derived, values))
    return {(s.kind, s.param): x for s, x in zip(derived.origins, left, strict=True)}


class Case:
    """A kernel with random arguments and directions."""

    def __init__(self, seed):
        self.kernel = Program(seed).kernel()
        rng = np.random.default_rng(seed + 10**6)
        self.args = [rng.normal(size=(ROWS, COLUMNS)) for _ in NAMES]
        self.tangents = [rng.normal(size=(ROWS, COLUMNS)) for _ in NAMES]
        self.cotangents = [rng.normal(size=(ROWS, COLUMNS)) for _ in NAMES]
        for array in (2,):
            self.args[array][:] = 0
            self.tangents[array][:] = 0

    def final(self, step=0.0):
        trace = []
        moved = [x + step * t for x, t in zip(self.args, self.tangents, strict=True)]
        return run(self.kernel, (BLOCKS,), moved, trace)[2:], trace

    def differences(self):
        """Tangents of what is written, by central differences; None near a kink."""
        (high, one), (low, two) = self.final(1e-6), self.final(-1e-6)
        if len(one) != len(two) or any(x.shape != y.shape or (x != y).any() for x, y in zip(one, two, strict=True)):
            return None
        return [(h - l) / 2e-6 for h, l in zip(high, low, strict=True)]

    def values(self):
        known = {("primal", p): x for p, x in enumerate(self.args)}
        known |= {("work", p): x for p, x in enumerate(self.args)}
        known |= {("tangent", p): t for p, t in enumerate(self.tangents)}
        known |= {("cotangent", p): c for p, c in enumerate(self.cotangents)}
        return known | {("gradient", p): np.zeros((ROWS, COLUMNS)) for p in range(len(NAMES))}

    def forward(self):
        made = jvp(self.kernel, range(4))
        verify(made.kernel)
        left = outcome(made, self.values())
        return [left.get(("tangent", p), self.tangents[p]) for p in (2, 3)]

    def reverse(self):
        made = vjp(self.kernel, [0, 1, 2, 3], [2, 3])
        verify(made.kernel)
        left = outcome(made, self.values())
        written = [left.get(("cotangent", p), self.cotangents[p]) for p in (2, 3)]
        return [left.get(("gradient", p), np.zeros((ROWS, COLUMNS))) for p in (0, 1)] + written


def check(seed):
    case = Case(seed)
    text = f"seed {seed}\n{format_kernel(case.kernel)}"
    tangents = case.forward()
    expected = case.differences()
    scale = 1 + max(float(np.abs(x).max()) for x in tangents)
    assert np.isfinite(scale), text
    if expected is not None:
        for found, wanted in zip(tangents, expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6 * scale, err_msg=text)
    gradients = case.reverse()
    forward = sum(float((c * t).sum()) for c, t in zip(case.cotangents[2:], tangents, strict=True))
    backward = sum(float((g * t).sum()) for g, t in zip(gradients, case.tangents, strict=True))
    assert (
        abs(forward - backward)
        <= 1e-10 * sum(float(np.abs(g * t).sum()) for g, t in zip(gradients, case.tangents, strict=True))
        + 1e-10 * scale
    ), text


@pytest.mark.parametrize("seed", range(240 if LONG else 30))
def test_forward_and_reverse_mode(seed):
    check(seed)
