"""Kernels that mean the same in Warp, as those in warp_parity_kernels: references that alias."""

import jwarp as wp


@wp.struct
class Cell:
    v: wp.vec3
    w: float


@wp.func
def exchange(u: wp.ref[float], v: wp.ref[float]):
    t = float(u)
    u = v * 2.0
    v = t + 1.0


@wp.func
def steps(u: wp.ref[float], v: wp.ref[float], n: int):
    """Each sees what the other one gets, also through another function."""
    for k in range(n):
        u += v * 0.25
        if k == 2:
            exchange(v, u)
        v -= 1.0


@wp.func
def added(u: wp.ref[float], a: wp.array2d[float], i: int):
    a[i, 1] += u
    u += a[i, 0] + a[i, 1]


@wp.func
def mixed(c: wp.ref[wp.vec3], s: wp.ref[float]):
    c = c * 2.0
    s += c[0] + c[1]
    c[1] = s


@wp.func
def counted(k: wp.ref[int], u: wp.ref[float]):
    k += 1
    u += 1.0


@wp.kernel
def meeting_references(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    for k in range(4):
        real[k, i] = x[(i + k) % 64]
    p = (a[i] + 100) % 4
    q = (b[i] + 100) % 4
    exchange(real[p, i], real[q, i])
    steps(real[q, i], real[p, i], 4)
    own = wp.zeros(shape=(3, 2), dtype=float)
    own[0, 0] = y[i]
    own[1, 0] = x[i]
    added(own[p % 3, q % 2], own, q % 3)
    real[4, i] = own[0, 0]
    real[5, i] = own[1, 1]
    real[6, i] = own[q % 3, 0]
    cells = wp.zeros(shape=2, dtype=wp.vec3)
    cells[0] = wp.vec3(x[i], y[i], 1.0)
    mixed(cells[p % 2], cells[q % 2][1])
    real[7, i] = cells[0][0] + cells[1][1]
    real[8, i] = cells[0][1]
    row = real[:, i]
    exchange(row[9], row[p + 9])
    n = int(p)
    counted(n, real[n + 10, i])
    out[0, i] = n
