"""The kernels of random programs."""

import jwarp as wp


@wp.struct
class Pair:
    scale: float
    shift: wp.vec2
    source: wp.array[float]
    target: wp.array[float]


@wp.kernel
def gather(x: wp.array[float], idx: wp.array[int], c: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = c * x[idx[i] % x.shape[0]]


@wp.kernel
def scatter(x: wp.array[float], idx: wp.array[int], c: float, y: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(y, idx[i] % y.shape[0], c * wp.sin(x[i]))


@wp.kernel
def own(x: wp.array[float], c: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(0.7 * y[i] + c * x[i] * x[i])


@wp.kernel
def twice(x: wp.array[float], c: float, y: wp.array[float]):
    i = wp.tid()
    y[i] += c * x[i]
    y[i] = wp.sin(y[i]) * x[i]


@wp.kernel
def stencil(x: wp.array[float], c: float, y: wp.array[float]):
    i = wp.tid()
    total = 2.0 * x[i]
    if i > 0:
        total -= x[i - 1]
    if i + 1 < x.shape[0]:
        total -= c * x[i + 1]
    y[i] = wp.sin(total)


@wp.kernel
def product(x: wp.array[float], z: wp.array[float], w: wp.vec2, y: wp.array[float]):
    i = wp.tid()
    y[i] = w[0] * x[i] * z[i] + w[1] * wp.cos(z[i])


@wp.kernel
def total(x: wp.array[float], c: float, y: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(y, 0, c * wp.sin(x[i]))


@wp.kernel
def greatest(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    wp.atomic_max(y, 0, x[i])


@wp.kernel
def prefix(x: wp.array[float], c: float, y: wp.array[float]):
    i = wp.tid()
    s = float(0.0)
    for j in range(i + 1):
        s = wp.sin(c * s + x[j])
    y[i] = s


@wp.kernel
def of_struct(p: Pair):
    i = wp.tid()
    p.target[i] = p.scale * wp.sin(p.source[i]) + p.shift[0] * p.target[i] + p.shift[1]


@wp.kernel
def matrix_rows(m: wp.array2d[float], x: wp.array[float], y: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(y, i, 0.3 * m[i, j] * x[j])


@wp.kernel
def outer(x: wp.array[float], y: wp.array[float], m: wp.array2d[float]):
    i, j = wp.tid()
    m[i, j] = wp.sin(m[i, j] + x[i] * y[j])


@wp.kernel
def from_indexed(x: wp.indexedarray(dtype=float), c: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(c * x[i] + y[i])


@wp.kernel
def from_points(p: wp.array[wp.vec3], c: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(c * wp.dot(p[i], p[i]) + p[i][1])


@wp.kernel
def to_points(x: wp.array[float], p: wp.array[wp.vec3]):
    i = wp.tid()
    p[i] = wp.vec3(wp.sin(x[i]), 0.5 * p[i][0], p[i][2] * wp.cos(x[i]))


@wp.kernel
def near(grid: wp.uint64, p: wp.array[wp.vec3], h: float, y: wp.array[float]):
    i = wp.tid()
    s = float(0.0)
    for j in wp.hash_grid_query(grid, p[i], h):
        d = h * h - wp.length_sq(p[j] - p[i])
        if d > 0.0:
            s += d * d
    y[i] = wp.sin(s)


@wp.kernel
def nearest(mesh: wp.uint64, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    q = wp.vec3(x[i], 0.3 * float(i), 0.5)
    found = wp.mesh_query_point_no_sign(mesh, q, 100.0)
    if found.result:
        y[i] = wp.sin(wp.length_sq(wp.mesh_eval_position(mesh, found.face, found.u, found.v) - q))


@wp.kernel
def mix(idx: wp.array[int], k: int, out: wp.array[int]):
    i = wp.tid()
    out[i] = (idx[i] * 3 + i + k) % 12


@wp.kernel
def count_down(c: wp.array[int]):
    c[0] = c[0] - 1


@wp.kernel
def set_from(idx: wp.array[int], most: int, c: wp.array[int]):
    c[0] = idx[0] % most


@wp.kernel
def accumulate(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] += x[i]


@wp.kernel
def sine(c: float, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(c * x[i])
