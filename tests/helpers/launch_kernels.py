"""Kernels that the tests of launches share."""

import jwarp as wp


@wp.kernel
def scale(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = k * x[i]


@wp.kernel
def add_rows(x: wp.array2d[float], row: wp.array[float], k: float, y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = x[i, j] + k * row[j]


@wp.kernel
def accumulate(x: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    total[i] = total[i] + x[i]


@wp.kernel
def increment(y: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + 1.0


@wp.kernel
def halve_and_double(x: wp.array[float], half: wp.array[float], double: wp.array[float]):
    i = wp.tid()
    half[i] = x[i] * 0.5
    double[i] = x[i] * 2.0


@wp.kernel
def advance(x: wp.array[float], v: wp.array[float], dt: float, energy: wp.array[float]):
    i = wp.tid()
    v[i] = v[i] - dt * x[i]
    x[i] = x[i] + dt * v[i]
    energy[i] = x[i] * x[i] + v[i] * v[i]


@wp.kernel
def fill(value: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = value


@wp.kernel
def copy_if(flag: bool, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if flag:
        y[i] = x[i]


@wp.kernel
def add_int(x: wp.array[int], k: int, y: wp.array[int]):
    i = wp.tid()
    y[i] = x[i] + k


@wp.kernel
def add_uint8(x: wp.array[wp.uint8], k: wp.uint8, y: wp.array[wp.uint8]):
    i = wp.tid()
    y[i] = x[i] + k


@wp.kernel
def add_float64(x: wp.array[wp.float64], k: wp.float64, y: wp.array[wp.float64]):
    i = wp.tid()
    y[i] = x[i] + k


@wp.kernel
def add_int64(x: wp.array[wp.int64], k: wp.int64, y: wp.array[wp.int64]):
    i = wp.tid()
    y[i] = x[i] + k


@wp.kernel
def add_float16(x: wp.array[wp.float16], k: wp.float16, y: wp.array[wp.float16]):
    i = wp.tid()
    y[i] = x[i] + k


@wp.kernel
def add_bfloat16(x: wp.array[wp.bfloat16], k: wp.bfloat16, y: wp.array[wp.bfloat16]):
    i = wp.tid()
    y[i] = x[i] + k


@wp.kernel
def exchange(x: wp.array[bool], y: wp.array[bool]):
    i = wp.tid()
    y[i] = not x[i]


@wp.kernel
def mark(y: wp.array4d[int]):
    i, j, k, m = wp.tid()
    y[i, j, k, m] = 1000 * i + 100 * j + 10 * k + m


@wp.kernel
def is_positive(x: wp.array[float], y: wp.array[int]):
    i = wp.tid()
    if x[i] > 0.0:
        y[i] = 1
