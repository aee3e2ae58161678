"""Kernels that mean the same in Warp, as those in warp_parity_kernels: names of one of several arrays."""

import jwarp as wp


@wp.struct
class View:
    data: wp.array[float]
    start: int
    scale: float


@wp.struct
class Pair:
    left: View
    right: wp.array[float]


@wp.func
def chosen(x: wp.array[float], y: wp.array[float], k: int) -> View:
    v = View()
    if k > 20:
        v.data = x
        v.start = 1
    elif k > -20:
        v.data = y[2:]
        v.scale = 2.0
    return v


@wp.func
def first_above(x: wp.array[float], y: wp.array[float], limit: float):
    """An array that a loop returns."""
    for j in range(x.shape[0]):
        if x[j] > limit:
            return x[j:]
        if y[j] > limit:
            return y
    return y[3:]


@wp.kernel
def several_arrays(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    # two conditional exchanges
    p = x
    q = y
    if a[i] > 0:
        t = p
        p = q
        q = t
    if b[i] > 0:
        t = p
        p = q
        q = t
    real[0, i] = p[i] + 10.0 * q[i]
    # a slice or a row on one side
    r = x
    if a[i] > 10:
        r = y[i % 7 :]
    elif a[i] > -30:
        r = real[0]
        r = x[::2]
    real[1, i] = r[3] + float(r.shape[0])
    # a loop with an end that is met
    s = x
    for j in range(20):
        if j == (a[i] + 100) % 23:
            break
        if (b[i] + j) % 3 == 0:
            s = y
            continue
        if (b[i] + j) % 3 == 1:
            s = x[j + 1 :]
    real[2, i] = s[2]
    u = y[1:]
    k = int(0)
    while k < a[i] % 5 + 5:
        u = u[1:] if k % 2 == 0 else x[k:]
        k += 1
        if u[0] > 8.0:
            break
    real[3, i] = u[1] + float(u.shape[0])
    # structs that arrays are in
    v = View(x, 3, 1.0)
    if a[i] > 0:
        v = View(y, 2, 3.0)
    if b[i] > 30:
        v.data = x[4:]
    w = chosen(x, y, a[i])
    pair = Pair(v, y)
    if b[i] < 0:
        pair.left = w
        pair.right = x
    real[4, i] = v.data[v.start] * v.scale
    if a[i] > -20:
        real[5, i] = w.data[w.start] * w.scale
        real[6, i] = pair.left.data[pair.left.start] + pair.right[i]
    # a name of some branches only
    if a[i] > 5:
        only = x
    elif a[i] < -5:
        only = y[3:]
    if wp.abs(a[i]) > 5:
        real[7, i] = only[i % 20]
    # a name that each trip of a loop sets, and a struct that trips change
    m = View(y, 0, 1.0)
    for j in range(b[i] % 3 + 4):
        row = x[j:]
        if j > 2:
            row = y
        if a[j] > 0:
            m.data = row
        m.scale += row[1]
    real[8, i] = row[2] + m.data[5] * m.scale
    real[9, i] = first_above(x, y, y[i] + 2.0)[1]


@wp.func
def renamed(z: wp.array[float], v: float):
    """An array argument of a function stays the caller's under any name; a local array is copied."""
    w = z
    w[0] = v
    own = wp.zeros(2, dtype=float)
    other = own
    other[0] = 7.0
    return own[0] + own[1]


@wp.kernel
def copies_of_own_arrays(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    whole: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    z = wp.zeros(3, dtype=float)
    z[1] = x[i]
    w = z
    w[0] = 10.0
    z[2] = y[i]
    real[0, i] = z[0] + z[1] + 3.0 * z[2] + w[0] + w[1] + 5.0 * w[2]
    if a[i] > 0:
        z = w
    z[0] = z[0] + 1.0
    real[1, i] = z[0] + 2.0 * w[0]
    either = w if b[i] > 0 else z
    either[1] = 50.0
    real[2, i] = either[0] + w[1] + z[1]
    for j in range(a[i] % 4 + 5):
        trip = z
        trip[0] += float(j)
        z[1] += trip[0]
    real[3, i] = z[0] + z[1]
    real[4, i] = renamed(w, y[i]) + w[0]
    row = z[1:]
    row[0] = 4.0
    real[5, i] = z[1] + row[1]
    wide = wp.zeros(shape=(2, 40), dtype=wp.vec3)
    wide[1, 30] = wp.vec3(x[i], y[i], 1.0)
    later = wide
    later[1, 30].x = 3.0
    real[6, i] = wp.dot(wide[1, 30], later[1, 30])
