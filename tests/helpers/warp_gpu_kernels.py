"""The kernels of the figures as Warp compiles them for a GPU, in a module of its own, as Warp wants."""

import warp

# Warp reads annotations when a function is decorated.
_array = warp.array(dtype=float)
_vectors = warp.array(dtype=warp.vec3)
_grid = warp.array3d(dtype=float)


@warp.kernel
def bodies(p: _vectors, m: _array, f: _vectors):
    i = warp.tid()
    total = warp.vec3(0.0)
    for j in range(p.shape[0]):
        d = p[j] - p[i]
        r2 = warp.dot(d, d) + 1.0e-4
        total += d * (m[j] / (r2 * warp.sqrt(r2)))
    f[i] = total


@warp.kernel
def stencil(u: _grid, out: _grid):
    i, j, k = warp.tid()
    if i > 0 and j > 0 and k > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1 and k < u.shape[2] - 1:
        around = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
        out[i, j, k] = u[i, j, k] + 0.1 * (around - 6.0 * u[i, j, k])


def launches(wp, p, m, u):
    """For each kernel, a function that launches it and one that reads its result."""
    device = "cuda:0"
    given = [wp.array(p, dtype=wp.vec3, device=device), wp.array(m, dtype=float, device=device)]
    forces = wp.zeros(len(m), dtype=wp.vec3, device=device)
    grid, made = wp.array(u, dtype=float, device=device), wp.zeros(u.shape, dtype=float, device=device)
    return {
        "bodies": (lambda: wp.launch(bodies, len(m), [*given], [forces], device=device), forces.numpy),
        "stencil": (lambda: wp.launch(stencil, u.shape, [grid], [made], device=device), made.numpy),
    }
