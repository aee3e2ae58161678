"""Kernels that mean the same in Warp: this file is also run with `warp` in the place of `jwarp`.

All take integers a and b, floats x and y, and write rows of an integer and a float output.
"""

# ruff: noqa: F811
import enum
from typing import Any

import jwarp as wp

SCALE = 3
OFFSET = wp.constant(7)
HALF = 0.5


@wp.kernel
def integers(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    p = a[i]
    q = b[i]
    out[0, i] = p + q
    out[1, i] = p - q
    out[2, i] = p * q
    out[3, i] = p / q
    out[4, i] = p // q
    out[5, i] = p % q
    out[6, i] = -p
    out[7, i] = ~p
    out[8, i] = p & q
    out[9, i] = p | q
    out[10, i] = p ^ q
    out[11, i] = p << (q & 31)
    out[12, i] = p >> (q & 31)
    out[13, i] = wp.min(p, q)
    out[14, i] = wp.max(p, q)
    out[15, i] = wp.clamp(p, -50, q)
    out[16, i] = wp.abs(p)
    out[17, i] = abs(p) + min(p, q) + max(p, q)
    out[18, i] = -7 // 2 + -7 % 3 + 7 % -3


@wp.kernel
def floats(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    u = x[i]
    v = y[i]
    real[0, i] = u + v
    real[1, i] = u - v
    real[2, i] = u * v
    real[3, i] = u / v
    real[4, i] = u // v
    real[5, i] = u % v
    real[6, i] = -u
    real[7, i] = wp.min(u, v)
    real[8, i] = wp.max(u, v)
    real[9, i] = wp.clamp(u, -1.0, 1.0)
    real[10, i] = wp.abs(u)
    real[11, i] = wp.round(u)
    real[12, i] = wp.rint(u)
    real[13, i] = wp.floor(u)
    real[14, i] = wp.ceil(u)
    real[15, i] = wp.trunc(u)
    real[16, i] = wp.sqrt(wp.abs(u))
    real[17, i] = +u
    real[18, i] = wp.round(u * 2.0) * HALF
    out[0, i] = int(u)
    out[1, i] = int(wp.round(u))


@wp.kernel
def conversions(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    p = a[i]
    u = x[i]
    out[0, i] = int(wp.int8(p))
    out[1, i] = int(wp.int16(p))
    out[2, i] = int(wp.int64(p))
    out[3, i] = int(wp.uint8(p))
    out[4, i] = int(wp.uint16(p))
    out[5, i] = int(wp.uint32(p))
    out[6, i] = int(wp.uint64(p))
    out[7, i] = int(p != 0)
    out[8, i] = int(bool(u))
    out[9, i] = int(wp.int8(u))
    out[10, i] = int(wp.int64(u))
    out[11, i] = int(wp.uint8(wp.abs(u)))
    out[12, i] = int(wp.float64(u))
    out[13, i] = int(wp.float16(u))
    out[14, i] = wp.cast(u, wp.int32)
    real[0, i] = float(p)
    real[1, i] = float(wp.float16(u))
    real[2, i] = float(wp.float64(u))
    real[3, i] = float(wp.int8(p))
    real[4, i] = float(wp.uint8(p))
    real[5, i] = float(p > 3)
    real[6, i] = float(wp.float64(u) * wp.float64(1.1))
    real[7, i] = wp.cast(wp.cast(u, wp.int32), wp.float32)


@wp.kernel
def narrow(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    s = wp.int8(a[i])
    t = wp.int8(b[i])
    out[0, i] = int(s + t)
    out[1, i] = int(s * t)
    out[2, i] = int(-s)
    u = wp.uint8(a[i])
    v = wp.uint8(b[i] | 1)
    out[3, i] = int(u + v)
    out[4, i] = int(u - v)
    out[5, i] = int(u / v)
    out[6, i] = int(u % v)
    out[7, i] = int(~u)
    out[8, i] = int(u >> wp.uint8(1))
    m = wp.uint32(a[i])
    n = wp.uint32(b[i] | 1)
    out[9, i] = int(m / n)
    out[10, i] = int(m % n)
    out[11, i] = int(m >> wp.uint32(3))
    out[12, i] = int(wp.min(m, n))
    w = wp.int64(a[i]) * wp.int64(1000003) * wp.int64(b[i])
    out[13, i] = int(w >> wp.int64(20))
    out[14, i] = int(w % wp.int64(1009))
    real[0, i] = float(wp.float16(x[i]) + wp.float16(y[i]))


@wp.kernel
def conditions(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    p = a[i]
    q = b[i]
    u = x[i]
    if -20 < p <= q < 60:
        out[0, i] = 1
    if (p < q and u > 0.0) or not (p == 3 or q == 3):
        out[1, i] = 1
    if not (p > 0 or u > 0.5):
        out[2, i] = 1
    out[3, i] = 5 if p > q else 6
    real[0, i] = wp.where(p > q, u, y[i])
    real[1, i] = u if u > y[i] else y[i]
    flag = p > 0
    if flag:
        out[4, i] = 1
    elif q > 0:
        out[4, i] = 2
    else:
        out[4, i] = 3
    n = wp.tid() + 1
    # The right side must not be read where the left one decides.
    if i > 0 and a[i - 1] > 0:
        out[5, i] = n
    out[6, i] = wp.where(q, 1, 2)
    if p:
        out[7, i] = 1


@wp.kernel
def loops(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    trips = a[i] & 15
    total = int(0)
    for k in range(trips):
        total += k
    out[0, i] = total
    total = int(0)
    for k in range(2, trips, 3):
        total = total * 2 + k
    out[1, i] = total
    total = int(0)
    for k in range(trips, -3, -2):
        total = total * 2 + k
    out[2, i] = total
    total = int(0)
    for k in range(5):
        total = total * 3 + k
    out[3, i] = total
    total = int(0)
    for k in range(trips):
        for m in range(k):
            if m == 3:
                break
            if (m + k) % 2 == 0:
                continue
            total += m * k
        if total > 40:
            break
    out[4, i] = total
    total = int(0)
    while True:
        total += 3
        if total > trips:
            break
    out[5, i] = total
    total = int(0)
    while total * total < trips:
        total += 1
    out[6, i] = total
    s = float(0.0)
    for k in range(100):
        s = s * HALF + x[i]
    real[0, i] = s
    out[7, i] = 0
    for k in range(trips):
        if k == 7:
            out[7, i] = 1
            return
    out[8, i] = SCALE * OFFSET + wp.static(SCALE * 2 + 1)
    for k in range(4):
        out[9 + k, i] = wp.static(k * k + SCALE)


@wp.func
def two_results(p: int, u: float):
    return p + 1, u * 2.0


@wp.func
def sign_of(u: float) -> float:
    if u > 0.0:
        return 1.0
    elif u < 0.0:
        return -1.0
    return 0.0


@wp.func
def first_above(values: wp.array[float], start: int, limit: float) -> int:
    for k in range(start, values.shape[0]):
        if values[k] > limit:
            return k
    return -1


@wp.func
def scaled(u: float, factor: float = 3.0):
    return u * factor


@wp.kernel
def functions(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    p, u = two_results(a[i], x[i])
    out[0, i] = p
    real[0, i] = u
    real[1, i] = sign_of(x[i])
    out[1, i] = first_above(x, i, 2.0)
    real[2, i] = scaled(x[i]) + scaled(x[i], 2.0) + scaled(x[i], factor=4.0)
    m = b[i] + 1
    m, p = p, m
    out[2, i] = m * 3 + p
    out[3, i] = x.shape[0] + out.shape[0] * out.shape[1]


@wp.kernel
def elements(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    out[0, i] = a[-1] + a[-2]
    out[-1, i] = b[-i - 1]
    real[0, i] = x[i]
    real[0, i] *= 3.0
    real[0, i] /= 7.0
    real[1, i] += y[i]
    real[1, i] -= x[i]
    out[1, 0] += a[i]
    out[1, 1] -= a[i]
    out[2, i] = a[i]
    out[2, i] |= 9
    out[2, i] ^= 5
    out[2, i] &= 127


@wp.func
def fill_row(row: wp.array[int], first: int):
    for k in range(row.shape[0]):
        row[k] = row[k] * 2 + first + k


@wp.func
def powers(u: float):
    made = wp.zeros(shape=4, dtype=float)
    made[0] = 1.0
    for k in range(1, 4):
        made[k] = made[k - 1] * u
    return made


@wp.kernel
def local_arrays(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    table = wp.zeros(shape=(3, 4), dtype=int)
    fill_row(table[1], a[i])
    fill_row(table[1], 5)
    row = table[2]
    row[1] = b[i]
    row[wp.abs(a[i]) % 4] += 3
    table[0, 3] = row[1] - table[1][2]
    total = int(0)
    for j in range(table.shape[0]):
        for k in range(table.shape[1]):
            total = total * 3 + table[j, k]
    out[0, i] = total
    steps = int(0)
    while steps < wp.abs(b[i]) % 7:
        fresh = wp.zeros(shape=3, dtype=int)
        fresh[steps % 3] = steps + 1
        out[1, i] += fresh[0] - fresh[1] + fresh[2] * 2
        steps += 1
    p = powers(x[i] / 8.0)
    real[0, i] = p[0] + p[1] - p[2] * p[3]
    v = wp.zeros(shape=2, dtype=wp.vec3)
    v[1] = wp.vec3(x[i], y[i], 1.0)
    v[0] = v[1] * 2.0
    v[wp.abs(a[i]) % 2] += wp.vec3(1.0, 0.0, -1.0)
    real[1, i] = v[0][0] + v[0][1] * v[1][2]
    if x[i] < 0.0:
        in_branch = wp.zeros(shape=5, dtype=float)
        in_branch[wp.abs(a[i]) % 5] = y[i]
        real[2, i] = in_branch[2] + in_branch[3]


@wp.kernel
def rows_of_arrays(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    mine = out[2]
    mine[i] = a[i]
    out[3][i] = mine[i] + mine.shape[0]
    r = real[wp.abs(a[i]) % 5]
    r[i] = x[i]
    real[5][i] = r[i] * y[i]
    wp.atomic_add(out[4], b[i] & 3, 1)
    out[5][b[i] & 3] += 2


class Kind(enum.IntEnum):
    LOW = -2
    HIGH = 3


class Bits(enum.IntFlag):
    ONE = 1
    FOUR = 4


@wp.func
def weight(u: float):
    return u * 0.5


@wp.func
def weight(k: int):
    return float(k) + 0.25


@wp.func
def weight(v: wp.vec3):
    return weight(v[0]) - weight(int(v[1]))


@wp.func
def weight(k: Any):
    return float(k) * 100.0


@wp.func
def applied(f: wp.Function, u: float):
    return f(u) + f(u + 1.0)


@wp.kernel
def overloads(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    real[0, i] = weight(x[i])
    real[1, i] = weight(a[i])
    real[2, i] = weight(wp.vec3(x[i], y[i], 1.0))
    real[3, i] = weight(wp.int64(a[i]))
    real[4, i] = applied(weight, y[i])
    real[5, i] = applied(sign_of, y[i])
    out[0, i] = Kind.LOW + a[i]
    if a[i] > Kind.HIGH:
        out[1, i] = Bits.ONE | Bits.FOUR
    out[2, i] = a[i] & Bits.FOUR
    for j in range(4):
        out[3, i] += wp.static(j * j) * a[i]
