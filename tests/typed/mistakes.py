"""Mistakes that type checkers find before a kernel is compiled: each line with `# wrong` is one, no other line is."""

import jwarp as wp


@wp.struct
class Spring:
    stiffness: float
    rest: wp.vec3


@wp.func
def half(x: float) -> float:
    return 0.5 * x


@wp.kernel
def k(x: wp.array[float], y: wp.array2d[wp.vec3], z: wp.array[wp.float64], s: Spring) -> None:
    i = wp.tid()
    x[i] = wp.sinn(x[i])  # wrong: no such function
    x[i] = wp.sin(x[i], x[i])  # wrong: one argument too many
    x[i] = wp.clamp(x[i], low=0.0, hi=1.0)  # wrong: the parameter is `high`
    x[i] = wp.length(x[i])  # wrong: not a vector
    y[0, 0] = wp.cross(y[0, 0], wp.vec2(1.0, 2.0))  # wrong: two types
    x[i] = y[0, 0]  # wrong: a vector is no element of x
    x[i] = s.stifness  # wrong: no such field
    s = Spring(stiffness=1.0, rst=wp.vec3())  # wrong: no such field
    z[i] = z[i] * x[i]  # wrong: float64 times float32
    z[i] = 1.0  # wrong: a float32
    x[i] = half(y[0, 0])  # wrong: not a float
    x[i] = wp.vec3(1.0, 2.0)[0]  # wrong: three components
    x[i] = y[0, 0].w  # wrong: there is no fourth
    x[i] = x.shape[1] + x[i]  # wrong: one dimension
    z[0, 0] = z[i]  # wrong: one dimension
    wp.atomic_add(x, i, y[0, 0])  # wrong: a vector is no element of x
    x[i] = wp.volume_sample_f()  # wrong: not yet there


wp.launch(k, 1, inptus=[])  # wrong: the keyword is `inputs`
wp.launch(half, 1, [1.0])  # wrong: not a kernel
