"""Compares the derivatives of products of tiles, run by the PTX machine, with exact ones."""

import numpy as np
from ptx_running import PtxKernel
from tile_programs import operands

from jwarp.backend.interpreter.machine import run


def check_adjoints(made: PtxKernel, type_, sums, extents, transposes, along, atol) -> None:
    """Gradients of both factors, by the interpreter and by the machine, are within `atol` of NumPy's in float64.

    `made` is the adjoint of `looped`, whose products go over `along` numbers.
    """
    rng = np.random.default_rng(2)
    _, args = operands(rng, type_, sums, extents, transposes, along)
    given = {"a": args[0], "b": args[1], "c": args[2], "adj_c": args[2], "adj_a": 0 * args[0], "adj_b": 0 * args[1]}
    arrays = [given[p.name] for p in made.kernel.params]
    expected, found = run(made.made.kernel, (2, 2), arrays), made.run((2, 2), arrays, 3)
    g = args[2].astype(float)
    a, b = (x.astype(float).T if flag else x.astype(float) for x, flag in zip(args[:2], transposes, strict=True))
    exact = [x.T if flag else x for x, flag in zip((g @ b.T, a.T @ g), transposes, strict=True)]
    compared = 0
    for p, x, y in zip(made.kernel.params, found, expected, strict=True):
        if p.name in ("adj_a", "adj_b"):
            np.testing.assert_allclose(x.astype(float), exact[p.name == "adj_b"], rtol=0, atol=atol)
            np.testing.assert_allclose(y.astype(float), exact[p.name == "adj_b"], rtol=0, atol=atol)
            compared += 1
    assert compared == 2
