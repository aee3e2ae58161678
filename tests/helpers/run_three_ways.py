"""Runs a kernel in the interpreter, as compiled code, and as the Python function it was written as."""

import types

import jax.numpy as jnp
import numpy as np

import jwarp as wp
from jwarp.backend.interpreter.machine import run


def run_kernel(kernel, dims, *args):
    """The array arguments after a launch, interpreted and compiled, which must agree."""
    dims = (dims,) if isinstance(dims, int) else dims
    expected = run(kernel.ir(), dims, args)
    written = wp.launch(kernel, dims, [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args])
    arrays = [p.name for p in kernel.params if p.is_array]
    for name, array in zip(arrays, expected, strict=True):
        if name in written:
            np.testing.assert_array_equal(np.asarray(written[name]), array, err_msg=f"compiled code: {name}")
    return expected


def run_in_python(kernel, threads, *args):
    """The array arguments after Python itself has run the kernel's function for each thread."""
    copies = [a.astype(object) if isinstance(a, np.ndarray) else a for a in args]
    for thread in range(threads):
        names = types.SimpleNamespace(**{**vars(wp), "tid": lambda thread=thread: thread})
        outer = {**kernel.python.__globals__, "wp": names}
        code, closure = kernel.python.__code__, kernel.python.__closure__
        types.FunctionType(code, outer, closure=closure)(*copies)
    return [c.astype(a.dtype) for c, a in zip(copies, args, strict=True) if isinstance(a, np.ndarray)]


def values_of(kernel, *args, count=1):
    """The elements that one thread writes to the last parameter, an array that starts as zeros."""
    last = kernel.params[-1].type
    return run_kernel(kernel, 1, *args, np.zeros(count, last.dtype.dtype))[-1].tolist()
