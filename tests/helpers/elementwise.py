"""A function of the kernel language, elementwise over NumPy arrays, as compiled for this processor."""

# Without postponed annotations: those of these kernels name a variable.

import functools

import numpy as np

import jwarp as wp

TYPES = {np.dtype(np.float32): wp.float32, np.dtype(np.float64): wp.float64}


@functools.cache
def kernel_of(name: str, arity: int, dtype: np.dtype) -> wp.Kernel:
    function, number = getattr(wp, name), TYPES[dtype]

    def unary(x: wp.array[number], result: wp.array[number]):
        i = wp.tid()
        result[i] = function(x[i])

    def binary(x: wp.array[number], y: wp.array[number], result: wp.array[number]):
        i = wp.tid()
        result[i] = function(x[i], y[i])

    return wp.kernel(unary if arity == 1 else binary)


def evaluate(name: str, *arguments: np.ndarray) -> np.ndarray:
    """The function of arguments of one shape and dtype."""
    first, *_ = arguments
    kernel = kernel_of(name, len(arguments), first.dtype)
    return np.asarray(wp.launch(kernel, first.shape, list(arguments), [first.shape])[0])
