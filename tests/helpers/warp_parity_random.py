"""Kernels of random numbers and noise, which jwarp and Warp both run."""

import jwarp as wp


@wp.kernel
def streams(
    seed: int,
    cdf: wp.array[float],
    mean: wp.array[float],
    u: wp.array2d[wp.uint32],
    n: wp.array2d[int],
    x: wp.array2d[float],
):
    i = wp.tid()
    s = wp.rand_init(seed, i)
    u[i, 0] = s
    n[i, 0] = wp.randi(s)
    n[i, 1] = wp.randi(s, -7, 12)
    n[i, 2] = wp.randi(s, low=i, high=i + 3)
    u[i, 1] = wp.randu(s)
    u[i, 2] = wp.randu(s, wp.uint32(3), wp.uint32(2000000000))
    u[i, 3] = wp.rand_init(i - 5)
    x[i, 0] = wp.randf(s)
    x[i, 1] = wp.randf(s, -2.0, 3.0)
    d = wp.sample_unit_square(s)
    q = wp.sample_unit_cube(s)
    n[i, 3] = wp.sample_cdf(s, cdf)
    a = wp.sample_triangle(s)
    b = wp.sample_unit_ring(s)
    c = wp.sample_unit_disk(s)
    e = wp.sample_unit_sphere_surface(s)
    f = wp.sample_unit_sphere(s)
    g = wp.sample_unit_hemisphere_surface(s)
    h = wp.sample_unit_hemisphere(s)
    for k in range(2):
        x[i, 2 + k] = d[k]
        x[i, 7 + k] = a[k]
        x[i, 9 + k] = b[k]
        x[i, 11 + k] = c[k]
    for k in range(3):
        x[i, 4 + k] = q[k]
        x[i, 13 + k] = e[k]
        x[i, 16 + k] = f[k]
        x[i, 19 + k] = g[k]
        x[i, 22 + k] = h[k]
    x[i, 25] = wp.randn(s)
    u[i, 4] = wp.poisson(s, mean[i])
    u[i, 5] = s


@wp.func
def draws(state: wp.uint32):
    wp.randf(state)
    return state


@wp.func
def apply(f: wp.Function, state: wp.uint32):
    x = wp.float32(0.0)
    for _ in range(2):
        x += f(state)
    return state


@wp.struct
class Generator:
    state: wp.uint32


@wp.kernel
def states(seed: wp.uint32, stored: wp.array[wp.uint32], out: wp.array2d[wp.uint32]):
    i = wp.tid()
    a = wp.rand_init(42, i)
    b = a
    wp.randf(b)
    out[i, 0] = a
    out[i, 1] = b
    out[i, 2] = draws(a)
    out[i, 3] = a
    wp.randf(stored[i])
    out[i, 4] = stored[i]
    wp.randf(seed)
    out[i, 5] = seed
    g = Generator()
    g.state = wp.uint32(7)
    wp.randf(g.state)
    out[i, 6] = g.state
    v = wp.vector(wp.uint32(3), wp.uint32(4))
    wp.randf(v[0])
    wp.randf(v.y)
    out[i, 7] = v[0] + v[1]
    for _ in range(3):
        wp.randi(a)
    out[i, 8] = a
    for _ in range(i + 20):
        if wp.randf(a) < 0.5:
            wp.randf(state=a)
    out[i, 9] = a
    while wp.randf(a) < 0.9:
        out[i, 10] += wp.uint32(1)
    out[i, 11] = a
    w = wp.randf(a) if i % 2 == 0 else 1.0
    out[i, 12] = a
    if w < 0.5 and wp.randf(a) < 0.5:
        w = 3.0
    out[i, 13] = a
    if w < 0.5 or wp.randf(a) < 0.5:
        w = 4.0
    out[i, 14] = a
    out[i, 15] = apply(wp.randf, a)
    out[i, 16] = a
    for _ in range(i + 1):
        for _ in range(i):
            wp.randu(a)
    out[i, 17] = a
    for _ in range(i + 2):
        fresh = wp.rand_init(i)
        if i % 3 == 0:
            wp.randu(fresh)
        out[i, 18] += fresh
    while True:
        if wp.randf(a) > 0.7:
            break
        if wp.randf(a) > 0.7:
            continue
        out[i, 19] += wp.uint32(1)
    out[i, 20] = a


@wp.kernel
def noises(seed: int, p: wp.array[wp.vec4], x: wp.array2d[float]):
    i = wp.tid()
    s = wp.rand_init(seed)
    v = p[i]
    xy = wp.vec2(v[0], v[1])
    xyz = wp.vec3(v[0], v[1], v[2])
    x[i, 0] = wp.noise(s, v[0])
    x[i, 1] = wp.noise(s, xy)
    x[i, 2] = wp.noise(s, xyz)
    x[i, 3] = wp.noise(s, v)
    x[i, 4] = wp.pnoise(s, v[0], 3)
    x[i, 5] = wp.pnoise(s, xy, 3, 2)
    x[i, 6] = wp.pnoise(s, xyz, 3, 2, 5)
    x[i, 7] = wp.pnoise(s, v, 3, 2, 5, pt=1)
    a = wp.curlnoise(s, xy)
    b = wp.curlnoise(s, xyz, wp.uint32(3), 1.75, 0.6)
    c = wp.curlnoise(s, v, octaves=wp.uint32(2))
    for k in range(2):
        x[i, 8 + k] = a[k]
    for k in range(3):
        x[i, 10 + k] = b[k]
        x[i, 13 + k] = c[k]
