"""Tiny kernels, one idea each, whose IR and LLVM text are kept next to this file."""

from __future__ import annotations

import jwarp as wp


@wp.func
def split(x: float, limit: float):
    if x < limit:
        return x, 0.0
    return limit, x - limit


@wp.kernel
def axpy(a: float, x: wp.array[float], y: wp.array[float]):
    """Consecutive elements, a plain store to each thread's own."""
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def stencil(x: wp.array[float], y: wp.array[float]):
    """A guard that proves the accesses next to the thread's own element."""
    i = wp.tid()
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i + 1] - x[i - 1]


@wp.kernel
def gather(index: wp.array[int], x: wp.array[float], y: wp.array[float]):
    """An index that nothing is known of."""
    i = wp.tid()
    y[i] = x[index[i]]


@wp.kernel
def reverse(x: wp.array[float], y: wp.array[float]):
    """A negative stride."""
    i = wp.tid()
    y[i] = x[x.shape[0] - 1 - i]


@wp.kernel
def transpose(x: wp.array2d[float], y: wp.array2d[float]):
    """Two launch dimensions; the loads are consecutive, the stores are not."""
    i, j = wp.tid()
    y[j, i] = x[i, j]


@wp.kernel
def row_sums(x: wp.array2d[float], y: wp.array[float]):
    """A loop with the same iterations in all threads."""
    i = wp.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    y[i] = total


@wp.kernel
def collatz(x: wp.array[int], steps: wp.array[int]):
    """A loop whose iterations differ between the threads."""
    i = wp.tid()
    n = x[i]
    count = 0
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        count += 1
    steps[i] = count


@wp.kernel
def first_negative(x: wp.array2d[float], found: wp.array[int]):
    """Leaving a loop early."""
    i = wp.tid()
    found[i] = -1
    for k in range(x.shape[1]):
        if x[i, k] < 0.0:
            found[i] = k
            break


@wp.kernel
def overflow(x: wp.array[float], limit: float, kept: wp.array[float], rest: wp.array[float]):
    """A function with an early return and two results."""
    i = wp.tid()
    kept[i], rest[i] = split(x[i], limit)


@wp.kernel
def histogram(x: wp.array[wp.uint8], bins: wp.array[int]):
    """Atomic addition to elements that threads share."""
    i = wp.tid()
    bins[int(x[i])] += 1


@wp.kernel
def halves(x: wp.array[wp.float16], y: wp.array[wp.bfloat16]):
    """16-bit floats are computed with in float32."""
    i = wp.tid()
    y[i] = wp.bfloat16(x[i] * x[i])


@wp.kernel
def threshold(x: wp.array[float], mask: wp.array[bool]):
    """Bools are bytes in memory."""
    i = wp.tid()
    mask[i] = x[i] > 0.5 or mask[i]


@wp.kernel
def quotients(x: wp.array[int], y: wp.array[int], z: wp.array[int]):
    """Integer division has to look out for 0 and -1, by a constant it need not."""
    i = wp.tid()
    z[i] = x[i] // y[i] + x[i] % 7


@wp.kernel
def uniform(n: int, x: wp.array[float], y: wp.array[float]):
    """A branch and a load that are the same in all threads."""
    i = wp.tid()
    if n > 3:
        y[i] = x[n]


@wp.kernel
def wave(x: wp.array[float], y: wp.array[float]):
    """An elementary function, one operation in the IR."""
    i = wp.tid()
    y[i] = wp.tanh(x[i])


KERNELS = (
    axpy, stencil, gather, reverse, transpose, row_sums, collatz, first_negative,
    overflow, histogram, halves, threshold, quotients, uniform, wave,
)  # fmt: skip
