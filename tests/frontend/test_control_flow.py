"""Branches, loops and jumps: Python itself runs the same kernels as the reference."""

import numpy as np
import pytest
from run_three_ways import run_in_python, run_kernel

import jwarp as wp

pytestmark = pytest.mark.quick

N = 40


@wp.kernel
def nested_branches(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    x = a[i]
    y = 0
    if x > 0:
        y = 1
        if x > 4:
            y = 2
            z = x
        elif x == 2:
            y = 3
            z = -x
        else:
            z = 7
        y = y + z
    elif x < -3:
        y = -1
    out[i] = y


@wp.kernel
def early_returns(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    out[i] = 1
    if a[i] > 3:
        return
    out[i] = 2
    if a[i] > 0:
        out[i] = 3
        if a[i] == 2:
            return None
        out[i] = 4
    else:
        out[i] += 10
        return
    out[i] += 100


@wp.kernel
def return_from_loops(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    total = 0
    for j in range(10):
        k = 0
        while k < 4:
            total += a[i] + k
            out[i] = total
            if total > 25:
                return
            k += 1
        if total < -30:
            out[i] = 5
            break
    out[i] += 1000


@wp.kernel
def break_and_continue(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    s = 0
    for j in range(a[i] + 5):
        if j == 2:
            continue
        if j == 8:
            break
        for m in range(j):
            if m == a[i]:
                break
            if (m + j) % 3 == 1:
                continue
            s += m
        s += 10
    out[i] = s


@wp.kernel
def while_true(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    k = 0
    while True:
        k += 1
        if k % 2 == 0:
            continue
        if k > a[i]:
            break
        out[i] += k
    while True:
        k -= 3
        if k < 0:
            out[i] += k
            return


@wp.kernel
def loop_variable_afterwards(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    k = -5
    for k in range(a[i]):
        out[i] += 1
    out[i] = out[i] * 100 + k
    for m in range(3, 20, 4):
        out[i] += m
        if m > a[i]:
            break
    out[i] = out[i] * 100 + m
    for n in range(3):
        out[i] += n
    out[i] = out[i] * 10 + n


@wp.kernel
def loop_variable_assigned(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    for k in range(a[i]):
        k = k * 2 + 1
        out[i] += k
    for k in range(4):
        k += 3
        out[i] += k
    out[i] += k


@wp.kernel
def swaps_in_loops(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    x, y = 0, 1
    for _ in range(a[i]):
        x, y = y, x + y
    pair = (x, y)
    if a[i] % 2 == 0:
        pair = (pair[1], pair[0])
    out[i] = pair[0] * 1000 + pair[1]


@wp.kernel
def range_bounds_are_read_once(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    n = a[i]
    for _ in range(n):
        n = n - 2
        out[i] += 1
    out[i] += n * 100


@wp.kernel
def chained_comparisons(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    x = a[i]
    if -3 < x <= 2 != x + 1 < 5:
        out[i] = 1
    if 1 < x > 3:
        out[i] += 2
    out[i] += 4 if 0 == x == 0 else 8


@wp.kernel
def short_circuit(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    k = 0
    while k < a.shape[0] and a[k] != a[i]:
        k += 1
    out[i] = k
    if i == 0 or a[i - 1] < a[i] or a[i - 1] == 3:
        out[i] += 100
    if not (a[i] > 0 and a[i] != 4) and (a[i] < -2 or i > 5):
        out[i] += 1000


@wp.kernel
def accumulates_under_conditions(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    low = 0
    high = 0
    for j in range(a.shape[0]):
        if a[j] < a[i]:
            low += 1
        elif a[j] > a[i]:
            high += 1
        else:
            if j != i:
                low += 100
    out[i] = low - high


@wp.kernel
def code_that_never_runs(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    while False:
        out[i] = 9
    for _ in range(0):
        out[i] = 8
    for _ in range(5, 1):
        out[i] = 7
    if False:
        out[i] = 6
    out[i] += 1
    return
    out[i] = 5


KERNELS = [value for value in dict(globals()).values() if isinstance(value, wp.Kernel)]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("max_unroll", [0, 16])
def test_a_kernel_does_what_its_function_does(kernel, max_unroll):
    a = np.random.default_rng(1).integers(-6, 10, N).astype(np.int32)
    with wp.config(max_unroll=max_unroll):
        got = run_kernel(kernel, N, a, np.zeros(N, np.int32))
    assert got[1].tolist() == run_in_python(kernel, N, a, np.zeros(N, np.int32))[1].tolist()


RANGES = [(0,), (3,), (-2,), (2, 7), (7, 2), (0, 10, 3), (10, 0, -3), (0, 10, -1), (5, 5, 1), (-4, 5, 2), (1, 40, 1)]


@wp.kernel
def dynamic_range(lo: int, hi: int, step: int, out: wp.array[int]):
    s = 0
    for k in range(lo, hi, step):
        s = s * 3 + k
    out[0] = s
    count = 0
    for _ in range(lo, hi, step):
        count += 1
        if count > 30:
            break
    out[1] = count


def constant_range(lo, hi, step):
    @wp.kernel
    def kernel(out: wp.array[int]):
        s = 0
        for k in range(lo, hi, step):
            s = s * 3 + k
        out[0] = s
        count = 0
        for _ in range(lo, hi, step):
            count += 1
            if count > 30:
                break
        out[1] = count

    return kernel


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_ranges(bounds):
    values = range(*bounds)
    expected = 0
    for k in values:
        expected = expected * 3 + k
    expected = [int(np.array(expected % (1 << 32), np.uint32).view(np.int32)), min(len(values), 31)]
    full = (values.start, values.stop, values.step)
    zeros = np.zeros(2, np.int32)
    assert run_kernel(dynamic_range, 1, *full, zeros)[-1].tolist() == expected
    assert run_kernel(constant_range(*full), 1, zeros)[-1].tolist() == expected


def test_a_range_ends_at_the_ends_of_int32_and_a_dynamic_step_of_zero_gives_no_trips():
    @wp.kernel
    def ends(lo: int, hi: int, out: wp.array[int]):
        for k in range(lo, hi):
            out[0] = k
        for k in range(hi, lo, -3):
            out[1] = k
        for k in range(lo, hi, 2147483647):
            out[2] += 1

    top = 2**31 - 1
    zeros = np.zeros(3, np.int32)
    assert run_kernel(ends, 1, top - 2, top, zeros)[-1].tolist() == [top - 1, top, 1]
    assert run_kernel(ends, 1, -top - 1, -top + 3, zeros)[-1].tolist() == [-top + 2, -top, 1]
    assert run_kernel(dynamic_range, 1, 0, 9, 0, zeros[:2])[-1].tolist() == [0, 0]


@pytest.mark.parametrize("max_unroll", [0, 16])
def test_a_range_counts_in_the_type_of_its_bounds(max_unroll):
    @wp.kernel
    def typed(n: wp.uint8, out: wp.array[wp.uint8]):
        for k in range(n):
            out[0] = k
        for k in range(wp.uint8(9), n, -2):
            out[1] += k
        for k in range(wp.uint8(250), wp.uint8(255), 2):
            out[2] += k
        for k in range(n, wp.uint8(0), -1):
            if k == wp.uint8(2):
                break
            out[3] += k

    with wp.config(max_unroll=max_unroll):
        got = run_kernel(typed, 1, np.uint8(4), np.zeros(4, np.uint8))[-1].tolist()
    assert got == [3, 9 + 7 + 5, (250 + 252 + 254) % 256, 4 + 3]


@wp.kernel
def renewed(x: wp.array[float], n: int, out: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.0:
        k = wp.ceil(x[i])
        out[i] = k
    for k in range(n):
        out[i] += float(k)


def test_the_variable_of_a_loop_may_have_been_of_another_type():
    x = np.array([-1.5, 0.5, 2.5], np.float32)
    out = wp.launch(renewed, 3, [x, 4], [3])[0]
    np.testing.assert_array_equal(out, np.where(x > 0, np.ceil(x), 0) + 6)
