"""Kernels that tests of functions of launches share, and how their results are compared."""

from __future__ import annotations

from typing import Any

import jax
from numpy.testing import assert_allclose

import jwarp as wp


@wp.kernel
def squares(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def add_to(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] += x[i]


def assert_same(found: Any, wanted: Any, rtol: float = 1e-5) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert_allclose(a, b, rtol=rtol, atol=1e-6)
