"""Threads in step that part at a branch: what they leave behind last is taken first."""

import numpy as np
import pytest

import jwarp as wp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run
from jwarp.ir.attributes import Origin

pytestmark = pytest.mark.quick

F = wp.float64


@wp.kernel
def both_branches_loop(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    v = x[i]
    if i % 2 == 0:
        for _ in range(i % 3 + 1):
            v = wp.sin(v) * v
    else:
        for _ in range(i % 4 + 1):
            v = v * v + F(0.3)
    y[i] = v


def test_the_branch_that_ran_last_is_reversed_first():
    rng = np.random.default_rng(7)
    x, w = rng.uniform(0.3, 1.2, 23), rng.normal(size=23)
    adjoint = vjp(both_branches_loop.ir(), [0], [1])
    given = {Origin("primal", 0): x, Origin("cotangent", 1): w, Origin("gradient", 0): np.zeros(23)}
    results = run(adjoint.kernel, (23,), [given[slot] for slot in adjoint.origins])
    gradient = results[adjoint.origins.index(Origin("gradient", 0))]
    ends = [run(both_branches_loop.ir(), (23,), [x + h, x])[1] for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(gradient, w * (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
