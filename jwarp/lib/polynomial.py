"""Evaluation of polynomials, written in the kernel language."""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.scalar import fma
from jwarp.frontend.func import func


@func
def polynomial(coefficients: Any, x: Any):
    """The polynomial with `coefficients`, highest power first, at x (Horner's rule)."""
    p = coefficients[0]
    for k in range(1, len(coefficients)):
        p = fma(p, x, coefficients[k])
    return p
