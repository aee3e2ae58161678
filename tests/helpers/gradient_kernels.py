"""Small kernels of every kind that differentiating kernels goes wrong for, by kind."""

import jwarp as wp

F = wp.float64
A = wp.array[F]


# Variables that a loop carries on


@wp.kernel
def power(x: A, n: int, y: A):
    i = wp.tid()
    p = F(1.0)
    for _ in range(n):
        p *= x[i]
    y[i] += p


@wp.kernel
def newton(x: A, n: int, y: A):
    i = wp.tid()
    root = F(1.0)
    for _ in range(n):
        root = F(0.5) * (root + x[i] / root)
    y[i] = root * y[i]


@wp.kernel
def nested(x: A, n: int, y: A):
    i = wp.tid()
    v = x[i]
    for k in range(n % 7 + 1):
        s = v
        for m in range(k, -1, -1):
            s = wp.sin(s * x[(i + m) % 5]) + F(0.1) * v
        v = s + F(0.2) * v * v
    y[i] = v - y[i]


@wp.func
def horner(x: F, n: int):
    value = F(0.0)
    for k in range(n):
        if k == 40:
            return value * x
        value = value * x * F(0.5) + F(k % 3)
    return value


@wp.kernel
def in_a_function(x: A, n: int, y: A):
    i = wp.tid()
    y[i] = wp.sin(horner(x[i], n)) * y[i]


@wp.kernel
def matrix_chain(x: A, n: int, y: A):
    i = wp.tid()
    m = wp.mat22d(x[i], F(0.3), F(-0.2), x[(i + 1) % 5])
    total = wp.identity(n=2, dtype=F)
    for _ in range(n):
        total = F(0.6) * m @ total + m
    y[i] += wp.determinant(total) + wp.trace(total)


@wp.kernel
def swapped(x: A, n: int, y: A):
    i = wp.tid()
    p, q = x[i], x[i] * y[i]
    for _ in range(n):
        p, q = q, p
    y[i] = p * p + wp.sin(q)


@wp.kernel
def set_back(x: A, n: int, y: A):
    i = wp.tid()
    first = x[i]
    v = first
    for k in range(n):
        if k % 5 == 3:
            v = first
        else:
            v = v * v + F(0.1)
    y[i] = v * y[i]


@wp.kernel
def replaced_by_a_constant(x: A, n: int, y: A):
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        if y[i] < F(0.5):
            v = F(0.5)
            if v < y[i]:
                continue
            v = wp.cos(v)
    y[i] = v * v


# What a loop ends with, used nonlinearly


@wp.kernel
def mean_square(x: A, n: int, y: A):
    i = wp.tid()
    s = F(0.0)
    for k in range(n):
        s += x[(i + k) % 5]
    mean = s / F(n + 1)
    y[i] = mean * mean + y[i]


@wp.kernel
def norm(x: A, n: int, y: A):
    i = wp.tid()
    s = F(0.0)
    for k in range(n):
        s += x[i] * x[(i + k) % 5]
    y[i] *= wp.sqrt(s + F(1.0)) / F(n + 1)


@wp.kernel
def softmax(x: A, n: int, y: A):
    i = wp.tid()
    most = F(0.0)
    for k in range(n):
        most = wp.max(most, x[(i + k) % 5])
    total = F(0.1)
    for k in range(n):
        total += wp.exp(x[(i + k) % 5] - most)
    y[i] = wp.exp(x[i] - most) / total + y[i]


# Jumps


@wp.kernel
def broken_off(x: A, n: int, y: A):
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        v = v * x[i] + F(0.3)
        if v > F(0.55):
            break
        v += y[i] * F(0.1)
    y[i] = v * v


@wp.kernel
def continued(x: A, n: int, y: A):
    i = wp.tid()
    v = y[i]
    for k in range(n):
        if (i + k) % 3 == 0:
            continue
        for m in range(k % 4):
            if v > F(0.8):
                break
            v += F(0.1) * x[m] * v
        v = wp.sin(v) + x[i] * F(0.3)
    y[i] = v


@wp.kernel
def returned_early(x: A, n: int, y: A):
    i = wp.tid()
    v = x[i] * y[i]
    for k in range(n):
        v = wp.sin(v) + F(0.4)
        if k == 2 + i:
            y[i] = v * v
            return
    y[i] += v


# Loops with a condition, and with an index of their own


@wp.kernel
def halved(x: A, n: int, y: A):
    i = wp.tid()
    v = x[i] * F(20.0)
    k = wp.int32(0)
    while v > F(1.0) and k < n:
        v = v * F(0.5) + F(0.01) * v * y[i]
        k += 1
    y[i] = v * v


@wp.kernel
def strided(x: A, n: int, y: A):
    i = wp.tid()
    v, k = x[i], wp.int32(1)
    while k <= n:
        v = v * wp.cos(x[k % 5]) + y[i]
        k = k * 2 + 1
    y[i] = v


@wp.kernel
def forever(x: A, n: int, y: A):
    i = wp.tid()
    v, k = y[i], wp.int32(0)
    while True:
        k += 1
        if k > n:
            break
        if k % 4 == i % 2:
            continue
        v = v * x[i] + F(0.2)
    y[i] = v * v


# Elements that are overwritten


@wp.kernel
def multiplied_in_place(x: A, n: int, y: A):
    i = wp.tid()
    for _ in range(n):
        y[i] *= wp.sin(x[i])
        y[i] /= F(1.0) + x[i] * y[i]


@wp.kernel
def added_to_itself(x: A, n: int, y: A):
    i = wp.tid()
    for _ in range(n):
        y[i] += F(0.05) * y[i] * wp.cos(y[i] * x[i])
        y[i] -= F(0.1) * y[i] * y[i]


@wp.kernel
def ping_pong(x: A, n: int, y: A):
    i = wp.tid()
    other = wp.zeros(shape=1, dtype=F)
    for k in range(n):
        if k % 2 == 0:
            other[0] = wp.sin(y[i]) * x[i]
        else:
            y[i] = other[0] * other[0] + y[i] * F(0.5)
    y[i] += other[0]


@wp.func
def settle(a: A, i: int, by: F):
    before = a[i]
    a[i] = before * by + F(0.1)
    return before


@wp.kernel
def changed_by_a_function(x: A, n: int, y: A):
    i = wp.tid()
    total = F(0.0)
    for _ in range(n):
        total = total * F(0.5) + settle(y, i, x[i])
    y[i] = total * y[i]


@wp.kernel
def stores_that_never_happen(x: A, n: int, y: A):
    i = wp.tid()
    if n > 10:  # noqa: SIM102 - conditions that contradict each other
        if n < 10:
            y[i] += x[i]


# Components


@wp.kernel
def components(x: A, n: int, y: A):
    i = wp.tid()
    v = wp.vec3d(x[i], x[i] * x[i], F(1.0))
    for k in range(n):
        v[k % 3] = v[(k + 1) % 3] * x[i] + F(0.1)
        v.x = wp.sin(v.y) + v.x * y[i]
    y[i] = wp.dot(v, v)


@wp.kernel
def entries(x: A, n: int, y: A):
    i = wp.tid()
    m = wp.mat22d(x[i], F(1.0), F(0.5), y[i])
    for k in range(n):
        m[k % 2, 1] *= wp.sin(m[0, 0])
        m[1] = F(0.4) * (m[0] + m[1])
    y[i] = wp.ddot(m, m)


@wp.kernel
def normalised(x: A, n: int, y: A):
    i = wp.tid()
    v = wp.vec3d(x[i], y[i], F(0.3))
    for _ in range(n):
        v = wp.normalize(v + wp.cross(v, wp.vec3d(F(0.1), x[i], F(0.7))))
        v[1] += F(0.05) * wp.length(v)
    y[i] = v[0] - v[1] * v[2]


# Atomic operations


@wp.kernel
def summed(x: A, n: int, y: A):
    i = wp.tid()
    for k in range(n):
        wp.atomic_add(y, (i * 3 + k) % 4, F(0.1) * x[i] * x[(i + k) % 5])
        y[(i + k) % 4] -= F(0.02) * wp.sin(x[i])


@wp.kernel
def old_values(x: A, n: int, y: A):
    i = wp.tid()
    v = x[i]
    y[i] -= F(0.25)
    for _ in range(n):
        v = F(0.3) * wp.atomic_add(y, i, wp.sin(v * x[i])) * v + F(0.1)
        v += wp.atomic_exch(y, i, v)
    y[i] += v * v


@wp.kernel
def exchanged_in_turn(x: A, n: int, y: A):
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        v = wp.atomic_exch(y, i, wp.sin(v) + F(0.3))
    y[i] *= v


@wp.kernel
def added_and_emptied(x: A, n: int, y: A):
    i = wp.tid()
    before = y[i]
    y[i] = F(0.0)
    for k in range(n):
        y[i] += F(0.1) * before * x[(i + k) % 5]


# Arrays of a thread's own


@wp.kernel
def own_ring(x: A, n: int, y: A):
    i = wp.tid()
    a = wp.zeros(shape=4, dtype=F)
    a[0] = y[i]
    for k in range(n):
        a[(k + 1) % 4] = a[k % 4] * x[i] + F(0.1) * x[(i + k) % 5]
    y[i] = a[0] * a[1] + a[2] * a[3]


@wp.kernel
def own_table(x: A, n: int, y: A):
    i = wp.tid()
    for k in range(n):
        a = wp.zeros(shape=(2, 2), dtype=F)
        a[0, k % 2] = y[i]
        a[1, 0] = a[0, 0] * x[i]
        a[1, 1] += a[1, 0] + a[0, 1] * x[(i + k) % 5]
        y[i] = wp.sin(a[1, 1]) + F(0.5) * a[0, 1]


@wp.kernel
def own_vectors(x: A, n: int, y: A):
    i = wp.tid()
    a = wp.zeros(shape=3, dtype=wp.vec2d)
    for k in range(n):
        a[k % 3] = wp.vec2d(x[i], y[i]) * F(0.5) - a[(k + 2) % 3] * x[(i + k) % 5]
        a[(k + 1) % 3].y *= x[i]
    y[i] = wp.length(a[0] + a[1]) + a[2].x


# Names that stand for one of several arrays


@wp.struct
class Held:
    a: A
    k: F


@wp.kernel
def one_of_several(x: A, n: int, y: A):
    i = wp.tid()
    own = wp.zeros(shape=2, dtype=F)
    own[0] = y[i]
    h = Held(x, F(0.5))
    p = x[i:]
    part = x
    s = y[i]
    for k in range(n):
        if (k + i) % 4 == 2:
            h.a = p
            p = x
            continue
        if k % 3 == 1:
            h = Held(own, F(0.3) + x[i])
            part = x[k % 3 :]
        s = wp.sin(s * p[0] + h.a[0] * h.k)
        if k == 40:
            break
        p = part if k % 4 == 3 else own
    y[i] = s + p[0] * p[0]


KINDS = {
    "carried": (power, newton, nested, in_a_function, matrix_chain, swapped, set_back, replaced_by_a_constant),
    "final": (mean_square, norm, softmax),
    "jump": (broken_off, continued, returned_early),
    "while": (halved, strided, forever),
    "overwritten": (multiplied_in_place, added_to_itself, ping_pong, changed_by_a_function, stores_that_never_happen),
    "component": (components, entries, normalised),
    "atomic": (summed, old_values, exchanged_in_turn, added_and_emptied),
    "local": (own_ring, own_table, own_vectors),
    "several": (one_of_several,),
}
