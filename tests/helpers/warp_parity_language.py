"""More kernels that mean the same in Warp, as those in warp_parity_kernels: slices, stars, operators."""

# ruff: noqa: F811
import jwarp as wp
from jwarp import vec3


@wp.struct
class Complex:
    re: float
    im: float


@wp.func
def add(p: Complex, q: Complex) -> Complex:
    return Complex(p.re + q.re, p.im + q.im)


@wp.func
def mul(p: Complex, q: Complex) -> Complex:
    return Complex(p.re * q.re - p.im * q.im, p.re * q.im + p.im * q.re)


@wp.func
def mul(s: float, q: Complex) -> Complex:
    return Complex(s * q.re, s * q.im)


@wp.func
def total(u: wp.array[float]):
    s = float(0.0)
    for k in range(u.shape[0]):
        s += u[k] * float(k + 1)
    return s


@wp.func
def put(u: wp.array[int], value: int):
    u[0] = value
    u[-1] = value + 1
    u[1] += 2


@wp.kernel
def slices(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    n = x.shape[0]
    real[0, i] = total(x[1:5])
    real[1, i] = total(x[: i + 1])
    real[2, i] = total(x[i:])
    real[3, i] = total(x[i::3])
    real[4, i] = total(x[40:i:-2])
    real[5, i] = total(x[::-1])
    real[6, i] = total(x[-7:-2])
    rest = y[2:]
    real[7, i] = rest[0] + rest[i % (n - 2)] + rest[-1] + total(rest[i % 5 : 9])
    middle = y[8:20]
    real[8, i] = total(middle[::-1]) + total(middle[2:-2]) + total(middle[::4])
    column = real[:, i]
    column[9] = x[i]
    column[10] += y[i]
    put(out[2:6, i], a[i])
    lower = out[10:15]
    lower[1, i] = b[i]
    lower[-1, i] = lower.shape[0] * 100 + lower.shape[1]
    out[15, i] = len(out[:, i]) + x[3:3].shape[0] + x[5:2].shape[0] + x[60:1000].shape[0]


@wp.kernel
def stars(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    v = wp.vec3(*x[:3])
    real[0, i] = v[0] + 2.0 * v[1] + 3.0 * v[2]
    w = wp.vec4(y[i], *v)
    real[1, i] = wp.dot(w, w)
    real[2, i] = wp.max(*x[i % 1 : 2]) if False else wp.max(*y[3:8:4])
    u = wp.vec3i(*a[2:5])
    out[0, i] = u[0] + 2 * u[1] + 3 * u[2]
    m = wp.matrix_from_rows(*wp.mat22(x[i], y[i], 1.0, 2.0))
    real[3, i] = m[0, 0] + 2.0 * m[0, 1] + 3.0 * m[1, 0] + 4.0 * m[1, 1]
    real[4, i] = vec3(x[i], 2.0, 3.0)[0]


@wp.kernel
def operators_by_name(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    p = Complex(x[i], y[i])
    q = Complex(im=2.0, re=y[i])
    r = p * q + 0.5 * p
    r += q
    r *= p
    real[0, i] = r.re
    real[1, i] = r.im
    real[2, i] = x[i] + y[i] * x[i]


@wp.kernel
def backwards(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    s = int(0)
    for j in reversed(range(a[i] % 7, b[i] % 9)):
        s = s * 3 + j
    out[0, i] = s
    s = int(0)
    for j in reversed(range(b[i] % 9, a[i] % 7, -1)):
        s = s * 3 + j
    out[1, i] = s
    s = int(0)
    for j in reversed(range(a[i] % 20, b[i] % 20, b[i] % 3 + 4)):
        s = s * 3 + j
    out[2, i] = s
    s = int(0)
    for j in reversed(range(5)):
        s = s * 10 + j
    out[3, i] = s
    s = int(0)
    for j in reversed(range(b[i] % 20, a[i] % 20, -3)):
        if j == 2:
            continue
        s = s * 3 + j
        if s > 1000:
            break
    out[4, i] = s


@wp.struct
class Body:
    v: wp.vec3
    n: int
    w: float


@wp.func
def bump(u: wp.ref[float], by: float):
    u = u * 0.5 + by
    return u


@wp.func
def exchange(u: wp.ref[float], v: wp.ref[float]):
    u, v = v, u


@wp.func
def move(s: wp.ref[Body], k: float):
    s.v[1] += k
    s.n += 1
    bump(s.w, k)


@wp.func
def count(t: tuple[int, ...]):
    s = wp.int32(0)
    for i in range(wp.static(len(t))):
        s += t[i]
    return s


@wp.kernel
def references(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    real[0, i] = x[i]
    bump(real[0, i], 3.0)
    s = Body()
    for j in range(a[i] % 5 + 5):
        move(s, y[j])
        bump(s.v[0], 1.0)
        bump(s.v[2], float(j))
    real[1, i] = s.v[0]
    real[2, i] = s.v[1]
    real[3, i] = s.v[2]
    real[4, i] = s.w
    two = (1, b[i])
    one = (a[i],)
    out[0, i] = s.n + count(two) + count(one) + x.ndim + out.ndim
    u = float(x[i])
    v = float(y[i])
    if a[i] > 0:
        exchange(u, v)
    real[5, i] = u
    real[6, i] = v


@wp.struct
class Inner:
    v: wp.vec3
    m: wp.mat22


@wp.struct
class Outer:
    inner: Inner
    k: float
    n: int


@wp.func
def halved(o: Outer) -> tuple[Outer, float]:
    o.inner.v *= 0.5
    return o, o.k


@wp.kernel
def assorted(
    a: wp.array[int],
    b: wp.array[int],
    x: wp.array[float],
    y: wp.array[float],
    out: wp.array2d[int],
    real: wp.array2d[float],
):
    i = wp.tid()
    o = Outer()
    o.n = 2
    o.k = x[i]
    o.inner.v.x += y[i]
    o.inner.v[1] -= x[i]
    o.inner.m[0, 1] = 3.0
    o.inner.m[1][0] += 2.0
    copied = o
    copied.k += 10.0
    copied.inner.v.z = 5.0
    p, k = halved(copied)
    real[0, i] = o.k + o.inner.v[2]
    real[1, i] = p.inner.v[0] + p.inner.v[1] * 10.0 + p.inner.v[2] * 100.0 + copied.inner.v[2]
    real[2, i] = k
    v = o.inner.v if a[i] > 0 else p.inner.v
    real[3, i] = v[0] + v[1]
    q = p if a[i] < b[i] < 50 else o
    real[4, i] = q.k
    m = o.inner.m
    m[1] = wp.vec2(x[i], 1.0)
    m *= 2.0
    real[5, i] = m[0, 1] + m[1, 0] + m[1, 1]
    assert o.n == 2, "a message"
    t = (a[i], x[i], o)
    out[0, i] = t[0] + t[2].n
    c = int(0)
    while True:
        c += 1
        if c > 3 and a[i] != c:
            break
        if c % 2:
            continue
        c += 1
    out[1, i] = c
    out[2, i] = -7 // 2 if a[i] <= 0 else int(y[i] > 0.0)
    if (a[i] > 0) == 1:
        out[3, i] = 5
    z = wp.vec3()
    for d in range(wp.static(3)):
        z[d] = float(d) * x[i]
    real[6, i] = z[0] + z[1] + z[2]
    w = wp.uint32(i)
    if w < 9:
        out[4, i] = 1
    if wp.uint64(i) == 7:
        out[5, i] = 1
