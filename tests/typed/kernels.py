"""A program with most of what kernels have, as its author would write it: type checkers find nothing in it."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

import jwarp as wp

T = TypeVar("T")
TILE = wp.constant(8)
GRAVITY = wp.vec3(0.0, -9.81, 0.0)


@wp.struct
class Material:
    stiffness: float
    damping: float
    rest: wp.vec3
    weights: wp.array[float]


@wp.struct
class Body:
    material: Material
    frame: wp.mat33


@wp.func
def pull(x: wp.vec3, y: wp.vec3, stiffness: float) -> wp.vec3:
    d = y - x
    size = wp.length(d)
    if size > 0.0:
        return stiffness * (d / size)
    return wp.vec3()


@wp.func
def halves(x: float) -> tuple[float, float]:
    return 0.5 * x, x - 0.5 * x


@wp.func
def applied(f: wp.Function, x: float) -> float:
    result: float = f(x)
    return result


@wp.func(name="square")
def squared(x: wp.float64) -> wp.float64:
    return x * x


@wp.func
def longest(v: Any, lower: int) -> int:
    return lower + int(wp.argmax(v))


@wp.kernel
def step(
    x: wp.array[wp.vec3],
    v: wp.array[wp.vec3],
    neighbours: wp.array2d[int],
    body: Body,
    dt: float,
    new_x: wp.array[wp.vec3],
    energy: wp.array[float],
) -> None:
    i = wp.tid()
    force = wp.vec3(0.0) + GRAVITY
    for k in range(neighbours.shape[1]):
        j = neighbours[i, k]
        if j < 0 or j >= x.shape[0]:
            continue
        force += pull(x[i], x[j], body.material.stiffness)
    force -= body.material.damping * v[i]
    turned = body.frame @ (x[i] - body.material.rest)
    turned = wp.transpose(body.frame) * turned + wp.cross(turned, force)
    spin = wp.outer(turned, turned) - wp.identity(n=3, dtype=float)
    spin[0, 1] = spin[1, 0] + wp.trace(spin)
    row = spin[2]
    row.x = wp.max(row.x, 0.0)
    row[1] = wp.sin(row.y) + wp.clamp(row.z, 0.0, 1.0)
    new_x[i] = x[i] + dt * v[i] + (dt * dt) * (force + row)
    weight = body.material.weights[i]
    wp.atomic_add(energy, 0, 0.5 * weight * wp.dot(v[i], v[i]))


@wp.kernel(enable_backward=False)
def counts(values: wp.array2d[wp.float64], bits: wp.array[wp.uint32], out: wp.array2d[wp.float64]) -> None:
    i, j = wp.tid()
    local = wp.zeros(4, dtype=wp.float64)
    grid = wp.zeros(shape=(2, 2), dtype=float)
    for k in range(4):
        local[k] = squared(values[i, j]) * wp.float64(k)
    a, b = halves(float(values[i, j]))
    grid[0, 1] = applied(wp.cos, a + b)
    n = bits[i] & wp.uint32(0xFF)
    if n > wp.uint32(3) and not wp.isnan(values[i, j]):
        bits[i] = n >> wp.uint32(1)
    row = out[i]
    row[j] = wp.where(values[i, j] > 0.0, local[3], wp.float64(grid[0, 1]))
    out[i, j] += wp.sqrt(values[i, j])
    index = i * 2
    index = index + longest(wp.vec2(a, b), 0)
    wp.atomic_max(out, i, j, wp.float64(index))
    wp.printf("%d\n", index)


@wp.kernel
def blocks(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float], total: wp.array[float]) -> None:
    i, j = wp.tid()
    left = wp.tile_load(a, shape=(TILE, TILE), offset=(i * TILE, 0))
    right = wp.tile_load(b, shape=(TILE, TILE), offset=(0, j * TILE))
    product = wp.tile_zeros(shape=(TILE, TILE), dtype=float)
    wp.tile_matmul(left, right, product)
    product = 2.0 * product + wp.tile_map(wp.sin, left)
    wp.tile_store(c, product, offset=(i * TILE, j * TILE))
    wp.tile_atomic_add(total, wp.tile_sum(product))


@wp.kernel
def factors(m: wp.array[wp.mat33], out: wp.array[wp.vec3]) -> None:
    i = wp.tid()
    u, s, v = wp.svd3(m[i])
    m[i] = u @ wp.diag(s) @ wp.transpose(v)
    out[i] = wp.get_diag(wp.inverse(m[i])) * wp.determinant(u)


@wp.func
def doubled(x: wp.Float) -> wp.Float:
    return x + x


@wp.func
def slot(counter: wp.array[int], slots: wp.array[int], i: int) -> int:
    slots[i] = wp.atomic_add(counter, 0, 1)
    return slots[i]


@wp.func_replay(slot)
def slot_again(counter: wp.array[int], slots: wp.array[int], i: int) -> int:
    return slots[i]


@wp.kernel
def generic(x: wp.array[Any], k: Any, y: wp.array[Any]) -> None:
    i = wp.tid()
    y[i] = k * doubled(x[i]) + x.dtype(1.0)


@wp.kernel
def of_variables(x: wp.array[T], k: wp.Float, y: wp.array2d[T]) -> None:
    i = wp.tid()
    y[i, 0] = x[i]
    _dx, _dk = wp.grad(wp.atan2)(k, doubled(k))


@wp.struct
class Frame:
    x: wp.transform
    v: wp.spatial_vector


@wp.kernel
def frames(
    a: wp.array[wp.transform], b: wp.array[Frame], q: wp.quat, d: wp.quatd, v: wp.vec3, o: wp.array[wp.quat]
) -> None:
    i = wp.tid()
    a[i].p += wp.vec3(1.0, 2.0, 3.0)
    a[i].p[1] = 5.0
    a[i].q = q * q * 2.0 - wp.lerp(q, wp.quat(v, 1.0), 0.5)
    t = wp.mul(a[i], wp.transform(v, wp.quat_identity()) * wp.transform(*v, *q))
    t.q.w = 7.0
    axis, angle = wp.quat_to_axis_angle(q)
    twist = wp.spatial_vector(axis, wp.quat_rotate(q, v) + wp.transform_point(t, v))
    b[i].v = wp.spatial_cross(twist, twist) * angle
    p, r, _scale = wp.transform_decompose(wp.transform_to_matrix(t))
    wp.transform_set_translation(t, p)
    x, y, _z, _w = wp.quat_slerp(r, wp.normalize(q), 0.5)
    o[i] = wp.where(x > y and wp.isfinite(q), wp.quat(d * wp.quat_inverse(d)), -q / 2.0)


def main() -> None:
    n = 16
    x = jnp.zeros((n, 3))
    material = Material(stiffness=10.0, damping=0.1, rest=wp.vec3(), weights=jnp.ones(n))
    body = Body(material, frame=wp.mat33(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0))
    neighbours = jnp.zeros((n, 4), jnp.int32)
    moved, energy = wp.launch(step, n, [x, x, neighbours, body, 0.1], [(n, 3), (1,)])
    stepped = wp.jax_kernel(step, num_outputs=2, launch_dims=n, output_dims={"new_x": n, "energy": 1})
    moved, energy = jax.jit(stepped)(x, x, neighbours, body, 0.1)
    matrices = np.eye(3, dtype=np.float32)[None]
    recorded = wp.launch(factors, 1, [], [matrices, np.zeros((1, 3), np.float32)], record_cmd=True)
    recorded.launch()
    named = wp.launch(factors, 1, outputs={"m": jnp.asarray(matrices), "out": 1})
    print(named["out"].shape)
    instance = wp.overload(generic, [wp.array[float], float, wp.array[float]])
    wp.overload(of_variables, {"x": wp.array[wp.vec3], "k": wp.float64})
    (y,) = wp.launch(instance, n, [jnp.ones(n), 2.0], [n])
    (y,) = wp.jax_kernel(generic)(jnp.ones(n), 2.0)
    print(generic[wp.float64], wp.map(wp.sin, y), wp.map(lambda a, b: a * b, y, 2.0))
    with wp.config(bounds="unchecked"):
        print(wp.inspect(step), wp.sin(1.0), wp.pi, moved, energy)


if __name__ == "__main__":
    main()
