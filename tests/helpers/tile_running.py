"""Runs kernels with tiles in the interpreter, block by block, and as compiled code."""

import numpy as np

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.config import Settings
from jwarp.ir.row_groups import Stage
from jwarp.ir.verify import verify
from jwarp.passes.simplify import simplify

BLOCK = 8


def run_blocks(kernel, dims, *args, block_dim=BLOCK, debug=True):
    """The array arguments after a launch of `dims` threads, the last axis in blocks.

    The interpreter, under several settings, and compiled code must agree.
    """
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    assert dims[-1] % block_dim == 0
    arity = kernel.block_ir(None, block_dim, None).tid_dims
    lane_axis = len(dims) - 1 if len(dims) <= arity else None
    blocks = (*dims[:-1], dims[-1] // block_dim)
    ir = kernel.block_ir(None, block_dim, lane_axis)
    others = {
        "simplified": simplify(ir),
        "loops": kernel.block_ir(Settings(max_unroll=0), block_dim, lane_axis),
    }
    if debug:
        others["debug"] = kernel.block_ir(Settings(debug=True), block_dim, lane_axis)
    verify(ir, Stage.WRITTEN)
    results = run(ir, blocks, args)
    for name, other in others.items():
        verify(other, Stage.WRITTEN)
        for mine, theirs in zip(results, run(other, blocks, args), strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=name)
    compiled = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    wp.launch(kernel, dims, compiled, block_dim=block_dim)
    arrays = [a for a, param in zip(compiled, kernel.params, strict=True) if param.is_array]
    for mine, theirs in zip(results, arrays, strict=True):
        close(theirs, mine, mine.dtype)
    return results


def run_tiled(kernel, dims, *args, block_dim=BLOCK, debug=True):
    """The same for `dims` blocks."""
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return run_blocks(kernel, (*dims, block_dim), *args, block_dim=block_dim, debug=debug)


def close(got, wanted, dtype=np.float32):
    """Equal up to the rounding of sums in `dtype`."""
    kind = np.dtype(dtype)
    tolerance = 0 if kind.kind in "iub" else {2: 2e-2, 4: 2e-5, 8: 1e-12}[kind.itemsize]
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(wanted, np.float64), tolerance, tolerance)
